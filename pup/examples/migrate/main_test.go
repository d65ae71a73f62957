package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/examples/internal/shown"
)

func TestPrintsWhatTheTextSays(t *testing.T) {
	var out strings.Builder
	if err := run(&out, []string{"testdata/v1.pup", "testdata/v2.pup"}); err != nil {
		t.Fatal(err)
	}
	shown.Output(t, "main.go", out.String())
}

// TestWrittenAnew reads old files, writes them in today's version and reads that.
func TestWrittenAnew(t *testing.T) {
	for _, file := range []string{"testdata/v1.pup", "testdata/v2.pup"} {
		old, again := &Fleet{}, &Fleet{}
		if err := pup.FromFile(file, old); err != nil {
			t.Fatal(err)
		}
		if err := pup.Check(old); err != nil {
			t.Error(err)
		}
		name := filepath.Join(t.TempDir(), "v3.pup")
		if err := pup.ToFile(name, old); err != nil {
			t.Fatal(err)
		}
		if err := pup.FromFile(name, again); err != nil || !reflect.DeepEqual(again, old) {
			t.Errorf("%s: found %+v, %v, want %+v", file, again, err, old)
		}
	}
}
