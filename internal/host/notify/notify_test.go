package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestMain is also the program that is heard, and what becomes it.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 3 && os.Args[1] == "become":
		fmt.Fprintln(os.Stderr, Exec(os.Args[2], os.Args[3:]))
		os.Exit(9)
	case len(os.Args) > 2 && os.Args[1] == "do":
		do(os.Args[2])
	}
	os.Exit(m.Run())
}

// do makes the calls that are described, and says what each has returned.
func do(what string) {
	dir, _ := unix.Open("sub", unix.O_PATH|unix.O_DIRECTORY, 0)
	say := func(name string, err error) { fmt.Printf("%s: %v\n", name, err) }
	open := func(name string, at int, path string, flags int, mode uint32) {
		fd, err := unix.Openat(at, path, flags, mode)
		if err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY {
			_, err = unix.Write(fd, []byte(name))
		}
		_ = unix.Close(fd)
		say(name, err)
	}
	here := unix.AT_FDCWD
	switch what {
	case "names":
		wd, _ := os.Getwd()
		open("relative", here, "r", unix.O_CREAT|unix.O_WRONLY, 0o666)
		open("absolute", here, filepath.Join(wd, "a"), unix.O_CREAT|unix.O_RDWR, 0o640)
		open("dirfd", dir, "d", unix.O_CREAT|unix.O_WRONLY|unix.O_APPEND, 0o666)
		open("dotdot", here, "sub/../link/u", unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY, 0o666)
		open("long", here, "sub/"+strings.Repeat("./", 1500)+"l", unix.O_CREAT|unix.O_WRONLY, 0o666)
		_, err := unix.Openat2(here, "two", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o600})
		say("openat2", err)
		name, _ := unix.BytePtrFromString("c")
		_, _, e := unix.Syscall(unix.SYS_CREAT, uintptr(unsafe.Pointer(name)), 0o600, 0)
		say("creat", errors.Join(map[bool]error{true: e}[e != 0]))
		say("rename", unix.Rename("r", "sub/r"))
		say("renameat2", unix.Renameat2(dir, "r", here, "q", unix.RENAME_NOREPLACE))
		say("link", unix.Linkat(here, "q", dir, "q2", 0))
		say("truncate", unix.Truncate("q", 3))
		say("symlink", unix.Symlink("q", "s"))
		open("procself", here, "/proc/self/cwd/p", unix.O_CREAT|unix.O_WRONLY, 0o666)
		_, err = unix.Openat2(here, "b", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o600, Resolve: unix.RESOLVE_BENEATH})
		say("beneath", err)
		open("nofollow", here, "q", unix.O_RDONLY|unix.O_NOFOLLOW, 0)
		open("unheard", here, "q", unix.O_RDONLY, 0)
		open("directory", here, "sub/", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
		_, err = unix.Openat(here, "nowhere/x", unix.O_CREAT|unix.O_WRONLY, 0o666)
		say("nowhere", err)
		_, _, e = unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), 1, unix.O_CREAT|unix.O_WRONLY, 0, 0, 0)
		say("no memory", e)
	case "answers":
		open("continue", here, "continue", unix.O_CREAT|unix.O_WRONLY, 0o666)
		open("fail", here, "fail", unix.O_CREAT|unix.O_WRONLY, 0o666)
		open("give", here, "give", unix.O_CREAT|unix.O_WRONLY|unix.O_EXCL, 0o666)
		say("return", unix.Rename("continue", "return"))
	case "many":
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 50 {
					if err := os.WriteFile(fmt.Sprintf("m.%d.%d", i, j), nil, 0o600); err != nil {
						say("many", err)
					}
				}
			})
		}
		wg.Wait()
		out, err := exec.Command("/bin/sh", "-c", "for i in 1 2 3; do echo x > c.$i; done; cat c.?").CombinedOutput()
		say(strings.ReplaceAll(string(out), "\n", ""), err)
	case "closed":
		open("before", here, "before", unix.O_CREAT|unix.O_WRONLY, 0o666)
		open("closed", here, "closed", unix.O_CREAT|unix.O_WRONLY, 0o666)
	}
	os.Exit(0)
}

// listen runs the program in a directory of its own, and returns what it has said.
func listen(t *testing.T, what string, heard func(l *Listener, c *Call)) (dir, said string) {
	t.Helper()
	if err := Check(); err != nil {
		t.Skipf("this machine cannot: %v", err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.Symlink("sub", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "sub", "socket")
	s, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := exec.Command(os.Args[0], "become", at, os.Args[0], "do", what)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := s.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	l, err := Accept(c)
	c.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Serve(func(c *Call) { heard(l, c) }); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends: %v", err)
	}
	return dir, out.String()
}

// TestNames: names are those that the kernel would use, whatever they are relative to; what is only read is not heard of.
func TestNames(t *testing.T) {
	var mu sync.Mutex
	var all []string
	var dir string
	_, said := listen(t, "names", func(_ *Listener, c *Call) {
		mu.Lock()
		defer mu.Unlock()
		if dir == "" {
			dir = c.To.Dir
		}
		short := func(n Name) string { return strings.TrimPrefix(n.Path(), dir+"/") }
		if strings.HasPrefix(c.To.Path(), dir) {
			line := fmt.Sprintf("%d %s", c.Op, short(c.To))
			if c.From.Base != "" {
				line = fmt.Sprintf("%d %s %s", c.Op, short(c.From), short(c.To))
			}
			all = append(all, line)
		}
		c.Continue()
	})
	want := []string{"0 r", "0 a", "0 sub/d", "0 sub/u", "0 sub/l", "0 two", "0 c", "1 r sub/r", "1 sub/r q", "2 q sub/q2", "3 q", "4 s", "0 p", "0 b", "0 q"}
	if !slices.Equal(all, want) {
		t.Errorf("heard %q\nwanted %q", all, want)
	}
	for _, line := range strings.Split(strings.TrimSpace(said), "\n") {
		name, result, _ := strings.Cut(line, ": ")
		ok := map[string]string{"nowhere": "no such file or directory", "no memory": "bad address"}[name]
		if ok == "" {
			ok = "<nil>"
		}
		if result != ok {
			t.Errorf("%s: %s, wanted %s", name, result, ok)
		}
	}
}

// TestAnswers: a call goes on, fails, is given another file, or returns without having happened.
func TestAnswers(t *testing.T) {
	dir, said := listen(t, "answers", func(_ *Listener, c *Call) {
		switch c.To.Base {
		case "fail":
			c.Fail(&os.PathError{Op: "open", Err: syscall.EDQUOT})
		case "give":
			if c.Flags&unix.O_EXCL == 0 || c.Mask() != 0o022 && c.Mask() != 0o077 && c.Mask() != 0o002 {
				t.Errorf("flags %#x, mask %#o", c.Flags, c.Mask())
			}
			f, err := os.Create(filepath.Join(c.To.Dir, "given"))
			if err != nil {
				t.Error(err)
			}
			c.Give(f)
			f.Close()
		case "return":
			c.Return()
		default:
			c.Continue()
		}
	})
	if want := "continue: <nil>\nfail: disk quota exceeded\ngive: <nil>\nreturn: <nil>\n"; said != want {
		t.Errorf("%q, wanted %q", said, want)
	}
	for name, want := range map[string]string{"continue": "continue", "given": "give", "give": "", "fail": "", "return": ""} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestMany: threads and children are heard, all at a time.
func TestMany(t *testing.T) {
	var mu sync.Mutex
	heard := map[string]int{}
	_, said := listen(t, "many", func(_ *Listener, c *Call) {
		mu.Lock()
		heard[c.To.Base[:2]]++
		mu.Unlock()
		c.Continue()
	})
	if said != "xxx: <nil>\n" || heard["m."] != 400 || heard["c."] != 3 {
		b, _ := json.Marshal(heard)
		t.Errorf("%q, heard %s", said, b)
	}
}

// TestClosed: who is not heard any more gets an error, and is not left waiting.
func TestClosed(t *testing.T) {
	_, said := listen(t, "closed", func(l *Listener, c *Call) {
		c.Continue()
		if c.To.Base == "before" {
			l.Close()
		}
	})
	if want := "before: <nil>\nclosed: function not implemented\n"; said != want {
		t.Errorf("%q, wanted %q", said, want)
	}
}

// TestRefused: a program does not begin that nobody would hear.
func TestRefused(t *testing.T) {
	out, err := exec.Command(os.Args[0], "become", filepath.Join(t.TempDir(), "nobody"), os.Args[0], "do", "names").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no such file or directory") {
		t.Errorf("%v: %s", err, out)
	}
}
