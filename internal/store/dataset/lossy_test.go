package dataset

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// lossy is a disk that fails when it is told to, and knows what is left below a directory when power is lost. A name lasts when its
// directory was synced while it was there, what a file holds as it was when the file was last synced.
type lossy struct {
	system
	t      *testing.T
	root   string
	nodes  map[uint64]*node // by inode
	newest []change         // what the last operation has changed
	count  int              // of operations
	fail   func(o op) error // nil: none fails
	after  func(o op)       // nil: nothing
}

// op is an operation on a disk.
type op struct {
	number int // from 1 on
	name   string
	path   string // below the root
	dir    bool   // of a sync
}

// String is what tests say of it.
func (o op) String() string { return fmt.Sprintf("operation %d, %s %s", o.number, o.name, o.path) }

// node is what lasts of a file or a directory.
type node struct {
	dir     bool
	names   map[string]*node
	content []byte
}

// change is what becomes of a name.
type change struct {
	dir  *node
	name string
	to   *node // nil: there is none
}

func newLossy(t *testing.T) *lossy {
	return &lossy{t: t, root: inMemory(t), nodes: map[uint64]*node{}}
}

// inMemory makes a directory for many small files, in memory where there is some for files.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "byssus-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// do does an operation, and notes which names it has changed.
func (l *lossy) do(o op, perform func() ([]change, error)) error {
	l.count++
	o.number, o.path = l.count, strings.TrimPrefix(o.path, l.root)
	if l.fail != nil {
		if err := l.fail(o); err != nil {
			return err
		}
	}
	changes, err := perform()
	if err != nil {
		return err
	}
	l.newest = changes
	if l.after != nil {
		l.after(o)
	}
	return nil
}

func (l *lossy) made(path string, err error) ([]change, error) {
	if err != nil {
		return nil, err
	}
	return []change{{l.node(filepath.Dir(path)), filepath.Base(path), l.node(path)}}, nil
}

func (l *lossy) Mkdir(path string) error {
	return l.do(op{name: "mkdir", path: path}, func() ([]change, error) { return l.made(path, l.system.Mkdir(path)) })
}

func (l *lossy) Create(path string) (f *os.File, err error) {
	err = l.do(op{name: "create", path: path}, func() ([]change, error) {
		f, err = l.system.Create(path)
		return l.made(path, err)
	})
	return f, err
}

func (l *lossy) Rename(from, to string) error { return l.rename(from, to, l.system.Rename) }

func (l *lossy) RenameNew(from, to string) error { return l.rename(from, to, l.system.RenameNew) }

func (l *lossy) rename(from, to string, perform func(from, to string) error) error {
	return l.do(op{name: "rename", path: from}, func() ([]change, error) {
		l.forget(to)
		changes, err := l.made(to, perform(from, to))
		return append(changes, change{l.node(filepath.Dir(from)), filepath.Base(from), nil}), err
	})
}

func (l *lossy) Remove(path string) error {
	return l.do(op{name: "remove", path: path}, func() ([]change, error) { return l.forget(path), l.system.Remove(path) })
}

func (l *lossy) RemoveAll(path string) error {
	return l.do(op{name: "remove all", path: path}, func() ([]change, error) { return l.forget(path), l.system.RemoveAll(path) })
}

// Sync leaves the real disk alone: that would take long.
func (l *lossy) Sync(f *os.File) error {
	path := f.Name()
	if !strings.HasPrefix(path, l.root) { // what is above lasts
		return l.do(op{name: "sync", path: path, dir: true}, func() ([]change, error) { return nil, nil })
	}
	n := l.node(path)
	return l.do(op{name: "sync", path: path, dir: n.dir}, func() (_ []change, err error) {
		if !n.dir {
			n.content, err = os.ReadFile(path)
			return nil, err
		}
		entries, err := os.ReadDir(path)
		n.names = map[string]*node{}
		for _, e := range entries {
			n.names[e.Name()] = l.node(filepath.Join(path, e.Name()))
		}
		return nil, err
	})
}

// node is that of what has a name now.
func (l *lossy) node(path string) *node {
	st, err := os.Lstat(path)
	if err != nil {
		l.t.Fatal(err)
	}
	ino := st.Sys().(*syscall.Stat_t).Ino
	if l.nodes[ino] == nil {
		l.nodes[ino] = &node{dir: st.IsDir()}
	}
	return l.nodes[ino]
}

// forget makes ready for something to be removed, with all in it: what comes next may have its inode.
func (l *lossy) forget(path string) (gone []change) {
	var inodes []uint64
	_ = filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			gone = append(gone, change{l.node(filepath.Dir(path)), filepath.Base(path), nil})
			inodes = append(inodes, inode(l.t, path))
		}
		return nil // it may not be there
	})
	for _, ino := range inodes {
		delete(l.nodes, ino)
	}
	return gone
}

// kept is what a loss of power leaves of names that were not synced. A disk may leave any of them.
type kept string

const (
	noNames    kept = "no name that was not synced"
	newestName kept = "but the newest no name that was not synced"
	allNames   kept = "all names"
)

// left makes a directory with what a loss of power leaves.
func (l *lossy) left(k kept) string {
	to := inMemory(l.t)
	if k == newestName {
		for _, c := range l.newest {
			before := c.dir.names
			defer func() { c.dir.names = before }()
			c.dir.names = maps.Collect(maps.All(before)) // not nil
			if delete(c.dir.names, c.name); c.to != nil {
				c.dir.names[c.name] = c.to
			}
		}
	}
	var err error
	if k == allNames {
		err = l.leaveAll(to)
	} else {
		err = l.node(l.root).leave(to)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return to
}

func (l *lossy) leaveAll(to string) error {
	return filepath.WalkDir(l.root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == l.root {
			return err
		}
		return l.node(path).make(to + path[len(l.root):])
	})
}

func (n *node) leave(to string) error {
	for name, child := range n.names {
		path := filepath.Join(to, name)
		err := child.make(path)
		if err == nil {
			err = child.leave(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *node) make(path string) error {
	if n.dir {
		return os.Mkdir(path, 0o700)
	}
	return os.WriteFile(path, n.content, 0o600)
}
