package input

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Source is the standard input of a process. It reads a terminal only while the process is in the foreground, so that a job in the
// background is not stopped. Read serves one goroutine.
type Source struct {
	f       *os.File
	wake    *os.File // readable when the source is closed
	closing *os.File // which does it
}

// NewSource reads from a file, which stays open when the source is closed.
func NewSource(f *os.File) (*Source, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	return &Source{f, r, w}, nil
}

// Close ends a Read that waits, and all others: os.ErrClosed.
func (s *Source) Close() { s.closing.Close() }

// Whole says whether all of it is there at once, as in a file.
func (s *Source) Whole() bool {
	st, err := s.f.Stat()
	return err == nil && st.Mode().IsRegular()
}

// background is how often a terminal is asked whether we are in its foreground, in milliseconds: nothing tells.
const background = 1000

// Read waits until there is something.
func (s *Source) Read(b []byte) (int, error) {
	fd := int(s.f.Fd())
	for {
		ready, err := s.await(fd, -1)
		if err != nil {
			return 0, err
		}
		switch {
		case !ready: // interrupted
			continue
		case !foreground(fd):
			if _, err := s.await(-1, background); err != nil {
				return 0, err
			}
			continue
		}
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN):
		case err != nil:
			return 0, fmt.Errorf("input: standard input: %w", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// await returns when there is something to read, after a time in milliseconds, or with os.ErrClosed.
func (s *Source) await(fd, limit int) (bool, error) {
	p := []unix.PollFd{{Fd: int32(s.wake.Fd()), Events: unix.POLLIN}, {Fd: int32(fd), Events: unix.POLLIN}}
	_, err := unix.Poll(p, limit)
	switch {
	case errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("input: standard input: %w", err)
	case p[0].Revents != 0:
		return false, os.ErrClosed
	}
	return p[1].Revents != 0, nil
}

// foreground says whether reading does not stop this process: it is no terminal of ours, or we are in its foreground.
func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}
