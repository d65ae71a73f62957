package amt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/byssus-hpc/byssus/snapshot"
)

// Nodes is a Store in the memory of the nodes that the program runs on, safe from the loss of some of them: for programs under byssus run
// --plain --cache. It is a group of snapshots of this name (docs/memory.md), which is "tasks" if it is empty; it keeps one checkpoint, the
// newest. When the program has ended well, that is copied to the job's store: a later run of the job goes on from it.
func Nodes(name string) Store {
	return &nodes{name: cmp.Or(name, "tasks"), of: map[int]*session{}}
}

type nodes struct {
	name string
	sync.Mutex
	of map[int]*session // by rank: all of this process
}

// A session is a rank's part. Its files are called NUMBER.NAME, by the number of the checkpoint.
type session struct {
	files *snapshot.Files
	n     uint64 // the newest checkpoint of which this rank has a part; 0: none, or it does not know
	dir   string // of the next
}

func fileName(n uint64, name string) string { return fmt.Sprintf("%d.%s", n, name) }

// nameOf takes a path apart that fileName has named.
func nameOf(path string) (n uint64, name string) {
	number, name, _ := strings.Cut(filepath.Base(path), ".")
	n, _ = strconv.ParseUint(number, 10, 64)
	return n, name
}

// session is a rank's, which begins with the first call.
func (s *nodes) session(at Place) (*session, error) {
	s.Lock()
	mine := s.of[at.Rank]
	s.Unlock()
	if mine != nil {
		return mine, nil
	}
	f, err := snapshot.RestoreFiles(context.Background(), snapshot.Group{Name: s.name, Member: at.Rank, Members: at.Ranks})
	if err != nil {
		return nil, err
	}
	mine = &session{files: f}
	s.Lock()
	s.of[at.Rank] = mine
	s.Unlock()
	return mine, nil
}

func (s *nodes) Newest(at Place) (n uint64, manifest []byte, err error) {
	mine, err := s.session(at)
	if err != nil || !mine.files.Found() || at.Rank >= mine.files.Members() {
		return 0, nil, err
	}
	paths, err := mine.files.Paths(context.Background(), at.Rank)
	for _, path := range paths {
		number, name := nameOf(path)
		if mine.n = number; name == manifestName {
			manifest, err = os.ReadFile(path)
		}
	}
	return mine.n, manifest, err
}

// Begin gives what older checkpoints have left their new names: their memory is written over.
func (s *nodes) Begin(at Place, n uint64) error {
	mine, err := s.session(at)
	if err != nil {
		return err
	}
	if mine.dir, err = mine.files.Begin(); err != nil {
		return err
	}
	old, err := os.ReadDir(mine.dir)
	for _, e := range old {
		_, name := nameOf(e.Name())
		err = errors.Join(err, os.Rename(filepath.Join(mine.dir, e.Name()), filepath.Join(mine.dir, fileName(n, name))))
	}
	return err
}

// reused is a file that is written over, and ends where what is written ends.
type reused struct {
	*os.File
	end int64
}

func (f *reused) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.end += int64(n)
	return n, err
}

func (f *reused) Close() error { return errors.Join(f.Truncate(f.end), f.File.Close()) }

func (s *nodes) Create(at Place, n uint64, name string) (io.WriteCloser, error) {
	mine, err := s.session(at)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(mine.dir, fileName(n, name)), os.O_WRONLY|os.O_CREATE, 0o600)
	return &reused{File: f}, err
}

func (s *nodes) Commit(at Place, n uint64, manifest []byte) error {
	mine, err := s.session(at)
	if err != nil {
		return err
	}
	if at.Rank == 0 {
		if err := s.write(at, n, manifestName, manifest); err != nil { // which the others are to hear, too
			return errors.Join(err, mine.files.Fail(context.Background(), n))
		}
	}
	return mine.files.Commit(context.Background(), n)
}

func (s *nodes) write(at Place, n uint64, name string, b []byte) error {
	f, err := s.Create(at, n, name)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// Abandon gives the memory back.
func (s *nodes) Abandon(at Place, _ uint64) {
	mine, err := s.session(at)
	if err != nil || mine.dir == "" {
		return
	}
	entries, _ := os.ReadDir(mine.dir)
	for _, e := range entries {
		_ = os.Remove(filepath.Join(mine.dir, e.Name()))
	}
}

// Here lists what this rank has written. Where all can be opened, each rank speaks for some.
func (s *nodes) Here(at Place, n uint64) (names []string, err error) {
	mine, err := s.session(at)
	if err != nil || !mine.files.Found() {
		return nil, err
	}
	for member := range mine.files.Members() {
		if member != at.Rank && (!mine.files.All() || member%at.Ranks != at.Rank) {
			continue
		}
		paths, err := mine.files.Paths(context.Background(), member)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if number, name := nameOf(path); number == n {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

func (s *nodes) Open(at Place, n uint64, name string) (File, error) {
	mine, err := s.session(at)
	if err != nil {
		return nil, err
	}
	member := at.Rank
	if mine.files.All() {
		if _, err := fmt.Sscanf(name, "part-%d", &member); err != nil {
			return nil, err
		}
	}
	paths, err := mine.files.Paths(context.Background(), member)
	for _, path := range paths {
		if filepath.Base(path) == fileName(n, name) {
			return os.Open(path)
		}
	}
	return nil, errors.Join(err, fmt.Errorf("%s of checkpoint %d: %w", name, n, fs.ErrNotExist))
}

// end is the end of a program that has ended well.
func (s *nodes) end(at Place) error {
	s.Lock()
	mine := s.of[at.Rank]
	delete(s.of, at.Rank)
	s.Unlock()
	if mine == nil {
		return nil
	}
	return mine.files.Finish(context.Background(), true)
}
