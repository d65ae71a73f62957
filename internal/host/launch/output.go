package launch

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// output carries the ranks' standard output past a launcher that mixes its own words into it: hydra prints there which
// rank has ended badly, also when Byssus starts that rank again. It is told to write what ranks print into a FIFO,
// which is copied to our own standard output byte by byte; what hydra itself prints goes to standard error (see words).
//
// Limits: Open MPI says such things elsewhere by itself and keeps our standard output. A pattern that the user
// gives hydra counts, and then nothing of this is done.
type output struct {
	hold *os.File // open for writing, so that there is no end of file between the launcher's writes
	done chan struct{}
	err  error // valid after done: why not everything was written
}

const outputName = "stdout"

// separate says whether this start needs it.
func (s Spec) separate() bool {
	if s.MPI.Name != MPICH || s.Script || s.RunDir == "" || strings.Contains(s.RunDir, "%") { // a pattern's escape
		return false
	}
	for _, a := range s.Args {
		if strings.Contains(a, "outfile") || strings.Contains(a, "output") {
			return false
		}
	}
	return true
}

func (s Spec) openOutput() (*output, error) {
	if !s.separate() {
		return nil, nil
	}
	path := filepath.Join(s.RunDir, outputName)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("launch: %s: %w", path, err)
	}
	hold, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	from, err := os.Open(path)
	if err != nil {
		hold.Close()
		return nil, fmt.Errorf("launch: %w", err)
	}
	o := &output{hold: hold, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		defer from.Close()
		if _, err := io.Copy(os.Stdout, from); err != nil { // nobody reads it: the job is worth more than its output
			o.err = fmt.Errorf("launch: standard output: what the ranks printed after this was lost: %w", err)
			_, _ = io.Copy(io.Discard, from)
		}
	}()
	return o, nil
}

// close waits until everything is written that the launcher, which has ended, has left.
func (o *output) close() error {
	if o == nil {
		return nil
	}
	o.hold.Close()
	<-o.done
	return o.err
}
