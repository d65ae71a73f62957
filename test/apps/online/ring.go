package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// errRing is what goes wrong between members: one has died, or has noticed that another has.
var errRing = errors.New("between members")

// epoch is what ends with the death of a member: what it has opened is closed then.
type epoch struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	open []io.Closer
}

func newEpoch(ctx context.Context) *epoch {
	e := &epoch{}
	e.ctx, e.cancel = context.WithCancel(ctx)
	context.AfterFunc(e.ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, c := range e.open {
			_ = c.Close()
		}
	})
	return e
}

// keep has something closed when the epoch ends.
func (e *epoch) keep(c io.Closer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open = append(e.open, c); e.ctx.Err() != nil {
		_ = c.Close()
	}
}

// ring is a member's connections to the one before it and the one behind.
type ring struct{ left, right net.Conn }

// connect makes the ring of an epoch. Members leave their addresses in a directory that all see.
func (e *epoch) connect(dir string, number uint64, id, members int) (*ring, error) {
	l, err := net.Listen("tcp", address()+":0")
	if err != nil {
		return nil, err
	}
	e.keep(l)
	name := func(id int) string { return filepath.Join(dir, fmt.Sprintf("address.%d.%d", number, id)) }
	if err := os.WriteFile(name(id)+".new", []byte(l.Addr().String()), 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(name(id)+".new", name(id)); err != nil {
		return nil, err
	}
	r := &ring{}
	for r.right == nil {
		at, err := os.ReadFile(name((id + 1) % members))
		if err == nil {
			d := net.Dialer{Timeout: time.Minute}
			if r.right, err = d.DialContext(e.ctx, "tcp", string(at)); err != nil {
				return nil, fmt.Errorf("%w: %w", errRing, err)
			}
		} else if e.ctx.Err() != nil {
			return nil, errRing
		}
		time.Sleep(time.Millisecond)
	}
	e.keep(r.right)
	if r.left, err = l.Accept(); err != nil {
		return nil, fmt.Errorf("%w: %w", errRing, err)
	}
	e.keep(r.left)
	return r, nil
}

// address is the one of this node that others reach.
func address() string {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// exchange sends a number to the member behind, and returns that of the one before.
func (r *ring) exchange(n uint64) (left uint64, err error) {
	err = binary.Write(r.right, binary.LittleEndian, n)
	if err == nil {
		err = binary.Read(r.left, binary.LittleEndian, &left)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errRing, err)
	}
	return left, err
}
