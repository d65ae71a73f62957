package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/host/spawn"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// patience is how long a test waits for something that must come.
const patience = 20 * time.Second

// one is a report of rank 0 alone.
var one = []int{0}

// TestMain lets the test binary play a rank: it says hello, does as told, and waits for its end.
func TestMain(m *testing.M) {
	spawn.Main()
	if path := os.Getenv("AGENT_TEST_SOCKET"); path != "" {
		child(path, os.Getenv("AGENT_TEST_DO"))
		return
	}
	os.Exit(m.Run())
}

func child(path, do string) {
	c, err := dial(path)
	if err == nil {
		err = send(c, abi.MsgHello, 0, abi.Encode(hello(1), ""))
	}
	if err == nil && do == "fork" { // a child of the application inherits the socket and lives on
		var f *os.File
		if f, err = c.File(); err == nil {
			cmd := exec.Command("sleep", "60")
			cmd.ExtraFiles = []*os.File{f}
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: 0}
			if err = cmd.Start(); err == nil {
				fmt.Println(cmd.Process.Pid)
			}
		}
	}
	if c != nil && do == "refused" {
		for err == nil { // until the agent has closed it: perhaps with a word
			_, err = c.Read(make([]byte, abi.HeaderBytes+abi.MaxBody))
		}
		fmt.Print("turned away: ", err)
		os.Exit(0)
	}
	if err == nil && do == "met" {
		err = send(c, abi.MsgMet, 4, abi.Encode(abi.Met{Version: 2}, ""))
	}
	if err == nil && do == "exec" {
		os.Setenv("AGENT_TEST_DO", "again")
		err = syscall.Exec(os.Args[0], os.Args, os.Environ())
	}
	if err == nil && do == "again" {
		os.Unsetenv("AGENT_TEST_SOCKET")
		err = syscall.Exec("/bin/sleep", []string{"sleep", "60"}, os.Environ())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Stdout.Close()
	select {}
}

func dial(path string) (*net.UnixConn, error) {
	return net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
}

func hello(n uint32) abi.Hello { return abi.Hello{PID: 1, NRanks: n, ABIVersion: abi.Version} }

func send(c net.Conn, typ uint16, epoch uint64, body []byte) error {
	_, err := c.Write(abi.Packet(abi.Message{Header: abi.Header{Type: typ, Epoch: epoch}, Body: body}))
	return err
}

func serve(t *testing.T, ranks int) (*Server, chan node.Report) {
	t.Helper()
	events := make(chan node.Report, 100)
	all := make([]int, ranks)
	for r := range all {
		all[r] = r
	}
	var s *Server
	s, err := Listen(Config{Dir: t.TempDir(), Ranks: all, Size: ranks, Writers: 3, Report: func(r node.Report) { events <- r },
		Here: func(m uint64) { go s.Met(m) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, events
}

func expect(t *testing.T, events chan node.Report, want node.Report) {
	t.Helper()
	select {
	case got := <-events:
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("event: want, got:\n%s", d)
		}
	case <-time.After(patience):
		t.Fatalf("no event, want %+v", want)
	}
}

func start(t *testing.T, s *Server, do string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "AGENT_TEST_SOCKET="+SocketPath(s.cfg.Dir), "AGENT_TEST_DO="+do)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	return cmd
}

// TestLost: what a rank has said comes before the news of its end. A second one of its number is refused.
func TestLost(t *testing.T) {
	s, events := serve(t, 1)
	cmd := start(t, s, "met")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, events, node.Hello{Ranks: one})
	expect(t, events, node.Met{Ranks: one, Epoch: 4, Version: 2})
	if got := ask(t, s, abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgHello}, Body: abi.Encode(hello(1), "")})); !strings.Contains(got, "rank 0 is here already") {
		t.Errorf("refused with %q", got)
	}
	s.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	expect(t, events, node.Lost{Untold: true})
}

// TestLostInSpiteOfChild: the end of a rank is noticed even when a process that it forked holds its socket.
func TestLostInSpiteOfChild(t *testing.T) {
	s, events := serve(t, 1)
	cmd := start(t, s, "fork")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	expect(t, events, node.Hello{Ranks: one})
	s.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	expect(t, events, node.Lost{Untold: true})
}

// TestBegunToEnd: a process that has begun to end is told from one that runs, though it is still there.
func TestBegunToEnd(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	p, err := openProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if p.ending() {
		t.Error("it runs")
	}
	_ = cmd.Process.Kill()
	<-p.over // it is a zombie: nobody has waited for it
	if !p.ending() {
		t.Error("it has ended")
	}
}

// TestTold: the end of a rank that was told to end is not its own.
func TestTold(t *testing.T) {
	s, events := serve(t, 1)
	cmd := start(t, s, "met")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, events, node.Hello{Ranks: one})
	expect(t, events, node.Met{Ranks: one, Epoch: 4, Version: 2})
	s.kill(false)
	_ = cmd.Wait()
	expect(t, events, node.Lost{})
}

// TestExec: a rank that becomes another program may say hello again; when it does not it has left.
func TestExec(t *testing.T) {
	s, events := serve(t, 1)
	cmd := start(t, s, "exec")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, events, node.Hello{Ranks: one})
	expect(t, events, node.Hello{Ranks: one})
	expect(t, events, node.Left{})
	s.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	expect(t, events, node.Lost{})
}

// TestRefused: whoever does not fit is told why, and nobody else hears of it.
func TestRefused(t *testing.T) {
	s, events := serve(t, 2)
	old := hello(2)
	old.ABIVersion = 7
	late := hello(2)
	late.Start = 3
	future := abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgHello}, Body: abi.Encode(hello(2), "")})
	future[4] = 9
	for _, c := range []struct {
		want   string
		packet []byte
	}{
		{"rank 0 of 3, wanted 2 ranks", abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgHello}, Body: abi.Encode(hello(3), "")})},
		{"rank 5 of 2, wanted 2 ranks", abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgHello, Rank: 5}, Body: abi.Encode(hello(2), "")})},
		{"speaks protocol version 7, wanted 1", abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgHello}, Body: abi.Encode(old, "")})},
		{"rank 0 belongs to start 3 of the job, this is start 0", abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgHello}, Body: abi.Encode(late, "")})},
		{"first message of type 4", abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgMet}, Body: abi.Encode(hello(2), "")})},
		{"protocol version 9, wanted 1", future},
		{"found 5 bytes", []byte("hello")},
		{"decode *abi.Hello: found 2 bytes", abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgHello}, Body: []byte("hi")})},
	} {
		if got := ask(t, s, c.packet); !strings.Contains(got, c.want) {
			t.Errorf("refused with %q, want %q", got, c.want)
		}
	}
	if len(events) != 0 {
		t.Errorf("event %+v", <-events)
	}
}

// ask sends a packet on a connection of its own and returns the sentence of the refusal.
func ask(t *testing.T, s *Server, packet []byte) string {
	t.Helper()
	c, err := dial(SocketPath(s.cfg.Dir))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(packet); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	m, err := abi.Parse(buf[:n])
	if err != nil || m.Type != abi.MsgRefuse {
		t.Fatalf("answer of type %d, %v, wanted a refusal", m.Type, err)
	}
	return string(m.Body)
}

// TestConversation: all kinds of message.
func TestConversation(t *testing.T) {
	s, events := serve(t, 1)
	c, err := dial(SocketPath(s.cfg.Dir))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := send(c, abi.MsgHello, 0, abi.Encode(hello(1), "")); err != nil {
		t.Fatal(err)
	}
	expect(t, events, node.Hello{Ranks: one})
	clocks := []abi.Clock{{Comm: 1, Seq: 2}, {Comm: 3, Seq: 4}}
	part := abi.Clocks(nil, clocks[:1])[0]
	part[0] = 2 // the count of the whole report
	im := abi.Image{Status: 1, Bytes: 5}
	for _, m := range []struct {
		typ  uint16
		body []byte
		want node.Report
	}{
		{abi.MsgInit, []byte("MPICH"), node.Init{Ranks: one, Library: "MPICH"}},
		{abi.MsgClocks, part, nil},
		{abi.MsgClocks, part, node.Clocks{Ranks: one, Epoch: 1, Clocks: []node.Clock{{Comm: 1, Seq: 2, Have: 1}, {Comm: 1, Seq: 2, Have: 1}}}},
		{abi.MsgClocks, abi.Clocks(nil, nil)[0], node.Clocks{Ranks: one, Epoch: 1}},
		{abi.MsgRaise, abi.Encode(clocks[0], ""), node.Raise{Epoch: 1, Clock: node.Clock{Comm: 1, Seq: 2}}},
		{abi.MsgWaiting, abi.Encode(abi.Waiting{Where: 2}, ""), node.Waiting{Ranks: one, Epoch: 1, Where: 2}},
		{abi.MsgWaiting, abi.Encode(abi.Waiting{Where: 1, Call: [32]byte{'M', 'P', 'I', '_', 'B', 'c', 'a', 's', 't'}}, ""),
			node.Waiting{Ranks: one, Epoch: 1, Where: 1, Call: "MPI_Bcast"}},
		{abi.MsgStopped, abi.Encode(abi.Stopped{NRefusals: 3}, "fd 3: x\nfd 4: y\n"),
			node.Stopped{Ranks: one, Epoch: 1, Refusals: []string{"rank 0: fd 3: x", "rank 0: fd 4: y", "rank 0: and 1 more things that cannot be saved"}}},
		{abi.MsgImage, abi.Encode(im, "disk full"), node.Image{Ranks: one, Epoch: 1, Text: "rank 0: disk full"}},
		{abi.MsgResumed, abi.Encode(abi.Resumed{StallNS: 9}, ""), node.Resumed{Ranks: one, Epoch: 1, Stall: 9}},
		{abi.MsgRestored, nil, node.Restored{Ranks: one}},
		{abi.MsgFini, nil, node.Fini{Ranks: one}},
		{abi.MsgFailed, []byte("no memory\n\x00"), node.Failed{Text: "no memory"}},
		{77, nil, node.Failed{Text: "agent: message of unknown type 77 from rank 0"}},
	} {
		if err := send(c, m.typ, 1, m.body); err != nil {
			t.Fatal(err)
		}
		if m.want != nil {
			expect(t, events, m.want)
		}
	}
}

// TestSend: a long list of targets arrives whole, and a rank that does not read holds up nobody.
func TestSend(t *testing.T) {
	s, events := serve(t, 1)
	c, err := dial(SocketPath(s.cfg.Dir))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := send(c, abi.MsgHello, 0, abi.Encode(hello(1), "")); err != nil {
		t.Fatal(err)
	}
	expect(t, events, node.Hello{Ranks: one})
	body := make([]byte, abi.MaxBody)
	const count = 50
	for range count {
		s.Send(0, abi.Message{Header: abi.Header{Type: abi.MsgTargets}, Body: body})
	}
	buf := make([]byte, abi.HeaderBytes+abi.MaxBody)
	for i := range count + 1 {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		m, err := abi.Parse(buf[:n])
		if err != nil || (i > 0) != (len(m.Body) == abi.MaxBody) {
			t.Fatalf("message %d: type %d, %d bytes, %v", i, m.Type, len(m.Body), err)
		}
	}
}

func TestPathTooLong(t *testing.T) {
	dir := t.TempDir() + strings.Repeat("/x", 60)
	if _, err := Listen(Config{Dir: dir, Ranks: one, Size: 1}); err == nil || !strings.Contains(err.Error(), "at most 99") {
		t.Errorf("%v", err)
	}
}

// TestEnding: what a rank says about its end, and that of its refusals some may pass.
func TestEnding(t *testing.T) {
	s := &session{rank: 2}
	for _, c := range []struct {
		typ  uint16
		body []byte
		want node.Report
	}{
		{abi.MsgFinalizing, nil, node.Finalizing{Ranks: []int{2}}},
		{abi.MsgTerminate, nil, node.Asked{Rank: 2}},
		{abi.MsgReason, []byte("MPI_Abort with code 3\n"), node.Reason{Rank: 2, Text: "MPI_Abort with code 3"}},
		{abi.MsgStopped, abi.Encode(abi.Stopped{NRefusals: 2, NPassing: 1}, "socket\nchild\n"),
			node.Stopped{Ranks: []int{2}, Refusals: []string{"rank 2: socket"}, Passing: []string{"rank 2: child"}}},
		{abi.MsgStopped, abi.Encode(abi.Stopped{NRefusals: 1, NPassing: 7}, "child"), node.Stopped{Ranks: []int{2}, Passing: []string{"rank 2: child"}}},
	} {
		got, err := s.report(abi.Message{Header: abi.Header{Type: c.typ}, Body: c.body})
		if d := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); d != "" || err != nil {
			t.Errorf("%d: %v\n%s", c.typ, err, d)
		}
	}
}

// TestOtherUser: a process of another user is not heard, though it says what a rank says. Root's agent refuses it, too.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: root is needed to be another user")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "byssus-test.") // not below TMPDIR, where others may not go
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	events := make(chan node.Report, 10)
	s, err := Listen(Config{Dir: dir, Ranks: one, Size: 1, Writers: 1, Report: func(r node.Report) { events <- r }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	cmd := start(t, s, "refused")
	cmd.Path = "/proc/self/exe"
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	if out, err := cmd.Output(); err == nil {
		t.Errorf("a socket of mode 0600 in a directory of mode 0700 is reached: %s", out)
	}
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(SocketPath(dir), 0o777)); err != nil {
		t.Fatal(err)
	}
	again := start(t, s, "refused")
	again.Path, again.SysProcAttr = cmd.Path, cmd.SysProcAttr
	if out, err := again.Output(); err != nil || !strings.HasPrefix(string(out), "turned away: ") {
		t.Errorf("found %q, %v", out, err)
	}
	if len(events) > 0 {
		t.Errorf("event %+v", <-events)
	}
}

// TestForAnother: a rank speaks for itself alone. What it says as another is not heard, and it is not heard any more.
func TestForAnother(t *testing.T) {
	s, events := serve(t, 2)
	c := join(t, s, events, 0, 2)
	join(t, s, events, 1, 2)
	say(t, c, 1, abi.MsgTerminate, 0, nil, nil)
	expect(t, events, node.Failed{Rank: 0, Text: "agent: message of rank 1 from rank 0"})
	if n, err := c.Read(make([]byte, 1)); err == nil && n > 0 {
		t.Error("the connection goes on")
	}
	if len(events) > 0 {
		t.Errorf("event %+v", <-events)
	}
}
