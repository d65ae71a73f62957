package agent

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/byssus-hpc/byssus/internal/decide/node"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// page is a rank's shared page, mapped for reading.
type page struct {
	mem  []byte
	path string
}

// newPage makes the file that the rank is going to map.
func newPage(path string) (*page, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(abi.PageBytes); err != nil {
		return nil, err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, abi.PageBytes, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap %s: %w", path, err)
	}
	return &page{mem, path}, nil
}

func (p *page) sample() node.Sample {
	shared := (*abi.Page)(unsafe.Pointer(&p.mem[0]))
	return node.Sample{
		Phase:         atomic.LoadUint64(&shared.Phase),
		Where:         atomic.LoadUint64(&shared.Where),
		BytesDone:     atomic.LoadUint64(&shared.BytesDone),
		BytesTotal:    atomic.LoadUint64(&shared.BytesTotal),
		ResidentAdded: atomic.LoadUint64(&shared.ResidentAdded),
		ExitCode:      atomic.LoadUint64(&shared.ExitCode),
	}
}

// inPhase is for how long the rank has been doing what it does.
func (p *page) inPhase() time.Duration {
	shared := (*abi.Page)(unsafe.Pointer(&p.mem[0]))
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return max(time.Duration(now.Nano()-int64(atomic.LoadUint64(&shared.PhaseSinceNS))), 0)
}

// close unmaps and removes the page.
func (p *page) close() {
	_ = syscall.Munmap(p.mem)
	_ = os.Remove(p.path)
}
