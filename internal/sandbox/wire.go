package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Callers, hub and nodes speak in frames over unix sockets: four bytes of length (little-endian), then that many bytes
// of JSON. Descriptors come with the length.
//
//	caller -> hub    request, a verb. Answer: reply. Except for run and listen, of which the hub answers failures only:
//	caller -> node   it hands the connection to the node, which says reply; then command with the three descriptors of
//	                 its standard streams (answer: started), signals any time; at the end: ended
//	                 for listen: it says reply with the descriptor of a socket that listens there, its port in the note
//	hub -> node      orders, the first is to set up the node. Answer: reply, but to a connection handed over
//	creator -> hub   config (answer: reply when all nodes are up, or what failed), then keep

// maxFrame bounds what a frame may hold: an environment and arguments as long as the kernel takes them.
const maxFrame = 16 << 20

// A request is what the hub is asked for.
type request struct {
	Verb    string  `json:"verb"`
	Node    string  `json:"node,omitempty"`
	Rate    uint64  `json:"rate,omitempty"`    // cap; 0: off
	Percent float64 `json:"percent,omitempty"` // drop; 0: off
	Path    string  `json:"path,omitempty"`    // disk-full
	Off     bool    `json:"off,omitempty"`     // disk-full
}

// A reply answers a request or an order.
type reply struct {
	Err   string `json:"error,omitempty"`
	Kind  string `json:"kind,omitempty"` // of the error
	Note  string `json:"note,omitempty"` // how it was done, where that is not always the same
	Nodes []Node `json:"nodes,omitempty"`
}

// A command is what to start on a node.
type command struct {
	Args [][]byte `json:"args"` // any bytes, which strings in JSON are not
	Env  [][]byte `json:"env"`
	Dir  []byte   `json:"dir"`
}

// asBytes and asStrings turn arguments into what can be sent, and back.
func asBytes(list []string) (bytes [][]byte) {
	for _, s := range list {
		bytes = append(bytes, []byte(s))
	}
	return bytes
}

func asStrings(list [][]byte) (text []string) {
	for _, b := range list {
		text = append(text, string(b))
	}
	return text
}

// An ending is how a process ended, or that it has started.
type ending struct {
	reply
	PID    int            `json:"pid,omitempty"` // started, with this number on the node
	Code   int            `json:"code,omitempty"`
	Signal syscall.Signal `json:"signal,omitempty"`
}

// A signal is for the process group of a process on a node.
type signal struct {
	Signal syscall.Signal `json:"signal"`
}

// kinds names the reasons that a caller may want to tell apart.
var kinds = map[string]error{"node": ErrNode, "state": ErrState, "unsupported": ErrUnsupported, "option": ErrOption,
	"not found": ErrNotFound, "not executable": ErrNotExec, "died": ErrDied}

// failed is the reply that tells of an error; of none when there is none.
func failed(err error) reply {
	if err == nil {
		return reply{}
	}
	for kind, sentinel := range kinds {
		if errors.Is(err, sentinel) {
			return reply{Err: err.Error(), Kind: kind}
		}
	}
	return reply{Err: err.Error()}
}

// told is an error that another process has told of.
type told struct {
	text string
	kind error
}

func (t told) Error() string { return t.text }
func (t told) Unwrap() error { return t.kind }

// err is the error that a reply tells of.
func (r reply) err() error {
	if r.Err == "" {
		return nil
	}
	return told{r.Err, kinds[r.Kind]}
}

// send writes a frame.
func send(c *net.UnixConn, v any, files ...*os.File) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("a message of %d bytes, at most %d", len(body), maxFrame)
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd())) // blocking from now on, as processes expect their standard streams
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	_, _, err = c.WriteMsgUnix(head, rights, nil)
	runtime.KeepAlive(files)
	if err != nil {
		return err
	}
	_, err = c.Write(body)
	return err
}

// receive reads a frame and the descriptors that came with it. io.EOF: the other side is gone.
func receive(c *net.UnixConn, v any) ([]*os.File, error) {
	head, oob := make([]byte, 4), make([]byte, unix.CmsgSpace(3*4))
	n, k, _, _, err := c.ReadMsgUnix(head, oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := descriptors(oob[:k])
	if err == nil {
		_, err = io.ReadFull(c, head[n:])
	}
	if err == nil {
		err = readBody(c, binary.LittleEndian.Uint32(head), v)
	}
	if err != nil {
		closeAll(files)
		return nil, err
	}
	return files, nil
}

func readBody(c *net.UnixConn, n uint32, v any) error {
	if n > maxFrame {
		return fmt.Errorf("a message of %d bytes, at most %d", n, maxFrame)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// descriptors takes what came with a message.
func descriptors(oob []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			closeAll(files)
			return nil, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// socketpair makes two ends of a connection: one for us, one for a process that we start.
func socketpair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "socketpair")
	if ours, err = asConn(os.NewFile(uintptr(fds[0]), "socketpair")); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// asConn makes a connection of a descriptor, which is closed.
func asConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("descriptor %s is no unix socket", f.Name())
	}
	return u, nil
}

// peer tells who is at the other end.
func peer(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return cred, errors.Join(err, failed)
}
