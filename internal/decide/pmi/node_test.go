package pmi

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestMessages counts what goes over the network: one message up and one down for each node and barrier, whatever its
// ranks put and ask for. Few put here, since all nodes lie in this process, and each has a copy.
func TestMessages(t *testing.T) {
	const nodes, each, barriers, apart = 4096, 3, 2, 64
	var at []int
	for rank := range nodes * each {
		at = append(at, rank/each)
	}
	j := newJob(t, at)
	for b := range barriers {
		for rank := range at {
			if rank%apart == 0 {
				j.say(rank, fmt.Sprintf("cmd=put kvsname=job.1 key=%d-%d value=v%d", b, rank, rank))
			}
			j.say(rank, "cmd=barrier_in")
		}
		for rank := range at {
			other := (rank + len(at)/2) % len(at) / apart * apart
			j.say(rank, fmt.Sprintf("cmd=get kvsname=job.1 key=%d-%d", b, other))
			got := j.replies[rank]
			if last := len(got) - 1; last < 0 || got[last] != fmt.Sprintf("cmd=get_result rc=0 msg=success value=v%d\n", other) {
				t.Fatalf("rank %d after barrier %d: found %q", rank, b, got)
			}
			j.replies[rank] = nil
		}
	}
	if j.up != nodes*barriers || j.down != nodes*barriers {
		t.Errorf("found %d messages up and %d down, want %d each", j.up, j.down, nodes*barriers)
	}
}

// TestVisibility lets ranks on nodes put, meet and get in any order, with messages between Nodes and Root that take their
// time: who has left a barrier sees all that was put before it, and nobody sees what another node puts after it.
func TestVisibility(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		w := newWire(t, rng)
		for w.unfinished() {
			w.step()
		}
	}
}

// wire is a job whose messages are under way for a while. A rank puts its round under its own key, enters the barrier,
// checks the keys of all, and begins the next round.
type wire struct {
	*job
	rng   *rand.Rand
	round []int
	in    []bool
	ups   [][]Up // by node, in order
	downs [][]Down
}

const rounds = 4

func newWire(t *testing.T, rng *rand.Rand) *wire {
	nodes := 1 + rng.IntN(4)
	var at []int
	for node := range nodes {
		at = append(at, node)
	}
	for range rng.IntN(6) {
		at = append(at, rng.IntN(nodes))
	}
	return &wire{newJob(t, at), rng, make([]int, len(at)), make([]bool, len(at)), make([][]Up, nodes), make([][]Down, nodes)}
}

func (w *wire) unfinished() bool {
	for _, r := range w.round {
		if r < rounds {
			return true
		}
	}
	return false
}

// step lets a rank speak or a message arrive.
func (w *wire) step() {
	node := w.rng.IntN(len(w.nodes))
	switch w.rng.IntN(3) {
	case 0:
		if rank := w.rng.IntN(len(w.at)); !w.in[rank] && w.round[rank] < rounds {
			w.ask(rank, fmt.Sprintf("cmd=put kvsname=job.1 key=of-%d value=%d", rank, w.round[rank]), "cmd=put_result rc=0 msg=success\n")
			w.in[rank] = true
			w.take(w.at[rank], w.nodes[w.at[rank]].Line(rank, []byte("cmd=barrier_in")))
		}
	case 1:
		if len(w.ups[node]) > 0 {
			sends, _, err := w.root.Step(node, w.ups[node][0])
			if err != nil {
				w.t.Fatal(err)
			}
			w.ups[node] = w.ups[node][1:]
			for _, s := range sends {
				for i := range w.nodes {
					w.downs[i] = append(w.downs[i], s.Down)
				}
			}
		}
	case 2:
		if len(w.downs[node]) > 0 {
			d := w.downs[node][0]
			w.downs[node] = w.downs[node][1:]
			w.take(node, w.nodes[node].Down(d))
		}
	}
}

// ask says something that is answered at once.
func (w *wire) ask(rank int, line, want string) {
	out := w.nodes[w.at[rank]].Line(rank, []byte(line))
	if len(out.Replies) != 1 || out.Replies[0] != (Reply{rank, want}) || len(out.Up)+len(out.Events) > 0 {
		w.t.Fatalf("rank %d, round %d: %s: found %+v, want %q", rank, w.round[rank], line, out, want)
	}
}

// take sends what a node orders; ranks that leave the barrier look around.
func (w *wire) take(node int, out Out) {
	w.ups[node] = append(w.ups[node], out.Up...)
	for _, r := range out.Replies {
		if r.Line != "cmd=barrier_out rc=0\n" || !w.in[r.Rank] {
			w.t.Fatalf("found %+v, want the end of the barrier", r)
		}
		for other := range w.at {
			w.ask(r.Rank, fmt.Sprintf("cmd=get kvsname=job.1 key=of-%d", other),
				fmt.Sprintf("cmd=get_result rc=0 msg=success value=%d\n", w.round[r.Rank]))
		}
		w.in[r.Rank] = false
	}
	for _, r := range out.Replies {
		w.round[r.Rank]++
	}
}

// TestLimits: who fills the memory, by keys, unknown lines, names or an endless spawn, ends and is named.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 900)
	for name, line := range map[string]string{
		"keys":    "cmd=put kvsname=job.1 key=k%d value=" + long,
		"refused": "cmd=put kvsname=job.1 key=k%d value=" + long + long,
		"unknown": "cmd=u%d a=" + long,
		"names":   "cmd=publish_name service=s%d port=" + long,
		"tiny":    "cmd=put kvsname=job.1 key=k%d value=",
		"spawn":   "mcmd=spawn\nexecname=%d" + long,
	} {
		j := newJob(t, []int{0, 0, 1})
		said := 0
		for ; !j.hungUp[1] && said < 20000; said++ {
			for l := range strings.SplitSeq(fmt.Sprintf(line, said), "\n") {
				j.say(1, l)
			}
		}
		if !j.hungUp[1] || len(j.ends) != 1 || !strings.HasPrefix(j.ends[0].Text, "pmi: rank 1: 104") {
			t.Errorf("%s: after %d lines found %+v, want rank 1 to end", name, said, j.ends)
		}
		j.say(0, "cmd=get_appnum")
		if found := j.replies[0]; len(found) != 1 || found[0] != "cmd=appnum appnum=0\n" {
			t.Errorf("%s: rank 0 is told %q", name, found)
		}
	}
	j := newJob(t, []int{0})
	for range 20000 { // what leaves nothing behind costs nothing
		j.say(0, "cmd=lookup_name service=s")
		j.say(0, "cmd=spawn")
		j.say(0, "mcmd=spawn")
		j.say(0, "endcmd")
	}
	if len(j.replies[0]) != 60000 || j.hungUp[0] {
		t.Errorf("found %d replies, hung up %v", len(j.replies[0]), j.hungUp[0])
	}
	j.say(0, "cmd=get key="+strings.Repeat("x", MaxLine))
	if !j.hungUp[0] {
		t.Error("a line that is too long is taken")
	}
}

// TestRefusedMessages: what no Node sends changes nothing.
func TestRefusedMessages(t *testing.T) {
	r := NewRoot(2)
	for _, c := range []struct {
		node int
		up   Up
		want string
	}{
		{2, Up{}, "pmi: message of node 2, want one below 2"},
		{0, Up{Barrier: true}, ""},
		{0, Up{Barrier: true, Finalized: true}, "pmi: node 0 enters the barrier twice"},
		{0, Up{Finalized: true}, ""},
		{0, Up{Finalized: true}, "pmi: node 0 finalizes twice"},
	} {
		sends, events, err := r.Step(c.node, c.up)
		if found := fmt.Sprint(err); found != c.want && (err != nil || c.want != "") || len(sends)+len(events) > 0 {
			t.Errorf("%+v: found %v, %v, %v, want %q", c, sends, events, err, c.want)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{
		{Ranks: 1, Local: []int{0}},
		{Ranks: 1, Local: []int{0}, Job: "two words"},
		{Ranks: 1, Local: []int{0}, Job: strings.Repeat("x", maxName)},
		{Ranks: 1, Job: "j"},
		{Ranks: 1, Local: []int{1}, Job: "j"},
		{Ranks: 2, Local: []int{1, 1}, Job: "j"},
		{Ranks: 2, Local: []int{-1}, Job: "j"},
	} {
		if _, err := NewNode(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// FuzzLine lets rank 1 say anything (testdata/fuzz has beginnings), while rank 0 on the same node and rank 2 on another live a
// proper life.
func FuzzLine(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		j := newJob(t, []int{0, 0, 1})
		for _, rank := range []int{0, 2} {
			j.say(rank, "cmd=init pmi_version=1 pmi_subversion=1")
		}
		for line := range strings.SplitSeq(string(data), "\n") {
			r := j.nodes[0].ranks[1]
			silent := r.state == ended || r.spawn != nil || line == multiLine || line == "EOF"
			before := len(j.replies[1])
			j.say(1, line)
			if len(j.replies[1]) == before && !silent && r.waits == "" && r.state != ended {
				t.Fatalf("%q has no answer", line)
			}
		}
		for rank, want := range map[int]int{0: 1, 2: 1} {
			if len(j.replies[rank]) != want {
				t.Fatalf("rank %d is told %q", rank, j.replies[rank])
			}
		}
		j.say(0, "cmd=get kvsname=job.1 key=PMI_process_mapping")
		if found := j.replies[0][1]; found != "cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))\n" {
			t.Fatalf("rank 0 is told %q", found)
		}
		for _, e := range j.ends {
			if e.Rank != 1 {
				t.Fatalf("found %+v, want the end of rank 1", e)
			}
		}
	})
}
