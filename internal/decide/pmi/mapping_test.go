package pmi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMapping(t *testing.T) {
	var four, round []int
	for rank := range 4096 * 4 {
		four, round = append(four, rank/4), append(round, rank%4096)
	}
	for want, nodes := range map[string][]int{
		"(vector,(0,1,1))":                 {0},
		"(vector,(0,1,4))":                 {9, 9, 9, 9},
		"(vector,(0,2,2))":                 {0, 0, 1, 1},
		"(vector,(0,2,2),(2,1,1),(0,1,1))": {0, 0, 1, 1, 2, 0},
		"(vector,(0,2,3),(2,2,2))":         {0, 0, 0, 1, 1, 1, 2, 2, 3, 3},
		"(vector,(0,3,1))":                 {5, 2, 7, 5, 2, 7},
		"(vector,(0,3,1),(0,2,1))":         {0, 1, 2, 0, 1},
		"(vector,(0,1,2),(1,1,1))":         {0, 0, 1, 0, 0, 1},
		"(vector,(0,4096,4))":              four,
		"(vector,(0,4096,1))":              round,
	} {
		if found := Mapping(nodes); found != want {
			t.Errorf("%.20v: found %s, want %s", nodes, found, want)
		}
	}
}

// TestMappingIsUnderstood reads mappings of random places as MPICH does.
func TestMappingIsUnderstood(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	tooLong := 0
	for range 20000 {
		nodes := make([]int, 1+rng.IntN(40))
		for i := range nodes {
			nodes[i] = rng.IntN(1 + rng.IntN(6))
		}
		if rng.IntN(2) == 0 {
			slices.Sort(nodes)
		}
		for range rng.IntN(4) {
			nodes = append(nodes, nodes...)
		}
		text := Mapping(nodes)
		if text == "" {
			tooLong++
			continue
		}
		found, err := readMapping(text, len(nodes))
		if err != nil {
			t.Fatalf("%v: %s: %v", nodes, text, err)
		}
		if want := numbered(nodes); !slices.Equal(found, want) {
			t.Fatalf("%s: found %v, want %v", text, found, want)
		}
	}
	if tooLong > 15000 {
		t.Errorf("%d mappings were too long", tooLong)
	}
}

// TestMappingTooLong: ranks that lie wildly on many nodes have none, and the node says so.
func TestMappingTooLong(t *testing.T) {
	var nodes []int
	for rank := range 1000 {
		nodes = append(nodes, rank*rank%997)
	}
	if m := Mapping(nodes); m != "" {
		t.Fatalf("found %s", m)
	}
	n, err := NewNode(Config{Ranks: 2, Local: []int{0, 1}, Job: "j"})
	if err != nil {
		t.Fatal(err)
	}
	out := n.Line(0, []byte("cmd=get kvsname=j key=PMI_process_mapping"))
	if len(out.Replies) != 1 || !strings.Contains(out.Replies[0].Line, "rc=-1") {
		t.Errorf("found %+v, want a refusal", out.Replies)
	}
}

// numbered renames nodes by their first ranks.
func numbered(nodes []int) []int {
	var seen, out []int
	for _, n := range nodes {
		if !slices.Contains(seen, n) {
			seen = append(seen, n)
		}
		out = append(out, slices.Index(seen, n))
	}
	return out
}

// readMapping gives ranks to nodes by the rules of MPICH's parsers (MPIR_NODEMAP_populate_ids_from_mapping up to 4.1,
// MPL_rankmap_str_to_array later): blocks in order, and when ranks are left once more from the first with node 0 on.
func readMapping(text string, ranks int) ([]int, error) {
	text, ok := strings.CutPrefix(text, "(vector")
	text, closed := strings.CutSuffix(text, ")")
	if !ok || !closed {
		return nil, fmt.Errorf("no (vector ...)")
	}
	var list []block
	for text != "" {
		var b block
		if n, err := fmt.Sscanf(text, ",(%d,%d,%d)", &b.start, &b.count, &b.size); n != 3 {
			return nil, err
		}
		list = append(list, b)
		text = text[strings.Index(text, ")")+1:]
	}
	var out []int
	for at := 0; ; at++ {
		if at == len(list) {
			at = slices.IndexFunc(list, func(b block) bool { return b.start == 0 })
		}
		for i := range list[at].count {
			for range list[at].size {
				if out = append(out, list[at].start+i); len(out) == ranks {
					return out, nil
				}
			}
		}
	}
}
