package coordsrv

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/keep"
	"github.com/byssus-hpc/byssus/internal/decide/recovery"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
)

// Assemble puts together what was copied from the caches of a job's nodes when its byssus was gone: the newest checkpoint that
// can be becomes one of the store, what is lost of it is made again; so does one that is asked for, 0: none. The job must be locked.
// For each directory there is an agent in this process, which has it for its cache. It does nothing where there is nothing.
func Assemble(job *dataset.Job, wanted uint64, say func(string)) error {
	parts, err := job.Scavenged().Parts()
	if err != nil || len(parts) == 0 {
		return err
	}
	streams := []holding.Stream{0}
	for _, part := range parts {
		there, err := part.Streams()
		if err != nil {
			return fmt.Errorf("coordsrv: what was copied from caches: %w", err)
		}
		streams = append(streams, there...)
	}
	slices.Sort(streams)
	whole := true
	for _, s := range slices.Compact(streams) {
		only := wanted
		if s != 0 {
			only = 0 // it names a checkpoint
		}
		copied, all, err := assemble(job, s, parts, only, say)
		if err != nil {
			return err
		}
		if s == 0 && all && copied > 0 {
			job.Meta.Cached = copied // what was newer has not been whole on any node
		}
		whole = whole && all
	}
	if !whole {
		return nil // the caches themselves may have more
	}
	return errors.Join(job.Save(), job.Scavenged().Remove())
}

// assemble puts together what there is of a stream of the job: which number that was, 0: none; and whether all that was copied has been
// looked at and nothing newer can turn up.
func assemble(job *dataset.Job, stream holding.Stream, parts []*dataset.Job, wanted uint64, say func(string)) (copied uint64, whole bool, err error) {
	a := &assembly{say: say, inbox: newInbox(), waiting: map[uint64]func(keep.Answer){}}
	a.tell = func(node int, m control.Message) { a.agents[node].Hear(m) }
	defer a.close()
	if err := a.begin(job, stream, parts); err != nil {
		return 0, false, fmt.Errorf("coordsrv: what was copied from caches: %w", err)
	}
	over := false
	a.keeper.Scavenge(func(n uint64, errs []error) {
		over, copied, whole = true, n, len(errs) == 0 || n > 0 && a.keeper.Present(n)
		if len(errs) > 0 {
			say("what was copied from caches is not enough: " + strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "; "))
		}
		if n > 0 {
			say(fmt.Sprintf("%s was put together from what the caches of %s had", job.Of(stream).Called(n), a.nodes()))
		}
	})
	a.serve(func() bool { return over })
	over = false
	a.keeper.Fetch(wanted, func(err error) {
		if over = true; err != nil {
			say(err.Error())
		}
	})
	a.serve(func() bool { return over })
	return copied, whole, nil
}

// assembly drives a keeper whose nodes are directories.
type assembly struct {
	*orders
	keeper  *keep.Keeper
	say     func(string)
	tell    func(node int, m control.Message)
	agents  []*agent.Node
	ports   []*bulk.Port
	names   []string
	inbox   *inbox
	number  uint64
	waiting map[uint64]func(keep.Answer)
	due     []func() // callbacks that are not to be called from within a call
}

// begin makes the agents, with a keeper that knows what they have.
func (a *assembly) begin(job *dataset.Job, stream holding.Stream, parts []*dataset.Job) error {
	id, err := hex.DecodeString(job.Meta.ID)
	if err != nil || len(id) != 16 {
		return fmt.Errorf("job id %q, wanted 32 hexadecimal digits", job.Meta.ID)
	}
	stored, err := job.Of(stream).Own()
	if err != nil {
		return err
	}
	newest, err := job.Of(stream).Newest()
	if err != nil {
		return err
	}
	a.orders = newOrders(job, stream, bulk.Authenticated, func(node int) string { return a.names[node] },
		func(node int) string { return a.ports[node].Address() })
	a.keeper = keep.New(keep.Config{Job: [16]byte(id), Stream: stream, Ranks: job.Meta.Ranks, Scheme: redset.Single}, a, stored)
	for _, part := range parts {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		port := bulk.NewPort(l)
		n := agent.NewNode(agent.NodeConfig{JobID: [16]byte(id), Store: part, Flush: job, Port: port,
			Say: func(m control.Message) { a.inbox.put(said{Message: m}) }})
		name := filepath.Base(part.Dir)
		a.agents, a.ports, a.names = append(a.agents, n), append(a.ports, port), append(a.names, name)
		held, damaged := n.Held()
		for _, why := range damaged {
			a.say(fmt.Sprintf("what was copied from the cache of %s is left out: %s", name, why))
		}
		held = slices.DeleteFunc(held, func(h recovery.Held) bool {
			return h.Stream == stream && h.Dataset <= newest[h.Label.Group(h.Dataset)]
		})
		a.keeper.Join(name, "", held)
	}
	return nil
}

func (a *assembly) close() {
	for i, n := range a.agents {
		n.Close()
		a.ports[i].Close()
	}
}

func (a *assembly) nodes() string { return strings.Join(a.names, ", ") }

// serve calls back until something has come about.
func (a *assembly) serve(what func() bool) {
	for !what() {
		for _, f := range a.takeDue() {
			f()
		}
		if len(a.due) > 0 || what() {
			continue
		}
		<-a.inbox.ready
		for _, s := range a.inbox.take() {
			a.hear(s.Message)
		}
	}
}

func (a *assembly) takeDue() []func() {
	due := a.due
	a.due = nil
	return due
}

// hear takes in an answer.
func (a *assembly) hear(m control.Message) {
	var order uint64
	switch b := m.Body.(type) {
	case control.Done:
		order = b.Order
	case control.Encoded:
		order = b.Order
	case control.Sealed:
		order = b.Order
	}
	if then := a.waiting[order]; then != nil {
		delete(a.waiting, order)
		then(a.answer(m))
	}
}

// Ask is keep's.
func (a *assembly) Ask(node int, order keep.Order, then func(keep.Answer)) {
	a.number++
	a.waiting[a.number] = then
	a.tell(node, control.Message{Body: a.message(node, a.number, order)})
}

// Tell is keep's.
func (a *assembly) Tell(node int, order keep.Order) {
	a.tell(node, control.Message{Body: a.message(node, 0, order)})
}

// Store is keep's.
func (a *assembly) Store(work keep.Work, then func(error)) {
	err := a.work(work)()
	a.due = append(a.due, func() { then(err) })
}

// Committed is keep's.
func (a *assembly) Committed(uint64, string) {}

// Flushed is keep's.
func (a *assembly) Flushed(uint64) {}

// Repaired is keep's.
func (a *assembly) Repaired(n uint64, node int, bytes int64, why string) {
	a.say(repaired(n, a.names[node], bytes, why))
}

// Rebuilt is keep's.
func (a *assembly) Rebuilt(n uint64, lost string, _ int, bytes int64) {
	a.say(fmt.Sprintf("checkpoint %d: what %s held, %s, was made again", n, lost, ui.Bytes(bytes)))
}

// Say is keep's.
func (a *assembly) Say(text string) { a.say(text) }
