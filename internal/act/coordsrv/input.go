package coordsrv

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/store/input"
)

// feeder serves the standard input of the job to the agent of rank 0: what comes from the user goes to the store first, and is
// given from there, again when the rank goes back to a checkpoint. Of a stream no more is taken than the rank is about to read.
type feeder struct {
	*loop
	say    func(text string)
	agents *agents

	spool *input.Spool
	wants chan want
	more  chan struct{} // the reader is to read
	came  chan piece    // it has

	reading bool
	held    *piece // that the store has not taken
	ended   bool   // the user's standard input has
	told    bool   // that the store does not take it
}

// want is what an agent asks for.
type want struct {
	from   *peer
	start  uint64
	offset uint64
}

// piece is what the user's standard input gives; its end, when there is an error.
type piece struct {
	data []byte
	err  error
}

// openInput makes ready what the user gives. A file is taken as a whole: it may be changed, or gone, when the job goes on.
func (s *Server) openInput() error {
	open := input.Create
	if s.opt.Restart {
		open = input.Open
	}
	spool, err := open(s.opt.Job.Dir, s.agents.jobID, s.opt.Job.Meta.Fsync)
	if err != nil {
		return fmt.Errorf("coordsrv: standard input: %w", err)
	}
	from, err := input.NewSource(s.opt.Input)
	if err == nil && !spool.Ended() && from.Whole() {
		if err = s.takeAll(spool, from); err != nil && !s.opt.Restart {
			err = errors.Join(err, spool.Remove())
		}
	}
	if err != nil {
		spool.Close()
		if sig := (interrupted{}); errors.As(err, &sig) {
			return sig
		}
		return fmt.Errorf("coordsrv: standard input: %w", err)
	}
	f := &feeder{loop: s.loop, say: s.opt.Say, agents: s.agents, spool: spool, wants: make(chan want, 1), more: make(chan struct{}, 1), came: make(chan piece)}
	s.input = f
	s.wg.Go(func() { f.read(from) })
	s.wg.Go(f.feed)
	s.wg.Go(func() {
		<-s.stop
		from.Close()
	})
	return nil
}

// takeAll keeps a file, unless a signal ends the job meanwhile.
func (s *Server) takeAll(spool *input.Spool, from *input.Source) error {
	done := make(chan error, 1)
	go func() { done <- copyAll(spool, from) }()
	for {
		select {
		case err := <-done:
			return err
		case f := <-s.queries:
			f()
		case sig := <-s.opt.Signals:
			if EndsWaiting(sig) {
				from.Close()
				<-done
				return interrupted{sig.(syscall.Signal), "its standard input had been kept"}
			}
		}
	}
}

func copyAll(spool *input.Spool, from io.Reader) error {
	buf := make([]byte, input.MaxPiece)
	for {
		n, err := from.Read(buf)
		switch {
		case errors.Is(err, io.EOF):
			return spool.End()
		case err == nil:
			err = spool.Append(buf[:n])
		}
		if err != nil {
			return err
		}
	}
}

// read reads a piece when it is told to.
func (f *feeder) read(from io.Reader) {
	for {
		select {
		case <-f.more:
		case <-f.stop:
			return
		}
		b := make([]byte, input.MaxPiece)
		n, err := from.Read(b)
		select {
		case f.came <- piece{b[:n], err}:
		case <-f.stop:
			return
		}
	}
}

// storeRest is how long a piece rests that the store does not take.
const storeRest = time.Second

// feed answers what the agent of rank 0 asks for. A newer question is that of a later start, and replaces the one before.
func (f *feeder) feed() {
	defer f.spool.Close()
	var asked *want
	for {
		if asked != nil && f.give(*asked) {
			asked = nil
		}
		if asked != nil && f.held == nil && !f.reading {
			f.reading = true
			f.more <- struct{}{}
		}
		var again <-chan time.Time
		if f.held != nil {
			again = time.After(storeRest)
		}
		select {
		case w := <-f.wants:
			asked = &w
		case p := <-f.came:
			f.reading, f.held = false, &p
			f.keepHeld()
		case <-again:
			f.keepHeld()
		case <-f.stop:
			return
		}
	}
}

// keepHeld gives the store what has come. It is not given to the rank before, but for the end, which loses nothing.
func (f *feeder) keepHeld() {
	if err := f.held.err; err != nil {
		if !errors.Is(err, io.EOF) {
			f.ask(func() { f.say(fmt.Sprintf("standard input counts as ended: %v", err)) })
		}
		f.ended, f.held = true, nil
		_ = f.spool.End() // else whoever goes on with the job is asked for more
		return
	}
	err := f.spool.Append(f.held.data)
	if err == nil {
		f.held = nil
		return
	}
	if !f.told {
		f.told = true
		f.ask(func() { f.say(fmt.Sprintf("standard input waits until the store takes it: %v", err)) })
	}
}

// give answers, when there is something to answer with.
func (f *feeder) give(w want) bool {
	answer := control.Input{Offset: w.offset}
	b, err := f.spool.Read(w.offset)
	switch {
	case err == nil && len(b) == 0 && !f.ended:
		return false
	case err == nil:
		answer.Data = b
	case !errors.Is(err, io.EOF):
		answer.Why = err.Error()
	}
	f.ask(func() {
		if w.start == f.agents.start && !w.from.gone {
			w.from.hear(control.Message{Start: w.start, Body: answer})
		}
	})
	return true
}

// wantInput takes in what an agent asks for.
func (f *feeder) wantInput(from *peer, start, offset uint64) {
	select {
	case <-f.wants: // of an earlier start, and not seen yet
	default:
	}
	f.wants <- want{from, start, offset}
}
