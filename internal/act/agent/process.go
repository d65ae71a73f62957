package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// System calls and flags that package syscall does not name.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
	pidfdNonblock      = syscall.O_NONBLOCK
)

// process is a process of which we are not the parent, held by a pidfd.
type process struct {
	pid  int
	file *os.File
	over chan struct{} // closed when the process is gone, or close was called
	gone bool          // valid after over: the process is gone
}

func openProcess(pid int) (*process, error) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), pidfdNonblock, 0)
	if errno != 0 {
		return nil, fmt.Errorf("pidfd_open %d: %w", pid, errno)
	}
	syscall.CloseOnExec(int(fd))
	p := &process{pid: pid, file: os.NewFile(fd, fmt.Sprintf("pidfd:%d", pid)), over: make(chan struct{})}
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
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(sysPidfdSendSignal, fd, uintptr(sig), 0, 0, 0, 0)
	})
	if errno != 0 {
		err = errors.Join(err, errno)
	}
	return err
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
