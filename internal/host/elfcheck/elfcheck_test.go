package elfcheck

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// build compiles a program or library.
func build(t *testing.T, src string, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.c")
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", append([]string{file}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
}

// TestFollowsLibraries: the MPI is found behind a library, through DT_RUNPATH with $ORIGIN, with what is imported on the
// way; what the MPI's own library imports does not count.
func TestFollowsLibraries(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(at("lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	build(t, "int MPI_T_own(void); int MPI_Send(void){return MPI_T_own();}", "-shared", "-fPIC", "-Wl,-soname,libmpich.so.12", "-o", at("lib/libmpich.so.12"))
	build(t, "int MPI_Send(void); int work(void){return MPI_Send();}", "-shared", "-fPIC", "-Wl,-soname,libwork.so", "-Wl,--allow-shlib-undefined", "-Wl,-rpath,$ORIGIN", "-o", at("lib/libwork.so"), at("lib/libmpich.so.12"))
	build(t, "int work(void); int main(void){return work();}",
		"-Wl,--unresolved-symbols=ignore-all", "-Wl,-rpath,$ORIGIN/lib", "-Wl,-rpath-link,"+at("lib"), "-o", at("app"), at("lib/libwork.so"))
	r, err := Check(at("app"), "")
	if err != nil {
		t.Fatal(err)
	}
	if r.Face != "mpich" || r.MPILibrary != at("lib/libmpich.so.12") || len(r.Uses) != 1 || r.Uses[0].Function != "MPI_Send" {
		t.Errorf("report %+v", r)
	}
}

func TestFinds(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/usr/bin/env -S sh -e\n:\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	r, err := Check("script", "")
	if err != nil || r.Path != script || filepath.Base(r.Interpreter) != "sh" || r.Face != "" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range []struct {
		name, content string
		mode          os.FileMode
		want          error
	}{
		{"plain", "", 0o600, ErrNotExec},
		{"text", "text", 0o700, ErrNotExec},
		{"lost", "#!/no/such/interpreter\n", 0o700, ErrNotFound},
		{"bare", "#!\n", 0o700, ErrNotExec},
		{"suid", "#!/bin/sh\n", os.ModeSetuid | 0o700, ErrRefused},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(path, ""); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := Check("nothing-of-that-name", ""); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestStatic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "static")
	build(t, "int main(void){return 0;}", "-static", "-o", path)
	if _, err := Check(path, ""); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

// FuzzCheck: a program may be anything.
func FuzzCheck(f *testing.F) {
	b, err := os.ReadFile("/bin/true")
	if err != nil {
		f.Skip("SKIP: no /bin/true to start from")
	}
	f.Add(b[:4096])
	f.Add([]byte(elf.ELFMAG))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "app")
		if err := os.WriteFile(path, b, 0o700); err != nil {
			t.Fatal(err)
		}
		if r, err := Check(path, ""); (r == nil) == (err == nil) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
