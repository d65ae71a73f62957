package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/byssus-hpc/byssus/snapshot"
)

// side is the second group of a member: it computes for itself, by steps that it counts for itself, and has snapshots of its own.
type side struct {
	every       uint64 // steps between snapshots, 0: there is no such group
	id, members int
	state       []uint64 // step, sum
	s           *snapshot.Snapshots
}

// has says whether this member is one of it.
func (d *side) has() bool { return d.every > 0 && d.id < d.members }

func (d *side) restore(ctx context.Context) (err error) {
	if !d.has() {
		return nil
	}
	state, err := snapshot.Of(3, d.state)
	if err != nil {
		return err
	}
	var tag uint64
	var found bool
	if d.s == nil {
		d.s, tag, found, err = snapshot.Restore(ctx, snapshot.Group{Member: d.id, Members: d.members, Name: "side", Policy: "partner"}, state)
	} else {
		tag, found, err = d.s.Restore(ctx)
	}
	switch {
	case err != nil:
		return err
	case !found:
		d.state[0], d.state[1] = 0, uint64(d.id)
	case tag != d.state[0]:
		return fmt.Errorf("side: found step %d, wanted the tag, %d", d.state[0], tag)
	}
	fmt.Fprintf(os.Stderr, "online: member %d, side at step %d in epoch %d\n", d.id, d.state[0], d.s.Epoch())
	return nil
}

// sum is what it has come to after so many steps.
func (d *side) sum(steps uint64) uint64 {
	for d.state[0] < steps {
		d.state[0]++
		d.state[1] = mix(d.state[1] + d.state[0])
	}
	return d.state[1]
}

// step goes on up to that step, with the snapshots that are due; one that is restored further than the others waits for them.
func (d *side) step(ctx context.Context, to uint64, dies func()) error {
	for d.has() && d.state[0] < to {
		if d.sum(d.state[0] + 1); d.state[0]%d.every != 0 {
			continue
		}
		if err := d.s.Start(d.state[0]); err != nil {
			return err
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		err := d.s.Commit(over)
		dies()
		for errors.Is(err, context.Canceled) && ctx.Err() == nil {
			err = d.s.Commit(ctx)
		}
		if errors.Is(err, snapshot.ErrFailed) {
			fmt.Fprintf(os.Stderr, "online: side, step %d: %v\n", d.state[0], err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (d *side) finish(ctx context.Context) error {
	if !d.has() {
		return nil
	}
	return d.s.Finish(ctx, false)
}
