package amt_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
	"github.com/byssus-hpc/byssus/mpi"
)

const faultVariable = "AMT_TEST_FAULT" // which wrong handler the process declares

type withChannel struct{ C chan int }

type withAny struct{ V any }

type unregistered struct{ X int }

type counter struct{ n int64 }

func (k *counter) add(_ amt.Context, m *number) { k.n += int64(m.X) }

var (
	wrong        amt.Handler[number]
	wrongMessage amt.Handler[withChannel]
	wrongSize    amt.Handler[[1 << 32]byte]
	undeclared   amt.Handler[number]
	waiting      amt.Handler[number]
	failing      amt.Handler[number]
	exiting      amt.Handler[number]
	holding      amt.Handler[withAny]
	keeping      amt.Handler[number]
	never        amt.Handler[number]
	kept         = &struct{ c amt.Context }{}

	wrongElements amt.Collection[amt.Index1, withChannel]
	wrongElement  amt.Collection[amt.Index1, worker]
)

func init() {
	k := &counter{}
	switch os.Getenv(faultVariable) {
	case "captures":
		wrong.Is(func(_ amt.Context, m *number) { k.n += int64(m.X) })
	case "method":
		wrong.Is(k.add)
	case "channel":
		wrongMessage.Is(func(amt.Context, *withChannel) {})
	case "size":
		wrongSize.Is(func(amt.Context, *[1 << 32]byte) {})
	case "twice":
		wrong.Is(func(amt.Context, *number) {})
		wrong.Is(func(amt.Context, *number) {})
	case "priorities":
		wrong.Is(func(amt.Context, *number) {}, 1, 2)
	case "nil":
		wrong.Is(nil)
	case "element":
		wrongElements.Is("wrong")
	case "two names":
		wrongElement.Is("workers")
	case "no name":
		wrongElement.Is("")
	case "mapping":
		shift := len(os.Args)
		wrongElement.Is("wrong", amt.MappedBy(func(i, _ amt.Index1, ranks int) int { return (i.X + shift) % ranks }))
	}
	waiting.Is(func(c amt.Context, _ *number) {
		if err := c.Rooted("inside", func(amt.Context) error { return nil }).Wait(c); err == nil {
			panic("a handler has waited")
		}
	})
	exiting.Is(func(amt.Context, *number) { runtime.Goexit() })
	failing.Is(func(c amt.Context, m *number) { c.Fail(fmt.Errorf("number %d is bad", m.X)) })
	holding.Is(func(amt.Context, *withAny) {})
	never.Is(func(amt.Context, *number) { panic("a message of an epoch that has failed is handled") })
	keeping.Is(func(c amt.Context, _ *number) { kept.c = c })
}

// TestFaults has processes declare wrong handlers: they say so before anything runs.
func TestFaults(t *testing.T) {
	if os.Getenv(faultVariable) != "" {
		fmt.Println(amt.RunLocal(2, func(amt.Context) error { panic("it runs") }))
		return
	}
	for fault, want := range map[string]string{
		"captures":   "captures variables, which other ranks do not have",
		"method":     "is the method of a value, which other ranks do not have",
		"channel":    "its message cannot be sent: ",
		"size":       "a message of 4294967296 bytes: it may have ",
		"twice":      "it is said twice what it is",
		"priorities": "it is given two priorities",
		"nil":        "its function is nil",
		"element":    "its elements cannot be saved: ",
		"two names":  `its name is that of the collection "workers"`,
		"no name":    "it has no name",
		"mapping":    "captures variables, which other ranks do not have",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaults$")
		cmd.Env = append(os.Environ(), faultVariable+"="+fault)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "errors_test.go:") {
			t.Errorf("%s: %v, %s\nwant %s", fault, err, out, want)
		}
	}
}

// two runs a body on two ranks, in an epoch.
func two(body func(amt.Context) error) error {
	return amt.RunLocal(2, func(c amt.Context) error { return c.Collective("all", body).Wait(c) })
}

// onFirst runs it on the first of them alone.
func onFirst(body func(amt.Context)) error {
	return two(func(c amt.Context) error {
		if c.Rank() == 0 {
			body(c)
		}
		return nil
	})
}

// caught runs a main function on two ranks, which all get an error with some words: it is no other's then.
func caught(want string, main func(amt.Context) error) error {
	return amt.RunLocal(2, func(c amt.Context) error {
		if err := main(c); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("%v is no error with %q", err, want)
		}
		return nil
	})
}

// An outcome is what a program came to, and words that its error should have; none: no error.
type outcome struct {
	err  error
	want string
}

func (o outcome) check(t *testing.T, name string) {
	got := ""
	if o.err != nil {
		got = o.err.Error()
	}
	if (o.want == "") != (got == "") || !strings.Contains(got, o.want) {
		t.Errorf("%s: %q, want %q", name, got, o.want)
	}
}

// TestErrors has programs do what is wrong.
func TestErrors(t *testing.T) {
	var late amt.Handler[number]
	for name, test := range map[string]outcome{
		"no ranks":              {amt.RunLocal(0, nil), "0 ranks: at least one is needed"},
		"no rank":               {onFirst(func(c amt.Context) { sink.Send(c, 2, &number{}) }), "there is no rank 2, the last one is 1"},
		"what cannot be packed": {onFirst(func(c amt.Context) { holding.Send(c, 1, &withAny{unregistered{1}}) }), "cannot send to rank 1"},
		"the same, here":        {onFirst(func(c amt.Context) { holding.Send(c, 0, &withAny{unregistered{1}}) }), "cannot send to rank 0"},
		"undeclared":            {onFirst(func(c amt.Context) { undeclared.Send(c, 1, &number{}) }), "it was never said what it is"},
		"late": {onFirst(func(c amt.Context) {
			late.Is(func(amt.Context, *number) {})
			late.Send(c, 1, &number{})
		}), "declared when the runtime had started"},
		"Wait in a handler": {onFirst(func(c amt.Context) { waiting.Send(c, 1, &number{}) }), "waits for the epoch \"inside\": "},
		"a handler's":       {onFirst(func(c amt.Context) { failing.Send(c, 1, &number{7}) }), "number 7 is bad"},
		"a task's": {onFirst(func(c amt.Context) {
			c.Go("bad task", func(amt.Context) error { return errors.New("it has failed") })
		}), `the task "bad task": it has failed`},
		"one main function's": {amt.RunLocal(3, func(c amt.Context) error {
			if c.Rank() == 1 {
				return errors.New("rank 1 gives up")
			}
			return c.Collective("nobody else comes", func(amt.Context) error { return nil }).Wait(c)
		}), "rank 1 gives up"},
		"one that nobody waits for": {amt.RunLocal(2, func(c amt.Context) error {
			if c.Rank() == 0 {
				c.Rooted("lost", func(c amt.Context) error { failing.Send(c, 1, &number{9}); return nil })
			}
			return nil
		}), "number 9 is bad"},
		"a collective epoch within a rooted one, which is right": {two(func(c amt.Context) error {
			return c.Rooted("own", func(c amt.Context) error {
				return c.Collective("a", func(amt.Context) error { return nil }).Wait(c)
			}).Wait(c)
		}), ""},
		"a collective epoch of a handler": {onFirst(func(c amt.Context) {
			c.Rooted("first", func(amt.Context) error { return nil }).OnDone(c, func(c amt.Context) {
				if err := c.Collective("x", func(amt.Context) error { return nil }).Wait(c); err != nil {
					c.Fail(err)
				}
			})
		}), "begins the collective epoch \"x\": only main functions can"},
	} {
		test.check(t, name)
	}
}

// TestErrorsAreThemselves: whatever rank fails, RunLocal's error and that of Wait on each rank are what has failed, not words of it.
func TestErrorsAreThemselves(t *testing.T) {
	for bad := range 3 {
		var not [3]bool
		body := func(c amt.Context) error {
			if c.Rank() == bad {
				return errBad
			}
			return nil
		}
		for name, main := range map[string]func(amt.Context) error{
			"main": func(c amt.Context) error {
				if c.Rank() == bad {
					return errBad
				}
				return c.Collective("work", func(amt.Context) error { return nil }).Wait(c)
			},
			"body": func(c amt.Context) error {
				err := c.Collective("work", body).Wait(c)
				not[c.Rank()] = !errors.Is(err, errBad)
				return err
			},
			"task": func(c amt.Context) error {
				return c.Collective("work", func(c amt.Context) error {
					c.Go("task", body)
					return nil
				}).Wait(c)
			},
		} {
			if err := amt.RunLocal(3, main); !errors.Is(err, errBad) || not != [3]bool{} {
				t.Errorf("%s of rank %d: found %v, and %v of Wait", name, bad, err, not)
			}
		}
	}
}

// TestGoexit: code that ends its goroutine, as t.FailNow does, is an error of the run.
func TestGoexit(t *testing.T) {
	for name, main := range map[string]func(amt.Context) error{
		"main": func(c amt.Context) error {
			if c.Rank() == 1 {
				runtime.Goexit()
			}
			return c.Collective("x", func(amt.Context) error { return nil }).Wait(c)
		},
		"body": func(c amt.Context) error {
			return c.Collective("x", func(c amt.Context) error {
				if c.Rank() == 1 {
					runtime.Goexit()
				}
				return nil
			}).Wait(c)
		},
		"handler": func(c amt.Context) error {
			return c.Collective("x", func(c amt.Context) error {
				if c.Rank() == 0 {
					exiting.Send(c, 1, &number{})
				}
				return nil
			}).Wait(c)
		},
		"task": func(c amt.Context) error {
			return c.Collective("x", func(c amt.Context) error {
				c.Go("leaver", func(c amt.Context) error {
					if c.Rank() == 1 {
						runtime.Goexit()
					}
					return nil
				})
				return nil
			}).Wait(c)
		},
	} {
		err := amt.RunLocal(3, main)
		if err == nil || !strings.Contains(err.Error(), "amt: rank 1: ") || strings.Count(err.Error(), "by runtime.Goexit") != 1 {
			t.Errorf("%s: found %v", name, err)
		}
	}
}

// TestErrorsOfEpochs: whose an error is that nobody waits for.
func TestErrorsOfEpochs(t *testing.T) {
	for name, test := range map[string]outcome{
		"one of an epoch that something follows": {onFirst(func(c amt.Context) {
			c.Rooted("bad", func(c amt.Context) error { failing.Send(c, 1, &number{4}); return nil }).OnDone(c, func(amt.Context) { panic("it follows") })
		}), "number 4 is bad"},
		"one of an epoch that another comes after": {two(func(c amt.Context) error {
			bad := c.Collective("bad", func(c amt.Context) error { failing.Send(c, 1, &number{5}); return nil })
			return c.Collective("after", func(c amt.Context) error { never.Send(c, 1, &number{}); return nil }, amt.After(bad)).Wait(c)
		}), "number 5 is bad"},
		"the same, rooted": {onFirst(func(c amt.Context) {
			bad := c.Rooted("bad", func(c amt.Context) error { failing.Send(c, 1, &number{6}); return nil })
			c.Rooted("after", func(c amt.Context) error { never.Send(c, 1, &number{}); return nil }, amt.After(bad))
		}), "number 6 is bad"},
		"a chain whose end is waited for alone": {caught("number 8 is bad", func(c amt.Context) error {
			ep := c.Collective("0", func(c amt.Context) error { failing.Send(c, 1, &number{8}); return nil })
			for k := range 3 {
				ep = c.Collective(fmt.Sprint(k+1), func(c amt.Context) error { never.Send(c, 0, &number{}); return nil }, amt.After(ep))
			}
			return ep.Wait(c)
		}), ""},
		"a collective epoch of a task that nobody waits for": {onFirst(func(c amt.Context) {
			c.Go("task", func(c amt.Context) error { c.Collective("never", nothing); return nil })
		}), "begins the collective epoch \"never\""},
		"after nothing": {onFirst(func(c amt.Context) { c.Rooted("x", nothing, amt.After(nil)) }), "the epoch \"x\" would wait for nil"},
		"no error":      {onFirst(func(c amt.Context) { c.Fail(nil) }), ""},
		"a rooted epoch of a task after what cannot be": {onFirst(func(c amt.Context) {
			c.Go("task", func(c amt.Context) error {
				wrong := c.Collective("wrong", func(amt.Context) error { return nil })
				return c.Rooted("x", func(amt.Context) error { panic("it runs") }, amt.After(wrong)).Wait(c)
			})
		}), "begins the collective epoch \"wrong\""},
		"an operation that others never ask for, because they have failed": {amt.RunLocal(2, func(c amt.Context) error {
			s, err := c.Scope("s")
			if err != nil {
				return err
			}
			return c.Collective("all", func(c amt.Context) error {
				if c.Rank() == 0 {
					s.Do(c, func(comm *mpi.Comm) error { return comm.Barrier() })
					failing.Send(c, 1, &number{3})
				}
				return nil
			}).Wait(c)
		}), "number 3 is bad"},
	} {
		test.check(t, name)
	}
}

// TestStaleContext uses a context after its handler has ended.
func TestStaleContext(t *testing.T) {
	said := ""
	err := amt.RunLocal(1, func(c amt.Context) error {
		err := c.Collective("all", func(c amt.Context) error { keeping.Send(c, 0, &number{}); return nil }).Wait(c)
		defer func() { said = fmt.Sprint(recover()) }()
		sink.Send(kept.c, 0, &number{})
		return err
	})
	if err != nil || !strings.Contains(said, "is used after the handler, task or body that it was given to has ended") {
		t.Errorf("%v; %s", err, said)
	}
}

// TestTasksFollow has tasks say what follows epochs that are over, while their rank handles messages.
func TestTasksFollow(t *testing.T) {
	const tasks = 50
	var followed atomic.Int64
	err := amt.RunLocal(2, func(c amt.Context) error {
		return c.Collective("all", func(c amt.Context) error {
			for range tasks {
				c.Go("task", func(c amt.Context) error {
					ep := c.Rooted("x", func(c amt.Context) error { chain.Send(c, 1-c.Rank(), &number{5}); return nil })
					err := ep.Wait(c)
					ep.OnDone(c, func(c amt.Context) {
						followed.Add(1)
						chain.Send(c, 1-c.Rank(), &number{3})
					})
					return err
				})
			}
			return nil
		}).Wait(c)
	})
	if err != nil || followed.Load() != 2*tasks {
		t.Errorf("%v; %d of %d have followed", err, followed.Load(), 2*tasks)
	}
}
