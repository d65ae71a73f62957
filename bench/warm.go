package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
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

// settle waits until the kernel has told the hypervisor of much memory that has been freed. It begins two seconds later (mm/page_reporting.c),
// and what computes meanwhile is slower by a tenth: a job that goes on frees no gigabytes.
func settle(ctx context.Context) {
	select {
	case <-time.After(5 * time.Second):
	case <-ctx.Done():
	}
}
