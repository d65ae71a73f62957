package main

import (
	"fmt"
	"os"
	"syscall"
)

// warm touches so many bytes of memory and gives them back, so that what is measured next gets memory that the hypervisor has given to this
// machine already: it takes free pages back (free page reporting), and to find others for them costs as much as several writes.
func warm(bytes int64) error {
	b, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return fmt.Errorf("bench: memory: %w", err)
	}
	for at := 0; at < len(b); at += os.Getpagesize() {
		b[at] = 1
	}
	if err := syscall.Munmap(b); err != nil {
		return fmt.Errorf("bench: memory: %w", err)
	}
	return nil
}
