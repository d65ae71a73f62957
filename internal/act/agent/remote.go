package agent

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/host/rundir"
	"github.com/byssus-hpc/byssus/internal/host/spawn"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/wire/bulk"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// Brief is what the agent of another node is told on its standard input: one line of JSON, which nobody else reads. What
// follows there is for rank 0.
type Brief struct {
	Byssus      string   // version
	Coordinator []string // addresses, tried in turn
	Identity    control.Identity
	Job         dataset.Meta
	Dir         string           // of the job in the store
	Cache       string           // of this node, in which it writes; empty: in the store
	Term        uint64           // of the job
	RunDir      string           // that is made on this node, for sockets; elsewhere when it cannot be made there
	Node        string           // the name of this one
	Rank        string           // the program byssus-rank
	App         string           // the program that it starts, as the user has named it; empty: none, ranks go on from a checkpoint
	Path        string           // in which that is looked for, as PATH
	Fault       string           // value of BYSSUS_FAULT
	Patience    control.Patience // for how long either side may be silent
	Scavenge    time.Duration    // after which what is in the cache is copied to the store when the coordinator is gone; 0: never
}

// longestBrief bounds what is read before anything is proved.
const longestBrief = 1 << 20

// ReadBrief reads the line, and no byte more. What a byssus of another version than this one has written is not understood.
func ReadBrief(in io.Reader, version string) (*Brief, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < longestBrief {
		if _, err := io.ReadFull(in, one); err != nil {
			return nil, fmt.Errorf("agent: standard input: found %d bytes and %w, wanted a line from byssus run", len(line), err)
		}
		if one[0] == '\n' {
			return parseBrief(line, version)
		}
		line = append(line, one[0])
	}
	return nil, fmt.Errorf("agent: standard input: no end of line in %d bytes", len(line))
}

func parseBrief(line []byte, version string) (*Brief, error) {
	var from struct{ Byssus, Node string } // which every version has
	err := json.Unmarshal(line, &from)
	if err == nil && from.Byssus != version {
		return nil, fmt.Errorf("agent: node %s: byssus is %s here, the job's is %s: %w", from.Node, version, from.Byssus, control.ErrVersion)
	}
	b := new(Brief)
	if err == nil {
		err = json.Unmarshal(line, b)
	}
	if err != nil {
		return nil, fmt.Errorf("agent: standard input: %w", err)
	}
	return b, nil
}

// Serve is the life of an agent on a node of its own: until the coordinator ends it, or is gone. Then it ends its ranks.
func Serve(b *Brief) error {
	id, err := hex.DecodeString(b.Job.ID)
	if err != nil || len(id) != 16 {
		return fmt.Errorf("agent: job id %q, wanted 32 hexadecimal digits", b.Job.ID)
	}
	cfg := NodeConfig{Name: b.Node, JobID: [16]byte(id)}
	if cfg.Spawn, err = spawn.Start(); err != nil {
		return err
	}
	defer cfg.Spawn.Close()
	if cfg.Store, err = dataset.Attach(b.Dir, b.Job); err != nil {
		return err
	}
	if b.Cache != "" {
		cfg.Flush = cfg.Store
		if cfg.Store, err = openCache(b); err != nil {
			return err
		}
		defer cfg.Store.Unlock()
	}
	if cfg.Faults, err = faults.Parse(b.Fault, b.Node); err != nil {
		return err
	}
	cfg.Store.Faults = cfg.Faults
	conn, err := dialAny(b)
	if err != nil {
		return err
	}
	defer conn.Close()
	if b.Cache != "" {
		if cfg.Port, err = openPort(conn); err != nil {
			return err
		}
		defer cfg.Port.Close()
	}
	if cfg.RunDir, err = makeRunDir(b.RunDir); err != nil {
		return err
	}
	defer os.RemoveAll(cfg.RunDir)
	out := control.NewOutbox(conn)
	defer out.Close()
	d, err := newDomains()
	if err != nil {
		return err
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	cfg.Say = out.Put
	n := NewNode(cfg)
	defer n.Close()
	clients, err := n.Serve()
	if err != nil {
		return err
	}
	joined := control.Joined{PID: os.Getpid(), Seen: d.boot + " " + space, Traits: traits(b)}
	if err := n.tellCache(&joined); err != nil {
		return err
	}
	g, err := startGuard(b, cfg.RunDir, clients)
	if err != nil {
		return err
	}
	out.Put(control.Message{Body: joined})
	return listen(conn, n, g)
}

// cacheLimit is how long the guard of an earlier agent may take to notice that somebody goes on with the job.
const cacheLimit = 5 * time.Second

// openCache waits for it when an earlier agent's guard, which is about to give it up, has it.
func openCache(b *Brief) (*dataset.Job, error) {
	limit := time.After(cacheLimit)
	again := time.NewTicker(cacheLimit / 50)
	defer again.Stop()
	for {
		j, err := dataset.Store{Dir: b.Cache}.Cache(b.Job, b.Term, b.Dir)
		if !errors.Is(err, dataset.ErrLocked) {
			return j, err
		}
		select {
		case <-again.C:
		case <-limit:
			return nil, err
		}
	}
}

// makeRunDir makes the directory for sockets: where the coordinator has one, else at the first place of this node that will do.
// On many clusters a user has a /run/user only where he has logged in.
func makeRunDir(wanted string) (string, error) {
	var errs []error
	for _, base := range append([]string{filepath.Dir(wanted)}, rundir.Bases()...) {
		dir := filepath.Join(base, filepath.Base(wanted))
		err := rundir.Make(base)
		if err == nil {
			err = os.RemoveAll(dir) // of an agent of this job that could not remove it
		}
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("agent: run directory: %w", errors.Join(errs...))
}

// openPort is where other agents reach this one: at the address at which the coordinator sees it.
func openPort(conn *control.Conn) (*bulk.Port, error) {
	host, _, err := net.SplitHostPort(conn.Self())
	if err != nil {
		return nil, fmt.Errorf("agent: own address: %w", err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("agent: port for other agents: %w", err)
	}
	return bulk.NewPort(l), nil
}

// tellCache says what is in the node's cache.
func (n *cache) tellCache(j *control.Joined) error {
	if n.cfg.Port == nil {
		return nil
	}
	var err error
	j.Pieces = n.cfg.Port.Address()
	if j.Last, err = n.of(0).Last(); err != nil {
		return err
	}
	if j.Written, err = n.of(Written).Last(); err != nil {
		return err
	}
	j.Held, j.Damaged = n.Held()
	if n.store.Weak != nil && n.store.Meta.Fsync {
		j.Weak = n.store.Weak.Error()
	}
	return nil
}

// forget removes the job's part of the cache.
func (n *cache) forget() error {
	if n.cfg.Port == nil {
		return nil
	}
	return n.store.Remove()
}

// dialLimit is how long the coordinator is tried: the network of a node that has just come up may need a moment.
const dialLimit = 20 * time.Second

func dialAny(b *Brief) (*control.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	again := time.NewTicker(dialLimit / 100)
	defer again.Stop()
	for {
		errs := []error{errors.New("agent: the coordinator cannot be reached")}
		for _, address := range b.Coordinator {
			c, err := control.Dial(ctx, address, b.Identity, b.Patience)
			if err == nil {
				return c, nil
			}
			if wrong := new(tls.CertificateVerificationError); errors.As(err, &wrong) {
				return nil, fmt.Errorf("agent: %s is not the coordinator of this job: %w", address, err)
			}
			errs = append(errs, err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, errors.Join(errs...)
		}
	}
}

// listen does what the coordinator orders until it is gone, or says that this is the end.
func listen(conn *control.Conn, n *Node, g *guard) error {
	for {
		m, err := conn.Receive()
		if err != nil {
			return fmt.Errorf("agent: the coordinator is gone: %w", err)
		}
		switch b := m.Body.(type) {
		case control.Alive:
		case control.Refused:
			return fmt.Errorf("agent: refused by the coordinator: %s", b.Why)
		case control.Leave:
			n.Close()
			g.dismiss()
			if b.Forget {
				return n.forget()
			}
			return nil
		default:
			n.Hear(m)
		}
	}
}
