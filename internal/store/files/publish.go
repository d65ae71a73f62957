package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/byssus-hpc/byssus/internal/store/format"
)

// Files may also lie where people look for them, below a directory of the user's, the prefix, by the names that the program has given them.
// The dataset's directory has indexes then, and a link to the prefix for each rank, so that all else is as with files that lie in it.

// MakeInPlace makes the index of files that a rank has written below the prefix, and stores it. The paths may be those of other ranks, too.
// progress is told the bytes read since the last call.
func MakeInPlace(ctx context.Context, dir, prefix string, rank int, paths []string, durable bool, progress func(int64)) (*Index, error) {
	err := link(dir, prefix, rank)
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(prefix)
	}
	if err != nil {
		return nil, fmt.Errorf("files: rank %d: %w", rank, err)
	}
	defer root.Close()
	x := &Index{Rank: rank}
	dirs := map[string]bool{}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		var f File
		if f, err = readFile(ctx, root, p, durable, progress); err == nil {
			err = x.add(f)
		}
		if err != nil {
			return nil, fmt.Errorf("files: rank %d: %w", rank, err)
		}
		dirs[path.Dir(p)] = true
	}
	if err = x.check(); err == nil && durable {
		err = syncNames(root, dirs)
	}
	if err == nil {
		err = x.store(dir, durable)
	}
	if err != nil {
		return nil, fmt.Errorf("files: rank %d: %w", rank, err)
	}
	return x, nil
}

// InPlace is the prefix of a dataset whose files are in place; false: they lie in its directory.
func InPlace(dir string) (prefix string, ok bool) {
	path := filepath.Join(dir, ContentName(0))
	if _, err := os.Readlink(path); err != nil {
		return "", false
	}
	prefix, err := filepath.EvalSymlinks(path)
	return prefix, err == nil
}

// link makes the link to the prefix: one that still leads there when both are moved, if the dataset's directory is below it.
func link(dir, prefix string, rank int) error {
	if !filepath.IsAbs(prefix) || !filepath.IsAbs(dir) {
		return fmt.Errorf("prefix %q, dataset %q: wanted absolute paths", prefix, dir)
	}
	if up, err := filepath.Rel(dir, prefix); err == nil && !strings.Contains(strings.ReplaceAll(up, "../", ""), "/") && filepath.Base(up) == ".." {
		prefix = up
	}
	return os.Symlink(prefix, filepath.Join(dir, ContentName(rank)))
}

// RemoveInPlace removes the files that a rank has written below the prefix, and the directories that are empty then.
func RemoveInPlace(dir string, rank int) error {
	x, err := Open(dir, rank)
	if err != nil {
		return err
	}
	if _, err := os.Readlink(filepath.Join(dir, ContentName(rank))); err != nil {
		return nil // its files lie in the dataset's directory
	}
	root, err := os.OpenRoot(filepath.Join(dir, ContentName(rank)))
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	defer root.Close()
	var errs []error
	for _, f := range x.Files {
		if err := root.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		for d := path.Dir(f.Path); d != "." && root.Remove(d) == nil; d = path.Dir(d) {
		}
	}
	return errors.Join(errs...)
}

// syncNames makes names in directories last, and those of the directories above.
func syncNames(root *os.Root, dirs map[string]bool) error {
	all := map[string]bool{".": true}
	for d := range dirs {
		for ; d != "." && !all[d]; d = path.Dir(d) {
			all[d] = true
		}
	}
	for d := range all {
		if err := syncName(root, d); err != nil {
			return err
		}
	}
	return nil
}

// Publish copies a rank's part from a dataset's directory to the prefix, with the index in another dataset's directory, and compares it
// with its checksums on the way. Files get their names when all have been written: what was there by these names before is replaced then,
// each at once. ErrDamaged: it is not as it was written; then, and after other errors, nothing of it has a name in the prefix.
func Publish(ctx context.Context, from, to, prefix string, rank int, durable bool) (*Index, error) {
	return publish(ctx, from, prefix, rank, durable, func(x *Index) error {
		if err := link(to, prefix, rank); err != nil {
			return err
		}
		return x.store(to, durable)
	})
}

// Restore copies a rank's part to the prefix, as Publish does, where it is not any dataset's: its own stays where it is.
func Restore(ctx context.Context, from, prefix string, rank int, durable bool) error {
	_, err := publish(ctx, from, prefix, rank, durable, func(*Index) error { return nil })
	return err
}

// publish copies, and has it recorded.
func publish(ctx context.Context, from, prefix string, rank int, durable bool, record func(*Index) error) (*Index, error) {
	x, err := Open(from, rank)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := os.MkdirAll(prefix, 0o777); err != nil { // as the user's mask wants it
		return nil, fmt.Errorf("files: %w", err)
	}
	root, err := os.OpenRoot(prefix)
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	defer root.Close()
	p := &publication{Index: x, root: root, suffix: suffix(), durable: durable}
	in := x.Read(from)
	defer in.Close()
	if err := p.write(ctx, in); err != nil {
		return nil, errors.Join(err, p.withdraw())
	}
	if err = p.name(); err == nil {
		err = record(x)
	}
	if err != nil {
		return nil, fmt.Errorf("files: %w", errors.Join(err, p.withdraw()))
	}
	return x, nil
}

// suffix is the end of names that files have while they are copied: no two copies have the same.
func suffix() string { return "." + rand.Text()[:8] + suffixEnd }

const suffixEnd = ".byssus"

// Publishing is the name that a file is to get which is being copied by this one, if nobody has died; empty: it is not.
func Publishing(name string) string {
	of, ok := strings.CutSuffix(name, suffixEnd)
	if at := len(of) - len(".12345678"); ok && at > 0 && of[at] == '.' {
		return of[:at]
	}
	return ""
}

// publication is a part on its way to the prefix.
type publication struct {
	*Index
	root    *os.Root
	suffix  string // of names that files have meanwhile
	written int    // of the files
	named   int    // of them have their names
	durable bool
}

func (p *publication) write(ctx context.Context, in *Content) error {
	var begin int64
	buf := make([]byte, min(Chunk, p.Size))
	for i := range p.Files {
		f := &p.Files[i]
		if err := p.writeFile(ctx, in, f, begin, buf); err != nil {
			return err
		}
		begin += f.Size
	}
	return nil
}

func (p *publication) writeFile(ctx context.Context, in *Content, f *File, begin int64, buf []byte) error {
	if d := path.Dir(f.Path); d != "." {
		if err := p.root.MkdirAll(d, 0o777); err != nil {
			return fmt.Errorf("files: %w", err)
		}
	}
	out, err := p.root.OpenFile(f.Path+p.suffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	p.written++
	for at := int64(0); at < f.Size && err == nil; at += Chunk {
		b := buf[:min(Chunk, f.Size-at)]
		if err = ctx.Err(); err == nil {
			err = f.readGood(in, begin, at, b)
		}
		if err == nil && !format.AllZero(b) {
			_, err = out.WriteAt(b, at)
		}
	}
	if err == nil {
		err = out.Truncate(f.Size)
	}
	if err == nil {
		err = out.Chmod(f.Mode)
	}
	if err == nil && p.durable {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("files: %s: %w", f.Path, err)
	}
	return p.root.Chtimes(f.Path+p.suffix, f.ModTime, f.ModTime)
}

// readGood reads a chunk of a file, and compares it with its checksum.
func (f *File) readGood(in *Content, begin, at int64, b []byte) error {
	if _, err := in.ReadAt(b, begin+at); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if crc, want := format.Checksum(b), f.Sums[at/Chunk]; crc != want {
		return fmt.Errorf("%d bytes at %d: %w: crc32c %08x, wanted %08x", len(b), at, ErrDamaged, crc, want)
	}
	return nil
}

// name gives the files their names.
func (p *publication) name() error {
	dirs := map[string]bool{}
	for _, f := range p.Files {
		if err := p.root.Rename(f.Path+p.suffix, f.Path); err != nil {
			return err
		}
		p.named++
		dirs[path.Dir(f.Path)] = true
	}
	if p.durable {
		return syncNames(p.root, dirs)
	}
	return nil
}

// withdraw removes what has no name yet.
func (p *publication) withdraw() error {
	var errs []error
	for _, f := range p.Files[min(p.named, p.written):p.written] {
		if err := p.root.Remove(f.Path + p.suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
