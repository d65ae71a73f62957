// Command ordered has elements send each other numbered messages by an ordered method, and go elsewhere at random at any moment, sender and
// receiver alike; members of sections hear broadcasts meanwhile, which are numbered, too. An epoch fails in between. What comes out of
// its turn, twice or not at all is an error.
//
//	ordered -seed 1 -steps 40
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"

	"github.com/byssus-hpc/byssus/amt"
)

var (
	seed  = flag.Uint64("seed", 1, "of what is sent, and of who goes where")
	steps = flag.Int("steps", 40, "that each element does in a round")
)

const elements, sections = 30, 3

// A talker sends to others, and hears.
type talker struct {
	State  uint64
	Sent   [elements]uint64 // to each
	Heard  [elements]uint64 // of each, the next that is to come
	Called [sections]uint64 // broadcasts to each section
}

type (
	step struct{ Left int }
	// A saying is a number's turn. In an epoch that fails some are not heard, and the next begins anew.
	saying struct {
		From   int
		Number uint64
		Fails  bool
	}
	call struct {
		Section int
		Number  uint64
	}
	over struct{ Sent, Heard, Called uint64 }
)

var (
	crowd amt.Collection[amt.Index1, talker]
	goes  amt.Method[amt.Index1, talker, step]
	says  amt.Method[amt.Index1, talker, saying]
	calls amt.Method[amt.Index1, talker, call]
	begin amt.Method[amt.Index1, talker, step]
	ends  amt.Method[amt.Index1, talker, step]
	sums  amt.ElementReduction[amt.Index1, talker, over]
)

func init() {
	crowd.Is("crowd")
	goes.Is(&crowd, func(c amt.At[amt.Index1], k *talker, m *step) {
		for range 3 {
			to := int(k.draw(elements))
			says.Send(c.Context, amt.Index1{X: to}, &saying{c.Index().X, k.Sent[to], m.Left < 0})
			k.Sent[to]++
		}
		if m.Left > 0 {
			goes.Send(c.Context, c.Index(), &step{m.Left - 1})
		}
		k.wander(c)
	})
	says.Is(&crowd, func(c amt.At[amt.Index1], k *talker, m *saying) {
		switch next := &k.Heard[m.From]; {
		case m.Fails && k.draw(20) == 0:
			c.Fail(errors.New("as it is to be"))
		case !m.Fails && m.Number != *next:
			c.Fail(fmt.Errorf("element %d hears number %d of %d, wanted %d", c.Index().X, m.Number, m.From, *next))
		default:
			*next++
		}
		k.wander(c)
	}, amt.Ordered)
	calls.Is(&crowd, func(c amt.At[amt.Index1], k *talker, m *call) {
		if next := &k.Called[m.Section]; m.Number != *next || (c.Index().X+1)%(m.Section+1) != 0 {
			c.Fail(fmt.Errorf("element %d is called as number %d of section %d, wanted %d", c.Index().X, m.Number, m.Section, *next))
		}
		k.Called[m.Section]++
		k.wander(c)
	})
	begin.Is(&crowd, func(c amt.At[amt.Index1], k *talker, _ *step) { *k = talker{State: k.State, Called: k.Called} })
	ends.Is(&crowd, func(c amt.At[amt.Index1], k *talker, m *step) {
		var o over
		for i := range elements {
			o.Sent, o.Heard = o.Sent+k.Sent[i], o.Heard+k.Heard[i]
		}
		for _, n := range k.Called {
			o.Called += n
		}
		sums.Give(c, uint64(m.Left), o)
	})
	sums.Is(&crowd, func(a, b over) over { return over{a.Sent + b.Sent, a.Heard + b.Heard, a.Called + b.Called} })
}

func (k *talker) draw(below uint64) uint64 {
	k.State = k.State*6364136223846793005 + 1442695040888963407
	return k.State >> 33 % below
}

func (k *talker) wander(c amt.At[amt.Index1]) {
	if k.draw(4) == 0 {
		c.MoveTo(int(k.draw(uint64(c.Ranks()))))
	}
}

// all has all elements run a method, and calls each section so often meanwhile, beginning with a number.
func all(c amt.Context, m *amt.Method[amt.Index1, talker, step], left int, of []amt.Section[amt.Index1, talker], from uint64, often int) error {
	return c.Collective("round", func(c amt.Context) error {
		if c.Rank() != 0 {
			return nil
		}
		m.Broadcast(c, &step{left})
		for n := range often {
			for s, to := range of {
				calls.BroadcastTo(c, to, &call{s, from + uint64(n)})
			}
		}
		return nil
	}).Wait(c)
}

func main() {
	flag.Parse()
	amt.Main(program)
}

func program(c amt.Context) error {
	random := rand.New(rand.NewPCG(*seed, 0)) // the same on all ranks
	err := crowd.Create(c, amt.Index1{X: elements}, func(i amt.Index1) (talker, error) {
		return talker{State: *seed ^ uint64(i.X)*0x9e3779b97f4a7c15}, nil
	})
	var of []amt.Section[amt.Index1, talker]
	for s := 0; s < sections && err == nil; s++ {
		var made amt.Section[amt.Index1, talker]
		made, err = crowd.Section(c, fmt.Sprint(s), func(i amt.Index1) bool { return (i.X+1)%(s+1) == 0 })
		of = append(of, made)
	}
	called := uint64(0)
	for round := 0; round < 4 && err == nil; round++ {
		if round == 2 { // an epoch fails: numbers are used up, and elements are not lost
			if err = all(c, &goes, -1, nil, 0, 0); err != nil && err.Error() != "as it is to be" {
				return err
			}
		}
		if err = all(c, &begin, 0, nil, 0, 0); err != nil {
			return err
		}
		often := 1 + random.IntN(20)
		if err = all(c, &goes, *steps, of, called, often); err != nil {
			return err
		}
		called += uint64(often)
		if err = all(c, &ends, round, nil, 0, 0); err != nil {
			return err
		}
		var o over
		if o, err = sums.Wait(c, uint64(round)); err == nil && (o.Sent != o.Heard || o.Sent != uint64(3*elements*(*steps+1)) || o.Called != called*(30+15+10)) {
			err = fmt.Errorf("round %d: %+v, wanted as many heard as sent, %d, and %d called", round, o, 3*elements*(*steps+1), called*(30+15+10))
		}
	}
	if err == nil && c.Rank() == 0 {
		fmt.Println("each was heard in its turn")
	}
	return err
}
