package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/store/format"
)

// Content is what a rank's files contain, one behind the other. One file is open at a time. It serves one goroutine at a time.
type Content struct {
	dir     string // of the dataset
	rank    int
	fresh   bool                   // the files are made
	reuse   func(name string) bool // puts a file there that may be written over; nil: there is none
	over    map[int]bool           // files that are made, by number: such a one was there; else it was empty
	repairs bool                   // what there is is written over; what is not there, or not as long as it was, is made so
	index   func() (*Index, error)
	x       *Index // read when it is first needed: when files are made again their index is made just before
	begins  []int64
	root    *os.Root
	open    *os.File
	at      int        // the file that is open
	good    *goodChunk // what is read is compared with its checksums; nil: it is not
}

// goodChunk is the chunk of a file that was read last and compared with its checksum.
type goodChunk struct {
	file int
	at   int64
	b    []byte
}

// Read returns the contents of a rank's files in a dataset's directory.
func (x *Index) Read(dir string) *Content {
	return &Content{dir: dir, rank: x.Rank, index: func() (*Index, error) { return x, nil }}
}

// ReadGood returns the contents of a rank's files, of which each chunk is compared with its checksum when it is read: ErrDamaged.
func (x *Index) ReadGood(dir string) *Content {
	c := x.Read(dir)
	c.good = &goodChunk{file: -1}
	return c
}

// Repair returns the contents of a rank's files, to be written over where they are damaged.
func (x *Index) Repair(dir string) *Content {
	c := x.Read(dir)
	c.repairs = true
	return c
}

// MakeAgain returns the contents of files that are not there yet, and whose index is written to a file just before. It is to be
// finished by Finish. A file whose name in the dataset's directory reuse finds is written over (nil: none).
func MakeAgain(dir string, rank int, index io.ReaderAt, reuse func(name string) bool) *Content {
	return &Content{dir: dir, rank: rank, fresh: true, reuse: reuse, over: map[int]bool{}, index: func() (*Index, error) {
		x, err := Read(index)
		if err == nil && x.Rank != rank {
			err = fmt.Errorf("files: index of rank %d, wanted that of rank %d", x.Rank, rank)
		}
		return x, err
	}}
}

func (c *Content) begin() error {
	if c.x != nil {
		return nil
	}
	x, err := c.index()
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, ContentName(c.rank))
	if c.fresh || c.repairs {
		if err := os.Mkdir(path, 0o700); err != nil && !(c.repairs && errors.Is(err, os.ErrExist)) {
			return fmt.Errorf("files: %w", err)
		}
	}
	if c.root, err = os.OpenRoot(path); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	c.x, c.begins = x, []int64{0}
	for _, f := range x.Files {
		c.begins = append(c.begins, c.begins[len(c.begins)-1]+f.Size)
	}
	return nil
}

// file opens the i-th file.
func (c *Content) file(i int) (*os.File, error) {
	if c.open != nil && c.at == i {
		return c.open, nil
	}
	if c.open != nil {
		err := c.open.Close()
		c.open = nil
		if err != nil {
			return nil, fmt.Errorf("files: %w", err)
		}
	}
	f := &c.x.Files[i]
	flags := os.O_RDONLY
	if c.fresh || c.repairs {
		flags = os.O_RDWR | os.O_CREATE
		if err := makeDirs(c.root, f.Path); err != nil {
			return nil, fmt.Errorf("files: %w", err)
		}
		if _, known := c.over[i]; c.fresh && !known {
			c.over[i] = c.reuse != nil && c.reuse(filepath.Join(ContentName(c.rank), f.Path))
		}
	}
	file, err := c.root.OpenFile(f.Path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	if flags != os.O_RDONLY {
		if err := resize(file, f.Size); err != nil {
			file.Close()
			return nil, fmt.Errorf("files: %s: %w", f.Path, err)
		}
	}
	c.open, c.at = file, i
	return file, nil
}

func resize(f *os.File, size int64) error {
	st, err := f.Stat()
	if err == nil && st.Size() != size {
		err = f.Truncate(size)
	}
	return err
}

// ReadAt fills all of b.
func (c *Content) ReadAt(b []byte, off int64) (int, error) {
	err := c.each(b, off, func(f *os.File, b []byte, at int64) error {
		if c.good != nil {
			return c.readGood(f, b, at)
		}
		n, err := f.ReadAt(b, at)
		if n == len(b) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// readGood fills b from chunks of the open file, each of which is read once for all that is read of it in a row.
func (c *Content) readGood(f *os.File, b []byte, at int64) error {
	for len(b) > 0 {
		g, begin := c.good, at/Chunk*Chunk
		if g.file != c.at || g.at != begin {
			if g.b == nil {
				g.b = make([]byte, Chunk)
			}
			g.file, g.b = -1, g.b[:min(Chunk, c.x.Files[c.at].Size-begin)]
			if n, err := f.ReadAt(g.b, begin); n < len(g.b) {
				return fmt.Errorf("%w: %d bytes at %d, wanted %d: %w", ErrDamaged, n, begin, len(g.b), err)
			}
			if crc, want := format.Checksum(g.b), c.x.Files[c.at].Sums[begin/Chunk]; crc != want {
				return fmt.Errorf("%w: %d bytes at %d: crc32c %08x, wanted %08x", ErrDamaged, len(g.b), begin, crc, want)
			}
			g.file, g.at = c.at, begin
		}
		n := copy(b, g.b[at-begin:])
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// WriteAt writes to the files. In files that are made, and were empty, zeros become holes.
func (c *Content) WriteAt(b []byte, off int64) (int, error) {
	err := c.each(b, off, func(f *os.File, b []byte, at int64) error {
		if c.fresh && !c.over[c.at] && format.AllZero(b) {
			return nil
		}
		_, err := f.WriteAt(b, at)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// each hands every file its share of b.
func (c *Content) each(b []byte, off int64, do func(f *os.File, b []byte, at int64) error) error {
	if err := c.begin(); err != nil {
		return err
	}
	end := off + int64(len(b))
	if off < 0 || end > c.x.Size {
		return fmt.Errorf("files: %d bytes at %d, the files of rank %d have %d", len(b), off, c.rank, c.x.Size)
	}
	first := sort.Search(len(c.x.Files), func(i int) bool { return c.begins[i+1] > off })
	for i := first; i < len(c.x.Files) && c.begins[i] < end; i++ {
		from, to := max(off, c.begins[i]), min(end, c.begins[i+1])
		if from == to {
			continue // an empty file
		}
		f, err := c.file(i)
		if err != nil {
			return err
		}
		if err := do(f, b[from-off:to-off], from-c.begins[i]); err != nil {
			return fmt.Errorf("files: %s: %w", c.x.Files[i].Path, err)
		}
	}
	return nil
}

// Finish makes what no byte was written for, and brings modes and times back; with durable all is on stable storage then.
func (c *Content) Finish(durable bool) error {
	if err := c.begin(); err != nil {
		return err
	}
	dirs := map[string]bool{".": true}
	for i, file := range c.x.Files {
		f, err := c.file(i)
		if err == nil && durable {
			err = f.Sync()
		}
		if err == nil {
			err = c.root.Chtimes(file.Path, file.ModTime, file.ModTime)
		}
		if err == nil {
			err = c.root.Chmod(file.Path, file.Mode)
		}
		if err != nil {
			return fmt.Errorf("files: %s: %w", file.Path, err)
		}
		for d := filepath.Dir(file.Path); d != "." && !dirs[d]; d = filepath.Dir(d) {
			dirs[d] = true
		}
	}
	for d := range dirs {
		if err := syncName(c.root, d); durable && err != nil {
			return fmt.Errorf("files: %w", err)
		}
	}
	return nil
}

// Close lets go of what is open.
func (c *Content) Close() error {
	var err error
	if c.open != nil {
		err = c.open.Close()
		c.open = nil
	}
	if c.root != nil {
		err = errors.Join(err, c.root.Close())
	}
	return err
}
