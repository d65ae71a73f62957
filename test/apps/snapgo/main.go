// Command snapgo computes step by step, makes snapshots of its memory by package snapshot, and goes on from them; without MPI. It is used as
// test/apps/snap/steps.c is. Each member compares its end with what it would have computed undisturbed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/snapshot"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "snapgo:", err)
		os.Exit(7)
	}
}

// options are the program's arguments.
type options struct {
	steps, every, size, ms, keep uint64
	until                        string
	die                          []uint64 // member, step, moment
}

func parse(args []string) (o options, err error) {
	o = options{steps: 10, every: 1, size: 1000, keep: 1}
	if len(args) > 0 {
		if o.steps, err = strconv.ParseUint(args[0], 10, 64); err != nil {
			return o, err
		}
		args = args[1:]
	}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		n, nerr := strconv.ParseUint(value, 10, 64)
		to, ok := map[string]*uint64{"every": &o.every, "size": &o.size, "ms": &o.ms, "keep": &o.keep}[name]
		switch {
		case ok && nerr == nil:
			*to = n
		case name == "until":
			o.until = value
		case name == "die":
			for part := range strings.SplitSeq(value, "@") {
				n, err := strconv.ParseUint(part, 10, 64)
				if err != nil {
					return o, err
				}
				o.die = append(o.die, n)
			}
		default:
			return o, fmt.Errorf("what is %q?", a)
		}
	}
	return o, nil
}

// place is which member this is, and of how many, as launchers of MPI say.
func place() (member, members int, err error) {
	number := func(names ...string) (int, error) {
		for _, name := range names {
			if value := os.Getenv(name); value != "" {
				return strconv.Atoi(value)
			}
		}
		return 0, fmt.Errorf("none of %v is set", names)
	}
	member, err = number("PMI_RANK", "OMPI_COMM_WORLD_RANK")
	members, merr := number("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
	return member, members, errors.Join(err, merr)
}

func mix(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}

func begin(cells []uint64, member int) {
	for i := range cells {
		cells[i] = mix(uint64(member)*1000003 + uint64(i))
	}
}

func compute(cells []uint64, step uint64) {
	for i := range cells {
		cells[i] = mix(cells[i] + step)
	}
}

func sum(cells []uint64) (all uint64) {
	for _, c := range cells {
		all ^= mix(c)
	}
	return all
}

// restore begins: an odd member is told how much it has, before it says where that is to be. One region is left as it is.
func restore(ctx context.Context, g snapshot.Group, cells, step []uint64) (s *snapshot.Snapshots, tag uint64, found bool, err error) {
	mine := []uint64{5}
	field, err1 := snapshot.Of(7, cells)
	at, err2 := snapshot.Of(1, step)
	own, err3 := snapshot.Of(4, mine)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, 0, false, err
	}
	own.Leave, field.HandOver = true, g.Member < 2
	if g.Member%2 == 0 {
		s, tag, found, err = snapshot.Restore(ctx, g, field, at, own)
	} else {
		s, tag, found, err = snapshot.RestoreAs(ctx, g, func(of []snapshot.Length) ([]snapshot.Region, error) {
			if of != nil && !slices.Equal(of, []snapshot.Length{{ID: 7, Bytes: int64(len(field.Bytes))}, {ID: 1, Bytes: 8}, {ID: 4, Bytes: 8}}) {
				return nil, fmt.Errorf("found %v in the snapshot, wanted what this has", of)
			}
			return []snapshot.Region{field, at, own}, nil
		})
	}
	if err == nil && mine[0] != 5 {
		err = fmt.Errorf("found %d, wanted 5, which is left as it is", mine[0])
	}
	mine[0] = 6 // in snapshots
	return s, tag, found, err
}

func run() error {
	o, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	member, members, err := place()
	if err != nil {
		return err
	}
	cells, wanted := make([]uint64, o.size/8+1), make([]uint64, o.size/8+1)
	step, ctx := []uint64{0}, context.Background()
	begin(cells, member)
	var s *snapshot.Snapshots
	restored := false
	if o.every <= o.steps {
		var tag uint64
		if s, tag, restored, err = restore(ctx, snapshot.Group{Member: member, Members: members}, cells, step); err != nil {
			return err
		}
		if restored && tag != step[0] {
			return fmt.Errorf("found step %d, wanted the tag, %d", step[0], tag)
		}
		if restored && member == 0 {
			fmt.Fprintf(os.Stderr, "steps: restored at step %d\n", tag)
		}
	}
	for step[0] < o.steps {
		step[0]++
		compute(cells, step[0])
		time.Sleep(time.Duration(o.ms) * time.Millisecond)
		for step[0] == o.steps && o.until != "" {
			if _, err := os.Stat(o.until); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if s == nil || step[0]%o.every != 0 {
			continue
		}
		dies := func(moment uint64) {
			if len(o.die) == 3 && !restored && o.die[0] == uint64(member) && o.die[1] == step[0] && o.die[2] == moment {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		if err := make1(ctx, s, step[0], dies); err != nil {
			return err
		}
	}
	begin(wanted, member)
	for n := uint64(1); n <= o.steps; n++ {
		compute(wanted, n)
	}
	if found, wanted := sum(cells), sum(wanted); found != wanted {
		return fmt.Errorf("member %d: found %016x, wanted %016x", member, found, wanted)
	}
	if member == 0 {
		fmt.Printf("step %d of %d: %016x\n", step[0], o.steps, sum(cells))
	}
	if s != nil {
		return s.Finish(ctx, o.keep != 0)
	}
	return nil
}

// make1 makes a snapshot, at which the member may die.
func make1(ctx context.Context, s *snapshot.Snapshots, step uint64, dies func(moment uint64)) error {
	dies(0)
	if err := s.Start(step); err != nil {
		return err
	}
	dies(1)
	over, cancel := context.WithCancel(ctx)
	cancel()
	err := s.Commit(over) // which asks, and does not wait
	dies(2)
	for errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		err = s.Commit(short)
		cancel()
	}
	if errors.Is(err, snapshot.ErrFailed) {
		fmt.Fprintf(os.Stderr, "steps: step %d: %v\n", step, err)
		return nil
	}
	return err
}
