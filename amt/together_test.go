package amt_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/test/harness"
)

// Elements of a square send each other ordered messages, and migrate; their rows are sections, which broadcast and reduce meanwhile. Specks of
// another collection come and go. All of it is saved, and restored on other numbers of ranks.
const (
	mixAcross  = 5 // of the square
	mixCorners = mixAcross * mixAcross
	mixStay    = 8 // specks that are there from the beginning
	mixSpecks  = 1000
)

type mixCorner struct {
	Random       uint64
	Sent, Got    [mixCorners]uint32 // the last number, to and from each
	Pings, Wrong uint64
	Casts        uint64
	Row          amt.Section[amt.Index2, mixCorner]
	Data         []byte
}

func (e *mixCorner) random(n int) int {
	e.Random = e.Random*6364136223846793005 + 1442695040888963407
	return int(e.Random>>33) % n
}

type (
	mixPinged  struct{ From, Number, Times uint32 }
	mixRowCast struct {
		Round uint64
		Row   amt.Section[amt.Index2, mixCorner]
	}
	mixSpeck   struct{ Hits uint64 }
	mixSpeckly struct{ Times, At int }
	mixAsked   struct{ Round uint64 }
	mixCounted struct {
		N, Hits uint64
		Order   []int
	}
)

var (
	mixSquare  amt.Collection[amt.Index2, mixCorner]
	mixPings   amt.Method[amt.Index2, mixCorner, mixPinged]
	mixKicks   amt.Method[amt.Index2, mixCorner, mixRowCast]
	mixCasts   amt.Method[amt.Index2, mixCorner, mixRowCast]
	mixInRow   amt.ElementReduction[amt.Index2, mixCorner, mixCounted]
	mixInAll   amt.ElementReduction[amt.Index2, mixCorner, mixCounted]
	mixDust    amt.Collection[amt.Index1, mixSpeck]
	mixHits    amt.Method[amt.Index1, mixSpeck, mixSpeckly]
	mixAsks    amt.Method[amt.Index1, mixSpeck, mixAsked]
	mixInDust  amt.ElementReduction[amt.Index1, mixSpeck, mixCounted]
	mixFlatten = func(i amt.Index2) int { return i.X*mixAcross + i.Y }
)

func mixBoth(x, y mixCounted) mixCounted {
	return mixCounted{x.N + y.N, x.Hits + y.Hits, append(x.Order, y.Order...)}
}

func init() {
	mixSquare.Is("square")
	mixDust.Is("dust")
	mixInRow.Is(&mixSquare, mixBoth)
	mixInAll.Is(&mixSquare, mixBoth)
	mixInDust.Is(&mixDust, mixBoth)
	mixPings.Is(&mixSquare, func(c amt.At[amt.Index2], e *mixCorner, m *mixPinged) {
		if e.Pings++; e.Got[m.From]+1 != m.Number {
			e.Wrong++
		}
		e.Got[m.From] = m.Number
		if m.Times > 0 {
			pingsOn(c, e, m.Times-1)
		}
		switch e.random(4) {
		case 0:
			c.MoveTo(e.random(c.Ranks()))
		case 1:
			mixHits.Send(c.Context, amt.Index1{X: e.random(mixStay) * mixSpecks}, &mixSpeckly{2, e.random(1000)})
			pingsOn(c, e, m.Times/2)
		}
		e.Data = make([]byte, e.random(300))
	}, amt.Ordered)
	mixKicks.Is(&mixSquare, func(c amt.At[amt.Index2], e *mixCorner, m *mixRowCast) {
		e.Row = m.Row
		for range 3 {
			pingsOn(c, e, 4)
		}
		if c.Index().Y == int(m.Round)%mixAcross { // one of each row
			mixCasts.BroadcastTo(c.Context, e.Row, m)
		}
	})
	mixCasts.Is(&mixSquare, func(c amt.At[amt.Index2], e *mixCorner, m *mixRowCast) {
		e.Casts++
		own := mixCounted{N: 1, Order: []int{mixFlatten(c.Index())}}
		mixInRow.GiveTo(c, m.Row, 0, own)
		mixInAll.Give(c, m.Round, own)
		if e.random(2) == 0 {
			c.MoveTo(e.random(c.Ranks()))
		}
	})
	mixHits.Is(&mixDust, func(c amt.At[amt.Index1], e *mixSpeck, m *mixSpeckly) {
		if e.Hits++; m.Times > 0 {
			mixHits.Send(c.Context, amt.Index1{X: (c.Index().X/mixSpecks + m.At) % mixStay * mixSpecks}, &mixSpeckly{m.Times - 1, m.At / 2})
		}
		if m.At%5 == 0 {
			c.MoveTo(m.At % c.Ranks())
		}
	})
	mixAsks.Is(&mixDust, func(c amt.At[amt.Index1], e *mixSpeck, m *mixAsked) {
		mixInDust.Give(c, m.Round, mixCounted{1, e.Hits, []int{c.Index().X}})
	})
}

// pingsOn sends an ordered message to a random element.
func pingsOn(c amt.At[amt.Index2], e *mixCorner, times uint32) {
	to := e.random(mixCorners)
	e.Sent[to]++
	mixPings.Send(c.Context, amt.Index2{X: to / mixAcross, Y: to % mixAcross}, &mixPinged{uint32(mixFlatten(c.Index())), e.Sent[to], times})
}

// mixLife is what a run does: the same on all its ranks.
type mixLife struct {
	first  bool
	store  amt.Store
	rounds []uint64 // a random number each
	there  []int    // specks that have come
	hits   uint64   // of all
}

func (l *mixLife) begin(c amt.Context) error {
	if !l.first {
		_, err := amt.Restore(c, l.store, &mixSquare, &mixDust)
		return err
	}
	err := errors.Join(
		mixSquare.Create(c, amt.Index2{X: mixAcross, Y: mixAcross}, func(i amt.Index2) (mixCorner, error) { return mixCorner{Random: uint64(mixFlatten(i))}, nil }),
		mixDust.CreateEmpty(c, amt.Index1{X: 1 << 40}))
	if err != nil {
		return err
	}
	return c.Modify("begin", func(c amt.Context) error {
		for k := c.Rank(); k < mixStay; k += c.Ranks() {
			mixDust.Insert(c, amt.Index1{X: k * mixSpecks}, mixSpeck{})
		}
		return nil
	})
}

// round is one with a number, for which random decides some things.
func (l *mixLife) round(c amt.Context, n, random uint64) error {
	rows := make([]amt.Section[amt.Index2, mixCorner], mixAcross)
	for x := range rows {
		var err error
		if rows[x], err = mixSquare.Section(c, fmt.Sprint("row ", x), func(i amt.Index2) bool { return i.X == x }); err != nil {
			return err
		}
	}
	ep := c.Collective("round", func(c amt.Context) error {
		for i := range mixCorners {
			if (i+int(random%97))%c.Ranks() == c.Rank() {
				mixKicks.Send(c, amt.Index2{X: i / mixAcross, Y: i % mixAcross}, &mixRowCast{n, rows[i/mixAcross]})
			}
		}
		return nil
	})
	for x, row := range rows {
		if v, err := mixInRow.WaitFor(c, row, 0); err != nil || v.N != mixAcross || v.Order[0] != x*mixAcross || !slices.IsSorted(v.Order) {
			return fmt.Errorf("row %d: %+v: %w", x, v, err)
		}
	}
	if v, err := mixInAll.Wait(c, n); err != nil || v.N != mixCorners || !slices.IsSorted(v.Order) {
		return fmt.Errorf("all: %+v: %w", v, err)
	}
	err := ep.Wait(c)
	for x := 0; x < mixAcross; x += 2 {
		mixSquare.Free(c, rows[x])
	}
	return err
}

// change has specks come that are not there, and go that are.
func (l *mixLife) change(c amt.Context, there []int, random uint64) ([]int, error) {
	var flips []int
	for k := range 6 {
		flips = append(flips, int(1e9+(random+uint64(k)*37)%40))
	}
	err := c.Modify("change", func(c amt.Context) error {
		for _, x := range flips {
			switch {
			case (x+int(random%89))%c.Ranks() != c.Rank():
			case slices.Contains(there, x):
				mixDust.Delete(c, amt.Index1{X: x})
			default:
				mixDust.Insert(c, amt.Index1{X: x}, mixSpeck{})
			}
		}
		return nil
	})
	for _, x := range flips {
		if at := slices.Index(there, x); at >= 0 {
			there = slices.Delete(there, at, at+1)
		} else {
			there = append(there, x)
		}
	}
	return there, err
}

// main is the program.
func (l *mixLife) main(c amt.Context) error {
	if err := l.begin(c); err != nil {
		return err
	}
	there := slices.Clone(l.there)
	for n, random := range l.rounds {
		err := l.round(c, uint64(n), random)
		if err == nil && random%3 == 0 {
			there, err = l.change(c, there, random/3)
		}
		if err == nil && random%4 == 0 {
			err = c.Phase(amt.Random(random))
		}
		if err == nil {
			err = c.Collective("ask", func(c amt.Context) error {
				if c.Rank() == int(random%64)%c.Ranks() {
					mixAsks.Broadcast(c, &mixAsked{uint64(n)})
				}
				return nil
			}).Wait(c)
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
		v, err := mixInDust.Wait(c, uint64(n))
		if err != nil || v.N != uint64(mixStay+len(there)) || !slices.IsSorted(v.Order) {
			return fmt.Errorf("round %d: mixSpecks: %+v, wanted %d: %w", n, v, mixStay+len(there), err)
		}
		if c.Rank() == 0 {
			l.hits = v.Hits
		}
	}
	err := amt.Save(c, l.store, &mixSquare, &mixDust)
	if c.Rank() == 0 {
		l.there = there
	}
	return err
}

// TestTogether: what elements can do they can do at the same time, and go on with on any number of ranks.
func TestTogether(t *testing.T) {
	seed := harness.Seed()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 7))
	for range 3 {
		l := &mixLife{first: true, store: amt.Directory(t.TempDir())}
		var done, before uint64
		for range 3 {
			l.rounds = nil
			for range 1 + random.IntN(8) {
				l.rounds = append(l.rounds, random.Uint64())
			}
			if err := amt.RunLocal(1+random.IntN(7), l.main); err != nil {
				t.Fatal(err)
			}
			done += uint64(len(l.rounds))
			l.first = false
			before = l.look(t, 1+random.IntN(5), done, before)
		}
	}
}

// look restores on some ranks, and compares: done rounds; before: so many messages at least.
func (l *mixLife) look(t *testing.T, ranks int, done, before uint64) uint64 {
	t.Helper()
	var mu sync.Mutex
	var sum mixCorner
	var hit uint64
	err := amt.RunLocal(ranks, func(c amt.Context) error {
		if _, err := amt.Restore(c, l.store, &mixSquare, &mixDust); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		mixSquare.Each(c, func(_ amt.Index2, e *mixCorner) {
			sum.Pings, sum.Wrong, sum.Casts = sum.Pings+e.Pings, sum.Wrong+e.Wrong, sum.Casts+e.Casts
		})
		mixDust.Each(c, func(_ amt.Index1, e *mixSpeck) { hit += e.Hits })
		return nil
	})
	if err != nil || sum.Wrong != 0 || sum.Casts != done*mixCorners || sum.Pings <= before || hit != l.hits {
		t.Fatalf("%v: %d of %d messages out of order, %d mixCasts, wanted %d, more than %d messages; %d mixHits, wanted %d", err, sum.Wrong, sum.Pings, sum.Casts, done*mixCorners, before, hit, l.hits)
	}
	return sum.Pings
}
