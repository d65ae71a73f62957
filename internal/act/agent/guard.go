package agent

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// Ward is what the guard of an agent is told on its standard input, in a line of JSON. A byte follows for each beat of the agent.
type Ward struct {
	PID      int // of the agent
	Job      dataset.Meta
	Dir      string // of the job in the store
	Cache    string // empty: the node has none
	Term     uint64
	Node     string
	RunDir   string           // of the agent, for sockets
	Clients  string           // its socket for programs
	Patience control.Patience // of the coordinator with the agent
	After    time.Duration    // how long somebody may take to go on with the job before its cache is copied to the store; 0: it never is
}

// What an agent says to its guard.
const (
	beat    = 1
	dismiss = 2 // the coordinator has seen to everything
)

// guard is a process that outlives an agent, in a session of its own: what carries the agent may be gone at any moment.
type guard struct {
	cmd   *exec.Cmd
	pipe  io.WriteCloser // its standard input
	done  chan struct{}
	every time.Duration
	wg    sync.WaitGroup
}

// startGuard starts it, for an agent with that run directory.
func startGuard(b *Brief, runDir, clients string) (*guard, error) {
	g := &guard{cmd: exec.Command("/proc/self/exe", "guard"), done: make(chan struct{}), every: b.Patience.Beat()}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	g.cmd.Stderr = os.Stderr
	var err error
	if g.pipe, err = g.cmd.StdinPipe(); err == nil {
		err = g.cmd.Start()
	}
	if err == nil {
		err = json.NewEncoder(g.pipe).Encode(Ward{os.Getpid(), b.Job, b.Dir, b.Cache, b.Term, b.Node, runDir, clients, b.Patience, b.Scavenge})
	}
	if err != nil {
		return nil, fmt.Errorf("agent: its guard: %w", err)
	}
	g.wg.Go(g.beat)
	return g, nil
}

// beat tells it that the agent is there. That it is not there itself changes nothing.
func (g *guard) beat() {
	t := time.NewTicker(g.every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			_, _ = g.pipe.Write([]byte{beat})
		case <-g.done:
			return
		}
	}
}

// dismiss ends it.
func (g *guard) dismiss() {
	close(g.done)
	g.wg.Wait()
	_, _ = g.pipe.Write([]byte{dismiss}) // it may have been killed
	g.pipe.Close()
	_ = g.cmd.Wait()
}

// Guard watches over an agent. When the agent hangs for so long that the coordinator gives it up, the guard kills it, whereupon
// its ranks end, before others take their place. When it is gone, and was not dismissed, the guard waits for somebody who
// goes on with the job. If nobody does, it copies what the node's cache has to the store, since the cache may be gone soon; if
// nobody needs that any more, it removes it.
func Guard(ctx context.Context, in io.Reader) error {
	d := json.NewDecoder(in)
	w := new(Ward)
	if err := d.Decode(w); err != nil {
		return fmt.Errorf("agent: standard input: %w", err)
	}
	own, _ := os.Stat(w.RunDir)
	if w.watch(io.MultiReader(d.Buffered(), in)) {
		return nil
	}
	w.tidy(own)
	if w.Cache == "" || w.After == 0 {
		return nil
	}
	err := w.scavenge(ctx, w.After)
	for try := 1; err != nil && try < mostTries; try++ {
		switch {
		case errors.Is(err, dataset.ErrFenced): // somebody else has the cache
			return nil
		case errors.Is(err, dataset.ErrOver): // somebody else has the job, or nobody needs it
			return w.clear(ctx, lateAgents)
		case ctx.Err() != nil:
			return err
		case !errors.Is(err, dataset.ErrLocked): // by a byssus that is about to end, or by one that hangs
			ui.Say(os.Stderr, fmt.Sprintf("node %s: it is tried again in %v: %v", w.Node, nextTry, err))
		}
		err = w.scavenge(ctx, nextTry)
	}
	if errors.Is(err, dataset.ErrLocked) {
		return nil
	}
	return err
}

// tidy removes what the agent has left of its run directory, which was own, and of what launchers of its starts had. When there is
// another directory in its place, so is another agent, whose these are.
func (w *Ward) tidy(own os.FileInfo) {
	if st, err := os.Stat(w.RunDir); err == nil && !os.SameFile(st, own) {
		return
	}
	id, err := hex.DecodeString(w.Job.ID)
	if err != nil || len(id) < 4 {
		return
	}
	tidyStarts(id, func(start uint64) bool { return start>>termBits == w.Term })
	_ = os.RemoveAll(w.RunDir)
	removeSocket(w.Clients)
}

// A guard whose store is away, or full, tries again for half an hour.
const (
	nextTry   = 10 * time.Second
	mostTries = 180
)

// lastLook is how long a guard that has missed beats looks for them once more: it may have slept itself.
const lastLook = 200 * time.Millisecond

// watch returns when the agent is gone, and whether the guard was dismissed.
func (w *Ward) watch(in io.Reader) (dismissed bool) {
	beats := make(chan byte)
	go func() {
		defer close(beats)
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(in, b); err != nil {
				return
			}
			if b[0] == beat || b[0] == dismiss {
				beats <- b[0]
			}
		}
	}()
	lease := w.Patience.Lease()
	patience := lease
	for {
		select {
		case b, ok := <-beats:
			if !ok || b == dismiss {
				return ok
			}
			patience = lease
		case <-time.After(patience):
			if patience == lastLook && os.Getppid() == w.PID {
				ui.Say(os.Stderr, fmt.Sprintf("node %s: its agent has been silent for %v, and is ended", w.Node, lease+lastLook))
				_ = syscall.Kill(w.PID, syscall.SIGKILL) // its end closes the pipe
			}
			patience = lastLook
		}
	}
}

// lateAgents is how long it takes at most until a byssus that goes on with a job has an agent here, if it wants one.
const lateAgents = time.Minute

// clear removes what the cache has of a job that is over; or that somebody goes on with without this node, which has shown after
// some time, when the store has all that was here, or what came after it.
func (w *Ward) clear(ctx context.Context, after time.Duration) error {
	caches := dataset.Store{Dir: w.Cache}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for until := time.Now().Add(after); ; {
		caches.Clear()
		if term := caches.CacheTerm(w.Job); term == 0 || term > w.Term {
			return nil // it is gone, or an agent has come
		}
		if !time.Now().Before(until) {
			break
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	home, err := dataset.Attach(w.Dir, w.Job)
	if err != nil {
		return err
	}
	cache, err := caches.Cache(w.Job, w.Term, w.Dir)
	if errors.Is(err, dataset.ErrFenced) || errors.Is(err, dataset.ErrLocked) {
		return nil // an agent has come
	}
	if err != nil {
		return err
	}
	defer cache.Unlock()
	streams, err := cache.Streams()
	for _, s := range streams {
		newer, nerr := newerIn(cache.Of(s), home.Of(s))
		if newer || nerr != nil {
			return nerr
		}
	}
	if err == nil {
		err = cache.Remove()
	}
	return err
}

// newerIn says whether a cache has a dataset that is newer than all that the store has of the stream, or of the group.
func newerIn(cache, home *dataset.Datasets) (bool, error) {
	here, err := cache.List()
	if err != nil {
		return false, err
	}
	there, err := home.Newest()
	return slices.ContainsFunc(here, func(n uint64) bool { return n > there[cache.Group(n)] }), err
}

// lookEvery is how often it is looked whether somebody goes on with the job.
const lookEvery = time.Second

// scavenge copies what is there after some time, unless somebody goes on with the job meanwhile.
func (w *Ward) scavenge(ctx context.Context, after time.Duration) error {
	home, err := dataset.Attach(w.Dir, w.Job)
	if err != nil {
		select {
		case <-time.After(after):
		case <-ctx.Done():
		}
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-look.C:
				if err := home.Left(w.Term); errors.Is(err, dataset.ErrOver) {
					cancel(err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	select {
	case <-time.After(after):
		err = home.Left(w.Term)
	case <-ctx.Done():
	}
	if err == nil && ctx.Err() == nil {
		err = w.copyAll(ctx, home)
	}
	return errors.Join(err, context.Cause(ctx))
}

// copyAll copies what is newer than all that the store has, of a group that makes snapshots than all of that, the newest first. What is damaged
// does not keep it from what is not.
func (w *Ward) copyAll(ctx context.Context, home *dataset.Job) error {
	cache, err := (dataset.Store{Dir: w.Cache}).Cache(w.Job, w.Term, w.Dir)
	if err != nil {
		return err
	}
	defer cache.Unlock()
	streams, err := cache.Streams()
	for _, s := range streams {
		if err == nil {
			err = w.copyStream(ctx, s, cache, home)
		}
	}
	return err
}

func (w *Ward) copyStream(ctx context.Context, s holding.Stream, from, home *dataset.Job) error {
	cache := from.Of(s)
	all, err := cache.List()
	if err != nil {
		return err
	}
	there, err := home.Of(s).Newest()
	if err != nil {
		return err
	}
	for _, n := range slices.Backward(all) {
		if n <= there[cache.Group(n)] {
			continue
		}
		m, err := dataset.Check(cache.Path(n))
		if err != nil {
			ui.Say(os.Stderr, fmt.Sprintf("node %s: what its cache has of checkpoint %d is damaged, and is not copied: %v", w.Node, n, err))
			continue
		}
		if err := w.copy(ctx, cache, home.Scavenged(), n, m); err != nil {
			return fmt.Errorf("agent: node %s: checkpoint %d to %s: %w", w.Node, n, w.Dir, err)
		}
	}
	return nil
}

// copy copies all that a cache has of a checkpoint. The manifest comes last.
func (w *Ward) copy(ctx context.Context, cache *dataset.Datasets, scavenged dataset.Scavenged, n uint64, m *dataset.Manifest) error {
	place, err := scavenged.Place(w.Node)
	if err != nil {
		return err
	}
	to := place.Of(cache.Stream)
	dir, err := to.RecreateTemp(n)
	if err != nil {
		return err
	}
	names, err := dataset.Contents(cache.Path(n))
	for _, name := range names {
		if err == nil {
			err = copyTree(ctx, filepath.Join(cache.Path(n), name), filepath.Join(dir, name))
		}
	}
	if err == nil {
		err = to.Drop(n) // of an earlier start
	}
	if err == nil {
		err = to.Commit(n, m)
	}
	return err
}

// copyTree copies a file, or a directory with all that is in it, and makes sure that it lasts.
func copyTree(ctx context.Context, from, to string) error {
	st, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		if err := copyFile(ctx, from, to); err != nil {
			return err
		}
		return syncFile(to)
	}
	entries, err := os.ReadDir(from)
	if err == nil {
		err = os.Mkdir(to, 0o700)
	}
	for _, e := range entries {
		if err == nil {
			err = copyTree(ctx, filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
		}
	}
	if err == nil {
		err = syncFile(to)
	}
	return err
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
