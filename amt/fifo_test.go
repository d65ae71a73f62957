package amt

import (
	"math/rand/v2"
	"testing"
)

// TestFifo: what is pushed is popped in its order, and a queue that is never empty keeps its size.
func TestFifo(t *testing.T) {
	var q fifo[int]
	in, out := 0, 0
	for ; in < 5; in++ {
		q.push(in)
	}
	for range 100_000 {
		q.push(in)
		in++
		if got := q.pop(); got != out {
			t.Fatalf("%d is popped, want %d", got, out)
		}
		out++
	}
	if q.len() != 5 || cap(q.list) > 32 {
		t.Errorf("%d are in it, want 5, in memory for %d", q.len(), cap(q.list))
	}
	for ; q.len() > 0; out++ {
		if got := q.pop(); got != out {
			t.Fatalf("%d is popped, want %d", got, out)
		}
	}
	if out != in {
		t.Errorf("%d were popped of %d", out, in)
	}
}

// TestFifoShrinks: after a peak the memory is in proportion to what is left, however the queue got there.
func TestFifoShrinks(t *testing.T) {
	var q fifo[int]
	in, out := 0, 0
	for _, peak := range []int{100_000, 5000, 300_000, 1000} {
		for ; q.len() < peak; in++ {
			q.push(in)
		}
		for left := peak / 2; left > 0; left /= 2 {
			for ; q.len() > left; out++ {
				if got := q.pop(); got != out {
					t.Fatalf("%d is popped, want %d", got, out)
				}
			}
			if most := max(smallFifo, usedPart*(left+1)); cap(q.list) > most {
				t.Fatalf("peak %d: %d are in it, in memory for %d, want at most %d", peak, left, cap(q.list), most)
			}
		}
	}
}

// TestSortedShrinks: after a peak over many priorities the queue keeps little, when it is empty and when it never is.
func TestSortedShrinks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s sorted
	memory := func() (levels, waits int) {
		for _, l := range s.levels[:cap(s.levels)] {
			waits += cap(l.list)
		}
		return cap(s.levels), waits
	}
	for _, lowest := range []bool{false, true} { // there is always one with the lowest priority
		left := 0
		if lowest {
			s.push(waiting{what: whatOf(firstHandler, -1<<15)})
			left = 1
		}
		for range 3 {
			for range 200_000 {
				s.push(waiting{what: whatOf(firstHandler, Priority(r.IntN(3000)))})
			}
			for last := Priority(1<<15 - 1); s.n > left; {
				if p := s.pop().what.priority(); p > last {
					t.Fatalf("priority %d comes after %d", p, last)
				} else {
					last = p
				}
			}
			levels, waits := memory()
			if most := idleLevels * smallFifo; waits > most || !lowest && levels > idleLevels {
				t.Errorf("with one that stays: %v: memory for %d messages of %d levels, want at most %d", lowest, waits, levels, most)
			}
		}
	}
}
