package agent

import (
	"errors"
	"fmt"
	"os"
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

func (p *process) close() { p.file.Close() }
