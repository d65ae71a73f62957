package pmi

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTranscripts replays testdata/node: "new" makes a Root and its Nodes from nodes=(NODE of rank 0,...), "do" lets each line
// "RANK LINE" be said, or "RANK EOF", and prints what comes of it. Messages between Nodes and Root are carried at once, and
// printed. go test ./internal/decide/pmi -rewrite writes the answers anew.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/node", func(t *testing.T, path string) {
		var j *job
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				var nodes []int
				for _, arg := range d.CmdArgs {
					for _, v := range arg.Vals {
						n, err := strconv.Atoi(v)
						if err != nil {
							d.Fatalf(t, "%v", err)
						}
						nodes = append(nodes, n)
					}
				}
				j = newJob(t, nodes)
				return ""
			case "do":
				j.log.Reset()
				for line := range strings.Lines(d.Input) {
					who, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
					rank, err := strconv.Atoi(who)
					if err != nil {
						d.Fatalf(t, "%v", err)
					}
					j.say(rank, what)
				}
				return j.log.String()
			}
			d.Fatalf(t, "unknown command")
			return ""
		})
	})
}

// job is a Root with its Nodes; messages between them arrive at once.
type job struct {
	t     *testing.T
	at    []int // node of each rank
	nodes []*Node
	root  *Root
	log   strings.Builder

	replies  map[int][]string // since they were last looked at
	hungUp   map[int]bool
	up, down int // messages
	ends     []End
}

func newJob(t *testing.T, at []int) *job {
	j := &job{t: t, at: at, replies: map[int][]string{}, hungUp: map[int]bool{}}
	var local [][]int
	for rank, node := range at {
		for len(local) <= node {
			local = append(local, nil)
		}
		local[node] = append(local[node], rank)
	}
	for _, ranks := range local {
		n, err := NewNode(Config{Ranks: len(at), Local: ranks, Job: "job.1", Mapping: Mapping(at)})
		if err != nil {
			t.Fatal(err)
		}
		j.nodes = append(j.nodes, n)
	}
	j.root = NewRoot(len(local))
	return j
}

func (j *job) say(rank int, line string) {
	node := j.at[rank]
	var out Out
	if line == "EOF" {
		out = j.nodes[node].Closed(rank)
	} else {
		out = j.nodes[node].Line(rank, []byte(line))
	}
	if out.HangUp {
		j.hungUp[rank] = true
		fmt.Fprintf(&j.log, "hang up on %d\n", rank)
	}
	j.do(node, out)
}

func (j *job) do(node int, out Out) {
	for _, r := range out.Replies {
		j.replies[r.Rank] = append(j.replies[r.Rank], r.Line)
		fmt.Fprintf(&j.log, "%d: %s", r.Rank, r.Line)
	}
	for _, ev := range out.Events {
		fmt.Fprintf(&j.log, "node %d: %T%+v\n", node, ev, ev)
	}
	for _, up := range out.Up {
		j.up++
		sends, events, err := j.root.Step(node, up)
		if err != nil {
			j.t.Fatal(err)
		}
		for _, ev := range events {
			if e, ok := ev.(End); ok {
				j.ends = append(j.ends, e)
			}
			fmt.Fprintf(&j.log, "root: %T%+v\n", ev, ev)
		}
		for _, s := range sends {
			j.send(s)
		}
	}
}

func (j *job) send(s Send) {
	for i, n := range j.nodes {
		if s.Node == All || s.Node == i {
			j.down++
			j.do(i, n.Down(s.Down))
		}
	}
}
