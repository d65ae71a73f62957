package owner

import (
	"runtime"
	"sync"
	"testing"
)

// deep makes the stack grow, which moves it.
func deep(n int) uintptr {
	var room [256]byte
	if n == 0 {
		return Current() + uintptr(room[0])
	}
	return deep(n-1) + uintptr(room[1])
}

func TestCurrent(t *testing.T) {
	if Current() == 0 {
		t.Skip("SKIP: this machine's goroutines are not told apart")
	}
	const n = 100
	ids := make(chan uintptr, n)
	var here, over sync.WaitGroup
	here.Add(n)
	for range n {
		over.Go(func() {
			id := Current()
			here.Done()
			here.Wait() // all exist at the same time
			for range 100 {
				runtime.Gosched()
				if Current() != id || deep(100) != id {
					t.Error("a goroutine is told to be another one")
				}
			}
			ids <- id
		})
	}
	over.Wait()
	seen := map[uintptr]bool{Current(): true}
	for range n {
		id := <-ids
		if id == 0 || seen[id] {
			t.Errorf("%#x twice", id)
		}
		seen[id] = true
	}
}

func BenchmarkCurrent(b *testing.B) {
	var sum uintptr
	for b.Loop() {
		sum += Current()
	}
	_ = sum
}
