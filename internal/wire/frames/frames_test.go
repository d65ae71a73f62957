package frames

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type message struct{ Text [][]byte }

func pair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	a, f, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	if b, err = Conn(f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// open says how many descriptors this process has.
func open(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestMessages: messages of all sizes come in order, each with its descriptors.
func TestMessages(t *testing.T) {
	a, b := pair(t)
	sizes := []int{0, 1, 4096, 300_000, 5_000_000}
	failed := make(chan error, 1)
	go func() {
		for i, n := range sizes {
			r, w, err := os.Pipe()
			if err == nil {
				err = Send(a, message{Text: Bytes([]string{strings.Repeat("\xff", n)})}, []*os.File{r, w, r, w}[:i]...)
				r.Close()
				w.Close()
			}
			if err != nil {
				failed <- err
				return
			}
		}
		failed <- a.Close()
	}()
	for i, n := range sizes {
		var m message
		files, err := Receive(b, &m)
		if err != nil {
			t.Fatal(err)
		}
		if text := Strings(m.Text); len(text) != 1 || text[0] != strings.Repeat("\xff", n) || len(files) != i {
			t.Errorf("message %d: found %d descriptors, wanted %d; or another text than was sent", i, len(files), i)
		}
		CloseAll(files)
	}
	if _, err := Receive(b, &message{}); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

// TestBad: what is too much is not sent; what is torn, too long or no message is an error, and leaves no descriptors open.
func TestBad(t *testing.T) {
	a, _ := pair(t)
	if err := Send(a, message{Text: [][]byte{make([]byte, longest)}}); err == nil {
		t.Error("too long a message was sent")
	}
	if err := Send(a, message{}, make([]*os.File, mostFiles+1)...); err == nil {
		t.Error("too many descriptors were sent")
	}
	if err := Send(a, make(chan int)); err == nil {
		t.Error("a channel was sent")
	}
	before := open(t)
	for _, raw := range []string{"\x01", "\x05\x00\x00\x00{}", "\xff\xff\xff\x7f", "\x02\x00\x00\x00{{"} {
		a, b := pair(t)
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.WriteMsgUnix([]byte(raw), rightsOf(f), nil); err != nil {
			t.Fatal(err)
		}
		f.Close()
		a.Close()
		if files, err := Receive(b, &message{}); err == nil || errors.Is(err, io.EOF) && raw != "\x01" {
			t.Errorf("%q: found %v, %v", raw, files, err)
		}
		b.Close()
	}
	if after := open(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// TestNoSocket: a descriptor that is none is named.
func TestNoSocket(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Conn(f); err == nil {
		t.Error("a file is taken for a connection")
	}
}
