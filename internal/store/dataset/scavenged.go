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

func (j *Job) scavenged() string { return filepath.Join(j.Dir, "scavenged") }

// Scavenged lists what was copied from the caches of nodes, each like a cache; by the names of the nodes.
func (j *Job) Scavenged() ([]*Job, error) {
	entries, err := os.ReadDir(j.scavenged())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = own.Dir(j.scavenged())
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: job %s: %w", filepath.Base(j.Dir), err)
	}
	var list []*Job
	for _, e := range entries {
		from := &Job{Dir: filepath.Join(j.scavenged(), e.Name()), Meta: j.Meta, ground: j.ground}
		if own.Dir(from.Dir) == nil {
			list = append(list, from)
		}
	}
	return list, nil
}

// Scavenge makes the place for what a node's cache has.
func (j *Job) Scavenge(node string) (*Job, error) {
	to := &Job{Stream: j.Stream, Dir: filepath.Join(j.scavenged(), node), Meta: j.Meta, ground: j.ground}
	if filepath.Base(to.Dir) != node {
		return nil, fmt.Errorf("dataset: node %q: wanted a name without /", node)
	}
	for _, dir := range []string{j.scavenged(), to.Dir} {
		err := j.disk().Mkdir(dir)
		if errors.Is(err, fs.ErrExist) {
			err = own.Dir(dir)
		}
		if err == nil { // who has made it may not have come to that
			err = j.syncNames(filepath.Dir(dir))
		}
		if err != nil {
			return nil, fmt.Errorf("dataset: job %s: %w", filepath.Base(j.Dir), err)
		}
	}
	return to, nil
}

// RemoveScavenged removes all of that.
func (j *Job) RemoveScavenged() error { return j.removeAll(j.scavenged()) }

// ErrOver means that a job needs nothing of its caches any more, or that somebody else has it.
var ErrOver = errors.New("the job is not this byssus's any more")

// Left says whether a job that was run in a term waits for somebody who goes on with it: with ErrOver when it never will again,
// with ErrLocked while that byssus has it, which may be about to end.
func (j *Job) Left(term uint64) error {
	meta, err := readMeta(j.Dir)
	if _, serr := os.Stat(filepath.Dir(j.Dir)); serr == nil && errors.Is(err, fs.ErrNotExist) { // else the store may be away
		err = fmt.Errorf("%w: %w", err, ErrOver)
	}
	if err != nil {
		return err
	}
	now, err := j.term()
	switch {
	case err != nil:
		return err
	case meta.ID != j.Meta.ID:
		return fmt.Errorf("dataset: job %s: found job %s, wanted %s: %w", j.Meta.Name, meta.ID, j.Meta.ID, ErrOver)
	case now > term:
		return fmt.Errorf("dataset: job %s: found term %d, wanted %d: %w", j.Meta.Name, now, term, ErrOver)
	case meta.State == StateFinished:
		return fmt.Errorf("dataset: job %s has finished: %w", j.Meta.Name, ErrOver)
	case j.Locked():
		return fmt.Errorf("dataset: job %s: %w", j.Meta.Name, ErrLocked)
	}
	return nil
}

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

// AwaitScavenging returns when nothing is being copied from caches, or has not grown for so long.
func (j *Job) AwaitScavenging(patience time.Duration) error {
	tick := time.NewTicker(patience / 20)
	defer tick.Stop()
	for last, since := int64(-1), time.Now(); time.Since(since) < patience; {
		size, err := j.scavenging()
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

// scavenging is how much there is of what is being copied from caches, -1: nothing is.
func (j *Job) scavenging() (int64, error) {
	parts, err := j.Scavenged()
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
