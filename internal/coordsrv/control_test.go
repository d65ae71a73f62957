package coordsrv

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/byssus-hpc/byssus/internal/coord"
	"github.com/byssus-hpc/byssus/internal/dataset"
)

// answering listens at the control socket of a run directory and gives every connection to answer.
func answering(t *testing.T, answer func(net.Conn)) *Client {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, ControlSocket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answer(c)
			c.Close()
		}
	}()
	return Dial(dir)
}

// TestGone: a job that ends while it is asked does not run; an answer that is none is another error.
func TestGone(t *testing.T) {
	read := func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) }
	for name, tt := range map[string]struct {
		answer func(net.Conn)
		gone   bool
	}{
		"before it reads":       {func(net.Conn) {}, true},
		"before it answers":     {read, true},
		"in its answer":         {func(c net.Conn) { read(c); _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{")) }, true},
		"but it has not gone":   {func(c net.Conn) { read(c); _, _ = c.Write([]byte("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")) }, false},
		"but that is no answer": {func(c net.Conn) { read(c); _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n?")) }, false},
	} {
		_, err := answering(t, tt.answer).Checkpoint(context.Background(), CheckpointRequest{})
		if err == nil || errors.Is(err, ErrNotRunning) != tt.gone {
			t.Errorf("%s: found %v, wanted ErrNotRunning: %v", name, err, tt.gone)
		}
	}
	if _, err := Dial(t.TempDir()).Status(context.Background()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("nobody there: found %v, wanted %v", err, ErrNotRunning)
	}
}

// TestManyClients: clients that say nothing, or nonsense, do not keep others from being answered.
func TestManyClients(t *testing.T) {
	s := &Server{stop: make(chan struct{}), queries: make(chan func()), opt: Options{Job: &dataset.Job{}}, machine: coord.New(coord.Config{Ranks: 1})}
	s.opt.RunDir = t.TempDir()
	l, err := s.listen()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for f := range s.queries {
			f()
		}
	}()
	for i := range 3 * maxClients {
		c, err := net.Dial("unix", filepath.Join(s.opt.RunDir, ControlSocket))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			_, _ = c.Write([]byte("\x00\xffnonsense\n\n"))
		}
	}
	st, err := Dial(s.opt.RunDir).Status(context.Background())
	if err != nil || st.Ranks != 1 {
		t.Errorf("found %+v, %v", st, err)
	}
	close(s.stop)
	l.Close()
	s.wg.Wait()
	close(s.queries)
}
