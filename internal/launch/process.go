package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a running launcher.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // valid after done
}

// Start starts the launcher. It ends by SIGTERM when this process dies.
//
// On a terminal it stays in our process group, so that it may read the terminal and Ctrl-C reaches it directly;
// otherwise it gets a group of its own, so that a signal to our group (a batch system's) reaches us alone.
func (s Spec) Start(dir string, environ []string) (*Process, error) {
	argv := s.Command()
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Env: s.Env(environ), Dir: dir, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: tcgetpgrp(os.Stdin) == 0}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the death signal is tied to the thread that starts the process
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			p.err = err
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("launch: start %s: %w", argv[0], err)
	}
	return p, nil
}

// Wait returns the launcher's exit code, and the signal that ended it if one did.
func (p *Process) Wait() (code, signal int, err error) {
	<-p.done
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return -1, int(ws.Signal()), p.err
	}
	return p.cmd.ProcessState.ExitCode(), 0, p.err
}

// Signal sends a signal to the launcher, if it is still there.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }
