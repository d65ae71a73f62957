package mpispec

import (
	"strings"
	"testing"
	"testing/fstest"
)

const (
	smallObjects   = "comm COMM_NULL 0 0x04000000 ompi_mpi_comm_null 2\n"
	smallConstants = "rank ANY_SOURCE -1 -2 -1\nlength MAX_NAME 8 8 4\n"
)

// parseText reads a description of one chapter.
func parseText(text string) (*Spec, error) {
	return Parse(fstest.MapFS{
		"a.mpi":             {Data: []byte(text)},
		"abi/objects.txt":   {Data: []byte(smallObjects)},
		"abi/constants.txt": {Data: []byte(smallConstants)},
		"abi/symbols.txt":   {Data: []byte("x 4 zero\n")},
		"abi/status.txt":    {Data: []byte("mpich MPI_SOURCE int\n")},
		"abi/taken.txt":     {},
		"abi/fortran.txt":   {},
	})
}

func TestParseFunction(t *testing.T) {
	s, err := parseText(`# a comment
reason large-count: too large
wrap recall driver hot MPI_Gather(BUFFER? sendbuf, inout REQUEST list[n], INT n, out STRING name[MAX_NAME], ref COMM comm) -> AINT +c
alias openmpi MPIX_Gather = MPI_Gather
`)
	if err != nil {
		t.Fatal(err)
	}
	f := s.Function("MPI_Gather")
	if f.Action != Wrap || f.Yield != Recall || !f.Driver || !f.Hot || f.Returns != "AINT" || f.Chapter != "a" || f.Short() != "gather" {
		t.Errorf("found %+v", f)
	}
	want := []Param{
		{In, "BUFFER", true, "sendbuf", ""}, {InOut, "REQUEST", false, "list", "n"}, {In, "INT", false, "n", ""},
		{Out, "STRING", false, "name", "MAX_NAME"}, {Ref, "COMM", false, "comm", ""},
	}
	for i, p := range want {
		if f.Params[i] != p {
			t.Errorf("parameter %d: found %+v, want %+v", i, f.Params[i], p)
		}
	}
	if c := s.Function("MPI_Gather_c"); c == nil || c.Action != Refuse || c.In(OpenMPI) || c.Driver || c.Hot {
		t.Errorf("large-count variant: found %+v", c)
	}
	if a := s.Function("MPIX_Gather"); a.Action != Wrap || a.In(MPICH) || len(a.Params) != 5 {
		t.Errorf("alias: found %+v", a)
	}
	if why, refused := s.RefusedReason("PMPI_Gather_c"); !refused || why != "too large" {
		t.Errorf("reason: found %q %v", why, refused)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"wrap MPI_A(COMM)":                       `a.mpi:1: function MPI_A: parameter "COMM"`,
		"wrap MPI_A(":                            "want action, name and parameters",
		"take MPI_A()":                           `action "take"`,
		"wrap loud MPI_A()":                      `flag "loud"`,
		"refuse MPI_A()":                         "refused without a reason",
		"refuse why MPI_A()":                     `reason "why": not given`,
		"wrap MPI_A()\nlocal MPI_A()":            "a.mpi:2: function MPI_A: described twice",
		"wrap MPI_A(HAT hat)":                    `kind "HAT": unknown`,
		"wrap MPI_A(INT n[m])":                   "no parameter m",
		"wrap MPI_A(INT n[max:n])":               "want sum:, size:, in: or out:",
		"alias MPI_A = MPI_B":                    "no function MPI_B",
		"alias MPI_A":                            "no equals sign",
		"local recall MPI_A()":                   "yields, but is not wrapped",
		"reason x no colon":                      "no text after a colon",
		"reason x: one\nreason x: two":           "given twice",
		"reason x sings: one":                    `found "sings"`,
		"wrap MPI_A() -> HAT":                    `result: kind "HAT"`,
		"alias left MPI_A = MPI_A\nwrap MPI_B()": "want [abi] name",
		"wrap MPI_A()\nalias MPI_B = MPI_A\nalias MPI_C = MPI_B": "alias MPI_C: no function MPI_B",
	} {
		if _, err := parseText(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: found error %v, want %q", text, err, want)
		}
	}
}

func TestABIErrors(t *testing.T) {
	for name, lines := range map[string][]string{
		"abi/objects.txt":   {"comm COMM_NULL 0", "comm COMM_NULL x 1 2 3", "comm COMM_WORLD 5 1 2 3"},
		"abi/constants.txt": {"rank ANY -1 2", "rank ANY x 1 2"},
		"abi/symbols.txt":   {"x 4", "x y zero"},
		"abi/status.txt":    {"mpich x", "lam MPI_TAG int"},
		"abi/taken.txt":     {"mpich f function", "lam f function lib"},
		"abi/fortran.txt":   {"mpi_send f77", "mpi_send lam:f77"},
	} {
		for _, line := range lines {
			files := fstest.MapFS{"abi/objects.txt": {}, "abi/constants.txt": {}, "abi/symbols.txt": {}, "abi/status.txt": {},
				"abi/taken.txt": {}, "abi/fortran.txt": {}}
			files[name] = &fstest.MapFile{Data: []byte("# first\n" + line + "\n")}
			if _, err := Parse(files); err == nil || !strings.Contains(err.Error(), name+":2: ") {
				t.Errorf("%s %q: found error %v, want one that names the line", name, line, err)
			}
		}
	}
}
