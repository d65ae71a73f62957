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
	term, err := s.at(s.CachePath(meta)).terms().now()
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
	j := s.at(s.CachePath(meta))
	j.Weak = weakness
	if err := s.disk().Mkdir(j.Dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("dataset: cache: %w", err)
	}
	if err := j.takeFor(func() (held uint64, weakness, err error) { return j.terms().fence(term) }); err != nil {
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
		j := s.at(filepath.Join(s.Dir, name))
		meta, err := readMeta(j.Dir)
		if err != nil || !meta.over() || own.Dir(j.Dir) != nil {
			continue
		}
		if j.takeFor(func() (term uint64, weakness, err error) { return 0, nil, nil }) == nil { // nobody uses it
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
