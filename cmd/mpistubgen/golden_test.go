package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/byssus-hpc/byssus/mpispec"
)

var update = flag.Bool("update", false, "rewrite testdata/golden")

// TestGolden writes everything for a small description and compares it with testdata/golden.
func TestGolden(t *testing.T) {
	spec, err := mpispec.Parse(os.DirFS("testdata/small"))
	if err != nil {
		t.Fatal(err)
	}
	for name, found := range outputs(newModel(spec)) {
		base := filepath.Base(name)
		path := filepath.Join("testdata", "golden", base+".txt")
		if *update {
			if err := os.WriteFile(path, found, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(found, want) {
			t.Errorf("%s: differs from %s; if that is meant, go test ./cmd/mpistubgen -update", name, path)
		}
	}
}

// TestCurrent fails when what is generated is not what the description says.
func TestCurrent(t *testing.T) {
	if err := run("../..", true); err != nil {
		t.Error(err)
	}
}

// TestCopies compares what package mpilib has of rank/mpi with it: but for the line that says so of a file written by hand, the
// bytes are the same.
func TestCopies(t *testing.T) {
	for _, name := range copied {
		was, err := os.ReadFile(filepath.Join("../../rank/mpi", name))
		if err != nil {
			t.Fatal(err)
		}
		is, err := os.ReadFile(filepath.Join("../../rank/mpi", goRoom, filepath.Base(name)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.TrimPrefix(is, []byte(header)), bytes.TrimPrefix(was, []byte(header))) {
			t.Errorf("internal/engine/mpilib/%s: found other bytes than in rank/mpi/%s, want the same: make generate", filepath.Base(name), name)
		}
	}
}

func TestCheckFindsDifference(t *testing.T) {
	root := t.TempDir()
	for _, room := range []string{"neutral", "abi", "face", "table", "objects", "driver", "life"} {
		if err := os.MkdirAll(filepath.Join(root, "rank", "mpi", room), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "internal", "engine", "mpilib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err == nil {
		t.Error("no file is there: found no error")
	}
	for _, byHand := range []string{"rank/mpi/driver/driver_support.h", "rank/mpi/neutral/basics.h"} {
		text, err := os.ReadFile(filepath.Join("..", "..", byHand))
		if err == nil {
			err = os.WriteFile(filepath.Join(root, byHand), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Errorf("just written: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "rank", "mpi", "neutral", "slots.h"), []byte("/* other */\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err == nil {
		t.Error("slots.h differs: found no error")
	}
}

func TestPacked(t *testing.T) {
	n := func(name string) arg { return arg{"int", name} }
	w := func(name string) arg { return arg{"void *", name} }
	for _, c := range []struct {
		args  []arg
		words int
		boxed bool
	}{
		{[]arg{n("a"), n("b")}, 2, false},
		{[]arg{w("a"), w("b"), w("c"), w("d"), w("e"), w("f")}, 6, false},
		{[]arg{w("a"), n("b"), n("c"), n("d"), n("e"), n("f"), w("g")}, 6, false},
		{[]arg{w("a"), n("b"), w("c"), n("d"), w("e"), n("f"), w("g")}, 7, true},
		{[]arg{n("a"), n("b"), n("c"), n("d"), n("e"), n("f"), n("g"), n("h"), n("i"), n("j"), n("k"), n("l")}, 6, false},
	} {
		words, boxed := packed(c.args)
		if len(words) != c.words || boxed != c.boxed {
			t.Errorf("%v: found %d words, boxed %v; want %d, %v", c.args, len(words), boxed, c.words, c.boxed)
		}
	}
}
