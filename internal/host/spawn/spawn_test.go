package spawn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

func begin(t *testing.T) *Spawner {
	t.Helper()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func shell(script string, files ...*os.File) Command {
	if len(files) == 0 {
		files = []*os.File{os.Stdout, os.Stderr}
	}
	return Command{Args: []string{"sh", "-c", script}, Env: os.Environ(), Files: files}
}

// says runs a command, and returns what it has printed.
func says(t *testing.T, s *Spawner, c Command) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.Files[0] = w
	p, err := s.Start(c)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if _, _, werr := p.Wait(); err != nil || werr != nil {
		t.Fatal(err, werr)
	}
	return string(b)
}

// TestEnds: codes and signals, many at a time; a signal for one that has ended reaches nobody.
func TestEnds(t *testing.T) {
	s := begin(t)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			script, code, signal := fmt.Sprintf("exit %d", i), i, 0
			if i%4 == 0 {
				script, code, signal = "kill -9 $$", -1, 9
			}
			p, err := s.Start(shell(script))
			if err != nil {
				t.Error(err)
				return
			}
			c, sig, err := p.Wait()
			if c != code || sig != signal || err != nil {
				t.Errorf("%s: found %d, %d, %v", script, c, sig, err)
			}
			p.Signal(syscall.SIGKILL)
		})
	}
	wg.Wait()
	for i := range 8 {
		if signal.Ignored(syscall.Signal(i + 1)) { // as SIGHUP under nohup: so it is by what this process starts
			continue
		}
		p, err := s.Start(shell("exec sleep 1000"))
		if err != nil {
			t.Fatal(err)
		}
		p.Signal(syscall.Signal(i + 1))
		if c, sig, err := p.Wait(); c != -1 || sig != i+1 || err != nil {
			t.Errorf("signal %d: found %d, %d, %v", i+1, c, sig, err)
		}
	}
}

// TestGiven: what a process gets is what it was given, and nothing else.
func TestGiven(t *testing.T) {
	s := begin(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	extra, err := os.Create(filepath.Join(dir, "extra"))
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	c := shell(`echo one >&3; pwd; printf '%s\n' "$A"; env | wc -l; cat; set -- /proc/self/fd/*; echo $#; ulimit -n; cut -d' ' -f5 /proc/$$/stat; echo $$`,
		nil, os.Stderr, extra)
	c.Dir, c.Env, c.Group = dir, []string{"A=\xff\xfe", "PWD=" + dir}, true
	lines := strings.Split(says(t, s, c), "\n")
	if len(lines) != 8 || lines[0] != dir || lines[1] != "\xff\xfe" || lines[5] != lines[6] {
		t.Fatalf("found %q", lines)
	}
	here, err := exec.Command("sh", "-c", "set -- /proc/self/fd/*; echo $#").Output()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(here))); err != nil || lines[3] != fmt.Sprint(n+1) { // and descriptor 3
		t.Errorf("%s descriptors, of a child of this process: %d, %v", lines[3], n, err)
	}
	if b, err := os.ReadFile(extra.Name()); string(b) != "one\n" || err != nil {
		t.Errorf("descriptor 3: found %q, %v", b, err)
	}
	if found := says(t, s, Command{Args: []string{"/usr/bin/env"}, Files: []*os.File{nil, os.Stderr}}); found != "" {
		t.Errorf("an empty environment: found %q", found)
	}
}

// TestBlock: a signal that is blocked in it, and one that is not; and what the spawner catches is not caught in its children.
func TestBlock(t *testing.T) {
	s := begin(t)
	for _, block := range []syscall.Signal{0, syscall.SIGTERM} {
		c := Command{Args: []string{"cat", "/proc/self/status"}, Files: []*os.File{nil, os.Stderr}, Block: block} // a shell clears its mask
		found := says(t, s, c)
		want := "0000000000000000"
		if block != 0 {
			want = "0000000000004000"
		}
		if !strings.Contains(found, "SigBlk:\t"+want) || !strings.Contains(found, "SigCgt:\t0000000000000000") {
			t.Errorf("block %v: found %s", block, found)
		}
	}
}

func TestCannot(t *testing.T) {
	s := begin(t)
	for _, c := range []Command{{}, {Args: []string{"sh"}}, {Args: []string{"/nonexistent/program"}, Files: []*os.File{os.Stdout, os.Stderr}},
		{Args: []string{"sh"}, Dir: "/nonexistent", Files: []*os.File{os.Stdout, os.Stderr}},
		{Args: []string{"sh", strings.Repeat("x", 17<<20)}, Files: []*os.File{os.Stdout, os.Stderr}}} {
		if p, err := s.Start(c); err == nil {
			t.Errorf("%.80v: started: %v", c, p)
		}
	}
	if p, err := s.Start(shell("exit 3")); err != nil {
		t.Error(err)
	} else if code, _, err := p.Wait(); code != 3 || err != nil {
		t.Error(code, err)
	}
}

// TestBothWays: however much is asked for and told at once, neither side waits for the other to read.
func TestBothWays(t *testing.T) {
	s := begin(t)
	p, _, ended := running(t, s, syscall.SIGKILL)
	name := "/" + strings.Repeat("x", 600_000) // more than a socket has room for, and it is in the answer
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if _, err := s.Start(Command{Args: []string{name}, Files: []*os.File{os.Stdout, os.Stderr}}); err == nil {
				t.Error("started")
			}
		})
		wg.Go(func() {
			for range 50 {
				p.Signal(0)
			}
		})
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		t.Fatal("the spawner and this process wait for each other")
	}
	p.Signal(syscall.SIGKILL)
	<-ended
}

// TestLate: a spawner that carries out nothing, or reads nothing, is not waited for without end. What begins later is killed.
func TestLate(t *testing.T) {
	s := begin(t)
	s.limit = 300 * time.Millisecond
	p, pid, ended := running(t, s, syscall.SIGKILL)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	late := shell("exec sleep 1000")
	late.Dir = "/"
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	late.Files[0] = w
	_, err = s.Start(late)
	w.Close()
	if want := `spawn: sh, in directory "/", has not begun within 300ms: a file system that it is started from may hang`; err == nil || err.Error() != want {
		t.Errorf("found %v, wanted %s", err, want)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err != nil { // until it has been killed
		t.Error(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = s.Start(Command{Args: []string{"/" + strings.Repeat("x", 5_000_000)}, Files: []*os.File{os.Stdout, os.Stderr}})
		if !errors.Is(err, ErrGone) {
			t.Errorf("one that does not read: %.200v", err)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Wait(); !errors.Is(err, ErrGone) {
		t.Errorf("found %v", err)
	}
	<-ended
}

// running starts a process that tells its number and waits; ended is closed when it has.
func running(t *testing.T, s *Spawner, death syscall.Signal) (p *Process, spawner int, ended <-chan struct{}) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := shell("echo $PPID; exec sleep 1000", w, os.Stderr)
	c.Death = death
	p, err = s.Start(c)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(r)
	if _, err := fmt.Fscanln(in, &spawner); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		r.Close()
		close(done)
	}()
	return p, spawner, done
}

// TestSignals: whoever signals all processes of a job does not end the spawner.
func TestSignals(t *testing.T) {
	s := begin(t)
	p, spawner, ended := running(t, s, 0)
	for sig := syscall.Signal(1); sig < 65; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS, syscall.SIGSTKFLT:
			continue // the kernel's, or those by which somebody wants to end it
		case 32, 33, 34:
			continue // a C library's own
		}
		if err := syscall.Kill(spawner, sig); err != nil {
			t.Fatal(err)
		}
	}
	if q, err := s.Start(shell("exit 4")); err != nil {
		t.Error(err)
	} else if code, _, err := q.Wait(); code != 4 || err != nil {
		t.Error(code, err)
	}
	p.Signal(syscall.SIGKILL)
	<-ended
}

// TestGone: when the spawner is killed, or closed, that is told, and what it has started gets its signal.
func TestGone(t *testing.T) {
	for name, end := range map[string]func(*Spawner, int) error{
		"killed": func(_ *Spawner, pid int) error { return syscall.Kill(pid, syscall.SIGKILL) },
		"closed": func(s *Spawner, _ int) error { s.Close(); return nil },
	} {
		s, err := Start()
		if err != nil {
			t.Fatal(err)
		}
		p, pid, ended := running(t, s, syscall.SIGINT)
		if err := end(s, pid); err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.Wait(); !errors.Is(err, ErrGone) {
			t.Errorf("%s: found %v", name, err)
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: what it has started goes on", name)
		}
		for range 2 {
			if _, err := s.Start(shell("exit 0")); err == nil {
				t.Errorf("%s: started", name)
			}
		}
		p.Signal(syscall.SIGKILL)
		s.Close()
	}
}
