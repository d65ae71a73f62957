package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/host/rundir"
)

// A sandbox's directory is <run directory>/sandboxes/<name>, 0700, with
//
//	lock          locked by the creator, and by the hub from birth to death (one open file, which it inherits)
//	sandbox.json  record; ready is set when all nodes are up
//	hub           the hub's socket
//	log           what hub and nodes say when they fail
//	prefix/       the shared directory, unless another was asked for
//
// Directories are made and removed only under the lock of sandboxes/.lock, held for moments. So a directory whose own
// lock is free belongs to nobody: not complete, it is what a creator that was killed has left, and is removed by whoever
// meets it; complete, its hub was killed, and it stays for its prefix until it is destroyed.

// A record is what sandbox.json says.
type record struct {
	Name    string    `json:"name"`
	Nodes   int       `json:"nodes"`
	Spares  int       `json:"spares"`
	Prefix  string    `json:"prefix"`
	Cgroup  string    `json:"cgroup,omitempty"` // below which the nodes' are; empty: none could be made
	Limits  string    `json:"limits,omitempty"` // the same, of version 1: limits of memory; empty: the others have them, or there are none
	Created time.Time `json:"created"`
	Ready   bool      `json:"ready"`
}

// maxSocketPath is the longest path that a unix socket may have.
const maxSocketPath = 107

// A place is the directory of one sandbox, with its lock when we hold it.
type place struct {
	dir  string
	lock *os.File
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }
func (p *place) socket() string          { return p.path("hub") }
func (p *place) prefix() string          { return p.path("prefix") }

// bases are the directories of sandboxes that are there and ours.
func bases() []string {
	var ours []string
	for _, base := range append(rundir.Bases(), rundir.Strange()...) {
		dir := filepath.Join(base, "sandboxes")
		if rundir.Check(base) == nil && rundir.Check(dir) == nil {
			ours = append(ours, dir)
		}
	}
	return ours
}

// makeBase makes the directory of sandboxes in the first place that can be ours alone.
func makeBase() (string, error) {
	var all []error
	for _, base := range append(rundir.Bases(), rundir.Strange()...) {
		dir, err := baseIn(base)
		if err == nil {
			return dir, nil
		}
		all = append(all, err)
	}
	base, err := rundir.MakeStrange()
	if err == nil {
		base, err = baseIn(base)
	}
	if err != nil {
		return "", fmt.Errorf("sandbox: no directory for it: %w", errors.Join(append(all, err)...))
	}
	return base, nil
}

// baseIn makes the directory of sandboxes in a run directory.
func baseIn(base string) (string, error) {
	dir := filepath.Join(base, "sandboxes")
	if err := rundir.Make(base); err != nil {
		return "", err
	}
	return dir, rundir.Make(dir)
}

// held does something under the lock of a directory of sandboxes.
func held(base string, do func() error) error {
	lock, err := os.OpenFile(filepath.Join(base, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	defer lock.Close()
	if err := flock(lock, unix.LOCK_EX); err != nil {
		return err
	}
	return do()
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return fmt.Errorf("sandbox: lock %s: %w", f.Name(), err)
		}
	}
}

// find looks for a sandbox by name. One that nobody has completed and nobody holds is removed, and not found.
func find(name string) (*place, record, error) {
	if err := CheckName(name); err != nil {
		return nil, record{}, err
	}
	for _, base := range bases() {
		p := &place{dir: filepath.Join(base, name)}
		if _, err := os.Lstat(p.dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r, err := p.look()
		if err == nil || !errors.Is(err, ErrNone) {
			return p, r, err
		}
	}
	return nil, record{}, fmt.Errorf("sandbox: sandbox %s: %w", name, ErrNone)
}

// look reads the record of a sandbox, and removes what a creator that was killed has left.
func (p *place) look() (record, error) {
	r, err := p.read()
	if err == nil && r.Ready {
		return r, nil
	}
	err = held(filepath.Dir(p.dir), func() error {
		switch err := p.acquire(); {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		defer p.release()
		if r, err = p.read(); err == nil && r.Ready { // completed meanwhile, and its hub has been killed
			return nil
		}
		if err := p.remove(r); err != nil {
			return err
		}
		return fmt.Errorf("sandbox: sandbox %s: %w", filepath.Base(p.dir), ErrNone)
	})
	return r, err
}

// acquire takes the lock of a sandbox. unix.EAGAIN: a creator or a hub has it.
func (p *place) acquire() error {
	lock, err := os.OpenFile(p.path("lock"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := flock(lock, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return err
	}
	p.lock = lock
	return nil
}

// await is acquire for a sandbox whose hub has been killed: it hears nobody any longer, and has its lock until it has ended.
func (p *place) await() error {
	lock, err := os.OpenFile(p.path("lock"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	taken := make(chan error, 1)
	go func() { taken <- flock(lock, unix.LOCK_EX) }()
	select {
	case err = <-taken:
	case <-time.After(hang): // who waits on has the file
		return fmt.Errorf("sandbox: sandbox %s: its first process was killed, and does not end: %w", filepath.Base(p.dir), os.ErrDeadlineExceeded)
	}
	if err != nil {
		lock.Close()
		return err
	}
	p.lock = lock
	return nil
}

func (p *place) release() {
	if p.lock != nil {
		p.lock.Close()
		p.lock = nil
	}
}

// reserve makes the directory of a new sandbox and locks it.
func reserve(name string) (*place, error) {
	base, err := makeBase()
	if err != nil {
		return nil, err
	}
	p := &place{dir: filepath.Join(base, name)}
	if len(p.socket()) > maxSocketPath {
		return nil, fmt.Errorf("sandbox: %s: path of %d bytes, at most %d for a socket (set XDG_RUNTIME_DIR): %w", p.socket(), len(p.socket()), maxSocketPath, ErrOption)
	}
	if _, _, err := find(name); !errors.Is(err, ErrNone) {
		if err == nil {
			err = fmt.Errorf("sandbox: create %s: %w", name, ErrExists)
		}
		return nil, err
	}
	err = held(base, func() error {
		if err := os.Mkdir(p.dir, 0o700); err != nil {
			if errors.Is(err, fs.ErrExist) {
				err = ErrExists
			}
			return fmt.Errorf("sandbox: create %s: %w", name, err)
		}
		lock, err := os.OpenFile(p.path("lock"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("sandbox: create %s: %w", name, err)
		}
		p.lock = lock
		return flock(lock, unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

func (p *place) read() (record, error) {
	var r record
	text, err := os.ReadFile(p.path("sandbox.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return record{}, fmt.Errorf("sandbox: record: %w", err)
	}
	return r, nil
}

// write replaces the record.
func (p *place) write(r record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(p.path("sandbox.json.new"), append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(p.path("sandbox.json.new"), p.path("sandbox.json"))
	}
	if err != nil {
		return fmt.Errorf("sandbox: record: %w", err)
	}
	return nil
}

// remove removes all of a sandbox whose processes are gone. The record goes last, so that what fails can be tried again.
func (p *place) remove(r record) error {
	if err := errors.Join(removeCgroups(r.Cgroup), removeLimits(r.Limits)); err != nil {
		return err
	}
	entries, err := os.ReadDir(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sandbox: remove: %w", err)
	}
	for _, e := range entries {
		if e.Name() == "sandbox.json" {
			continue
		}
		if err := removeTree(p.path(e.Name())); err != nil {
			return fmt.Errorf("sandbox: remove: %w", err)
		}
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("sandbox: remove: %w", err)
	}
	return nil
}

// removeTree removes a tree, also where its directories are read-only.
func removeTree(path string) error {
	err := os.RemoveAll(path)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error { // what cannot be changed fails below
		if d != nil && d.IsDir() && err == nil {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

// awaitRemoval returns when somebody has removed the socket, or the directory around it.
func (p *place) awaitRemoval() error {
	for range time.Tick(time.Second) {
		if _, err := os.Lstat(p.socket()); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("its directory was removed: %w", err)
		}
	}
	return nil
}
