package launch

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/spawn"
)

// Process is a running launcher.
type Process struct {
	*spawn.Process
	output *output // nil: the ranks' output is the launcher's
}

// Start starts the launcher. It is interrupted when this process dies.
//
// On a terminal it stays in our process group, so that Ctrl-C reaches it directly; otherwise it gets a group of its own, so that
// a signal to our group reaches us alone. Its standard input is empty.
//
// SIGTERM is blocked in it: a batch system that sends one to all processes of a job would have the launcher end the
// ranks before they can be saved. Ranks unblock it.
func (s Spec) Start(by *spawn.Spawner, dir string, environ []string) (*Process, error) {
	out, err := s.openOutput()
	if err != nil {
		return nil, err
	}
	c := spawn.Command{Args: s.Command(), Env: s.Env(environ), Dir: dir, Files: []*os.File{os.Stdout, os.Stderr},
		Group: tcgetpgrp(os.Stdin) == 0, Block: syscall.SIGTERM, Death: syscall.SIGINT}
	if out != nil {
		c.Files[0] = os.Stderr // what is left there are the launcher's own words
	}
	p, err := by.Start(c)
	if err != nil {
		_ = out.close() // nothing was written
		return nil, fmt.Errorf("launch: start %s: %w", c.Args[0], err)
	}
	return &Process{p, out}, nil
}

// Wait returns the launcher's exit code, or -1 and the signal that ended it, when all output is written.
func (p *Process) Wait() (code, signal int, err error) {
	code, signal, err = p.Process.Wait()
	return code, signal, errors.Join(err, p.output.close())
}
