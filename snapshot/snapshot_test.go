package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// TestOf: regions are memory without pointers.
func TestOf(t *testing.T) {
	type flat struct {
		A [3]int16
		B complex128
	}
	type deep struct {
		A flat
		B struct{ S string }
	}
	if r, err := Of(3, make([]flat, 5)); err != nil || r.ID != 3 || len(r.Bytes) != 5*24 {
		t.Errorf("%v, %v", len(r.Bytes), err)
	}
	for name, f := range map[string]func() (Region, error){
		"string":            func() (Region, error) { return Of(1, make([]deep, 1)) },
		"*int":              func() (Region, error) { return Of(1, make([]*int, 1)) },
		"uintptr":           func() (Region, error) { return Of(1, make([]uintptr, 1)) },
		"found no bytes":    func() (Region, error) { return Of(1, []int{}) },
		"region 1 of []int": func() (Region, error) { return Of(1, make([][]int, 1)) },
		"of struct {}":      func() (Region, error) { return Of(1, make([]struct{}, 4)) },
	} {
		if _, err := f(); !errors.Is(err, ErrUse) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, wanted %q", err, name)
		}
	}
}

// TestWrong: what a call cannot be made with is an error before anybody is asked.
func TestWrong(t *testing.T) {
	t.Setenv("BYSSUS_CLIENTS", "")
	r := Region{ID: 1, Bytes: make([]byte, 8)}
	for want, c := range map[string]struct {
		g       Group
		regions []Region
	}{
		"a member below":            {Group{Member: 2, Members: 2}, []Region{r}},
		"a name of 1 to 63 bytes":   {Group{Members: 1, Name: "a/b"}, []Region{r}},
		"1 to 4096 regions":         {Group{Members: 1}, nil},
		"each id once":              {Group{Members: 1}, []Region{r, r}},
		"BYSSUS_CLIENTS is not set": {Group{Members: 1}, []Region{r}},
	} {
		if _, err := Open(t.Context(), c.g, c.regions...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, wanted %q", err, want)
		}
	}
	if _, _, _, err := RestoreAs(t.Context(), Group{Members: 1}, nil); !errors.Is(err, ErrUse) {
		t.Error(err)
	}
	var s Snapshots
	s.phase = computing
	if err := s.Commit(t.Context()); !errors.Is(err, ErrUse) {
		t.Error(err)
	}
	s.phase = started
	if err := errors.Join(s.Start(1), s.Finish(t.Context(), false)); strings.Count(err.Error(), ErrUse.Error()) != 2 {
		t.Error(err)
	}
}

// TestFile: regions come back as they were, and those of another program not at all.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	a, b := []byte("some bytes"), make([]byte, 10_000)
	b[9_999] = 7
	s := &Snapshots{group: Group{Member: 4, Members: 9}, regions: []Region{{ID: 2, Bytes: a}, {ID: 1, Bytes: b}}, dir: filepath.Join(dir, "rank-00004.files")}
	for range 2 { // the second time over the first
		if err := s.write(41); err != nil {
			t.Fatal(err)
		}
	}
	clear(a)
	clear(b)
	if tag, err := s.read(s.dir); err != nil || tag != 41 || string(a) != "some bytes" || b[9_999] != 7 {
		t.Errorf("%d, %v: %q", tag, err, a)
	}
	clear(a)
	s.regions[0].Leave, b[9_999] = true, 0
	if tag, err := s.read(s.dir); err != nil || tag != 41 || a[0] != 0 || b[9_999] != 7 {
		t.Errorf("of a region that is left as it is: %d, %v: %q", tag, err, a)
	}
	s.regions[1].Bytes = b[:9_999]
	if _, err := s.read(s.dir); !errors.Is(err, ErrDiffer) || !strings.Contains(err.Error(), "member 4: found region 1 of 9999 bytes, wanted the snapshot's 1 of 10000") {
		t.Error(err)
	}
	s.regions = s.regions[:1]
	if _, err := s.read(s.dir); !errors.Is(err, ErrDiffer) {
		t.Error(err)
	}
	s.group.Member = 3
	if _, err := s.read(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestMake: regions are made when it is known how long they are; what cannot be is the program's error, and no other.
func TestMake(t *testing.T) {
	a, b := []byte("some bytes"), make([]byte, 5000)
	b[4_999] = 7
	s := &Snapshots{group: Group{Members: 1}, regions: []Region{{ID: 2, Bytes: a}, {ID: 1, Bytes: b}}, dir: filepath.Join(t.TempDir(), "rank-00000.files")}
	if err := s.write(3); err != nil {
		t.Fatal(err)
	}
	var made []Region
	s.makes = func(of []Length) ([]Region, error) {
		if made = nil; of == nil {
			return nil, os.ErrInvalid
		}
		for _, l := range of {
			made = append(made, Region{ID: l.ID, Bytes: make([]byte, l.Bytes)})
		}
		return made, nil
	}
	if tag, err := s.read(s.dir); err != nil || tag != 3 || string(made[0].Bytes) != "some bytes" || made[1].Bytes[4_999] != 7 {
		t.Errorf("%d, %v: %v", tag, err, made)
	}
	if err := s.make(nil); !errors.Is(err, errMake) || !errors.Is(err, os.ErrInvalid) {
		t.Error(err)
	}
	s.makes = func([]Length) ([]Region, error) { return nil, nil }
	if _, err := s.read(s.dir); !errors.Is(err, errMake) || !errors.Is(err, ErrUse) {
		t.Error(err)
	}
	s.makes = func([]Length) ([]Region, error) { return []Region{{ID: 2, Bytes: make([]byte, 1)}}, nil }
	if _, err := s.read(s.dir); errors.Is(err, errMake) || !errors.Is(err, ErrDiffer) {
		t.Error(err)
	}
}

// TestHandOver: what is handed over is written while the program computes, and a commit waits for it; what it fails with is told.
func TestHandOver(t *testing.T) {
	path, asked, answers := agent(t)
	t.Setenv("BYSSUS_CLIENTS", path)
	dir := t.TempDir()
	placed := client.Answered{Answer: client.Answer{Valid: 1, Dataset: 1}, Text: []string{dir, ""}}
	large, small := make([]byte, 16<<20), []byte("small")
	large[len(large)-1] = 7
	s := &Snapshots{group: Group{Members: 1}, regions: []Region{{ID: 1, Bytes: large, HandOver: true}, {ID: 2, Bytes: small}}, phase: computing, next: 1, dir: filepath.Join(dir, "rank-00000.files")}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Start(3); err != nil {
		t.Fatal(err)
	}
	copy(small, "wrong")
	for s.copied != nil { // until it is copied, and no longer
		if err := s.Commit(ended); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	answers <- placed
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-asked; a.Valid != 1 {
		t.Errorf("found %+v, wanted a snapshot that is there", a)
	}
	large[len(large)-1] = 8
	if tag, err := s.read(filepath.Join(dir, "rank-00000.files")); err != nil || tag != 3 || string(small) != "small" || large[len(large)-1] != 7 {
		t.Errorf("%d, %v: %q, %d", tag, err, small, large[len(large)-1])
	}
	if err := s.Start(4); err != nil {
		t.Fatal(err)
	}
	<-s.copied
	failed := make(chan error, 1)
	failed <- fmt.Errorf("full: %w", ErrRoom)
	s.copied = failed
	placed.Valid, placed.Text[1] = 0, "member 0 has none"
	answers <- placed
	if err := s.Commit(t.Context()); !errors.Is(err, ErrFailed) || !errors.Is(err, ErrRoom) || !strings.Contains(err.Error(), "; here full") {
		t.Error(err)
	}
	if a := <-asked; a.Valid != 0 {
		t.Errorf("found %+v, wanted one that is not there", a)
	}
}

// agent answers each question when it is told to.
func agent(t *testing.T) (path string, asked chan *client.Asked, answers chan client.Answered) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "agent")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	asked, answers = make(chan *client.Asked, 10), make(chan client.Answered, 10)
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			buf := make([]byte, client.MaxPacket)
			n, _ := conn.Read(buf)
			a, err := client.Parse(buf[:n])
			if err != nil {
				t.Error(err)
			}
			asked <- a
			for _, p := range (<-answers).Packets() {
				_, _ = conn.Write(p)
			}
			conn.Close()
		}
	}()
	return path, asked, answers
}

// TestPatience: a call whose context ends goes on when it is made again, with one question in all.
func TestPatience(t *testing.T) {
	path, asked, answers := agent(t)
	t.Setenv("BYSSUS_CLIENTS", path)
	dir := t.TempDir()
	placed := func(n uint64, why string) client.Answered {
		return client.Answered{Answer: client.Answer{Run: 3, Dataset: n, Valid: 1}, Text: []string{dir, why}}
	}
	answers <- placed(1, "")
	s, err := Open(t.Context(), Group{Members: 1}, Region{ID: 1, Bytes: make([]byte, 10)})
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := s.Start(6); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		if err := s.Commit(over); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err := s.Start(7); !errors.Is(err, ErrUse) {
		t.Error(err)
	}
	answers <- placed(2, "")
	if err := s.Commit(t.Context()); err != nil || s.next != 2 {
		t.Errorf("%v, next %d", err, s.next)
	}
	if a := <-asked; len(asked) != 0 || a.Type != client.ReqCommit || a.Dataset != 1 || a.Valid != 1 || a.Text[0] != "6" || a.Run != 3 {
		t.Errorf("found %+v, and %d more, wanted one commit", a, len(asked))
	}
	no := placed(3, "the cache is full")
	no.Valid = 0
	answers <- no
	if err := errors.Join(s.Start(8), s.Commit(t.Context())); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "the cache is full") || s.next != 3 {
		t.Errorf("%v, next %d", err, s.next)
	}
	refusal := client.Refusal("the program is over")
	answers <- refusal
	if err := s.Finish(t.Context(), true); !errors.Is(err, ErrAgent) || !strings.Contains(err.Error(), "the program is over") {
		t.Error(err)
	}
	if err := s.Finish(t.Context(), true); !errors.Is(err, ErrUse) {
		t.Error(err)
	}
}
