package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/store/format"
)

// ErrOpen means that somebody may still write to a file.
var ErrOpen = errors.New("still open for writing")

// Make makes the index of what a rank has written into its directory of a dataset's directory, which is there, and stores it. With
// durable everything is on stable storage when it returns. progress is told the bytes read since the last call.
func Make(ctx context.Context, dir string, rank int, durable bool, progress func(int64)) (*Index, error) {
	root, err := os.OpenRoot(filepath.Join(dir, ContentName(rank)))
	if err != nil {
		return nil, fmt.Errorf("files: rank %d: %w", rank, err)
	}
	defer root.Close()
	x := &Index{Rank: rank}
	dirs := []string{"."}
	for i := 0; i < len(dirs) && err == nil; i++ {
		err = eachName(root, dirs[i], func(path string, isDir bool) error {
			if isDir {
				dirs = append(dirs, path)
				return nil
			}
			f, err := readFile(ctx, root, path, durable, progress)
			if err == nil {
				err = x.add(f)
			}
			return err
		})
	}
	if err == nil {
		slices.SortFunc(x.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
		err = x.check()
	}
	for i := len(dirs) - 1; i >= 0 && durable && err == nil; i-- {
		err = syncName(root, dirs[i])
	}
	if err == nil {
		err = x.store(dir, durable)
	}
	if err != nil {
		return nil, fmt.Errorf("files: rank %d: %w", rank, err)
	}
	return x, nil
}

// Hash stands for the path of a file.
func (f *File) Hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(f.Path)) // never fails
	return h.Sum64()
}

// eachName hands what is in a directory to f: names may be any bytes, which fs.FS refuses.
func eachName(root *os.Root, dir string, f func(path string, isDir bool) error) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	err = errors.Join(err, d.Close())
	for _, e := range entries {
		if err == nil {
			err = f(path.Join(dir, e.Name()), e.IsDir())
		}
	}
	return err
}

// readFile takes the checksums of a file that nobody writes to.
func readFile(ctx context.Context, root *os.Root, path string, durable bool, progress func(int64)) (File, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		if st, serr := root.Lstat(path); serr == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s: found %s, wanted a file", path, st.Mode())
		}
		return File{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: found %s, wanted a file", path, st.Mode())
	}
	if err == nil {
		err = unwritten(f, path, st)
	}
	if err != nil {
		return File{}, err
	}
	file := File{Path: path, Size: st.Size(), Mode: st.Mode().Perm(), ModTime: st.ModTime()}
	err = eachChunk(ctx, f, file.Size, func(_ int64, b []byte) error {
		file.Sums = append(file.Sums, format.Checksum(b))
		progress(int64(len(b)))
		return nil
	})
	if err == nil && durable {
		err = f.Sync()
	}
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// BeingWritten says whether somebody has a file open for writing, which is open for reading; where the file system can tell (fcntl(2), leases).
func BeingWritten(f *os.File) (bool, error) {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		return false, err
	case errors.Is(err, unix.EAGAIN):
		return true, nil
	}
	return false, nil // it has no leases, or the file is another user's
}

// unwritten says whether nobody has a file open for writing, and who has.
func unwritten(f *os.File, path string, st fs.FileInfo) error {
	open, err := BeingWritten(f)
	if err != nil || !open {
		return err
	}
	by := ""
	if who := writers(st); len(who) > 0 {
		by = " by process " + strings.Join(who, ", ")
	}
	return fmt.Errorf("%s: %w%s", path, ErrOpen, by)
}

// writers are the processes that have a file open, as far as this one may look.
func writers(st fs.FileInfo) []string {
	var who []string
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		pid := strings.Split(fd, "/")[2]
		if other, err := os.Stat(fd); err == nil && os.SameFile(st, other) && pid != fmt.Sprint(os.Getpid()) && !slices.Contains(who, pid) {
			who = append(who, pid)
		}
	}
	return who
}

// eachChunk hands the chunks of a file to f, which is told where each begins. One that is shorter than it was is an error.
func eachChunk(ctx context.Context, from io.ReaderAt, size int64, f func(at int64, b []byte) error) error {
	buf := make([]byte, min(size, Chunk))
	for at := int64(0); at < size; at += Chunk {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(Chunk, size-at)]
		if n, err := from.ReadAt(b, at); n < len(b) {
			return fmt.Errorf("%d bytes at %d, wanted %d: %w", n, at, len(b), err)
		}
		if err := f(at, b); err != nil {
			return err
		}
	}
	return nil
}

// store writes the index, for good or not at all.
func (x *Index) store(dir string, durable bool) error {
	b, err := x.encode()
	if err != nil {
		return err
	}
	to := filepath.Join(dir, IndexName(x.Rank))
	f, err := os.OpenFile(to+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

// syncName makes names in a directory last. A file system that cannot is left as it is: whoever commits has said so.
func syncName(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// makeDirs makes the directories above a path.
func makeDirs(root *os.Root, p string) error {
	if d := path.Dir(p); d != "." {
		return root.MkdirAll(d, 0o700)
	}
	return nil
}
