package mover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/decide/redset/redsettest"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

// schemes are those with redundancy that n members can follow, with up to three copies.
func schemes(n int) []redset.Scheme {
	list := []redset.Scheme{redset.XOR}
	for copies := 1; copies <= min(3, n-1); copies++ {
		list = append(list, redset.PartnerOf(copies))
	}
	return list
}

// TestSets encodes sets of all sizes, each member with an agent of its own, and loses what may be lost.
func TestSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for n := 2; n <= 8; n++ {
		for _, scheme := range schemes(n) {
			lengths := []int64{3<<20 + 5, 0, 1, redset.Piece, 2 * redset.Piece, redset.SegmentUnit, 1<<20 - 1, 77777}[:n]
			rng.Shuffle(n, func(i, j int) { lengths[i], lengths[j] = lengths[j], lengths[i] })
			t.Run(fmt.Sprint(scheme, n), func(t *testing.T) {
				s := newSet(t, rng, scheme, lengths, ports(t, n))
				s.encode()
				most := 32
				if n > 5 || scheme.Copies() > 1 { // of many sets of losses, some; package redset tries all
					most = n / min(2, max(1, scheme.Copies()))
				}
				for _, lost := range s.someLosses(rng, most) {
					s.lose(lost...)
				}
			})
		}
	}
}

// TestOneAgent has members of a set on one agent, neighbours too: all on one, or in pairs.
func TestOneAgent(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, scheme := range []redset.Scheme{redset.Partner, redset.PartnerOf(2), redset.XOR} {
		for _, pattern := range [][]int{{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 1, 0, 1}} {
			agents := ports(t, 2)
			var at []*bulk.Port
			for _, a := range pattern {
				at = append(at, agents[a])
			}
			s := newSet(t, rng, scheme, []int64{1 << 20, 3<<20 + 1, 0, 700000}, at)
			s.encode()
			for _, lost := range s.someLosses(rng, 5) {
				s.lose(lost...)
			}
		}
	}
}

// TestRandom: any lengths, any members on any agents.
func TestRandom(t *testing.T) {
	redsettest.Seeds(t, 10, func(t *testing.T, rng *rand.Rand) {
		n := 2 + rng.IntN(7)
		agents := ports(t, 1+rng.IntN(n))
		var at []*bulk.Port
		var lengths []int64
		for range n {
			at = append(at, agents[rng.IntN(len(agents))])
			lengths = append(lengths, rng.Int64N(3)*rng.Int64N(2<<20))
		}
		list := schemes(n)
		s := newSet(t, rng, list[rng.IntN(len(list))], lengths, at)
		s.encode()
		losses := s.losses()
		s.lose(losses[rng.IntN(len(losses))]...)
	})
}

// TestAtOnce: several sets, of which two members that are lost are on one agent, are rebuilt at the same time.
func TestAtOnce(t *testing.T) {
	agents := ports(t, 4)
	for _, scheme := range []redset.Scheme{redset.Partner, redset.XOR} {
		var wg sync.WaitGroup
		for k := range 4 {
			s := newSet(t, rand.New(rand.NewPCG(5, uint64(k))), scheme, []int64{2 << 20, 1 << 20, 5, 1<<20 + 1}, agents)
			s.id = uint64(scheme)<<20 + uint64(k)<<10
			s.encode()
			wg.Go(func() { s.lose(k / 2) })
		}
		wg.Wait()
	}
}

// place is a place of zeros that does something at a call.
type place struct {
	at    int
	calls int
	do    func() error
}

func (p *place) call(b []byte) (int, error) {
	if p.calls++; p.calls == p.at {
		if err := p.do(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (p *place) ReadAt(b []byte, _ int64) (int, error)  { clear(b); return p.call(b) }
func (p *place) WriteAt(b []byte, _ int64) (int, error) { return p.call(b) }

// zeros are places of members of which one does something at its call number at.
func zeros(n, who, at int, do func() error) []Places {
	list := make([]Places, n)
	for i := range list {
		p := &place{do: do}
		if i == who {
			p.at = at
		}
		list[i] = Places{Read: [2]io.ReaderAt{p, p}, Write: [2]io.WriterAt{p, p}}
	}
	return list
}

// layout is that of a set with parts of that length.
func layout(t testing.TB, scheme redset.Scheme, n int, length int64) redset.Layout {
	t.Helper()
	l, err := redset.NewLayout(scheme, slices.Repeat([]int64{length}, n))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var errDisk = errors.New("input/output error")

// TestReaderFails: the first cause comes out at the member that has it, with its step, and all others end.
func TestReaderFails(t *testing.T) {
	for _, scheme := range []redset.Scheme{redset.Partner, redset.PartnerOf(2), redset.XOR} {
		at := ports(t, 4)
		errs := together(within(t), transfers(5, bulk.Encrypted, at), at, layout(t, scheme, 4, 24<<20).Encode,
			zeros(4, 2, 21, func() error { return errDisk }))
		for me, err := range errs {
			if err == nil || errors.Is(err, errDisk) != (me == 2) {
				t.Errorf("%v: member %d: %v", scheme, me, err)
			}
		}
		if s := errs[2].Error(); !strings.HasPrefix(s, "mover: transfer 5: member 2: ") || !strings.Contains(s, " bytes of the ") ||
			!strings.Contains(s, " at ") || strings.Contains(s, "context") {
			t.Errorf("%v: %s", scheme, s)
		}
	}
}

// TestMemberGoes: when one ends in mid-plan its connections break, by which all others end, though nobody tells them.
func TestMemberGoes(t *testing.T) {
	for _, mode := range []bulk.Mode{bulk.Encrypted, bulk.Authenticated} {
		at, l := ports(t, 4), layout(t, redset.XOR, 4, 48<<20)
		why := errors.New("the process dies")
		dies, die := context.WithCancelCause(within(t))
		places := zeros(4, 1, 60, func() error { die(why); return nil })
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for me, tr := range transfers(6, mode, at) {
			ctx := within(t)
			if me == 1 {
				ctx = dies
			}
			wg.Go(func() { _, errs[me] = Run(ctx, at[me], tr, l.Encode(me), places[me]) })
		}
		wg.Wait()
		for me, err := range errs {
			if err == nil || errors.Is(err, why) != (me == 1) ||
				errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("member %d: %v", me, err)
			}
		}
	}
}

// TestPortCloses: a member whose port is closed before others could reach it fails, and so do those that are cancelled then.
func TestPortCloses(t *testing.T) {
	at := ports(t, 3)
	list := transfers(7, bulk.Encrypted, at)
	at[1].Close()
	errs := together(within(t), list, at, layout(t, redset.XOR, 3, 8<<20).Encode, zeros(3, -1, 0, nil))
	for me, err := range errs {
		if err == nil {
			t.Errorf("member %d has done it all", me)
		}
	}
	// In mid-plan its links are open: the port is not needed any more.
	at = ports(t, 3)
	for me, err := range together(within(t), transfers(8, bulk.Encrypted, at), at, layout(t, redset.XOR, 3, 24<<20).Encode,
		zeros(3, 1, 40, func() error { at[1].Close(); return nil })) {
		if err != nil {
			t.Errorf("member %d: %v", me, err)
		}
	}
}

// TestCancel: the context of the caller ends a Run wherever it waits, with its cause.
func TestCancel(t *testing.T) {
	why := errors.New("the checkpoint is given up")
	for me := range 2 { // one waits to receive; one, whose pieces nobody accepts, to send
		at := ports(t, 2)
		l, err := redset.NewLayout(redset.Partner, []int64{64 << 20, 0})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(within(t))
		steps := func(yield func(redset.Step) bool) {
			k := 0
			for s := range l.Encode(me) {
				if k++; k == 2-me {
					go cancel(why)
				}
				if !yield(s) {
					return
				}
			}
		}
		_, err = Run(ctx, at[me], transfers(9, bulk.Encrypted, at)[me], steps, zeros(2, -1, 0, nil)[me])
		if !errors.Is(err, why) {
			t.Errorf("member %d: %v", me, err)
		}
	}
}

// plan is a plan that was written by hand.
func plan(steps ...redset.Step) iter.Seq[redset.Step] { return slices.Values(steps) }

var (
	readStep    = redset.Step{Op: redset.Read, Length: 9}
	sendStep    = redset.Step{Op: redset.Send, Peer: 1, Length: 9}
	receiveStep = redset.Step{Op: redset.Receive, Length: 9}
)

// TestPlansDiffer: members whose plans do not fit each other do not both succeed.
func TestPlansDiffer(t *testing.T) {
	long := receiveStep
	long.Length = 10
	one := plan(readStep, sendStep)
	for _, c := range []struct {
		zero, one iter.Seq[redset.Step]
		want      string
	}{
		{one, plan(receiveStep), ""},
		{plan(readStep, sendStep, readStep, sendStep), plan(receiveStep),
			"receive from member 0: another piece of 9 bytes, wanted the end"},
		{one, plan(receiveStep, receiveStep), "receive 9 bytes from member 0: it has sent all, wanted more"},
		{one, plan(long), "receive 10 bytes from member 0: a piece of 9 bytes, wanted 10"},
	} {
		at := ports(t, 2)
		errs := together(within(t), transfers(1, bulk.Authenticated, at), at,
			func(me int) iter.Seq[redset.Step] { return []iter.Seq[redset.Step]{c.zero, c.one}[me] }, zeros(2, -1, 0, nil))
		if c.want == "" && errors.Join(errs...) == nil {
			continue
		}
		if errs[1] == nil || errs[1].Error() != "mover: transfer 1: member 1: "+c.want {
			t.Errorf("%v, wanted %s", errs[1], c.want)
		}
	}
}

// TestRefused: what cannot be done is refused by name.
func TestRefused(t *testing.T) {
	zero := zeros(2, -1, 0, nil)[0]
	none := Places{Read: zero.Read}
	none.Read[redset.Redundancy] = nil
	short := Places{Read: [2]io.ReaderAt{strings.NewReader("four")}}
	for _, c := range []struct {
		at    Places
		steps []redset.Step
		want  string
	}{
		{zero, []redset.Step{{Op: redset.Read, Length: 0}},
			"read 0 bytes of the part at 0: not a step of a plan: a piece has 1 to 524288 bytes"},
		{zero, []redset.Step{{Op: redset.Read, Length: redset.Piece + 1}}, "a piece has 1 to 524288 bytes"},
		{zero, []redset.Step{{Op: redset.Read, In: 2, Length: 1}}, "read 1 bytes of the place 2 at 0: not a step"},
		{zero, []redset.Step{{Op: 9, Length: 1}}, "step of kind 9"},
		{zero, []redset.Step{{Op: redset.Write, Length: 1}}, "a piece of 0 bytes is at hand"},
		{zero, []redset.Step{readStep, {Op: redset.Add, Length: 8}}, "a piece of 9 bytes is at hand"},
		{zero, []redset.Step{readStep, {Op: redset.Send, Peer: 2, Length: 9}}, "send 9 bytes to member 2: not a step"},
		{zero, []redset.Step{{Op: redset.Receive, Peer: 0, Length: 9}}, "receive 9 bytes from member 0: not a step"},
		{zero, []redset.Step{readStep, sendStep, sendStep}, "a piece of 0 bytes is at hand"},
		{none, []redset.Step{{Op: redset.Read, In: redset.Redundancy, Length: 1}},
			"of the redundancy at 0: the member does not have it"},
		{none, []redset.Step{readStep, {Op: redset.Write, Offset: 77, Length: 9}},
			"write 9 bytes of the part at 77: the member does not have it"},
		{short, []redset.Step{readStep}, "read 9 bytes of the part at 0: 4 bytes: unexpected EOF"},
	} {
		at := ports(t, 2)
		_, err := Run(within(t), at[0], transfers(1, bulk.Encrypted, at)[0], plan(c.steps...), c.at)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "mover: transfer 1: member 0: ") {
			t.Errorf("%v, wanted %s", err, c.want)
		}
	}
	for _, tr := range []Transfer{{}, {Me: 2, Peers: make([]Peer, 2)}, {Me: -1, Peers: make([]Peer, 2)}} {
		if _, err := Run(within(t), nil, tr, plan(), Places{}); err == nil {
			t.Errorf("%+v is performed", tr)
		}
	}
}

// TestWrongKey: members that were given different keys do not come together.
func TestWrongKey(t *testing.T) {
	at := ports(t, 2)
	list := transfers(1, bulk.Encrypted, at)
	list[0].Peers[1].Out = bulk.NewKey()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := Run(ctx, at[1], list[1], plan(receiveStep), Places{})
		done <- err
	}()
	_, err := Run(ctx, at[0], list[0], plan(readStep, sendStep), zeros(2, -1, 0, nil)[0])
	var op *net.OpError
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &op) {
		t.Errorf("the sender: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the receiver: %v", err)
	}
}

// TestTransfer: what the coordinator says goes through JSON.
func TestTransfer(t *testing.T) {
	want := transfers(9, bulk.Authenticated, ports(t, 3))[1]
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Transfer
	if err := json.Unmarshal(b, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) || !slices.Equal(got.Peers, want.Peers) {
		t.Errorf("%s: %v", b, err)
	}
}

// TestMemory: however long the parts are, pieces take what the package says, and every byte that is sent is counted.
func TestMemory(t *testing.T) {
	for _, scheme := range []redset.Scheme{redset.Partner, redset.PartnerOf(3), redset.XOR} {
		const n, length = 4, 96 << 20
		at, l := ports(t, n), layout(t, scheme, n, length)
		places := zeros(n, -1, 0, nil)
		var wg sync.WaitGroup
		for me, tr := range transfers(1, bulk.Authenticated, at) {
			wg.Go(func() {
				r := newRun(within(t), at[me], tr, places[me])
				if err := r.perform(l.Encode(me)); err != nil {
					t.Error(err)
				}
				if most := n*(len(r.in)+len(r.out)) + 3; r.pieces.made > most {
					t.Errorf("%v: member %d: %d pieces, at most %d", scheme, me, r.pieces.made, most)
				}
				if want := int64(length * max(1, scheme.Copies())); r.sent != want {
					t.Errorf("%v: member %d: %d bytes sent, wanted %d", scheme, me, r.sent, want)
				}
			})
		}
		wg.Wait()
	}
}

// memory is a place of fixed size.
type memory []byte

func (m memory) ReadAt(b []byte, off int64) (int, error) {
	clear(b[copy(b, m[min(off, int64(len(m))):]):])
	return len(b), nil
}

func (m memory) WriteAt(b []byte, off int64) (int, error) { return copy(m[off:], b), nil }

func BenchmarkEncode(b *testing.B) {
	const n, length = 4, 64 << 20
	for _, scheme := range []redset.Scheme{redset.Partner, redset.XOR} {
		for _, mode := range []bulk.Mode{bulk.Encrypted, bulk.Authenticated} {
			b.Run(fmt.Sprintf("%v/%v", scheme, mode), func(b *testing.B) {
				l, at := layout(b, scheme, n, length), ports(b, n)
				places := make([]Places, n)
				for i := range places {
					part, redundancy := memory(random(rand.New(rand.NewPCG(1, uint64(i))), length)), make(memory, l.Redundancy(i))
					places[i] = Places{Read: [2]io.ReaderAt{part, redundancy}, Write: [2]io.WriterAt{part, redundancy}}
				}
				b.SetBytes(n * length)
				id := uint64(0)
				for b.Loop() {
					id++
					if err := errors.Join(together(within(b), transfers(id, mode, at), at, l.Encode, places)...); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
