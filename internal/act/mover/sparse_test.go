package mover

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/decide/redset/redsettest"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

// sprinkle changes some bytes of b at random.
func sprinkle(rng *rand.Rand, b []byte, count int) {
	for range min(count, len(b)) {
		b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
	}
}

// TestPack: what is packed comes back, is never longer, and leaves out every block of zeros.
func TestPack(t *testing.T) {
	redsettest.Seeds(t, 300, func(t *testing.T, rng *rand.Rand) {
		length := []int{1, 7, sparseBlock - 1, sparseBlock, sparseBlock + 1, 9 * sparseBlock, redset.SegmentUnit, redset.Piece, 1 + rng.IntN(redset.Piece)}[rng.IntN(9)]
		piece := make([]byte, length)
		switch rng.IntN(3) {
		case 0:
			sprinkle(rng, piece, rng.IntN(40))
		case 1:
			copy(piece, random(rng, int64(length)))
		}
		want, full := bytes.Clone(piece), 0
		for i := range blocks(length) {
			if len(bytes.Trim(block(piece, i), "\x00")) > 0 {
				full += len(block(piece, i))
			}
		}
		n := pack(piece)
		if short := full + bitmapBytes(length); n != min(length, short) {
			t.Fatalf("%d bytes of a piece of %d, of which %d are in blocks that are not zeros", n, length, full)
		}
		if n < length && !unpack(piece, n) || !bytes.Equal(piece, want) {
			t.Fatalf("a piece of %d bytes, packed to %d, comes back wrong", length, n)
		}
	})
}

// TestUnpackAnything: whatever comes is refused, or is what pack makes of a piece.
func TestUnpackAnything(t *testing.T) {
	redsettest.Seeds(t, 300, func(t *testing.T, rng *rand.Rand) {
		length := 1 + rng.IntN(20*sparseBlock)
		piece, n := random(rng, int64(length)), rng.IntN(length)
		if rng.IntN(2) == 0 { // a map that fits more often
			size := bitmapBytes(length)
			n = min(length-1, rng.IntN(4)*sparseBlock+size)
			for i := max(0, n-size); i < n; i++ {
				piece[i] = byte(1) << rng.IntN(9)
			}
		}
		if unpack(piece, n) && pack(piece) > n {
			t.Fatalf("%d bytes are taken for a piece of %d, which is packed to more", n, length)
		}
	})
}

// increment makes the redundancy of a set from an older one and the difference, and returns that, and what was sent.
func increment(t *testing.T, l redset.Layout, old, now, redundancy []memory, id uint64) ([]memory, int64) {
	t.Helper()
	at := ports(t, len(now))
	made := make([]memory, len(now))
	var sent int64
	var wg sync.WaitGroup
	var mu sync.Mutex
	for me, tr := range transfers(id, bulk.Authenticated, at) {
		tr.Increment = true
		made[me] = make(memory, l.Redundancy(me))
		p := Places{Read: [2]io.ReaderAt{now[me]}, Write: [2]io.WriterAt{1: made[me]}, Base: [2]io.ReaderAt{old[me], redundancy[me]}}
		wg.Go(func() {
			n, err := Run(within(t), at[me], tr, l.Encode(me), p)
			mu.Lock()
			defer mu.Unlock()
			if sent += n; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return made, sent
}

// full makes the redundancy of a set.
func full(t *testing.T, l redset.Layout, parts []memory, id uint64) []memory {
	t.Helper()
	at, places := ports(t, len(parts)), make([]Places, len(parts))
	made := make([]memory, len(parts))
	for me := range parts {
		made[me] = make(memory, l.Redundancy(me))
		places[me] = Places{Read: [2]io.ReaderAt{parts[me]}, Write: [2]io.WriterAt{1: made[me]}}
	}
	if err := errors.Join(together(within(t), transfers(id, bulk.Authenticated, at), at, l.Encode, places)...); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestIncrement: redundancy that is made of an older one and what has changed is that which is made of all, byte for byte; of what has not
// changed next to nothing is sent.
func TestIncrement(t *testing.T) {
	redsettest.Seeds(t, 12, func(t *testing.T, rng *rand.Rand) {
		n := 2 + rng.IntN(5)
		list := schemes(n)
		scheme := list[rng.IntN(len(list))]
		lengths := make([]int64, n)
		old, now := make([]memory, n), make([]memory, n)
		var all int64
		for i := range lengths {
			lengths[i] = rng.Int64N(3) * (1 + rng.Int64N(1<<20))
			all += lengths[i]
			old[i] = random(rng, lengths[i])
			now[i] = bytes.Clone(old[i])
		}
		l, err := redset.NewLayout(scheme, lengths)
		if err != nil {
			t.Fatal(err)
		}
		changes := []int{0, 1, 20, 1 << 20}[rng.IntN(4)]
		for i := range now {
			sprinkle(rng, now[i], changes)
		}
		got, sent := increment(t, l, old, now, full(t, l, old, 1), 2)
		for i, want := range full(t, l, now, 3) {
			if !bytes.Equal(got[i], want) {
				t.Errorf("%v of %d: the redundancy of member %d is another than that of all", scheme, n, i)
			}
		}
		rounds := int64(n) // with XOR what changes in a part travels around the ring; there are fewer copies
		if most := int64(n*changes*sparseBlock)*rounds + rounds*all/4096 + int64(4096*n*n); changes < 1<<20 && sent > most {
			t.Errorf("%v of %d: %d bytes sent, of %d, with %d changes on each: at most %d", scheme, n, sent, all, changes, most)
		}
	})
}

// TestIncrementWrong: without a base, or with one that cannot be read, an increment says so; a piece that nobody packs is refused.
func TestIncrementWrong(t *testing.T) {
	part := memory(make([]byte, 4096))
	for _, c := range []struct {
		base io.ReaderAt
		want string
	}{
		{nil, "read 4096 bytes of the part at 0: the member does not have it"},
		{strings.NewReader("short"), "read 4096 bytes of the part at 0: base: 5 bytes"},
	} {
		at := ports(t, 2)
		tr := transfers(1, bulk.Authenticated, at)[0]
		tr.Increment = true
		_, err := Run(within(t), at[0], tr, plan(redset.Step{Op: redset.Read, In: redset.Part, Length: 4096}),
			Places{Read: [2]io.ReaderAt{part}, Base: [2]io.ReaderAt{c.base}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("found %v, wanted %s", err, c.want)
		}
	}
	for _, b := range [][]byte{{}, {0xff}, {1, 0, 0}, bytes.Repeat([]byte{7}, 2*sparseBlock), {0, 0}} {
		piece := make([]byte, 3*sparseBlock)
		copy(piece, b)
		if unpack(piece, len(b)) {
			t.Errorf("%d bytes, %.10x, are taken for a piece", len(b), b)
		}
	}
}
