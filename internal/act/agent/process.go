package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is a process of which we are not the parent, held by a pidfd.
type process struct {
	pid  int
	file *os.File
	over chan struct{} // closed when the process is gone, or close was called
	gone bool          // valid after over: the process is gone
}

func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open %d: %w", pid, err)
	}
	p := &process{pid: pid, file: os.NewFile(uintptr(fd), fmt.Sprintf("pidfd:%d", pid)), over: make(chan struct{})}
	go p.watch()
	return p, nil
}

func (p *process) watch() {
	defer close(p.over)
	raw, err := p.file.SyscallConn()
	if err == nil {
		p.gone = raw.Read(ended) == nil
	}
}

// signal fails when the process is gone (a zombie counts as there).
func (p *process) signal(sig syscall.Signal) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	return errors.Join(err, failed)
}

// ended says whether the process behind a pidfd has ended.
func ended(pidfd uintptr) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n == 1
}

// ending says whether the process has begun to end, or has ended: by what the kernel does first, before it closes anything.
func (p *process) ending() bool {
	const exiting = 0x4     // PF_EXITING, include/linux/sched.h
	const flags = 9 - 2 - 1 // proc_pid_stat(5), behind the name, which may hold anything
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return true
	}
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) <= flags {
		return false
	}
	v, err := strconv.ParseUint(string(f[flags]), 10, 64)
	return err == nil && v&exiting != 0
}

func (p *process) close() { p.file.Close() }
