package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

// Datasets are the datasets of one stream of a job; those of stream 0 are its checkpoints. Each is written to a directory that counts for
// nothing, is made to count by Commit, and counts until Drop. They keep the job's record as it was when they were asked for, and change
// nothing in themselves: any goroutine may use them, whatever becomes of the Job meanwhile.
type Datasets struct {
	Meta   Meta
	Stream holding.Stream
	dir    string // of the job
	faults *faults.Set
	ground
}

// Path is the directory of a committed dataset.
func (d *Datasets) Path(n uint64) string {
	return filepath.Join(d.dir, place{stream: d.Stream, n: n}.base())
}

// Called is how a dataset is called in messages.
func (d *Datasets) Called(n uint64) string {
	if d.Stream == 0 {
		return fmt.Sprintf("checkpoint %d", n)
	}
	return fmt.Sprintf("dataset %d", n)
}

// place is what becomes of a directory of a dataset: empty, it counts; tmp, it is being written; drop, it is being removed.
type place struct {
	stream holding.Stream
	n      uint64
	state  string
}

// base is the name of such a directory.
func (p place) base() string {
	name := fmt.Sprintf("ckpt.%06d", p.n)
	if p.stream != 0 {
		name = fmt.Sprintf("stream%d.%06d", p.stream, p.n)
	}
	if p.state != "" {
		name += "." + p.state
	}
	return name
}

// parseDir reads the name of a directory of a dataset.
func parseDir(name string) (place, bool) {
	var p place
	prefix, rest, ok := strings.Cut(name, ".")
	if digits, other := strings.CutPrefix(prefix, "stream"); other {
		s, err := strconv.ParseUint(digits, 10, 16)
		p.stream, ok = holding.Stream(s), ok && err == nil
	}
	digits, state, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(digits, 10, 63)
	p.n, p.state = n, state
	return p, ok && err == nil && n > 0 && (state == "" || state == "tmp" || state == "drop") && p.base() == name
}

// List lists the committed datasets of the store, ascending, also those of an earlier job of this name. ErrNoJob: it
// was removed meanwhile, even if there is one of its name again.
func (d *Datasets) List() ([]uint64, error) {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dataset: %s: %w", d.Meta.Name, ErrNoJob)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: job %s: %w", d.Meta.Name, err)
	}
	var list []uint64
	for _, e := range entries {
		if p, ok := parseDir(e.Name()); ok && p.state == "" && p.stream == d.Stream {
			list = append(list, p.n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// Own lists the committed datasets of this job, ascending, also those that are damaged: not those that are known to
// be of an earlier job of this name.
func (d *Datasets) Own() ([]uint64, error) {
	all, err := d.List()
	return slices.DeleteFunc(all, func(n uint64) bool {
		m, err := ReadManifest(d.Path(n))
		return err == nil && m.ID != d.Meta.ID
	}), err
}

// Newest are the newest of Own, of each group that makes snapshots, and of all else ("").
func (d *Datasets) Newest() (map[string]uint64, error) {
	all, err := d.Own()
	newest := map[string]uint64{}
	for _, n := range all { // ascending
		newest[d.Group(n)] = n
	}
	return newest, err
}

// Group is the group of which a dataset is a snapshot; empty: of none, or it cannot be read.
func (d *Datasets) Group(n uint64) string {
	if m, err := ReadManifest(d.Path(n)); err == nil && m.Label != nil {
		return m.Label.Group(n)
	}
	return ""
}

// Gone says whether a checkpoint that could not be read has been dropped meanwhile.
func (d *Datasets) Gone(n uint64) bool {
	_, err := os.Lstat(d.Path(n))
	return errors.Is(err, fs.ErrNotExist)
}

// Prepare makes the directory for a checkpoint and returns its path. The number counts as used from here on.
func (d *Datasets) Prepare(n uint64) (string, error) {
	if err := d.markLast(n); err != nil {
		return "", err
	}
	return d.RecreateTemp(n)
}

// Bring makes the directory for the copy of a checkpoint that counts elsewhere. Its number may be smaller than others that have
// been used: what was begun after it may have come to nothing.
func (d *Datasets) Bring(n uint64) error {
	err := d.Use(n)
	if err == nil {
		_, err = d.RecreateTemp(n)
	}
	return err
}

// RecreateTemp makes the directory for files of a checkpoint that has been committed, and are made again from what other nodes have.
func (d *Datasets) RecreateTemp(n uint64) (string, error) {
	dir := d.Path(n) + ".tmp"
	if err := d.makeNew(dir); err != nil {
		return "", fmt.Errorf("dataset: checkpoint %d: %w", n, err)
	}
	return dir, nil
}

// Discard removes what was written for a checkpoint that does not count.
func (d *Datasets) Discard(n uint64) error { return d.removeAll(d.Path(n) + ".tmp") }

// Drop removes a committed checkpoint, if it is there. It stops counting at once.
func (d *Datasets) Drop(n uint64) error {
	away, err := d.setAside(n)
	if err != nil || away == "" {
		return err
	}
	return d.removeAll(away)
}

// Abort removes a checkpoint of which nobody was told that it counts, whatever there is of it.
func (d *Datasets) Abort(n uint64) error {
	return errors.Join(d.Discard(n), d.Drop(n))
}

// setAside takes a committed checkpoint out of what counts, for good before anything in it is touched, and returns where it is;
// empty: there is none.
func (d *Datasets) setAside(n uint64) (string, error) {
	dir := d.Path(n)
	away := dir + ".drop"
	err := d.disk().RemoveAll(away) // of one that was made again since
	if err == nil {
		err = d.disk().Rename(dir, away)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("dataset: drop checkpoint %d: %w", n, err)
	}
	d.faults.Hit(faults.RetentionDrop)
	if d.Meta.Fsync {
		if err = d.syncNames(d.dir); err != nil {
			return "", fmt.Errorf("dataset: drop checkpoint %d: %w", n, err)
		}
	}
	return away, nil
}
