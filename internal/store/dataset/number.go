package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
)

// The highest number that a checkpoint of a job ever had, or that was set apart for the next, is kept as the name of an empty file, last.000013: a name
// needs no checksum, and renaming it needs no room on a disk that is full. Other streams have marks of their own: last1.000004.

const lastPrefix = "last" // and the number of the stream, if it is not 0

// Last is the highest number that was ever given to a dataset of this stream, or set apart for one.
func (d *Datasets) Last() (uint64, error) {
	last, _, err := d.last()
	return last, err
}

// last also returns the number of the mark, 0: there is none.
func (d *Datasets) last() (last, mark uint64, err error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return 0, 0, fmt.Errorf("dataset: job %s: %w", filepath.Base(d.dir), err)
	}
	for _, e := range entries {
		if p, ok := parseDir(e.Name()); ok && p.stream == d.Stream {
			last = max(last, p.n)
		}
		if n, ok := parseLast(d.Stream, e.Name()); ok {
			mark = max(mark, n)
		}
	}
	return max(last, mark), mark, nil
}

func parseLast(stream holding.Stream, name string) (uint64, bool) {
	_, digits, ok := strings.Cut(name, ".")
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, ok && err == nil && name == lastName(stream, n)
}

func lastName(stream holding.Stream, n uint64) string {
	if stream == 0 {
		return fmt.Sprintf("%s.%06d", lastPrefix, n)
	}
	return fmt.Sprintf("%s%d.%06d", lastPrefix, stream, n)
}

// markLast makes n the highest number, before anything of that dataset is there.
func (d *Datasets) markLast(n uint64) error {
	last, mark, err := d.last()
	if err != nil {
		return err
	}
	if n < last {
		return fmt.Errorf("dataset: job %s: %s: a number up to %d has been used", d.Meta.Name, d.Called(n), last)
	}
	if n == mark {
		return nil
	}
	return d.moveMark(mark, n)
}

// Use makes all numbers up to n count as used, whether a dataset has them or not.
func (d *Datasets) Use(n uint64) error {
	last, mark, err := d.last()
	if err == nil && n > last {
		err = d.moveMark(mark, n)
	}
	return err
}

// moveMark puts the mark from one number, 0 if there is none, to another.
func (d *Datasets) moveMark(from, to uint64) error {
	path := filepath.Join(d.dir, lastName(d.Stream, to))
	err := d.disk().Rename(filepath.Join(d.dir, lastName(d.Stream, from)), path)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.makeEmpty(path)
	}
	if err == nil && d.Meta.Fsync {
		err = d.syncNames(d.dir)
	}
	if err != nil {
		return fmt.Errorf("dataset: job %s: %s: %w", d.Meta.Name, d.Called(to), err)
	}
	return nil
}
