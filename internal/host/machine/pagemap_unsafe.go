package machine

import (
	"os"
	"syscall"
	"unsafe"
)

// pageScan is struct pm_scan_arg of linux/fs.h.
type pageScan struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages, inverted, mask, anyOf, returned uint64
}

// pagemapScan tries to list the present pages of one page of our own.
func pagemapScan() Check {
	const request, present, page = 0xc0606610, 1 << 3, 4096
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return fatal("pagemap", "%v", err)
	}
	defer f.Close()
	mem := make([]byte, 2*page)
	start := (uint64(uintptr(unsafe.Pointer(&mem[0]))) + page - 1) &^ (page - 1)
	var region [3]uint64
	arg := pageScan{start: start, end: start + page, vec: uint64(uintptr(unsafe.Pointer(&region))), vecLen: 1, anyOf: present, returned: present}
	arg.size = uint64(unsafe.Sizeof(arg))
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		return poor("pagemap", "PAGEMAP_SCAN: %v: touched pages are found more slowly", errno)
	}
	return met("pagemap", "PAGEMAP_SCAN")
}
