package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/decide/pmi"
	"github.com/byssus-hpc/byssus/internal/host/spawn"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/part"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// Node is the agent of a node of a job: it does what the coordinator orders (package control), for one start of the node's
// ranks after the other, and says what becomes of it. Orders to the store are done in their order by one goroutine;
// nothing that Hear does waits.
type Node struct {
	cache
	say   func(control.Message)
	disk  *worker
	moves *moves

	clients *clients // nil: no program is heard

	mu      sync.Mutex
	number  uint64 // of the present start, 0: none
	present *Server
	routes  *routes // of that, or the last; nil: files of programs are not led
}

// cache is what the node has of the job's datasets, in its cache or in the store that all nodes see, and what is made of it: for others, and
// from what they have. Its methods may be called from several goroutines; none changes it.
type cache struct {
	cfg   NodeConfig
	store *dataset.Job
}

// NodeConfig is what an agent works with.
type NodeConfig struct {
	Name   string // of the node, for messages
	RunDir string // of the job on this node; each start has a directory in it
	JobID  [16]byte
	Store  *dataset.Job   // where the ranks of the node write
	Flush  *dataset.Job   // what all nodes see, when the store is the node's cache; nil: the store is that
	Port   *bulk.Port     // for what other agents send; nil: the node has no cache
	Spawn  *spawn.Spawner // starts ranks, or a launcher and its daemons; nil: others do
	Faults *faults.Set    // armed crash points; nil: none
	// Say says something to the coordinator, from several goroutines, in order for each start; it must not wait.
	Say func(control.Message)
}

// NewNode returns the agent.
func NewNode(cfg NodeConfig) *Node {
	return &Node{cache: cache{cfg, cfg.Store}, say: cfg.Say, disk: newWorker(), moves: newMoves()}
}

// Serve begins to hear programs that hand files to be kept, and returns where.
func (n *Node) Serve() (string, error) {
	c, err := listenToClients(clientSockets(n.cfg.JobID, n.cfg.RunDir), n.say, n.findFiles, n.cfg.Faults)
	if err != nil {
		return "", err
	}
	n.clients = c
	return c.path(), nil
}

// clientPath is where programs that hand files to be kept are heard; empty: nowhere.
func (n *Node) clientPath() string {
	if n.clients == nil {
		return ""
	}
	return n.clients.path()
}

// StartDir is the directory of a start of ranks, with their socket and pages.
func StartDir(runDir string, number uint64) string { return filepath.Join(runDir, fmt.Sprint(number)) }

// Close ends the present start, and returns when everything that was ordered from the store is done. What is being sent to
// other nodes, or comes from them, is given up. What was kept in the cache to be written over is removed.
func (n *Node) Close() {
	n.end()
	_ = n.reroute(0, nil) // ending never fails
	if n.clients != nil {
		n.clients.close()
	}
	n.moves.close()
	n.disk.close()
	n.release()
}

// Hear takes in an order.
func (n *Node) Hear(m control.Message) {
	switch o := m.Body.(type) {
	case control.Begin:
		n.answer(o.Order, n.begin(m.Start, o))
	case control.Run:
		n.answer(o.Order, n.run(m.Start, o))
	case control.Replace:
		n.answer(o.Order, replaceRanks(n, m.Start, o))
	case control.Launch:
		n.answer(o.Order, n.launch(m.Start, o))
	case control.Exec:
		n.exec(m.Start, o)
	case control.Spawned:
		n.spawned(m.Start, o)
	case pmi.Down:
		if f := n.family(m.Start); f != nil && f.pmi != nil {
			f.pmi.Down(o)
		}
	case control.AllHere:
		if s := n.server(m.Start); s != nil {
			s.Met(o.Meeting)
		}
	case control.Input:
		if s := n.server(m.Start); s != nil {
			s.Feed(o)
		}
	case control.End:
		n.end()
	case control.Kill:
		if s := n.server(m.Start); s != nil {
			s.kill(o.Ask)
		}
	case control.Signal:
		if s := n.server(m.Start); s != nil {
			s.Signal(syscall.Signal(o.Number))
		}
	case control.Look:
		n.look(m.Start, o)
	case node.Order:
		if s := n.server(m.Start); s != nil {
			s.Order(o)
			if o.Type == abi.MsgDrain {
				n.cfg.Faults.Hit(faults.NodeDrain)
			}
		}
	case control.Encode:
		n.moves.do(o.Transfer.ID, func(ctx context.Context) { encodeAndSay(ctx, n, o) })
	case control.Rebuild:
		n.moves.do(o.Transfer.ID, func(ctx context.Context) { n.rebuildAndSay(ctx, o) })
	case control.Abandon:
		n.moves.abandon(o.Transfer)
	case control.Repair:
		n.moves.do(o.Transfer.ID, func(ctx context.Context) { n.answer(o.Order, n.repair(ctx, o)) })
	case control.Inspect:
		n.moves.do(0, func(ctx context.Context) { n.answer(o.Order, examine(ctx, n.of(o.Stream).Path(o.Checkpoint))) })
	case control.Flush:
		n.moves.do(0, func(ctx context.Context) { n.flushAndSay(ctx, o) })
	default:
		if !n.hearOfWritten(m) && !n.hearOfRoutes(m) {
			n.storeOrder(m)
		}
	}
}

// hearOfWritten takes in what is ordered, or answered, of datasets that programs write themselves; false: it is something else.
func (n *Node) hearOfWritten(m control.Message) bool {
	switch o := m.Body.(type) {
	case control.Told:
		if n.clients != nil {
			n.clients.told(o)
		}
	case control.SealInPlace:
		n.moves.alone(func(ctx context.Context) {
			p, err := n.sealInPlace(ctx, o)
			n.sealed(m.Start, o.Order, p, err)
		})
	case control.Room:
		n.moves.alone(func(context.Context) { n.answer(o.Order, n.hasRoom(o.Bytes)) })
	case control.Name:
		n.moves.alone(func(context.Context) { n.say(control.Message{Body: n.name(o)}) })
	case control.Compare:
		n.moves.alone(func(ctx context.Context) { n.answer(o.Order, n.compare(ctx, o)) })
	default:
		return false
	}
	return true
}

// server is the one of that start, nil: it is over.
func (n *Node) server(number uint64) *Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	if number != n.number {
		return nil
	}
	return n.present
}

func (n *Node) answer(order uint64, err error) {
	d := control.Done{Order: order}
	if err != nil {
		d.Err, d.Follows, d.Damaged, d.Full = n.told(err), follows(err), errors.Is(err, part.ErrDamaged), errors.Is(err, ErrRoom)
		if w := new(wounds); errors.As(err, &w) {
			d.Damage = w.at
		}
	}
	n.say(control.Message{Body: d})
}

// told is how the coordinator is told of an error. Of a cache that is full matters which one it is, and what must fit into it.
func (n *Node) told(err error) string {
	at := new(fs.PathError)
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) || !errors.As(err, &at) || !n.cached() || !strings.HasPrefix(at.Path, n.store.Dir) {
		return err.Error()
	}
	return fmt.Sprintf("node %s: its cache, %s, is full, wanted room for what its ranks write and for the redundancy of that: %v", n.cfg.Name, n.store.Dir, at)
}

// follows says whether an error is of what another agent could not do: it has hung up, and says itself why.
func follows(err error) bool {
	return slices.ContainsFunc([]error{errAbandoned, syscall.ECONNRESET, syscall.EPIPE, io.ErrUnexpectedEOF}, func(why error) bool { return errors.Is(err, why) })
}

// begin makes ready for the ranks of a start.
func (n *Node) begin(number uint64, b control.Begin) error {
	n.end()
	dir := StartDir(n.cfg.RunDir, number)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("agent: run directory: %w", err)
	}
	if err := n.reroute(number, b.Route); err != nil {
		return err
	}
	s, err := Listen(Config{Dir: dir, Ranks: b.Ranks, Routed: b.Route != nil, Size: b.Size, Start: number, Restart: b.Restart, Writers: b.Writers, Clients: n.clientPath(), JobID: n.cfg.JobID, Spawn: n.cfg.Spawn,
		Images: func(c uint64) string { return n.of(0).Path(c) + ".tmp" },
		Report: func(r node.Report) {
			n.reached(r)
			n.say(control.Message{Start: number, Body: r})
		},
		Here:  func(meeting uint64) { n.say(control.Message{Start: number, Body: control.Here{Meeting: meeting}}) },
		Input: func(read uint64) { n.say(control.Message{Start: number, Body: control.WantInput{Offset: read}}) }})
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.number, n.present = number, s
	n.disk.do(n.release)
	return nil
}

// reached passes the crash points before what ranks say is told.
func (n *Node) reached(r node.Report) {
	switch r.(type) {
	case node.Clocks:
		n.cfg.Faults.Hit(faults.NodeClocks)
	case node.Image:
		n.cfg.Faults.Hit(faults.NodeImage)
	case node.Restored:
		n.cfg.Faults.Hit(faults.NodeRestored)
	}
}

// end ends the present start, if there is one.
func (n *Node) end() {
	n.mu.Lock()
	s := n.present
	n.present, n.number = nil, 0
	n.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// look answers with what the pages say; with nothing when the start is over.
func (n *Node) look(number uint64, o control.Look) {
	p := control.Pages{Order: o.Order}
	if s := n.server(number); s != nil {
		p.Ranks = s.Sample()
	}
	n.say(control.Message{Start: number, Body: p})
}

// storeOrder queues what is to be done with checkpoints.
func (n *Node) storeOrder(m control.Message) {
	n.disk.do(func() {
		switch o := m.Body.(type) {
		case control.Survey:
			if s := n.server(m.Start); s != nil {
				s.Survey(o.Ours)
			}
			n.answer(o.Order, nil)
		case control.Prepare:
			n.answer(o.Order, n.prepare(m.Start, o))
		case control.Seal:
			n.seal(m.Start, o)
		case control.Commit:
			if r := n.leading(); r != nil && o.Stream == Written {
				r.coded(o.Checkpoint)
			}
			n.answer(o.Order, n.of(o.Stream).Commit(o.Checkpoint, &o.Record))
		case control.Discard:
			if r := n.leading(); r != nil && o.Stream == Written {
				r.discarded(o.Checkpoint)
			}
			n.answer(o.Order, n.of(o.Stream).Abort(o.Checkpoint))
		case control.Drop:
			n.answer(o.Order, n.drop(o))
		}
	})
}

// prepare makes ready for the images of a checkpoint.
func (n *Node) prepare(number uint64, o control.Prepare) error {
	if o.Stream != 0 {
		n.cfg.Faults.Hit(faults.WrittenOpen)
		_, err := n.of(o.Stream).Prepare(o.Checkpoint)
		if err == nil {
			n.of(o.Stream).Spares().ReuseMembers(o.Checkpoint, o.Members)
		}
		return err
	}
	err := n.checkRoom(number, o)
	if err == nil {
		_, err = n.of(0).Prepare(o.Checkpoint)
	}
	if s := n.server(number); err == nil && s != nil && n.cached() {
		n.of(0).Spares().ReuseImages(o.Checkpoint, s.cfg.Ranks)
	}
	return err
}

// of are the datasets that the store has of one of the job's streams.
func (n *cache) of(s holding.Stream) *dataset.Datasets { return n.store.Of(s) }

// drop removes a committed dataset. In a cache the next checkpoint takes the place of one that the present start has written: its
// files are the same.
func (n *Node) drop(o control.Drop) error {
	store, checkpoint := n.of(o.Stream), o.Checkpoint
	if r := n.leading(); r != nil && o.Stream == Written {
		r.dropped(checkpoint)
	}
	switch {
	case o.Keep:
		return store.Spares().Keep(checkpoint)
	case o.Stream != 0:
		return store.Drop(checkpoint)
	}
	n.mu.Lock()
	present := n.number
	n.mu.Unlock()
	if m, err := dataset.ReadManifest(store.Path(checkpoint)); err == nil && n.cached() && m.Start == present {
		return store.Spares().Keep(checkpoint)
	}
	return store.Drop(checkpoint)
}

// release removes what was kept to be written over. What stays is removed with the job.
func (n *cache) release() {
	if n.cached() {
		_ = n.of(0).Spares().Drop()
		_ = n.of(Written).Spares().Drop()
	}
}

// cached says whether the node writes to a cache of its own.
func (n *cache) cached() bool { return n.cfg.Flush != nil }

func (n *Node) seal(number uint64, o control.Seal) {
	p, err := n.of(o.Stream).Seal(context.Background(), o.Checkpoint, o.Kind, o.Ranks)
	if o.Stream != 0 {
		n.cfg.Faults.Hit(faults.WrittenSealed)
	}
	n.sealed(number, o.Order, p, err)
}

// sealed answers with a part, or why there is none.
func (n *Node) sealed(number, order uint64, p *dataset.Part, err error) {
	if err != nil {
		n.answer(order, err)
		return
	}
	n.say(control.Message{Start: number, Body: control.Sealed{Order: order, Part: *p}})
}

// family are the ranks of that start which this agent has started itself, nil: there are none.
func (n *Node) family(number uint64) *family {
	s := n.server(number)
	if s == nil {
		return nil
	}
	return s.started.ranks()
}

// kill ends the ranks of this node. Those that have not come to the agent yet are asked by a signal.
func (s *Server) kill(ask bool) {
	all := s.places.tell() == len(s.cfg.Ranks)
	if !ask {
		s.Signal(syscall.SIGKILL)
		s.started.signal(syscall.SIGKILL)
		return
	}
	if !all {
		s.started.signal(syscall.SIGTERM)
	}
	for _, rank := range s.cfg.Ranks {
		s.Send(rank, abi.Message{Header: abi.Header{Type: abi.MsgEnd}})
	}
	s.places.endAside()
}
