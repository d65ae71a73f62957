package cli

import (
	"fmt"
	"testing"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
)

func TestNodesInWords(t *testing.T) {
	nodes := []coordsrv.NodeStatus{
		{Name: "a", State: "computing", Ranks: []int{0, 1, 2, 5}},
		{Name: "b", State: "lost", Reason: "silent for 3s", Ranks: []int{}},
		{Name: "c", State: "spare", Ranks: []int{}},
		{Name: "d", State: "computing", Ranks: []int{3}},
	}
	if found, want := countNodes(nodes), "2 computing, 1 spare, 1 lost"; found != want {
		t.Errorf("found %q, wanted %q", found, want)
	}
	if found := countNodes(nil); found != "-" {
		t.Errorf("found %q", found)
	}
	want := "[[nodes computing a (ranks 0-2, 5), d (rank 3)] [nodes spare c] [nodes lost b (silent for 3s)]]"
	if found := fmt.Sprint(nodeRows(nodes)); found != want {
		t.Errorf("found %s, wanted %s", found, want)
	}
}
