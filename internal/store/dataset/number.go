package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The highest number that a checkpoint of a job ever had is kept as the name of an empty file, last.000013: a name
// needs no checksum, and renaming it needs no room on a disk that is full.

const lastPrefix = "last."

// Last is the highest number that was ever given to a checkpoint of this job.
func (j *Job) Last() (uint64, error) {
	last, _, err := j.last()
	return last, err
}

// last also returns the number of the mark, 0: there is none.
func (j *Job) last() (last, mark uint64, err error) {
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		return 0, 0, fmt.Errorf("dataset: job %s: %w", filepath.Base(j.Dir), err)
	}
	for _, e := range entries {
		if n, _, ok := parseDir(e.Name()); ok {
			last = max(last, n)
		}
		if n, ok := parseLast(e.Name()); ok {
			mark = max(mark, n)
		}
	}
	return max(last, mark), mark, nil
}

func parseLast(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, lastPrefix)
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, ok && err == nil && name == lastName(n)
}

func lastName(n uint64) string { return fmt.Sprintf(lastPrefix+"%06d", n) }

// markLast makes n the highest number, before anything of that checkpoint is there.
func (j *Job) markLast(n uint64) error {
	last, mark, err := j.last()
	if err != nil {
		return err
	}
	if n < last {
		return fmt.Errorf("dataset: job %s: checkpoint %d: a number up to %d has been used", j.Meta.Name, n, last)
	}
	if n == mark {
		return nil
	}
	to := filepath.Join(j.Dir, lastName(n))
	err = j.disk().Rename(filepath.Join(j.Dir, lastName(mark)), to)
	if errors.Is(err, fs.ErrNotExist) {
		err = j.makeEmpty(to)
	}
	if err == nil && j.Meta.Fsync {
		err = j.syncNames(j.Dir)
	}
	if err != nil {
		return fmt.Errorf("dataset: job %s: checkpoint %d: %w", j.Meta.Name, n, err)
	}
	return nil
}
