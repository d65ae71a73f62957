package mpispec

import "testing"

func TestLoad(t *testing.T) {
	s, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Functions); n < 600 {
		t.Errorf("found %d functions, want at least 600", n)
	}
}
