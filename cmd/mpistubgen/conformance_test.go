package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/mpispec"
)

// TestConstants compiles the tables of each ABI against the installed mpi.h and runs the comparison.
func TestConstants(t *testing.T) {
	spec, err := mpispec.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, abi := range abis {
		t.Run(abi.name, func(t *testing.T) {
			cc, err := exec.LookPath("mpicc." + abi.name)
			if err != nil {
				t.Skipf("SKIP: mpicc.%s is not installed", abi.name)
			}
			dir := t.TempDir()
			source, bin := filepath.Join(dir, "constants.c"), filepath.Join(dir, "constants")
			if err := os.WriteFile(source, constantsProgram(spec, abi), 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(cc, "-std=gnu99", "-w", "-o", bin, source).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", cc, err, out)
			}
			runCheck(t, bin)
		})
	}
}

// absent are constants that mpi.h hides from new programs (removed from the standard, or known to Fortran only),
// though the library still has them.
var absent = regexp.MustCompile(`^(LB|UB|COMBINER_\w+_INTEGER|2COMPLEX|2DOUBLE_COMPLEX|LOGICAL[1248]|INTEGER(16)?|REAL2|C_FLOAT16|SESSION_NULL)$`)

// inHeader is what mpi.h calls a constant.
func inHeader(name string) string {
	switch name {
	case "STANDARD_VERSION", "STANDARD_SUBVERSION": // a driver's macro of the short name would be the header's
		return "MPI_" + strings.TrimPrefix(name, "STANDARD_")
	case "COMM_TYPE_NEIGHBORHOOD": // MPICH's extension
		return "MPIX_" + name
	}
	return "MPI_" + name
}

func constantsProgram(spec *mpispec.Spec, abi abiInfo) []byte {
	w := &writer{}
	w.f("#include <mpi.h>\n#include <stdio.h>\n#include <stddef.h>\nstatic int wrong;")
	w.f("static void same(const char *name, long found, long want)\n{\n\tif (found == want) return;\n\tprintf(\"%%s: %%ld, table %%ld\\n\", name, found, want);\n\twrong++;\n}")
	w.f("int main(void)\n{")
	for _, c := range spec.ABI.Constants {
		if v, ok := c.Value(abi.name); ok && v != "symbol" && !absent.MatchString(c.Name) {
			w.f("\tsame(\"%s\", (long)%s, (long)%s);", c.Name, inHeader(c.Name), v)
		}
	}
	for _, o := range spec.ABI.Objects {
		if v, ok := o.Value(abi.name); ok && !absent.MatchString(o.Name) {
			w.f("\tsame(\"%s\", (long)MPI_%s, %s);", o.Name, o.Name, objectValue(o, v, abi))
		}
	}
	statusProgram(w, spec, abi)
	w.f("\treturn wrong != 0;\n}")
	return w.Bytes()
}

func objectValue(o mpispec.Object, v string, abi abiInfo) string {
	if abi.pointers && o.Kind != "keyval" {
		return "(long)(void *)&" + v
	}
	return "(long)(int)" + v
}

func statusProgram(w *writer, spec *mpispec.Spec, abi abiInfo) {
	offset := 0
	size := map[string]int{"int": 4, "size_t": 8}
	for _, f := range spec.ABI.Status {
		if f.ABI != abi.name {
			continue
		}
		w.f("\tsame(\"MPI_Status.%s\", (long)offsetof(MPI_Status, %s), %d);", f.Name, f.Name, offset)
		w.f("\tsame(\"size of MPI_Status.%[1]s\", (long)sizeof(((MPI_Status *)0)->%[1]s), %[2]d);", f.Name, size[f.Type])
		offset += size[f.Type]
	}
	w.f("\tsame(\"size of MPI_Status\", (long)sizeof(MPI_Status), %d);", offset)
	w.f("\tsame(\"size of MPI_Aint\", sizeof(MPI_Aint), 8);\n\tsame(\"size of MPI_Count\", sizeof(MPI_Count), 8);\n\tsame(\"size of MPI_Offset\", sizeof(MPI_Offset), 8);")
}

var declaration = regexp.MustCompile(`\b(\w+)\s+\*?\s*(MPIX?_\w+)\s*\(([^;{]*?)\)\s*(?:__attribute__[^;]*)?;`)

// TestPrototypes compares the shape of every face function with the declaration in the installed mpi.h.
func TestPrototypes(t *testing.T) {
	spec, err := mpispec.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, abi := range abis {
		t.Run(abi.name, func(t *testing.T) {
			cc, err := exec.LookPath("mpicc." + abi.name)
			if err != nil {
				t.Skipf("SKIP: mpicc.%s is not installed", abi.name)
			}
			source := filepath.Join(t.TempDir(), "include.c")
			if err := os.WriteFile(source, []byte("#include <mpi.h>\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			text, err := exec.Command(cc, "-std=gnu99", "-E", "-P", source).Output()
			if err != nil {
				t.Fatal(err)
			}
			if n := comparePrototypes(t, spec, abi, string(text)); n < 200 {
				t.Errorf("found %d declarations to compare, want at least 200", n)
			}
		})
	}
}

func comparePrototypes(t *testing.T, spec *mpispec.Spec, abi abiInfo, text string) int {
	t.Helper()
	n := 0
	for _, m := range declaration.FindAllStringSubmatch(text, -1) {
		f := spec.Function(m[2])
		if f == nil || f.Action == mpispec.Refuse || f.Alias != "" {
			continue
		}
		n++
		want := declaredShape(strings.Join(strings.Fields(m[3]), " "), abi)
		if found := shape(f, abi); found != want {
			t.Errorf("%s: found parameters %s, want %s", f.Name, found, want)
		}
	}
	return n
}

// shape tells how each parameter of a face function is passed: i for an int, l for 64 bits, p for an address.
func shape(f *mpispec.Function, abi abiInfo) string {
	var s strings.Builder
	for _, a := range abiArgs(f) {
		s.WriteString(shapeOf(a.ctype, abi))
	}
	return s.String()
}

var pointerTypes = regexp.MustCompile(`\*|\[|_function\b|_fn\b|MPI_File\b`)

func shapeOf(ctype string, abi abiInfo) string {
	switch {
	case ctype == "...":
		return "v"
	case pointerTypes.MatchString(ctype):
		return "p"
	case regexp.MustCompile(`nx_aint|MPI_(Aint|Count|Offset)\b`).MatchString(ctype):
		return "l"
	case regexp.MustCompile(`MPI_[A-Z]\w+`).MatchString(ctype) && !strings.Contains(ctype, "Fint") && abi.pointers:
		return "p"
	}
	return "i"
}

func declaredShape(params string, abi abiInfo) string {
	if params == "void" || params == "" {
		return ""
	}
	var s strings.Builder
	for p := range strings.SplitSeq(params, ",") {
		s.WriteString(shapeOf(strings.TrimSpace(p), abi))
	}
	return s.String()
}

// TestSymbolSizes compares the sizes of Open MPI's data objects with the installed library.
func TestSymbolSizes(t *testing.T) {
	path := "/usr/lib/x86_64-linux-gnu/libmpi.so.40"
	out, err := exec.Command("nm", "-D", "-S", "--defined-only", path).Output()
	if err != nil {
		t.Skipf("SKIP: %s is not installed", path)
	}
	spec, err := mpispec.Load()
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	for line := range strings.Lines(string(out)) {
		var at, size uint64
		var kind, name string
		if _, err := fmt.Sscanf(line, "%x %x %s %s", &at, &size, &kind, &name); err == nil && strings.Contains("BDR", kind) {
			base, _, _ := strings.Cut(name, "@")
			sizes[base] = int(size)
		}
	}
	for _, s := range spec.ABI.Symbols {
		if sizes[s.Name] != s.Size {
			t.Errorf("%s: table says %d bytes, library %d", s.Name, s.Size, sizes[s.Name])
		}
		delete(sizes, s.Name)
	}
	for name := range sizes {
		t.Errorf("%s: exported, but not in the table", name)
	}
}
