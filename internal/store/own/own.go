// Package own opens files and directories that are this user's alone.
//
// It guarantees: what belongs to another user, may be written to by others where it should not, or is a link, is not used
// (ErrForeign); opening waits for nobody.
package own

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrForeign marks what is not used because somebody else could have put it there: it belongs to another user, others
// may write to it, or it is a link.
var ErrForeign = errors.New("not used")

// owner is the user that a file belongs to.
func owner(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}

// Check says whether a directory is ours alone to write to. shared: others may, where they cannot touch what is ours.
func Check(path string, st fs.FileInfo, shared bool) error {
	open := st.Mode().Perm()&0o022 != 0
	if shared {
		open = st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0
	}
	if st.IsDir() && owner(st) == os.Geteuid() && !open {
		return nil
	}
	return fmt.Errorf("own: %s: found %s of uid %d, wanted a directory of uid %d that nobody else can write to: %w", path, st.Mode(), owner(st), os.Geteuid(), ErrForeign)
}

// Dir says whether a directory is ours alone to write to, and no link.
func Dir(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("own: %w", err)
	}
	return Check(path, st, false)
}

// Open opens a regular file of ours, not through a link, without waiting for anybody. One that it makes has mode 0600.
func Open(path string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, nil, fmt.Errorf("%s: found a link, wanted a file: %w", path, ErrForeign)
	}
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = fmt.Errorf("%s: found %s, wanted a file", path, st.Mode())
	case owner(st) != os.Geteuid():
		err = fmt.Errorf("%s: belongs to uid %d, wanted %d: %w", path, owner(st), os.Geteuid(), ErrForeign)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// Read reads a small file of ours, of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, st, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st.Size() > most {
		return nil, fmt.Errorf("%s: %d bytes, at most %d", path, st.Size(), most)
	}
	return io.ReadAll(io.LimitReader(f, most))
}
