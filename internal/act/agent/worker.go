package agent

import "sync"

// worker does jobs one after the other on a goroutine of its own.
type worker struct {
	mu     sync.Mutex
	wake   *sync.Cond
	queue  []func()
	closed bool
	done   chan struct{}
}

func newWorker() *worker {
	w := &worker{done: make(chan struct{})}
	w.wake = sync.NewCond(&w.mu)
	go w.run()
	return w
}

func (w *worker) do(f func()) {
	w.mu.Lock()
	w.queue = append(w.queue, f)
	w.mu.Unlock()
	w.wake.Signal()
}

// close waits until everything that was given to the worker is done.
func (w *worker) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wake.Signal()
	<-w.done
}

func (w *worker) run() {
	defer close(w.done)
	for {
		w.mu.Lock()
		for len(w.queue) == 0 && !w.closed {
			w.wake.Wait()
		}
		if len(w.queue) == 0 {
			w.mu.Unlock()
			return
		}
		f := w.queue[0]
		w.queue = w.queue[1:]
		w.mu.Unlock()
		f()
	}
}
