package amt_test

import (
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
		{"a negative one", send("count", -1), "there is no index {-1}"},
		{"a collection that was not created", func(c amt.Context) error { absently.Send(c, amt.Index1{}, &order{}); return nil }, "its collection was not created"},
		{"pinned by a task", send("task and go", 0), "element {0} is to go to rank 1, but of the tasks, and of what follows epochs, that its methods have begun, 1 are not over"},
		{"pinned by what follows", send("follow and go", 0), "element {0} is to go to rank 1, but of the tasks"},
		{"a rank that there is not", send("too far", 0), "has an element go to rank 3, the last one is 2"},
		{"created twice", func(c amt.Context) error { return nil }, `the collection "workers" (elements_test.go:24) is there already`},
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

// TestPinned: an element stays while a task of it runs, and goes when that has ended.
func TestPinned(t *testing.T) {
	amttest.Run(t, 3, func(c amt.Context) error {
		if err := workers.Create(c, amt.Index1{X: 5}, func(amt.Index1) (worker, error) { return worker{}, nil }); err != nil {
			return err
		}
		for _, what := range []string{"task", "go", "task", "go", "count"} {
			err := c.Collective(what, func(c amt.Context) error { work.Broadcast(c, &order{what}); return nil }).Wait(c)
			if err != nil {
				return err
			}
		}
		var err error
		workers.Each(c, func(i amt.Index1, w *worker) {
			if w.Done != 3*3 { // all ranks broadcast
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
