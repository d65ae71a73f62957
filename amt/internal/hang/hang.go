// Package hang says what a program waits for that can never go on.
//
// It guarantees that everything that some rank reported is in the graph, that a circle of waits is found if there is one, and
// that the same reports give the same text. It is pure; that nothing can go on is for the caller to know.
package hang

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Report is what one rank waits for.
type Report struct {
	Rank   int
	Main   string // the epoch that its main function waits for
	Ended  bool   // its main function has returned: it waits for all that was begun
	Tasks  []Task
	Epochs []Epoch
	Scopes []Scope
	Lacks  []Lack
	Failed []string // epochs that are over and have failed, and why; nobody has waited for them yet
}

// A Lack is elements of a collection for which an epoch waits.
type Lack struct{ Epoch, Elements, Why string }

// A Task is one that waits for an epoch.
type Task struct{ Name, Epoch, Holds string } // the epoch that it waits for, and that which is not over before it

// An Epoch is what a rank knows of one that is not over.
type Epoch struct {
	ID      string   // the same on all ranks
	Label   string   // empty: it was not begun on this rank
	All     bool     // it is collective: all ranks begin it
	Outer   string   // the epoch that it lies within
	After   []string // what is sent here waits for these epochs
	Waiting []Held   // what does
	Awaited uint64   // messages of a rooted epoch that are not acknowledged
}

// Held is messages that wait for an epoch.
type Held struct {
	To      int
	Handler string
	Count   int
}

// A Scope is operations that a rank has asked for, or not.
type Scope struct {
	Label       string
	Asked, Done uint64
	Epochs      []string // of those asked for and not performed
}

// A Graph is who waits for what.
type Graph struct {
	nodes []string // those that have edges, in the order of their coming
	edges map[string][]edge
	known map[string]bool

	failed []string // sentences
}

type edge struct{ to, why string }

// New makes the graph of what ranks report, in their order.
func New(reports []Report) *Graph {
	g := &Graph{edges: map[string][]edge{}, known: map[string]bool{}}
	labels := map[string][]string{} // of epochs, by their numbers
	for _, r := range reports {
		for _, e := range r.Epochs {
			if e.Label != "" && !slices.Contains(labels[e.ID], strconv.Quote(e.Label)) {
				labels[e.ID] = append(labels[e.ID], strconv.Quote(e.Label))
			}
		}
	}
	name := func(id string) string { // ranks that begin epochs in different orders label one differently
		if l := strings.Join(labels[id], " and "); l != "" {
			return fmt.Sprintf("epoch %s (%s)", l, id)
		}
		return "epoch " + id
	}
	for _, r := range reports {
		g.main(r, name)
		g.failed = append(g.failed, r.Failed...)
		for _, t := range r.Tasks {
			task := fmt.Sprintf("task %q of rank %d", t.Name, r.Rank)
			g.add(task, name(t.Epoch), "waits for it")
			if t.Holds != "" {
				g.add(name(t.Holds), task, "has it to do")
			}
		}
		for _, e := range r.Epochs {
			g.epoch(r.Rank, e, name)
		}
		for _, l := range r.Lacks {
			g.add(name(l.Epoch), l.Elements, l.Why)
		}
	}
	g.missing(reports, name)
	g.scopes(reports, name)
	return g
}

func mainOf(rank int) string { return fmt.Sprintf("main function of rank %d", rank) }

func (g *Graph) main(r Report, name func(string) string) {
	why := "waits for it"
	if r.Ended {
		why = "has returned; the rank ends with it"
	}
	g.add(mainOf(r.Rank), name(r.Main), why)
}

// epoch adds what an epoch waits for on one rank.
func (g *Graph) epoch(rank int, e Epoch, name func(string) string) {
	if e.Outer != "" {
		g.add(name(e.Outer), name(e.ID), fmt.Sprintf("on rank %d lies within", rank))
	}
	for _, after := range e.After {
		why := fmt.Sprintf("on rank %d comes after", rank)
		for _, h := range e.Waiting {
			why += fmt.Sprintf(", with %d to rank %d for %s", h.Count, h.To, h.Handler)
		}
		g.add(name(e.ID), name(after), why)
	}
	if e.Awaited > 0 {
		g.add(name(e.ID), "messages", fmt.Sprintf("rank %d awaits the end of %d", rank, e.Awaited))
	}
}

// missing adds the ranks that have not begun a collective epoch that others have.
func (g *Graph) missing(reports []Report, name func(string) string) {
	begun := map[string]map[int]bool{}
	for _, r := range reports {
		for _, e := range r.Epochs {
			if !e.All {
				continue
			}
			if begun[e.ID] == nil {
				begun[e.ID] = map[int]bool{}
			}
			begun[e.ID][r.Rank] = e.Label != ""
		}
	}
	for _, id := range slices.Sorted(maps.Keys(begun)) {
		for _, r := range reports {
			if !begun[id][r.Rank] {
				g.add(name(id), mainOf(r.Rank), "was not begun there")
			}
		}
	}
}

// scopes adds the ranks that have not asked for an operation that others wait in.
func (g *Graph) scopes(reports []Report, name func(string) string) {
	asked := map[string]map[int]Scope{}
	for _, r := range reports {
		for _, s := range r.Scopes {
			if asked[s.Label] == nil {
				asked[s.Label] = map[int]Scope{}
			}
			asked[s.Label][r.Rank] = s
		}
	}
	for _, label := range slices.Sorted(maps.Keys(asked)) {
		for _, r := range reports {
			s := asked[label][r.Rank]
			if s.Asked == s.Done {
				continue
			}
			operation := fmt.Sprintf("operation %d of scope %q", s.Done+1, label)
			for _, id := range s.Epochs {
				g.add(name(id), operation, fmt.Sprintf("rank %d has asked for it", r.Rank))
			}
			for _, other := range reports {
				if asked[label][other.Rank].Asked <= s.Done {
					g.add(operation, mainOf(other.Rank), "has not asked for it")
				}
			}
		}
	}
}

// add adds an edge, once.
func (g *Graph) add(from, to, why string) {
	for _, n := range []string{from, to} {
		if !g.known[n] {
			g.known[n] = true
			g.nodes = append(g.nodes, n)
		}
	}
	if e := (edge{to, why}); !slices.Contains(g.edges[from], e) {
		g.edges[from] = append(g.edges[from], e)
	}
}

const mostStarts = 50 // nodes from which a circle is looked for, where all might take too long

// Circle is the nodes of a shortest circle of waits, of very many one of the shortest; nil if there is none.
func (g *Graph) Circle() []string {
	var best []string
	starts := g.round()
	for _, start := range starts[:min(len(starts), mostStarts)] {
		if c := g.back(start); c != nil && (best == nil || len(c) < len(best)) {
			best = c
		}
	}
	return best
}

// round is the nodes that are on circles, or between two of them: what is left without those that nothing leads to, or away from, again
// and again.
func (g *Graph) round() []string {
	back := map[string][]string{}
	for n, edges := range g.edges {
		for _, e := range edges {
			back[e.to] = append(back[e.to], n)
		}
	}
	out := map[string]bool{}
	drop := func(degree func(n string) int, next func(n string) []string) {
		left := map[string]int{}
		var list []string
		for _, n := range g.nodes {
			if left[n] = degree(n); left[n] == 0 && !out[n] {
				list = append(list, n)
			}
		}
		for ; len(list) > 0; list = list[1:] {
			out[list[0]] = true
			for _, n := range next(list[0]) {
				if left[n]--; left[n] == 0 && !out[n] {
					list = append(list, n)
				}
			}
		}
	}
	to := func(n string) []string {
		var list []string
		for _, e := range g.edges[n] {
			list = append(list, e.to)
		}
		return list
	}
	drop(func(n string) int { return len(back[n]) }, to)
	drop(func(n string) int { return len(g.edges[n]) }, func(n string) []string { return back[n] })
	return slices.DeleteFunc(slices.Clone(g.nodes), func(n string) bool { return out[n] })
}

// back is a shortest way from a node to itself.
func (g *Graph) back(start string) []string {
	came := map[string]string{}
	for list := []string{start}; len(list) > 0; list = list[1:] {
		for _, e := range g.edges[list[0]] {
			if e.to == start {
				way := []string{list[0]}
				for last := list[0]; last != start; {
					last = came[last]
					way = append(way, last)
				}
				slices.Reverse(way)
				return way
			}
			if _, known := came[e.to]; !known {
				came[e.to] = list[0]
				list = append(list, e.to)
			}
		}
	}
	return nil
}

// Text says it in words: the circle, or everything if there is none.
func (g *Graph) Text() string {
	var b strings.Builder
	circle := g.Circle()
	for i, n := range circle {
		to := circle[(i+1)%len(circle)]
		for _, e := range g.edges[n] {
			if e.to == to {
				fmt.Fprintf(&b, "\n  %s -> %s: %s", n, e.to, e.why)
			}
		}
	}
	if circle != nil {
		return "these wait for each other:" + b.String() + g.failures()
	}
	for _, n := range g.nodes {
		for _, e := range g.edges[n] {
			fmt.Fprintf(&b, "\n  %s -> %s: %s", n, e.to, e.why)
		}
	}
	return "no circle of waits, but:" + b.String() + g.failures()
}

// failures is what may be why nothing can go on.
func (g *Graph) failures() string {
	if len(g.failed) == 0 {
		return ""
	}
	return "\nthese have failed before, and nobody has waited for them yet:\n  " + strings.Join(g.failed, "\n  ")
}

// DOT is the graph in the language of Graphviz; the circle is red.
func (g *Graph) DOT() string {
	red := map[string]string{}
	circle := g.Circle()
	for i, n := range circle {
		red[n] = circle[(i+1)%len(circle)]
	}
	var b strings.Builder
	b.WriteString("digraph waits {\n")
	for _, n := range g.nodes {
		for _, e := range g.edges[n] {
			color := ""
			if red[n] == e.to {
				color = ", color=red"
			}
			fmt.Fprintf(&b, "  %q -> %q [label=%q%s];\n", n, e.to, e.why, color)
		}
	}
	b.WriteString("}\n")
	return b.String()
}
