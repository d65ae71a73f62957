package main

import (
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/examples/internal/shown"
)

func TestPrintsWhatTheTextSays(t *testing.T) {
	var out strings.Builder
	if err := run(&out, "../testdata/v2.pup"); err != nil {
		t.Fatal(err)
	}
	shown.Output(t, "main.go", out.String())
}

// TestCheck shows that the type itself has no fault: only its rules have.
func TestCheck(t *testing.T) {
	f := &Fleet{1, []Buoy{{ID: 1, Lat: 2, Sensors: []Sensor{{3, []float32{4}}}}}}
	if err := pup.Check(f); err != nil {
		t.Error(err)
	}
}
