package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// A hub is the first process of a sandbox.
type hub struct {
	place    *place
	cfg      config
	children children
	network  *network
	nodes    []*node
}

// A node is a node as the hub has it. What is embedded is what others are told.
type node struct {
	hub *hub
	mu  sync.Mutex
	Node
	child   child
	orders  *net.UnixConn // to its first process
	stopped bool          // frozen by SIGSTOP
}

// runHub is the hub's life. It does not return while the sandbox is there, whose directory is its way to it: when that is
// gone, as the runtime directory of a user is when the last session ends, nobody could end it any more.
func runHub(p *place) error {
	h := &hub{place: p}
	h.children.reapAlways()
	creator, err := frames.Conn(control())
	if err != nil {
		return h.abandon(err)
	}
	if _, err := frames.Receive(creator, &h.cfg); err != nil {
		return h.abandon(err)
	}
	for _, n := range h.cfg.Nodes {
		n.State = DeadKill // until it is up
		h.nodes = append(h.nodes, &node{hub: h, Node: n})
	}
	over := make(chan error, 1)
	go func() { // whatever happens to the creator meanwhile
		_, err := frames.Receive(creator, &keep{})
		creator.Close()
		over <- err
	}()
	opened := make(chan *net.UnixListener, 1)
	go func() {
		listener, err := h.open()
		_ = frames.Send(creator, failed(err)) // whom it does not reach is over
		opened <- listener
	}()
	if err := <-over; err != nil {
		return h.abandon(fmt.Errorf("the creator is gone: %w", err))
	}
	listener := <-opened // a creator that was told of a failure does not keep us
	go h.serve(listener)
	return h.abandon(h.place.awaitRemoval())
}

// abandon ends all processes and removes what there is of a sandbox that will not be complete. It does so between the
// births of nodes, and lets no more be born: the mutexes stay locked.
func (h *hub) abandon(err error) error {
	for _, n := range h.nodes {
		n.mu.Lock()
	}
	_ = unix.Kill(-1, unix.SIGKILL) // all but us; there may be none
	r := h.cfg.Record
	if r.Name == "" { // we were told nothing
		r, _ = h.place.read() // none written: there are no cgroups
	}
	return errors.Join(err, h.place.remove(r))
}

// open makes the sandbox.
func (h *hub) open() (*net.UnixListener, error) {
	err := unix.Sethostname([]byte(h.cfg.Record.Name))
	if err != nil {
		return nil, fmt.Errorf("hostname: %w", err)
	}
	if err = mountProc(); err != nil {
		return nil, err
	}
	if h.network, err = newNetwork(); err != nil {
		return nil, err
	}
	failures := make([]error, len(h.nodes))
	var all sync.WaitGroup
	for i, n := range h.nodes {
		all.Go(func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			failures[i] = n.boot()
		})
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: h.place.socket(), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return l, nil
}

// serve answers until the end.
func (h *hub) serve(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil { // out of descriptors or memory: later there may be some
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer c.Close()
			h.answer(c)
		}()
	}
}

// answer performs one verb.
func (h *hub) answer(c *net.UnixConn) {
	var r request
	cred, err := peer(c)
	if err == nil && int(cred.Uid) != os.Getuid() {
		err = fmt.Errorf("caller of uid %d, wanted %d", cred.Uid, os.Getuid())
	}
	if err == nil {
		_ = c.SetReadDeadline(time.Now().Add(hang)) // of a socket it never fails
		_, err = frames.Receive(c, &r)
	}
	if err != nil {
		_ = frames.Send(c, failed(err)) // whom it did not reach has gone
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	if r.Verb == "ps" {
		_ = frames.Send(c, reply{Nodes: h.list()})
		return
	}
	note, err := h.perform(r, c)
	if (r.Verb == "run" || r.Verb == "listen") && err == nil {
		return // the node answers
	}
	answer := failed(err)
	answer.Note = note
	_ = frames.Send(c, answer)
}

func (h *hub) list() []Node {
	var list []Node
	for _, n := range h.nodes {
		n.mu.Lock()
		list = append(list, n.Node)
		n.mu.Unlock()
	}
	return list
}

// A verb is what can be done with a node, and in which states. It returns what is to be said about how it was done.
type verb struct {
	do    func(n *node, r request, c *net.UnixConn) (string, error)
	while func(s State) bool
}

func alive(s State) bool   { return !s.Dead() }
func running(s State) bool { return !s.Dead() && s != Frozen }

// verbs are all verbs but ps. To add one: a line here, a method of Cluster, a verb of the command line, a script.
func verbs() map[string]verb {
	return map[string]verb{
		"run":       {(*node).handOver, running},
		"listen":    {(*node).handOver, running},
		"kill":      {(*node).kill, alive},
		"crash":     {(*node).crash, alive},
		"start":     {(*node).start, State.Dead},
		"freeze":    {(*node).freeze, running},
		"thaw":      {(*node).thaw, func(s State) bool { return s == Frozen }},
		"cut":       {(*node).cut, alive},
		"heal":      {(*node).heal, alive},
		"cap":       {(*node).cap, alive},
		"drop":      {(*node).drop, alive},
		"disk-full": {(*node).disk, running},
	}
}

// perform finds node and verb, and has it done when the node's state allows it.
func (h *hub) perform(r request, c *net.UnixConn) (string, error) {
	v, ok := verbs()[r.Verb]
	if !ok {
		return "", fmt.Errorf("no such verb: %w", ErrOption)
	}
	for _, n := range h.nodes {
		if n.Name != r.Node {
			continue
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if !v.while(n.State) {
			return "", fmt.Errorf("%w: it is %s", ErrState, n.State)
		}
		return v.do(n, r, c)
	}
	return "", ErrNode
}

// cgroup is the directory of a node's cgroup; empty: it has none.
func (n *node) cgroup() string {
	if n.hub.cfg.Record.Cgroup == "" {
		return ""
	}
	return filepath.Join(n.hub.cfg.Record.Cgroup, n.Name)
}

// boot brings a node up. After an error it is dead.
func (n *node) boot() error {
	if err := n.hub.network.unplug(n.Node); err != nil { // of an earlier life
		return err
	}
	orders, theirs, err := frames.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	if n.child, err = n.spawn(theirs); err != nil {
		orders.Close()
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	n.orders = orders
	if limits := n.hub.cfg.Record.Limits; limits != "" {
		err = limitMemory(filepath.Join(limits, n.Name), n.child.pid, n.hub.cfg.Options.Memory)
	}
	if err == nil {
		err = frames.Send(orders, n.hub.layout(n.Node))
	}
	if err == nil {
		err = n.hub.network.plug(n.Node, n.child.pid)
	}
	if err == nil {
		_, err = n.reply()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", n.Name, err), n.end(DeadKill))
	}
	n.State = Up
	go n.watch(n.child)
	return nil
}

// spawn starts the first process of a node, on its processors and in its cgroup.
func (n *node) spawn(control *os.File) (child, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return child{}, err
	}
	defer null.Close()
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{}, Files: []uintptr{null.Fd(), 1, 2, control.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID | unix.CLONE_NEWNET}}
	if n.hub.cfg.UserNS {
		attr.Sys.AmbientCaps = hubCapabilities()
	}
	if dir := n.cgroup(); dir != "" {
		limit := n.hub.cfg.Options.Memory
		if n.hub.cfg.Record.Limits != "" {
			limit = 0 // it is there
		}
		cgroup, err := makeNodeCgroup(dir, limit)
		if err != nil {
			return child{}, err
		}
		defer cgroup.Close()
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(cgroup.Fd())
	}
	c, err := n.hub.children.start("/proc/self/exe", []string{"byssus", initVerb, "node", n.Name}, attr, n.CPUs)
	if err != nil {
		return c, fmt.Errorf("start: %w", err)
	}
	return c, nil
}

// reply waits for what a node's first process has to say.
func (n *node) reply() (reply, error) {
	var r reply
	_ = n.orders.SetReadDeadline(time.Now().Add(hang)) // of a socket it never fails
	if _, err := frames.Receive(n.orders, &r); err != nil {
		return r, died(err)
	}
	return r, r.err()
}

// end kills what there is of a node, and waits until it is gone.
func (n *node) end(as State) error {
	err := n.hub.children.signal(n.child, unix.SIGKILL, false)
	if errors.Is(err, unix.ESRCH) { // it was quicker
		err = nil
	}
	if err == nil {
		<-n.child.ended
	}
	n.bury(as)
	return err
}

// bury forgets what a node that is gone had.
func (n *node) bury(as State) {
	n.orders.Close()
	n.hub.network.left(n.Node)
	n.State, n.stopped = as, false
	n.Cut, n.Rate, n.Drop = false, 0, 0 // the link goes with it
}

// watch notices when a node's first process is killed by others.
func (n *node) watch(c child) {
	<-c.ended
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.child == c && !n.State.Dead() {
		n.bury(DeadKill)
	}
}
