package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/byssus-hpc/byssus/internal/host/sandbox"
)

func background() context.Context { return context.Background() }

// asUser is set where these tests run a second time, as an ordinary user.
const asUser = "BYSSUS_SANDBOX_USER"

// TestOrdinaryUser runs all other tests as a user who has no rights.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the tests run as an ordinary user anyway")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "bysbxu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	exe, _ := self(t)
	program := filepath.Join(dir, "sandbox.test")
	text, err := os.ReadFile(exe)
	if err == nil {
		err = errors.Join(os.WriteFile(program, text, 0o755), os.Chmod(dir, 0o755), os.Chown(dir, nobody, nobody))
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.count=1", "-test.timeout=20m", "-test.skip=^TestOrdinaryUser$"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, asUser + "=yes"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as uid %d: %v\n%s", nobody, err, out)
	} else if testing.Verbose() {
		t.Logf("as uid %d:\n%s", nobody, out)
	}
}

func TestNodes(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 2, Spares: 1, CPUs: 1})
	nodes, err := c.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, n := range nodes {
		found = append(found, fmt.Sprintf("%s %s %s %s spare=%v", n.Name, n.Address, n.Group, n.State, n.Spare))
		if n.Name != sandbox.Login && len(n.CPUs) != 1 {
			t.Errorf("%s has processors %v, wanted one", n.Name, n.CPUs)
		}
	}
	want := []string{"node1 10.77.0.1 node1 up spare=false", "node2 10.77.0.2 node2 up spare=false",
		"node3 10.77.0.3 node3 up spare=true", "login 10.77.0.254 login up spare=false"}
	if d := cmp.Diff(want, found); d != "" {
		t.Error(d)
	}
	for _, n := range nodes {
		if name, code := output(t, c, n.Name, "hostname"); name != n.Name || code != 0 {
			t.Errorf("hostname of %s: %q, code %d", n.Name, name, code)
		}
		list := make([]string, len(n.CPUs))
		for i, cpu := range n.CPUs {
			list[i] = strconv.Itoa(cpu)
		}
		script := `grep Cpus_allowed_list /proc/self/status; cat /proc/1/cmdline | tr '\0' ' '; id -u; ls /sys/class/net; ` +
			`[ -w /proc/sys/net/ipv4/tcp_congestion_control ] && cat /proc/sys/net/ipv4/tcp_congestion_control || echo reno; getent hosts ` + n.Name
		text, _ := output(t, c, n.Name, "sh", "-c", script)
		for _, part := range []string{"byssus sandbox-init node " + n.Name + " ", fmt.Sprint(os.Geteuid()), "eth0", "\nreno\n", n.Address} {
			if !strings.Contains(text, part) {
				t.Errorf("on %s: %q, wanted %q in it", n.Name, text, part)
			}
		}
		if n.Name != sandbox.Login && !strings.Contains(text, "Cpus_allowed_list:\t"+list[0]+"\n") {
			t.Errorf("on %s: %q, wanted processor %s", n.Name, text, list[0])
		}
	}
}

func TestProcess(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 1})
	for _, k := range []struct {
		args []string
		out  string
		code int
	}{
		{[]string{"sh", "-c", "exit 7"}, "", 7},
		{[]string{"sh", "-c", "kill -9 $$"}, "", 137},
		{[]string{"sh", "-c", "kill -TERM $$"}, "", 143},
		{[]string{"sh", "-c", "echo $HOME $TMPDIR $XDG_RUNTIME_DIR $XDG_CACHE_HOME"}, fmt.Sprintf("%s /tmp /run/user/%d %s", sandbox.Home, os.Geteuid(), sandbox.Cache), 0},
		{[]string{"sh", "-c", "echo out; echo err >&2"}, "out\nerr", 0},
		{[]string{"sh", "-c", "kill -TERM 1; kill -INT 1; kill -KILL 1; kill -USR1 1; sleep 0.1; echo there"}, "there", 0},
		{[]string{"sh", "-c", "test -w $HOME && test -w $TMPDIR && test -w /dev/shm && test -w $XDG_RUNTIME_DIR && echo yes"}, "yes", 0},
		{[]string{"printf", "%s", "\xff\xfe\x00"[:2]}, "\xff\xfe", 0},
		{[]string{"sh", "-c", "test $(id -u) = 0 || grep -L '^CapEff:.0*$' /proc/self/status"}, "", 0}, // no rights of ours
		{[]string{"sh", "-c", "ls /proc/self/fd | wc -l"}, "4", 0},                                     // with that which ls opens
	} {
		if out, code := output(t, c, "node1", k.args...); out != k.out || code != k.code {
			t.Errorf("%q: %q, code %d, wanted %q, %d", k.args, out, code, k.out, k.code)
		}
	}
	for _, k := range []struct {
		cmd  sandbox.Command
		node string
		want error
		text string
	}{
		{sandbox.Command{Args: []string{"no-such-program"}}, "node1", sandbox.ErrNotFound, "no-such-program: not found in PATH="},
		{sandbox.Command{Args: []string{"/no/such"}}, "node1", sandbox.ErrNotFound, "run on node1: /no/such: not found"},
		{sandbox.Command{Args: []string{"/etc/hosts"}}, "node1", sandbox.ErrNotExec, "/etc/hosts: not executable"},
		{sandbox.Command{Args: []string{"/etc"}}, "node1", sandbox.ErrNotExec, "/etc: not executable"},
		{sandbox.Command{Args: []string{"true"}, Dir: "/no/such"}, "node1", os.ErrNotExist, "working directory: stat /no/such"},
		{sandbox.Command{Args: []string{"true"}}, "node9", sandbox.ErrNode, "sandbox: run on node9: no such node"},
		{sandbox.Command{}, "node1", sandbox.ErrOption, "no program given"},
	} {
		_, err := c.Start(t.Context(), k.node, k.cmd)
		if err == nil || !strings.Contains(err.Error(), k.text) || k.want != os.ErrNotExist && !errors.Is(err, k.want) {
			t.Errorf("%+v on %s: %v, wanted %q", k.cmd, k.node, err, k.text)
		}
	}
}

func TestStreamsAndSignals(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 1})
	var out strings.Builder
	big := strings.Repeat("0123456789abcdef", 1<<16)
	p, err := c.Start(t.Context(), "node1", sandbox.Command{Args: []string{"cat"}, Stdin: strings.NewReader(big), Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(); err != nil || code != 0 || out.String() != big {
		t.Errorf("cat of %d bytes: %d came, code %d, %v", len(big), out.Len(), code, err)
	}
	h := begin(t, c, "node1", "sh", "-c", `trap 'echo usr1' USR1; trap 'echo int; exit 5' INT; echo ready; while :; do sleep 0.01; done`)
	h.await("ready")
	if err := h.p.Signal(syscall.SIGUSR1); err != nil {
		t.Error(err)
	}
	h.await("usr1")
	if err := h.p.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	h.await("int")
	if code, err := h.p.Wait(); code != 5 || err != nil {
		t.Errorf("code %d, %v, wanted 5", code, err)
	}
	if err := h.p.Signal(syscall.SIGUSR1); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to one that has ended: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err = c.Start(ctx, "node1", sandbox.Command{Args: []string{"sh", "-c", "sleep 1000 & sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if code, err := p.Wait(); code != 137 || !errors.Is(err, context.Canceled) {
		t.Errorf("code %d, %v, wanted 137, canceled", code, err)
	}
	sleepsEnd(t, c, "node1")
}

// sleepsEnd waits until no sleep is left on a node.
func sleepsEnd(t *testing.T, c *sandbox.Cluster, node string) {
	t.Helper()
	poll(t, "end of what ran on "+node, func() bool {
		text, _ := output(t, c, node, "sh", "-c", "cat /proc/[0-9]*/comm")
		return !strings.Contains(text, "sleep")
	})
}

// TestCallerDies: what runs on a node ends with who has started it, and with its children; what it has left behind stays.
func TestCallerDies(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 1})
	cmd := command(t, "run", c.Name, "node1", "sh", "-c", "sleep 1000 & echo begun; sleep 1000")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("begun\n"))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	sleepsEnd(t, c, "node1")
	if text, code := output(t, c, "node1", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo left"); text != "left" || code != 0 {
		t.Errorf("%q, code %d", text, code)
	}
	if text, _ := output(t, c, "node1", "sh", "-c", "cat /proc/[0-9]*/comm"); !strings.Contains(text, "sleep") {
		t.Errorf("what was left behind is gone: %q", text)
	}
}

// TestOrphans: a node's first process waits for what nobody else waits for.
func TestOrphans(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 1})
	output(t, c, "node1", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do (sleep 0.01 &) ; done >/dev/null 2>&1")
	poll(t, "no zombies", func() bool {
		text, _ := output(t, c, "node1", "sh", "-c", "cat /proc/[0-9]*/stat | cut -d' ' -f3")
		return !strings.Contains(text, "Z") && strings.Count(text, "\n") < 6
	})
}

// TestIsolation: nothing of a node is to be reached from another, while it lives and when it is dead.
func TestIsolation(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 2})
	start(t, c, "node1", "leave")
	reach := func(when string) {
		t.Helper()
		for _, node := range []string{"node2", sandbox.Login} {
			for _, path := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run", sandbox.Home, sandbox.Cache, fmt.Sprintf("/run/user/%d", os.Geteuid())} {
				if text, _ := output(t, c, node, "ls", "-A", path); strings.Contains(text, "trace") || strings.Contains(text, "socket") {
					t.Errorf("%s: %s sees in %s: %q", when, node, path, text)
				}
			}
			text, _ := output(t, c, node, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cat /proc/net/unix /proc/sysvipc/shm")
			if strings.Contains(text, "helper leave") || strings.Contains(text, "byssus-trace") || strings.Contains(text, "node1") || strings.Contains(text, strconv.Itoa(traceKey)) {
				t.Errorf("%s: %s sees processes or sockets: %q", when, node, text)
			}
		}
		for _, path := range []string{"/tmp/trace", "/tmp/socket", "/var/tmp/trace", "/dev/shm/trace", "/run/trace"} {
			if _, err := os.Lstat(path); err == nil {
				t.Errorf("%s: %s is outside", when, path)
			}
		}
		if text, err := os.ReadFile("/proc/sysvipc/shm"); err != nil || strings.Contains(string(text), strconv.Itoa(traceKey)) {
			t.Errorf("%s: outside: %q, %v", when, text, err)
		}
		if conn, err := net.Dial("unix", "@byssus-trace"); err == nil {
			conn.Close()
			t.Errorf("%s: the abstract socket is reached from outside", when)
		}
	}
	reach("alive")
	for _, end := range []func(string) error{c.Kill, c.Crash} {
		if err := end("node1"); err != nil {
			t.Fatal(err)
		}
		reach("dead")
		if err := c.Boot("node1"); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/tmp", "/var/tmp", "/dev/shm", sandbox.Home, sandbox.Cache} {
			if text, _ := output(t, c, "node1", "ls", "-A", path); strings.Contains(text, "trace") || strings.Contains(text, "socket") {
				t.Errorf("after its death node1 still has in %s: %q", path, text)
			}
		}
		start(t, c, "node1", "leave")
	}
}

// TestFiles: the machine is read-only, the prefix and bound directories are shared, others can be made visible.
func TestFiles(t *testing.T) {
	mine, seen, prefix := t.TempDir(), t.TempDir(), t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(seen, "file"), []byte("seen"), 0o644), os.Symlink(mine, filepath.Join(prefix, "link"))); err != nil {
		t.Fatal(err)
	}
	c := create(t, sandbox.Options{Nodes: 2, Prefix: prefix, Binds: []string{filepath.Join(prefix, "link")}, Visible: []string{seen}})
	for _, k := range []struct{ node, script, want string }{
		{"node1", "echo from1 >" + mine + "/a && echo p >" + prefix + "/a && echo ok", "ok"},
		{"node2", "cat " + mine + "/a " + prefix + "/a " + seen + "/file", "from1\np\nseen"},
		{"node2", "echo x >" + seen + "/file", "Read-only file system"},
		{"node2", "touch /etc/byssus-trace", "Read-only file system"},
		{"node2", "touch /byssus-trace", "Read-only file system"},
		{"node1", "touch /usr/byssus-trace", "Read-only file system"},
		{"node1", "touch /dev/byssus-trace", "Read-only file system"}, // a mount of its own
	} {
		if text, _ := output(t, c, k.node, "sh", "-c", k.script); !strings.Contains(text, k.want) && (os.Geteuid() == 0 || !strings.Contains(text, "Permission denied")) {
			t.Errorf("%s: %s: %q, wanted %q", k.node, k.script, text, k.want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(mine, "a")); err != nil || string(text) != "from1\n" {
		t.Errorf("from outside: %q, %v", text, err)
	}
	run := os.Getenv("XDG_RUNTIME_DIR")
	if text, _ := output(t, c, "node1", "find", filepath.Join(run, "byssus")); strings.Contains(text, "sandboxes/test/hub") {
		t.Errorf("the hub is to be seen from a node: %q", text)
	}
}

// TestHubIsHidden: no node reaches the sockets of sandboxes, wherever these lie.
func TestHubIsHidden(t *testing.T) {
	run := place(t)
	t.Cleanup(func() { leftNothing(t, run, "test") })
	c := createIn(t, sandbox.Options{Name: "test", Nodes: 1, Visible: []string{run}, Binds: []string{run}})
	if text, _ := output(t, c, "node1", "find", run); strings.Contains(text, "hub") || !strings.Contains(text, "prefix") {
		t.Errorf("a node sees %q", text)
	}
	if text, code := output(t, c, "node1", "sh", "-c", "echo x >"+c.Prefix+"/file && cat "+c.Prefix+"/file"); text != "x" || code != 0 {
		t.Errorf("the prefix: %q, code %d", text, code)
	}
}

// TestAtOnce: of several that make a sandbox of one name, one succeeds; of several that destroy it, one too; verbs at
// once find each state or a reason.
func TestAtOnce(t *testing.T) {
	run := place(t)
	const n = 6
	count := func(do func() error, others error) (done int) {
		t.Helper()
		results := make(chan error, n)
		for range n {
			go func() { results <- do() }()
		}
		for range n {
			switch err := <-results; {
			case err == nil:
				done++
			case !errors.Is(err, others) && !errors.Is(err, sandbox.ErrNotRunning):
				t.Error(err)
			}
		}
		return done
	}
	create := func() error {
		_, err := sandbox.Create(sandbox.Options{Name: "once", Nodes: 2})
		return err
	}
	if done := count(create, sandbox.ErrExists); done != 1 {
		t.Errorf("%d of %d have made it", done, n)
	}
	c, err := sandbox.Open("once")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if done := count(func() error { return c.Kill("node1") }, sandbox.ErrState); done != 1 {
			t.Errorf("%d of %d have killed it", done, n)
		}
		if done := count(func() error { return c.Boot("node1") }, sandbox.ErrState); done != 1 {
			t.Errorf("%d of %d have started it", done, n)
		}
	}
	if done := count(func() error { return sandbox.Destroy("once") }, sandbox.ErrNone); done != 1 {
		t.Errorf("%d of %d have destroyed it", done, n)
	}
	leftNothing(t, run, "once")
}

// TestPrefixGoes: the default prefix goes with its sandbox, whatever is in it.
func TestPrefixGoes(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 1})
	if _, code := output(t, c, "node1", "sh", "-c", "cd "+c.Prefix+" && mkdir -p a/b && touch a/b/c && chmod 0500 a/b && chmod 0 a"); code != 0 {
		t.Errorf("code %d", code)
	}
}

// TestDeath: the peers of a killed node are told, those of a crashed one hear nothing.
func TestDeath(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 3})
	for _, node := range []string{"node1", "node2", "node3"} {
		start(t, c, node, "echo")
	}
	h := start(t, c, sandbox.Login, "talk", "node1", "node2", "node3")
	for _, node := range []string{"node1", "node2", "node3"} {
		h.say(node, "hello")
		h.await(node + ": hello")
	}
	if err := c.Crash("node1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill("node2"); err != nil {
		t.Fatal(err)
	}
	h.await("node2 over")
	h.say("node1", "are you there")
	h.say("node3", "and you")
	h.await("node3: and you")
	if slices.ContainsFunc(h.seen, func(line string) bool { return strings.HasPrefix(line, "node1 over") }) {
		t.Errorf("the end of a crashed node was heard: %q", h.seen)
	}
	for node, want := range map[string]sandbox.State{"node1": sandbox.DeadCrash, "node2": sandbox.DeadKill, "node3": sandbox.Up} {
		if found := state(t, c, node); found != want {
			t.Errorf("%s is %s, wanted %s", node, found, want)
		}
	}
	for _, node := range []string{"node1", "node2"} { // and back again: at once to be reached at the same address
		if err := c.Boot(node); err != nil {
			t.Fatal(err)
		}
		start(t, c, node, "echo")
	}
	again := start(t, c, sandbox.Login, "talk", "node1", "node2")
	again.say("node1", "once more")
	again.await("node1: once more")
	again.say("node2", "once more")
	again.await("node2: once more")
}

func state(t *testing.T, c *sandbox.Cluster, node string) sandbox.State {
	t.Helper()
	nodes, err := c.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == node {
			return n.State
		}
	}
	t.Fatalf("no %s", node)
	return ""
}

// TestDeathIsSeen: a process on a node dies with it, and its caller is told; a node whose first process others kill is
// dead.
func TestDeathIsSeen(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 2})
	for _, end := range []func(string) error{c.Kill, c.Crash} {
		h := begin(t, c, "node1", "sh", "-c", "echo ready; sleep 1000")
		h.await("ready")
		if err := end("node1"); err != nil {
			t.Fatal(err)
		}
		if code, err := h.p.Wait(); code != 137 || !errors.Is(err, sandbox.ErrDied) {
			t.Errorf("code %d, %v", code, err)
		}
		if _, err := c.Start(t.Context(), "node1", sandbox.Command{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrState) {
			t.Errorf("on a dead node: %v", err)
		}
		if err := c.Boot("node1"); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range childrenOf(t, hubPID(t)) {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(text), "node2") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	poll(t, "node2 is dead", func() bool { return state(t, c, "node2") == sandbox.DeadKill })
}

// hubPID is the first process of a sandbox.
func hubPID(t *testing.T) int {
	t.Helper()
	found := firstProcesses(t, os.Getenv("XDG_RUNTIME_DIR"))
	if len(found) != 1 {
		t.Fatalf("hubs: %q, wanted one", found)
	}
	pid, err := strconv.Atoi(strings.Fields(found[0])[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, n)
		}
	}
	return list
}

// TestFreeze: a frozen node answers nothing and loses nothing, also one whose processes are born all the time.
func TestFreeze(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 2})
	start(t, c, "node1", "echo")
	start(t, c, "node2", "echo")
	storm := begin(t, c, "node1", "sh", "-c", "echo ready; while :; do (true; true); done")
	storm.await("ready")
	h := start(t, c, sandbox.Login, "talk", "node1", "node2")
	for range 5 {
		how, err := c.Freeze("node1")
		if err != nil || how == "" {
			t.Fatalf("frozen %q, %v", how, err)
		}
		h.seen = nil
		h.say("node1", "frozen")
		h.say("node2", "not")
		h.await("node2: not")
		if slices.Contains(h.seen, "node1: frozen") {
			t.Error("a frozen node has answered")
		}
		if _, err := c.Freeze("node1"); !errors.Is(err, sandbox.ErrState) {
			t.Errorf("frozen twice: %v", err)
		}
		if _, err := c.Start(t.Context(), "node1", sandbox.Command{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrState) {
			t.Errorf("on a frozen node: %v", err)
		}
		if err := c.Thaw("node1"); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(h.seen, "node1: frozen") {
			h.await("node1: frozen")
		}
	}
	if err := c.Thaw("node1"); !errors.Is(err, sandbox.ErrState) {
		t.Errorf("thawed twice: %v", err)
	}
	for _, end := range []func(string) error{c.Kill, c.Crash} { // also of what is frozen
		if _, err := c.Freeze("node1"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(end("node1"), c.Boot("node1")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Freeze("node1"); err != nil { // and it is destroyed so
		t.Error(err)
	}
}

// TestFoundAgain: a node is found at once when its link is up again, also by who has just looked for it in vain.
func TestFoundAgain(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 2})
	const call = "exec 3<>/dev/tcp/node2/1" // nobody listens there
	for round := range 2 {
		if err := c.Cut("node2"); err != nil {
			t.Fatal(err)
		}
		vain := make(chan string, 1)
		go func() {
			text, _ := output(t, c, "node1", "bash", "-c", call)
			vain <- text
		}()
		time.Sleep(2500 * time.Millisecond) // of three seconds, for which the kernel looks
		if err := c.Heal("node2"); err != nil {
			t.Fatal(err)
		}
		if text, _ := output(t, c, "node1", "bash", "-c", call); !strings.Contains(text, "Connection refused") {
			t.Errorf("round %d: it answers %q", round, text)
		}
		<-vain
	}
}

// TestLink: a link that is cut, loses everything, or has been both.
func TestLink(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 2})
	start(t, c, "node1", "echo")
	start(t, c, "node2", "echo")
	h := start(t, c, sandbox.Login, "talk", "node1", "node2")
	for name, pair := range map[string][2]func() error{
		"cut":  {func() error { return c.Cut("node1") }, func() error { return c.Heal("node1") }},
		"drop": {func() error { return c.Drop("node1", 100) }, func() error { return c.Drop("node1", 0) }},
	} {
		h.seen = nil
		if err := pair[0](); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h.say("node1", name)
		h.say("node2", "other")
		h.await("node2: other")
		if slices.Contains(h.seen, "node1: "+name) {
			t.Errorf("%s: it answered", name)
		}
		if found := state(t, c, "node1"); (found == sandbox.Cut) != (name == "cut") {
			t.Errorf("%s: node1 is %s", name, found)
		}
		if err := pair[1](); err != nil {
			t.Fatalf("%s, back: %v", name, err)
		}
		h.await("node1: " + name)
	}
	if _, err := c.Freeze("node1"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Cut("node1"), c.Thaw("node1")); err != nil || state(t, c, "node1") != sandbox.Cut {
		t.Errorf("cut while frozen: %s, %v", state(t, c, "node1"), err)
	}
	if err := errors.Join(c.Kill("node1"), c.Boot("node1")); err != nil || state(t, c, "node1") != sandbox.Up {
		t.Errorf("cut before its death: %s, %v", state(t, c, "node1"), err)
	}
}

// TestLoss: a link loses about as many packets as asked, in both directions.
func TestLoss(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 2})
	exe, _ := self(t)
	for _, k := range []struct {
		lossy     string
		low, high int
	}{{"", 200, 200}, {"node1", 40, 160}, {"node2", 40, 160}} { // 7 standard deviations
		if k.lossy != "" {
			if err := c.Drop(k.lossy, 50); err != nil {
				t.Fatal(err)
			}
		}
		start(t, c, "node1", "count")
		_, code := output(t, c, "node2", exe, "helper", "shout", "node1", "200")
		if k.lossy != "" {
			if err := c.Drop(k.lossy, 0); err != nil {
				t.Fatal(err)
			}
		}
		text, _ := output(t, c, "node2", exe, "helper", "ask", "node1")
		if n, err := strconv.Atoi(text); code != 0 || err != nil || n < k.low || n > k.high {
			t.Errorf("with half of the packets lost at %q: %q of 200 came, wanted %d to %d", k.lossy, text, k.low, k.high)
		}
	}
}

// TestCap: a limited link cannot be faster than its limit, in either direction, and is again without.
func TestCap(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 2})
	exe, _ := self(t)
	start(t, c, "node1", "echo")
	const bytes, rate = 1 << 20, 1 << 20 // a second's worth, less what the link passes at once
	for _, node := range []string{"node1", "node2"} {
		if err := c.Cap(node, rate); err != nil {
			t.Fatal(err)
		}
		if err := c.Cap(node, rate); err != nil {
			t.Errorf("once more: %v", err)
		}
		text, _ := output(t, c, "node2", exe, "helper", "pour", "node1", fmt.Sprint(bytes))
		if ms, err := strconv.Atoi(text); err != nil || ms < 900 {
			t.Errorf("%d bytes over a link of %d a second took %q ms", bytes, rate, text)
		}
		if err := errors.Join(c.Cap(node, 0), c.Cap(node, 0)); err != nil {
			t.Fatal(err)
		}
	}
	text, code := output(t, c, "node2", exe, "helper", "pour", "node1", fmt.Sprint(200*bytes)) // minutes, if it were still limited
	if ms, err := strconv.Atoi(text); err != nil || code != 0 || ms > 150_000 {
		t.Errorf("without a limit: %q, code %d", text, code)
	}
}

func TestDiskFull(t *testing.T) {
	c := create(t, sandbox.Options{Nodes: 2, Disk: 8 << 20})
	write := func(node, dir string, kib int) bool {
		_, code := output(t, c, node, "dd", "if=/dev/zero", "of="+dir+"/file", "bs=1k", "count="+strconv.Itoa(kib), "conv=notrunc")
		return code == 0
	}
	for _, dir := range sandbox.OwnDirs() {
		if !write("node1", dir, 100) {
			t.Errorf("%s: nothing can be written", dir)
		}
		for range 2 {
			if full, err := c.FillDisk("node1", dir+"/some/where"); err != nil || full != dir {
				t.Errorf("full %s, %v, wanted %s", full, err, dir)
			}
		}
		if !write("node1", dir, 100) { // over what is there
			t.Errorf("%s: what was there cannot be written again", dir)
		}
		if write("node1", dir, 200) {
			t.Errorf("%s: it is not full", dir)
		}
		if !write("node2", dir, 200) {
			t.Errorf("%s is full on another node", dir)
		}
		if err := c.FreeDisk("node1", dir); err != nil {
			t.Error(err)
		}
		if !write("node1", dir, 4000) {
			t.Errorf("%s is still full", dir)
		}
		if write("node1", dir, 9000) {
			t.Errorf("%s: more than it holds was written", dir)
		}
		if _, err := c.FillDisk("node1", dir); err != nil {
			t.Errorf("%s: of itself full: %v", dir, err)
		}
	}
	for _, path := range []string{"/etc", "relative", c.Prefix} {
		if _, err := c.FillDisk("node1", path); (path != c.Prefix || os.Getenv(asUser) != "") && path != c.Prefix && !errors.Is(err, sandbox.ErrOption) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := errors.Join(c.Kill("node1"), c.Boot("node1")); err != nil || !write("node1", "/tmp", 4000) {
		t.Errorf("after its death the node's directory is still full (%v)", err)
	}
}

// TestTwo: two sandboxes are there at once and know nothing of each other, though their addresses are the same.
func TestTwo(t *testing.T) {
	run := place(t)
	t.Cleanup(func() { leftNothing(t, run, "[ab]") })
	a, b := createIn(t, sandbox.Options{Name: "a", Nodes: 1}), createIn(t, sandbox.Options{Name: "b", Nodes: 2})
	start(t, a, "node1", "echo")
	h := start(t, a, sandbox.Login, "talk", "node1")
	if text, code := output(t, b, sandbox.Login, "sh", "-c", "grep -h '[h]elper' /proc/[0-9]*/cmdline"); code == 0 {
		t.Errorf("b sees a: %q", text)
	}
	if list := listed(t, run); len(list) != 2 || list[0].Name != "a" || list[1].State != "running" || list[1].Nodes != 2 {
		t.Errorf("listed: %+v", list)
	}
	if _, err := sandbox.Create(sandbox.Options{Name: "a", Nodes: 1}); !errors.Is(err, sandbox.ErrExists) {
		t.Errorf("a second a: %v", err)
	}
	if err := b.Kill("node1"); err != nil {
		t.Fatal(err)
	}
	h.say("node1", "alive")
	h.await("node1: alive")
	other, err := sandbox.Open("b")
	if err != nil || other.Prefix != b.Prefix {
		t.Errorf("opened %+v, %v", other, err)
	}
}

// TestCreatorDies: whenever a creator is killed, nothing stays but what the next one who looks removes.
func TestCreatorDies(t *testing.T) {
	run := place(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	whole := 0
	for i := range 30 {
		name := fmt.Sprintf("dies%d", i)
		cmd := command(t, "create", name)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(80)) * time.Millisecond) // a random moment
		_ = cmd.Process.Kill()                                        // it may have ended
		_ = cmd.Wait()                                                // killed, or not
		if _, err := os.Stat(filepath.Join(run, "byssus/sandboxes", name, "sandbox.json")); err == nil && sandbox.Destroy(name) == nil {
			whole++ // complete, or completed after all
			continue
		}
		poll(t, "the end of "+name, func() bool { // which begins as a copy of the creator, under another name
			return len(listed(t, run)) == 0 && len(firstProcesses(t, run)) == 0
		})
		leftNothing(t, run, name)
	}
	leftNothing(t, run, "dies*")
	t.Logf("%d of 30 were complete", whole)
}

// TestHubDies: with the first process everything ends; what is left can be destroyed.
func TestHubDies(t *testing.T) {
	run := place(t)
	c := createIn(t, sandbox.Options{Name: "hub", Nodes: 2})
	h := begin(t, c, "node1", "sh", "-c", "echo ready; sleep 1000")
	h.await("ready")
	pids := childrenOf(t, hubPID(t))
	if len(pids) != 3 {
		t.Errorf("children of the hub: %v, wanted 3", pids)
	}
	if err := syscall.Kill(hubPID(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := h.p.Wait(); !errors.Is(err, sandbox.ErrDied) {
		t.Errorf("what ran: %v", err)
	}
	poll(t, "the end of all nodes", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); return err == nil })
	})
	if _, err := sandbox.Open("hub"); !errors.Is(err, sandbox.ErrNotRunning) {
		t.Errorf("opened: %v", err)
	}
	if err := c.Kill("node1"); !errors.Is(err, sandbox.ErrNotRunning) {
		t.Errorf("killed: %v", err)
	}
	if list := listed(t, run); len(list) != 1 || list[0].State != "dead" {
		t.Errorf("listed: %+v", list)
	}
	if _, err := sandbox.Create(sandbox.Options{Name: "hub", Nodes: 1}); !errors.Is(err, sandbox.ErrExists) {
		t.Errorf("created again: %v", err)
	}
	if err := sandbox.Destroy("hub"); err != nil {
		t.Error(err)
	}
	if err := sandbox.Destroy("hub"); !errors.Is(err, sandbox.ErrNone) {
		t.Errorf("destroyed twice: %v", err)
	}
	leftNothing(t, run, "hub")
}

// TestDirectoryRemoved: a sandbox that nobody could find any more ends by itself.
func TestDirectoryRemoved(t *testing.T) {
	run := place(t)
	c := createIn(t, sandbox.Options{Name: "removed", Nodes: 1})
	if err := os.RemoveAll(filepath.Join(run, "byssus")); err != nil {
		t.Fatal(err)
	}
	poll(t, "the end of the hub", func() bool { return len(firstProcesses(t, run)) == 0 })
	leftNothing(t, run, c.Name)
}

// TestNothingInherited: a sandbox holds open nothing that its creator happened to have open.
func TestNothingInherited(t *testing.T) {
	run := place(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "create", "inherits")
	cmd.ExtraFiles = []*os.File{nil, nil, nil, w}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.Close()
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the pipe is still open: %v", err)
	}
	if err := sandbox.Destroy("inherits"); err != nil {
		t.Error(err)
	}
	leftNothing(t, run, "inherits")
}

// TestMemory: a limit holds where there can be one, else it is refused by name.
func TestMemory(t *testing.T) {
	run := place(t)
	_, dir := self(t)
	c, err := sandbox.Create(sandbox.Options{Name: "memory", Nodes: 1, Memory: 64 << 20, Visible: []string{dir}})
	if errors.Is(err, sandbox.ErrUnsupported) {
		if !strings.Contains(err.Error(), "memory limit: needs the memory controller of cgroup version 2") {
			t.Errorf("refused: %v", err)
		}
		leftNothing(t, run, "memory")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		what string
		fits bool
	}{{"head -c 20M /dev/zero | tail -c 20M >/dev/null", true}, {"head -c 200M /dev/zero | tail -c 200M >/dev/null", false},
		{"head -c 20M /dev/zero >/dev/shm/some", true}, {"head -c 200M /dev/zero >/dev/shm/much", false}} {
		if text, code := output(t, c, "node1", "sh", "-c", k.what); (code == 0) != k.fits {
			t.Errorf("%s in 64 MB: exit code %d, %s", k.what, code, text)
		}
	}
	if err := c.Destroy(); err != nil {
		t.Error(err)
	}
	leftNothing(t, run, "memory")
}
