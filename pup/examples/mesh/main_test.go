package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/examples/internal/shown"
)

func TestPrintsWhatTheTextSays(t *testing.T) {
	var out strings.Builder
	if err := run(&out, nil); err != nil {
		t.Fatal(err)
	}
	shown.Output(t, "main.go", out.String())
}

func TestCheck(t *testing.T) {
	m := NewMesh(12, 2)
	if err := pup.Check(m, pup.Graph()); err != nil {
		t.Error(err)
	}
	advance(m, 3)
	if err := pup.Check(m, pup.Graph()); err != nil {
		t.Error(err)
	}
}

// TestNotATree shows what becomes of a mesh without the option: an error, not a mesh with separate halos.
func TestNotATree(t *testing.T) {
	if _, err := pup.Marshal(NewMesh(12, 2)); !errors.Is(err, pup.ErrDepth) {
		t.Errorf("found %v", err)
	}
}

// TestAnySize stops at every step, with various cuts.
func TestAnySize(t *testing.T) {
	for _, domains := range []int{2, 3, 5} {
		for stop := range 4 {
			var out strings.Builder
			args := []string{"-n", "11", "-steps", "8", "-stop", fmt.Sprint(2 * stop), "-domains", fmt.Sprint(domains)}
			if err := run(&out, args); err != nil {
				t.Fatal(err)
			}
			if strings.Count(out.String(), ": true\n") != 2 {
				t.Errorf("%v: %s", args, &out)
			}
		}
	}
}

func ExampleRestore() {
	m := NewMesh(6, 2)
	copied, err := Restore(m)
	if err != nil {
		fmt.Println(err)
		return
	}
	d := copied.Domains[0]
	d.Halo[0].Value = 7
	fmt.Println(d.Cells[len(d.Own)].Value)
	// Output: 7
}
