package sandbox

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Callers, hub and nodes speak in frames over unix sockets (package frames).
//
//	caller -> hub    request, a verb. Answer: reply. Except for run and listen, of which the hub answers failures only:
//	caller -> node   it hands the connection to the node, which says reply; then command with the three descriptors of
//	                 its standard streams (answer: started), signals any time; at the end: ended
//	                 for listen: it says reply with the descriptor of a socket that listens there, its port in the note
//	hub -> node      orders, the first is to set up the node. Answer: reply, but to a connection handed over
//	creator -> hub   config (answer: reply when all nodes are up, or what failed), then keep

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
