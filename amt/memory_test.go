package amt_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/internal/random"
	"github.com/byssus-hpc/byssus/amt/internal/wire"
)

// A load is a long message.
type load struct{ B []byte }

const loadSize = 64 << 10

var (
	loads  amt.Handler[load] // counts them
	fields amt.Handler[words]
	floods amt.Handler[flooding]

	onTheWay = new(atomic.Int64) // bytes of loads that are sent and not handled
	most     = new(atomic.Int64) // of them at a time
	arrived  = new(atomic.Int64)
	heapMost = new(atomic.Uint64)
)

// words is a long message whose elements are aligned.
type words struct {
	First []float64
	Name  string
	More  []uint64
}

// flooding has a handler send Width such messages, of a level less, each with a fill.
type flooding struct {
	Level, Width int
	Fill         []byte
}

func init() {
	loads.Is(func(c amt.Context, m *load) {
		onTheWay.Add(-int64(len(m.B)))
		if n := arrived.Add(1); n%1024 == 0 {
			heapMost.Store(max(heapMost.Load(), heapNow()))
		}
	})
	fields.Is(func(c amt.Context, m *words) {
		for i := range m.First {
			if m.First[i] != float64(i) || m.More[i] != uint64(i)<<32 {
				c.Fail(fmt.Errorf("number %d: %v and %#x", i, m.First[i], m.More[i]))
			}
		}
		arrived.Add(1)
	})
	floods.Is(func(c amt.Context, m *flooding) {
		arrived.Add(1)
		for i := range m.Width {
			if m.Level > 0 {
				floods.Send(c, (c.Rank()+i)%c.Ranks(), &flooding{m.Level - 1, m.Width, m.Fill})
			}
		}
	})
}

func heapNow() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// sendLoads sends so many, and notes how much is on the way.
func sendLoads(c amt.Context, to, n int) {
	m := load{make([]byte, loadSize)}
	for range n {
		loads.Send(c, to, &m)
		now := onTheWay.Add(loadSize)
		for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
		}
	}
}

func plain(end wire.Transport) wire.Transport { return end }

// A restless transport is a shy one that does not sleep: nothing would wake it when it takes batches again.
type restless struct{ shy }

func (*restless) Idle(int) { runtime.Gosched() }

// shyly makes transports that take batches seldom.
func shyly(seed uint64) func(end wire.Transport) wire.Transport {
	return func(end wire.Transport) wire.Transport {
		return &restless{shy{end, rand.New(rand.NewPCG(seed, uint64(end.Rank())))}}
	}
}

// TestProducer has a main function and tasks send far more than fits to a rank that handles nothing until they are at their limit.
func TestProducer(t *testing.T) {
	const limit = 8 << 20
	for _, test := range []struct {
		name   string
		around func(wire.Transport) wire.Transport
		bytes  int
		slack  int64 // beyond the limit, in loads
		send   func(c amt.Context, n int) error
	}{
		{"a main function", plain, 4 << 30, 2, func(c amt.Context, n int) error { sendLoads(c, 1, n); return nil }},
		{"a main function, shy", shyly(1), 32 << 20, 2, func(c amt.Context, n int) error { sendLoads(c, 1, n); return nil }},
		{"to itself", plain, 32 << 20, 2, func(c amt.Context, n int) error { sendLoads(c, 0, n); return nil }},
		{"tasks", plain, 32 << 20, limit/loadSize + 4, func(c amt.Context, n int) error {
			for range 2 {
				c.Go("sends", func(c amt.Context) error { sendLoads(c, 1, n/2); return nil })
			}
			return nil
		}},
	} {
		onTheWay.Store(0)
		most.Store(0)
		arrived.Store(0)
		runtime.GC()
		before := heapNow()
		heapMost.Store(0)
		err := amt.RunWithin(2, limit, test.around, time.Minute, func(c amt.Context) error {
			all := c.Collective("all", func(c amt.Context) error {
				if c.Rank() == 1 {
					for most.Load() < limit-2*loadSize {
						runtime.Gosched()
					}
					return nil
				}
				return test.send(c, test.bytes/loadSize)
			})
			return all.Wait(c)
		})
		if err != nil || arrived.Load() != int64(test.bytes/loadSize) {
			t.Errorf("%s: %v; %d loads have arrived, want %d", test.name, err, arrived.Load(), test.bytes/loadSize)
		}
		if most.Load() > limit+test.slack*loadSize {
			t.Errorf("%s: %d bytes were on their way, want at most %d and %d loads", test.name, most.Load(), limit, test.slack)
		}
		if grown := int64(heapMost.Load()) - int64(before); grown > 10*limit {
			t.Errorf("%s: the heap had %d bytes more, the limit is %d", test.name, grown, limit)
		}
	}
}

// TestFloodAll has all ranks, and tasks of them, flood each other at once, with limits from nothing on.
func TestFloodAll(t *testing.T) {
	for _, limit := range []int{0, 1, 20_000, 200_000} {
		for name, around := range map[string]func(wire.Transport) wire.Transport{"plain": plain, "shy": shyly(uint64(limit))} {
			const ranks, each = 4, 20
			arrived.Store(0)
			err := amt.RunWithin(ranks, limit, around, 0, func(c amt.Context) error {
				return c.Collective("all", func(c amt.Context) error {
					c.Go("floods", func(c amt.Context) error {
						for to := range ranks {
							sendLoads(c, to, each)
						}
						return nil
					})
					for to := range ranks {
						sendLoads(c, to, each)
					}
					return nil
				}).Wait(c)
			})
			if want := int64(2 * ranks * ranks * each); err != nil || arrived.Load() != want {
				t.Errorf("limit %d, %s: %v; %d loads have arrived, want %d", limit, name, err, arrived.Load(), want)
			}
		}
	}
}

// TestWithin plays random programs with limits that they exceed all the time, while ranks look for hangs.
func TestWithin(t *testing.T) {
	t.Logf("seed %d, %d programs", *seed, *programs/2)
	for n := *seed; n < *seed+uint64(*programs/2); n++ {
		ranks, around := 1+int(n%5), plain
		if n%2 == 0 {
			around = shyly(n)
		}
		limit := int(rand.New(rand.NewPCG(n, 9)).Uint64() >> (45 + n%19))
		if err := amt.RunWithin(ranks, limit, around, 0, random.Program(n, ranks)); err != nil {
			t.Fatalf("program %d on %d ranks within %d bytes: %v", n, ranks, limit, err)
		}
	}
}

const floodVariable = "AMT_TEST_FLOOD"

// TestHandlersFlood has handlers send more than fits: all is handled, and one of them is told, once.
func TestHandlersFlood(t *testing.T) {
	if os.Getenv(floodVariable) != "" {
		fmt.Println(amt.RunLocal(2, func(c amt.Context) error {
			return c.Collective("all", func(c amt.Context) error {
				floods.Send(c, c.Rank(), &flooding{3, 10, make([]byte, 1<<10)})
				return nil
			}).Wait(c)
		}), arrived.Load())
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHandlersFlood$")
	cmd.Env = append(os.Environ(), floodVariable+"=1", amt.MemoryVariable+"=64K")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), "<nil> 2222\n") {
		t.Errorf("%v: %s", err, out)
	}
	if lines := strings.Split(strings.TrimSpace(said.String()), "\n"); len(lines) != 1 || !strings.Contains(lines[0], "the handler of amt_test.flooding declared in") || !strings.Contains(lines[0], "sends without waiting for room") {
		t.Errorf("it says %q", lines)
	}
}

// TestAfterRoom: what waits for an epoch before takes no room of what that needs.
func TestAfterRoom(t *testing.T) {
	arrived.Store(0)
	err := amt.RunWithin(2, 1, plain, 0, func(c amt.Context) error {
		first := c.Collective("first", func(c amt.Context) error { sendLoads(c, 1-c.Rank(), 3); return nil })
		second := c.Collective("second", func(c amt.Context) error { sendLoads(c, 1-c.Rank(), 30); return nil }, amt.After(first))
		return second.Wait(c)
	})
	if err != nil || arrived.Load() != 66 {
		t.Errorf("%v; %d loads have arrived, want 66", err, arrived.Load())
	}
}

// TestFailedRoom: a rank that waits for room of one that has failed waits no longer.
func TestFailedRoom(t *testing.T) {
	const limit = 1 << 20
	onTheWay.Store(0)
	most.Store(0)
	err := amt.RunWithin(2, limit, plain, time.Minute, func(c amt.Context) error {
		if c.Rank() == 1 {
			for most.Load() < limit-2*loadSize {
				runtime.Gosched()
			}
			return errBad
		}
		c.Go("sends", func(c amt.Context) error { sendLoads(c, 1, 100); return nil })
		sendLoads(c, 1, 100)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), errBad.Error()) {
		t.Error(err)
	}
}

// TestLongOnce: a long message takes memory once, in bursts too, and arrives as it was.
func TestLongOnce(t *testing.T) {
	const n, burst = 100_000, 40
	m := words{make([]float64, n), "in between", make([]uint64, n)}
	for i := range n {
		m.First[i], m.More[i] = float64(i), uint64(i)<<32
	}
	for name, around := range map[string]func(wire.Transport) wire.Transport{"plain": plain, "shy": shyly(2)} {
		arrived.Store(0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := amt.RunOver(2, around, time.Minute, func(c amt.Context) error {
			return c.Collective("all", func(c amt.Context) error {
				for range burst * (1 - c.Rank()) {
					fields.Send(c, 1, &m)
				}
				return nil
			}).Wait(c)
		})
		runtime.ReadMemStats(&after)
		// Of the slices the second may have to be copied: there may be too little before it to be moved over.
		if each := (after.TotalAlloc - before.TotalAlloc) / burst; err != nil || arrived.Load() != burst || each > 16*n*5/4 {
			t.Errorf("%s: %v; %d have arrived, want %d; each has taken %d bytes, want about %d", name, err, arrived.Load(), burst, each, 16*n)
		}
	}
}

// TestParseSize: what a limit may look like.
func TestParseSize(t *testing.T) {
	for text, want := range map[string]int{"": 512 << 20, "512M": 512 << 20, "7": 7, "3K": 3 << 10, "2G": 2 << 30, "0": math.MaxInt, "0M": math.MaxInt} {
		if got, err := amt.ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %v; %d, want %d", text, err, got, want)
		}
	}
	for _, text := range []string{"M", "-1", "1.5G", "512MB", "9999999999G", "many", " 1", "9223372036854775808"} {
		if got, err := amt.ParseSize(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}
