package amt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
)

type text struct{ S []string }

// A relay is a request that is handed on, with its callback.
type relay struct {
	Left  int64
	Reply amt.Callback[number]
}

var (
	squares   amt.Call[number, number]
	joins     amt.Call[text, text]
	relays    amt.Call[number, number]
	passesOn  amt.Handler[relay]
	silent    amt.Call[number, number]
	twice     amt.Call[number, number]
	refuses   amt.Call[number, number]
	later     amt.Call[number, number]
	arrives   amt.Handler[amt.Reply[number]]
	gotten    amt.Local[map[uint64]uint64]
	asks      amt.Handler[number]
	waitsIn   amt.Handler[number]
	unsaid    amt.Call[number, number]
	saves     amt.Call[number, number]
	saved     amt.Local[amt.Callback[number]]
	strangers amt.Handler[amt.Reply[text]]
)

func init() {
	squares.Is(func(c amt.Context, q *number, reply amt.Callback[number]) { reply.Send(c, &number{q.X * q.X}) })
	joins.Is(func(c amt.Context, q *text, reply amt.Callback[text]) {
		reply.Send(c, &text{[]string{strings.Join(q.S, "+"), fmt.Sprint(c.Rank())}})
	})
	relays.Is(func(c amt.Context, q *number, reply amt.Callback[number]) {
		passesOn.Send(c, (c.Rank()+1)%c.Ranks(), &relay{int64(q.X), reply})
	})
	passesOn.Is(func(c amt.Context, m *relay) {
		if m.Left == 0 {
			m.Reply.Send(c, &number{uint64(c.Rank())})
			return
		}
		m.Left--
		passesOn.Send(c, (c.Rank()+1)%c.Ranks(), m)
	})
	silent.Is(func(amt.Context, *number, amt.Callback[number]) {})
	twice.Is(func(c amt.Context, q *number, reply amt.Callback[number]) { reply.Send(c, q); reply.Send(c, q) })
	refuses.Is(func(c amt.Context, q *number, _ amt.Callback[number]) { c.Fail(fmt.Errorf("number %d is bad", q.X)) })
	later.Is(func(c amt.Context, q *number, reply amt.Callback[number]) {
		x := q.X
		c.Go("later", func(c amt.Context) error { reply.Send(c, &number{x + 1}); return nil })
	})
	arrives.Is(func(c amt.Context, m *amt.Reply[number]) {
		mine := gotten.Of(c)
		if *mine == nil {
			*mine = map[uint64]uint64{}
		}
		(*mine)[m.Tag] += m.Value.X
	})
	asks.Is(func(c amt.Context, m *number) {
		for to := range c.Ranks() {
			squares.Ask(c, to, &number{m.X + uint64(to)}, amt.CallbackTo(c, &arrives, uint64(to)))
		}
	})
	waitsIn.Is(func(c amt.Context, m *number) { squares.Wait(c, 0, m) })
	saves.Is(func(c amt.Context, q *number, reply amt.Callback[number]) {
		*saved.Of(c) = reply
		reply.Send(c, q)
	})
	strangers.Is(func(amt.Context, *amt.Reply[text]) {})
}

// TestCall: main functions and tasks ask any rank, and get what it, or whom it hands the request on to, replies.
func TestCall(t *testing.T) {
	for n := 1; n < 5; n++ {
		amttest.Run(t, n, func(c amt.Context) error {
			for to := range n {
				if r, err := squares.Wait(c, to, &number{uint64(3 + to)}); err != nil || r.X != uint64((3+to)*(3+to)) {
					return fmt.Errorf("squares: %d, %v", r.X, err)
				}
				if r, err := joins.Wait(c, to, &text{[]string{"a", "b"}}); err != nil || fmt.Sprint(r.S) != fmt.Sprintf("[a+b %d]", to) {
					return fmt.Errorf("joins: %q, %v", r.S, err)
				}
				if r, err := relays.Wait(c, to, &number{5}); err != nil || int(r.X) != (to+6)%n {
					return fmt.Errorf("relays: %d, %v", r.X, err)
				}
				if r, err := later.Wait(c, to, &number{5}); err != nil || r.X != 6 {
					return fmt.Errorf("later: %d, %v", r.X, err)
				}
			}
			return c.Collective("tasks", func(c amt.Context) error {
				for x := range uint64(50) {
					c.Go("asks", func(c amt.Context) error {
						r, err := relays.Wait(c, int(x)%n, &number{x})
						if want := (x + 1 + x%uint64(n)) % uint64(n); err == nil && r.X != want {
							err = fmt.Errorf("relays %d: %d, want %d", x, r.X, want)
						}
						return err
					})
				}
				return nil
			}).Wait(c)
		})
	}
}

// TestAsk: handlers ask with a callback to a handler of their own.
func TestAsk(t *testing.T) {
	amttest.Run(t, 3, func(c amt.Context) error {
		err := c.Collective("all", func(c amt.Context) error { asks.Send(c, c.Rank(), &number{2}); return nil }).Wait(c)
		if got := fmt.Sprint(*gotten.Of(c)); err == nil && got != "map[0:4 1:9 2:16]" {
			err = errors.New(got)
		}
		return err
	})
}

// TestCallErrors: what is wrong with a request or its reply is told, and nobody waits for ever.
func TestCallErrors(t *testing.T) {
	one := &number{1}
	for name, row := range map[string]struct {
		call func(c amt.Context) error
		want string
	}{
		"no reply":     {func(c amt.Context) error { _, err := silent.Wait(c, 1, one); return err }, "amt: rank 0: rank 1 was sent a request, and nobody has replied: the handler of"},
		"two replies":  {func(c amt.Context) error { _, err := twice.Wait(c, 1, one); return err }, "amt: rank 0: a second reply of amt_test.number comes, from rank 1"},
		"a failure":    {func(c amt.Context) error { _, err := refuses.Wait(c, 1, one); return err }, "number 1 is bad"},
		"no such rank": {func(c amt.Context) error { _, err := squares.Wait(c, 2, one); return err }, "there is no rank 2"},
		"not said":     {func(c amt.Context) error { _, err := unsaid.Wait(c, 1, one); return err }, "it was never said what it is"},
		"in a handler": {func(c amt.Context) error { waitsIn.Send(c, 1, one); return nil }, "waits for the epoch \"call\": a rank that waits there could do nothing of it"},
		"no callback":  {func(c amt.Context) error { amt.Callback[number]{}.Send(c, one); return nil }, "it has a Callback of amt_test.number that neither Call nor CallbackTo has made"},
		"another's": {func(c amt.Context) error {
			amt.Callback[number](amt.CallbackTo(c, &strangers, 0)).Send(c, one)
			return nil
		}, "it has a Callback of amt_test.number that is for the handler of amt.Reply"},
		"nobody waits": {func(c amt.Context) error { stray(c).Send(c, one); return nil }, "a reply of amt_test.number comes from rank 0 when nobody waits for it"},
		"to no such rank": {func(c amt.Context) error {
			cb := amt.CallbackTo(c, &arrives, 0)
			cb.To = 7
			cb.Send(c, one)
			return nil
		}, "there is no rank 7"},
	} {
		err := onFirst(func(c amt.Context) { c.Fail(c.Rooted("in", row.call).Wait(c)) })
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
	}
}

// stray is a callback of a call that is over.
func stray(c amt.Context) amt.Callback[number] {
	if _, err := saves.Wait(c, 0, &number{1}); err != nil {
		c.Fail(err)
	}
	return *saved.Of(c)
}

func BenchmarkCall(b *testing.B) {
	if err := amt.RunLocal(2, func(c amt.Context) error {
		if c.Rank() != 0 {
			return nil
		}
		for b.Loop() {
			if _, err := squares.Wait(c, 1, &number{3}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}
