package files

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/wire/client"
	"github.com/byssus-hpc/byssus/test/files/standin"
	"github.com/byssus-hpc/byssus/test/harness"
)

// everything compares what programs that make every call print, in a first run and in one that restarts.
func everything(t *testing.T, p *place, first, again string, argv ...string) {
	t.Helper()
	for _, want := range []string{first, again} {
		r := p.run(t, 2, argv...)
		if r.code != 0 {
			t.Fatalf("exit code %d\n%s\n%s", r.code, strings.Join(r.lines, "\n"), r.err)
		}
		for rank := range 2 {
			var got []string
			for _, l := range r.lines {
				if rest, ok := strings.CutPrefix(l, []string{"0 ", "1 "}[rank]); ok {
					got = append(got, strings.TrimSpace(rest))
				}
			}
			wanted := strings.Split(strings.ReplaceAll(strings.TrimSpace(want), "#", []string{"0", "1"}[rank]), "\n")
			if !slices.Equal(got, wanted) {
				t.Errorf("rank %d: found\n%s\nwanted\n%s\n%s", rank, strings.Join(got, "\n"), strings.Join(wanted, "\n"), r.err)
			}
		}
	}
}

const fortranFirst = `set 0
get 0 0
nothing 1
init 0
should_exit 0
have_restart 0 none
need_checkpoint 1
start_output 0
route_file short 1
complete_output 0
start_checkpoint 0
complete_checkpoint 1
current 0
drop 1
delete 1
finalize 0
`

// TestFortran: every call from Fortran, by the include file in free form and by the module, linked with -lscrf alone.
func TestFortran(t *testing.T) {
	again := strings.Replace(fortranFirst, "have_restart 0 none", "have_restart 0 first\nstart_restart 0 first\nread 0 what was rank #\ncomplete_restart 0", 1)
	eachMPI(t, func(t *testing.T, mpi string) {
		root, lib := here(t)
		for _, way := range [][]string{{}, {"-DMODULE"}} {
			dir := t.TempDir()
			argv := append([]string{"-O1", "-Wall", "-I" + lib, "-J", dir, "-o", dir + "/everything"}, way...)
			if len(way) > 0 {
				argv = append(argv, filepath.Join(lib, "scr.F90"))
			}
			argv = append(argv, filepath.Join(root, "test/files/programs/everything.F90"), "-L"+lib, "-lscrf", "-Wl,-rpath,"+lib)
			if out, err := exec.Command("mpif90."+mpi, argv...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			p := newPlace(t, mpi)
			p.Say(standin.Said{Needed: true})
			everything(t, p, fortranFirst, again, dir+"/everything")
		}
	})
}

const pythonFirst = `set None
get 0
unset None
get None
init None
should_exit True
have_restart None
need_checkpoint True
start_output None
complete_output True
start_output None
complete_output False
current None
drop SCR_Drop failed
delete SCR_Delete failed
finalize None
`

// TestPython: every call from Python, where MPI is loaded for an extension module alone.
func TestPython(t *testing.T) {
	again := strings.Replace(pythonFirst, "have_restart None", "have_restart first\nstart_restart first\nread what was rank #\nmissing SCR_Route_file failed\ncomplete_restart True", 1)
	eachMPI(t, func(t *testing.T, mpi string) {
		root, lib := here(t)
		p := newPlace(t, mpi)
		p.env = []string{"PYTHONPATH=" + lib, "PYTHONDONTWRITEBYTECODE=1"}
		p.Say(standin.Said{Needed: true, Exit: "the allocation ends"})
		name := map[string]string{"mpich": "libmpich.so.12", "openmpi": "libmpi.so.40"}[mpi]
		everything(t, p, pythonFirst, again, "/usr/bin/python3", filepath.Join(root, "test/files/programs/everything.py"), name)
	})
}

// TestSanitized: the library built with the sanitizers of addresses and of undefined behaviour, under a program that makes most calls.
func TestSanitized(t *testing.T) {
	eachMPI(t, func(t *testing.T, mpi string) {
		root, _ := here(t)
		build := t.TempDir()
		check := "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
		if out, err := exec.Command("make", "-s", "-C", filepath.Join(root, "client"), "BUILD="+build, "CHECK="+check).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lib, exe := filepath.Join(build, "lib/byssus/scr"), filepath.Join(build, "calls")
		compile(t, lib, "mpicc."+mpi, "-std=gnu11", "-g", "-fsanitize=address,undefined", "-o", exe, filepath.Join(root, "test/files/programs/calls.c"))
		for _, bypass := range []bool{false, true} {
			p := newPlace(t, mpi)
			// What the MPIs leave behind is not ours.
			p.env = []string{"ASAN_OPTIONS=detect_leaks=0", "UBSAN_OPTIONS=print_stacktrace=1"}
			p.Say(standin.Said{Bypass: bypass, Needed: true})
			writes(t, p, exe)
			reads(t, p, exe, bypass)
		}
		p := newPlace(t, mpi)
		p.env = []string{"ASAN_OPTIONS=detect_leaks=0"}
		p.run(t, 2, exe, "mpi", "config:A= 1 B = 2 C=3", "config:A=1 B", "config:A=1 B=", "config:A=1 C", "config:A=1 C=", "config:A=1", "config:A", "init",
			"config:A=1 C", "finalize", "end").well(t)
		p.Say(standin.Said{Hangup: ask(client.ReqWritten, 1)})
		r := p.run(t, 2, exe, "mpi", "init", "checkpoint", "write:a/b:1", "checkpointed:1", "finalize", "end")
		r.want(t, "checkpointed:1", 2, "failed")
		if strings.Contains(r.err, "Sanitizer") || strings.Contains(r.err, "runtime error") {
			t.Error(r.err)
		}
	})
}

// TestLibraries: what programs see of the libraries, and what these need themselves.
func TestLibraries(t *testing.T) {
	harness.Share(t, harness.Light)
	_, lib := here(t)
	for name, prefix := range map[string]string{"libscr.so": "SCR_", "libscrf.so": "scr_"} {
		out, err := exec.Command("nm", "-D", "--defined-only", "--format=posix", filepath.Join(lib, name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(out)) {
			if !strings.HasPrefix(l, prefix) {
				t.Errorf("%s shows %s", name, strings.TrimSpace(l))
			}
		}
	}
	out, err := exec.Command("readelf", "-d", filepath.Join(lib, "libscr.so")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(out)) {
		if strings.Contains(l, "(NEEDED)") && !strings.Contains(l, "[libc.so.6]") {
			t.Errorf("libscr.so: %s", strings.TrimSpace(l))
		}
	}
	header := filepath.Join(t.TempDir(), "h.cpp")
	if err := os.WriteFile(header, []byte("#include \"scr.h\"\nint main() { return SCR_Get_version()[0] != 'v'; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	compile(t, lib, "g++", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o", header+".exe", header)
	if out, err := exec.Command(header + ".exe").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
