// Command tasks_steps is a program of tasks whose elements are saved in the memory of the nodes: they migrate all the time, are inserted and
// deleted, and grow. What it prints depends neither on the number of ranks nor on how often it was interrupted.
//
//	tasks_steps STEPS [every=N] [ms=N] [until=FILE] [size=BYTES] [die=RANK@STEP]
//
// It saves after each N-th step, pauses between steps, waits before its last step for a file, and has a rank die once.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/amt"
)

// A Cell is an element: what it has grows with each step.
type Cell struct {
	Trail []uint64
	Bulk  []byte
	State uint64
}

// A Turn is a step.
type Turn struct{ Step int }

var (
	cells amt.Collection[amt.Index2, Cell]
	turn  amt.Method[amt.Index2, Cell, Turn]
	tell  amt.Method[amt.Index2, Cell, Turn]
	trail amt.ElementReduction[amt.Index2, Cell, uint64]
)

func init() {
	cells.Is("cells")
	turn.Is(&cells, func(c amt.At[amt.Index2], e *Cell, m *Turn) {
		e.State = mix(e.State + uint64(m.Step))
		e.Trail = append(e.Trail, e.State)
		c.MoveTo(int(e.State>>32) % c.Ranks())
	})
	tell.Is(&cells, func(c amt.At[amt.Index2], e *Cell, m *Turn) {
		sum := uint64(len(e.Bulk))
		for _, v := range e.Trail {
			sum = mix(sum ^ v)
		}
		trail.Give(c, uint64(m.Step), sum)
	})
	trail.Is(&cells, func(a, b uint64) uint64 { return mix(a*31 + b) })
}

func mix(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}

// settings are what the command line says.
type settings struct {
	steps, every, ms, size int
	until                  string
	dier, deadline         int
}

func parse(args []string) (s settings, err error) {
	s = settings{every: 1, size: 1000, dier: -1}
	for i, a := range args {
		key, value, _ := strings.Cut(a, "=")
		number, nerr := strconv.Atoi(value)
		switch {
		case i == 0:
			s.steps, err = strconv.Atoi(a)
		case key == "until":
			s.until = value
		case key == "die":
			_, err = fmt.Sscanf(value, "%d@%d", &s.dier, &s.deadline)
		case nerr != nil:
			err = fmt.Errorf("%s: %w", a, nerr)
		case key == "every":
			s.every = number
		case key == "ms":
			s.ms = number
		case key == "size":
			s.size = number
		default:
			err = fmt.Errorf("%s: wanted every, ms, until, size or die", a)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func main() { amt.Main(program) }

func program(c amt.Context) error {
	s, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	store, found := amt.Nodes("tasks"), false
	if s.every <= s.steps {
		found, err = amt.Restore(c, store, &cells)
	}
	if err == nil && !found {
		err = begin(c, s)
	}
	if err != nil {
		return err
	}
	if found && c.Rank() == 0 {
		fmt.Fprintf(os.Stderr, "steps: restored at step %d\n", c.PhaseNumber())
	}
	for step := c.PhaseNumber() + 1; step <= s.steps; step++ {
		if step == s.steps {
			await(s.until)
		}
		if c.Rank() == s.dier && step == s.deadline && !found && s.every <= s.steps {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				return err
			}
		}
		if err := advance(c, step); err != nil {
			return err
		}
		if err := c.Phase(); err != nil {
			return err
		}
		if step%s.every == 0 {
			if err := amt.Save(c, store, &cells); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(s.ms) * time.Millisecond) // the pace at which a test looks on
	}
	return result(c, s)
}

// await waits for a file, by which a test says that the last step is due.
func await(until string) {
	for until != "" {
		if _, err := os.Stat(until); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// broadcast has all elements run a method.
func broadcast(c amt.Context, m *amt.Method[amt.Index2, Cell, Turn], step int) error {
	return c.Collective("broadcast", func(c amt.Context) error {
		if c.Rank() == 0 {
			m.Broadcast(c, &Turn{step})
		}
		return nil
	}).Wait(c)
}

func begin(c amt.Context, s settings) error {
	err := cells.CreateEmpty(c, amt.Index2{X: 1 << 20, Y: 1 << 20})
	if err != nil {
		return err
	}
	return c.Modify("begin", func(c amt.Context) error {
		for k := 0; k < 23 && c.Rank() == 0; k++ {
			cells.Insert(c, amt.Index2{X: k * 1000, Y: k * k}, Cell{State: uint64(k), Bulk: make([]byte, s.size*(k%5))})
		}
		return nil
	})
}

// advance inserts an element, deletes that of some steps before, and has all make a step.
func advance(c amt.Context, step int) error {
	err := c.Modify("advance", func(c amt.Context) error {
		if c.Rank() == step%c.Ranks() {
			cells.Insert(c, amt.Index2{X: step, Y: 1 << 19}, Cell{State: uint64(step)})
		}
		if old := step - 4; old > 0 && c.Rank() == 0 {
			cells.Delete(c, amt.Index2{X: old, Y: 1 << 19})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return broadcast(c, &turn, step)
}

func result(c amt.Context, s settings) error {
	if err := broadcast(c, &tell, s.steps); err != nil {
		return err
	}
	sum, err := trail.Wait(c, uint64(s.steps))
	if err == nil && c.Rank() == 0 {
		fmt.Printf("step %d of %d: %d elements, %016x\n", s.steps, s.steps, cells.Size(c), sum)
	}
	return err
}
