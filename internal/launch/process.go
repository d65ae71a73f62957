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
	cmd    *exec.Cmd
	output *output // nil: the ranks' output is the launcher's
	done   chan struct{}
	err    error // valid after done
}

// Start starts the launcher. It is interrupted when this process dies.
//
// On a terminal it stays in our process group, so that Ctrl-C reaches it directly; otherwise it gets a group of its own, so that
// a signal to our group reaches us alone. Its standard input is empty.
//
// SIGTERM is blocked in it: a batch system that sends one to all processes of a job would have the launcher end the
// ranks before they can be saved. Ranks unblock it.
func (s Spec) Start(dir string, environ []string) (*Process, error) {
	out, err := s.openOutput()
	if err != nil {
		return nil, err
	}
	argv := s.Command()
	cmd := &exec.Cmd{Path: argv[0], Args: argv, Env: s.Env(environ), Dir: dir, Stdout: os.Stdout, Stderr: os.Stderr}
	if out != nil {
		cmd.Stdout = os.Stderr // what is left there are the launcher's own words
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT, Setpgid: tcgetpgrp(os.Stdin) == 0}
	p := &Process{cmd: cmd, output: out, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the death signal and the signal mask are those of the thread that starts the process
		defer runtime.UnlockOSThread()
		was := block(syscall.SIGTERM)
		err := cmd.Start()
		setMask(was)
		started <- err
		if err != nil {
			return
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			p.err = err
		}
		p.err = errors.Join(p.err, out.close())
		close(p.done)
	}()
	if err := <-started; err != nil {
		_ = out.close() // nothing was written
		return nil, fmt.Errorf("launch: start %s: %w", argv[0], err)
	}
	return p, nil
}

// Wait returns the launcher's exit code, and the signal that ended it if one did, when all output is written.
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
