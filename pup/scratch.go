package pup

import (
	"cmp"
	"math"
)

// A scratch is memory for packed keys of a map. It grows as needed.
type scratch struct {
	p    *Stream
	data []byte
}

// scratch begins packing keys, for their order, in the course of a traversal.
func (p *Stream) scratch() *scratch {
	s := &scratch{data: make([]byte, 1024)}
	s.p = &Stream{state: state{mode: packing, maxDepth: p.maxDepth, depth: p.depth, keys: true, budget: budget{extra: math.MaxUint64, free: math.MaxInt}, keyGraph: cmp.Or(p.graph, p.keyGraph), frames: p.frames, win: s.data}}
	s.p.windows = s
	return s
}

func (s *scratch) next(q *Stream) error {
	used := len(s.data)
	s.data = append(s.data, make([]byte, used)...)
	q.win = s.data[used:]
	return nil
}

func (s *scratch) stream() *Stream { return s.p }

func (s *scratch) len() int { return int(s.p.done()) }

func (s *scratch) close() error { return s.p.err }
