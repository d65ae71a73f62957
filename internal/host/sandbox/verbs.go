package sandbox

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// The verbs, as the hub performs them. The node's mutex is held, its state fits.

// An order is what the hub tells a node's first process.
type order struct {
	Verb string `json:"verb"` // run, listen: serve the connection that comes with it; disk-full
	Path string `json:"path,omitempty"`
	Off  bool   `json:"off,omitempty"`
}

// handOver gives the caller's connection to the node.
func (n *node) handOver(r request, c *net.UnixConn) (string, error) {
	f, err := c.File()
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := frames.Send(n.orders, order{Verb: r.Verb}, f); err != nil {
		return "", died(err)
	}
	return "", nil
}

func (n *node) kill(request, *net.UnixConn) (string, error) { return "", n.end(DeadKill) }

func (n *node) crash(request, *net.UnixConn) (string, error) {
	if err := n.hub.network.unplug(n.Node); err != nil {
		return "", err // it lives
	}
	return "", n.end(DeadCrash)
}

func (n *node) start(request, *net.UnixConn) (string, error) {
	if err := n.boot(); err != nil {
		return "", err
	}
	return "", n.hub.network.meet(n.Node)
}

func (n *node) freeze(request, *net.UnixConn) (string, error) {
	dir := n.cgroup()
	if dir == "" {
		if err := stopAll(n.child.pid); err != nil {
			return "", errors.Join(err, continueAll(n.child.pid))
		}
		n.stopped, n.State = true, Frozen
		return "frozen by SIGSTOP, process by process: no cgroup could be made", nil
	}
	if err := freeze(dir, true); err != nil {
		return "", errors.Join(err, freeze(dir, false))
	}
	n.State = Frozen
	return "frozen by its cgroup", nil
}

func (n *node) thaw(request, *net.UnixConn) (string, error) {
	var err error
	if n.stopped {
		err = continueAll(n.child.pid)
	} else {
		err = freeze(n.cgroup(), false)
	}
	if err != nil {
		return "", err
	}
	n.stopped = false
	n.settle()
	return "", nil
}

// settle works out the state of a node that lives and is not frozen.
func (n *node) settle() {
	if n.State = Up; n.Cut {
		n.State = Cut
	}
}

func (n *node) cut(request, *net.UnixConn) (string, error)  { return "", n.link(false) }
func (n *node) heal(request, *net.UnixConn) (string, error) { return "", n.link(true) }

func (n *node) link(up bool) error {
	if err := n.hub.network.set(n.Node, up); err != nil {
		return err
	}
	if n.Cut = !up; n.State != Frozen {
		n.settle()
	}
	if up {
		return n.hub.network.meet(n.Node)
	}
	return nil
}

func (n *node) cap(r request, _ *net.UnixConn) (string, error) {
	if err := n.hub.network.cap(n.Node, n.child.pid, r.Rate); err != nil {
		return "", err
	}
	n.Rate = r.Rate
	return "", nil
}

func (n *node) drop(r request, _ *net.UnixConn) (string, error) {
	if !(r.Percent >= 0 && r.Percent <= 100) {
		return "", fmt.Errorf("%g percent, wanted 0 to 100: %w", r.Percent, ErrOption)
	}
	if err := n.hub.network.drop(n.Node, n.child.pid, r.Percent); err != nil {
		return "", err
	}
	n.Drop = r.Percent
	return "", nil
}

func (n *node) disk(r request, _ *net.UnixConn) (string, error) {
	if r.Path == "" {
		r.Path = Cache
	}
	if err := frames.Send(n.orders, order{Verb: "disk-full", Path: r.Path, Off: r.Off}); err != nil {
		return "", died(err)
	}
	answer, err := n.reply()
	return answer.Note, err
}

// layout is what a node's first process is to arrange.
func (h *hub) layout(n Node) layout {
	l := layout{Name: n.Name, UID: unix.Getuid(), Disk: h.cfg.Options.Disk, Cover: h.cfg.Cover, Visible: h.cfg.Options.Visible,
		Hosts: hosts(h.cfg.Nodes), Shared: append([]string{h.cfg.Options.Prefix}, h.cfg.Options.Binds...)}
	return l
}
