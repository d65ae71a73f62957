package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/own"
)

// When byssus is gone, with its node or without, what the caches of the nodes have is copied to <job>/scavenged/<node>/, as it
// lies in them: with what each node keeps for others, so that also what was lost with some can be made again from there. It
// counts as checkpoints of the job when the next byssus has put it together.

// Scavenged is what was copied from the caches of a job's nodes.
type Scavenged struct {
	dir string // of all of it
	of  Record // of the job
}

// Scavenged is what was copied from the caches of the job's nodes, if anything was.
func (j *Job) Scavenged() Scavenged { return Scavenged{filepath.Join(j.Dir, "scavenged"), j.Record} }

// Parts lists what was copied of each node, which is like its cache; by the names of the nodes.
func (s Scavenged) Parts() ([]*Job, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = own.Dir(s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: job %s: %w", filepath.Base(s.of.Dir), err)
	}
	var list []*Job
	for _, e := range entries {
		from := s.part(e.Name())
		if own.Dir(from.Dir) == nil {
			list = append(list, from)
		}
	}
	return list, nil
}

// Place makes the place for what a node's cache has.
func (s Scavenged) Place(node string) (*Job, error) {
	to := s.part(node)
	if filepath.Base(to.Dir) != node {
		return nil, fmt.Errorf("dataset: node %q: wanted a name without /", node)
	}
	for _, dir := range []string{s.dir, to.Dir} {
		err := s.of.disk().Mkdir(dir)
		if errors.Is(err, fs.ErrExist) {
			err = own.Dir(dir)
		}
		if err == nil { // who has made it may not have come to that
			err = s.of.syncNames(filepath.Dir(dir))
		}
		if err != nil {
			return nil, fmt.Errorf("dataset: job %s: %w", filepath.Base(s.of.Dir), err)
		}
	}
	return to, nil
}

// part is what was copied of a node, or is to be.
func (s Scavenged) part(node string) *Job {
	return &Job{Record: Record{Dir: filepath.Join(s.dir, node), Meta: s.of.Meta, ground: s.of.ground}}
}

// Remove removes all of it.
func (s Scavenged) Remove() error { return s.of.removeAll(s.dir) }

// Contents lists the files of a checkpoint but its manifest.
func Contents(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != manifestName {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Await returns when nothing is being copied from caches, or has not grown for so long.
func (s Scavenged) Await(patience time.Duration) error {
	tick := time.NewTicker(patience / 20)
	defer tick.Stop()
	for last, since := int64(-1), time.Now(); time.Since(since) < patience; {
		size, err := s.growing()
		switch {
		case err != nil || size < 0:
			return err
		case size != last:
			last, since = size, time.Now()
		}
		<-tick.C
	}
	return nil
}

// growing is how much there is of what is being copied from caches, -1: nothing is.
func (s Scavenged) growing() (int64, error) {
	parts, err := s.Parts()
	size := int64(-1)
	for _, from := range parts {
		entries, _ := os.ReadDir(from.Dir) // it may have been removed
		for _, e := range entries {
			if p, ok := parseDir(e.Name()); !ok || p.state != "tmp" {
				continue
			}
			size = max(size, 0)
			files, _ := os.ReadDir(filepath.Join(from.Dir, e.Name())) // it may have been completed
			for _, f := range files {
				if st, err := f.Info(); err == nil {
					size += 1 + st.Size()
				}
			}
		}
	}
	return size, err
}
