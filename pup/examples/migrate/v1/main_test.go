package main

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

var update = flag.Bool("update", false, "write the file anew")

func TestFile(t *testing.T) {
	const file = "../testdata/v1.pup"
	if *update {
		if err := pup.ToFile(file, fleet()); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pup.Marshal(fleet()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what version 1 writes (%v)", file, err)
	}
}

func TestCheck(t *testing.T) {
	if err := pup.Check(fleet()); err != nil {
		t.Error(err)
	}
}
