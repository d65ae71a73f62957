package amt

import "testing"

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
