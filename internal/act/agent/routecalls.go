package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
func (w *where) look(path string) (place, string) {
	to, err := os.Readlink(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noEntry, ""
	case err != nil:
		return entry, ""
	case to == w.inCache(strings.TrimPrefix(path, w.prefix+"/")):
		return ownLink, to
	case strings.HasPrefix(to, w.caches+"/") && !strings.HasPrefix(to, w.dir+"/"): // else the program has made it itself
		return foreignLink, to
	}
	return otherLink, to
}

// mostLinks are followed to a name.
const mostLinks = 8

// named is what a file of this node's cache is called in the prefix: a program that looks where a link leads may use that name.
func (w *where) named(n notify.Name) notify.Name {
	path := n.Path()
	if rest, ok := strings.CutPrefix(path, w.real+"/"); ok {
		path = w.inPrefix(rest)
		return notify.Name{Dir: filepath.Dir(path), Base: filepath.Base(path)}
	}
	return n
}

// call answers what a program asks the kernel for.
func (r calls) call(c *notify.Call) {
	c.From, c.To = r.named(c.From), r.named(c.To)
	switch c.Op {
	case notify.Open, notify.Truncate:
		for range mostLinks {
			next, again := r.open(c)
			if !again {
				return
			}
			c.To = r.named(next)
		}
		c.Continue()
	case notify.Symlink:
		r.symlink(c)
	default:
		r.rename(c)
	}
}

// open answers an opening, or says which name is meant instead.
func (r calls) open(c *notify.Call) (notify.Name, bool) {
	path, key := r.below(c.To)
	if r.marked(c, path) || key == "" && !r.leads(c.To) {
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
		next, err := c.Follow(c.To, to)
		if err != nil {
			c.Continue()
			return notify.Name{}, false
		}
		return next, true
	case is == foreignLink && writes(c):
		r.mu.Unlock()
		if !r.claim(control.Claim{Path: path, Link: to}) {
			c.Fail(unix.EIO)
			return notify.Name{}, false
		}
		return c.To, true
	}
	defer r.mu.Unlock()
	r.answer(c, path, key, is)
	return notify.Name{}, false
}

// leads says whether a name that is not led may be a link to one that is.
func (w *where) leads(n notify.Name) bool {
	is, _ := w.look(n.Path())
	return is == otherLink || is == foreignLink
}

// writes says whether a call makes, empties or writes to a file.
func writes(c *notify.Call) bool {
	return c.Op == notify.Truncate || c.Flags&(unix.O_ACCMODE|unix.O_CREAT|unix.O_TRUNC) != 0 && c.Flags&unix.O_PATH == 0
}

// answer answers an opening of a file, or a truncation, that is led or is to be.
func (r calls) answer(c *notify.Call, path, key string, is place) {
	k := r.keys[key]
	direct := c.Flags&(unix.O_DIRECT|unix.O_TMPFILE&^unix.O_DIRECTORY) != 0 || // memory has no direct way around it
		is == noEntry && c.Mode&^c.Mask()&0o400 == 0 // nor could the agent read it
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
func (r calls) emptied(k *routedKey, path string) bool {
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
func (r calls) marked(c *notify.Call, path string) bool {
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
func (r calls) begin(c *notify.Call, path, key string) {
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
func (r calls) give(c *notify.Call, path string) {
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
func (r calls) unshare(c *notify.Call, k *routedKey, path string) error {
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

// drop forgets a file, and the dataset with the last.
func (r *routes) drop(k *routedKey, path string) {
	delete(k.files, path)
	_ = remove(r.inCache(path)) // else it goes with the start
	r.changed(k)
	if len(k.files) == 0 && k.given == "" && !k.done {
		delete(r.keys, k.name)
	}
}
