package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLeft: a job waits for somebody who goes on with it until there is one, or it has finished or was removed.
func TestLeft(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "store")}
	mine, err := s.Create(Meta{Name: "left", ID: id, Ranks: 1, State: StateRunning})
	if err != nil {
		t.Fatal(err)
	}
	agents, err := Attach(mine.Dir, mine.Meta)
	if err != nil {
		t.Fatal(err)
	}
	left := func(want error) {
		t.Helper()
		if err := agents.Left(mine.Term); !errors.Is(err, want) {
			t.Errorf("found %v, wanted %v", err, want)
		}
	}
	left(ErrLocked)
	mine.Unlock()
	left(nil)
	mine.Meta.State = StateFinished
	if err := mine.Save(); err != nil {
		t.Fatal(err)
	}
	left(ErrOver)
	mine.Meta.State = StateRunning
	if err := mine.Save(); err != nil {
		t.Fatal(err)
	}
	next := *mine
	if err := next.Lock(); err != nil {
		t.Fatal(err)
	}
	left(ErrOver)
	if err := next.Remove(); err != nil {
		t.Fatal(err)
	}
	left(ErrOver)
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	if err := agents.Left(mine.Term); err == nil || errors.Is(err, ErrOver) {
		t.Errorf("found %v of a store that is away, wanted an error that may pass", err)
	}
}

// TestScavenged: what is being copied is waited for as long as it grows, what was copied is listed by node, and what others put
// there is passed by.
func TestScavenged(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "store")}
	j, err := s.Create(Meta{Name: "scavenged", ID: id, Ranks: 1, State: StateRunning})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Unlock()
	for _, bad := range []string{"", "..", "a/b", "/"} {
		if _, err := j.Scavenged().Place(bad); err == nil {
			t.Errorf("node %q was taken", bad)
		}
	}
	for _, node := range []string{"b", "a"} {
		to, err := j.Scavenged().Place(node)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Checkpoints().RecreateTemp(7); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/tmp", filepath.Join(j.Scavenged().dir, "c")); err != nil {
		t.Fatal(err)
	}
	list, err := j.Scavenged().Parts()
	if err != nil || len(list) != 2 || filepath.Base(list[0].Dir) != "a" {
		t.Fatalf("found %v, %v", list, err)
	}
	if err := j.Scavenged().Await(40 * time.Millisecond); err != nil { // nobody writes there: it is given up
		t.Error(err)
	}
	if size, err := j.Scavenged().growing(); err != nil || size != 0 {
		t.Errorf("found %d, %v, wanted 0", size, err)
	}
	for _, from := range list {
		if err := from.Checkpoints().Discard(7); err != nil {
			t.Fatal(err)
		}
	}
	if size, err := j.Scavenged().growing(); err != nil || size != -1 {
		t.Errorf("found %d, %v, wanted -1", size, err)
	}
	if err := j.Scavenged().Remove(); err != nil {
		t.Fatal(err)
	}
}
