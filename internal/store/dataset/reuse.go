package dataset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// A cache keeps the files of the checkpoint that was dropped last, and the next one is written over them: memory that a file has
// already costs half of what new memory costs. A cache must have room for that checkpoint anyway, since each is written before an
// older one is dropped. What is kept lies where what is being removed lies, and counts as little.

// Spares are what of a stream has been dropped and is still there, to be written over.
type Spares struct{ of *Datasets }

// Spares are those of the stream.
func (d *Datasets) Spares() Spares { return Spares{d} }

// Keep drops a dataset, but keeps its files, and no others, for Reuse.
func (s Spares) Keep(n uint64) error {
	away, err := s.of.setAside(n)
	if err != nil || away == "" {
		return err
	}
	for _, dir := range s.dirs() {
		if dir != away || err != nil {
			err = errors.Join(err, s.of.removeAll(dir))
		}
	}
	return err
}

// Drop removes what Keep has kept.
func (s Spares) Drop() error {
	var err error
	for _, dir := range s.dirs() {
		err = errors.Join(err, s.of.removeAll(dir))
	}
	return err
}

// dirs are the directories of that, the newest first. None when they cannot be listed.
func (s Spares) dirs() []string {
	entries, _ := os.ReadDir(s.of.dir)
	var dirs []string
	for _, e := range slices.Backward(entries) {
		if p, ok := parseDir(e.Name()); ok && p.state == "drop" && p.stream == s.of.Stream {
			dirs = append(dirs, filepath.Join(s.of.dir, e.Name()))
		}
	}
	return dirs
}

// ReuseImages puts files that Keep has kept where the images of these ranks are to be written.
func (s Spares) ReuseImages(n uint64, ranks []int) {
	for _, dir := range s.dirs() {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if rank, ok := rankIn(imageName, e.Name()); ok && slices.Contains(ranks, rank) {
				s.Reuse(n, e.Name())
			}
		}
	}
}

// ReuseMembers puts files that Keep has kept where these members of a group put theirs of a snapshot (client/snap).
func (s Spares) ReuseMembers(n uint64, members []int) {
	for _, member := range members {
		dir := fmt.Sprintf("rank-%05d.files", member)
		if s.of.disk().Mkdir(filepath.Join(s.of.Path(n)+".tmp", dir)) == nil {
			s.Reuse(n, filepath.Join(dir, fmt.Sprintf("member-%d", member)))
		}
	}
}

// Reuse puts a file that Keep has kept where one of its name is to be written for dataset n, and says whether there was one.
// Its first page, which has the header of whatever has one, is zeros then: it is incomplete, like a new one. Its length is what it
// was, and so is the time when it was written to: who has filled it knows by that that nobody else has written to it since. A file that
// has another name, or that anybody has open or mapped, is not written over.
func (s Spares) Reuse(n uint64, name string) bool {
	for _, dir := range s.dirs() {
		if s.of.overwrite(filepath.Join(dir, name), filepath.Join(s.of.Path(n)+".tmp", name)) == nil {
			return true
		}
	}
	return false
}

var errShared = errors.New("a file with other names")

func (g ground) overwrite(from, to string) error {
	f, st, err := own.Open(from, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close() // ends the lease
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || sys.Nlink != 1 {
		return errShared
	}
	// The kernel grants it only where nobody else has the file open or mapped.
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return err
	}
	if _, err := f.WriteAt(make([]byte, abi.PageBytes), 0); err != nil {
		return err
	}
	if err := os.Chtimes(from, time.Time{}, st.ModTime()); err != nil {
		return err
	}
	return g.disk().Rename(from, to)
}
