package coordsrv

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/byssus-hpc/byssus/internal/decide/coord"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
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

// TestStranger: a process of another user that listens where a job's does is not spoken to.
func TestStranger(t *testing.T) {
	if dir := os.Getenv("BYSSUS_TEST_STRANGER"); dir != "" {
		stranger(dir)
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIP: root is needed to be another user")
	}
	dir, err := os.MkdirTemp("/tmp", "byssus-test.") // not below TMPDIR, where others may not go
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStranger$")
	cmd.Env = append(os.Environ(), "BYSSUS_TEST_STRANGER="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	st, err := Dial(dir).Status(context.Background())
	if !errors.Is(err, ErrForeign) || !errors.Is(err, ErrNotRunning) || st.Job != "" {
		t.Errorf("found %q, %v", st.Job, err)
	}
}

// stranger answers every request as a job would.
func stranger(dir string) {
	l, err := net.Listen("unix", filepath.Join(dir, ControlSocket))
	if err == nil {
		err = os.Chmod(filepath.Join(dir, ControlSocket), 0o777)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, Status{Job: "evil"}) }))
	os.Exit(0)
}

// TestEndlessAnswer: what a job answers is read up to a bound.
func TestEndlessAnswer(t *testing.T) {
	sent := make(chan int64, 1)
	client := answering(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n{\"app\":[\""))
		n, block := int64(0), bytes.Repeat([]byte("x"), 1<<20)
		for {
			k, err := c.Write(block)
			if n += int64(k); err != nil {
				break
			}
		}
		sent <- n
	})
	if _, err := client.Status(context.Background()); err == nil {
		t.Error("an endless answer was taken")
	}
	if n := <-sent; n > longestAnswer+16<<20 {
		t.Errorf("%d bytes were read, at most %d wanted", n, longestAnswer)
	}
}

// TestManyClients: clients that say nothing, or nonsense, do not keep others from being answered.
func TestManyClients(t *testing.T) {
	s := newServer(Options{Job: &dataset.Job{}})
	s.machine = coord.New(coord.Config{Ranks: 1})
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
