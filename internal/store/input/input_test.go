package input

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var job = [16]byte{1, 2, 3}

// contents reads all that there is.
func contents(t *testing.T, s *Spool) []byte {
	t.Helper()
	var all []byte
	for {
		b, err := s.Read(uint64(len(all)))
		if errors.Is(err, io.EOF) || err == nil && len(b) == 0 {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAgain: what was appended, in pieces of any length, is read from any offset, by who opens the file later, too.
func TestAgain(t *testing.T) {
	rng, dir := rand.New(rand.NewPCG(1, 1)), t.TempDir()
	s := must[*Spool](t)(Create(dir, job, true))
	var want []byte
	for i := range 50 {
		b := make([]byte, 1+rng.IntN(MaxPiece))
		if i == 0 {
			b = make([]byte, MaxPiece)
		}
		for k := range b {
			b[k] = byte(rng.Uint32())
		}
		ok(t, s.Append(b))
		want = append(want, b...)
		if i%10 == 0 {
			ok(t, s.Close())
			s = must[*Spool](t)(Open(dir, job, false))
		}
	}
	for range 2 {
		if got := contents(t, s); !bytes.Equal(got, want) || s.Size() != uint64(len(want)) {
			t.Fatalf("%d bytes, wanted %d, the same", len(got), len(want))
		}
		for range 200 {
			at := rng.IntN(len(want))
			if b, err := s.Read(uint64(at)); err != nil || len(b) == 0 || !bytes.HasPrefix(want[at:], b) {
				t.Fatalf("at %d: %d bytes, %v", at, len(b), err)
			}
		}
		if s.Ended() {
			break
		}
		ok(t, s.End())
		s.Close()
		s = must[*Spool](t)(Open(dir, job, false))
	}
	if err := s.Append([]byte("x")); err == nil {
		t.Error("something was appended after the end")
	}
	if _, err := s.Read(uint64(len(want) + 1)); !errors.Is(err, ErrDamaged) {
		t.Errorf("behind the end: %v, wanted %v", err, ErrDamaged)
	}
}

// TestTorn: whatever a crash has left of the last record, the others are there, and one can go on.
func TestTorn(t *testing.T) {
	dir := t.TempDir()
	s := must[*Spool](t)(Create(dir, job, false))
	ok(t, s.Append([]byte("first")))
	whole := s.tail
	ok(t, s.Append([]byte("second")))
	s.Close()
	file := must[[]byte](t)(os.ReadFile(filepath.Join(dir, fileName)))
	for cut := whole; cut < int64(len(file)); cut++ {
		ok(t, os.WriteFile(filepath.Join(dir, fileName), file[:cut], 0o600))
		s := must[*Spool](t)(Open(dir, job, false))
		if got := contents(t, s); string(got) != "first" {
			t.Fatalf("cut at %d: %q", cut, got)
		}
		ok(t, s.Append([]byte("x")))
		ok(t, s.End())
		s.Close()
		s = must[*Spool](t)(Open(dir, job, false))
		if got := contents(t, s); string(got) != "firstx" || !s.Ended() {
			t.Fatalf("cut at %d, and gone on: %q", cut, got)
		}
		s.Close()
	}
}

// TestDamage flips each bit of a file: nothing is read that was not written, and what is before the damage is there.
func TestDamage(t *testing.T) {
	for _, ended := range []bool{true, false} {
		dir := t.TempDir()
		s := must[*Spool](t)(Create(dir, job, false))
		ok(t, s.Append([]byte("abcde")))
		ok(t, s.Append([]byte("fgh")))
		if ended {
			ok(t, s.End())
		}
		s.Close()
		path := filepath.Join(dir, fileName)
		file := must[[]byte](t)(os.ReadFile(path))
		for bit := range 8 * len(file) {
			file[bit/8] ^= 1 << (bit % 8)
			ok(t, os.WriteFile(path, file, 0o600))
			file[bit/8] ^= 1 << (bit % 8)
			if err := readAll(dir, bit/8); err != nil {
				t.Fatalf("bit %d of byte %d: %v", bit%8, bit/8, err)
			}
		}
	}
}

func readAll(dir string, at int) error {
	s, err := Open(dir, job, false)
	if at < headerBytes {
		if !errors.Is(err, ErrDamaged) {
			return errors.New("the header is taken for good")
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	var got []byte
	for {
		b, err := s.Read(uint64(len(got)))
		switch {
		case errors.Is(err, ErrDamaged) && strings.HasPrefix("abcdefgh", string(got)):
			return nil
		case err != nil:
			return err
		case len(b) == 0:
			return errors.New("nothing is damaged, it is only not there yet: " + string(got))
		}
		got = append(got, b...)
	}
}

// TestForeign: a link in the place of the file, or that of another job, is not touched.
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	must[*Spool](t)(Create(dir, [16]byte{9}, false)).Close()
	if _, err := Open(dir, job, false); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "not that of this job") {
		t.Errorf("of another job: %v", err)
	}
	must[*Spool](t)(Create(dir, job, false)).Close()
	other := filepath.Join(t.TempDir(), "other")
	ok(t, os.WriteFile(other, []byte("precious"), 0o600))
	ok(t, os.Remove(filepath.Join(dir, fileName)))
	ok(t, os.Symlink(other, filepath.Join(dir, fileName)))
	if _, err := Open(dir, job, false); err == nil {
		t.Error("a link was followed")
	}
	must[*Spool](t)(Create(dir, job, false)).Close()
	if b := must[[]byte](t)(os.ReadFile(other)); string(b) != "precious" {
		t.Errorf("what a link leads to is %q now", b)
	}
}

// TestSourceCloses: a read that waits ends when the source is closed; what came before is read.
func TestSourceCloses(t *testing.T) {
	var fds [2]int
	ok(t, syscall.Pipe2(fds[:], syscall.O_CLOEXEC))
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	defer w.Close()
	defer r.Close()
	s := must[*Source](t)(NewSource(r))
	b := make([]byte, 10)
	must[int](t)(w.WriteString("hello"))
	if n, err := s.Read(b); err != nil || string(b[:n]) != "hello" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	ended := make(chan error)
	go func() {
		_, err := s.Read(b)
		ended <- err
	}()
	s.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%v, wanted %v", err, os.ErrClosed)
		}
	case <-time.After(time.Minute):
		t.Fatal("the read does not end")
	}
}
