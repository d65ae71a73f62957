package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
	"github.com/byssus-hpc/byssus/internal/wire/frames"
)

// join connects as a rank and takes the welcome.
func join(t *testing.T, s *Server, events chan node.Report, rank, ranks int) *net.UnixConn {
	t.Helper()
	c, err := dial(SocketPath(s.cfg.Dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	h := hello(uint32(ranks))
	abi.SetText(h.Host[:], "here")
	say(t, c, rank, abi.MsgHello, 0, abi.Encode(h, ""), nil)
	expect(t, events, node.Hello{Ranks: []int{rank}})
	want := abi.Encode(abi.Welcome{Writers: uint32(s.cfg.Writers), Here: uint32(ranks)}, "")
	if m, _ := hear(t, c); m.Type != abi.MsgWelcome || string(m.Body) != string(want) {
		t.Fatalf("found %+v, wanted WELCOME of one of %d ranks", m, ranks)
	}
	return c
}

func say(t *testing.T, c *net.UnixConn, rank int, typ uint16, epoch uint64, body []byte, f *os.File) {
	t.Helper()
	p := packet{abi.Packet(abi.Message{Header: abi.Header{Type: typ, Rank: uint32(rank), Epoch: epoch}, Body: body}), f}
	if err := p.send(c); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c *net.UnixConn) (abi.Message, *os.File) {
	t.Helper()
	buf := make([]byte, abi.HeaderBytes+abi.MaxBody)
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	n, f, err := receive(c, buf)
	if err != nil {
		t.Fatal(err)
	}
	m, err := abi.Parse(buf[:n])
	if err != nil {
		t.Fatal(err)
	}
	return m, f
}

// nameless is a file without a name and with some content.
func nameless(t *testing.T, text string) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func hand(what uint32, dev, inode uint64) []byte {
	return abi.Encode(abi.Hand{What: what, Dev: dev, Inode: inode}, "")
}

// TestHand: what a rank gives others get, whether they ask before or after it, and with it the very same file; a meeting is
// answered when all have come.
func TestHand(t *testing.T) {
	s, events := serve(t, 2)
	c := []*net.UnixConn{join(t, s, events, 0, 2), join(t, s, events, 1, 2)}
	for _, early := range []bool{true, false} {
		inode := uint64(10)
		if early {
			inode = 11
			say(t, c[1], 1, abi.MsgHand, 0, hand(abi.HandWant, 5, inode), nil)
		}
		say(t, c[0], 0, abi.MsgHand, 0, hand(abi.HandGive, 5, inode), nameless(t, fmt.Sprint("object ", inode)))
		if !early {
			say(t, c[1], 1, abi.MsgHand, 0, hand(abi.HandWant, 5, inode), nil)
		}
		m, f := hear(t, c[1])
		if string(m.Body) != string(hand(abi.HandWant, 5, inode)) || m.Type != abi.MsgHanded || f == nil {
			t.Fatalf("answer %+v, file %v", m, f)
		}
		if b, err := io.ReadAll(io.NewSectionReader(f, 0, 100)); string(b) != fmt.Sprint("object ", inode) || err != nil {
			t.Fatalf("content %q, %v", b, err)
		}
		f.Close()
	}
	for meeting := range uint64(abi.MeetingFilled) {
		say(t, c[1], 1, abi.MsgHand, 0, hand(abi.HandHere, meeting+1, 0), nil)
		say(t, c[0], 0, abi.MsgHand, 0, hand(abi.HandWant, 5, 10), nil)
		if meeting == 0 { // rank 0 still hands things about while rank 1 waits
			if _, f := hear(t, c[0]); f == nil {
				t.Fatal("no file")
			}
		} else if m, _ := hear(t, c[0]); m.Type != abi.MsgHanded {
			t.Fatalf("answer %+v", m)
		}
		say(t, c[0], 0, abi.MsgHand, 0, hand(abi.HandHere, meeting+1, 0), nil)
		for rank := range c {
			if m, f := hear(t, c[rank]); string(m.Body) != string(hand(abi.HandHere, meeting+1, 0)) || f != nil {
				t.Fatalf("rank %d: %+v", rank, m)
			}
		}
	}
	s.broker.mu.Lock()
	defer s.broker.mu.Unlock()
	if s.broker.given != nil || s.broker.wanted != nil {
		t.Error("the agent keeps files, or wishes, when all have what they share")
	}
}

// TestForgotten: nothing of a restart is kept when all have come to its last meeting.
func TestForgotten(t *testing.T) {
	s, events := serve(t, 2)
	c := []*net.UnixConn{join(t, s, events, 0, 2), join(t, s, events, 1, 2)}
	say(t, c[0], 0, abi.MsgClaim, 0, abi.Encode(abi.Claim{Dev: 5, Inode: 1, Was: 70, Flags: abi.ClaimWrites}, "/tmp/a"), nil)
	hear(t, c[0])
	say(t, c[0], 0, abi.MsgHand, 0, hand(abi.HandGive, 5, 1), nameless(t, "never asked for"))
	say(t, c[1], 1, abi.MsgHand, 0, hand(abi.HandWant, 5, 2), nil) // and never given
	for _, meeting := range []uint64{abi.MeetingCut, abi.MeetingFilled, abi.MeetingRestored} {
		for rank := range c {
			say(t, c[rank], rank, abi.MsgHand, 0, hand(abi.HandHere, meeting, 0), nil)
		}
		for rank := range c {
			hear(t, c[rank])
		}
	}
	b := &s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.given != nil || b.wanted != nil || b.here != nil || b.claims != nil {
		t.Errorf("kept: %d given, %d wanted, %d meetings, %d claims", len(b.given), len(b.wanted), len(b.here), len(b.claims))
	}
}

// TestOneDescriptor: with a message comes one descriptor or none. Of one with more nothing is kept, and a rank that sends such is
// not trusted.
func TestOneDescriptor(t *testing.T) {
	s, events := serve(t, 1)
	c := join(t, s, events, 0, 1)
	f := nameless(t, "x")
	for n := range 5 {
		fds := slices.Repeat([]int{int(f.Fd())}, n)
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ends := []*net.UnixConn{connection(t, pair[0]), connection(t, pair[1])}
		before := opened(t)
		if _, _, err := ends[0].WriteMsgUnix([]byte("x"), syscall.UnixRights(fds...), nil); err != nil {
			t.Fatal(err)
		}
		k, got, err := receive(ends[1], make([]byte, 16))
		if k != 1 || (got != nil) != (n == 1) || errors.Is(err, errMany) != (n > 1) || err != nil && n < 2 {
			t.Errorf("%d descriptors: found %d bytes, %v, %v", n, k, got, err)
		}
		if err := closeFile(got); err != nil {
			t.Error(err)
		}
		if after := opened(t); after != before {
			t.Errorf("%d descriptors: %d more are open", n, after-before)
		}
	}
	m := abi.Packet(abi.Message{Header: abi.Header{Type: abi.MsgHand}, Body: hand(abi.HandGive, 5, 1)})
	if _, _, err := c.WriteMsgUnix(m, syscall.UnixRights(int(f.Fd()), int(f.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	expect(t, events, node.Failed{Text: errMany.Error()})
}

// connection makes a connection of a descriptor.
func connection(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	c, err := frames.Conn(os.NewFile(uintptr(fd), "socketpair"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// opened says how many descriptors this process has.
func opened(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestTwoOwners: objects that had the same number on two nodes, which are one now, are two.
func TestTwoOwners(t *testing.T) {
	s, events := serve(t, 3)
	var c []*net.UnixConn
	for rank := range 3 {
		c = append(c, join(t, s, events, rank, 3))
	}
	body := func(what, owner uint32) []byte {
		return abi.Encode(abi.Hand{What: what, Owner: owner, Dev: 5, Inode: 1}, "")
	}
	for owner := range uint32(2) {
		say(t, c[owner], int(owner), abi.MsgHand, 0, body(abi.HandGive, owner), nameless(t, fmt.Sprint("of rank ", owner)))
	}
	for owner := range uint32(2) {
		say(t, c[2], 2, abi.MsgHand, 0, body(abi.HandWant, owner), nil)
		_, f := hear(t, c[2])
		if f == nil {
			t.Fatal("no file")
		}
		if b, err := io.ReadAll(io.NewSectionReader(f, 0, 100)); string(b) != fmt.Sprint("of rank ", owner) || err != nil {
			t.Fatalf("rank %d: content %q, %v", owner, b, err)
		}
		f.Close()
	}
}

// TestClaim: what has one name is one object to all ranks of a node, as it was before, or a rank fails. Of what nobody changes
// there may be copies.
func TestClaim(t *testing.T) {
	s, events := serve(t, 2)
	c := []*net.UnixConn{join(t, s, events, 0, 2), join(t, s, events, 1, 2)}
	const memory, file, input = abi.ClaimMemory | abi.ClaimWrites, abi.ClaimWrites, 0
	for i, tt := range []struct {
		rank int
		abi.Claim
		fails string
	}{
		{0, abi.Claim{Inode: 1, Was: 70, Flags: memory}, ""},
		{1, abi.Claim{Inode: 1, Was: 70, Flags: memory}, ""},
		{1, abi.Claim{Inode: 2, Was: 71, Owner: 1, Flags: memory}, ""},
		{1, abi.Claim{Inode: 1, Was: 70, Owner: 1, Flags: memory}, "is not that which rank 0 has"},
		{0, abi.Claim{Inode: 2, Was: 72, Owner: 1, Flags: memory}, "is not that which rank 1 has"},
		{0, abi.Claim{Inode: 3, Was: 73, Owner: 2, Flags: memory}, "shares the memory /tmp/a with rank 2"},
		{0, abi.Claim{Inode: 1, Was: 5, Birth: 9, Flags: file}, ""}, // the memory of above is open as a file, too
		{1, abi.Claim{Inode: 1, Was: 5, Birth: 9, Flags: input}, ""},
		{1, abi.Claim{Inode: 1, Was: 5, Birth: 8, Flags: input}, "is not that which rank 0 has"},
		{1, abi.Claim{Inode: 4, Was: 6, Birth: 9, Flags: input}, ""},
		{0, abi.Claim{Inode: 4, Was: 7, Birth: 8, Flags: input}, ""},
		{0, abi.Claim{Inode: 4, Was: 7, Birth: 8, Flags: file}, "is not that which rank 1 has"},
		{1, abi.Claim{Inode: 4, Was: 6, Birth: 9, Flags: file}, "is not that which rank 0 has"},
	} {
		tt.Dev = 5
		say(t, c[tt.rank], tt.rank, abi.MsgClaim, 0, abi.Encode(tt.Claim, "/tmp/a"), nil)
		if tt.fails != "" {
			if f, ok := (<-events).(node.Failed); !ok || f.Rank != tt.rank || !strings.Contains(f.Text, tt.fails) {
				t.Errorf("claim %d: found %+v", i, f)
			}
			continue
		}
		want := abi.Encode(abi.Hand{What: abi.HandClaimed, Dev: 5, Inode: tt.Inode}, "")
		if m, f := hear(t, c[tt.rank]); m.Type != abi.MsgHanded || string(m.Body) != string(want) || f != nil {
			t.Errorf("claim %d: found %+v", i, m)
		}
	}
}

// TestHoldsWithoutAny: ranks of a node that have nothing of what others share hear that all hold.
func TestHoldsWithoutAny(t *testing.T) {
	s, events := serve(t, 1)
	c := join(t, s, events, 0, 1)
	s.Order(node.Order{Type: abi.MsgShared, Hold: true, Shares: []node.Share{{Domain: "another machine:5", Share: abi.Share{Inode: 1}}}})
	m, _ := hear(t, c)
	if want := abi.Encode(abi.SharedHead{Flags: abi.SharedHold}, ""); m.Type != abi.MsgShared || m.Flags != 0 || string(m.Body) != string(want) {
		t.Errorf("found %+v", m)
	}
}

// TestOwnerElsewhere: an object whose owner is on another node is not waited for.
func TestOwnerElsewhere(t *testing.T) {
	s, events := serve(t, 1)
	c := join(t, s, events, 0, 1)
	say(t, c, 0, abi.MsgHand, 0, abi.Encode(abi.Hand{What: abi.HandWant, Owner: 3, Dev: 1, Inode: 2}, ""), nil)
	expect(t, events, node.Failed{Rank: 0, Text: "it shares something without a name with rank 3, which is on another node: ranks that do must be on one"})
}

// TestBadHand: a rank that gives nothing has lost the agent's trust.
func TestBadHand(t *testing.T) {
	s, events := serve(t, 1)
	c := join(t, s, events, 0, 1)
	say(t, c, 0, abi.MsgHand, 0, hand(abi.HandGive, 5, 1), nil)
	expect(t, events, node.Failed{Text: "agent: rank 0: hand 1 of object 5:1, file false: cannot be"})
}

// TestStrangers: another process that has a file without a name is named, one that writes to a file with a name too, and
// ranks that have one open file together.
func TestStrangers(t *testing.T) {
	s, events := serve(t, 2)
	c := []*net.UnixConn{join(t, s, events, 0, 2), join(t, s, events, 1, 2)}
	f, own := nameless(t, "x"), nameless(t, "y")
	sleep := exec.Command("sleep", "600")
	sleep.ExtraFiles = []*os.File{f}
	sleep.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
	object := func(f *os.File, flags uint32) abi.Object {
		var st syscall.Stat_t
		if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return abi.Object{Dev: st.Dev, Inode: st.Ino, Flags: flags, FD: int32(f.Fd())}
	}
	s.Survey(nil)
	for rank, conn := range c {
		list := []abi.Object{object(f, abi.ObjectNameless), object(f, abi.ObjectEnd), object(own, abi.ObjectNameless)}
		say(t, conn, rank, abi.MsgObjects, 3, abi.Encode(list, ""), nil)
		ev := (<-events).(node.Objects)
		if ev.Rank != rank || ev.Epoch != 3 || len(ev.Objects) != 3 {
			t.Fatalf("event %+v", ev)
		}
		for i, o := range ev.Objects {
			stranger := strings.Contains(o.Foreign, fmt.Sprintf("that process %d (sleep) has too", sleep.Process.Pid))
			if o.Object != list[i] || o.Domain == "" || stranger != (i < 2) || !stranger && o.Foreign != "" {
				t.Errorf("rank %d, object %d: %q", rank, i, o.Foreign)
			}
			if twin := strings.Contains(o.Twin, "that rank 0 has too, as fd"); twin != (rank == 1) {
				t.Errorf("rank %d, object %d: %q", rank, i, o.Twin)
			}
		}
	}
	if err := sleep.Process.Kill(); err != nil { // it has been seen, and is there no more
		t.Fatal(err)
	}
	_ = sleep.Wait()
	say(t, c[0], 0, abi.MsgObjects, 4, abi.Encode([]abi.Object{object(f, abi.ObjectEnd), object(f, abi.ObjectKernel)}, ""), nil)
	for i, o := range (<-events).(node.Objects).Objects {
		if o.Foreign != "" {
			t.Errorf("object %d, which nobody has any more: %q", i, o.Foreign)
		}
	}
	say(t, c[0], 0, abi.MsgObjects, 4, []byte("short"), nil)
	expect(t, events, node.Failed{Text: "agent: objects of rank 0: found 5 bytes, wanted a multiple of 32"})
}
