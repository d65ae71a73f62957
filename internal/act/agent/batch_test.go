package agent

import (
	"context"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/host/spawn"
)

// classes are those that the threads of this process are in, each once.
func classes(t *testing.T) []uint32 {
	t.Helper()
	var all []uint32
	for _, tid := range threads() {
		if a, err := unix.SchedGetAttr(tid, 0); err == nil {
			all = append(all, a.Policy)
		}
	}
	if len(all) < 2 {
		t.Fatalf("%d threads are listed, want some", len(all))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// onThread runs f on a thread of its own, which ends with it, and is of this class and as nice first.
func onThread(t *testing.T, class uint32, nice int32, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		a, err := unix.SchedGetAttr(0, 0)
		if err == nil {
			a.Policy, a.Nice = class, nice
			err = unix.SchedSetAttr(0, a, 0)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// attributes are what the kernel says of the thread that asks.
func attributes(t *testing.T) unix.SchedAttr {
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Error(err)
		return unix.SchedAttr{}
	}
	return *a
}

// TestBatch: as long as anything is moved all threads are for batch work, those too that are made meanwhile; then none.
func TestBatch(t *testing.T) {
	m := newMoves()
	first, second, short := make(chan struct{}), make(chan struct{}), make(chan struct{})
	m.do(1, func(context.Context) { <-first })
	m.do(1, func(context.Context) { <-second })
	m.do(2, func(context.Context) { close(short) })
	<-short
	close(first)
	made := make(chan uint32)
	for range 4 { // threads that were not there
		go func() {
			runtime.LockOSThread()
			made <- attributes(t).Policy
		}()
	}
	for range 4 {
		if p := <-made; p != unix.SCHED_BATCH {
			t.Errorf("a new thread is of class %d, want %d", p, unix.SCHED_BATCH)
		}
	}
	if got := classes(t); !slices.Equal(got, []uint32{unix.SCHED_BATCH}) {
		t.Errorf("while data is moved threads are of classes %d, want %d", got, unix.SCHED_BATCH)
	}
	close(second)
	m.close()
	if got := classes(t); !slices.Equal(got, []uint32{unix.SCHED_NORMAL}) {
		t.Errorf("then threads are of classes %d, want %d", got, unix.SCHED_NORMAL)
	}
}

// TestBatchNice: nothing but the class changes.
func TestBatchNice(t *testing.T) {
	m := newMoves()
	onThread(t, unix.SCHED_NORMAL, 5, func() {
		before := attributes(t)
		until := make(chan struct{})
		m.do(1, func(context.Context) { <-until })
		while := attributes(t)
		close(until)
		m.close()
		if while.Policy != unix.SCHED_BATCH || while.Nice != 5 {
			t.Errorf("class %d, niceness %d, want %d, 5", while.Policy, while.Nice, unix.SCHED_BATCH)
		}
		if got := attributes(t); got != before {
			t.Errorf("then %+v, want %+v", got, before)
		}
	})
}

// TestBatchChosen: an agent that its user, or a batch system, has put into a class stays there.
func TestBatchChosen(t *testing.T) {
	for _, chosen := range []uint32{unix.SCHED_BATCH, unix.SCHED_IDLE} {
		onThread(t, chosen, 0, func() {
			m := newMoves()
			m.do(1, func(context.Context) {})
			m.close()
			if got := attributes(t).Policy; got != chosen {
				t.Errorf("a thread of class %d is of %d afterwards", chosen, got)
			}
		})
	}
}

// TestBatchRanks: what a spawner starts while data is moved is of the usual class.
func TestBatchRanks(t *testing.T) {
	s, err := spawn.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := newMoves()
	until := make(chan struct{})
	defer m.close()
	defer close(until)
	m.do(1, func(context.Context) { <-until })
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = s.Start(spawn.Command{Args: []string{"cut", "-d ", "-f41", "/proc/self/stat"}, Env: os.Environ(),
		Files: []*os.File{w, os.Stderr}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if got := strings.TrimSpace(string(out)); err != nil || got != "0" { // proc_pid_stat(5): SCHED_NORMAL
		t.Errorf("a process that was started meanwhile is of class %q (%v), want 0", got, err)
	}
}
