package farfs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/host/spawn"
	"github.com/byssus-hpc/byssus/test/farfs"
	"github.com/byssus-hpc/byssus/test/harness"
)

func TestMain(m *testing.M) {
	spawn.Main()
	farfs.Main()
	os.Exit(m.Run())
}

// TestStart: a process that has a file open in a file system that hangs can start nothing itself, but its spawner can.
func TestStart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to mount takes root")
	}
	lock, err := harness.MountsLock(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	by, err := spawn.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer by.Close()
	dir := t.TempDir()
	behind, at := filepath.Join(dir, "behind"), filepath.Join(dir, "far")
	for _, d := range []string{behind, at} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	fs := farfs.Mount(t, behind, at)
	f, err := os.Create(filepath.Join(at, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fs.Stop(t)
	defer fs.Continue(t)
	p, err := by.Start(spawn.Command{Args: []string{"true"}, Files: []*os.File{os.Stdout, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	if code, _, err := p.Wait(); code != 0 || err != nil {
		t.Error(code, err)
	}
	own := make(chan error)
	go func() { own <- exec.Command("true").Run() }()
	select {
	case err := <-own:
		t.Fatalf("this file system does not wait when files are closed (%v): the test shows nothing", err)
	case <-time.After(time.Second):
	}
	fs.Continue(t)
	if err := <-own; err != nil {
		t.Error(err)
	}
}
