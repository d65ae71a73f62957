package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/mpispec"
)

const mpiDir = "../../rank/mpi"

// libraries are the real libraries of each ABI as the dynamic linker knows them.
var libraries = map[string]string{"mpich": "libmpich.so.12", "openmpi": "libmpi.so.40"}

// noteInputs looks at everything a compilation may read, so that go test does not answer from its cache when a file
// has changed.
func noteInputs(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{mpiDir + "/*/*.[ch]", mpiDir + "/face/face.map", "../../rank/core/*.h", "../../rank/core/base/*.h", "testdata/*.c"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if _, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// gcc compiles with the project's flags and fails the test on any message.
func gcc(t *testing.T, args ...string) {
	t.Helper()
	noteInputs(t)
	flags := []string{"-D_GNU_SOURCE", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-fno-stack-protector", "-I" + mpiDir}
	if out, err := exec.Command("gcc", append(flags, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// buildFace makes the face of an ABI and returns its path.
func buildFace(t *testing.T, abi string) string {
	t.Helper()
	so := filepath.Join(t.TempDir(), "face.so")
	gcc(t, "-fPIC", "-shared", "-o", so, mpiDir+"/face/face_"+abi+".c", "-Wl,--version-script="+mpiDir+"/face/face.map")
	return so
}

// symbols runs nm on a shared object and returns the names.
func symbols(t *testing.T, so, which string) map[string]bool {
	t.Helper()
	out, err := exec.Command("nm", "-D", which, so).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if kind := fields[len(fields)-2]; kind != "w" && kind != "v" {
			names[fields[len(fields)-1]] = true
		}
	}
	return names
}

// TestFaces builds each face, and finds in it every symbol of MPI that the real library exports, and no need of any
// other library than libc's memory and string functions.
func TestFaces(t *testing.T) {
	for abi := range libraries {
		t.Run(abi, func(t *testing.T) {
			so := buildFace(t, abi)
			exported := symbols(t, so, "--defined-only")
			for _, name := range wanted(t, abi) {
				if !exported[name] {
					t.Errorf("%s: not exported", name)
				}
			}
			for name := range exported {
				if abi == mpispec.MPICH && strings.HasPrefix(name, "mpi_") {
					t.Errorf("%s: exported, and in front of that of MPICH's Fortran library", name)
				}
			}
			for name := range symbols(t, so, "--undefined-only") {
				if base, _, _ := strings.Cut(name, "@"); base != "memcpy" && base != "memset" && base != "memmove" && base != "strlen" {
					t.Errorf("%s: needed, but a face stands alone", name)
				}
			}
		})
	}
}

// wanted lists the symbols of an ABI's library, from mpispec's list.
func wanted(t *testing.T, abi string) []string {
	t.Helper()
	file, err := os.Open("../../mpispec/testdata/exports.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var names []string
	for sc := bufio.NewScanner(file); sc.Scan(); {
		before, after, ok := strings.Cut(sc.Text(), " "+abi)
		if !ok || before == "" || before[0] == '#' {
			continue
		}
		name := strings.Fields(before)[0]
		names = append(names, name)
		if !strings.HasPrefix(after, " only") {
			names = append(names, "P"+name)
		}
	}
	return append(names, takenFrom(t, abi)...)
}

// takenFrom lists what other libraries of the MPI take from its main library, and where Fortran enters, if it enters the face.
func takenFrom(t *testing.T, abi string) []string {
	t.Helper()
	spec, err := mpispec.Load()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range spec.ABI.Taken {
		if s.ABI == abi {
			names = append(names, s.Name)
		}
	}
	return append(names, fortranOf(spec, abi)...)
}

// fortranOf lists Fortran's entry points that a face has: Open MPI's, and what the library of mpi_f08 calls. MPICH's own library
// of Fortran runs above the face.
func fortranOf(spec *mpispec.Spec, abi string) []string {
	var names []string
	for _, e := range spec.ABI.Fortran {
		if abi == mpispec.OpenMPI && len(e.Forms[abi]) > 0 {
			names = append(names, e.Name+"_", e.Name+"__", "p"+e.Name+"_", "p"+e.Name+"__", "o"+e.Name+"_f")
		}
	}
	return names
}

// TestFaceCalls runs the application's side of each face over a stand-in for the lower half.
func TestFaceCalls(t *testing.T) {
	for abi := range libraries {
		t.Run(abi, func(t *testing.T) {
			so, bin := buildFace(t, abi), filepath.Join(t.TempDir(), "check")
			gcc(t, "-DFACE_"+strings.ToUpper(abi), "-no-pie", "-o", bin, "testdata/face_check.c", mpiDir+"/life/entries.c", mpiDir+"/objects/names.c",
				"-ldl", "-Wl,--unresolved-symbols=ignore-all")
			runCheck(t, bin, so)
		})
	}
}

// TestDriverCalls runs each driver over the real library, as one process.
func TestDriverCalls(t *testing.T) {
	for abi, library := range libraries {
		t.Run(abi, func(t *testing.T) {
			bin := filepath.Join(t.TempDir(), "check")
			gcc(t, "-no-pie", "-o", bin, "testdata/driver_check.c", mpiDir+"/driver/drivers.c", mpiDir+"/driver/driver_mpich.c",
				mpiDir+"/driver/driver_openmpi.c", mpiDir+"/objects/names.c", "-ldl", "-Wl,--unresolved-symbols=ignore-all")
			if !loads(library) {
				t.Skipf("SKIP: %s is not installed", library)
			}
			runCheck(t, bin, library)
		})
	}
}

// loads says whether the dynamic linker finds a library.
func loads(library string) bool {
	out, err := exec.Command("/sbin/ldconfig", "-p").Output()
	return err == nil && strings.Contains(string(out), library+" ")
}

func runCheck(t *testing.T, bin string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
