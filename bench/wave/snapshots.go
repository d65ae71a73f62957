package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/snapshot"
)

// snapshots are those of a run, with what they cost.
type snapshots struct {
	s       *snapshot.Snapshots // nil: there are none
	over    context.Context     // has ended
	pending bool                // one is started, and not committed yet
	made    []made
	counted int
}

// made is a snapshot: how long the program stood still for it.
type made struct {
	step    uint64
	blocked float64 // seconds
}

// restore gives the slab the bytes of the newest snapshot, if there is one.
func (w *wave) restore(c amt.Context) error {
	begun := now()
	even, err1 := snapshot.Of(1, w.own(0))
	odd, err2 := snapshot.Of(2, w.own(1))
	step, err3 := snapshot.Of(3, w.step)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	var cancel context.CancelFunc
	w.over, cancel = context.WithCancel(context.Background())
	cancel()
	s, tag, found, err := snapshot.Restore(context.Background(), snapshot.Group{Member: c.Rank(), Members: c.Ranks()}, even, odd, step)
	if err != nil {
		return err
	}
	w.s = s
	took, err := latest.All(c, now()-begun)
	switch {
	case err != nil:
		return err
	case found && tag != w.step[0]:
		return fmt.Errorf("wave: found step %d, wanted that of the snapshot, %d", w.step[0], tag)
	case found:
		say(c, "restored %d %.3f @%.6f\n", tag, took, now())
	default:
		clear(w.own(0))
		clear(w.own(1))
		w.step[0] = 0
	}
	return nil
}

// start starts a snapshot, when the one before is known to count, or not.
func (p *snapshots) start(step uint64) error {
	if err := p.commit(context.Background()); err != nil {
		return err
	}
	begun := now()
	err := p.s.Start(step)
	p.made = append(p.made, made{step, now() - begun})
	if err != nil && !errors.Is(err, snapshot.ErrRoom) {
		return err
	}
	p.pending = true
	return p.look()
}

// look looks whether the snapshot that is pending counts now.
func (p *snapshots) look() error { return p.commit(p.over) }

func (p *snapshots) commit(ctx context.Context) error {
	if !p.pending {
		return nil
	}
	begun := now()
	err := p.s.Commit(ctx)
	p.made[len(p.made)-1].blocked += now() - begun
	switch {
	case errors.Is(err, context.Canceled):
		return nil
	case err == nil:
		p.counted++
	case errors.Is(err, snapshot.ErrFailed):
		fmt.Fprintln(os.Stderr, "wave:", err)
	default:
		return err
	}
	p.pending = false
	return nil
}

func (p *snapshots) finish() error {
	if p.s == nil {
		return nil
	}
	return p.s.Finish(context.Background(), false)
}

// report prints what snapshots have cost: on the slowest rank.
func (w *wave) report(c amt.Context) error {
	for _, m := range w.made {
		blocked, err := latest.All(c, m.blocked)
		if err != nil {
			return err
		}
		say(c, "snapshot %d %.6f\n", m.step, blocked)
	}
	return nil
}
