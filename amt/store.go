package amt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Store keeps checkpoints of collections (Save, Restore), which have numbers. Rank 0 calls all of its functions but Create and Open,
// which every rank calls, at the same time as others.
type Store interface {
	// Begin makes room for a checkpoint with a number.
	Begin(n uint64) error
	// Create begins a file of it. What is written is safe when it has been closed without an error.
	Create(n uint64, name string) (io.WriteCloser, error)
	// Commit has the checkpoint count, all of it or nothing, with its manifest.
	Commit(n uint64, manifest []byte) error
	// Newest is the newest checkpoint that counts, and its manifest; 0: there is none.
	Newest() (n uint64, manifest []byte, err error)
	// Open opens a file of one that counts.
	Open(n uint64, name string) (File, error)
}

// A File of a Store.
type File interface {
	io.ReaderAt
	io.Closer
}

// Directory is a Store in a directory that all ranks see. It keeps two checkpoints.
func Directory(path string) Store { return directory(path) }

type directory string

const (
	kept         = 2
	manifestName = "manifest"
	unfinished   = ".tmp"
)

func (d directory) of(n uint64) string { return filepath.Join(string(d), fmt.Sprintf("tasks.%06d", n)) }

func (d directory) Begin(n uint64) error {
	err := os.RemoveAll(d.of(n) + unfinished)
	if err == nil {
		err = os.MkdirAll(d.of(n)+unfinished, 0o700)
	}
	return err
}

// syncedFile is on stable storage when it is closed.
type syncedFile struct{ *os.File }

func (f syncedFile) Close() error { return errors.Join(f.Sync(), f.File.Close()) }

func (d directory) Create(n uint64, name string) (io.WriteCloser, error) {
	f, err := os.OpenFile(filepath.Join(d.of(n)+unfinished, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return syncedFile{f}, err
}

func (d directory) Commit(n uint64, manifest []byte) error {
	f, err := d.Create(n, manifestName)
	if err != nil {
		return err
	}
	_, err = f.Write(manifest)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return syncDirectory(d.of(n) + unfinished) },
		func() error { return os.Rename(d.of(n)+unfinished, d.of(n)) },
		func() error { return syncDirectory(string(d)) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	all, err := d.numbers()
	for ; len(all) > kept && err == nil; all = all[1:] {
		err = os.RemoveAll(d.of(all[0]))
	}
	return err
}

func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// numbers are those of checkpoints that count, in order.
func (d directory) numbers() ([]uint64, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []uint64
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "tasks.")
		if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, err
}

func (d directory) Newest() (uint64, []byte, error) {
	all, err := d.numbers()
	if err != nil || len(all) == 0 {
		return 0, nil, err
	}
	n := all[len(all)-1]
	b, err := os.ReadFile(filepath.Join(d.of(n), manifestName))
	return n, b, err
}

func (d directory) Open(n uint64, name string) (File, error) {
	return os.Open(filepath.Join(d.of(n), name))
}
