package main

import (
	"maps"
	"strings"
	"testing"
)

// TestResults: whole lines count, the same line may come twice, another one with its key is an error.
func TestResults(t *testing.T) {
	found := map[string]string{"0": "result 0 a"}
	if err := results(found, "noise\nresult 1 2.50  x\nresult 0 a\nresult 2 cut o"); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"0": "result 0 a", "1": "result 1 2.50 x"}; !maps.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	if err := results(found, "result 1 2.51 x\n"); err == nil {
		t.Error("two results of one key pass")
	}
}

// TestCompare: a result that is missing, changed or new is named.
func TestCompare(t *testing.T) {
	want := map[string]string{"0": "result 0 a", "1": "result 1 b"}
	if err := compare(maps.Clone(want), want); err != nil {
		t.Errorf("the same: %v", err)
	}
	err := compare(map[string]string{"1": "result 1 c", "2": "result 2 d"}, want)
	for _, key := range []string{"result 0:", "result 1:", "result 2:"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %q", err, key)
		}
	}
}

// TestChoose: programs are taken by name, another name is an error.
func TestChoose(t *testing.T) {
	all := []program{{name: "a"}, {name: "b"}}
	if got, err := choose(all, nil); err != nil || len(got) != 2 {
		t.Errorf("all: %v, %v", got, err)
	}
	if got, err := choose(all, []string{"b"}); err != nil || len(got) != 1 || got[0].name != "b" {
		t.Errorf("b: %v, %v", got, err)
	}
	if _, err := choose(all, []string{"c"}); err == nil {
		t.Error("a name that no program has passes")
	}
}
