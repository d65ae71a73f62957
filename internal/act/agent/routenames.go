package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/act/control"
	"github.com/byssus-hpc/byssus/internal/host/notify"
)

// rename answers the renaming and linking of files, which are led by their names.
func (r calls) rename(c *notify.Call) {
	if c.Op == notify.Rename && r.renameTree(c) {
		return
	}
	from, key := r.below(c.From)
	to, wanted := r.below(c.To)
	r.idle(key, wanted)
	is, link := r.look(c.From.Path())
	if is == foreignLink && key != "" && !r.closed {
		r.mu.Unlock()
		r.renameElsewhere(c, from, link)
		return
	}
	defer r.mu.Unlock()
	k := r.keys[key]
	var err error
	switch {
	case is != ownLink || key == "" || r.closed:
		linked := c.Op == notify.Link && (is != otherLink || c.Flags&unix.AT_SYMLINK_FOLLOW != 0)
		if wanted != "" && (regular(c.From.Path()) || linked) {
			r.spoil(wanted, unknown(to, c.From.Base))
		}
		c.Continue()
		return
	case k == nil || k.files[from] == nil:
		err = unix.EIO
	default:
		if err = possible(c); err == nil {
			err = r.place(k, from, c.To.Path(), c.Op == notify.Link)
		}
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Return()
}

// unknown says of a file that it has got a name of the pattern, but was written by one that the pattern does not have.
func unknown(name, before string) string {
	return fmt.Sprintf("%s is written by another name, which the pattern does not have: %s", name, before)
}

// symlink makes a file of what would be a link into a cache: a program that copies links as such, as cp -a does, has taken that of a file that
// is led for one of its own.
func (r calls) symlink(c *notify.Call) {
	text := filepath.Clean(c.Text)
	from := r.named(notify.Name{Dir: filepath.Dir(text), Base: filepath.Base(text)})
	if rest, ok := strings.CutPrefix(from.Path(), filepath.Dir(r.dir)+"/"); ok { // <node>/<path>
		_, path, _ := strings.Cut(rest, "/")
		from.Dir = filepath.Dir(r.inPrefix(path))
	}
	_, key := r.below(from)
	if !filepath.IsAbs(text) || key == "" || from.Path() == text {
		c.Continue()
		return
	}
	if c.Op, c.From = notify.Link, from; !regular(from.Path()) {
		r.rename(c)
		return
	}
	err := possible(c) // it has been copied to the prefix meanwhile
	if err == nil {
		err = copyTo(from.Path(), c.To.Path())
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Return()
}

// possible says why a file that is led cannot be renamed or linked so.
func possible(c *notify.Call) error {
	switch {
	case c.Op == notify.Rename && c.Flags&^unix.RENAME_NOREPLACE != 0:
		return unix.EINVAL // as file systems answer that do not have it
	case (c.Op == notify.Link || c.Flags != 0) && exists(c.To.Path()):
		return unix.EEXIST
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// place gives a file of the cache another name, or a second one that is a file of its own.
func (r calls) place(k *routedKey, from, at string, second bool) error {
	to, wanted := r.below(notify.Name{Dir: filepath.Dir(at), Base: filepath.Base(at)})
	switch {
	case from == to:
		return nil
	case (second || wanted == "") && r.written(from):
		return unix.ETXTBSY // what is written from now on would not come there
	case second && wanted == "":
		return copyTo(r.inCache(from), at)
	case wanted == "":
		return r.moveOut(k, from, at)
	}
	return r.move(k, from, to, wanted, second)
}

// moveOut makes a file of the cache one of the prefix, whose name the pattern does not have.
func (r calls) moveOut(k *routedKey, from, at string) error {
	if err := copyTo(r.inCache(from), at); err != nil {
		return err
	}
	err := remove(r.inPrefix(from))
	r.drop(k, from)
	return err
}

// move gives a file of the cache another name, there and in the prefix; second: it keeps the one that it has.
func (r calls) move(k *routedKey, from, to, wanted string, second bool) error {
	if old := r.keys[wanted]; old != nil && old.files[to] != nil {
		delete(old.files, to)
	}
	err := os.MkdirAll(filepath.Dir(r.inCache(to)), 0o700)
	if err == nil {
		err = r.note(filepath.Dir(to))
	}
	switch {
	case err != nil:
	case second:
		err = copyTo(r.inCache(from), r.inCache(to))
	default:
		err = os.Rename(r.inCache(from), r.inCache(to))
	}
	if err == nil {
		err = replace(r.inCache(to), r.inPrefix(to))
	}
	if err == nil && !second {
		err = remove(r.inPrefix(from))
	}
	if err != nil {
		return err
	}
	if second {
		r.key(wanted).files[to] = &routedFile{}
	} else {
		r.key(wanted).files[to] = k.files[from]
		k.of = 0
	}
	r.keys[wanted].of = 0
	r.changed(r.keys[wanted])
	switch {
	case second:
	case k.name != wanted:
		r.drop(k, from)
	default:
		delete(k.files, from)
		r.changed(k)
	}
	return nil
}

// renameElsewhere has another node rename or link its file, for a program of this one.
func (r calls) renameElsewhere(c *notify.Call, from, link string) {
	err := possible(c)
	if err == nil && !r.claim(control.Claim{Path: from, Link: link, To: c.To.Path(), Copy: c.Op == notify.Link}) {
		err = unix.EIO
	}
	is, _ := r.look(c.From.Path())
	switch {
	case err != nil:
		c.Fail(err)
	case is == entry: // it has come into the prefix meanwhile
		if to, wanted := r.below(c.To); wanted != "" {
			r.mu.Lock()
			r.spoil(wanted, fmt.Sprintf("%s has got this name when it was in the prefix already", to))
			r.mu.Unlock()
		}
		c.Continue()
	default:
		c.Return()
	}
}

// led is a link in a directory that is renamed.
type led struct{ path, link string }

// renameTree renames a directory, and what is led below it with it; false: it is none, or nothing is.
func (r calls) renameTree(c *notify.Call) bool {
	from, to := c.From.Path(), c.To.Path()
	if !strings.HasPrefix(from, r.prefix+"/") || !directory(from) {
		return false
	}
	links, plain := r.ledBelow(from, to)
	if len(links) == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if key := plain; key != "" && !r.closed {
			r.spoil(key, unknown(c.To.Base, c.From.Base))
		}
		return false
	}
	var keys []string
	for _, l := range links {
		keys = append(keys, r.pattern.Key(l.path))
	}
	r.idle(keys...)
	elsewhere, err := r.renameOwn(c, links)
	r.mu.Unlock()
	for _, l := range elsewhere {
		at := to + strings.TrimPrefix(r.inPrefix(l.path), from)
		if err == nil && !r.claim(control.Claim{Path: l.path, Link: l.link, To: at}) {
			err = unix.EIO
		}
	}
	if err != nil {
		c.Fail(err)
	} else {
		c.Return()
	}
	return true
}

func directory(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.IsDir()
}

// ledBelow is what is led in a directory, and the key of a file that is not, but would be by the directory's other name.
func (r calls) ledBelow(from, to string) (links []led, plain string) {
	_ = filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // nobody can make anything there
		}
		if is, link := r.look(path); e.Type()&fs.ModeSymlink != 0 && (is == ownLink || is == foreignLink) {
			links = append(links, led{strings.TrimPrefix(path, r.prefix+"/"), link})
		} else if at, ok := strings.CutPrefix(to+strings.TrimPrefix(path, from), r.prefix+"/"); ok && plain == "" && e.Type().IsRegular() {
			plain = r.pattern.Key(at)
		}
		return nil
	})
	return links, plain
}

// renameOwn renames a directory, and what of it is in this cache. It returns what is in others.
func (r calls) renameOwn(c *notify.Call, links []led) (elsewhere []led, err error) {
	from, to := c.From.Path(), c.To.Path()
	at := func(l led) string { return to + strings.TrimPrefix(r.inPrefix(l.path), from) }
	if c.Flags&^unix.RENAME_NOREPLACE != 0 {
		return nil, unix.EINVAL
	}
	for _, l := range links {
		new, ok := strings.CutPrefix(at(l), r.prefix+"/")
		switch {
		case ok && r.pattern.Key(new) != "":
			if err := r.note(filepath.Dir(new)); err != nil {
				return nil, err
			}
		case r.written(l.path):
			return nil, unix.ETXTBSY
		}
	}
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, uint(c.Flags)); err != nil {
		return nil, err
	}
	var errs []error
	for _, l := range links {
		switch k := r.keys[r.pattern.Key(l.path)]; {
		case l.link != r.inCache(l.path):
			elsewhere = append(elsewhere, l)
		case k == nil || k.files[l.path] == nil:
			errs = append(errs, unix.EIO)
		default:
			errs = append(errs, r.place(k, l.path, at(l), false))
		}
	}
	return elsewhere, errors.Join(errs...)
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

// claim has another node put a file into the prefix that a program of this one wants to write to as well, or rename it. false: it has been
// refused.
func (r calls) claim(what control.Claim) bool {
	number, answer := r.ask.begin()
	what.Number = number
	r.say(control.Message{Start: r.start, Body: what})
	return <-answer == ""
}
