package dataset

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/own"
)

// A job is locked by two flocks, of its directory and of the file "lock" in it. The file is what file systems of other
// machines lock; the directory is there when the file is not and cannot be made (a store that is full or read-only).
// The file's text, the process and its machine, is for people.

// longestLock bounds what is read of it.
const longestLock = 512

// lock is what who runs a job has open: its directory, and the file in it, nil if there is none.
type lock []*os.File

// takeLock locks a job's directory.
func takeLock(path string) (lock, error) {
	err := own.Dir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, removed(path)
	}
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, removed(path)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: lock: %w", err)
	}
	if err := exclusive(dir); errors.Is(err, syscall.EWOULDBLOCK) {
		dir.Close()
		return nil, lockedBy(path)
	}
	file, err := takeFile(path)
	if !isAt(dir, path) || file != nil && !isAt(file, lockPath(path)) {
		err = removed(path)
	}
	l := lock{dir, file}
	if err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

func (l lock) release() {
	for _, f := range l {
		if f != nil {
			f.Close()
		}
	}
}

func removed(dir string) error {
	return fmt.Errorf("dataset: job %s: %w: it has just been removed", filepath.Base(dir), ErrNoJob)
}

func lockPath(dir string) string { return filepath.Join(dir, "lock") }

// takeFile locks the file, nil: there is none, and none can be made.
func takeFile(dir string) (*os.File, error) {
	f, _, err := own.Open(lockPath(dir), os.O_RDWR|os.O_CREATE)
	if err != nil && sealedStore(err) {
		f, _, err = own.Open(lockPath(dir), os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: lock: %w", err)
	}
	if err := exclusive(f); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, lockedBy(dir)
		}
		return nil, fmt.Errorf("dataset: lock %s: %w", f.Name(), err)
	}
	if f.Truncate(0) == nil { // it is for people: a full disk does not matter
		host, _ := os.Hostname() // which others may not know either
		_, _ = f.WriteAt(seal(fmt.Appendf(nil, "%d on %s\n", os.Getpid(), host)), 0)
	}
	return f, nil
}

// exclusive locks a file. Who only asks whether it is locked (shared) holds it for a moment, and is waited for.
func exclusive(f *os.File) error {
	const tries = 5000
	fd := int(f.Fd())
	for range tries {
		err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if err := syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
			return err
		}
		_ = syscall.Flock(fd, syscall.LOCK_UN) // succeeds
		time.Sleep(time.Millisecond)
	}
	return syscall.EWOULDBLOCK
}

// isAt says whether a file that was opened still has that path.
func isAt(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// lockedBy is the error that names who runs the job.
func lockedBy(dir string) error {
	err := fmt.Errorf("dataset: job %s: %w", filepath.Base(dir), ErrLocked)
	f, _, ferr := own.Open(lockPath(dir), os.O_RDONLY)
	if ferr != nil {
		return err
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, longestLock))
	if pid, uerr := unseal(b); uerr == nil {
		err = fmt.Errorf("%w (process %s)", err, strings.TrimSpace(string(pid)))
	}
	return err
}

// checkLock says whether the lock's file holds what it should: nothing, or a process.
func checkLock(dir string) error {
	f, _, err := own.Open(lockPath(dir), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("dataset: lock: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, longestLock))
	if err == nil && len(b) > 0 {
		_, err = unseal(b)
	}
	if err != nil {
		return fmt.Errorf("dataset: %s: %w (written anew when the job is next run)", lockPath(dir), err)
	}
	return nil
}

// locked says whether a process has locked a job's directory.
func locked(dir string) bool {
	f, _, err := own.Open(lockPath(dir), os.O_RDONLY)
	if err != nil {
		f, err = os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	}
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

func (j *Job) take() error { return j.takeFor(j.terms().begin) }

// takeFor locks the job and begins a term of it by begin, which also says why a loss of power may take that.
func (j *Job) takeFor(begin func() (term uint64, weakness, err error)) error {
	l, err := takeLock(j.Dir)
	if err != nil {
		return err
	}
	j.lock = l
	term, weakness, err := begin()
	if err != nil {
		j.Unlock()
		return err
	}
	if j.Term = term; weakness != nil {
		j.Weak = weakness
	}
	return j.clean()
}

// Locked says whether a process runs the job.
func (j *Job) Locked() bool { return locked(j.Dir) }

// Unlock gives the job up.
func (j *Job) Unlock() {
	j.lock.release()
	j.lock = nil
}

// AbandonLocks does without unlocking, which a store that does not answer would not let come to an end: the locks end with this process.
func (j *Job) AbandonLocks() { j.lock = nil }
