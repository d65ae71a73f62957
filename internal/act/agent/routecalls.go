package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/host/notify"
)

// place is what is in the prefix by a name.
type place int

const (
	noEntry     place = iota
	ownLink           // a link to a file in the cache of this node
	foreignLink       // a link into the cache of another, or of another job
	otherLink         // another link
	entry             // a file, or what else there is
)

// look says what there is by a path, and where a link leads.
func (r *routes) look(path string) (place, string) {
	to, err := os.Readlink(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noEntry, ""
	case err != nil:
		return entry, ""
	case to == r.inCache(strings.TrimPrefix(path, r.prefix+"/")):
		return ownLink, to
	case strings.HasPrefix(to, r.caches+"/"):
		return foreignLink, to
	}
	return otherLink, to
}

// mostLinks are followed to a name.
const mostLinks = 8

// call answers what a program asks the kernel for.
func (r *routes) call(c *notify.Call) {
	switch c.Op {
	case notify.Open, notify.Truncate:
		for range mostLinks {
			next, again := r.open(c)
			if !again {
				return
			}
			c.To = next
		}
		c.Continue()
	default:
		r.rename(c)
	}
}

// open answers an opening, or says which name is meant instead.
func (r *routes) open(c *notify.Call) (notify.Name, bool) {
	path, key := r.below(c.To)
	if r.marked(c, path) || key == "" && !strings.HasPrefix(c.To.Path(), r.prefix+"/") {
		c.Continue()
		return notify.Name{}, false
	}
	if writes(c) {
		r.idle(key)
	} else {
		r.mu.Lock()
	}
	is, to := r.look(c.To.Path())
	switch {
	case is == otherLink && c.Flags&(unix.O_NOFOLLOW|unix.O_EXCL) == 0:
		r.mu.Unlock()
		next, err := c.To.Follow(to)
		if err != nil {
			c.Continue()
			return notify.Name{}, false
		}
		return next, true
	case is == foreignLink && writes(c):
		r.mu.Unlock()
		return c.To, r.claim(c, path, to)
	}
	defer r.mu.Unlock()
	r.answer(c, path, key, is)
	return notify.Name{}, false
}

// writes says whether a call makes, empties or writes to a file.
func writes(c *notify.Call) bool {
	return c.Op == notify.Truncate || c.Flags&(unix.O_ACCMODE|unix.O_CREAT|unix.O_TRUNC) != 0 && c.Flags&unix.O_PATH == 0
}

// answer answers an opening of a file, or a truncation, that is led or is to be.
func (r *routes) answer(c *notify.Call, path, key string, is place) {
	k := r.keys[key]
	direct := c.Flags&(unix.O_DIRECT|unix.O_TMPFILE&^unix.O_DIRECTORY) != 0 // memory has no direct way around it
	switch {
	case key == "" || r.closed:
		c.Continue()
	case is == ownLink && !writes(c): // it must not see a link
		r.give(c, path)
	case is == ownLink && c.Flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		c.Fail(unix.EEXIST)
	case is == ownLink && c.Op == notify.Open && c.Flags&(unix.O_CREAT|unix.O_TRUNC) == 0 && r.emptied(k, path):
		c.Continue()
	case is == ownLink:
		if err := r.unshare(c, k, path); err != nil {
			c.Fail(err)
			return
		}
		if c.Op == notify.Truncate {
			c.Continue()
			return
		}
		r.give(c, path)
	case !writes(c) || c.Op == notify.Truncate || is == noEntry && c.Flags&unix.O_CREAT == 0 || c.Flags&unix.O_DIRECTORY != 0:
		c.Continue()
	case is == noEntry && !direct, is == entry && c.Flags&unix.O_TRUNC != 0 && c.Flags&unix.O_EXCL == 0 && !direct && regular(r.inPrefix(path)):
		r.begin(c, path, key)
	case is == entry && !regular(r.inPrefix(path)):
		c.Continue()
	default: // it is written where it is
		r.spoil(key, fmt.Sprintf("%s is written in the prefix itself", path))
		c.Continue()
	}
}

// emptied puts a file into the prefix that was made, and is about to be written to by who takes it for there already: so does MPI-IO with one
// that several processes write, also on other nodes. Who writes alone makes it when it writes.
func (r *routes) emptied(k *routedKey, path string) bool {
	st, err := os.Lstat(r.inCache(path))
	if k == nil || err != nil || st.Size() > 0 || r.written(path) || r.materialize(k, path) != nil {
		return false
	}
	r.spoil(k.name, fmt.Sprintf("%s is written by several processes", path))
	return true
}

func regular(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode().IsRegular()
}

// marked notes that the marker of a dataset is written.
func (r *routes) marked(c *notify.Call, path string) bool {
	if r.marker == nil || path == "" || !writes(c) {
		return false
	}
	key := r.marker.Key(path)
	if key == "" {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key(key).done = true
	r.tell(r.keys[key])
	return true
}

// key is what there is of a dataset; it is entered if it is new.
func (r *routes) key(name string) *routedKey {
	k := r.keys[name]
	if k == nil {
		r.orders++
		k = &routedKey{name: name, order: r.orders, files: map[string]*routedFile{}}
		r.keys[name] = k
	}
	return k
}

// spoil notes that a dataset cannot count.
func (r *routes) spoil(key, why string) {
	if k := r.key(key); k.given == "" {
		k.given = why
		r.tell(k)
	}
}

// begin makes a file in the cache, and the link to it.
func (r *routes) begin(c *notify.Call, path, key string) {
	if err := r.room(key); err != nil {
		r.spoil(key, err.Error())
		c.Continue()
		return
	}
	in, at := r.inCache(path), r.inPrefix(path)
	err := os.MkdirAll(filepath.Dir(in), 0o700)
	if err == nil {
		err = r.note(filepath.Dir(path))
	}
	if err == nil {
		err = remove(in) // of one by this name that the program has removed
	}
	if err == nil {
		err = replace(in, at)
	}
	if err != nil { // as the program would have heard of the prefix, or the cache cannot take it
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
			r.spoil(key, err.Error())
		}
		c.Continue()
		return
	}
	f := &routedFile{}
	f.opened(c.PID)
	r.key(key).files[path] = f
	r.give(c, path)
	r.changed(r.keys[key])
}

// replace puts a link at a path, at once, whatever is there.
func replace(to, at string) error {
	err := os.Symlink(to, at)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	tmp := at + ".byssus-link"
	if err = remove(tmp); err == nil {
		err = os.Symlink(to, tmp)
	}
	if err == nil {
		err = os.Rename(tmp, at)
	}
	return err
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// give opens a file of the cache for a program.
func (r *routes) give(c *notify.Call, path string) {
	flags := c.Flags&^(unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CREAT) | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if writes(c) {
		flags |= c.Flags & unix.O_CREAT
	}
	fd, err := unix.Open(r.inCache(path), flags, c.Mode&^c.Mask())
	if err != nil {
		c.Fail(err)
		return
	}
	f := os.NewFile(uintptr(fd), path)
	c.Give(f)
	f.Close()
}

// unshare makes a file the program's own again, which a dataset has: the dataset's stays as it is. The program is about to write to it.
func (r *routes) unshare(c *notify.Call, k *routedKey, path string) error {
	if k == nil || k.files[path] == nil {
		return unix.EIO
	}
	in := r.inCache(path)
	st, err := os.Lstat(in)
	if err == nil && st.Sys().(*syscall.Stat_t).Nlink > 1 {
		if err = copyTo(in, in+".byssus-own"); err == nil {
			err = os.Rename(in+".byssus-own", in)
		}
	}
	if err != nil {
		return err
	}
	k.of = 0
	k.files[path].opened(c.PID)
	r.changed(k)
	return nil
}

// idle takes the lock when no dataset of these keys is being copied to the prefix.
func (r *routes) idle(keys ...string) {
	r.mu.Lock()
	for i := 0; i < len(keys); i++ {
		if k := r.keys[keys[i]]; k != nil && k.busy != nil {
			busy := k.busy
			r.mu.Unlock()
			<-busy
			r.mu.Lock()
			i = -1
		}
	}
}

// rename answers the renaming and linking of files, which are led by their names.
func (r *routes) rename(c *notify.Call) {
	from, key := r.below(c.From)
	to, wanted := r.below(c.To)
	r.idle(key, wanted)
	defer r.mu.Unlock()
	if is, _ := r.look(c.From.Path()); is != ownLink || key == "" || r.closed {
		if wanted != "" && regular(c.From.Path()) {
			r.spoil(wanted, fmt.Sprintf("%s is written by another name, which the pattern does not have: %s", to, c.From.Base))
		}
		c.Continue()
		return
	}
	k := r.keys[key]
	var err error
	switch {
	case k == nil || k.files[from] == nil:
		err = unix.EIO
	case c.Op == notify.Rename && c.Flags&^unix.RENAME_NOREPLACE != 0:
		err = unix.EINVAL // as file systems answer that do not have it
	case (c.Op == notify.Link || c.Flags != 0) && exists(c.To.Path()):
		err = unix.EEXIST
	case c.Op == notify.Link:
		err = copyTo(r.inCache(from), c.To.Path())
	case wanted == "":
		err = r.moveOut(k, from, c.To.Path())
	case from != to:
		err = r.move(k, from, to, wanted)
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Return()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// moveOut makes a file of the cache one of the prefix, whose name the pattern does not have.
func (r *routes) moveOut(k *routedKey, from, at string) error {
	if r.written(from) {
		return unix.ETXTBSY // what is written from now on would not come there
	}
	if err := copyTo(r.inCache(from), at); err != nil {
		return err
	}
	err := remove(r.inPrefix(from))
	r.drop(k, from)
	return err
}

// move gives a file of the cache another name, there and in the prefix.
func (r *routes) move(k *routedKey, from, to, wanted string) error {
	if old := r.keys[wanted]; old != nil && old.files[to] != nil {
		delete(old.files, to)
	}
	err := os.MkdirAll(filepath.Dir(r.inCache(to)), 0o700)
	if err == nil {
		err = r.note(filepath.Dir(to))
	}
	if err == nil {
		err = os.Rename(r.inCache(from), r.inCache(to))
	}
	if err == nil {
		err = replace(r.inCache(to), r.inPrefix(to))
	}
	if err == nil {
		err = remove(r.inPrefix(from))
	}
	if err != nil {
		return err
	}
	r.key(wanted).files[to] = k.files[from]
	k.of, r.keys[wanted].of = 0, 0
	r.changed(r.keys[wanted])
	if k.name != wanted {
		r.drop(k, from)
	} else {
		delete(k.files, from)
		r.changed(k)
	}
	return nil
}

// drop forgets a file, and the dataset with the last.
func (r *routes) drop(k *routedKey, path string) {
	delete(k.files, path)
	_ = remove(r.inCache(path)) // else it goes with the start
	r.changed(k)
	if len(k.files) == 0 && k.given == "" && !k.done {
		delete(r.keys, k.name)
	}
}

// asker asks the coordinator, for calls that wait meanwhile.
type asker struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan string
	closed  bool
}

// begin returns the number of a question, and where its answer comes.
func (a *asker) begin() (uint64, chan string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	answer := make(chan string, 1)
	if a.closed {
		answer <- errLeaving.Error()
	} else {
		a.waiting[a.last] = answer
	}
	return a.last, answer
}

func (a *asker) answered(number uint64, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answer := a.waiting[number]; answer != nil {
		answer <- why
		delete(a.waiting, number)
	}
}

func (a *asker) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, answer := range a.waiting {
		answer <- errLeaving.Error()
	}
	clear(a.waiting)
}

// claim has another node put a file into the prefix that a program of this one wants to write to as well. false: it has been refused.
func (r *routes) claim(c *notify.Call, path, to string) bool {
	number, answer := r.ask.begin()
	r.say(control.Message{Start: r.start, Body: control.Claim{Number: number, Path: path, Link: to}})
	if why := <-answer; why != "" {
		c.Fail(unix.EIO)
		return false
	}
	return true
}
