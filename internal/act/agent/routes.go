package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/decide/routed"
	"github.com/byssus-hpc/byssus/internal/host/notify"
	"github.com/byssus-hpc/byssus/internal/store/files"
	"github.com/byssus-hpc/byssus/internal/ui"
)

// RouteVerb is the argument with which this program becomes another whose files are led elsewhere (notify.Exec).
const RouteVerb = "route"

// RoutedName is the directory in a job's part of a cache in which files are that are led there, each node's in one of its name.
const RoutedName = "routed"

// routes lead files that a program makes below the prefix into the node's cache, if the pattern says so: in the prefix is a link then, by
// which everybody on this node finds it. When its dataset is copied to the prefix, the file takes the place of the link.
//
// It guarantees: a path leads to one file of one node, and who would make another waits until that node has put its own into the prefix, or
// gets an error. What a program writes to after its dataset was gathered is no longer the dataset's. What does not become a dataset becomes a
// file of the prefix (release), unless it is half written by a program that has died.
//
// mu protects what follows it, and what links in the prefix there are.
type routes struct {
	where
	ears
	route  control.Route
	marker *routed.Pattern // nil: there is none
	node   string
	say    func(control.Message)
	start  uint64
	ask    *asker

	mu       sync.Mutex
	keys     map[string]*routedKey
	orders   int
	noted    map[string]bool // directories below the prefix in which there are links, as far as that is stored
	gathered map[uint64]bool // datasets, of this start
	largest  int64           // bytes of a dataset here
}

// where says which names are led, and where to. It does not change.
type where struct {
	pattern *routed.Pattern
	prefix  string // as the kernel calls it
	dir     string // of the files in the cache, each by its path below the prefix
	real    string // dir, as the kernel calls it
	caches  string // in which all caches of this job and others lie
}

// ears are those who are heard; routes.mu protects what changes of it.
type ears struct {
	listener *net.UnixListener
	wg       sync.WaitGroup
	stop     chan struct{}
	heard    []*notify.Listener
	programs []int // processes that have become the program
	closed   bool
}

// calls answers what programs ask the kernel for.
type calls struct{ *routes }

// routedKey is what there is of a dataset on this node.
type routedKey struct {
	name  string
	order int
	files map[string]*routedFile // by path below the prefix
	done  bool                   // its marker was written
	given string                 // why it cannot count; empty: it can
	of    uint64                 // the dataset that has its files as they are; 0: none
	coded bool                   // nothing more is written for it here
	busy  chan struct{}          // closed when its files have been copied to the prefix; nil: they are not
	told  routed.State
}

// routedFile is one of them.
type routedFile struct {
	open   bool      // for writing, or may be
	by     []int     // processes that have opened it since it was closed last
	missed time.Time // when it was first looked for in the prefix, and not there
	shut   time.Time // when it turned out to be closed, since one of these has ended
}

// deathLimit is how long a program may go on when a child of it has died, and not ended well, which had a file open.
const deathLimit = 2 * time.Second

// newRoutes makes ready for a start of ranks. What an earlier one has left in the cache is removed: links to it there are none any more.
func newRoutes(n *Node, start uint64, route control.Route) (r *routes, err error) {
	socket := routeSocket(StartDir(n.cfg.RunDir, start))
	r = &routes{route: route, node: n.cfg.Name, start: start, say: n.say, ask: &asker{waiting: map[uint64]chan string{}},
		where: where{dir: filepath.Join(n.store.Dir, RoutedName, n.cfg.Name), caches: filepath.Dir(n.store.Dir)},
		ears:  ears{stop: make(chan struct{})},
		keys:  map[string]*routedKey{}, noted: map[string]bool{}, gathered: map[uint64]bool{}}
	if r.pattern, err = routed.Parse(route.Files); err != nil {
		return nil, err
	}
	if route.Marker != "" {
		if r.marker, err = routed.Parse(route.Marker); err != nil {
			return nil, err
		}
	}
	if r.prefix, err = filepath.EvalSymlinks(route.Prefix); err != nil {
		return nil, fmt.Errorf("agent: prefix: %w", err)
	}
	if err = os.RemoveAll(r.dir); err == nil {
		err = os.MkdirAll(r.dir, 0o700)
	}
	if err == nil {
		r.real, err = filepath.EvalSymlinks(r.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if r.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"}); err != nil {
		return nil, fmt.Errorf("agent: socket for programs whose files are led: %w", err)
	}
	if err = os.Chmod(socket, 0o600); err != nil {
		r.listener.Close()
		return nil, fmt.Errorf("agent: %w", err)
	}
	r.wg.Go(func() { eachConnection(r.listener, func(c *net.UnixConn) { r.wg.Go(func() { r.take(c) }) }) })
	r.wg.Go(r.watch)
	return r, nil
}

func routeSocket(startDir string) string { return filepath.Join(startDir, "route") }

// take hears a program from now on.
func (r *routes) take(c *net.UnixConn) {
	defer c.Close()
	pid, err := peer(c)
	if err != nil {
		return
	}
	l, err := notify.Accept(c)
	if err != nil {
		return // who is refused says so
	}
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.heard, r.programs = append(r.heard, l), append(r.programs, pid)
	}
	r.mu.Unlock()
	if closed {
		l.Close()
		return
	}
	if err := l.Serve(calls{r}.call); err != nil {
		ui.Say(os.Stderr, err.Error())
	}
}

// close hears nobody any more. Files stay where they are.
func (r *routes) close() {
	r.mu.Lock()
	was := r.closed
	r.closed = true
	for _, l := range r.heard {
		l.Close()
	}
	r.mu.Unlock()
	if was {
		return
	}
	r.listener.Close()
	close(r.stop)
	r.ask.close()
	r.wg.Wait()
}

// below is a name's path below the prefix, and the key of its dataset; empty: it is not led.
func (w *where) below(n notify.Name) (path, key string) {
	path, ok := strings.CutPrefix(n.Path(), w.prefix+"/")
	if !ok {
		return "", ""
	}
	return path, w.pattern.Key(path)
}

func (w *where) inCache(path string) string  { return filepath.Join(w.dir, path) }
func (w *where) inPrefix(path string) string { return filepath.Join(w.prefix, path) }

// note stores that there are links in a directory below the prefix, before the first: who goes on with the job when this agent is gone
// removes them.
func (r *routes) note(dir string) error {
	if r.noted[dir] {
		return nil
	}
	line, err := json.Marshal(dir)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.route.Links+"."+r.node, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		r.noted[dir] = true
	}
	return err
}

// room says whether the cache has any for another dataset: as much as there was of the largest here, with its redundancy, and a little,
// beside the redundancy that is still to be made of others.
func (r *routes) room(key string) error {
	const least = 16 << 20
	if r.keys[key] != nil && len(r.keys[key].files) > 0 {
		return nil // it has been begun
	}
	var others int64
	for _, k := range r.keys {
		sum := r.bytes(k)
		r.largest = max(r.largest, sum)
		if !k.coded {
			others += r.redundancy(sum)
		}
	}
	wanted := r.largest + r.largest/8 + r.redundancy(r.largest) + others + least
	if left, known, _, err := free(r.dir); err == nil && known && left < wanted {
		return fmt.Errorf("cache %s on node %s has %s left, wanted %s", r.caches, r.node, ui.Bytes(left), ui.Bytes(wanted))
	}
	return nil
}

// redundancy is what that of so many bytes takes.
func (r *routes) redundancy(bytes int64) int64 { return bytes / 100 * int64(r.route.More) }

// bytes are in the files of a dataset.
func (r *routes) bytes(k *routedKey) (sum int64) {
	for path := range k.files {
		if st, err := os.Stat(r.inCache(path)); err == nil {
			sum += st.Size()
		}
	}
	return sum
}

// full says whether the cache is: a program may have failed for that, and does not know where its files are.
func (r *routes) full() string {
	const little = 1 << 20
	if left, known, _, err := free(r.dir); err == nil && known && left < little {
		return fmt.Sprintf("cache %s on node %s is full, wanted room for what its ranks write: choose one with more, or leave files out of --files", r.caches, r.node)
	}
	return ""
}

// watchEvery is how often files that are open are looked at.
const watchEvery = 50 * time.Millisecond

// watch notices when files are not open any more.
func (r *routes) watch() {
	again := time.NewTicker(watchEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-r.stop:
			return
		}
		r.lookAtAll()
	}
}

func (r *routes) lookAtAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.keys {
		r.lookAt(k)
	}
}

// endedWell: the program has, so that what its processes have left is as it was to be.
func (r *routes) endedWell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.keys {
		for path, f := range k.files {
			if f.open && !r.written(path) {
				f.closed()
			}
		}
		r.tell(k)
	}
}

// lookAt looks which files of a dataset are still open, and says what has changed.
func (r *routes) lookAt(k *routedKey) {
	for path, f := range k.files {
		if f.open && !r.written(path) && r.doneWith(f, time.Now()) {
			f.closed()
		}
	}
	r.tell(k)
}

// doneWith says whether who had a file open, which is closed, has closed it: one that has died may have left it half written. If the program
// has, this is known when it has ended well (endedWell), however long that takes; if a child, by the program's going on.
func (r *routes) doneWith(f *routedFile, now time.Time) bool {
	ending := func(pid int) bool { return (&process{pid: pid}).ending() }
	if !slices.ContainsFunc(f.by, ending) {
		return true
	}
	if slices.ContainsFunc(r.programs, ending) {
		return false
	}
	if f.shut.IsZero() {
		f.shut = now
	}
	return now.Sub(f.shut) >= deathLimit
}

// opened: a process has opened a file for writing.
func (f *routedFile) opened(tid int) {
	f.open, f.shut = true, time.Time{}
	f.by = append(f.by, group(tid))
}

// group is the process of a thread.
func group(tid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, rest, ok := strings.Cut(string(text), "\nTgid:\t")
	value, _, _ := strings.Cut(rest, "\n")
	pid, perr := strconv.Atoi(value)
	if err != nil || !ok || perr != nil {
		return tid
	}
	return pid
}

// closed: nobody writes to a file any more.
func (f *routedFile) closed() { f.open, f.by = false, nil }

// written says whether somebody may still write to a file.
func (r *routes) written(path string) bool {
	f, err := os.OpenFile(r.inCache(path), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false // it is not there
	}
	defer f.Close()
	open, err := files.BeingWritten(f)
	return open || err != nil
}

// changed says what has changed of a dataset, also if its numbers have not.
func (r *routes) changed(k *routedKey) {
	k.told = routed.State{}
	r.tell(k)
}

// tell says what there is of a dataset, if that is news.
func (r *routes) tell(k *routedKey) {
	s := routed.State{Key: k.name, Order: k.order, Files: len(k.files), Done: k.done, Given: k.given}
	for _, f := range k.files {
		if f.open {
			s.Open++
		}
	}
	if s != k.told {
		k.told = s
		r.say(control.Message{Start: r.start, Body: control.Routed{State: s}})
	}
}

// routed is a command whose program is heard, if files are led.
func (c *Config) routed(args []string) []string {
	if !c.Routed {
		return args
	}
	return append([]string{"/proc/self/exe", RouteVerb, routeSocket(c.Dir), "--"}, args...)
}
