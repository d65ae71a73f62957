package pmi

import (
	"fmt"
	"maps"
)

// All is the Node of a Send that goes to every Node.
const All = -1

// Send is a message of the Root to a Node.
type Send struct {
	Node int // or All
	Down Down
}

// Root is the state of a job. It is not safe for concurrent use.
type Root struct {
	puts      []map[string]string // by node, of those that are in the barrier
	in, done  []bool              // nodes in the barrier; nodes that have finalized
	entered   int
	finalized int
	names     map[string]string // ports by service
	over      bool              // an End was told
}

// NewRoot returns the state of a job on so many nodes.
func NewRoot(nodes int) *Root {
	return &Root{puts: make([]map[string]string, nodes), in: make([]bool, nodes), done: make([]bool, nodes),
		names: map[string]string{}}
}

// Step takes in a message of a node. An error means that it is none that a Node sends, and has changed nothing.
func (r *Root) Step(node int, up Up) ([]Send, []Event, error) {
	switch {
	case node < 0 || node >= len(r.in):
		return nil, nil, fmt.Errorf("pmi: message of node %d, want one below %d", node, len(r.in))
	case up.Barrier && r.in[node]:
		return nil, nil, fmt.Errorf("pmi: node %d enters the barrier twice", node)
	case up.Finalized && r.done[node]:
		return nil, nil, fmt.Errorf("pmi: node %d finalizes twice", node)
	}
	var sends []Send
	var events []Event
	if up.Barrier {
		sends = append(sends, r.barrier(node, up.Puts)...)
	}
	if up.Name != nil {
		answer := r.name(*up.Name)
		sends = append(sends, Send{node, Down{Name: &answer}})
	}
	if up.Finalized {
		r.done[node] = true
		if r.finalized++; r.finalized == len(r.done) {
			events = append(events, Finished{})
		}
	}
	if up.End != nil && !r.over {
		r.over = true
		sends = append(sends, Send{All, Down{End: up.End}})
		events = append(events, *up.End)
	}
	return sends, events, nil
}

// barrier lets everybody go on when the last node has come.
func (r *Root) barrier(node int, puts map[string]string) []Send {
	r.puts[node], r.in[node] = puts, true
	if r.entered++; r.entered < len(r.in) {
		return nil
	}
	all := map[string]string{}
	for i, p := range r.puts {
		maps.Copy(all, p)
		r.puts[i], r.in[i] = nil, false
	}
	r.entered = 0
	return []Send{{All, Down{Barrier: true, Puts: all}}}
}

// name answers a question about a name.
func (r *Root) name(q Name) Name {
	port, there := r.names[q.Service]
	switch {
	case q.Command == "publish_name" && there:
		q.Refusal = "key_already_present"
	case q.Command == "publish_name":
		r.names[q.Service] = q.Port
	case !there:
		q.Refusal = "service_not_found"
	case q.Command == "lookup_name":
		q.Port = port
	default:
		delete(r.names, q.Service)
	}
	return q
}
