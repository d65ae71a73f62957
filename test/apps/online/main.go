// Command online computes step by step on members that speak over sockets, without MPI, and whose survivors go on when one has died (byssus run
// --survivors keep): they restore the newest snapshot together with the process that takes the place of the dead.
//
//	online alone=MEMBERS STEPS [size=BYTES]     what all of them print, undisturbed
//	online STEPS dir=DIRECTORY [size=BYTES] [ms=MILLISECONDS] [die=MEMBER@STEP@MOMENT] [until=FILE] [side=N [sides=MEMBERS]]
//
// dir: where members leave their addresses for others; size: of each member's region; ms: that a step takes at least; die: SIGKILL of itself, in
// the first epoch alone, MOMENT 0 before Start, 1 after it, 2 while Commit waits, 3 as soon as it is restored, in any epoch; until: the last step
// is done when there is such a file; side: there is a second group, of a snapshot every N steps, of all members or of the first ones; MOMENT 4 is
// when it is being committed, 5 when the first group has begun, and the second not: at STEP 0 before there is a snapshot, else when it is restored.
// What a member prints at its end depends on every step of every member, and on nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/snapshot"
)

func main() {
	args, err := os.Args[1:], error(nil)
	if members, ok := strings.CutPrefix(args[0], "alone="); ok {
		n, _ := strconv.Atoi(members)
		err = alone(n, args[1:])
	} else {
		err = live(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "online:", err)
		os.Exit(7)
	}
}

// live is a member's life.
func live(args []string) error {
	id, err1 := strconv.Atoi(os.Getenv("PMI_RANK"))
	members, err2 := strconv.Atoi(os.Getenv("PMI_SIZE"))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	m, err := parse(id, members, args)
	if err != nil {
		return err
	}
	return m.run(context.Background())
}

// member is this process.
type member struct {
	steps, size, ms uint64
	dir, until      string
	die             []uint64

	id, members int
	side        side
	cells       []uint64
	state       []uint64 // step, and the sum of all
	s           *snapshot.Snapshots
	first       bool // no snapshot was there
}

func parse(id, members int, args []string) (m *member, err error) {
	m = &member{id: id, members: members, steps: 10, size: 1000}
	for i, a := range args {
		name, value, _ := strings.Cut(a, "=")
		n, _ := strconv.ParseUint(value, 10, 64)
		switch {
		case i == 0:
			m.steps, err = strconv.ParseUint(a, 10, 64)
		case name == "dir":
			m.dir = value
		case name == "until":
			m.until = value
		case name == "size":
			m.size = n
		case name == "ms":
			m.ms = n
		case name == "side":
			m.side.every = n
		case name == "sides":
			m.side.members = int(n)
		case name == "die":
			for part := range strings.SplitSeq(value, "@") {
				n, _ := strconv.ParseUint(part, 10, 64)
				m.die = append(m.die, n)
			}
		default:
			err = fmt.Errorf("what is %q?", a)
		}
		if err != nil {
			return nil, err
		}
	}
	m.cells, m.state = make([]uint64, m.size/8+1), make([]uint64, 2)
	if m.side.members == 0 {
		m.side.members = members
	}
	m.side.id, m.side.state = id, []uint64{0, uint64(id)}
	return m, nil
}

func mix(x uint64) uint64 {
	x = (x ^ x>>31) * 0x7fb5d329728ea185
	x = (x ^ x>>27) * 0x81dadef4bc2dd44d
	return x ^ x>>33
}

func (m *member) dies(moment uint64) {
	if len(m.die) != 3 || m.die[0] != uint64(m.id) || m.die[2] != moment {
		return
	}
	now := m.die[1] == m.state[0] && (m.first || moment == 3)
	if moment == 5 { // once
		now = m.die[1] == 0 && m.first || m.die[1] > 0 && !m.first
		if now {
			_, err := os.OpenFile(m.dir+".died", os.O_CREATE|os.O_EXCL, 0o600)
			now = err == nil
		}
	}
	if now {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

func (m *member) run(ctx context.Context) error {
	cells, err1 := snapshot.Of(7, m.cells)
	state, err2 := snapshot.Of(1, m.state)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for {
		err := m.restore(ctx, cells, state)
		if err == nil {
			err = m.live(ctx)
		}
		if err == nil || !again(err) {
			return err
		}
		m.scribble()
	}
}

// restore restores the first group, then the second.
func (m *member) restore(ctx context.Context, regions ...snapshot.Region) (err error) {
	var tag uint64
	var found bool
	if m.s == nil {
		m.s, tag, found, err = snapshot.Restore(ctx, snapshot.Group{Member: m.id, Members: m.members}, regions...)
		m.first = !found
	} else {
		tag, found, err = m.s.Restore(ctx)
	}
	if err != nil {
		return err
	}
	if err := m.begin(tag, found); err != nil {
		return err
	}
	m.dies(5)
	return m.side.restore(ctx)
}

// again says whether an error is of the death of a member, or of a connection to one that has noticed it.
func again(err error) bool {
	return errors.Is(err, snapshot.ErrPeer) || errors.Is(err, context.Canceled) || errors.Is(err, errRing)
}

func (m *member) scribble() {
	for i := range m.cells {
		m.cells[i] = 0xeeee
	}
	m.state[0], m.state[1] = 77, 77
	m.side.state[0], m.side.state[1] = 77, 77
}

// begin takes what was restored, or begins from nothing.
func (m *member) begin(tag uint64, found bool) error {
	if !found {
		m.zero()
		fmt.Fprintf(os.Stderr, "online: member %d begins\n", m.id)
		return nil
	}
	if tag != m.state[0] {
		return fmt.Errorf("found step %d, wanted the tag, %d", m.state[0], tag)
	}
	fmt.Fprintf(os.Stderr, "online: member %d, process %d, restored at step %d in epoch %d\n", m.id, os.Getpid(), tag, m.s.Epoch())
	m.dies(3)
	return nil
}

func (m *member) zero() {
	m.state[0], m.state[1] = 0, 0
	for i := range m.cells {
		m.cells[i] = mix(uint64(m.id)*1000003 + uint64(i))
	}
}

// watch ends an epoch when a member has died: connections to one whose node is silent would hang.
func (m *member) watch(e *epoch) {
	for {
		states, err := m.s.States(e.ctx)
		if err != nil {
			return
		}
		var dead []int
		for i, s := range states {
			if s == snapshot.Corrupt {
				dead = append(dead, i)
			}
		}
		if len(dead) > 0 {
			fmt.Fprintf(os.Stderr, "online: member %d hears that %v died\n", m.id, dead)
			e.cancel()
		}
	}
}

// live computes until the end, or until a member dies.
func (m *member) live(ctx context.Context) error {
	e := newEpoch(ctx)
	defer e.cancel()
	go m.watch(e)
	ring, err := e.connect(m.dir, m.s.Epoch(), m.id, m.members)
	if err != nil {
		return err
	}
	for m.state[0] < m.steps {
		if err := m.step(e.ctx, ring); err != nil {
			return err
		}
	}
	line := m.line()
	if err := m.side.finish(ctx); err != nil {
		return err
	}
	if err := m.s.Finish(ctx, false); err != nil {
		return err
	}
	fmt.Print(line)
	return nil
}

func (m *member) line() string {
	sum := uint64(0)
	for _, c := range m.cells {
		sum ^= mix(c)
	}
	if m.side.has() {
		return fmt.Sprintf("step %d member %d: %016x %016x %016x\n", m.state[0], m.id, sum, m.state[1], m.side.sum(m.state[0]))
	}
	return fmt.Sprintf("step %d member %d: %016x %016x\n", m.state[0], m.id, sum, m.state[1])
}

// compute is what a member does in a step before it hears of its neighbour, and after.
func (m *member) compute() (sum uint64) {
	m.state[0]++
	for i := range m.cells {
		m.cells[i] = mix(m.cells[i] + m.state[0])
		sum += m.cells[i]
	}
	return sum
}

func (m *member) take(left uint64) {
	m.cells[0] += left
	m.state[1] = mix(m.state[1] + left)
}

func (m *member) step(ctx context.Context, r *ring) error {
	left, err := r.exchange(m.compute())
	if err != nil {
		return err
	}
	m.take(left)
	time.Sleep(time.Duration(m.ms) * time.Millisecond)
	for m.state[0] == m.steps && m.until != "" && ctx.Err() == nil {
		if _, err := os.Stat(m.until); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := m.side.step(ctx, m.state[0], func() { m.dies(4) }); err != nil {
		return err
	}
	m.dies(0)
	if err := m.s.Start(m.state[0]); err != nil {
		return err
	}
	m.dies(1)
	over, cancel := context.WithCancel(ctx)
	cancel()
	err = m.s.Commit(over) // which asks, and does not wait
	m.dies(2)
	for errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = m.s.Commit(ctx)
	}
	if errors.Is(err, snapshot.ErrFailed) {
		fmt.Fprintf(os.Stderr, "online: step %d: %v\n", m.state[0], err)
		return nil
	}
	return err
}

// alone computes what all members would, undisturbed.
func alone(members int, args []string) error {
	var all []*member
	for id := range members {
		m, err := parse(id, members, args)
		if err != nil {
			return err
		}
		m.zero()
		all = append(all, m)
	}
	sums := make([]uint64, members)
	for all[0].state[0] < all[0].steps {
		for id, m := range all {
			sums[id] = m.compute()
		}
		for id, m := range all {
			m.take(sums[(id+members-1)%members])
		}
	}
	for _, m := range all {
		fmt.Print(m.line())
	}
	return nil
}
