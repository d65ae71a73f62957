package elfcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// checked examines a program that must be one.
func checked(t *testing.T, path string) *Report {
	t.Helper()
	r, err := Check(path, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMissing: what nobody has matters when it is called, or at the start where data or immediate binding needs it; a weak
// symbol never does.
func TestMissing(t *testing.T) {
	t.Setenv("LD_BIND_NOW", "")
	const call = "void gone(void); __attribute__((weak)) void perhaps(void); int main(int n, char **v){if (n > 5) gone(); if (perhaps) perhaps(); return !v;}"
	const data = "void gone(void); void (*p)(void) = gone; int main(void){return !p;}"
	for _, c := range []struct {
		name, source string
		args         []string
		atStart      bool
	}{
		{"lazy", call, []string{"-Wl,-z,lazy"}, false},
		{"now", call, []string{"-Wl,-z,now"}, true},
		{"data", data, []string{"-Wl,-z,lazy"}, true},
	} {
		dir := t.TempDir()
		build(t, "void gone(void){}", "-shared", "-fPIC", "-o", filepath.Join(dir, "libgone.so"))
		path := filepath.Join(dir, c.name)
		build(t, c.source, append(c.args, "-o", path, "-L"+dir, "-lgone", "-Wl,-rpath,"+dir)...)
		if r := checked(t, path); len(r.Missing) != 0 {
			t.Errorf("%s: all there: found %+v", c.name, r.Missing)
		}
		build(t, "void other(void){}", "-shared", "-fPIC", "-o", filepath.Join(dir, "libgone.so"))
		want := []Missing{{"gone", c.name, c.atStart}}
		if r := checked(t, path); !slices.Equal(r.Missing, want) {
			t.Errorf("%s: found %+v, want %+v", c.name, r.Missing, want)
		}
		t.Setenv("LD_BIND_NOW", "1")
		if r := checked(t, path); len(r.Missing) != 1 || !r.Missing[0].AtStart {
			t.Errorf("%s: LD_BIND_NOW: found %+v", c.name, r.Missing)
		}
		t.Setenv("LD_BIND_NOW", "")
	}
}

// TestSearchOrder: DT_RPATH of the library that asks comes before that of the program, LD_LIBRARY_PATH after both and before
// DT_RUNPATH.
func TestSearchOrder(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "b", "env"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
		build(t, "int deep(void){return 0;}", "-shared", "-fPIC", "-Wl,-soname,libdeep.so", "-o", filepath.Join(dir, d, "libdeep.so"))
	}
	at := func(elems ...string) string { return filepath.Join(append([]string{dir}, elems...)...) }
	for _, c := range []struct{ tags, want string }{
		{"-Wl,--disable-new-dtags", at("b", "libdeep.so")},
		{"-Wl,--enable-new-dtags", at("env", "libdeep.so")},
	} {
		t.Setenv("LD_LIBRARY_PATH", "")
		build(t, "int deep(void); int work(void){return deep();}", "-shared", "-fPIC", c.tags, "-Wl,-soname,libwork.so", "-Wl,-rpath,"+at("b"), "-o", at("a", "libwork.so"), at("b", "libdeep.so"))
		build(t, "int work(void); int main(void){return work();}", c.tags, "-Wl,-rpath,"+at("a"), "-o", at("app"), at("a", "libwork.so"), "-Wl,-rpath-link,"+at("b"))
		t.Setenv("LD_LIBRARY_PATH", at("env"))
		r := checked(t, at("app"))
		i := slices.IndexFunc(r.Libraries, func(l Library) bool { return l.Name == "libdeep.so" })
		if i < 0 || r.Libraries[i].Path != c.want {
			t.Errorf("%s: found %+v, want %s", c.tags, r.Libraries, c.want)
		}
	}
}

// TestOwnStandIn: a function that a library of the application's own brings is not taken from the MPI.
func TestOwnStandIn(t *testing.T) {
	dir := t.TempDir()
	build(t, "void mpi_comm_rank_(void){}", "-shared", "-fPIC", "-o", filepath.Join(dir, "libseq.so"))
	build(t, "int MPI_Send(void){return 0;}", "-shared", "-fPIC", "-Wl,-soname,libmpich.so.12", "-o", filepath.Join(dir, "libmpich.so.12"))
	build(t, "void mpi_comm_rank_(void); int MPI_Send(void); int main(void){mpi_comm_rank_(); return MPI_Send();}",
		"-o", filepath.Join(dir, "app"), "-L"+dir, "-lseq", filepath.Join(dir, "libmpich.so.12"), "-Wl,-rpath,"+dir)
	r := checked(t, filepath.Join(dir, "app"))
	if len(r.Uses) != 1 || r.Uses[0].Function != "MPI_Send" || !r.Uses[0].Program {
		t.Errorf("found %+v", r.Uses)
	}
}

// TestIdleClasses: what only the methods of mpi.h's C++ classes call is not used; what the program calls too, is. The
// program is stripped, and at a fixed address or not.
func TestIdleClasses(t *testing.T) {
	const compiler = "mpicxx.openmpi"
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("SKIP: no %s", compiler)
	}
	const source = "#include <mpi.h>\nint main(int n, char **v){MPI_Init(&n, &v);\n#ifdef USED\nMPI_Win w = MPI_WIN_NULL; MPI_Win_fence(n, w);\n#endif\nreturn MPI_Finalize();}\n"
	dir := t.TempDir()
	file, path := filepath.Join(dir, "s.cpp"), filepath.Join(dir, "app")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-O2", "-pie", "-fPIE"}, {"-O0", "-pie", "-fPIE"}, {"-O2", "-no-pie", "-fno-pie"}, {"-O2", "-Wl,-z,now"}} {
		for _, used := range []bool{false, true} {
			args := append(append([]string{"-s", "-o", path, file}, flags...), map[bool]string{true: "-DUSED", false: "-DIDLE"}[used])
			if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", compiler, err, out)
			}
			var found []string
			for _, u := range checked(t, path).Uses {
				found = append(found, u.Function)
			}
			if slices.Contains(found, "MPI_Win_fence") != used || slices.Contains(found, "MPI_Put") || !slices.Contains(found, "MPI_Init") {
				t.Errorf("%v, used %v: found %v", flags, used, found)
			}
		}
	}
}
