package outputs

import (
	"fmt"
	"slices"
)

// counters are the job's: books that share them use no number twice.
type counters struct {
	last uint64 // highest number of a dataset that was used
	runs uint64 // programs so far
}

// shelf is what there is of datasets, those that do not count yet among them.
type shelf struct {
	*counters
	list    []*Dataset // ascending
	current uint64     // to restart from, 0: the newest
	below   uint64     // only older ones are offered, 0: all
}

// List is what counts, ascending.
func (s *shelf) List() []Dataset {
	var list []Dataset
	for _, d := range s.list {
		if d.state == counting {
			list = append(list, *d)
		}
	}
	return list
}

// Next is the number of the dataset that is opened next.
func (s *shelf) Next() uint64 { return s.last + 1 }

// Checkpoints are the numbers of those to restart from, ascending.
func (s *shelf) Checkpoints() []uint64 {
	var list []uint64
	for _, d := range s.list {
		if d.offered() {
			list = append(list, d.Number)
		}
	}
	return list
}

// Limit lets only datasets up to this one be offered, as long as no program has restarted; 0: all.
func (s *shelf) Limit(n uint64) {
	s.below = 0
	if n != 0 {
		s.below = n + 1
	}
}

// Stored: the prefix has a dataset from now on.
func (s *shelf) Stored(n uint64) {
	if d := s.find(n); d != nil {
		d.Stored = true
	}
}

func (s *shelf) find(n uint64) *Dataset {
	i, ok := slices.BinarySearchFunc(s.list, n, func(d *Dataset, n uint64) int { return int(int64(d.Number) - int64(n)) })
	if !ok {
		return nil
	}
	return s.list[i]
}

func (s *shelf) remove(d *Dataset) {
	s.list = slices.DeleteFunc(s.list, func(other *Dataset) bool { return other == d })
}

// opened is the dataset that the program writes now; nil: none.
func (s *shelf) opened() *Dataset {
	for _, d := range slices.Backward(s.list) { // one that was adopted may be behind it
		if d.state == open {
			return d
		}
	}
	return nil
}

// unsettled is how many are being stored.
func (s *shelf) unsettled() int {
	n := 0
	for _, d := range s.list {
		if d.state == written {
			n++
		}
	}
	return n
}

// named is the newest dataset of this name that counts; nil: there is none.
func (s *shelf) named(name string) *Dataset {
	for _, d := range slices.Backward(s.list) {
		if d.Name == name && d.state == counting {
			return d
		}
	}
	return nil
}

// candidate is the dataset to offer: the current one, else the newest; only such as are older than below, if that is not 0.
func (s *shelf) candidate(r Restart, run, below uint64) *Dataset {
	for _, d := range slices.Backward(s.list) {
		there := d.Cached && !r.NotCaches || d.Stored && !r.NotPrefix
		if there && d.offered() && (run == 0 || d.unfit != run) && (s.current == 0 || d.Number <= s.current) && (below == 0 || d.Number < below) {
			return d
		}
	}
	return nil
}

// places are the nodes of the program's ranks, -1: it has not joined.
func (p *program) places() []int {
	at := make([]int, p.ranks)
	for rank := range at {
		at[rank] = -1
		if node, ok := p.at[rank]; ok {
			at[rank] = node
		}
	}
	return at
}

// stays says why another program cannot begin.
func (p *program) stays() string {
	return fmt.Sprintf("program %d of this job, of %d ranks, is not over: one at a time may use its datasets (byssus run --job names another job)",
		p.run, p.ranks)
}
