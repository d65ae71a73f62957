package main

import (
	"fmt"
	"reflect"
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
	b := poisson(7)
	if err := pup.Check(b); err != nil {
		t.Error(err)
	}
	s := NewSolve(b.CSR(), make([]float64, 49))
	s.B[3], s.R[3], s.P[3], s.RR = 1, 1, 1, 1
	s.Step()
	if err := pup.Check(s); err != nil {
		t.Error(err)
	}
}

// TestEveryStop interrupts the solution at every iteration.
func TestEveryStop(t *testing.T) {
	for stop := range 20 {
		var out strings.Builder
		if err := run(&out, []string{"-n", "5", "-stop", fmt.Sprint(stop)}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), "every bit is the same: true\n") {
			t.Errorf("stop at %d: %s", stop, &out)
		}
	}
}

func TestMatrix(t *testing.T) {
	for _, m := range []*CSR{poisson(5).CSR(), NewBuilder(3).CSR(), NewBuilder(0).CSR()} {
		data, err := pup.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got := &CSR{}
		if err := pup.Unmarshal(data, got); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("found %+v, %v, want %+v", got, err, m)
		}
	}
}

// ExampleCSR_PUP stores a matrix that breaks its own rules.
func ExampleCSR_PUP() {
	m := poisson(2).CSR()
	m.Col[5] = 4
	data, err := pup.Marshal(m)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pup.Unmarshal(data, &CSR{}))
	// Output: pup: unpack: CSR: entry 5 is in column 4 of 4
}

// ExampleBuilder_PUP makes the same matrix twice. Its maps differ in their order, its bytes do not.
func ExampleBuilder_PUP() {
	a, b := NewBuilder(100), NewBuilder(100)
	for i := range 100 {
		a.Add(i, 99-i, 1)
		b.Add(99-i, i, 1)
	}
	x, err := pup.Marshal(a)
	if err != nil {
		fmt.Println(err)
	}
	y, err := pup.Marshal(b)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(string(x) == string(y))
	// Output: true
}
