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

// beginTerm begins the next term of a job that is locked. In a store where nothing can be written nobody can begin one, and
// the lock alone counts.
func (j *Job) beginTerm() error {
	const tries = 100 // others may begin one at the same moment
	var err error
	for range tries {
		var now uint64
		if now, err = j.term(); err != nil {
			return err
		}
		if err = j.advance(now, now+1); err == nil {
			err = j.newest(now + 1)
		}
		if err == nil {
			err = j.settle()
		}
		if err == nil || sealedStore(err) {
			j.Term = now + 1
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return fmt.Errorf("dataset: job %s: next term: %w", filepath.Base(j.Dir), err)
}

// settle makes the newest term's name last, before anybody is kept out by it, and the name of the job's directory, which may have been
// made just now, or by somebody who came to an end then.
func (j *Job) settle() error {
	for _, dir := range []string{j.Dir, filepath.Dir(j.Dir)} {
		err := j.sync(dir)
		if unable(err) {
			j.Weak, err = weak(dir, err), nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// advance gives a term's file (0: there is none yet) the name of a later one, which nobody has.
func (j *Job) advance(from, to uint64) error {
	path := filepath.Join(j.Dir, ownerName(to))
	if from == 0 {
		return j.makeEmpty(path)
	}
	old := filepath.Join(j.Dir, ownerName(from))
	err := j.disk().RenameNew(old, path)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) { // file systems that do not know it, as NFS
		err = j.disk().Rename(old, path)
	}
	return err
}

// newest says whether a term whose file has just been made is the newest. Otherwise it is over, and its file goes.
func (j *Job) newest(term uint64) error {
	now, err := j.term()
	if err == nil && now != term {
		_ = j.disk().Remove(filepath.Join(j.Dir, ownerName(term)))
		err = fs.ErrExist
	}
	return err
}

// term is the newest that was ever begun, 0: none.
func (j *Job) term() (uint64, error) {
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		return 0, fmt.Errorf("dataset: job %s: %w", filepath.Base(j.Dir), err)
	}
	var newest uint64
	for _, e := range entries {
		if n, ok := parseOwner(e.Name()); ok {
			newest = max(newest, n)
		}
	}
	return newest, nil
}
