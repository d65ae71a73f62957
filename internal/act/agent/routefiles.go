package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/store/files"
)

// copyTo makes a file like another, at once, whatever is there.
func copyTo(from, at string) error {
	tmp := at + ".byssus-copy"
	err := remove(tmp)
	if err == nil {
		err = duplicate(from, tmp)
	}
	if err == nil {
		err = os.Rename(tmp, at)
	}
	return err
}

// duplicate makes a new file like another.
func duplicate(from, to string) error {
	in, err := os.OpenFile(from, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Chmod(st.Mode().Perm())
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Chtimes(to, st.ModTime(), st.ModTime())
	}
	if err != nil {
		return errors.Join(err, remove(to))
	}
	return nil
}

// materialize makes a file of the cache one of the prefix, in the place of the link.
func (r *routes) materialize(k *routedKey, path string) error {
	if is, _ := r.look(r.inPrefix(path)); is == ownLink { // else the program has removed it
		if err := copyTo(r.inCache(path), r.inPrefix(path)); err != nil {
			return fmt.Errorf("agent: %s: %w", path, err)
		}
	}
	delete(k.files, path)
	return remove(r.inCache(path))
}

// giveUp puts a file into the prefix that a program of another node wants to write to, or renames it.
func (r calls) giveUp(o control.GiveUp) error {
	path, key := o.Path, r.pattern.Key(o.Path)
	to, _ := strings.CutPrefix(o.To, r.prefix+"/")
	r.idle(key, r.pattern.Key(to))
	defer r.mu.Unlock()
	k := r.keys[key]
	if k == nil || k.files[path] == nil {
		return nil // meanwhile it is in the prefix, or gone
	}
	if o.To != "" {
		return r.place(k, path, o.To, o.Copy)
	}
	if r.written(path) {
		return fmt.Errorf("%s: node %s has it %w", path, r.node, files.ErrOpen)
	}
	if err := r.materialize(k, path); err != nil {
		return err
	}
	r.spoil(key, fmt.Sprintf("%s is written on several nodes", path))
	return nil
}

// renameLimit is how long it takes at most until it is known here that another node has renamed a directory.
const renameLimit = time.Second

// gone is a file of a dataset that is not there any more; empty: all are. What the program has removed is dropped: another node may be about
// to say that it has renamed it.
func (r *routes) gone(k *routedKey, now time.Time) (name string) {
	for path, f := range k.files {
		switch is, _ := r.look(r.inPrefix(path)); {
		case is == ownLink:
			f.missed = time.Time{}
			continue
		case f.missed.IsZero():
			f.missed = now
		case now.Sub(f.missed) >= renameLimit:
			r.drop(k, path)
		}
		name = path
	}
	return name
}

// gather puts the files of a dataset into its directory, as the part of the first of these ranks. They stay where the program finds them.
func (r *routes) gather(dir string, o control.Gather) (found control.Gathered, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rank := range o.Ranks {
		if err := os.Mkdir(filepath.Join(dir, files.ContentName(rank)), 0o700); err != nil {
			return found, fmt.Errorf("agent: %w", err)
		}
	}
	k := r.keys[o.Key]
	if k == nil {
		return found, nil
	}
	r.lookAt(k)
	if k.given != "" {
		return found, errors.New(k.given)
	}
	if gone := r.gone(k, time.Now()); gone != "" {
		return found, fmt.Errorf("%s is not there any more", gone)
	}
	for path, f := range k.files {
		if f.open {
			return found, fmt.Errorf("%s: %w", path, files.ErrOpen)
		}
		to := filepath.Join(dir, files.ContentName(o.Ranks[0]), path)
		err := os.MkdirAll(filepath.Dir(to), 0o700)
		if err == nil {
			err = os.Link(r.inCache(path), to)
		}
		st, serr := os.Stat(r.inCache(path))
		if err = errors.Join(err, serr); err != nil {
			return found, fmt.Errorf("agent: %w", err)
		}
		found.Bytes, found.Files = found.Bytes+uint64(st.Size()), found.Files+1
	}
	k.of, k.coded, r.largest = o.Checkpoint, false, max(r.largest, int64(found.Bytes))
	r.gathered[o.Checkpoint] = true
	return found, nil
}

// publishing keeps the program from writing to files of a dataset in this directory while they are copied to the prefix, until end is called:
// they have been, or not. It is an error if the program has something else by their names, or has removed them.
func (r *routes) publishing(n uint64, dir string, ranks []int) (end func(done bool), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := map[string]*routedKey{}
	for _, rank := range ranks {
		x, err := files.Open(dir, rank)
		if err != nil {
			return nil, err
		}
		for _, f := range x.Files {
			k := r.keys[r.pattern.Key(f.Path)]
			is, _ := r.look(r.inPrefix(f.Path))
			in := filepath.Join(dir, files.ContentName(rank), f.Path)
			switch {
			case is == ownLink && k != nil && k.files[f.Path] != nil && identical(r.inCache(f.Path), in):
				held[f.Path] = k
			case is == ownLink:
				return nil, fmt.Errorf("%s is being written again", f.Path)
			case r.gathered[n]:
				return nil, fmt.Errorf("%s was removed by the program", f.Path)
			}
		}
	}
	busy := make(chan struct{})
	for _, k := range held {
		k.busy = busy
	}
	return func(done bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for path, k := range held {
			k.busy = nil
			if done {
				delete(k.files, path)
				_ = remove(r.inCache(path)) // else it goes with the start
			}
			if len(k.files) == 0 && r.keys[k.name] == k {
				delete(r.keys, k.name)
			}
		}
		close(busy)
	}, nil
}

func identical(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// of is the dataset of a number, as the program sees it; nil: it does not.
func (r *routes) of(n uint64) *routedKey {
	for _, k := range r.keys {
		if k.of == n && n != 0 {
			return k
		}
	}
	return nil
}

// dropped: a dataset has left the cache, and what the program sees of it goes as well.
func (r *routes) dropped(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.of(n); k != nil {
		r.discard(k)
	}
}

// coded: a dataset has its redundancy.
func (r *routes) coded(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.of(n); k != nil {
		k.coded = true
	}
}

// discarded: what was gathered of a dataset does not count.
func (r *routes) discarded(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.of(n); k != nil {
		k.of = 0
	}
}

// discard removes the files of a dataset that is not wanted any more.
func (r *routes) discard(k *routedKey) {
	for path := range k.files {
		if is, _ := r.look(r.inPrefix(path)); is == ownLink {
			_ = remove(r.inPrefix(path)) // it leads nowhere then
		}
		_ = remove(r.inCache(path))
		delete(k.files, path)
	}
	delete(r.keys, k.name)
}

// release makes the files of a dataset that cannot count files of the prefix, as if they had never been led. Those that are open are told of
// again when they are not.
func (r *routes) release(key string) error {
	r.idle(key)
	defer r.mu.Unlock()
	k := r.keys[key]
	if k == nil {
		return nil
	}
	var errs []error
	for path := range k.files {
		if !r.written(path) {
			errs = append(errs, r.materialize(k, path))
		}
	}
	if len(k.files) == 0 {
		delete(r.keys, key)
	}
	return errors.Join(errs...)
}

// over ends the leading of files, when the program has ended: what is not in the prefix becomes files of it if keep, else it is removed. The
// keys are returned of what is removed and was in no dataset, and whether the cache was full.
func (r *routes) over(keep bool) (removed []string, full string, err error) {
	r.close()
	var kept []string
	r.mu.Lock()
	if !keep {
		full = r.full()
	}
	for name, k := range r.keys {
		if keep {
			kept = append(kept, name)
			continue
		}
		if k.of == 0 && len(k.files) > 0 {
			removed = append(removed, name)
		}
		r.discard(k)
	}
	r.mu.Unlock()
	var errs []error
	for _, name := range kept {
		errs = append(errs, r.release(name))
	}
	return removed, full, errors.Join(errs...)
}

// hearOfRoutes takes in what is ordered of files that are led; false: it is something else.
func (n *Node) hearOfRoutes(m control.Message) bool {
	switch o := m.Body.(type) {
	case control.Claimed:
		if r := n.leading(); r != nil {
			r.ask.answered(o.Number, o.Err)
		}
	case control.GiveUp:
		lead(n, o.Order, func(r *routes) error { return calls{r}.giveUp(o) })
	case control.Release:
		lead(n, o.Order, func(r *routes) error { return r.release(o.Key) })
	case control.Recount:
		lead(n, o.Order, func(r *routes) error {
			r.endedWell()
			return nil
		})
	case control.Unroute:
		n.disk.do(func() { n.moves.do(0, func(context.Context) { unroute(n, m.Start, o) }) }) // what does not count, or was removed, is known then
	case control.Gather:
		n.moves.do(0, func(context.Context) {
			if r := n.leading(); r != nil {
				found, err := r.gather(n.of(Written).Path(o.Checkpoint)+".tmp", o)
				if err == nil {
					found.Order = o.Order
					n.say(control.Message{Start: m.Start, Body: found})
					return
				}
				n.answer(o.Order, err)
				return
			}
			n.answer(o.Order, errLeaving)
		})
	default:
		return false
	}
	return true
}

// unroute ends the leading of files.
func unroute(n *Node, start uint64, o control.Unroute) {
	left := control.Unrouted{Order: o.Order}
	var err error
	if r := n.leading(); r != nil {
		left.Removed, left.Full, err = r.over(o.Keep)
		err = errors.Join(err, n.reroute(0, nil))
	}
	if err != nil {
		n.answer(o.Order, err)
		return
	}
	n.say(control.Message{Start: start, Body: left})
}

// lead does something with the files that are led, and answers.
func lead(n *Node, order uint64, f func(*routes) error) {
	n.moves.do(0, func(context.Context) {
		var err error
		if r := n.leading(); r != nil {
			err = f(r)
		}
		n.answer(order, err)
	})
}

// leading is what leads files of programs; nil: nothing does.
func (n *Node) leading() *routes {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.routes
}

// reroute begins to lead files for a start, and ends to do so for the one before.
func (n *Node) reroute(start uint64, route *control.Route) error {
	n.mu.Lock()
	old := n.routes
	n.routes = nil
	n.mu.Unlock()
	if old != nil {
		old.close()
	}
	if route == nil {
		return nil
	}
	r, err := newRoutes(n, start, *route)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.routes = r
	n.mu.Unlock()
	return nil
}
