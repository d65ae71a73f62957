package notify

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// hello comes with the descriptor of a listener; welcome answers it.
type (
	hello   struct{}
	welcome struct{ Refused string }
)

// Exec becomes a program whose names are heard by whoever listens at a socket. It returns if it cannot.
func Exec(socket string, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	runtime.LockOSThread() // the filter is this thread's, which becomes the program
	fd, err := install()
	if err != nil {
		return err
	}
	listener := os.NewFile(uintptr(fd), "listener")
	var w welcome
	if err = frames.Send(conn, hello{}, listener); err == nil {
		_, err = frames.Receive(conn, &w)
	}
	if err == nil && w.Refused != "" {
		err = errors.New(w.Refused)
	}
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	listener.Close()
	conn.Close()
	return fmt.Errorf("notify: %s: %w", path, syscall.Exec(path, args, os.Environ()))
}

// Accept takes a listener that a process hands over which is about to become a program.
func Accept(conn *net.UnixConn) (*Listener, error) {
	var h hello
	files, err := frames.Receive(conn, &h)
	if err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	if len(files) != 1 {
		frames.CloseAll(files)
		return nil, fmt.Errorf("notify: %d descriptors, wanted 1", len(files))
	}
	l, err := newListener(files[0])
	w := welcome{}
	if err != nil {
		w.Refused = err.Error()
	}
	return l, errors.Join(err, frames.Send(conn, w))
}

// Check says why processes cannot be heard on this machine, by trying; nil: they can.
func Check() error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which has the filter, ends with this goroutine
		fd, err := install()
		if err == nil {
			err = unix.Close(fd)
		}
		failed <- err
	}()
	return <-failed
}
