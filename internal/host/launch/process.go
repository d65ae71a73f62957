package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/host/spawn"
)

// Process is a running launcher.
type Process struct {
	*spawn.Process
	output *output // nil: the ranks' output is the launcher's
	words  *words  // nil: so are its own words
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
	w, into, err := s.ownWords(out != nil, c.Env)
	if err != nil {
		_ = out.close() // nothing was written
		return nil, err
	}
	switch {
	case w != nil && out != nil:
		c.Files[0] = into // what is left there are the launcher's own words
	case w != nil:
		c.Files, c.Env = append(c.Files, into), append(c.Env, ownWords+"="+ownFile, "BYSSUS_UNSET="+ownWords)
	}
	p, err := by.Start(c)
	into.Close()
	if err != nil {
		w.close()
		_ = out.close()
		return nil, fmt.Errorf("launch: start %s: %w", c.Args[0], err)
	}
	return &Process{p, out, w}, nil
}

// ownWords makes a way of their own for the launcher's words, if there can be one: nil.
func (s Spec) ownWords(separate bool, env []string) (*words, *os.File, error) {
	set := slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, ownWords+"=") })
	if s.Plain || !separate && (s.MPI.Name != OpenMPI || set) {
		return nil, nil, nil
	}
	return listen(os.Stderr)
}

// Explain says the words of the launcher, which has ended, that were held: that a rank has ended badly.
func (p *Process) Explain() {
	if p != nil && p.words != nil {
		_, _ = os.Stderr.Write(p.words.held) // nobody may read it
	}
}

// Wait returns the launcher's exit code, or -1 and the signal that ended it, when all output is written.
func (p *Process) Wait() (code, signal int, err error) {
	code, signal, err = p.Process.Wait()
	p.words.close()
	return code, signal, errors.Join(err, p.output.close())
}
