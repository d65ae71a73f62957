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
// needs no checksum, and renaming it needs no room on a disk that is full. Other streams have marks of their own: last1.000004.

const lastPrefix = "last" // and the number of the stream, if it is not 0

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
		if p, ok := parseDir(e.Name()); ok && p.stream == j.Stream {
			last = max(last, p.n)
		}
		if n, ok := j.parseLast(e.Name()); ok {
			mark = max(mark, n)
		}
	}
	return max(last, mark), mark, nil
}

func (j *Job) parseLast(name string) (uint64, bool) {
	_, digits, ok := strings.Cut(name, ".")
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, ok && err == nil && name == j.lastName(n)
}

func (j *Job) lastName(n uint64) string {
	if j.Stream == 0 {
		return fmt.Sprintf("%s.%06d", lastPrefix, n)
	}
	return fmt.Sprintf("%s%d.%06d", lastPrefix, j.Stream, n)
}

// markLast makes n the highest number, before anything of that checkpoint is there.
func (j *Job) markLast(n uint64) error {
	last, mark, err := j.last()
	if err != nil {
		return err
	}
	if n < last {
		return fmt.Errorf("dataset: job %s: %s: a number up to %d has been used", j.Meta.Name, j.Called(n), last)
	}
	if n == mark {
		return nil
	}
	to := filepath.Join(j.Dir, j.lastName(n))
	err = j.disk().Rename(filepath.Join(j.Dir, j.lastName(mark)), to)
	if errors.Is(err, fs.ErrNotExist) {
		err = j.makeEmpty(to)
	}
	if err == nil && j.Meta.Fsync {
		err = j.syncNames(j.Dir)
	}
	if err != nil {
		return fmt.Errorf("dataset: job %s: %s: %w", j.Meta.Name, j.Called(n), err)
	}
	return nil
}
