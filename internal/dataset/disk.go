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
	return g.sync(filepath.Dir(path))
}

// makeEmpty makes a file that is not there yet.
func (g ground) makeEmpty(path string) error {
	f, err := g.disk().Create(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// makeDirs makes a directory, with all above it that are not there.
func (g ground) makeDirs(path string) error {
	st, err := os.Stat(path)
	switch {
	case err == nil && st.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := g.makeDirs(filepath.Dir(path)); err != nil {
		return err
	}
	err = g.disk().Mkdir(path)
	if errors.Is(err, fs.ErrExist) { // somebody else has made it meanwhile
		if st, serr := os.Stat(path); serr == nil && st.IsDir() {
			err = nil
		}
	}
	return err
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
