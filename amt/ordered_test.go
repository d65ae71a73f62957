package amt_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
)

// A talker is an element that sends ordered messages, and checks those that it gets. Streams are those who send: elements by their numbers,
// others from 1000 on.
type talker struct {
	Said  map[int]int // by element: how many messages it was sent
	Last  map[int]int // by stream: the number of the last one
	Got   int
	State uint64
	Flag  bool
}

func (k *talker) random(n int) int {
	k.State = k.State*6364136223846793005 + 1442695040888963407
	return int(k.State >> 33 % uint64(n))
}

// A saying is the n-th message of a stream to an element.
type saying struct {
	Stream, N int
	Gaps      bool // there are messages that are not handled
	Any       bool // they may come in any order
	Fail      bool
	Left      int // how many more follow from it
}

// prose is one that has to be packed.
type prose struct {
	Saying saying
	Text   string
}

// talk has an element say something.
type talk struct {
	Times  int
	Saying saying
}

const talkers = 13

var (
	queue      amt.Collection[amt.Index1, talker]
	crowdTalk  amt.Method[amt.Index1, talker, talk]
	crowdSays  amt.Method[amt.Index1, talker, saying]
	crowdProse amt.Method[amt.Index1, talker, prose]
	crowdRelay amt.Handler[talk]
	rankSaid   amt.Local[map[int]int]
)

var errCrowd = errors.New("the queue fails")

func init() {
	queue.Is("queue", amt.MappedBy(func(i, _ amt.Index1, ranks int) int { return i.X % ranks }))
	crowdTalk.Is(&queue, func(c amt.At[amt.Index1], k *talker, m *talk) { k.talk(c, m) })
	crowdSays.Is(&queue, func(c amt.At[amt.Index1], k *talker, m *saying) { k.hear(c, m) }, amt.Ordered)
	crowdProse.Is(&queue, func(c amt.At[amt.Index1], k *talker, m *prose) {
		if m.Text != fmt.Sprint(m.Saying.N, " in prose") {
			c.Fail(fmt.Errorf("%d reads %q", m.Saying.N, m.Text))
		}
		k.hear(c, &m.Saying)
	}, amt.Ordered)
	crowdRelay.Is(func(c amt.Context, m *talk) { sayOfRank(c, m, 1) })
}

func (k *talker) wander(c amt.At[amt.Index1]) {
	if k.random(4) == 0 {
		c.MoveTo(k.random(c.Ranks()))
	}
}

// say sends the next message of a stream.
func say(c amt.Context, to int, s saying, how int) {
	i := amt.Index1{X: to}
	switch how % 4 {
	case 0:
		crowdProse.Send(c, i, &prose{s, fmt.Sprint(s.N, " in prose")})
	case 1:
		crowdSays.SendAt(c, i, &s, amt.Priority(how%5-2))
	default:
		crowdSays.Send(c, i, &s)
	}
}

func (k *talker) talk(c amt.At[amt.Index1], m *talk) {
	for range m.Times {
		to := k.random(talkers)
		s := m.Saying
		s.Stream, s.N = c.Index().X, k.Said[to]
		if k.Said == nil {
			k.Said = map[int]int{}
		}
		k.Said[to]++
		s.Fail = m.Saying.Fail && k.random(20) == 0
		say(c.Context, to, s, k.random(8))
	}
	k.wander(c)
}

func (k *talker) hear(c amt.At[amt.Index1], m *saying) {
	if k.Last == nil {
		k.Last = map[int]int{}
	}
	if next := k.Last[m.Stream]; m.N != next && !(m.Gaps && m.N > next) && !m.Any {
		c.Fail(fmt.Errorf("element %d hears number %d of stream %d, wanted %d", c.Index().X, m.N, m.Stream, next))
	}
	k.Last[m.Stream] = m.N + 1
	k.Got++
	if m.Fail {
		c.Fail(errCrowd)
	}
	if m.Left > 0 {
		next := *m
		next.Left--
		k.talk(c, &talk{1, next})
	}
	k.wander(c)
}

// sayOfRank has code that is no element's say something, to some elements.
func sayOfRank(c amt.Context, m *talk, times int) {
	said := rankSaid.Of(c)
	if *said == nil {
		*said = map[int]int{}
	}
	for n := range m.Times * times {
		to := (n*7 + len(*said)) % talkers
		s := m.Saying
		s.Stream, s.N = 1000+c.Rank(), (*said)[to]
		(*said)[to]++
		say(c, to, s, n)
	}
}

// repeated is how often a test is to be run.
func repeated() int {
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		return 40
	}
	return 1
}

func newCrowd(c amt.Context, seed uint64) error {
	return queue.Create(c, amt.Index1{X: talkers}, func(i amt.Index1) (talker, error) { return talker{State: seed + uint64(i.X)}, nil })
}

// crowdEpoch has elements, main functions, handlers and tasks say something.
func crowdEpoch(c amt.Context, n int, s saying) *amt.Epoch {
	return c.Collective("talk", func(c amt.Context) error {
		if c.Rank() == n%c.Ranks() {
			crowdTalk.Broadcast(c, &talk{8, s})
		}
		for i := range 5 {
			crowdTalk.SendAt(c, amt.Index1{X: (n*5 + i) % talkers}, &talk{5, s}, amt.Priority(i%3))
		}
		sayOfRank(c, &talk{10, s}, 1)
		crowdRelay.Send(c, (c.Rank()+n)%c.Ranks(), &talk{6, s})
		rank := c.Rank()
		c.Go("says", func(c amt.Context) error {
			for k := range 20 {
				s := s
				s.Stream, s.N = 2000+n*100+rank, k/2
				say(c, (n+k%2)%talkers, s, k)
			}
			return nil
		})
		return nil
	})
}

// handled is how many messages all elements have handled.
func handled(c amt.Context) (int, error) {
	own := 0
	queue.Each(c, func(_ amt.Index1, k *talker) { own += k.Got })
	return censusOfTests.All(c, own)
}

func sum(at map[int]int) (n int) {
	for _, v := range at {
		n += v
	}
	return n
}

// sayings is how many messages elements and ranks have sent; tasks send 20 each.
func sayings(c amt.Context) (int, error) {
	own := sum(*rankSaid.Of(c))
	queue.Each(c, func(_ amt.Index1, k *talker) { own += sum(k.Said) })
	return censusOfTests.All(c, own)
}

// TestOrdered: messages of each sender come to each element in their order, while both migrate at any moment, and none is lost.
func TestOrdered(t *testing.T) {
	const epochs = 4
	for again := range repeated() {
		for ranks, places := range map[int]string{1: "", 3: "4", 5: ""} {
			t.Setenv(amt.PlacesVariable, places)
			seed := rand.Uint64()
			t.Logf("%d ranks, time %d, seed %d", ranks, again, seed)
			amttest.Run(t, ranks, func(c amt.Context) error {
				if err := newCrowd(c, seed); err != nil {
					return err
				}
				for round := range 2 {
					var all []*amt.Epoch
					for n := range epochs {
						all = append(all, crowdEpoch(c, round*epochs+n, saying{Left: 1}))
					}
					for _, ep := range all {
						if err := ep.Wait(c); err != nil {
							return err
						}
					}
					if err := c.Phase(amt.Random(seed)); err != nil {
						return err
					}
				}
				sent, err := sayings(c)
				got, err2 := handled(c)
				if err = errors.Join(err, err2); err == nil && got != sent+2*epochs*20*c.Ranks() {
					err = fmt.Errorf("%d messages were handled, %d sent", got, sent+2*epochs*20*c.Ranks())
				}
				return err
			})
		}
	}
}

// TestOrderedFails: epochs fail while others go on that send to the same elements: no message waits for one that will not be handled, those of
// epochs that have not failed are handled, all of them and in their order, and in the end each element hears all.
func TestOrderedFails(t *testing.T) {
	const epochs = 6
	for _, ranks := range []int{1, 3, 7} {
		for range repeated() {
			seed := rand.Uint64()
			t.Logf("%d ranks, seed %d", ranks, seed)
			amttest.Run(t, ranks, func(c amt.Context) error {
				if err := newCrowd(c, seed); err != nil {
					return err
				}
				var all []*amt.Epoch
				for n := range epochs {
					all = append(all, crowdEpoch(c, n, saying{Gaps: true, Fail: n%3 == 1, Left: 2}))
				}
				for n, ep := range all {
					if err := ep.Wait(c); err != nil && (n%3 != 1 || err.Error() != errCrowd.Error()) {
						return fmt.Errorf("epoch %d: %w", n, err)
					}
				}
				before, err := handled(c)
				sent, err2 := sayings(c)
				if err = errors.Join(err, err2, crowdEpoch(c, epochs, saying{Gaps: true}).Wait(c)); err != nil {
					return err
				}
				after, err := handled(c)
				more, err2 := sayings(c)
				if err = errors.Join(err, err2); err == nil && after-before != more-sent+20*c.Ranks() {
					err = fmt.Errorf("%d messages were handled at last, %d sent", after-before, more-sent+20*c.Ranks())
				}
				return err
			})
		}
	}
}

// TestOrderedModify: an element that is inserted waits for nothing that went to its index before, to another that was deleted or to nobody; nor
// does anybody wait for what that other has sent. That is so within the Modify, too.
func TestOrderedModify(t *testing.T) {
	for _, ranks := range []int{1, 2, 5} {
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := queue.CreateEmpty(c, amt.Index1{X: talkers}); err != nil {
				return err
			}
			stream := 0
			for round := range 12 {
				err := c.Modify("come and go", func(c amt.Context) error {
					for i := c.Rank(); i < talkers; i += c.Ranks() {
						if (i+round)%3 == 0 {
							queue.Insert(c, amt.Index1{X: i}, talker{State: uint64(i * round)})
						} else if (i+round)%3 == 2 && round > 1 {
							queue.Delete(c, amt.Index1{X: i})
						}
					}
					stream++ // to those that this rank has inserted, and to those that stay
					sayAll(c, true, stream+5000+100*c.Rank(), round, func(i int) bool {
						return (i+round)%3 == 0 && i%c.Ranks() == c.Rank() || (i+round)%3 == 1 && round > 0
					})
					return nil
				})
				if err != nil {
					return err
				}
				err = c.Collective("to nobody", func(c amt.Context) error {
					sayAll(c, false, 1, round, func(i int) bool { return (i+round)%3 == 2 })
					return nil
				}).Wait(c)
				if err == nil || !strings.Contains(err.Error(), "has no element") {
					return fmt.Errorf("to nobody: %w", err)
				}
				for range 2 {
					stream++
					err = c.Collective("to all", func(c amt.Context) error {
						sayAll(c, false, stream+5000+100*c.Rank(), round, func(i int) bool { return (i+round)%3 == 0 || (i+round)%3 == 1 && round > 0 })
						crowdTalk.Broadcast(c, &talk{})
						return nil
					}).Wait(c)
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
}

// sayAll says three things to each of some elements; in no order to those that are being inserted.
func sayAll(c amt.Context, inserting bool, stream, round int, to func(i int) bool) {
	for i := range talkers {
		for n := range 3 {
			if to(i) {
				say(c, i, saying{Stream: stream, N: n, Any: inserting && (i+round)%3 == 0}, i+round+n)
			}
		}
	}
}

// Elements whose messages are of two epochs.
var (
	holder  amt.Collection[amt.Index1, talker]
	holds   amt.Method[amt.Index1, talker, saying]
	turning amt.Method[amt.Index1, talker, saying]
	phases  amt.Handler[saying]
	phased  amt.Method[amt.Index1, talker, saying]
)

func init() {
	holder.Is("holder", amt.MappedBy(func(i, _ amt.Index1, _ int) int { return i.X }))
	holds.Is(&holder, func(amt.At[amt.Index1], *talker, *saying) {}, amt.Ordered)
	turning.Is(&holder, func(c amt.At[amt.Index1], k *talker, m *saying) {
		switch {
		case m.Stream == 1: // of the second epoch: it waits for the first
			k.Flag = true
			holds.Send(c.Context, amt.Index1{X: 1}, &saying{})
		case k.Flag: // of the first
			holds.Send(c.Context, amt.Index1{X: 1}, &saying{})
		default:
			turning.Send(c.Context, c.Index(), m)
		}
	})
	phased.Is(&holder, func(c amt.At[amt.Index1], k *talker, m *saying) {
		if k.Got++; k.Got != m.N {
			c.Fail(fmt.Errorf("message %d comes as number %d", m.N, k.Got))
		}
	}, amt.Ordered)
	phases.Is(func(c amt.Context, m *saying) {
		if m.N < 20 {
			next := *m
			next.N++
			phased.Send(c, amt.Index1{X: 1}, &next)
			phases.Send(c, 0, &next)
		}
	})
}

func newHolder(c amt.Context) error {
	return holder.Create(c, amt.Index1{X: 2}, func(amt.Index1) (talker, error) { return talker{}, nil })
}

// TestOrderedAfter: what an epoch holds back that comes after another counts as sent when that is over: messages of that one do not wait for it.
func TestOrderedAfter(t *testing.T) {
	amttest.Run(t, 2, func(c amt.Context) error {
		if err := newHolder(c); err != nil {
			return err
		}
		first := c.Collective("first", func(c amt.Context) error {
			if c.Rank() == 0 {
				phases.Send(c, 0, &saying{})
			}
			return nil
		})
		return c.Collective("second", func(c amt.Context) error {
			if c.Rank() == 0 {
				phased.Send(c, amt.Index1{X: 1}, &saying{N: 21})
			}
			return nil
		}, amt.After(first)).Wait(c)
	})
}

// TestOrderedHang: an element that sends within an epoch that is held back, and then within the one that this waits for, asks for what cannot
// be. That is told.
func TestOrderedHang(t *testing.T) {
	err := amttest.Try(t, 2, func(c amt.Context) error {
		if err := newHolder(c); err != nil {
			return err
		}
		first := c.Rooted("first", func(c amt.Context) error {
			if c.Rank() == 0 {
				turning.Send(c, amt.Index1{X: 0}, &saying{})
			}
			return nil
		})
		return c.Collective("second", func(c amt.Context) error {
			if c.Rank() == 1 {
				turning.Send(c, amt.Index1{X: 0}, &saying{Stream: 1})
			}
			return nil
		}, amt.After(first)).Wait(c)
	})
	var hang *amt.HangError
	if !errors.As(err, &hang) || !strings.Contains(err.Error(), `element {1} of the collection "holder": holds an ordered message of element number 0 of collection `) {
		t.Errorf("found %v", err)
	}
}
