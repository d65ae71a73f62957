package amt_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/amt/internal/random"
	"github.com/byssus-hpc/byssus/amt/internal/wire"
	"github.com/byssus-hpc/byssus/mpi"
)

func nothing(amt.Context) error { return nil }

// TestHangs has programs wait for what can never be: they are told who waits for whom, on all ranks.
func TestHangs(t *testing.T) {
	for name, test := range map[string]struct {
		main func(amt.Context) error
		want []string
	}{
		"a collective epoch that one rank does not begin": {func(c amt.Context) error {
			if c.Rank() == 1 {
				return nil
			}
			return c.Collective("lonely", nothing).Wait(c)
		}, []string{"these wait for each other:", `epoch "lonely" (collective 2) -> main function of rank 1: was not begun there`,
			"main function of rank 1 -> epoch \"main\" (collective 1): has returned"}},
		"collective epochs in different orders": {func(c amt.Context) error {
			if c.Rank() == 0 {
				a := c.Rooted("a", nothing)
				return errors.Join(a.Wait(c), c.Collective("first", func(c amt.Context) error {
					return c.Collective("second", nothing).Wait(c)
				}).Wait(c))
			}
			return c.Collective("first", nothing).Wait(c)
		}, []string{`epoch "second" (collective 3) -> main function of rank `, "was not begun there"}},
		"tasks that wait for each other's epochs": {func(c amt.Context) error {
			if c.Rank() > 0 {
				return nil
			}
			other := make(chan *amt.Epoch, 2)
			one := c.Rooted("one", func(c amt.Context) error {
				c.Go("left", func(c amt.Context) error { return (<-other).Wait(c) })
				return nil
			})
			two := c.Rooted("two", func(c amt.Context) error {
				c.Go("right", func(c amt.Context) error { return one.Wait(c) })
				return nil
			})
			other <- two
			return two.Wait(c)
		}, []string{`task "left" of rank 0 -> epoch "two" (rooted `, `epoch "two" (rooted `, `task "right" of rank 0 -> epoch "one"`}},
		"an operation that one rank does not ask for": {func(c amt.Context) error {
			s, err := c.Scope("sums")
			if err != nil || c.Rank() == 2 {
				return err
			}
			return c.Rooted("asks", func(c amt.Context) error {
				s.Do(c, func(comm *mpi.Comm) error { return comm.Barrier() })
				return nil
			}).Wait(c)
		}, []string{`operation 1 of scope "sums, number 1" -> main function of rank 2: has not asked for it`}},
		"an epoch after one that is not over": {func(c amt.Context) error {
			if c.Rank() == 1 {
				return nil
			}
			never := c.Collective("never", nothing)
			return c.Rooted("later", func(c amt.Context) error {
				sink.Send(c, 1, &number{})
				sink.Send(c, 1, &number{})
				return nil
			}, amt.After(never)).Wait(c)
		}, []string{`"epoch "later" (rooted 1 of rank 0)" -> "epoch "never" (collective 2)" [label="on rank 0 comes after, with 2 to rank 1 for the handler of amt_test.number`}},
	} {
		t.Run(name, func(t *testing.T) {
			dot := filepath.Join(t.TempDir(), "waits.dot")
			t.Setenv(amt.DOTVariable, dot)
			err := amt.RunLocal(3, test.main)
			var hang *amt.HangError
			if !errors.As(err, &hang) {
				t.Fatalf("%v, want a HangError", err)
			}
			drawn, unread := os.ReadFile(dot)
			if unread != nil || string(drawn) != hang.DOT || !strings.HasPrefix(hang.DOT, "digraph") {
				t.Errorf("%v: %s", unread, drawn)
			}
			for _, want := range test.want {
				if !strings.Contains(hang.Error(), want) && !strings.Contains(strings.ReplaceAll(hang.DOT, `\"`, `"`), want) {
					t.Errorf("%v\n%s\nwant %s", err, hang.DOT, want)
				}
			}
		})
	}
}

// A lossy transport loses the batch with a number, of the short ones with messages that leave. (Without the last word of all, that the
// program is over, a rank would be left alone, with nobody to tell it.)
type lossy struct {
	wire.Transport
	loses, sent int
}

func (l *lossy) Send(to int, b []byte) (bool, error) {
	if len(b) <= l.Size() && amt.HasMessages(b) {
		if l.sent++; l.sent == l.loses {
			return true, nil
		}
	}
	return l.Transport.Send(to, b)
}

// TestLostBatches has a transport lose one, in many programs: from whom and how many is told, whatever was in it.
func TestLostBatches(t *testing.T) {
	lost := 0
	for n := *seed; n < *seed+60; n++ {
		r := rand.New(rand.NewPCG(n, 7))
		ranks := 2 + r.IntN(3)
		from, loses := r.IntN(ranks), 1+r.IntN(25)
		var end *lossy
		err := amt.RunOver(ranks, func(of wire.Transport) wire.Transport {
			if of.Rank() != from {
				return of
			}
			end = &lossy{Transport: of, loses: loses}
			return end
		}, 50*time.Millisecond, random.Program(n, ranks))
		if end.sent >= loses {
			lost++
		}
		if told := err != nil && strings.Contains(err.Error(), ": the transport has lost 1 of ") && strings.Contains(err.Error(), fmt.Sprint(" from rank ", from)); told != (end.sent >= loses) {
			t.Errorf("program %d on %d ranks, batch %d of rank %d, which has sent %d: %v", n, ranks, loses, from, end.sent, err)
		}
	}
	if t.Logf("seed %d: %d programs had one lost", *seed, lost); lost == 0 {
		t.Error("no batch was lost")
	}
}

// TestNoHang has ranks look for hangs all the time, in programs that have none.
func TestNoHang(t *testing.T) {
	t.Logf("seed %d, %d programs", *seed, *programs)
	for n := *seed; n < *seed+uint64(*programs); n++ {
		ranks := 1 + int(n%5)
		err := amt.RunOver(ranks, func(end wire.Transport) wire.Transport { return end }, 0, random.Program(n, ranks))
		if err != nil {
			t.Fatalf("program %d on %d ranks: %v", n, ranks, err)
		}
	}
}

// TestHangEverywhere: every rank gets the HangError, with its graph; tasks that wait end with the program.
func TestHangEverywhere(t *testing.T) {
	before := runtime.NumGoroutine()
	err := amt.RunLocal(3, func(c amt.Context) error {
		if c.Rank() == 1 {
			return nil
		}
		ep := c.Collective("without rank 1", nothing)
		c.Go("waits", func(c amt.Context) error { return ep.Wait(c) })
		err := ep.Wait(c)
		var hang *amt.HangError
		if !errors.As(err, &hang) || !strings.HasPrefix(hang.DOT, "digraph") {
			t.Errorf("rank %d: %v", c.Rank(), err)
		}
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "amt: nothing can go on: ") {
		t.Error(err)
	}
	for n := 0; runtime.NumGoroutine() > before; n++ {
		if n == 1_000_000 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}

const patientVariable = "AMT_TEST_PATIENT" // what runs until a pipe is closed, and the pipe

// reading reads from the pipe that was named, until it is closed.
var reading amt.Handler[number]

func readPipe() error {
	_, file, _ := strings.Cut(os.Getenv(patientVariable), ":")
	f, err := os.Open(file)
	if err == nil {
		_, err = io.ReadAll(f)
	}
	return err
}

func init() {
	reading.Is(func(c amt.Context, _ *number) {
		if err := readPipe(); err != nil {
			c.Fail(err)
		}
	})
}

// long are programs of which something runs long on rank 1.
func long() map[string]func(c amt.Context) error {
	return map[string]func(c amt.Context) error{
		"task": func(c amt.Context) error {
			c.Go("the long one", func(amt.Context) error { return readPipe() })
			return nil
		},
		"handler": func(c amt.Context) error { reading.Send(c, 1, &number{}); return nil },
		"epoch": func(c amt.Context) error {
			bad := c.Rooted("bad", func(amt.Context) error { return errBad })
			read := make(chan error, 1)
			go func() { read <- readPipe() }()
			for len(read) == 0 { // never out of work
				if err := c.Rooted("good", nothing).Wait(c); err != nil {
					return err
				}
			}
			return errors.Join(<-read, isBad(bad.Wait(c)))
		},
		"main": func(amt.Context) error {
			read := make(chan error)
			go func() { read <- readPipe() }()
			return <-read
		},
		"room": func(c amt.Context) error {
			if c.Rank() == 0 {
				return readPipe() // and handles nothing
			}
			for range 100 {
				loads.Send(c, 0, &load{make([]byte, loadSize)})
			}
			return nil
		},
		"operation": func(c amt.Context) error {
			s, err := c.Scope("s")
			if err == nil {
				s.Do(c, func(comm *mpi.Comm) error {
					if c := comm.Rank(); c == 1 {
						return readPipe()
					}
					return nil
				})
			}
			return err
		},
	}
}

// TestLong has a task, a handler and an operation run until it was told that they do; that is no hang.
func TestLong(t *testing.T) {
	if which, _, ok := strings.Cut(os.Getenv(patientVariable), ":"); ok {
		fmt.Println(amt.RunLocal(2, func(c amt.Context) error {
			if c.Rank() == 1 || which == "operation" || which == "room" {
				return long()[which](c)
			}
			return nil
		}))
		return
	}
	for which, want := range map[string]string{
		"task":      `amt: rank 1: the task "the long one" runs since `,
		"handler":   "amt: rank 1: the handler of amt_test.number declared in github.com/byssus-hpc/byssus/amt_test.init",
		"main":      "amt: rank 1: the main function (chan receive) runs since ",
		"room":      "amt: rank 1: the main function waits for room since ",
		"operation": "amt: rank 1: an operation of a scope runs since ",
		"epoch":     `amt: rank 1: the epoch "bad" has failed, and the main function, which began it, has not waited for it since `,
	} {
		file := filepath.Join(t.TempDir(), "pipe")
		if out, err := exec.Command("mkfifo", file).CombinedOutput(); err != nil {
			t.Fatalf("mkfifo: %v: %s", err, out)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLong$")
		cmd.Env = append(os.Environ(), patientVariable+"="+which+":"+file, amt.PatienceVariable+"=10ms")
		if which == "room" {
			cmd.Env = append(cmd.Env, amt.MemoryVariable+"=64K")
		}
		said, err := cmd.StderrPipe()
		var out strings.Builder
		cmd.Stdout = &out
		if err = errors.Join(err, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(said).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, want) || !strings.Contains(line, " since ") {
			t.Errorf("%s: %v: %s", which, err, line)
		}
		if err := os.WriteFile(file, nil, 0); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil || !strings.HasPrefix(out.String(), "<nil>") {
			t.Errorf("%s: %v: %s", which, err, out.String())
		}
	}
}

// TestManyShort: handlers that take some time each are none that runs for long, however many they are.
func TestManyShort(t *testing.T) {
	if os.Getenv(manyVariable) != "" {
		fmt.Println(amt.RunLocal(2, func(c amt.Context) error {
			return c.Collective("all", func(c amt.Context) error {
				for range 60 {
					resting.Send(c, 1-c.Rank(), &number{})
				}
				return nil
			}).Wait(c)
		}))
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestManyShort$")
	cmd.Env = append(os.Environ(), manyVariable+"=1", amt.PatienceVariable+"=1s")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "<nil>\n") {
		t.Errorf("%v: %s", err, out)
	}
}

const manyVariable = "AMT_TEST_MANY"

// resting takes its time.
var resting amt.Handler[number]

func init() { resting.Is(func(amt.Context, *number) { time.Sleep(50 * time.Millisecond) }) }

// A cut transport fails after so many calls.
type cut struct {
	wire.Transport
	left int
}

func (k *cut) Send(to int, b []byte) (bool, error) {
	if k.left--; k.left < 0 {
		return false, errors.New("the wire is cut")
	}
	return k.Transport.Send(to, b)
}

func (k *cut) Look(looks int) (int, []byte, error) {
	if k.left--; k.left < 0 {
		return 0, nil, errors.New("the wire is cut")
	}
	return k.Transport.Look(looks)
}

// TestLostTransport has the transport fail, at any moment: all ranks that see it end, and say so.
func TestLostTransport(t *testing.T) {
	for turns := range 60 {
		err := amt.RunOver(2, func(end wire.Transport) wire.Transport { return &cut{end, turns} }, time.Minute, random.Program(3, 2))
		for _, want := range []string{"amt: rank 0: the wire is cut", "amt: rank 1: the wire is cut"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("after %d turns: %v, want %s", turns, err, want)
			}
		}
	}
}

// A shy transport refuses most batches, again and again.
type shy struct {
	wire.Transport
	random *rand.Rand
}

func (s *shy) Send(to int, b []byte) (bool, error) {
	if s.random.IntN(8) > 0 {
		return false, nil
	}
	return s.Transport.Send(to, b)
}

func (s *shy) SendUrgently(to int, b []byte) (bool, error) {
	if s.random.IntN(2) > 0 {
		return false, nil
	}
	return s.Transport.SendUrgently(to, b)
}

// TestShy plays random programs over transports that take batches seldom, while ranks look for hangs all the time.
func TestShy(t *testing.T) {
	t.Logf("seed %d, %d programs", *seed, *programs)
	for n := *seed; n < *seed+uint64(*programs); n++ {
		ranks := 2 + int(n%4)
		err := amt.RunOver(ranks, func(end wire.Transport) wire.Transport {
			return &shy{end, rand.New(rand.NewPCG(n, uint64(end.Rank())))}
		}, 0, random.Program(n, ranks))
		if err != nil {
			t.Fatalf("program %d on %d ranks: %v", n, ranks, err)
		}
	}
}

// A deaf transport takes nothing for others any more when ranks have failed.
type deaf struct {
	wire.Transport
	failed *atomic.Bool
}

func (d *deaf) Send(to int, b []byte) (bool, error) {
	if d.failed.Load() {
		return false, nil
	}
	return d.Transport.Send(to, b)
}

// TestDeaf: a rank that has failed, and cannot tell others who have ended, ends too.
func TestDeaf(t *testing.T) {
	failed := new(atomic.Bool)
	err := amt.RunOver(2, func(end wire.Transport) wire.Transport { return &deaf{end, failed} }, time.Minute, func(amt.Context) error {
		failed.Store(true)
		return errBad
	})
	if !errors.Is(err, errBad) {
		t.Error(err)
	}
}
