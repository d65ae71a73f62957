package cli

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

func someJob(t *testing.T, s dataset.Store, name string) *dataset.Job {
	t.Helper()
	j, err := s.Create(dataset.Meta{Name: name, ID: strings.Repeat("0", 32), Ranks: 1, State: dataset.StateRunning})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Unlock)
	return j
}

// listens opens a control socket, and closes it with the test.
func listens(t *testing.T, dir string) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, coordsrv.ControlSocket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// TestPlantedBase: what somebody has put where run directories lie neither stops a job nor is listened to.
func TestPlantedBase(t *testing.T) {
	const nobody = 65534
	for name, plant := range map[string]func(base string) error{
		"of another user":  func(base string) error { return errors.Join(os.Mkdir(base, 0o777), os.Chown(base, nobody, nobody)) },
		"open to others":   func(base string) error { return errors.Join(os.Mkdir(base, 0o777), os.Chmod(base, 0o777)) },
		"readable":         func(base string) error { return os.Mkdir(base, 0o755) },
		"a link":           func(base string) error { return errors.Join(os.Mkdir(base+".x", 0o700), os.Symlink(base+".x", base)) },
		"a file":           func(base string) error { return os.WriteFile(base, nil, 0o600) },
		"around it: open":  func(base string) error { return os.Chmod(filepath.Dir(base), 0o777) },
		"around it: other": func(base string) error { return os.Chown(filepath.Dir(base), nobody, nobody) },
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 && strings.Contains(name, "other") && name != "open to others" {
				t.Skip("SKIP: root is needed to give files away")
			}
			x, err := os.MkdirTemp("/tmp", "by")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(x) })
			t.Setenv("XDG_RUNTIME_DIR", x)
			base := filepath.Join(x, "byssus")
			if err := plant(base); err != nil {
				t.Fatal(err)
			}
			s := dataset.Store{Dir: filepath.Join(t.TempDir(), "store")}
			j := someJob(t, s, "melt")
			if st, err := os.Stat(base); err == nil && st.IsDir() {
				trap := filepath.Join(base, runName(j))
				if err := os.Mkdir(trap, 0o700); err != nil {
					t.Fatal(err)
				}
				listens(t, trap)
			}
			dir, err := makeRunDir(j)
			if err != nil || strings.HasPrefix(dir, x) {
				t.Fatalf("run directory %q, %v", dir, err)
			}
			defer removeRunDir(dir)
			if found := runDirOf(j); found != "" {
				t.Errorf("before the job listens: found %q", found)
			}
			listens(t, dir)
			if found := runDirOf(j); found != dir {
				t.Errorf("found %q, wanted %q", found, dir)
			}
			all := runningDirs(s)
			if !slices.Contains(all, dir) || slices.ContainsFunc(all, func(d string) bool { return strings.HasPrefix(d, x) }) {
				t.Errorf("running: %q", all)
			}
		})
	}
}

// TestLastResort: where every fixed name is taken, a directory is made whose name nobody can foretell.
func TestLastResort(t *testing.T) {
	s := dataset.Store{Dir: filepath.Join(t.TempDir(), "store")}
	j := someJob(t, s, "melt")
	dir, err := runDirIn("", runName(j))
	if err != nil {
		t.Fatal(err)
	}
	listens(t, dir)
	if !slices.Contains(runningDirs(s), dir) || runDirOf(j) != dir {
		t.Errorf("%q is not found: %q, %q", dir, runningDirs(s), runDirOf(j))
	}
	removeRunDir(dir)
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left behind", filepath.Dir(dir))
	}
}

// TestRunLink: the link in a job's directory counts only when it leads to a run directory of this job.
func TestRunLink(t *testing.T) {
	x, err := os.MkdirTemp("/tmp", "by")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(x) })
	t.Setenv("XDG_RUNTIME_DIR", x)
	s := dataset.Store{Dir: filepath.Join(t.TempDir(), "store")}
	j, other := someJob(t, s, "melt"), someJob(t, s, "other")
	theirs, err := makeRunDir(other)
	if err != nil {
		t.Fatal(err)
	}
	defer removeRunDir(theirs)
	listens(t, theirs)
	open := filepath.Join(x, "open", runName(j))
	if err := errors.Join(os.MkdirAll(open, 0o700), os.Chmod(filepath.Dir(open), 0o777)); err != nil {
		t.Fatal(err)
	}
	listens(t, open)
	for _, to := range []string{theirs, open, "../other/run", "/tmp", strings.Repeat("a", 4000)} {
		link := filepath.Join(j.Dir, "run")
		_ = os.Remove(link)
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		if found := runDirOf(j); found != "" {
			t.Errorf("by way of %.50s: found %s", to, found)
		}
	}
	moved := filepath.Join(x, "moved", runName(j)) // of a byssus with another XDG_RUNTIME_DIR
	if err := os.MkdirAll(moved, 0o700); err != nil {
		t.Fatal(err)
	}
	listens(t, moved)
	link := filepath.Join(j.Dir, "run")
	if err := errors.Join(os.Remove(link), os.Symlink(moved, link)); err != nil {
		t.Fatal(err)
	}
	if found := runDirOf(j); found != moved {
		t.Errorf("found %q, wanted %q", found, moved)
	}
}
