package sandbox_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/host/sandbox"
)

// The test program is also the first processes of the sandboxes that it makes, and what runs on their nodes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sandbox-init" {
		os.Exit(sandbox.Init(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		if err := helper(os.Args[2], os.Args[3:]); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helper is what the test program does on a node, or as a creator or caller that will be killed.
func helper(what string, args []string) error {
	switch what {
	case "create":
		_, err := sandbox.Create(sandbox.Options{Name: args[0], Nodes: 3})
		return err
	case "run": // NAME NODE CMD...
		return runAndWait(args[0], args[1], args[2:])
	case "echo": // serves echoes by TCP
		return echo()
	case "talk": // NODE...: a connection to each; `NODE` on standard input has a line sent to it
		return talk(args)
	case "count": // counts datagrams, until a TCP connection asks how many there were
		return count()
	case "shout": // NODE NUMBER: sends so many datagrams
		return shout(args[0], args[1])
	case "ask": // NODE: prints how many datagrams came
		c, err := net.Dial("tcp4", args[0]+":7001")
		if err == nil {
			_, err = io.Copy(os.Stdout, c)
		}
		return err
	case "pour": // NODE BYTES: has so many bytes echoed, and prints the milliseconds that it took
		return pour(args[0], args[1])
	case "leave": // leaves traces in all directories, as files and as sockets, and stays
		return leave()
	}
	return fmt.Errorf("no helper %s", what)
}

func runAndWait(name, node string, cmd []string) error {
	c, err := sandbox.Open(name)
	if err != nil {
		return err
	}
	p, err := c.Start(background(), node, sandbox.Command{Args: cmd, Stdout: os.Stdout})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

func echo() error {
	l, err := net.Listen("tcp4", ":7000")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() { _, _ = io.Copy(c, c) }()
	}
}

// talk prints `NODE: LINE` for each line that comes, and `NODE over` at the end of a connection.
func talk(nodes []string) error {
	conns := map[string]net.Conn{}
	for _, node := range nodes {
		c, err := net.Dial("tcp4", node+":7000")
		if err != nil {
			return err
		}
		conns[node] = c
		go func() {
			for lines := bufio.NewScanner(c); lines.Scan(); {
				fmt.Printf("%s: %s\n", node, lines.Text())
			}
			fmt.Printf("%s over\n", node)
		}()
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		node, text, _ := strings.Cut(lines.Text(), " ")
		if _, err := fmt.Fprintln(conns[node], text); err != nil {
			fmt.Printf("%s: %v\n", node, err)
		}
	}
	return nil
}

func count() error {
	u, err := net.ListenPacket("udp4", ":7001")
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp4", ":7001")
	if err != nil {
		return err
	}
	fmt.Println("ready")
	c, err := l.Accept()
	if err != nil {
		return err
	}
	came, buf := 0, make([]byte, 100)
	for { // what has come lies there: the deadline is over already
		if err := u.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			return err
		}
		if _, _, err := u.ReadFrom(buf); err != nil {
			break
		}
		came++
	}
	_, err = fmt.Fprintln(c, came)
	return err
}

func shout(node, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	u, err := net.Dial("udp4", node+":7001")
	if err != nil {
		return err
	}
	for range n {
		if _, err := u.Write([]byte("x")); err != nil {
			return err
		}
	}
	return nil
}

func pour(node, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	c, err := net.Dial("tcp4", node+":7000")
	if err != nil {
		return err
	}
	begin := time.Now()
	go func() { _, _ = c.Write(make([]byte, n)) }()
	if _, err := io.CopyN(io.Discard, c, int64(n)); err != nil {
		return err
	}
	fmt.Println(time.Since(begin).Milliseconds())
	return nil
}

// traces are the paths that leave leaves behind.
func traces() []string {
	var list []string
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run", os.Getenv("HOME"), os.Getenv("XDG_RUNTIME_DIR"), os.Getenv("XDG_CACHE_HOME")} {
		list = append(list, filepath.Join(dir, "trace"), filepath.Join(dir, "socket"))
	}
	return list
}

func leave() error {
	for _, path := range traces() {
		if filepath.Base(path) == "trace" {
			if err := os.WriteFile(path, []byte("here"), 0o644); err != nil {
				return err
			}
			continue
		}
		if _, err := net.Listen("unix", path); err != nil && !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
	if _, err := net.Listen("unix", "@byssus-trace"); err != nil {
		return err
	}
	if _, err := unix.SysvShmGet(traceKey, 4096, unix.IPC_CREAT|0o600); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// traceKey is that of the System V memory that leave leaves.
const traceKey = 1652126579

// -- what tests share ------------------------------------------------------------------------------------------------

// place gives a test a run directory of its own. Sockets need short paths.
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bysbx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return dir
}

// listed are the sandboxes below a test's directory; there may be others on the machine.
func listed(t *testing.T, run string) []sandbox.Summary {
	t.Helper()
	list, err := sandbox.List()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(s sandbox.Summary) bool { return !strings.HasPrefix(s.Dir, run+"/") })
}

// self is the test program, and its directory.
func self(t *testing.T) (program, dir string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe, filepath.Dir(exe)
}

// create makes a sandbox for the time of a test, and asks afterwards that nothing of it is left.
func create(t *testing.T, o sandbox.Options) *sandbox.Cluster {
	t.Helper()
	run := place(t)
	o.Name = "test"
	t.Cleanup(func() { leftNothing(t, run, o.Name) })
	return createIn(t, o)
}

func createIn(t *testing.T, o sandbox.Options) *sandbox.Cluster {
	t.Helper()
	_, dir := self(t)
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	o.Visible = append(o.Visible, dir, cwd)
	if o.Disk == 0 {
		o.Disk = 16 << 20
	}
	c, err := sandbox.Create(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Destroy(); err != nil && !errors.Is(err, sandbox.ErrNone) {
			t.Error(err)
		}
	})
	return c
}

// leftNothing asks that there is no process, cgroup or file of a sandbox.
func leftNothing(t *testing.T, run, name string) {
	t.Helper()
	for _, p := range firstProcesses(t, run) {
		t.Errorf("process left: %s", p)
	}
	found, err := filepath.Glob("/sys/fs/cgroup/*/byssus-" + name + "-*")
	if more, _ := filepath.Glob("/sys/fs/cgroup/byssus-" + name + "-*"); err != nil || len(found)+len(more) > 0 {
		t.Errorf("cgroups left: %v %v %v", found, more, err)
	}
	entries, err := os.ReadDir(filepath.Join(run, "byssus", "sandboxes"))
	for _, e := range entries {
		if e.Name() != ".lock" {
			t.Errorf("left: %s", e.Name())
		}
	}
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}

// firstProcesses lists the first processes of all sandboxes in a run directory, as we see them.
func firstProcesses(t *testing.T, run string) []string {
	t.Helper()
	var found []string
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, _ := os.ReadFile(f) // it may have ended
		line := strings.ReplaceAll(string(text), "\x00", " ")
		if strings.HasPrefix(line, "byssus sandbox-init hub ") && strings.Contains(line, " "+run+"/byssus/sandboxes/") {
			found = append(found, filepath.Base(filepath.Dir(f))+" "+line)
		}
	}
	return found
}

// output runs a command on a node to its end, and returns what it printed and its exit code.
func output(t *testing.T, c *sandbox.Cluster, node string, args ...string) (string, int) {
	t.Helper()
	var out strings.Builder
	p, err := c.Start(t.Context(), node, sandbox.Command{Args: args, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	code, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String()), code
}

// A talker is a helper that runs, whose lines can be waited for.
type talker struct {
	t     *testing.T
	p     *sandbox.Process
	in    io.WriteCloser
	lines chan string
	seen  []string
}

// start runs a helper on a node and waits until it is ready.
func start(t *testing.T, c *sandbox.Cluster, node string, args ...string) *talker {
	t.Helper()
	exe, _ := self(t)
	h := begin(t, c, node, append([]string{exe, "helper"}, args...)...)
	h.await("ready")
	return h
}

func begin(t *testing.T, c *sandbox.Cluster, node string, args ...string) *talker {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(background(), node, sandbox.Command{Args: args, Stdin: inR, Stdout: outW, Stderr: outW})
	inR.Close()
	outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	h := &talker{t: t, p: p, in: inW, lines: make(chan string, 1000)}
	go func() {
		for lines := bufio.NewScanner(outR); lines.Scan(); {
			h.lines <- lines.Text()
		}
		close(h.lines)
		outR.Close()
	}()
	return h
}

// patience is how long a test waits for what must come.
const patience = 3 * time.Minute

// await waits for a line.
func (h *talker) await(want string) {
	h.t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-h.lines:
			if !ok {
				h.t.Fatalf("it ended; lines %q, wanted %q", h.seen, want)
			}
			h.seen = append(h.seen, line)
			if line == want {
				return
			}
		case <-late:
			h.t.Fatalf("nothing more came; lines %q, wanted %q", h.seen, want)
		}
	}
}

// say has a line sent.
func (h *talker) say(node, text string) {
	h.t.Helper()
	if _, err := fmt.Fprintf(h.in, "%s %s\n", node, text); err != nil {
		h.t.Fatal(err)
	}
}

// poll waits until something is so.
func poll(t *testing.T, what string, so func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !so(); {
		if time.Now().After(late) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// command prepares the test program as a helper outside of any node.
func command(t *testing.T, args ...string) *exec.Cmd {
	exe, _ := self(t)
	return exec.Command(exe, append([]string{"helper"}, args...)...)
}
