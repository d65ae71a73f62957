package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/store/format"
)

// ErrForeign marks what is not used because somebody else could have put it there: it belongs to another user, others
// may write to it, or it is a link.
var ErrForeign = errors.New("not used")

// mostText is how long a JSON file of the store may be: 100,000 ranks need a fifth of it.
const mostText = 64 << 20

// owner is the user that a file belongs to.
func owner(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}

// checkDir says whether a directory is ours alone to write to. shared: others may, where they cannot touch what is ours.
func checkDir(path string, st fs.FileInfo, shared bool) error {
	open := st.Mode().Perm()&0o022 != 0
	if shared {
		open = st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0
	}
	if st.IsDir() && owner(st) == os.Geteuid() && !open {
		return nil
	}
	return fmt.Errorf("dataset: %s: found %s of uid %d, wanted a directory of uid %d that nobody else can write to: %w", path, st.Mode(), owner(st), os.Geteuid(), ErrForeign)
}

// ownDir is checkDir for a directory that must not be a link.
func ownDir(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return checkDir(path, st, false)
}

// CheckDir says whether a directory is ours alone to write to, and no link.
func CheckDir(path string) error { return ownDir(path) }

// OpenOwn opens a regular file of ours, not through a link, without waiting for anybody. One that it makes has mode 0600.
func OpenOwn(path string, flags int) (*os.File, fs.FileInfo, error) {
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

// readOwn reads a small file of ours.
func readOwn(path string) ([]byte, error) {
	f, st, err := OpenOwn(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st.Size() > mostText {
		return nil, fmt.Errorf("%s: %d bytes, at most %d", path, st.Size(), mostText)
	}
	return io.ReadAll(io.LimitReader(f, mostText))
}

// seal appends the line with the checksum of all before it.
func seal(b []byte) []byte { return fmt.Appendf(b, "crc32c %08x\n", format.Checksum(b)) }

// unseal checks and removes that line.
func unseal(b []byte) ([]byte, error) {
	end := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n') + 1
	var crc uint32
	if _, err := fmt.Sscanf(string(b[end:]), "crc32c %08x", &crc); err != nil {
		return nil, fmt.Errorf("last line %.40q, wanted its checksum: truncated or damaged", b[end:])
	}
	if found := format.Checksum(b[:end]); found != crc {
		return nil, fmt.Errorf("crc32c %08x, wanted %08x", found, crc)
	}
	if !bytes.Equal(seal(b[:end:end]), b) {
		return nil, fmt.Errorf("last line %.40q: damaged", b[end:])
	}
	return b[:end], nil
}

// full says whether an error means that there is no room.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// sealedStore says whether an error means that nothing can be written where it came from.
func sealedStore(err error) bool {
	return full(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}
