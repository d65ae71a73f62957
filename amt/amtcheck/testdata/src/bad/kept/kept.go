// Package kept has handlers that keep messages whose memory is used again.
package kept

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

type cells struct {
	Block int64
	Row   [8]float64
}

type state struct {
	last *cells
	row  []float64
	all  []*cells
	by   map[int64]*cells
}

// take keeps what it is given.
func (s *state) take(m *cells) { s.last = m } // want `^s.last keeps memory of the message m, which is used again when the handler has ended: keep a copy, made before by v := \*m$`

// remember keeps the message that it is a method of.
func (m *cells) remember(s *state) {
	s.all = append(s.all, m) // want `^s.all keeps memory of the message m`
}

// keepRow keeps a slice of it.
func keepRow(s *state, row []float64) {
	s.row = row // want `^s.row keeps memory of the message row, which is used again when the handler has ended: keep a copy, made before by slices.Clone\(row\)$`
}

func (m *cells) sum() float64 { return m.Row[0] }

func (m *cells) later(amt.Context) {}

var (
	one, two, three, four, five, six amt.Handler[cells]
	own                              amt.Local[state]
	final                            amt.Local[*cells]
	scope                            amt.Local[*amt.Scope]
	latest                           *cells
	rows                             [][]float64
	arrived                          = make(chan *cells, 1)
	queue                            list.List
	held                             sync.Map
	newest                           atomic.Pointer[cells]
)

func init() {
	one.Is(func(c amt.Context, m *cells) {
		latest = m                    // want `^latest keeps memory of the message m, which is used again when the handler has ended: keep a copy, made before by v := \*m$`
		rows = append(rows, m.Row[:]) // want `^rows keeps memory of the message m`
		*final.Of(c) = m              // want `^\*final.Of\(c\) keeps memory of the message m`
		own.Of(c).last = m            // want `^own.Of\(...\).last keeps memory of the message m`
		own.Of(c).by[m.Block] = m     // want `^own.Of\(c\).by\[m.Block\] keeps memory`
		arrived <- m                  // want `^what is sent on arrived leads to memory of the message m`
	})
	two.Is(func(c amt.Context, m *cells) {
		s, same, row := own.Of(c), m, m.Row[2:4]
		s.all = append(s.all, same) // want `^s.all keeps memory of the message m`
		s.row = row                 // want `^s.row keeps memory of the message m`
		first := &m.Row[0]
		all := []*float64{first}
		hold(all)
		for _, q := range own.Of(c).all {
			other := q
			*s = state{last: m}      // want `^\*s keeps memory of the message m`
			s.by[other.Block] = same // want `^s.by\[other.Block\] keeps memory`
		}
	})
	three.Is(onThree)
	four.Is(func(c amt.Context, m *cells) {
		c.Go("work", func(amt.Context) error {
			println(m.Block) // want `^m, used by a task, leads to memory of the message m`
			return nil
		})
		c.Rooted("in", func(amt.Context) error { return nil }).OnDone(c, func(c amt.Context) {
			one.Send(c, 0, m) // want `^m, used by what follows an epoch or an operation, leads to memory of the message m`
		})
		row := m.Row[:]
		(*scope.Of(c)).Do(c, func(*mpi.Comm) error {
			row[0] = 1 // want `^row, used by an operation of a scope, leads to memory of the message m`
			return nil
		})
		go println(m)                                                             // want `^m, taken to another goroutine, leads to memory`
		go func() { println(row[0]) }()                                           // want `^this function, taken to another goroutine, leads to memory`
		c.Rooted("in", func(amt.Context) error { return nil }).OnDone(c, m.later) // want `^m, used by what follows`
	})
	five.Is(func(c amt.Context, m *cells) {
		own.Of(c).take(m)
		m.remember(own.Of(c))
		keepRow(own.Of(c), m.Row[:])
	})
	six.Is(func(c amt.Context, m *cells) {
		queue.PushBack(m)      // want `^queue.PushBack keeps memory`
		held.Store(m.Block, m) // want `^held.Store keeps memory`
		newest.Store(m)        // want `^newest.Store keeps memory`
		then := func(amt.Context) { println(m.Block) }
		c.Rooted("in", func(amt.Context) error { return nil }).OnDone(c, then) // want `^then, used by what follows`
	})
}

func hold([]*float64) {}

// onThree is a handler by its name.
func onThree(c amt.Context, m *cells) {
	work := struct{ m *cells }{m}
	latest = work.m // want `^latest keeps memory of the message m`
}

type named struct {
	Name string
	Row  [8]float64
}

var packed amt.Handler[named]

// A message with pointers is the handler's own; a copy is everybody's own; what ends with the handler may have the message.
func init() {
	packed.Is(func(c amt.Context, m *named) {
		keptName = m
		go println(m)
		c.Go("work", func(amt.Context) error { println(m.Name); return nil })
	})
	one.Is(func(c amt.Context, m *cells) {
		v, s := *m, own.Of(c)
		s.last = &v
		s.last.Row = m.Row
		s.row = append(s.row, m.Row[:]...)
		s.row = append([]float64(nil), m.Row[:]...)
		copy(s.row, m.Row[:])
		var local []*cells
		local = append(local, m)
		work := &state{by: map[int64]*cells{}}
		work.last = m
		work.by[0] = m
		println(len(local), work.last.sum(), m.sum())
		m.Row[0] = 1
		c.Rooted("in", func(c amt.Context) error { one.Send(c, 0, m); return nil })
		defer func() { println(m.Block) }()
		block := m.Block
		go println(m.Block, m.sum())
		c.Go("work", func(amt.Context) error { println(block, v.Block); return nil })
	})
}

// What is made here may have the message, and so may goroutines that are waited for, and a variable that is a copy by then.
func init() {
	two.Is(func(c amt.Context, m *cells) {
		work := newState(3)
		work.last = m
		rows := work.all
		rows[0] = m
		var all sync.WaitGroup
		all.Go(func() { println(m.Block) })
		go println(m)
		all.Wait()
	})
	three.Is(func(c amt.Context, m *cells) {
		v := *m
		m = &v
		own.Of(c).last = m
	})
	four.Is(func(c amt.Context, m *cells) {
		found := find(c)
		found.last = m             // want `^found.last keeps memory of the message m`
		own.Of(c).slot(3).last = m // want `^own.Of\(...\).slot\(...\).last keeps memory`
		c.Rooted("in", func(c amt.Context) error {
			find(c).last = m // want `^find\(...\).last keeps memory`
			inner := find(c)
			inner.last = m // want `^inner.last keeps memory`
			return nil
		})
		slot := own.Of(c).slot(3)
		slot.last = m // want `^slot.last keeps memory`
		var all sync.WaitGroup
		all.Go(func() { println(m.Block) }) // want `^m, used by a goroutine, leads to memory`
	})
}

func newState(n int) *state { return &state{all: make([]*cells, n)} }

func find(c amt.Context) *state { return own.Of(c) }

func (s *state) slot(int) *state { return s }

var keptName *named

var (
	asks    amt.Call[cells, cells]
	answers amt.Local[[]amt.Callback[cells]]
	asked   amt.Local[state]
)

func init() {
	asks.Is(func(c amt.Context, q *cells, reply amt.Callback[cells]) {
		asked.Of(c).last = q // want `^asked.Of\(...\).last keeps memory of the message q`
		all := answers.Of(c)
		*all = append(*all, reply)
	})
}
