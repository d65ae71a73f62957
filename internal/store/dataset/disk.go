package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// disk is what this package does to names on a file system, and what makes them last, with what files hold, when power is lost. The
// content of files is read and written as everywhere. Tests have a disk that fails, or knows what is left then.
type disk interface {
	Mkdir(path string) error              // with mode 0700
	Create(path string) (*os.File, error) // one that is not there yet, with mode 0600
	Rename(from, to string) error
	RenameNew(from, to string) error // fails where something has that name
	Remove(path string) error
	RemoveAll(path string) error
	Sync(f *os.File) error // what a file holds, or which names a directory has
}

// system is the disk that the kernel has.
type system struct{}

func (system) Mkdir(path string) error { return os.Mkdir(path, 0o700) }

func (system) Create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
}

func (system) Rename(from, to string) error { return os.Rename(from, to) }

func (system) RenameNew(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

func (system) Remove(path string) error { return os.Remove(path) }

func (system) RemoveAll(path string) error { return os.RemoveAll(path) }

func (system) Sync(f *os.File) error { return f.Sync() }

// ground is the disk that a store lies on; the zero value is that of the system.
type ground struct{ other disk }

func (g ground) disk() disk {
	if g.other == nil {
		return system{}
	}
	return g.other
}

// sync makes last what a file holds, or which names a directory has.
func (g ground) sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return g.disk().Sync(f)
}

// syncNames makes last which names a directory has, where its file system can do that.
func (g ground) syncNames(dir string) error {
	err := g.sync(dir)
	if unable(err) {
		return nil
	}
	return err
}

// SyncNames makes last which names a directory of the store has, where its file system can do that.
func SyncNames(dir string) error {
	if err := (ground{}).syncNames(dir); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}

// unable says whether a file system does not sync directories, by the error from one; some want them to be open for writing.
func unable(err error) bool {
	for _, e := range []error{syscall.EINVAL, syscall.ENOTSUP, syscall.ENOSYS, syscall.EBADF} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// weak is what a user is told of a directory whose names may not last, for that reason.
func weak(dir string, why error) error {
	var e syscall.Errno
	if errors.As(why, &e) {
		why = e
	}
	return fmt.Errorf("dataset: %s: directories cannot be synced there (%w): a loss of power may take checkpoints that were committed", dir, why)
}

// writeAtomic replaces a file, or leaves it as it was.
func (g ground) writeAtomic(path string, b []byte) error {
	temp := path + ".new"
	_ = g.disk().Remove(temp) // of a crash
	f, err := g.disk().Create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = g.disk().Sync(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = g.disk().Rename(temp, path)
	}
	if err != nil {
		_ = g.disk().Remove(temp)
		return err
	}
	return g.syncNames(filepath.Dir(path))
}

// makeEmpty makes a file that is not there yet.
func (g ground) makeEmpty(path string) error {
	f, err := g.disk().Create(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// makeDirs makes a directory, with all above it that are not there, each synced in the one above before anything is put into it. So
// is the lowest that is there: who has made it may have come to an end before that. The first result says where that cannot be done.
func (g ground) makeDirs(path string) (weakness, err error) {
	above := filepath.Dir(path)
	st, err := os.Stat(path)
	switch {
	case err == nil && !st.IsDir():
		return nil, &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	case err == nil:
		if err = g.syncNames(above); sealedStore(err) { // then it is not ours
			err = nil
		}
		return nil, err
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if weakness, err = g.makeDirs(above); err != nil {
		return nil, err
	}
	err = g.disk().Mkdir(path)
	if st, serr := os.Stat(path); errors.Is(err, fs.ErrExist) && serr == nil && st.IsDir() {
		err = nil // somebody else has made it meanwhile
	}
	if err != nil {
		return nil, err
	}
	if err = g.sync(above); unable(err) || errors.Is(err, fs.ErrPermission) { // one may make directories where one cannot read
		return weak(above, err), nil
	}
	return weakness, err
}

// makeNew makes an empty directory, in place of one that a crash has left.
func (g ground) makeNew(path string) error {
	if err := g.disk().RemoveAll(path); err != nil {
		return err
	}
	return g.disk().Mkdir(path)
}

func (g ground) removeAll(dir string) error {
	if err := g.disk().RemoveAll(dir); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}
