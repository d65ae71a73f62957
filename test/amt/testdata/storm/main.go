// Command storm sends messages at random to the elements of a collection, which migrate at random at any moment, and has them hear
// broadcasts and give values to reductions meanwhile. What each element must have handled by then follows from the seed alone, and is
// compared; so is what the reductions give.
//
//	storm -seed 1 -messages 50000 -rounds 3
//	storm -fails -rounds 2
//	storm -fails -for 6m
//	storm -until FILE
//
// With -fails, an epoch fails in the middle before each second round: no element is lost by it. What is printed does not depend on ranks.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/amt"
)

var (
	seed     = flag.Uint64("seed", 1, "of the first round")
	messages = flag.Int("messages", 50_000, "of a round")
	rounds   = flag.Int("rounds", 1, "how many")
	until    = flag.String("until", "", "go on until this file exists, however many that are")
	lasting  = flag.Duration("for", 0, "go on for so long, however many that are")
	moves    = flag.Uint64("moves", 30, "of 100 messages, after how many an element goes elsewhere")
	fails    = flag.Bool("fails", false, "have an epoch fail before each second round")
	extent   = amt.Index2{X: 9, Y: 11}
)

const (
	links     = 100 // messages of a chain: the handler of each sends the next
	announced = 5   // broadcasts of a round
)

// A walker is an element. Sums do not depend on the order in which it was sent something.
type walker struct {
	Handled uint64
	Sum     uint64
	Words   uint64 // the same of what it has heard
	Heard   uint64 // depends on the order
	Times   uint64 // that it has heard something
	Broken  bool   // a message was not whole
}

// A link of a chain says of itself where it goes, and what happens there.
type link struct {
	ID   uint64
	Left int32
	Fail int32 // the epoch fails when so many are left
}

// A letter is a link that has to be packed.
type letter struct {
	Link link
	Text string
	Data []uint64
}

// A word is heard by all elements.
type word struct{ Number uint64 }

// An order is that in which elements on some ranks have heard words.
type order struct {
	Heard         uint64
	Some, Differs bool
}

// A hash of some neighbours, in their order: combining is associative, not commutative.
type hash struct{ Value, Power uint64 }

var (
	walkers amt.Collection[amt.Index2, walker]
	plain   amt.Method[amt.Index2, walker, link]
	packed  amt.Method[amt.Index2, walker, letter]
	hear    amt.Method[amt.Index2, walker, word]
	agree   amt.ElementReduction[amt.Index2, walker, hash]
	total   amt.Reduction[uint64]
	orders  amt.Reduction[order]

	errStorm = errors.New("the storm fails")
)

func init() {
	walkers.Is("walkers")
	plain.Is(&walkers, handle)
	packed.Is(&walkers, func(c amt.At[amt.Index2], w *walker, m *letter) {
		want := m.Link.letter()
		w.Broken = w.Broken || m.Text != want.Text || len(m.Data) != len(want.Data)
		for i := range min(len(m.Data), len(want.Data)) {
			w.Broken = w.Broken || m.Data[i] != want.Data[i]
		}
		handle(c, w, &m.Link)
	})
	hear.Is(&walkers, func(c amt.At[amt.Index2], w *walker, m *word) {
		agree.Give(c, w.Times, value(c.Index(), w.Times))
		w.Times++
		w.Words += mix(m.Number)
		w.Heard = w.Heard*31 + m.Number
		if h := mix(m.Number ^ value(c.Index(), 0).Value); h%3 == 0 {
			c.MoveTo(int(h >> 8 % uint64(c.Ranks())))
		}
	})
	agree.Is(&walkers, func(a, b hash) hash { return hash{a.Value*b.Power + b.Value, a.Power * b.Power} })
	total.Is(func(a, b uint64) uint64 { return a + b })
	orders.Is(func(a, b order) order {
		if !a.Some {
			return b
		}
		return order{a.Heard, true, a.Differs || b.Differs || b.Some && a.Heard != b.Heard}
	})
}

// value is what an element gives to a reduction.
func value(i amt.Index2, number uint64) hash {
	return hash{mix(uint64(i.X)<<32 | uint64(i.Y)<<16 | number), 0x100000001b3}
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// to is the number of the element that a link goes to.
func (m *link) to() uint64 { return mix(m.ID) % uint64(extent.X*extent.Y) }

func (m *link) next() link { return link{mix(m.ID + 1), m.Left - 1, m.Fail} }

func (m *link) letter() letter {
	data := make([]uint64, m.ID>>8%50)
	if m.ID%1000 == 1 {
		data = make([]uint64, 4000) // longer than a batch
	}
	for i := range data {
		data[i] = m.ID + uint64(i)
	}
	return letter{*m, fmt.Sprintf("link %x", m.ID), data}
}

// send sends a link: one of four is a letter.
func (m *link) send(c amt.Context) {
	if m.ID%4 != 1 {
		plain.Send(c, extent.At(m.to()), m)
		return
	}
	l := m.letter()
	packed.Send(c, extent.At(m.to()), &l)
}

// handle counts a link, which may have the element go elsewhere, and sends the next one.
func handle(c amt.At[amt.Index2], w *walker, m *link) {
	w.Handled++
	w.Sum += mix(m.ID)
	if m.Left == m.Fail {
		c.Fail(errStorm)
	}
	if h := mix(m.ID + 2); h%100 < *moves {
		c.MoveTo(int(h >> 8 % uint64(c.Ranks())))
	}
	if m.Left > 0 {
		next := m.next()
		next.send(c.Context)
	}
}

// A tale is what elements must have handled and heard, by their numbers.
type tale struct {
	walkers []walker
	rounds  uint64
	times   uint64 // that elements have heard something
}

// chain is the first link of a chain of a round.
func chain(round uint64, k int) link { return link{mix(round<<20 + uint64(k)), links - 1, -1} }

// tell adds a round.
func (t *tale) tell(round uint64) {
	for k := range *messages / links {
		for m := chain(round, k); m.Left >= 0; m = m.next() {
			w := &t.walkers[m.to()]
			w.Handled++
			w.Sum += mix(m.ID)
		}
	}
	t.rounds++
	t.times += announced
	for i := range t.walkers {
		t.walkers[i].Times = t.times
		for n := range uint64(announced) {
			t.walkers[i].Words += mix(round*announced + n)
		}
	}
}

// compare compares what all elements have with it.
func (t *tale) compare(c amt.Context) (err error) {
	var o order
	walkers.Each(c, func(i amt.Index2, w *walker) {
		o.Differs = o.Differs || o.Some && o.Heard != w.Heard
		o.Heard, o.Some = w.Heard, true
		want := t.walkers[i.X*extent.Y+i.Y]
		want.Heard = w.Heard
		if *w != want {
			err = fmt.Errorf("rank %d: element %v is %+v, wanted %+v", c.Rank(), i, *w, want)
		}
	})
	if err != nil {
		return err
	}
	if o, err = orders.All(c, o); err != nil {
		return err
	}
	if o.Differs {
		return errors.New("elements have heard words in different orders")
	}
	return whole(c)
}

// whole finds that no element is lost.
func whole(c amt.Context) error {
	n, err := total.All(c, uint64(walkers.Count(c)))
	if err == nil && n != uint64(extent.X*extent.Y) {
		err = fmt.Errorf("there are %d elements, wanted %d", n, extent.X*extent.Y)
	}
	return err
}

// blow begins the epochs of a round, all at a time: each has chains that begin on all ranks, and a broadcast from one of them.
func blow(c amt.Context, round uint64) (epochs []*amt.Epoch) {
	for n := range announced {
		epochs = append(epochs, c.Collective("storm", func(c amt.Context) error {
			for k := c.Rank()*announced + n; k < *messages/links; k += announced * c.Ranks() {
				m := chain(round, k)
				m.send(c)
			}
			if n%c.Ranks() == c.Rank() {
				hear.Broadcast(c, &word{round*announced + uint64(n)})
			}
			return nil
		}))
	}
	return epochs
}

// play plays a round, and compares.
func (t *tale) play(c amt.Context, round uint64) error {
	epochs := blow(c, round)
	for _, n := range rand.New(rand.NewPCG(round, 0)).Perm(announced) {
		number := t.times + uint64(n)
		got, err := agree.Wait(c, number)
		if err != nil {
			return err
		}
		if want := agreed(number); got != want {
			return fmt.Errorf("reduction %d is %x, wanted %x", number, got, want)
		}
	}
	for _, ep := range epochs {
		if err := ep.Wait(c); err != nil {
			return err
		}
	}
	t.tell(round)
	if err := t.compare(c); err != nil {
		return err
	}
	return c.Phase(amt.Random(round))
}

// agreed is what a reduction is to give.
func agreed(number uint64) hash {
	all := value(extent.At(0), number)
	for n := 1; n < extent.X*extent.Y; n++ {
		v := value(extent.At(uint64(n)), number)
		all = hash{all.Value*v.Power + v.Value, all.Power * v.Power}
	}
	return all
}

// fail has an epoch fail in the middle; elements forget then what they have handled.
func (t *tale) fail(c amt.Context, round uint64) error {
	err := c.Collective("fails", func(c amt.Context) error {
		for k := c.Rank(); k < *messages/links; k += c.Ranks() {
			m := chain(^round, k)
			if k%7 == 0 {
				m.Fail = links / 2
			}
			m.send(c)
		}
		if c.Rank() == 0 {
			hear.Broadcast(c, &word{})
		}
		return nil
	}).Wait(c)
	if err == nil || !strings.Contains(err.Error(), errStorm.Error()) {
		return fmt.Errorf("an epoch that is to fail ends with %v", err)
	}
	if err := whole(c); err != nil {
		return fmt.Errorf("after an epoch that has failed: %w", err)
	}
	*t = tale{make([]walker, extent.X*extent.Y), t.rounds, t.times + 1}
	walkers.Each(c, func(_ amt.Index2, w *walker) { *w = walker{Times: t.times} })
	return c.Collective("all have forgotten", func(amt.Context) error { return nil }).Wait(c)
}

// digest is that of all that elements must have.
func (t *tale) digest() (d uint64) {
	for _, w := range t.walkers {
		d = d*0x100000001b3 ^ mix(w.Handled) ^ w.Sum ^ w.Words
	}
	return d
}

func main() {
	flag.Parse()
	begun := time.Now()
	amt.Main(func(c amt.Context) error {
		t := &tale{walkers: make([]walker, extent.X*extent.Y)}
		err := walkers.Create(c, extent, func(amt.Index2) (walker, error) { return walker{}, nil })
		for round := *seed; err == nil; round++ {
			if *fails && t.rounds%2 == 1 {
				err = t.fail(c, round)
			}
			if err == nil {
				err = t.play(c, round)
			}
			if err != nil {
				return fmt.Errorf("seed %d: %w", round, err)
			}
			more := t.rounds < uint64(*rounds)
			if *until != "" || *lasting > 0 {
				_, absent := os.Stat(*until)
				more = (*until == "" || absent != nil) && (*lasting == 0 || time.Since(begun) < *lasting)
			}
			ended, err := total.All(c, map[bool]uint64{false: 1}[more])
			if err == nil && ended > 0 && c.Rank() == 0 {
				fmt.Printf("%d rounds of %d messages from seed %d: each was handled once, digest %x\n", t.rounds, *messages, *seed, t.digest())
			}
			if err != nil || ended > 0 {
				return err
			}
		}
		return err
	})
}
