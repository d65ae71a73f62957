package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/report"
	"github.com/byssus-hpc/byssus/pup"
)

// blockLen is how many numbers each part of a large value in parts has: 1 MiB of them.
const blockLen = 1 << 17

// large streams a value of some GiB to a writer that keeps nothing, to a file, and back from it, and prints the peak of
// the memory beside the value's size. A slice in one piece grows while it is unpacked from a reader, whose length nobody
// knows beforehand; a file's is known.
func (b *bench) large() error {
	if b.gib < 1 {
		return fmt.Errorf("bench: large: %d GiB, want 1 or more", b.gib)
	}
	size := b.gib << 30
	b.note("Large: peak is the largest resident memory during the operation, of which value is the value itself.")
	whole := func() *[]float64 { return new(sequence(size / 8)) }
	isWhole := func(v *[]float64) bool { return len(*v) == size/8 && isSequence(*v) }
	if err := stream(b, "slice", size, whole, isWhole); err != nil {
		return err
	}
	parts := func() *[][]float64 {
		list := make([][]float64, size/8/blockLen)
		for i := range list {
			list[i] = sequence(blockLen)
		}
		return &list
	}
	return stream(b, "parts-of-1MiB", size, parts, func(v *[][]float64) bool {
		other := func(part []float64) bool { return len(part) != blockLen || !isSequence(part) }
		return len(*v) == size/8/blockLen && !slices.ContainsFunc(*v, other)
	})
}

func sequence(n int) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = float64(i)
	}
	return list
}

func isSequence(list []float64) bool {
	for i, x := range list {
		if x != float64(i) {
			return false
		}
	}
	return true
}

// discard counts what is written to it.
type discard struct{ n int }

func (d *discard) Write(b []byte) (int, error) {
	d.n += len(b)
	return len(b), nil
}

// stream packs a value and unpacks it from a file. In between the value is dropped.
func stream[T any](b *bench, name string, size int, newValue func() *T, isValue func(*T) bool) error {
	dir, err := os.MkdirTemp(b.dir, "pup-bench.")
	if err != nil {
		return fmt.Errorf("bench: large: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "large.pup")
	if err := streamOut(b, name, path, size, newValue()); err != nil {
		return err
	}
	for _, way := range []struct {
		name   string
		unpack func(v *T) error
	}{
		{"FromFile", func(v *T) error { return pup.FromFile(path, v) }},
		{"FromReader", func(v *T) error { return fromReader(path, v) }},
	} {
		v := new(T)
		if err := b.peak(name+"/"+way.name, size, func() error { return way.unpack(v) }); err != nil {
			return err
		}
		if !isValue(v) {
			return fmt.Errorf("bench: large: %s: %s: %w", name, way.name, errDiffers)
		}
	}
	return nil
}

// streamOut packs a value to a writer that keeps nothing, and to a file.
func streamOut[T any](b *bench, name, path string, size int, value *T) error {
	w := &discard{}
	if err := b.peak(name+"/ToWriter", size, func() error { return pup.ToWriter(w, value) }); err != nil {
		return err
	}
	if err := b.peak(name+"/ToFile", size, func() error { return pup.ToFile(path, value) }); err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(w.n) || w.n <= size {
		return fmt.Errorf("bench: large: %s: %d bytes written, value of %d: %w", name, w.n, size, errors.Join(err, errDiffers))
	}
	runtime.KeepAlive(value) // it counts in every peak
	return nil
}

// fromReader unpacks from a reader of which package pup sees no more than Read.
func fromReader(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return pup.FromReader(struct{ io.Reader }{f}, v)
}

// peak runs f once and prints its time and the peak of the resident memory.
func (b *bench) peak(name string, size int, f func() error) error {
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		return fmt.Errorf("bench: large: %w", err)
	}
	cpu, wall := processorTime(), time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("bench: large: %s: %w", name, err)
	}
	cpu, took := processorTime()-cpu, time.Since(wall)
	text, _, _ := strings.Cut(report.Field("/proc/self/status", "VmHWM"), " ")
	kib, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("bench: large: peak: %w", err)
	}
	const mib = 1 << 20
	fmt.Fprintf(b.out, "BenchmarkPUP/Large/%s-%d\t1\t%d ns/op\t%d cpu-ns/op\t%.3f GB/s"+
		"\t%d value-MiB\t%d peak-MiB\t%.3f peak/value\n",
		name, runtime.GOMAXPROCS(0), took.Nanoseconds(), cpu.Nanoseconds(), float64(size)/float64(cpu.Nanoseconds()),
		size/mib, kib/1024, float64(kib)*1024/float64(size))
	return nil
}
