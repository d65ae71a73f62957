package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/settings"
	"github.com/byssus-hpc/byssus/internal/host/rundir"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/files"
	"github.com/byssus-hpc/byssus/internal/store/part"
	"github.com/byssus-hpc/byssus/internal/store/settingsfile"
	"github.com/byssus-hpc/byssus/internal/wire/client"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// Written is the stream of the datasets that programs write themselves.
const Written holding.Stream = 1

// ClientVariable tells programs where their agent hears them.
const ClientVariable = "BYSSUS_CLIENTS"

// clientSockets are where programs of a node may connect that hand files to be kept, best first. On most clusters the path is the same on
// all nodes then: launchers of others carry the environment of the first node to all.
func clientSockets(job [16]byte, runDir string) []string {
	name := fmt.Sprintf("clients-%x", job[:4])
	var list []string
	for _, base := range rundir.Bases() {
		list = append(list, filepath.Join(base, name))
	}
	return append(list, filepath.Join(runDir, name))
}

// clients are programs of this node that hand files to be kept. What the coordinator decides it is asked; where files are is answered here.
//
// It guarantees that only processes of the same user are heard; that each request is answered once, also when the agent leaves; and that a
// program which does not read blocks nobody else. Its lock protects what follows it.
type clients struct {
	listener *net.UnixListener
	wg       sync.WaitGroup
	say      func(control.Message)
	faults   *faults.Set
	find     func(client.Request) client.Answered // where a rank's files of a dataset are

	mu      sync.Mutex
	closed  bool
	last    uint64                          // number of a question
	waiting map[uint64]chan client.Answered // for the answer to it
	ranks   []*process                      // that have joined
	paths   map[writer][]string             // that ranks have written in place
}

// writer is a rank that has written files of a dataset.
type writer struct {
	run, dataset uint64
	rank         int
}

var errLeaving = errors.New("the agent leaves")

// listenToClients begins to hear programs, at the first of these paths at which nobody else does.
func listenToClients(paths []string, say func(control.Message), find func(client.Request) client.Answered, f *faults.Set) (*clients, error) {
	var l *net.UnixListener
	var errs []error
	for i := 0; i < len(paths) && l == nil; i++ {
		var err error
		if l, err = listenAt(paths[i]); err != nil {
			errs = append(errs, err)
		}
	}
	if l == nil {
		return nil, fmt.Errorf("agent: socket for programs: %w", errors.Join(errs...))
	}
	c := &clients{faults: f, listener: l, say: say, find: find, waiting: map[uint64]chan client.Answered{}, paths: map[writer][]string{}}
	c.wg.Go(c.serve)
	return c, nil
}

// listenAt listens at a path, where an agent that was killed may have left its socket.
func listenAt(path string) (*net.UnixListener, error) {
	if len(path) > MaxSocketPath {
		return nil, fmt.Errorf("%s: path of %d bytes, at most %d", path, len(path), MaxSocketPath)
	}
	if err := rundir.Make(filepath.Dir(path)); err != nil {
		return nil, err
	}
	at := &net.UnixAddr{Name: path, Net: "unixpacket"}
	l, err := net.ListenUnix(at.Net, at)
	if errors.Is(err, syscall.EADDRINUSE) {
		c, derr := net.DialUnix(at.Net, nil, at)
		if derr == nil {
			c.Close() // another agent of the job on this machine
			return nil, err
		}
		if os.Remove(path) == nil {
			l, err = net.ListenUnix(at.Net, at)
		}
	}
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	return l, err
}

// path is where programs are heard.
func (c *clients) path() string { return c.listener.Addr().String() }

// close ends all conversations.
func (c *clients) close() {
	c.mu.Lock()
	c.closed = true
	for _, answer := range c.waiting {
		answer <- client.Refusal(errLeaving.Error())
	}
	clear(c.waiting)
	for _, p := range c.ranks {
		p.close()
	}
	c.mu.Unlock()
	path := c.path()
	c.listener.Close()
	c.wg.Wait()
	removeSocket(path)
}

// removeSocket removes what is left of a socket for programs, and its directory if nothing else is in it: it may have been made for it.
func removeSocket(path string) {
	if path == "" {
		return
	}
	_ = os.Remove(path) // mostly it is gone
	_ = os.Remove(filepath.Dir(path))
}

func (c *clients) serve() {
	eachConnection(c.listener, func(conn *net.UnixConn) {
		c.wg.Go(func() {
			defer conn.Close()
			if pid, err := peer(conn); err == nil {
				c.converse(conn, pid)
			}
		})
	})
}

// saidWithin is how long a program may take to say what it has connected for.
const saidWithin = 30 * time.Second

// shortPacket fits into every socket's buffer.
const shortPacket = 1024

// converse hears one request, and answers it.
func (c *clients) converse(conn *net.UnixConn, pid int) {
	_ = conn.SetReadDeadline(time.Now().Add(saidWithin))
	asks, err := hearClient(conn)
	if err != nil {
		_, _ = conn.Write(client.Refusal(err.Error()).Packet())
		return
	}
	answer := c.answerAll(asks, pid)
	if ask := asks[0]; ask.Type == client.ReqJoin && answer.Refused == 0 {
		c.joined(pid, control.RankLeft{Run: ask.Run, Rank: int(ask.Rank)})
	}
	list := answer.Packets()
	if len(list) > 1 || len(list[0]) > shortPacket {
		_ = conn.SetWriteBuffer(2 * client.MaxPacket)
	}
	for _, packet := range list {
		if _, err := conn.Write(packet); err != nil {
			return // who asked has gone
		}
	}
}

// packets are buffers of one packet each: making one for each request would keep the garbage collector busy.
var packets = sync.Pool{New: func() any { return new([client.MaxPacket]byte) }}

// hearClient reads a request, with the text of all its messages; several, if one rank speaks for others of its node.
func hearClient(conn *net.UnixConn) ([]*client.Asked, error) {
	packet := packets.Get().(*[client.MaxPacket]byte)
	defer packets.Put(packet)
	buf := packet[:]
	var text []string
	var all []*client.Asked
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, fmt.Errorf("agent: request: %w", err)
		}
		ask, err := client.Parse(buf[:n])
		if err != nil {
			return nil, err
		}
		text = append(text, ask.Text...)
		if ask.Flags&client.FlagMore != 0 {
			continue
		}
		ask.Text, text = text, nil
		all = append(all, ask)
		switch more := ask.Flags&client.FlagNext != 0; {
		case (more || len(all) > 1) && ask.Type != client.ReqWritten:
			return nil, fmt.Errorf("agent: request %d of several: found type %d, wanted %d", len(all), ask.Type, client.ReqWritten)
		case !more:
			return all, nil
		}
	}
}

// answerAll is what the requests of one conversation are answered with: a refusal, if one of them is refused.
func (c *clients) answerAll(asks []*client.Asked, pid int) (answer client.Answered) {
	switch asks[0].Type {
	case client.ReqWritten:
	case client.ReqEnter, client.ReqSpare:
		return c.enter(asks[0], pid)
	default:
		return c.answer(asks[0])
	}
	var all []<-chan client.Answered
	for _, ask := range asks {
		c.faults.Hit(faults.WrittenSaid)
		c.keep(ask)
		ask.Text = nil // the coordinator has no use for it
		_, one := c.begin(control.Asked{Asked: *ask})
		all = append(all, one)
	}
	for _, one := range all {
		if a := <-one; answer.Refused == 0 {
			answer = a
		}
	}
	return answer
}

// answer is what another request is answered with.
func (c *clients) answer(ask *client.Asked) client.Answered {
	switch ask.Type {
	case client.ReqFetch:
		return c.find(ask.Request)
	case client.ReqBegin, client.ReqConfig:
		return c.askSettled(ask)
	}
	return c.ask(control.Asked{Asked: *ask})
}

// askSettled asks with the settings of a program, of which files are on its node.
func (c *clients) askSettled(ask *client.Asked) client.Answered {
	q, err := settings.ParseRequest(ask.Text)
	if err != nil {
		return client.Refusal(err.Error())
	}
	src, err := settingsfile.Read(q.Dir, q.Environ, q.App)
	if err != nil {
		return client.Refusal(err.Error())
	}
	src.Variables = nil // this agent's: other nodes may have others
	ask.Text = nil
	return c.ask(control.Asked{Asked: *ask, Settings: &src, Question: q.Question})
}

// ask asks the coordinator, and waits for its answer.
func (c *clients) ask(m control.Asked) client.Answered {
	_, answer := c.begin(m)
	return <-answer
}

// enter asks for a member that begins, or a spare, whose process is watched from then on: it may end while it waits.
func (c *clients) enter(ask *client.Asked, pid int) client.Answered {
	number, answer := c.begin(control.Asked{Asked: *ask, Process: pid})
	if number != 0 {
		c.joined(pid, control.RankLeft{Rank: int(ask.Rank), Number: number})
	}
	return <-answer
}

// begin asks the coordinator, by a number, 0: it is refused; the answer comes later.
func (c *clients) begin(m control.Asked) (uint64, <-chan client.Answered) {
	answer := make(chan client.Answered, 1)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		answer <- client.Refusal(errLeaving.Error())
		return 0, answer
	}
	c.last++
	m.Number = c.last
	c.waiting[m.Number] = answer
	c.mu.Unlock()
	c.say(control.Message{Body: m})
	return m.Number, answer
}

// joined says when the process of a rank ends.
func (c *clients) joined(pid int, end control.RankLeft) {
	left := control.Message{Body: end}
	p, err := openProcess(pid)
	if err != nil { // it has ended, or nothing can be told
		c.say(left)
		return
	}
	c.mu.Lock()
	c.ranks = append(c.ranks, p)
	c.mu.Unlock()
	c.wg.Go(func() {
		<-p.over
		if p.gone {
			p.close()
			c.mu.Lock()
			c.ranks = slices.DeleteFunc(c.ranks, func(other *process) bool { return other == p })
			c.mu.Unlock()
			c.say(left)
		}
	})
}

// told takes in the coordinator's answer.
func (c *clients) told(m control.Told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer := c.waiting[m.Number]; answer != nil {
		answer <- m.Answered
		delete(c.waiting, m.Number)
	}
}

// keep remembers which files a rank has written in place, until they are sealed; of earlier datasets nobody asks any more.
func (c *clients) keep(ask *client.Asked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.paths {
		if w.rank == int(ask.Rank) && (w.run != ask.Run || w.dataset+2 < ask.Dataset) {
			delete(c.paths, w)
		}
	}
	c.paths[writer{ask.Run, ask.Dataset, int(ask.Rank)}] = ask.Text
}

// take returns the files that a rank has written in place; false: it has not said so here.
func (c *clients) take(w writer) ([]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, ok := c.paths[w]
	delete(c.paths, w)
	return list, ok
}

// sealInPlace makes the indexes of files that ranks of this node have written below the prefix.
func (n *Node) sealInPlace(ctx context.Context, o control.SealInPlace) (*dataset.Part, error) {
	all := n.shared().Of(o.Stream)
	var found []*files.Index
	for _, rank := range o.Ranks {
		paths, ok := n.clients.take(writer{o.Run, o.Checkpoint, rank})
		if !ok {
			return nil, fmt.Errorf("agent: dataset %d: rank %d has not said here which files it has written", o.Checkpoint, rank)
		}
		x, err := files.MakeInPlace(ctx, all.Path(o.Checkpoint)+".tmp", o.Prefix, rank, paths, all.Meta.Fsync, func(int64) {})
		if err != nil {
			return nil, fmt.Errorf("agent: dataset %d: %w", o.Checkpoint, err)
		}
		found = append(found, x)
	}
	p := dataset.FilesPart(found...)
	return p, all.SyncPart(o.Checkpoint, p)
}

// shared is the job in the store that all nodes see.
func (n *cache) shared() *dataset.Job {
	if n.cached() {
		return n.cfg.Flush
	}
	return n.store
}

// name answers with the path of a file that a rank has written.
func (n *cache) name(o control.Name) control.Done {
	x, err := files.Open(n.of(o.Stream).Path(o.Checkpoint)+".tmp", o.Rank)
	if err != nil {
		return control.Done{Order: o.Order, Text: "a file", Err: err.Error()}
	}
	for i := range x.Files {
		if x.Files[i].Hash() == o.Hash {
			return control.Done{Order: o.Order, Text: x.Files[i].Path}
		}
	}
	return control.Done{Order: o.Order, Text: "a file"}
}

// compare looks whether the parts of ranks in the store that all nodes see are as they were written.
func (n *cache) compare(ctx context.Context, o control.Compare) error {
	dir := n.shared().Of(o.Stream).Path(o.Checkpoint)
	m, err := dataset.ReadManifest(dir)
	if err != nil {
		return err
	}
	all, err := m.Parts()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(f holding.File) bool { return !slices.Contains(o.Ranks, f.Rank) })
	found, err := part.Verify(ctx, dir, all, func(int64) {})
	if err == nil && len(found) > 0 {
		err = errors.New(found[0].Why)
	}
	return err
}

// findFiles says where a rank's files of a dataset are: in the cache, or in the prefix.
func (n *cache) findFiles(r client.Request) client.Answered {
	job := n.of(Written)
	if r.Flags&client.FlagBypass != 0 {
		job = n.shared().Of(Written)
	}
	dir, rank := job.Path(r.Dataset), int(r.Rank)
	m, err := dataset.ReadManifest(dir)
	if err != nil {
		return client.Refusal(err.Error())
	}
	top := filepath.Join(dir, files.ContentName(rank))
	if prefix, ok := files.InPlace(dir); ok {
		top = prefix
	}
	answer := client.Answered{Answer: client.Answer{Flags: r.Flags & client.FlagBypass, Dataset: r.Dataset, Valid: uint32(m.Ranks)}, Text: []string{top}}
	if rank >= m.Ranks {
		return answer // more ranks than have written it
	}
	x, err := files.Open(dir, rank)
	if err != nil {
		return client.Refusal(err.Error())
	}
	for _, f := range x.Files {
		answer.Text = append(answer.Text, f.Path)
	}
	return answer
}
