package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// A cache keeps the files of the checkpoint that was dropped last, and the next one is written over them: memory that a file has
// already costs half of what new memory costs. A cache must have room for that checkpoint anyway, since each is written before an
// older one is dropped. What is kept lies where what is being removed lies, and counts as little.

// KeepForReuse drops a checkpoint, but keeps its files, and no others, for Reuse.
func (j *Job) KeepForReuse(n uint64) error {
	away, err := j.setAside(n)
	if err != nil || away == "" {
		return err
	}
	for _, dir := range j.keptForReuse() {
		if dir != away || err != nil {
			err = errors.Join(err, j.removeAll(dir))
		}
	}
	return err
}

// DropKept removes what KeepForReuse has kept.
func (j *Job) DropKept() error {
	var err error
	for _, dir := range j.keptForReuse() {
		err = errors.Join(err, j.removeAll(dir))
	}
	return err
}

// keptForReuse are the directories of what has been dropped and is still there, the newest first. None when they cannot be listed.
func (j *Job) keptForReuse() []string {
	entries, _ := os.ReadDir(j.Dir)
	var dirs []string
	for _, e := range slices.Backward(entries) {
		if p, ok := parseDir(e.Name()); ok && p.state == "drop" && p.stream == j.Stream {
			dirs = append(dirs, filepath.Join(j.Dir, e.Name()))
		}
	}
	return dirs
}

// ReuseImages puts files that KeepForReuse has kept where the images of these ranks are to be written.
func (j *Job) ReuseImages(n uint64, ranks []int) {
	for _, dir := range j.keptForReuse() {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if rank, ok := rankIn(imageName, e.Name()); ok && slices.Contains(ranks, rank) {
				j.Reuse(n, e.Name())
			}
		}
	}
}

// Reuse puts a file that KeepForReuse has kept where one of its name is to be written for checkpoint n, and says whether there was one.
// Its first page, which has the header of whatever has one, is zeros then: it is incomplete, like a new one. Its length is what it
// was. A file that has another name, or that anybody has open or mapped, is not written over.
func (j *Job) Reuse(n uint64, name string) bool {
	for _, dir := range j.keptForReuse() {
		if j.overwrite(filepath.Join(dir, name), filepath.Join(j.Path(n)+".tmp", name)) == nil {
			return true
		}
	}
	return false
}

var errShared = errors.New("a file with other names")

func (j *Job) overwrite(from, to string) error {
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
	return j.disk().Rename(from, to)
}
