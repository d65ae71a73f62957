package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// A Cluster is a sandbox that somebody has made, maybe we. It has no state of its own and may be used by several
// goroutines.
type Cluster struct {
	Name   string
	Prefix string // the shared directory, the same path inside and outside
	place  *place
}

// A Summary is what is to be known of a sandbox as a whole.
type Summary struct {
	Name    string    `json:"name"`
	State   string    `json:"state"` // running, starting, or dead: its first process was killed
	Nodes   int       `json:"nodes"`
	Spares  int       `json:"spares"`
	Prefix  string    `json:"prefix"`
	Dir     string    `json:"dir"`
	Created time.Time `json:"created"`
}

// List finds the sandboxes of this user.
func List() ([]Summary, error) {
	var list []Summary
	var failures []error
	for _, base := range bases() {
		entries, err := os.ReadDir(base)
		failures = append(failures, err)
		for _, e := range entries {
			if CheckName(e.Name()) != nil {
				continue
			}
			p := &place{dir: filepath.Join(base, e.Name())}
			r, err := p.look()
			switch {
			case errors.Is(err, ErrNone):
			case err != nil:
				failures = append(failures, err)
			default:
				list = append(list, Summary{Name: e.Name(), State: p.state(r), Nodes: r.Nodes, Spares: r.Spares, Prefix: r.Prefix, Dir: p.dir, Created: r.Created})
			}
		}
	}
	slices.SortFunc(list, func(a, b Summary) int { return strings.Compare(a.Name, b.Name) })
	return list, errors.Join(failures...)
}

// state is what List says of a sandbox.
func (p *place) state(r record) string {
	if !r.Ready {
		return "starting"
	}
	c, err := p.dial()
	if err != nil {
		return "dead"
	}
	c.Close()
	return "running"
}

// Open finds a sandbox that is running.
func Open(name string) (*Cluster, error) {
	p, r, err := find(name)
	if err != nil {
		return nil, err
	}
	switch state := p.state(r); state {
	case "running":
		return &Cluster{Name: name, Prefix: r.Prefix, place: p}, nil
	case "starting":
		return nil, fmt.Errorf("sandbox: sandbox %s: %w yet, it is just being made", name, ErrNotRunning)
	default:
		return nil, fmt.Errorf("sandbox: sandbox %s: %w: its first process was killed; what is in %s stays until it is destroyed", name, ErrNotRunning, r.Prefix)
	}
}

// dial connects to the hub.
func (p *place) dial() (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: p.socket(), Net: "unix"})
}

// ask has a verb performed.
func (c *Cluster) ask(r request) (reply, error) {
	var answer reply
	conn, err := c.place.dial()
	if err != nil {
		return answer, fmt.Errorf("sandbox: sandbox %s: %w: %w", c.Name, ErrNotRunning, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * hang)) // of a socket it never fails
	if err = frames.Send(conn, r); err == nil {
		_, err = frames.Receive(conn, &answer)
	}
	if err == nil {
		err = answer.err()
	}
	if err != nil {
		err = fmt.Errorf("sandbox: %s: %w", strings.TrimSpace(r.Verb+" "+r.Node), err)
	}
	return answer, err
}

func (c *Cluster) do(r request) error {
	_, err := c.ask(r)
	return err
}

// Nodes tells of all nodes, the login node last.
func (c *Cluster) Nodes() ([]Node, error) {
	answer, err := c.ask(request{Verb: "ps"})
	return answer.Nodes, err
}

// Kill ends all processes of a node. Its connections are closed as the kernel does it: peers get FIN or RST.
func (c *Cluster) Kill(node string) error { return c.do(request{Verb: "kill", Node: node}) }

// Crash makes a node fall silent and then ends its processes: peers hear nothing.
func (c *Cluster) Crash(node string) error { return c.do(request{Verb: "crash", Node: node}) }

// Boot brings a dead node back, with nothing of what it had: empty directories, and a link as at first.
func (c *Cluster) Boot(node string) error { return c.do(request{Verb: "start", Node: node}) }

// Freeze stops all processes of a node, and tells how: at once by its cgroup, or one after the other by SIGSTOP, which
// parents on the node can see.
func (c *Cluster) Freeze(node string) (how string, err error) {
	answer, err := c.ask(request{Verb: "freeze", Node: node})
	return answer.Note, err
}

// Thaw lets a frozen node go on.
func (c *Cluster) Thaw(node string) error { return c.do(request{Verb: "thaw", Node: node}) }

// Cut takes the link of a node down: it lives, and hears and reaches nobody.
func (c *Cluster) Cut(node string) error { return c.do(request{Verb: "cut", Node: node}) }

// Heal takes the link of a node up again.
func (c *Cluster) Heal(node string) error { return c.do(request{Verb: "heal", Node: node}) }

// Cap limits the link of a node to so many bytes a second each way; 0: no limit.
func (c *Cluster) Cap(node string, rate uint64) error {
	return c.do(request{Verb: "cap", Node: node, Rate: rate})
}

// Drop makes the link of a node lose so many percent of the packets each way; 0: none.
func (c *Cluster) Drop(node string, percent float64) error {
	return c.do(request{Verb: "drop", Node: node, Percent: percent})
}

// FillDisk leaves no room in the directory of a node's own in which path lies, and tells which that is.
func (c *Cluster) FillDisk(node, path string) (dir string, err error) {
	answer, err := c.ask(request{Verb: "disk-full", Node: node, Path: path})
	return answer.Note, err
}

// FreeDisk gives a directory that was filled its size back.
func (c *Cluster) FreeDisk(node, path string) error {
	return c.do(request{Verb: "disk-full", Node: node, Path: path, Off: true})
}

// Destroy ends a sandbox, running or not, and removes all that there is of it.
func Destroy(name string) error {
	p, r, err := find(name)
	if err != nil {
		return err
	}
	if conn, err := p.dial(); err == nil {
		err := p.endHub(conn)
		conn.Close()
		if err != nil {
			return fmt.Errorf("sandbox: destroy %s: %w", name, err)
		}
	}
	return held(filepath.Dir(p.dir), func() error {
		err := p.acquire()
		if errors.Is(err, unix.EAGAIN) && r.Ready {
			err = p.await()
		}
		switch {
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("sandbox: destroy %s: it is just being made: %w", name, ErrState)
		case errors.Is(err, unix.ENOENT): // another one was quicker
			return fmt.Errorf("sandbox: sandbox %s: %w", name, ErrNone)
		case err != nil:
			return err
		}
		defer p.release()
		return p.remove(r)
	})
}

// Destroy ends the sandbox and removes all that there is of it.
func (c *Cluster) Destroy() error { return Destroy(c.Name) }

// endHub kills the hub at the other end of a connection, and with it everything, and waits until it is gone.
func (p *place) endHub(conn *net.UnixConn) error {
	cred, err := peer(conn)
	if err != nil {
		return err
	}
	if int(cred.Uid) != os.Geteuid() || cred.Pid <= 0 {
		return fmt.Errorf("the hub is pid %d of uid %d, wanted one of uid %d that is to be seen from here", cred.Pid, cred.Uid, os.Geteuid())
	}
	pidfd, err := unix.PidfdOpen(int(cred.Pid), 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hub: pid %d: %w", cred.Pid, err)
	}
	defer unix.Close(pidfd)
	err = held(filepath.Dir(p.dir), func() error { // nobody who destroys it takes our look at the lock for its creator
		err := p.acquire()
		p.release()
		return err
	})
	switch { // who has the lock still is the process that has this number
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT): // another one was quicker
		return nil
	case !errors.Is(err, unix.EAGAIN):
		return err
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("hub: pid %d: %w", cred.Pid, err)
	}
	return awaitExit(pidfd, time.Now().Add(hang))
}

// awaitExit waits until a process has ended.
func awaitExit(pidfd int, deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("it does not end: %w", os.ErrDeadlineExceeded)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return err
		}
		if n == 1 {
			return nil
		}
	}
}
