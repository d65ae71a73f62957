package amt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
)

type worker struct{ Done int }

type order struct{ What string }

var (
	workers  amt.Collection[amt.Index1, worker]
	work     amt.Method[amt.Index1, worker, order]
	absent   amt.Collection[amt.Index1, worker]
	absently amt.Method[amt.Index1, worker, order]
)

func init() {
	workers.Is("workers")
	absent.Is("never created")
	absently.Is(&absent, func(amt.At[amt.Index1], *worker, *order) {})
	work.Is(&workers, func(c amt.At[amt.Index1], w *worker, m *order) {
		other := (c.Rank() + 1) % c.Ranks()
		switch m.What {
		case "task":
			c.Go("by hand", func(amt.Context) error { w.Done++; return nil })
		case "task and go":
			c.Go("by hand", func(amt.Context) error { w.Done++; return nil })
			c.MoveTo(other)
		case "follow and go":
			c.Rooted("what follows", func(c amt.Context) error { work.Send(c, amt.Index1{X: 1}, &order{"count"}); return nil }).
				OnDone(c.Context, func(amt.Context) { w.Done++ })
			c.MoveTo(other)
		case "go":
			c.MoveTo(other)
		case "count":
			w.Done++
		case "too far":
			c.MoveTo(c.Ranks())
		}
	})
}

// TestElementsWrong: what is wrong with the use of elements is an error of its epoch that says so.
func TestElementsWrong(t *testing.T) {
	send := func(what string, i int) func(c amt.Context) error {
		return func(c amt.Context) error {
			if c.Rank() == 0 {
				work.Send(c, amt.Index1{X: i}, &order{what})
			}
			return nil
		}
	}
	for _, k := range []struct {
		name string
		body func(c amt.Context) error
		want string
	}{
		{"an index that there is not", send("count", 7), "there is no index {7}: the extent is {5}"},
		{"a method by its place", send("count", 7), "cannot send the handler of amt_test.order declared in github.com/byssus-hpc/byssus/amt_test.init."},
		{"a negative one", send("count", -1), "there is no index {-1}"},
		{"a collection that was not created", func(c amt.Context) error { absently.Send(c, amt.Index1{}, &order{}); return nil }, "its collection was not created"},
		{"pinned by a task", send("task and go", 0), "element {0} is to go to rank 1, but of the tasks, and of what follows epochs, that its methods have begun, 1 are not over"},
		{"pinned by what follows", send("follow and go", 0), "element {0} is to go to rank 1, but of the tasks"},
		{"a rank that there is not", send("too far", 0), "has an element go to rank 3, the last one is 2"},
		{"created twice", func(c amt.Context) error { return nil }, `) is there already`},
		{"a broadcast within a rooted epoch", func(c amt.Context) error {
			return c.Rooted("alone", func(c amt.Context) error { work.Broadcast(c, &order{}); return nil }).Wait(c)
		}, `a broadcast to elements belongs to a collective epoch, "alone" is a rooted one`},
		{"a balancer that goes too far", nil, "is to go to rank 3, the last one is 2"},
	} {
		err := amttest.Try(t, 3, func(c amt.Context) error {
			if err := workers.Create(c, amt.Index1{X: 5}, func(amt.Index1) (worker, error) { return worker{}, nil }); err != nil {
				return err
			}
			if k.name == "created twice" {
				return workers.Create(c, amt.Index1{X: 5}, func(amt.Index1) (worker, error) { return worker{}, nil })
			}
			if k.body == nil {
				return c.Phase(func(string, uint64, int, int) int { return 3 })
			}
			return c.Collective("wrong", k.body).Wait(c)
		})
		if err == nil || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%s: found %v, wanted %s", k.name, err, k.want)
		}
	}
}

type question struct {
	N     uint64
	Reply amt.Callback[uint64]
}

type asker struct{ Sum, Tags uint64 }

var (
	askers  amt.Collection[amt.Index1, asker]
	puts    amt.Method[amt.Index1, asker, number]
	replies amt.Method[amt.Index1, asker, amt.Reply[uint64]]
	squared amt.Handler[question]
	told    amt.Method[amt.Index1, asker, question]
)

func init() {
	askers.Is("askers")
	puts.Is(&askers, func(c amt.At[amt.Index1], _ *asker, m *number) {
		squared.Send(c.Context, int(m.X)%c.Ranks(), &question{m.X, amt.CallbackToElement(c.Context, &replies, c.Index(), m.X)})
		c.MoveTo(int(m.X+1) % c.Ranks()) // the reply finds it
	})
	replies.Is(&askers, func(c amt.At[amt.Index1], a *asker, m *amt.Reply[uint64]) {
		a.Sum, a.Tags = a.Sum+m.Value, a.Tags+m.Tag
		c.MoveTo(int(m.Value) % c.Ranks())
	})
	squared.Is(func(c amt.Context, q *question) { // by another element
		told.SendAt(c, amt.Index1{X: int(q.N) % 9}, q, amt.Priority(q.N%3))
	})
	told.Is(&askers, func(c amt.At[amt.Index1], _ *asker, q *question) {
		square := q.N * q.N
		q.Reply.Send(c.Context, &square)
	})
}

// TestCallbackToElement: replies find the element that they are for, wherever it went meanwhile; messages with priorities, too.
func TestCallbackToElement(t *testing.T) {
	for ranks := 1; ranks <= 4; ranks++ {
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := askers.Create(c, amt.Index1{X: 9}, func(amt.Index1) (asker, error) { return asker{}, nil }); err != nil {
				return err
			}
			err := c.Collective("ask", func(c amt.Context) error {
				for n := uint64(c.Rank()); n < 180; n += uint64(c.Ranks()) {
					puts.Send(c, amt.Index1{X: int(n % 9)}, &number{n})
				}
				return nil
			}).Wait(c)
			if err != nil {
				return err
			}
			var wrong error
			askers.Each(c, func(i amt.Index1, a *asker) {
				want := asker{}
				for n := uint64(i.X); n < 180; n += 9 {
					want.Sum, want.Tags = want.Sum+n*n, want.Tags+n
				}
				if *a != want {
					wrong = fmt.Errorf("element %v has %v, wanted %v", i, *a, want)
				}
			})
			return wrong
		})
	}
	for want, cb := range map[string]amt.Callback[uint64]{
		"to an element that CallbackToElement has not made": {To: -1, Handler: 1},
		"there is no index {77}: the extent is {9}":         {},
	} {
		err := amttest.Try(t, 2, func(c amt.Context) error {
			if err := askers.Create(c, amt.Index1{X: 9}, func(amt.Index1) (asker, error) { return asker{}, nil }); err != nil {
				return err
			}
			return c.Collective("wrong", func(c amt.Context) error {
				if cb.To == 0 {
					amt.CallbackToElement(c, &replies, amt.Index1{X: 77}, 0)
					return nil
				}
				cb.Send(c, new(uint64))
				return nil
			}).Wait(c)
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, wanted %s", err, want)
		}
	}
}

// TestPinned: an element stays while a task of it runs, and goes when that has ended.
func TestPinned(t *testing.T) {
	amttest.Run(t, 3, func(c amt.Context) error {
		if err := workers.Create(c, amt.Index1{X: 5}, func(amt.Index1) (worker, error) { return worker{}, nil }); err != nil {
			return err
		}
		for _, what := range []string{"task", "go", "task", "go", "count"} {
			err := c.Collective(what, func(c amt.Context) error {
				if c.Rank() == 0 { // tasks of an element would share it
					work.Broadcast(c, &order{what})
				}
				return nil
			}).Wait(c)
			if err != nil {
				return err
			}
		}
		var err error
		workers.Each(c, func(i amt.Index1, w *worker) {
			if w.Done != 3 {
				err = fmt.Errorf("element %v has done %d", i, w.Done)
			}
		})
		return err
	})
}

// TestIndices: numbers and indices belong together, and what is not within an extent has no number.
func TestIndices(t *testing.T) {
	e := amt.Index4{X: 2, Y: 3, Z: 4, W: 5}
	if n, ok := e.Count(); n != 120 || !ok {
		t.Errorf("%v has %d indices", e, n)
	}
	for n := range uint64(120) {
		i := e.At(n)
		if got, ok := e.Number(i); got != n || !ok {
			t.Errorf("%d is %v, which is %d", n, i, got)
		}
		if j := (amt.Index3{X: 4, Y: 5, Z: 6}).At(n); (j != amt.Index3{X: int(n / 30), Y: int(n / 6 % 5), Z: int(n % 6)}) {
			t.Errorf("%d is %v", n, j)
		}
	}
	for _, i := range []amt.Index4{{X: 2}, {Y: 3}, {Z: 4}, {W: 5}, {X: -1}, {W: -1}} {
		if n, ok := e.Number(i); ok {
			t.Errorf("%v is number %d", i, n)
		}
	}
	if n, ok := (amt.Index2{X: 1 << 40, Y: 1 << 30}).Count(); ok {
		t.Errorf("there are %d", n)
	}
}

// TestElementsAfter: what is held back for an epoch before, and what tasks send, finds elements where they are by then.
func TestElementsAfter(t *testing.T) {
	for ranks := 1; ranks <= 4; ranks++ {
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := workers.Create(c, amt.Index1{X: 5}, func(amt.Index1) (worker, error) { return worker{}, nil }); err != nil {
				return err
			}
			first := c.Collective("moves", func(c amt.Context) error {
				for i := range 5 {
					work.Send(c, amt.Index1{X: i}, &order{"go"})
				}
				return nil
			})
			second := c.Collective("after", func(c amt.Context) error {
				for i := range 5 {
					work.Send(c, amt.Index1{X: i}, &order{"count"})
				}
				if c.Rank() == 0 {
					work.Broadcast(c, &order{"count"})
				}
				c.Go("sends", func(c amt.Context) error {
					for i := range 5 {
						work.Send(c, amt.Index1{X: i}, &order{"go"})
						work.Send(c, amt.Index1{X: i}, &order{"count"})
					}
					return nil
				})
				return nil
			}, amt.After(first))
			if err := second.Wait(c); err != nil {
				return err
			}
			var err error
			workers.Each(c, func(i amt.Index1, w *worker) {
				if w.Done != 2*c.Ranks()+1 {
					err = fmt.Errorf("element %v has done %d, wanted %d", i, w.Done, 2*c.Ranks()+1)
				}
			})
			return err
		})
	}
}

// TestCreateFails: a collection that could not be made on one rank is on none, and can be made then.
func TestCreateFails(t *testing.T) {
	amttest.Run(t, 3, func(c amt.Context) error {
		err := workers.Create(c, amt.Index1{X: 5}, func(i amt.Index1) (worker, error) {
			if i.X == 3 {
				return worker{}, fmt.Errorf("no worker %d", i.X)
			}
			return worker{}, nil
		})
		if err == nil || !strings.Contains(err.Error(), "element {3}: no worker 3") {
			return fmt.Errorf("found %w", err)
		}
		if err := workers.Create(c, amt.Index1{X: 0}, func(amt.Index1) (worker, error) { return worker{}, nil }); err != nil {
			return err
		}
		return c.Collective("none", func(c amt.Context) error { work.Broadcast(c, &order{"count"}); return nil }).Wait(c)
	})
}

// TestSaveTooEarly: what is saved while elements are on their way is all of them, or an error.
func TestSaveTooEarly(t *testing.T) {
	early := 0
	for range 20 {
		dir := amt.Directory(t.TempDir())
		saved := false
		amttest.Run(t, 3, func(c amt.Context) error {
			if err := newStorm(c, 5); err != nil {
				return err
			}
			ep := c.Collective("storm", func(c amt.Context) error {
				for k := range uint64(30) {
					stormStep.Send(c, stormExtent.At(k), &step{k | uint64(c.Rank())<<32, 30, 60, false})
				}
				return nil
			})
			err := amt.Save(c, dir, &storm)
			if err != nil && !strings.Contains(err.Error(), "some are on their way") {
				return err
			}
			if c.Rank() == 0 {
				saved = err == nil
			}
			return ep.Wait(c)
		})
		if !saved {
			early++
			continue
		}
		amttest.Run(t, 2, func(c amt.Context) error { _, err := amt.Restore(c, dir, &storm); return err })
	}
	t.Logf("%d of 20 were too early", early)
}

// TestReductionWithout: a reduction for which elements do not give their values can never have a result, which is told; so is a second value.
func TestReductionWithout(t *testing.T) {
	err := amttest.Try(t, 3, func(c amt.Context) error {
		if err := newStorm(c, 1); err != nil {
			return err
		}
		_, err := stormSum.Wait(c, 4)
		return err
	})
	var hang *amt.HangError
	if !errors.As(err, &hang) || !strings.Contains(err.Error(), `reduction 4 of storm" (collective`) ||
		!strings.Contains(err.Error(), `-> element {3 0} of the collection "storm", and 32 more of rank 1: gave no value for reduction 4`) {
		t.Errorf("found %v", err)
	}
}
