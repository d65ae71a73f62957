package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// job is an authority with a listener of its coordinator.
type job struct {
	*Authority
	t        *testing.T
	l        net.Listener
	patience Patience // with silence: more than a busy machine is ever silent for, but where that is what is tested
}

func newJob(t *testing.T) *job {
	t.Helper()
	a, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &job{a, t, l, Patience(time.Minute)}
}

func (j *job) identity(id Identity, err error) Identity {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
	return id
}

// accept takes one connection.
func (j *job) accept() (*Conn, string, error) {
	c, err := j.l.Accept()
	if err != nil {
		return nil, "", err
	}
	return Accept(context.Background(), c, j.identity(j.Coordinator()), j.patience)
}

// meet is both ends of a proved connection.
func (j *job) meet() (agent, coordinator *Conn) {
	j.t.Helper()
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		var name string
		if coordinator, name, err = j.accept(); err == nil && name != "node3" {
			err = errors.New("node " + name)
		}
	})
	agent, derr := Dial(context.Background(), j.l.Addr().String(), j.identity(j.Node("node3")), j.patience)
	wg.Wait()
	if err = errors.Join(err, derr); err != nil {
		j.t.Fatal(err)
	}
	j.t.Cleanup(func() { agent.Close(); coordinator.Close() })
	return agent, coordinator
}

// fill gives every field of a message a value that is not zero.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(7, 8).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.String:
		v.SetString("text \x01 ü")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(-7)
	case reflect.Float64:
		v.SetFloat(-0.125)
	default:
		v.SetUint(255)
	}
}

// TestMessages: every type of message arrives as it was sent, in both directions.
func TestMessages(t *testing.T) {
	agent, coordinator := newJob(t).meet()
	for i, kind := range kinds {
		v := reflect.New(kind).Elem()
		fill(v)
		from, to := agent, coordinator
		if i%2 == 0 {
			from, to = to, from
		}
		want := Message{Start: uint64(i) << 40, Body: v.Interface()}
		if err := from.Send(want); err != nil {
			t.Fatal(err)
		}
		got, err := to.Receive()
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", kind, err, d)
		}
	}
	if err := agent.Send(Message{Body: 7}); err == nil {
		t.Error("a number is a message")
	}
}

// TestManySenders: messages of several goroutines, some of them long, do not mix.
func TestManySenders(t *testing.T) {
	agent, coordinator := newJob(t).meet()
	const senders, each = 5, 40
	for id := range senders {
		go func() {
			for n := range each {
				clocks := make([]node.Clock, 1+1000*(n%7))
				for i := range clocks {
					clocks[i] = node.Clock{Comm: uint64(id), Seq: uint64(n)}
				}
				if err := agent.Send(Message{Start: uint64(id), Body: node.Clocks{Clocks: clocks}}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	next := [senders]uint64{}
	for range senders * each {
		m, err := coordinator.Receive()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range m.Body.(node.Clocks).Clocks {
			if c.Comm != m.Start || c.Seq != next[m.Start] {
				t.Fatalf("of sender %d: %+v, wanted number %d", m.Start, c, next[m.Start])
			}
		}
		next[m.Start]++
	}
}

// TestProof: nobody is let in who has no key of the job, or one of another job, or who plays another role.
func TestProof(t *testing.T) {
	j, other := newJob(t), newJob(t)
	for name, id := range map[string]Identity{
		"a node of another job":      j.identity(other.Node("node3")),
		"the coordinator, as a node": j.identity(j.Coordinator()),
		"a node of another job, that knows this job's certificate": {Authority: j.der, Certificate: j.identity(other.Node("node3")).Certificate,
			Key: j.identity(other.Node("node3")).Key},
	} {
		errs := make(chan error, 1)
		go func() {
			_, _, err := j.accept()
			errs <- err
		}()
		if c, err := Dial(context.Background(), j.l.Addr().String(), id, LeastPatience); err == nil {
			_, err = c.Receive() // with TLS 1.3 the client hears of a refusal when it reads
			if err == nil {
				t.Errorf("%s: gets an answer", name)
			}
			c.Close()
		}
		if err := <-errs; err == nil {
			t.Errorf("%s is let in", name)
		}
	}
	go func() { // a node does not take another node for the coordinator
		c, err := j.l.Accept()
		if err == nil {
			_, _, _ = Accept(context.Background(), c, j.identity(j.Node("node4")), LeastPatience)
		}
	}()
	if _, err := Dial(context.Background(), j.l.Addr().String(), j.identity(j.Node("node3")), j.patience); err == nil || !strings.Contains(err.Error(), "coordinator") {
		t.Errorf("a node plays the coordinator: %v", err)
	}
}

// TestPlain: who does not speak TLS is not let in, and holds nobody up for ever.
func TestPlain(t *testing.T) {
	j := newJob(t)
	for _, first := range []string{"GET / HTTP/1.0\r\n\r\n", ""} {
		c, err := net.Dial("tcp", j.l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(first)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := j.accept(); err == nil {
			t.Errorf("%q is let in", first)
		}
		c.Close()
	}
}

// TestSilence: a side that says nothing counts as gone; one that beats does not.
func TestSilence(t *testing.T) {
	j := newJob(t)
	j.patience = LeastPatience
	agent, coordinator := j.meet()
	done := make(chan struct{})
	go agent.Heartbeat(done)
	for begin := time.Now(); time.Since(begin) < time.Duration(LeastPatience)+LeastPatience.Beat(); {
		if m, err := coordinator.Receive(); err != nil || m.Body != (Alive{}) {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	close(done)
	for {
		_, err := coordinator.Receive()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzRead: whatever bytes come, reading them ends, without a panic.
func FuzzRead(f *testing.F) {
	for i, kind := range kinds {
		v := reflect.New(kind).Elem()
		fill(v)
		c := &bytes.Buffer{}
		body := []byte(`{"Ranks":[1,2]}`)
		c.Write(appendHeader(nil, uint16(i), 9, len(body)))
		c.Write(body)
		f.Add(c.Bytes())
	}
	f.Add(appendHeader(nil, 1, 1, maxBody))
	f.Add(binary.LittleEndian.AppendUint32(nil, abi.Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := read(bytes.NewReader(b))
		if err == nil && !containsType(m.Body) {
			t.Errorf("message %+v", m)
		}
	})
}

func containsType(body any) bool {
	_, err := kindOf(body)
	return err == nil
}

// TestOtherBytes: what is wrong with a frame is said.
func TestOtherBytes(t *testing.T) {
	kind, err := kindOf(node.Hello{})
	if err != nil {
		t.Fatal(err)
	}
	good := append(appendHeader(nil, kind, 1, 2), "{}"...)
	for want, spoil := range map[string]func(b []byte) []byte{
		"wanted 42595343":                    func(b []byte) []byte { b[0] ^= 1; return b },
		"protocol version 2, wanted 1":       func(b []byte) []byte { b[4] = 2; return b },
		"type 999, which is unknown":         func(b []byte) []byte { binary.LittleEndian.PutUint16(b[6:], 999); return b },
		"frame of 67108865 bytes, at most":   func(b []byte) []byte { binary.LittleEndian.PutUint32(b[8:], maxBody+1); return b },
		"unexpected EOF":                     func(b []byte) []byte { return b[:len(b)-1] },
		"node.Hello: invalid character":      func(b []byte) []byte { b[headerBytes] = 'x'; return b },
		"node.Hello: json: cannot unmarshal": func(b []byte) []byte { copy(b[headerBytes:], "77"); return b },
	} {
		_, err := read(bytes.NewReader(spoil(bytes.Clone(good))))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, wanted %q", err, want)
		}
	}
}

// middle is somebody between an agent and its coordinator, who sends on what edit makes of each record of TLS that the agent
// sends.
func middle(t *testing.T, to string, edit func(record []byte) []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer out.Close()
		go func() { _, _ = io.Copy(in, out) }()
		const header = 5 // type, version, length
		for {
			record := make([]byte, header)
			if _, err := io.ReadFull(in, record); err != nil {
				return
			}
			body := make([]byte, binary.BigEndian.Uint16(record[3:]))
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			if _, err := out.Write(edit(append(record, body...))); err != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

// TestMiddle: what somebody in between alters, sends twice, holds back or puts in ends the connection; nothing of it is heard.
func TestMiddle(t *testing.T) {
	var kept []byte
	for name, edit := range map[string]func(r []byte) []byte{
		"nothing":        func(r []byte) []byte { return r },
		"altered":        func(r []byte) []byte { r[len(r)-1] ^= 1; return r },
		"altered in mid": func(r []byte) []byte { r[len(r)/2] ^= 0x80; return r },
		"sent twice":     func(r []byte) []byte { return append(bytes.Clone(r), r...) },
		"swapped": func(r []byte) []byte {
			if kept == nil {
				kept = r
				return nil
			}
			r, kept = append(r, kept...), nil
			return r
		},
		"put in":          func(r []byte) []byte { return append([]byte{23, 3, 3, 0, 1, 7}, r...) },
		"of another type": func(r []byte) []byte { r[0] = 22; return r },
	} {
		j, live := newJob(t), atomic.Bool{}
		kept = nil
		address := middle(t, j.l.Addr().String(), func(r []byte) []byte {
			if !live.Load() { // the handshake
				return r
			}
			return edit(r)
		})
		type met struct {
			c   *Conn
			err error
		}
		accepted := make(chan met, 1)
		go func() {
			c, _, err := j.accept()
			accepted <- met{c, err}
		}()
		agent, err := Dial(context.Background(), address, j.identity(j.Node("node3")), j.patience)
		if err != nil {
			t.Fatal(err)
		}
		m := <-accepted
		if m.err != nil {
			t.Fatal(m.err)
		}
		live.Store(true)
		const sent = 3
		for i := range sent {
			_ = agent.Send(Message{Start: uint64(i), Body: Here{Meeting: 7}}) // the other side may have ended it
		}
		agent.conn.(*tls.Conn).NetConn().(*net.TCPConn).CloseWrite()
		var heard []uint64
		for {
			msg, err := m.c.Receive()
			if err != nil {
				if name != "nothing" && !strings.Contains(err.Error(), "tls: ") {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			heard = append(heard, msg.Start)
		}
		want := map[string]int{"nothing": sent, "sent twice": 1}[name]
		if len(heard) != want {
			t.Errorf("%s: heard %v, wanted %d messages", name, heard, want)
		}
		agent.Close()
		m.c.Close()
	}
}

// TestIdentity: an identity goes through JSON, and does not show itself elsewhere.
func TestIdentity(t *testing.T) {
	j := newJob(t)
	id := j.identity(j.Node("node3"))
	for _, text := range []string{fmt.Sprint(id), fmt.Sprintf("%v", struct{ Identity Identity }{id}), fmt.Sprintf("%+v", []Identity{id})} {
		if !strings.Contains(text, "(identity)") || len(text) > 30 {
			t.Errorf("an identity is shown: %s", text)
		}
	}
	b, err := json.Marshal(id)
	var again Identity
	if err == nil {
		err = json.Unmarshal(b, &again)
	}
	if d := cmp.Diff(id, again); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}
