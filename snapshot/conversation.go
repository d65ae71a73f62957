package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/wire/client"
)

// conversation is with the agent: a question, whose answer may come after the context has ended that it was asked with. Then the same question
// goes on waiting for it.
type conversation struct {
	conn *net.UnixConn // nil: nothing has been asked
	kind uint16        // of what has been
	text []string      // of the answer, so far
}

func (c *conversation) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// ask asks, unless that has been done, and waits for the answer; with a context that has ended it looks whether there is one.
func (c *conversation) ask(ctx context.Context, path string, a client.Asked) (answer client.Answered, err error) {
	if c.conn == nil {
		if err := c.say(path, a); err != nil {
			return answer, err
		}
	} else if c.kind != a.Type {
		return answer, fmt.Errorf("found question %d, which has no answer yet, wanted the same again: %w", c.kind, ErrUse)
	}
	conn, woken := c.conn, make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		close(woken)
	})
	answer, err = c.hear()
	if !stop() {
		<-woken
		_ = conn.SetReadDeadline(time.Time{})
	}
	switch {
	case err == nil:
		c.close()
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return answer, ctx.Err() // the question stays
	default:
		c.close()
		err = fmt.Errorf("its answer: %w: %w", err, ErrAgent)
	}
	return answer, err
}

func (c *conversation) say(path string, a client.Asked) error {
	u, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrAgent)
	}
	if err = ours(u); err == nil {
		_, err = u.Write(a.Packet())
	}
	if err != nil {
		u.Close()
		return fmt.Errorf("%s: %w: %w", path, err, ErrAgent)
	}
	c.conn, c.kind, c.text = u, a.Type, nil
	return nil
}

// ours refuses an agent of another user.
func ours(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var found *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		found, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, cerr); err == nil && int(found.Uid) != syscall.Geteuid() {
		err = fmt.Errorf("found user %d, wanted %d", found.Uid, syscall.Geteuid())
	}
	return err
}

// hear reads an answer, with the text of all its messages.
func (c *conversation) hear() (client.Answered, error) {
	buf := make([]byte, client.MaxPacket)
	for {
		n, err := c.conn.Read(buf)
		if err != nil {
			return client.Answered{}, err
		}
		a, err := client.ParseAnswer(buf[:n])
		if err != nil {
			return a, err
		}
		c.text = append(c.text, a.Text...)
		if a.Flags&client.FlagMore == 0 {
			a.Text = c.text
			return a, nil
		}
	}
}
