package agent

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/abi"
)

// page is a rank's shared page, mapped for reading.
type page struct {
	mem  []byte
	path string
}

// Sample is what a shared page said at one moment; its words are not a consistent whole.
type Sample struct {
	PID           int
	Phase         uint64
	Where         uint64
	BytesDone     uint64
	BytesTotal    uint64
	ResidentAdded uint64
	ExitCode      uint64
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

func (p *page) sample() Sample {
	shared := (*abi.Page)(unsafe.Pointer(&p.mem[0]))
	return Sample{
		Phase:         atomic.LoadUint64(&shared.Phase),
		Where:         atomic.LoadUint64(&shared.Where),
		BytesDone:     atomic.LoadUint64(&shared.BytesDone),
		BytesTotal:    atomic.LoadUint64(&shared.BytesTotal),
		ResidentAdded: atomic.LoadUint64(&shared.ResidentAdded),
		ExitCode:      atomic.LoadUint64(&shared.ExitCode),
	}
}

// close unmaps and removes the page.
func (p *page) close() {
	_ = syscall.Munmap(p.mem)
	_ = os.Remove(p.path)
}
