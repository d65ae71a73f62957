package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Each byssus that runs a job does so in a term of its own, one higher than the one before. The number is the name of
// an empty file, owner.000007, and whoever renames it to the next number has that term, alone: also on file systems
// where the locks of another machine are not seen. What belongs to a term that is over can be told by its number.
//
// Who has looked long ago may make a name that is over again: so a new name never takes the place of another, and a term
// counts when there is no higher one after it was made. The highest name only ever becomes a higher one.
//
//	A (slow)                       B                        names
//	sees owner.4                                            4
//	                               sees owner.4             4
//	                               renames 4 to 5: term 5   5
//	                               ends; C takes term 6     6
//	4 is gone, makes owner.5                                5, 6
//	looks again: 6 is higher.                               6
//	Removes 5, and tries 7

const ownerPrefix = "owner."

func ownerName(term uint64) string { return fmt.Sprintf(ownerPrefix+"%06d", term) }

func parseOwner(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, ownerPrefix)
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, ok && err == nil && name == ownerName(n)
}

// terms are the terms of the job, or of the part of a cache, that has a directory.
type terms struct {
	dir string
	ground
}

func (j *Job) terms() terms { return terms{j.Dir, j.ground} }

// begin begins the next term of a job that is locked. In a store where nothing can be written nobody can begin one, and
// the lock alone counts. The weakness is why a loss of power may take it.
func (t terms) begin() (term uint64, weakness, err error) {
	const tries = 100 // others may begin one at the same moment
	for range tries {
		var now uint64
		if now, err = t.now(); err != nil {
			return 0, nil, err
		}
		if err = t.advance(now, now+1); err == nil {
			err = t.newest(now + 1)
		}
		if err == nil {
			weakness, err = t.settle()
		}
		if err == nil || sealedStore(err) {
			return now + 1, weakness, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return 0, nil, fmt.Errorf("dataset: job %s: next term: %w", filepath.Base(t.dir), err)
}

// fence makes sure that no agent of an earlier term gets in here any more.
func (t terms) fence(term uint64) (held uint64, weakness, err error) {
	now, err := t.now()
	if err != nil {
		return 0, nil, err
	}
	if now > term {
		return 0, nil, fenced(now, term)
	}
	if now < term {
		err = t.advance(now, term)
	}
	if err == nil {
		now, err = t.now()
	}
	switch {
	case err != nil:
		return 0, nil, err
	case now > term: // it has come meanwhile
		return 0, nil, fenced(now, term)
	}
	weakness, err = t.settle()
	return term, weakness, err
}

func fenced(found, term uint64) error {
	return fmt.Errorf("found term %d, wanted at most %d: %w", found, term, ErrFenced)
}

// settle makes the newest term's name last, before anybody is kept out by it, and the name of the job's directory, which may have been
// made just now, or by somebody who came to an end then.
func (t terms) settle() (weakness, err error) {
	for _, dir := range []string{t.dir, filepath.Dir(t.dir)} {
		err := t.sync(dir)
		if unable(err) {
			weakness, err = weak(dir, err), nil
		}
		if err != nil {
			return weakness, err
		}
	}
	return weakness, nil
}

// advance gives a term's file (0: there is none yet) the name of a later one, which nobody has.
func (t terms) advance(from, to uint64) error {
	path := filepath.Join(t.dir, ownerName(to))
	if from == 0 {
		return t.makeEmpty(path)
	}
	old := filepath.Join(t.dir, ownerName(from))
	err := t.disk().RenameNew(old, path)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) { // file systems that do not know it, as NFS
		err = t.disk().Rename(old, path)
	}
	return err
}

// newest says whether a term whose file has just been made is the newest. Otherwise it is over, and its file goes.
func (t terms) newest(term uint64) error {
	now, err := t.now()
	if err == nil && now != term {
		_ = t.disk().Remove(filepath.Join(t.dir, ownerName(term)))
		err = fs.ErrExist
	}
	return err
}

// now is the newest that was ever begun, 0: none.
func (t terms) now() (uint64, error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return 0, fmt.Errorf("dataset: job %s: %w", filepath.Base(t.dir), err)
	}
	var newest uint64
	for _, e := range entries {
		if n, ok := parseOwner(e.Name()); ok {
			newest = max(newest, n)
		}
	}
	return newest, nil
}
