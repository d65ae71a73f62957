package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// A variant is one way to do a comparison's work.
type variant struct {
	name  string
	run   func() error        // timed
	check func() (int, error) // after a first run: whether it did the work, and how many bytes the packed value has
	drop  func()              // forget the result, so that it is no burden to the others
	fresh bool                // the result is made anew each time
}

// A comparison holds variants against the first of them.
type comparison struct {
	name     string
	objects  int
	bytes    int // of the value, for the throughput: the same for all variants
	variants []variant
}

// spent is the time that one repetition of the work took.
type spent struct {
	cpu, wall float64 // nanoseconds
}

// series is what was measured of one variant, round by round.
type series struct {
	cpu, wall []float64 // nanoseconds of one repetition
	repeat    int       // repetitions in a turn
	packed    int       // bytes of the packed value
	bytes     float64   // allocated by one repetition
	allocs    float64   // how often it allocates
}

// compare measures a comparison and prints it.
func (b *bench) compare(c comparison) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // collections inside of a turn, or none, made two sets of times
	measured := make([]series, len(c.variants))
	for i, v := range c.variants {
		if err := b.begin(v, &measured[i]); err != nil {
			return fmt.Errorf("bench: %s: %s: %w", c.name, v.name, err)
		}
	}
	for round := range b.rounds {
		for k := range c.variants {
			i := (round + k) % len(c.variants) // who begins changes, so that none always follows the same other
			v, m := c.variants[i], &measured[i]
			s, err := turn(v, m.repeat)
			if err != nil {
				return fmt.Errorf("bench: %s: %s: %w", c.name, v.name, err)
			}
			m.cpu, m.wall = append(m.cpu, s.cpu), append(m.wall, s.wall)
		}
	}
	for i, v := range c.variants {
		b.print(c, v.name, measured[i], measured[0])
	}
	return nil
}

// begin checks that a variant does its work, and finds how often it does it in one turn.
func (b *bench) begin(v variant, m *series) (err error) {
	if err = v.run(); err != nil {
		return err
	}
	if m.packed, err = v.check(); err != nil {
		return err
	}
	v.drop()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := turn(v, 1)
	runtime.ReadMemStats(&after)
	m.bytes, m.allocs = float64(after.TotalAlloc-before.TotalAlloc), float64(after.Mallocs-before.Mallocs)
	const most = 256 << 20 // bytes that may be garbage at the end of a turn
	m.repeat = max(1, int(min(float64(b.turn)/max(s.wall, 1)+0.5, most/max(m.bytes, 1), 10_000)))
	return err
}

// turn does a variant's work n times. What makes fresh memory begins each time with what the time before has freed: pages
// that are new to the process cost more than the work, and come when the runtime likes.
func turn(v variant, n int) (spent, error) {
	var sum spent
	times := 1
	if v.fresh {
		times, n = n, 1
	}
	for range times {
		runtime.GC()
		cpu, wall := processorTime(), time.Now()
		for range n {
			if err := v.run(); err != nil {
				return spent{}, err
			}
		}
		sum.cpu += float64(processorTime() - cpu)
		sum.wall += float64(time.Since(wall))
		v.drop()
	}
	all := float64(times * n)
	return spent{sum.cpu / all, sum.wall / all}, nil
}

// processorTime is what all threads of this process have used, in user and in system mode.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // only a wrong argument makes it fail
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
