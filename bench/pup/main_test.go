package main

import (
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/internal/tools/pupgen"
	"github.com/byssus-hpc/byssus/pup"
)

// TestCurrent fails when go generate would change the committed methods.
func TestCurrent(t *testing.T) {
	var out strings.Builder
	if code := pupgen.Main([]string{"-check"}, &out, &out); code != 0 {
		t.Errorf("code %d\n%s", code, &out)
	}
}

// TestComparisons runs every comparison with few objects: each variant must bring its value back and be printed.
func TestComparisons(t *testing.T) {
	var out strings.Builder
	few := sizes{particles: 100, nodes: 1000, entries: 1000, shapes: 100, calls: 10, numbers: 1000}
	b := &bench{sizes: few, rounds: 2, turn: time.Microsecond, out: &out}
	if err := b.measure([]string{"plain", "records", "tree", "maps", "shapes", "small", "graph"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"BenchmarkPUP/Plain/pack/fresh/make+copy-", "BenchmarkPUP/Plain/unpack/reused/pup-unchecked-",
		"BenchmarkPUP/Records/unpack/fresh/by-hand-", "BenchmarkPUP/Records/pack/reused/gob-",
		"BenchmarkPUP/Tree/ordered/unpack/fresh/down-json-", "BenchmarkPUP/Tree/scattered/pack/reused/pup-graph-checksums-",
		"BenchmarkPUP/Maps/pack/reused/protobuf-ordered-", "BenchmarkPUP/Shapes/unpack/fresh/protobuf-",
		"BenchmarkPUP/Plain/pack/reused/cbor-", "BenchmarkPUP/Records/unpack/reused/msgp-",
		"BenchmarkPUP/Tree/ordered/pack/reused/down-msgpack-", "BenchmarkPUP/Maps/unpack/fresh/cbor-ordered-",
		"BenchmarkPUP/Shapes/unpack/fresh/cbor-", "BenchmarkPUP/Small/pack/fresh/method-unchecked-",
		"BenchmarkPUP/Small/unpack/reused/msgpack-", "BenchmarkPUP/Graph/pack/fresh/graph-checksums-",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not printed: %s", want)
		}
	}
}

// TestClasses asks that the models are what the comparisons call them.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		name        string
		found, want pup.Class
	}{
		{"Particle", pup.ClassOf[Particle](), pup.PlainClass},
		{"Cloud", pup.ClassOf[Cloud](), pup.GeneratedClass},
		{"HandCloud", pup.ClassOf[HandCloud](), pup.HandwrittenClass},
		{"BareCloud", pup.ClassOf[BareCloud](), pup.ReflectedClass},
		{"Small", pup.ClassOf[Small](), pup.GeneratedClass},
		{"HandSmall", pup.ClassOf[HandSmall](), pup.HandwrittenClass},
		{"BareSmall", pup.ClassOf[BareSmall](), pup.ReflectedClass},
		{"Node", pup.ClassOf[Node](), pup.GeneratedClass},
		{"Catalog", pup.ClassOf[Catalog](), pup.GeneratedClass},
		{"Drawing", pup.ClassOf[Drawing](), pup.GeneratedClass},
	} {
		if c.found != c.want {
			t.Errorf("%s: class %v, want %v", c.name, c.found, c.want)
		}
	}
}

// TestRepeated asks that a repetition makes as many calls as its times are divided by.
func TestRepeated(t *testing.T) {
	calls := 0
	list := repeated(7, []variant{{
		run:   func() error { calls++; return nil },
		check: func() (int, error) { return 40, nil },
	}})
	if err := list[0].run(); err != nil || calls != 7 {
		t.Errorf("%d calls, %v, want 7", calls, err)
	}
	if size, err := list[0].check(); err != nil || size != 7*40 {
		t.Errorf("%d bytes, %v, want 280", size, err)
	}
}

// TestCodeByHandRefusesTruncatedData keeps the comparison fair: the code by hand checks lengths too.
func TestCodeByHandRefusesTruncatedData(t *testing.T) {
	data := handAppend(nil, cloud(10))
	for n := range data {
		if err := handDecode(data[:n], &Cloud{}); err == nil {
			t.Errorf("%d of %d bytes: no error", n, len(data))
		}
	}
}
