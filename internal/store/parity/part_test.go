package parity_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/parity"
)

// TestPart reads and writes a part of several files, some of them empty, at all offsets and lengths.
func TestPart(t *testing.T) {
	texts := []string{"", "abc", "", "", "defgh", "i", ""}
	m, bodies := holding.Member{Node: "node1"}, []parity.Body{}
	for i, s := range texts {
		m.Files = append(m.Files, holding.File{Name: string(rune('A' + i)), Size: int64(len(s))})
		bodies = append(bodies, &disk{now: []byte(s)})
	}
	part, err := parity.NewPart(m, bodies)
	if err != nil || m.Bytes() != 9 {
		t.Fatal(m.Bytes(), err)
	}
	whole := append([]byte("abcdefghi"), make([]byte, 9)...)
	for off := range 13 {
		for n := range 6 {
			got := bytes.Repeat([]byte("x"), n)
			if k, err := part.ReadAt(got, int64(off)); k != n || err != nil || !bytes.Equal(got, whole[off:off+n]) {
				t.Fatalf("%d bytes at %d: %q, %d, %v", n, off, got, k, err)
			}
			other := bytes.ToUpper(whole[off : off+n])
			if k, err := part.WriteAt(other, int64(off)); k != n || err != nil {
				t.Fatalf("%d bytes at %d: wrote %d, %v", n, off, k, err)
			}
			want := string(whole[:off]) + string(other) + string(whole[off+n:])
			var now string
			for _, b := range bodies {
				now += string(b.(*disk).now)
			}
			if now != want[:9] {
				t.Fatalf("%d bytes at %d: wrote %q, want %q", n, off, now, want[:9])
			}
			if _, err := part.WriteAt(whole[:9], 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, s := range texts {
		if now := bodies[i].(*disk).now; len(now) != len(s) {
			t.Errorf("file %d: %q, want %q", i, now, s)
		}
	}
}

func TestPartRefuses(t *testing.T) {
	m := holding.Member{Node: "node1", Files: []holding.File{{Name: "a", Size: 4}, {Name: "b", Size: 4}}}
	if _, err := parity.NewPart(m, nil); err == nil || !strings.Contains(err.Error(), "part of node1: 0 files, wanted 2") {
		t.Error(err)
	}
	part, err := parity.NewPart(m, []parity.Body{&disk{now: []byte("abcd")}, &disk{now: []byte("ef"), fail: 1}})
	if err != nil {
		t.Fatal(err)
	}
	read := func(n int, off int64) error { _, err := part.ReadAt(make([]byte, n), off); return err }
	write := func(s string, off int64) error { _, err := part.WriteAt([]byte(s), off); return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{read(3, 5), "parity: part: b: 1 bytes at 1, wanted 3: truncated"},
		{read(1, -1), "offset -1"},
		{write("x", -1), "offset -1"},
		{write("wx\x00y", 6), "byte 9 is 0x79, wanted 0 behind the end at 8"},
		{write("y", 100), "byte 100 is 0x79, wanted 0 behind the end at 8"},
		{write("xyz", 3), "parity: part: b: no space left on device"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want %q", c.err, c.want)
		}
	}
}
