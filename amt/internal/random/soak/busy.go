package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// busy is what else lives in a process of Go: signals that it asked for, timers, and a pipe that goroutines wait for in the
// network poller. Each goes round and round; none may come to a halt, or be out of step.
type busy struct {
	rounds [3]atomic.Uint64 // of signals, timers, the pipe
	wrong  atomic.Pointer[error]
}

// begin sets all going. They end with the process.
func (b *busy) begin() error {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR2)
	go func() {
		for {
			if err := syscall.Kill(os.Getpid(), syscall.SIGUSR2); err != nil {
				b.fail(err)
				return
			}
			<-got
			b.rounds[0].Add(1)
			time.Sleep(time.Millisecond)
		}
	}()
	ticks := time.NewTicker(2 * time.Millisecond)
	go func() {
		for range ticks.C {
			done := make(chan bool)
			time.AfterFunc(time.Millisecond, func() { close(done) })
			<-done
			b.rounds[1].Add(1)
		}
	}()
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	echo := make(chan uint64)
	go func() {
		for {
			var n [8]byte
			if _, err := out.Read(n[:]); err != nil {
				b.fail(err)
				return
			}
			echo <- binary.LittleEndian.Uint64(n[:])
		}
	}()
	go func() {
		for n := uint64(0); ; n++ {
			if _, err := in.Write(binary.LittleEndian.AppendUint64(nil, n)); err != nil {
				b.fail(err)
				return
			}
			if back := <-echo; back != n {
				b.fail(fmt.Errorf("the pipe gives %d, want %d", back, n))
				return
			}
			b.rounds[2].Add(1)
			time.Sleep(time.Millisecond)
		}
	}()
	return nil
}

func (b *busy) fail(err error) { b.wrong.CompareAndSwap(nil, &err) }

// check waits until each has gone another round.
func (b *busy) check() error {
	for i, what := range []string{"signals", "timers", "the pipe"} {
		const patience = time.Minute // a hang
		at, begun := b.rounds[i].Load(), time.Now()
		for b.rounds[i].Load() == at {
			if err := b.wrong.Load(); err != nil {
				return *err
			}
			if time.Since(begun) > patience {
				return fmt.Errorf("%s have come to a halt after %d rounds", what, at)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}
