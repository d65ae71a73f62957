package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/byssus-hpc/byssus/internal/host/spawn"
)

func TestMain(m *testing.M) {
	spawn.Main()
	os.Exit(m.Run())
}

func spawner(t *testing.T) *spawn.Spawner {
	t.Helper()
	s, err := spawn.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// site makes a PATH with launchers that answer --version, and a library directory with the MPIs' libraries.
func site(t *testing.T, launchers map[string]string, libs ...string) string {
	t.Helper()
	root := t.TempDir()
	bin, lib := filepath.Join(root, "bin"), filepath.Join(root, "lib")
	for _, d := range []string{bin, lib} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, version := range launchers {
		script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", version)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range libs {
		if err := os.WriteFile(filepath.Join(lib, l), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	return root
}

const (
	hydra = "HYDRA build details: Version: 4.1.2"
	orte  = "mpirun (Open MPI) 4.1.4"
)

func TestChoose(t *testing.T) {
	root := site(t, map[string]string{"mpirun": orte, "mpiexec.hydra": hydra}, "libmpi.so.40", "libmpi.so.12")
	for _, c := range []struct{ want, face, name, mpirun, lib string }{
		{"auto", "", MPICH, "mpiexec.hydra", "libmpi.so.12"},
		{"auto", OpenMPI, OpenMPI, "mpirun", "libmpi.so.40"},
		{MPICH, OpenMPI, MPICH, "mpiexec.hydra", "libmpi.so.12"},
		{OpenMPI, MPICH, OpenMPI, "mpirun", "libmpi.so.40"},
	} {
		m, err := Choose(c.want, c.face)
		want := MPI{c.name, filepath.Join(root, "bin", c.mpirun), filepath.Join(root, "lib", c.lib), m.Version}
		if d := cmp.Diff(want, m); d != "" || err != nil {
			t.Errorf("%s for %q: %v\n%s", c.want, c.face, err, d)
		}
	}
}

func TestNoMPI(t *testing.T) {
	site(t, map[string]string{"mpirun": "I run nothing"})
	_, err := Choose("auto", "")
	if !errors.Is(err, ErrNoMPI) || !strings.Contains(err.Error(), "mpirun is neither MPICH nor Open MPI") {
		t.Error(err)
	}
	if _, err = Choose("lam", ""); err == nil {
		t.Error("chose lam")
	}
}

func TestCommand(t *testing.T) {
	n := runtime.NumCPU()
	s := Spec{MPI: MPI{Name: OpenMPI, Mpirun: "/b/mpirun"}, Ranks: n, Program: "/l/byssus-rank", Args: []string{"--bind-to", "none"}, App: []string{"./a", "-x"}}
	want := fmt.Sprintf("/b/mpirun --mca btl_base_warn_component_unused 0 --mca topo ^treematch -n %d --bind-to none /l/byssus-rank -- ./a -x", n)
	if got := strings.Join(s.Command(), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.Ranks, s.Restart, s.Args = n+1, "/s/ckpt.000001", nil
	want = fmt.Sprintf("/b/mpirun --oversubscribe --mca btl_base_warn_component_unused 0 --mca topo ^treematch --mca mpi_yield_when_idle 1 -n %d /l/byssus-rank --restart /s/ckpt.000001 -- ./a -x", n+1)
	if got := strings.Join(s.Command(), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEnv: the user's settings win, and BYSSUS_ variables of the outside do not reach the ranks.
func TestEnv(t *testing.T) {
	s := Spec{MPI: MPI{Name: MPICH, Library: "/l/libmpich.so.12"}, Ranks: runtime.NumCPU() + 1, Job: "j"}
	env := s.Env([]string{"HOME=/h", "UCX_ERROR_SIGNALS=SEGV", "BYSSUS_DIR=/x", "BYSSUS_FAULT=y", "BYSSUS_AMT_TRACE=t"})
	for _, want := range []string{"HOME=/h", "BYSSUS_AMT_TRACE=t", "UCX_ERROR_SIGNALS=SEGV", "UCX_HANDLE_ERRORS=none", "UCX_MEM_EVENTS=no", "FI_MR_CACHE_MONITOR=disabled", "OMPI_MCA_mpi_leave_pinned=0", "MPIR_CVAR_POLLS_BEFORE_YIELD=1", "BYSSUS_LIBMPI=/l/libmpich.so.12", "BYSSUS_JOB=j"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %v", want, env)
		}
	}
	for _, bad := range []string{"UCX_ERROR_SIGNALS=", "BYSSUS_DIR=/x", "BYSSUS_FAULT=y"} {
		if slices.Contains(env, bad) {
			t.Errorf("%s is in %v", bad, env)
		}
	}
}

func TestStart(t *testing.T) {
	by := spawner(t)
	sh := func(script string) Spec {
		path := filepath.Join(t.TempDir(), "mpirun")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return Spec{MPI: MPI{Name: MPICH, Mpirun: path}, Ranks: 1}
	}
	for script, want := range map[string][2]int{"exit 7": {7, 0}, "exit 0": {0, 0}, "kill -9 $$": {-1, 9}} {
		p, err := sh(script).Start(by, "", os.Environ())
		if err != nil {
			t.Fatal(err)
		}
		code, sig, err := p.Wait()
		if err != nil || [2]int{code, sig} != want {
			t.Errorf("%s: code %d, signal %d, %v, want %v", script, code, sig, err, want)
		}
		p.Signal(9) // to a process that is gone: nothing happens
	}
	s := Spec{MPI: MPI{Name: MPICH, Mpirun: "/nonexistent/mpirun"}}
	if _, err := s.Start(by, "", nil); err == nil || !strings.Contains(err.Error(), "/nonexistent/mpirun") {
		t.Error(err)
	}
}

// TestOutput: what hydra says does not come into the ranks' output, to the last byte of that; nor with a pattern of the
// user's own.
func TestOutput(t *testing.T) {
	run := t.TempDir()
	script := `#!/bin/sh
echo "own words" >&1
[ "$1" = -outfile-pattern ] || exit 9
printf 'rank 0\nrank 1, no newline' > "$2"
exit 3
`
	path := filepath.Join(run, "mpirun")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(run, "out"))
	if err != nil {
		t.Fatal(err)
	}
	was := os.Stdout
	os.Stdout = file
	defer func() { os.Stdout = was }()
	s := Spec{MPI: MPI{Name: MPICH, Mpirun: path}, Ranks: 1, RunDir: run}
	p, err := s.Start(spawner(t), "", os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	if code, _, err := p.Wait(); code != 3 || err != nil {
		t.Errorf("code %d, %v", code, err)
	}
	b, err := os.ReadFile(file.Name())
	if want := "rank 0\nrank 1, no newline"; string(b) != want || err != nil {
		t.Errorf("%q, want %q, %v", b, want, err)
	}
	s.Args = []string{"-outfile-pattern", "mine"}
	if got := strings.Join(s.Command(), " "); strings.Count(got, "outfile") != 1 {
		t.Error(got)
	}
}
