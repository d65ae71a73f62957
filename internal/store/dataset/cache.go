package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/store/own"
)

// A node's cache is a store of its own, with the parts of that node alone. The manifest of a checkpoint there says whose part
// it is, and names the files that lie there for other nodes. The names of jobs in it have a piece of their id, since jobs
// of different stores meet in a cache.

// ErrFenced means that who asks belongs to a term of the job that is over.
var ErrFenced = errors.New("a later byssus has run the job")

const idInName = 8 // digits of a job's id in the name of its cache

// CachePath is where a job is in the caches of nodes.
func (s Store) CachePath(meta Meta) string {
	return filepath.Join(s.Dir, meta.Name+"."+meta.ID[:min(len(meta.ID), idInName)])
}

// CacheTerm is the term of the agent that a job's part of a node's cache has had last, 0: there is none.
func (s Store) CacheTerm(meta Meta) uint64 {
	j := &Job{Dir: s.CachePath(meta), ground: s.ground}
	term, err := j.term()
	if err != nil {
		return 0
	}
	return term
}

// Cache opens the part of a node's cache of the job that has the directory home in its store, or makes it, and locks it for the
// agent of this node in a term of the job. It is refused to an agent of an earlier term than one that has been there, and
// while another agent has it: then two nodes have one directory. What jobs have left here that are over is removed.
func (s Store) Cache(meta Meta, term uint64, home string) (*Job, error) {
	weakness, err := s.makeDirs(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("dataset: cache %s: %w", s.Dir, err)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.Clear()
	j := &Job{Dir: s.CachePath(meta), Weak: weakness, ground: s.ground}
	if err := s.disk().Mkdir(j.Dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("dataset: cache: %w", err)
	}
	if err := j.takeFor(func() error { return j.fence(term) }); err != nil {
		return nil, fmt.Errorf("dataset: cache %s, which must be this node's own: %w", j.Dir, err)
	}
	here, err := readMeta(j.Dir)
	switch {
	case errors.Is(err, own.ErrForeign):
	case err == nil && here.ID != meta.ID:
		err = fmt.Errorf("dataset: cache %s: found job %s, wanted %s", j.Dir, here.ID, meta.ID)
	default: // what it says is for people
		j.Meta = meta
		j.Meta.Home = home
		err = j.Save()
	}
	if err != nil {
		j.Unlock()
		return nil, err
	}
	return j, nil
}

// Clear removes what jobs have left in a cache that are over: whose store says that they have finished, or knows them no more.
// What cannot be told, or not be removed, stays.
func (s Store) Clear() {
	names, _ := s.Jobs() // none when they cannot be listed
	for _, name := range names {
		j := &Job{Dir: filepath.Join(s.Dir, name), ground: s.ground}
		meta, err := readMeta(j.Dir)
		if err != nil || !meta.over() || own.Dir(j.Dir) != nil {
			continue
		}
		if j.takeFor(func() error { return nil }) == nil { // nobody uses it
			_ = j.Remove()
			j.Unlock()
		}
	}
}

// over says whether a job whose part of a cache has this will never need it.
func (m *Meta) over() bool {
	if m.Home == "" {
		return false
	}
	if st, err := os.Stat(filepath.Dir(m.Home)); err != nil || !st.IsDir() {
		return false // the store may be away
	}
	there, err := readMeta(m.Home)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	return err == nil && (there.ID != m.ID || there.State == StateFinished)
}

// fence makes sure that no agent of an earlier term gets in here any more.
func (j *Job) fence(term uint64) error {
	now, err := j.term()
	if err != nil {
		return err
	}
	if now > term {
		return fenced(now, term)
	}
	if now < term {
		err = j.advance(now, term)
	}
	if err == nil {
		now, err = j.term()
	}
	switch {
	case err != nil:
		return err
	case now > term: // it has come meanwhile
		return fenced(now, term)
	}
	j.Term = term
	return j.settle()
}

func fenced(found, term uint64) error {
	return fmt.Errorf("found term %d, wanted at most %d: %w", found, term, ErrFenced)
}

// RecreateTemp makes the directory for files of a checkpoint that has been committed, and are made again from what other nodes have.
func (j *Job) RecreateTemp(n uint64) (string, error) {
	dir := j.Path(n) + ".tmp"
	if err := j.makeNew(dir); err != nil {
		return "", fmt.Errorf("dataset: checkpoint %d: %w", n, err)
	}
	return dir, nil
}

func (j *Job) has(n uint64) bool {
	_, err := os.Lstat(j.Path(n))
	return err == nil
}

// add puts what was made again to what is there. The manifest, which comes last, makes it count.
func (j *Job) add(n uint64, m *Manifest) error {
	from, to := j.Path(n)+".tmp", j.Path(n)
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		made, old := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if err == nil && e.IsDir() { // a directory does not take the place of another by itself
			err = j.disk().RemoveAll(old)
		}
		if err == nil {
			err = j.disk().Rename(made, old)
		}
	}
	if err == nil && len(entries) > 0 {
		err = j.syncNames(to) // before a manifest says that they are there
	}
	if err == nil {
		err = j.writeManifest(to, m)
	}
	if err == nil {
		err = j.disk().Remove(from)
	}
	if err != nil {
		return fmt.Errorf("dataset: commit checkpoint %d: %w", n, err)
	}
	return nil
}

// Abort removes a checkpoint of which nobody was told that it counts, whatever there is of it.
func (j *Job) Abort(n uint64) error {
	return errors.Join(j.Discard(n), j.Drop(n))
}
