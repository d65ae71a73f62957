package amt_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/amttest"
	"github.com/byssus-hpc/byssus/pup"
)

// A rover is an element that counts for itself what is to be measured of it.
type rover struct {
	State   uint64
	Handled []int // by phase
	Heard   []int
	Sent    map[uint64]sent // by the number of the target, in this phase
	Weighs  float64
}

type sent struct{ Messages, Bytes uint64 }

func (r *rover) random(n uint64) uint64 {
	r.State = r.State*6364136223846793005 + 1442695040888963407
	return r.State >> 33 % n
}

// stride is a message of the storm.
type stride struct {
	Left  int32
	Phase int32
	Move  int32
	Fail  bool
}

const strideSize = 16

// note is stride with what has to be packed.
type note struct {
	Stride stride
	Text   string
}

type drum struct {
	N    uint64
	Stay bool
}

type spin struct{ Rounds, Seed uint64 }

var (
	rovers    amt.Collection[amt.Index1, rover]
	roverStep amt.Method[amt.Index1, rover, stride]
	roverNote amt.Method[amt.Index1, rover, note]
	roverDrum amt.Method[amt.Index1, rover, drum]
	roverSpin amt.Method[amt.Index1, rover, spin]
	scales    amt.Collection[amt.Index1, rover]
	weighed   amt.Method[amt.Index1, rover, drum]
	echo      amt.Method[amt.Index1, rover, amt.Reply[uint64]]
	echoes    amt.Handler[amt.Callback[uint64]]
	meters    amt.Collection[amt.Index1, cell]
	meterOn   amt.Method[amt.Index1, cell, number]
	balances  amt.Collection[amt.Index1, cell]
	balanceOn amt.Method[amt.Index1, cell, number]
	plainly   amt.Collection[amt.Index1, cell]
	plainlyOn amt.Method[amt.Index1, cell, number]
	meterTurn amt.Method[amt.Index1, cell, number]
)

const roverCount = 40

func init() {
	rovers.Is("rovers", amt.Measured[amt.Index1]())
	roverStep.Is(&rovers, onStride)
	roverNote.Is(&rovers, func(c amt.At[amt.Index1], r *rover, m *note) { onStride(c, r, &m.Stride) })
	roverDrum.Is(&rovers, func(c amt.At[amt.Index1], r *rover, m *drum) {
		r.Heard = grown(r.Heard, m.N)
		r.Heard[m.N]++
		if !m.Stay && r.random(3) == 0 {
			c.MoveTo(int(r.random(uint64(c.Ranks()))))
		}
	})
	roverSpin.Is(&rovers, func(_ amt.At[amt.Index1], r *rover, m *spin) {
		r.State = m.Seed
		for range m.Rounds {
			r.random(7)
		}
	})
	scales.Is("scales", amt.Weighed[amt.Index1]())
	weighed.Is(&scales, func(c amt.At[amt.Index1], r *rover, m *drum) {
		c.Weigh(float64(m.N))
		r.Weighs += float64(m.N)
		if !m.Stay {
			c.MoveTo(int(r.random(uint64(c.Ranks()))))
		}
	})
	meters.Is("meters", amt.Measured[amt.Index1]())
	meterOn.Is(&meters, func(c amt.At[amt.Index1], e *cell, m *number) {
		if e.Sum++; m.X > 0 {
			m.X--
			meterOn.Send(c.Context, amt.Index1{X: int(m.X*m.X) % 64}, m)
		}
	})
	meterTurn.Is(&meters, func(_ amt.At[amt.Index1], e *cell, _ *number) { e.Sum++ }, amt.Ordered)
	plainly.Is("plainly")
	plainlyOn.Is(&plainly, func(c amt.At[amt.Index1], e *cell, m *number) {
		if e.Sum++; m.X > 0 {
			m.X--
			plainlyOn.Send(c.Context, amt.Index1{X: int(m.X*m.X) % 64}, m)
		}
	})
	balances.Is("balances", amt.Weighed[amt.Index1]())
	balanceOn.Is(&balances, func(c amt.At[amt.Index1], e *cell, m *number) {
		c.Weigh(1)
		if e.Sum++; m.X > 0 {
			m.X--
			balanceOn.Send(c.Context, amt.Index1{X: int(m.X*m.X) % 64}, m)
		}
	})
	echo.Is(&scales, func(amt.At[amt.Index1], *rover, *amt.Reply[uint64]) {})
	echoes.Is(func(c amt.Context, cb *amt.Callback[uint64]) {
		v := uint64(1)
		cb.Send(c, &v)
	})
}

var errRover = errors.New("the rovers fail")

func onStride(c amt.At[amt.Index1], r *rover, m *stride) {
	if n := uint64(m.Phase); n >= uint64(len(r.Handled)) {
		r.Handled = grown(r.Handled, n)
		clear(r.Sent)
	}
	r.Handled[m.Phase]++
	if m.Fail && m.Left == 2 {
		c.Fail(errRover)
	}
	if r.random(100) < uint64(m.Move) {
		c.MoveTo(int(r.random(uint64(c.Ranks()))))
	}
	if m.Left == 0 {
		return
	}
	next := stride{m.Left - 1, m.Phase, m.Move, m.Fail}
	to := r.random(roverCount)
	if r.Sent == nil {
		r.Sent = map[uint64]sent{}
	}
	s := r.Sent[to]
	s.Messages++
	switch r.random(4) {
	case 0:
		n := &note{next, strings.Repeat("x", int(r.random(50)))}
		roverNote.Send(c.Context, amt.Index1{X: int(to)}, n)
		s.Bytes += noteSize(n)
	case 1:
		roverStep.SendAt(c.Context, amt.Index1{X: int(to)}, &next, amt.Priority(r.random(3)))
		s.Bytes += strideSize
	case 2:
		if m.Move > 0 { // what has a task stays
			roverStep.Send(c.Context, amt.Index1{X: int(to)}, &next)
		} else {
			c.Go("sends", func(c amt.Context) error {
				return c.Rooted("sends", func(c amt.Context) error { roverStep.Send(c, amt.Index1{X: int(to)}, &next); return nil }).Wait(c)
			})
		}
		s.Bytes += strideSize
	default:
		roverStep.Send(c.Context, amt.Index1{X: int(to)}, &next)
		s.Bytes += strideSize
	}
	r.Sent[to] = s
}

// noteSize is the bytes of a packed note.
func noteSize(n *note) uint64 {
	codec, err := pup.CodecOf[note]()
	if err != nil {
		panic(err)
	}
	b, err := codec.Append(nil, n)
	if err != nil {
		panic(err)
	}
	return uint64(len(b))
}

// grown is a list that has a number for a phase.
func grown(list []int, phase uint64) []int {
	for uint64(len(list)) <= phase {
		list = append(list, 0)
	}
	return list
}

func at(list []int, phase int) uint64 {
	if phase < len(list) {
		return uint64(list[phase])
	}
	return 0
}

// An expected load is what an element, or a rank, has counted itself.
type expected struct {
	messages, heard uint64
	sent            map[uint64]sent
}

// counted is what the elements here have counted in a phase, by their numbers.
func counted(c amt.Context, phase int) map[uint64]expected {
	all := map[uint64]expected{}
	rovers.Each(c, func(i amt.Index1, r *rover) {
		x := expected{messages: at(r.Handled, phase) + at(r.Heard, phase), heard: at(r.Heard, phase)}
		if phase < len(r.Handled) {
			x.sent = maps.Clone(r.Sent)
		}
		all[uint64(i.X)] = x
	})
	return all
}

// differs compares what was measured with what was counted.
func differs(rank int, p amt.PhaseLoads, want map[uint64]expected, own map[uint64]sent) error {
	if len(p.Loads) != len(want) {
		return fmt.Errorf("%d loads, wanted %d", len(p.Loads), len(want))
	}
	edges := map[amt.Object]map[uint64]sent{}
	for _, e := range p.Edges {
		if edges[e.From] == nil {
			edges[e.From] = map[uint64]sent{}
		}
		if _, twice := edges[e.From][e.To.Number]; twice || e.To.Collection != "rovers" {
			return fmt.Errorf("the edge %v is there twice, or not to rovers", e)
		}
		edges[e.From][e.To.Number] = sent{e.Messages, e.Bytes}
	}
	for _, l := range p.Loads {
		x := want[l.Number]
		if l.Collection != "rovers" || l.Messages != x.messages || l.Broadcasts != x.heard || l.Gone {
			return fmt.Errorf("found %+v, wanted %+v", l, x)
		}
		if got := edges[l.Object]; !maps.Equal(got, x.sent) {
			return fmt.Errorf("edges of %v: %v, wanted %v", l.Object, got, x.sent)
		}
		delete(edges, l.Object)
	}
	self := amt.Object{Number: uint64(rank)}
	if got := edges[self]; !maps.Equal(got, own) {
		return fmt.Errorf("edges of the rank: %v, wanted %v", got, own)
	}
	if delete(edges, self); len(edges) > 0 {
		return fmt.Errorf("edges of others: %v", edges)
	}
	return nil
}

func newRovers(c amt.Context) error {
	seed := rand.Uint64()
	return rovers.Create(c, amt.Index1{X: roverCount}, func(i amt.Index1) (rover, error) { return rover{State: seed + uint64(i.X)}, nil })
}

// roam is a phase of messages at random; it says what the rank itself has sent.
func roam(c amt.Context, phase int, move int32, fails bool) (map[uint64]sent, error) {
	own := map[uint64]sent{}
	err := c.Collective("roam", func(c amt.Context) error {
		for k := range 10 {
			to := uint64(k * 7 % roverCount)
			roverStep.Send(c, amt.Index1{X: int(to)}, &stride{20, int32(phase), move, fails && k%5 == 1})
			s := own[to]
			own[to] = sent{s.Messages + 1, s.Bytes + strideSize}
		}
		if c.Rank() == 0 {
			roverDrum.Broadcast(c, &drum{uint64(phase), move == 0})
		}
		return nil
	}).Wait(c)
	if fails && errors.Is(err, errRover) {
		err = nil
	}
	return own, err
}

// TestPhaseLoadsStorm: what elements and ranks have handled and sent is counted once, wherever elements migrate meanwhile, and if epochs fail.
func TestPhaseLoadsStorm(t *testing.T) {
	for ranks := 1; ranks <= 5; ranks++ {
		for _, move := range []int32{0, 40} {
			amttest.Run(t, ranks, func(c amt.Context) error {
				if err := newRovers(c); err != nil {
					return err
				}
				for phase := range 4 {
					own, err := roam(c, phase, move, phase == 2)
					if err != nil {
						return err
					}
					want := counted(c, phase)
					err = c.Collective("all have counted", func(amt.Context) error { return nil }).Wait(c) // before elements move
					if err != nil {
						return err
					}
					if err := c.Phase(amt.Random(rand.Uint64())); err != nil {
						return err
					}
					all := c.Loads()
					if len(all) != phase+1 || all[phase].Phase != phase {
						return fmt.Errorf("after phase %d: %d of them", phase, len(all))
					}
					if err := differs(c.Rank(), all[phase], want, own); err != nil {
						return fmt.Errorf("phase %d: %w", phase, err)
					}
					total, err := storms.All(c, len(all[phase].Loads))
					if err != nil || total != roverCount {
						return fmt.Errorf("phase %d: all ranks have %d loads, wanted %d: %w", phase, total, roverCount, err)
					}
				}
				return nil
			})
		}
	}
}

var scaleSums amt.Reduction[[]float64]

func init() {
	scaleSums.Is(func(a, b []float64) []float64 {
		for i := range a {
			a[i] += b[i]
		}
		return a
	})
}

func newScales(c amt.Context, n int) error {
	return scales.Create(c, amt.Index1{X: n}, func(i amt.Index1) (rover, error) { return rover{State: uint64(i.X)}, nil })
}

// TestPhaseSubphases: weights count for the subphase in which a message was sent, also on ranks that come to it later.
func TestPhaseSubphases(t *testing.T) {
	const n, parts = 12, 6
	for ranks := 1; ranks <= 4; ranks++ {
		amttest.Run(t, ranks, func(c amt.Context) error {
			if err := newScales(c, n); err != nil {
				return err
			}
			for phase := range 2 {
				for part := range parts {
					if part > 0 {
						c.Subphase()
					}
					err := c.Collective("weigh", func(c amt.Context) error {
						for i := 0; i < n && part%2 == 0; i++ {
							weighed.Send(c, amt.Index1{X: i}, &drum{N: uint64(part + 1)})
						}
						if c.Rank() == 0 && part%2 == 1 {
							weighed.Broadcast(c, &drum{N: 100})
						}
						return nil
					}).Wait(c)
					if err != nil {
						return err
					}
				}
				if err := c.Phase(); err != nil {
					return err
				}
				sums := make([]float64, parts+1)
				for _, l := range c.Loads()[phase].Loads {
					if !l.Weighed || len(l.Subphases) != parts || l.Home != int(l.Number)*ranks/n {
						return fmt.Errorf("found %+v", l)
					}
					for i, w := range l.Subphases {
						sums[i] += w
					}
					sums[parts] += l.Total()
				}
				sums, err := scaleSums.All(c, sums)
				want := make([]float64, parts+1)
				for i := range parts {
					want[i] = float64(n * []int{ranks * (i + 1), 100}[i%2])
					want[parts] += want[i]
				}
				if err != nil || !slices.Equal(sums, want) {
					return fmt.Errorf("phase %d: found %v, wanted %v: %w", phase, sums, want, err)
				}
			}
			return nil
		})
	}
}

// TestPhaseRunsAhead: what a rank has sent that has begun a subphase counts for that on one that has not.
func TestPhaseRunsAhead(t *testing.T) {
	for name, send := range map[string]func(c amt.Context){
		"a broadcast": func(c amt.Context) { weighed.Broadcast(c, &drum{5, true}) },
		"messages": func(c amt.Context) {
			for i := range 4 {
				weighed.Send(c, amt.Index1{X: i}, &drum{5, true})
			}
		},
	} {
		amttest.Run(t, 2, func(c amt.Context) error {
			if err := newScales(c, 4); err != nil {
				return err
			}
			for heard := 0; c.Rank() == 1 && heard < 2; c.Poll() {
				heard = 0
				scales.Each(c, func(_ amt.Index1, r *rover) { heard += int(r.Weighs) / 5 })
			}
			c.Subphase()
			err := c.Collective(name, func(c amt.Context) error {
				if c.Rank() == 0 {
					send(c)
				}
				return nil
			}).Wait(c)
			if err != nil {
				return err
			}
			if err := c.Phase(); err != nil {
				return err
			}
			for _, l := range c.Loads()[0].Loads {
				if !slices.Equal(l.Subphases, []float64{0, 5}) {
					return fmt.Errorf("%s: found %+v", name, l)
				}
			}
			return nil
		})
	}
}

// TestPhaseWindow: the last phases are remembered, and functions see each before elements move.
func TestPhaseWindow(t *testing.T) {
	const window, phases = 8, 11
	amttest.Run(t, 3, func(c amt.Context) error {
		if err := newScales(c, 9); err != nil {
			return err
		}
		var seen []int
		amt.OnPhase(c, func(c amt.Context, phase int) error {
			all := c.Loads()
			newest := all[len(all)-1]
			if newest.Phase != phase || c.PhaseNumber() != phase || len(newest.Loads) != scales.Count(c) {
				return fmt.Errorf("at the end of phase %d: %+v, and %d elements", phase, newest, scales.Count(c))
			}
			seen = append(seen, phase)
			total, err := storms.All(c, len(newest.Loads))
			if err == nil && total != 9 {
				err = fmt.Errorf("%d elements on all ranks", total)
			}
			return err
		})
		for range phases {
			if err := c.Phase(amt.Rotate); err != nil {
				return err
			}
		}
		all := c.Loads()
		if len(all) != window || all[0].Phase != phases-window || all[window-1].Phase != phases-1 || len(seen) != phases {
			return fmt.Errorf("there are %d, from %d on, and %v were seen", len(all), all[0].Phase, seen)
		}
		return nil
	})
}

// TestPhaseHookFails: the error of a function on one rank is that of the phase on all; the next phase is as if nothing had been.
func TestPhaseHookFails(t *testing.T) {
	amttest.Run(t, 3, func(c amt.Context) error {
		if err := newScales(c, 9); err != nil {
			return err
		}
		times := 0
		amt.OnPhase(c, func(c amt.Context, _ int) error {
			if times++; times == 1 && c.Rank() == 1 {
				return errRover
			}
			return nil
		})
		if err := c.Phase(); !errors.Is(err, errRover) {
			return fmt.Errorf("found %w", err)
		}
		if err := c.Phase(); err != nil || c.PhaseNumber() != 1 {
			return fmt.Errorf("then, in phase %d: %w", c.PhaseNumber(), err)
		}
		return nil
	})
}

// TestPhaseUnmeasured: of collections without the option there are no loads.
func TestPhaseUnmeasured(t *testing.T) {
	amttest.Run(t, 2, func(c amt.Context) error {
		if err := newStorm(c, 1); err != nil {
			return err
		}
		if err := c.Phase(); err != nil || len(c.Loads()) != 0 {
			return fmt.Errorf("%v: %w", c.Loads(), err)
		}
		if err := newScales(c, 4); err != nil {
			return err
		}
		if err := c.Phase(); err != nil || len(c.Loads()) != 1 {
			return fmt.Errorf("%v: %w", c.Loads(), err)
		}
		for _, l := range c.Loads()[0].Loads {
			if l.Collection != "scales" {
				return fmt.Errorf("found %+v", l)
			}
		}
		return nil
	})
}

// TestPhaseTimes: who computes a hundred times as much has the largest load, whatever else the machine does.
func TestPhaseTimes(t *testing.T) {
	amttest.Run(t, 1, func(c amt.Context) error {
		if err := newRovers(c); err != nil {
			return err
		}
		err := c.Collective("spin", func(c amt.Context) error {
			for i := range roverCount {
				rounds := uint64(100_000)
				if i == 17 {
					rounds *= 100
				}
				roverSpin.Send(c, amt.Index1{X: i}, &spin{rounds, uint64(i)})
			}
			return nil
		}).Wait(c)
		if err != nil {
			return err
		}
		if err := c.Phase(); err != nil {
			return err
		}
		loads := c.Loads()[0].Loads
		for _, l := range loads {
			if l.Weighed || l.Total() <= 0 || l.Number != 17 && l.Total() >= loads[17].Total() {
				return fmt.Errorf("found %+v, and of who computes most %+v", l, loads[17])
			}
		}
		return nil
	})
}

// TestPhaseDeleted: what was measured of elements that are deleted is there, and their deletion is no message; replies are the rank's that
// sends them.
func TestPhaseDeleted(t *testing.T) {
	amttest.Run(t, 3, func(c amt.Context) error {
		if err := newScales(c, 9); err != nil {
			return err
		}
		err := c.Collective("ask", func(c amt.Context) error {
			for i := range 9 {
				cb := amt.CallbackToElement(c, &echo, amt.Index1{X: i}, 0)
				echoes.Send(c, i%c.Ranks(), &cb)
			}
			return nil
		}).Wait(c)
		if err != nil {
			return err
		}
		err = c.Modify("delete", func(c amt.Context) error {
			for i := range 9 {
				if i%c.Ranks() == c.Rank() && i < 4 {
					scales.Delete(c, amt.Index1{X: i})
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := c.Phase(); err != nil {
			return err
		}
		p := c.Loads()[0]
		for _, e := range p.Edges {
			if e.From != (amt.Object{Number: uint64(c.Rank())}) || int(e.To.Number)%c.Ranks() != c.Rank() || e.Messages != 3 {
				return fmt.Errorf("found the edge %+v", e)
			}
		}
		gone := 0
		for _, l := range p.Loads {
			if l.Messages != 3 || l.Gone != (l.Number < 4) {
				return fmt.Errorf("found %+v", l)
			}
			if l.Gone {
				gone++
			}
		}
		gone, err = storms.All(c, gone)
		if err == nil && gone != 4 {
			err = fmt.Errorf("%d are gone, wanted 4", gone)
		}
		return err
	})
}

var heavy amt.Method[amt.Index1, rover, drum]

func init() { heavy.Is(&scales, func(c amt.At[amt.Index1], _ *rover, _ *drum) { c.Weigh(-1) }) }

// chainOf is a chain of n messages between elements, each of which sends to some others.
func chainOf(c amt.Context, k *amt.Method[amt.Index1, cell, number], n uint64) error {
	return c.Collective("relay", func(c amt.Context) error {
		k.Send(c, amt.Index1{}, &number{n})
		return nil
	}).Wait(c)
}

func newMeters(c amt.Context) error {
	none := func(amt.Index1) (cell, error) { return cell{}, nil }
	return errors.Join(meters.Create(c, amt.Index1{X: 64}, none), balances.Create(c, amt.Index1{X: 64}, none), plainly.Create(c, amt.Index1{X: 64}, none))
}

// TestPhaseAllocates: to measure a message allocates nothing, after the first on each way.
func TestPhaseAllocates(t *testing.T) {
	const messages = 50_000
	err := amt.RunLocal(1, func(c amt.Context) error {
		if err := newMeters(c); err != nil {
			return err
		}
		for _, k := range []*amt.Method[amt.Index1, cell, number]{&meterOn, &balanceOn} {
			if err := chainOf(c, k, messages); err != nil {
				return err
			}
			if err := c.Phase(); err != nil {
				return err
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := chainOf(c, k, messages); err != nil {
				return err
			}
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; n > messages/10 {
				return fmt.Errorf("%d messages allocate %d times", messages, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// benchmarkChain measures a message between elements.
func benchmarkChain(b *testing.B, k *amt.Method[amt.Index1, cell, number]) {
	b.ReportAllocs()
	err := amt.RunLocal(1, func(c amt.Context) error {
		if err := newMeters(c); err != nil {
			return err
		}
		b.ResetTimer()
		return chainOf(c, k, uint64(b.N))
	})
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkElementUnmeasured(b *testing.B) { benchmarkChain(b, &plainlyOn) }

func BenchmarkElementMeasured(b *testing.B) { benchmarkChain(b, &meterOn) }

func BenchmarkElementWeighed(b *testing.B) { benchmarkChain(b, &balanceOn) }

// TestOrderedEdges: of an ordered message, an edge has the bytes of the message alone, on its own rank and to another, from main functions
// and from tasks.
func TestOrderedEdges(t *testing.T) {
	amttest.Run(t, 2, func(c amt.Context) error {
		if err := meters.Create(c, amt.Index1{X: 2}, func(amt.Index1) (cell, error) { return cell{}, nil }); err != nil {
			return err
		}
		err := c.Collective("turns", func(c amt.Context) error {
			for i := range 2 {
				meterTurn.Send(c, amt.Index1{X: i}, &number{})
			}
			c.Go("turn", func(c amt.Context) error {
				for i := range 2 {
					meterTurn.Send(c, amt.Index1{X: i}, &number{})
				}
				return nil
			})
			return nil
		}).Wait(c)
		if err == nil {
			err = c.Phase()
		}
		if err != nil {
			return err
		}
		edges := c.Loads()[0].Edges
		for _, e := range edges {
			if want := 2 * int64(unsafe.Sizeof(number{})); e.Messages != 2 || int64(e.Bytes) != want {
				return fmt.Errorf("found the edge %+v, wanted 2 messages, %d bytes", e, want)
			}
		}
		if len(edges) != 2 {
			return fmt.Errorf("found %d edges, wanted 2", len(edges))
		}
		return nil
	})
}
