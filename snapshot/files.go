package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// Files are snapshots whose parts are files that members write themselves: for programs whose state has another size each time, and which may
// go on with another number of members. What is guaranteed is what it is for Snapshots.
//
//	f, err := snapshot.RestoreFiles(ctx, snapshot.Group{Name: "tree", Member: rank, Members: ranks})
//	if f.Found() { ... f.Paths(ctx, member) ... }
//	dir, err := f.Begin()                         // write files into it
//	err = f.Commit(ctx, step)
//
// Any goroutine may call, one at a time.
type Files struct {
	s       *Snapshots
	dataset uint64 // that was found, or committed last; 0: there is none
	members int    // of it
	stored  bool   // it lies in the store that all nodes see
}

// RestoreFiles begins, with the newest snapshot if there is one, of any number of members: all members call it.
func RestoreFiles(ctx context.Context, g Group) (*Files, error) {
	s, err := newSnapshots(g, nil)
	if err != nil {
		return nil, err
	}
	f := &Files{s: s}
	if err := f.enter(ctx); err != nil {
		s.talk.close()
		s.unname()
		return nil, s.wrap("begin", err)
	}
	return f, nil
}

func (f *Files) enter(ctx context.Context) error {
	s := f.s
	ask := client.Asked{Request: client.Request{Type: client.ReqEnter, Flags: client.FlagRestore | client.FlagAny}, Text: []string{s.group.Name, s.group.Policy}}
	a, err := s.ask(ctx, ask)
	for err == nil && a.Flags&client.FlagRestore != 0 {
		s.run.Store(a.Run)
		f.dataset, f.stored = a.Dataset, a.Flags&client.FlagBypass != 0
		ready := client.Asked{Request: client.Request{Type: client.ReqReady, Dataset: a.Dataset}, Text: []string{"", s.group.Name}}
		if _, err := f.look(ctx, s.group.Member); err == nil {
			ready.Valid = 1
		} else if ctx.Err() != nil {
			return err
		}
		if a, err = s.ask(ctx, ready); err == nil && a.Valid != 1 {
			f.dataset = 0
		}
	}
	if err == nil {
		err = s.placed(a)
	}
	return err
}

// Found says whether there is a snapshot: the one that was found, or was committed last.
func (f *Files) Found() bool { return f.dataset != 0 }

// Members is how many members it has.
func (f *Files) Members() int { return f.members }

// All says whether the files of all of its members can be opened here, or those of this one alone.
func (f *Files) All() bool { return f.stored }

// Paths are where the files of a member of it are.
func (f *Files) Paths(ctx context.Context, member int) ([]string, error) {
	if f.dataset == 0 || member < 0 || member >= f.members || !f.stored && member != f.s.group.Member {
		return nil, f.s.wrap("paths", fmt.Errorf("member %d: found a snapshot of %d members, those of this one can be opened here: %w", member, f.members, fs.ErrNotExist))
	}
	paths, err := f.look(ctx, member)
	if err != nil {
		return nil, f.s.wrap("paths", err)
	}
	return paths, nil
}

// look asks where the files of a member are.
func (f *Files) look(ctx context.Context, member int) ([]string, error) {
	if !f.s.use.TryLock() {
		return nil, fmt.Errorf("found another call at the same time: %w", ErrUse)
	}
	defer f.s.use.Unlock()
	ask := client.Asked{Request: client.Request{Type: client.ReqFetch, Dataset: f.dataset, Rank: uint32(member)}}
	if f.stored {
		ask.Flags = client.FlagBypass
	}
	a, err := f.s.tell(ctx, ask)
	if err != nil {
		return nil, err
	}
	f.members = int(a.Valid)
	if len(a.Text) == 0 {
		return nil, fmt.Errorf("it does not say where snapshot %d is: %w", f.dataset, ErrAgent)
	}
	paths := a.Text[1:]
	for i, p := range paths {
		if !filepath.IsAbs(p) {
			paths[i] = filepath.Join(a.Text[0], p)
		}
	}
	return paths, nil
}

// Begin returns the directory into which this member writes its files of the next snapshot. Those of an older one may be there: who writes
// over them has their memory again.
func (f *Files) Begin() (dir string, err error) {
	s := f.s
	if err := s.come("begin", "found a snapshot that is not committed, or an end", computing, started); err != nil {
		return "", err
	}
	defer s.use.Unlock()
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", s.wrap("begin", err)
	}
	s.phase = started
	return s.dir, nil
}

// Commit makes what was written since Begin the snapshot to restore, when all members have called it, with one tag. All hear the same. When ctx
// ends, it goes on, and is called again.
func (f *Files) Commit(ctx context.Context, tag uint64) error { return f.commit(ctx, tag, true) }

// Fail is Commit of a member that could not write its files: all hear that the snapshot does not count.
func (f *Files) Fail(ctx context.Context, tag uint64) error { return f.commit(ctx, tag, false) }

func (f *Files) commit(ctx context.Context, tag uint64, well bool) error {
	s := f.s
	if err := s.come("commit", "found nothing that was begun", started, committing); err != nil {
		return err
	}
	defer s.use.Unlock()
	s.phase = committing
	ask := client.Asked{Request: client.Request{Type: client.ReqCommit, Dataset: s.next}, Text: []string{strconv.FormatUint(tag, 10), s.group.Name}}
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			ask.Bytes += uint64(info.Size())
		}
	}
	if well && err == nil {
		ask.Valid = 1
	}
	number := s.next
	if err := s.committed(ctx, ask); err != nil {
		return s.wrap("commit", err)
	}
	f.dataset, f.stored, f.members = number, false, s.group.Members
	return nil
}

// Finish ends: all members call it. Without keep the snapshots are removed; else the newest is copied to the job's store, and a later run goes
// on from it.
func (f *Files) Finish(ctx context.Context, keep bool) error { return f.s.Finish(ctx, keep) }
