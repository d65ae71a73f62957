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

// A Store keeps checkpoints of collections (Save, Restore), which have numbers. All ranks call its functions, at the same time as others.
type Store interface {
	// Newest is the newest checkpoint that counts, 0: there is none. Ranks that cannot know say 0, and one that can has the manifest.
	Newest(at Place) (n uint64, manifest []byte, err error)
	// Begin makes room for a checkpoint with a number. No rank creates a file of it before all have returned.
	Begin(at Place, n uint64) error
	// Create begins a file of it.
	Create(at Place, n uint64, name string) (io.WriteCloser, error)
	// Commit has the checkpoint count, all of it or nothing: for all ranks, or none. All have closed their files; rank 0 has the manifest.
	Commit(at Place, n uint64, manifest []byte) error
	// Abandon is the end of a checkpoint that was begun, and will not count: all have closed their files.
	Abandon(at Place, n uint64)
	// Here lists the files of a checkpoint that counts which this rank can open.
	Here(at Place, n uint64) (names []string, err error)
	// Open opens one of them.
	Open(at Place, n uint64, name string) (File, error)
}

// A Place is that of who calls a Store.
type Place struct{ Rank, Ranks int }

// An ender is a Store that is told when a program has ended well that has used it: all ranks tell it.
type ender interface{ end(at Place) error }

// uses notes a store.
func (p *population) uses(s Store) {
	if e, ok := s.(ender); ok && !slices.Contains(p.stores, e) {
		p.stores = append(p.stores, e)
	}
}

// ends is the end of a program that has ended well.
func (r *rank) ends() (err error) {
	for _, s := range r.population.stores {
		if e := s.end(r.place()); e != nil {
			err = errors.Join(err, fmt.Errorf("amt: rank %d: the end of its checkpoints: %w", r.self, e))
		}
	}
	r.population.stores = nil
	return err
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

func (d directory) Begin(at Place, n uint64) error {
	if at.Rank != 0 {
		return nil
	}
	err := os.RemoveAll(d.of(n) + unfinished)
	if err == nil {
		err = os.MkdirAll(d.of(n)+unfinished, 0o700)
	}
	return err
}

func (d directory) Abandon(at Place, n uint64) {
	if at.Rank == 0 {
		_ = os.RemoveAll(d.of(n) + unfinished) // else the next one begins with that
	}
}

// syncedFile is on stable storage when it is closed.
type syncedFile struct{ *os.File }

func (f syncedFile) Close() error { return errors.Join(f.Sync(), f.File.Close()) }

func (d directory) Create(_ Place, n uint64, name string) (io.WriteCloser, error) {
	f, err := os.OpenFile(filepath.Join(d.of(n)+unfinished, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return syncedFile{f}, err
}

func (d directory) Commit(at Place, n uint64, manifest []byte) error {
	if at.Rank != 0 {
		return nil
	}
	f, err := d.Create(at, n, manifestName)
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

func (d directory) Newest(at Place) (uint64, []byte, error) {
	if at.Rank != 0 {
		return 0, nil, nil
	}
	all, err := d.numbers()
	if err != nil || len(all) == 0 {
		return 0, nil, err
	}
	n := all[len(all)-1]
	b, err := os.ReadFile(filepath.Join(d.of(n), manifestName))
	return n, b, err
}

func (d directory) Here(_ Place, n uint64) (names []string, err error) {
	entries, err := os.ReadDir(d.of(n))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (d directory) Open(_ Place, n uint64, name string) (File, error) {
	return os.Open(filepath.Join(d.of(n), name))
}
