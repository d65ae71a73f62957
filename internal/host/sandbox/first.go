package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// A first process is that of a node.
type first struct {
	layout   layout
	children children
}

// runNode is the life of a node's first process.
func runNode() error {
	f := &first{}
	f.children.reapAlways()
	hub, err := frames.Conn(control())
	if err != nil {
		return err
	}
	if _, err := frames.Receive(hub, &f.layout); err != nil {
		return err
	}
	err = unix.Sethostname([]byte(f.layout.Name))
	if err == nil {
		err = f.layout.arrange()
	}
	if err := frames.Send(hub, failed(err)); err != nil {
		return err
	}
	for {
		var o order
		files, err := frames.Receive(hub, &o)
		if err != nil {
			return err // the hub has ended, or speaks nonsense
		}
		if err := f.obey(hub, o, files); err != nil {
			return err
		}
	}
}

// obey carries out an order.
func (f *first) obey(hub *net.UnixConn, o order, files []*os.File) error {
	if serve := map[string]func(*net.UnixConn){"run": f.serve, "listen": f.listen}[o.Verb]; serve != nil && len(files) == 1 {
		caller, err := frames.Conn(files[0])
		if err != nil {
			return err
		}
		go func() {
			defer caller.Close()
			serve(caller)
		}()
		return nil
	}
	frames.CloseAll(files)
	var note string
	err := fmt.Errorf("order %q with %d descriptors: %w", o.Verb, len(files), ErrOption)
	if o.Verb == "disk-full" && o.Off {
		note, err = f.layout.freeDisk(o.Path)
	} else if o.Verb == "disk-full" {
		note, err = f.layout.fillDisk(o.Path)
	}
	answer := failed(err)
	answer.Note = note
	return frames.Send(hub, answer)
}

// listen makes a socket in the node's network for a caller outside, who has it from then on.
func (f *first) listen(caller *net.UnixConn) {
	l, err := net.ListenTCP("tcp4", nil)
	var file *os.File
	if err == nil {
		defer l.Close()
		file, err = l.File()
	}
	if err != nil {
		_ = frames.Send(caller, failed(err)) // whom it does not reach does not care
		return
	}
	defer file.Close()
	_ = frames.Send(caller, reply{Note: strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}, file)
}

// serve runs one process for a caller, who may send it signals, and who kills it by going away.
func (f *first) serve(caller *net.UnixConn) {
	if frames.Send(caller, reply{}) != nil {
		return
	}
	var c command
	files, err := frames.Receive(caller, &c)
	if err != nil {
		return
	}
	proc, err := f.run(c, files)
	frames.CloseAll(files)
	if err != nil {
		_ = frames.Send(caller, ending{reply: failed(err)}) // whom it does not reach does not care
		return
	}
	if frames.Send(caller, ending{PID: proc.pid}) != nil {
		_ = f.children.signal(proc, syscall.SIGKILL, true) // it may have ended
		return
	}
	go func() {
		for {
			var s signal
			_, gone := frames.Receive(caller, &s)
			if gone != nil {
				s.Signal = syscall.SIGKILL
			}
			_ = f.children.signal(proc, s.Signal, true) // it may have ended
			if gone != nil {
				return
			}
		}
	}()
	status := <-proc.ended
	e := ending{Code: status.ExitStatus()}
	if status.Signaled() {
		e = ending{Signal: status.Signal()}
	}
	_ = frames.Send(caller, e)
}

// run starts a process, in a session of its own.
func (f *first) run(c command, files []*os.File) (child, error) {
	if len(files) != 3 || len(c.Args) == 0 {
		return child{}, fmt.Errorf("%d descriptors, %d arguments, wanted 3 and some: %w", len(files), len(c.Args), ErrOption)
	}
	args, dir := frames.Strings(c.Args), string(c.Dir)
	if st, err := os.Stat(dir); err != nil {
		return child{}, fmt.Errorf("working directory: %w", err)
	} else if !st.IsDir() {
		return child{}, fmt.Errorf("%s: not a directory: %w", dir, ErrOption)
	}
	env := Environ(frames.Strings(c.Env), dir, f.layout.UID)
	path, err := lookPath(args[0], dir, env)
	if err != nil {
		return child{}, err
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()}, Sys: &syscall.SysProcAttr{Setsid: true}}
	proc, err := f.children.start(path, args, attr, nil)
	switch {
	case errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOEXEC):
		err = fmt.Errorf("%s: %w: %w", path, ErrNotExec, err)
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	default:
		expose(proc.pid)
	}
	return proc, err
}

// lookPath finds a program as a shell does that has a directory and an environment.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	paths := "/usr/local/bin:/usr/bin:/bin"
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			paths = value
		}
	}
	found := fmt.Errorf("%s: %w in PATH=%s", name, ErrNotFound, paths)
	for _, p := range filepath.SplitList(paths) {
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		path := filepath.Join(p, name)
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, ErrNotExec) {
			found = err
		}
	}
	return "", found
}

// executable says whether a file may be executed.
func executable(path string) error {
	st, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%s: %w", path, ErrNotFound)
	}
	if err != nil {
		return err
	}
	if err := unix.Access(path, unix.X_OK); err != nil || st.IsDir() {
		return fmt.Errorf("%s: %w", path, ErrNotExec)
	}
	return nil
}
