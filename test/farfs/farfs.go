// Package farfs shows a directory through a file system whose server can be stopped, as that of a network can: what is asked of
// it meanwhile waits, and goes on when the server does. It serves in a process of its own, which is the test's own program.
package farfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// variables of the server's process: the directory that is shown, and where.
const (
	shown = "BYSSUS_FARFS_SHOWN"
	where = "BYSSUS_FARFS_AT"
)

// Main serves, in the server's process, until the file system is unmounted; in others it does nothing. A test's TestMain begins
// with it.
func Main() {
	dir, at := os.Getenv(shown), os.Getenv(where)
	if dir == "" {
		return
	}
	if err := serve(dir, at); err != nil {
		fmt.Fprintln(os.Stderr, "farfs:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(dir, at string) error {
	root, err := fs.NewLoopbackRoot(dir)
	if err != nil {
		return err
	}
	opt := fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true, AllowOther: true, FsName: dir, Name: "far"}}
	server, err := fs.Mount(at, root, &opt)
	if err != nil {
		return err
	}
	fmt.Println("mounted")
	server.Wait()
	return nil
}

// FS is a file system that is mounted.
type FS struct {
	at  string
	cmd *exec.Cmd
}

// Mount shows dir at another directory until the test is over. It takes root.
func Mount(t *testing.T, dir, at string) *FS {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &FS{at: at, cmd: exec.Command(self)}
	f.cmd.Env = append(os.Environ(), shown+"="+dir, where+"="+at)
	f.cmd.Stderr = os.Stderr
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := f.cmd.StdoutPipe()
	if err == nil {
		err = f.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.unmount(t) })
	var word string
	if _, err := fmt.Fscan(out, &word); err != nil {
		t.Fatalf("farfs: %v, found %q", err, word)
	}
	return f
}

// unmount ends the server, and with it what still waits for it.
func (f *FS) unmount(t *testing.T) {
	err := errors.Join(f.cmd.Process.Kill(), syscall.Unmount(f.at, syscall.MNT_DETACH))
	_ = f.cmd.Wait() // it was killed
	if err != nil {
		t.Errorf("farfs: %v", err)
	}
}

// Stop lets everything wait that is asked from now on.
func (f *FS) Stop(t *testing.T) {
	t.Helper()
	f.signal(t, syscall.SIGSTOP)
}

// Continue serves again.
func (f *FS) Continue(t *testing.T) {
	t.Helper()
	f.signal(t, syscall.SIGCONT)
}

// Waits says whether a thread of a process waits for a file system that is stopped.
func Waits(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	return slices.ContainsFunc(tasks, func(file string) bool {
		where, err := os.ReadFile(file)
		return err == nil && string(where) == "request_wait_answer"
	})
}

func (f *FS) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := f.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("farfs: %v", err)
	}
}

// Slow serves for the first part of each period only, until the function that it returns is called.
func (f *FS) Slow(t *testing.T, part, period time.Duration) (end func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer f.cmd.Process.Signal(syscall.SIGCONT)
		for {
			for _, half := range []struct {
				sig  syscall.Signal
				last time.Duration
			}{{syscall.SIGCONT, part}, {syscall.SIGSTOP, period - part}} {
				_ = f.cmd.Process.Signal(half.sig)
				select {
				case <-time.After(half.last):
				case <-over:
					return
				}
			}
		}
	}()
	return func() { close(over); <-done }
}
