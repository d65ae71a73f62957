package amt

import (
	"errors"
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/checkpoint"
)

// Restore makes collections of the newest checkpoint in a store, with all their elements; all main functions call it, on any number of
// ranks. Without a checkpoint found is false, and the collections are to be created. If not every element is there as it was saved, it is an
// error that names the first. Each part is read by one rank that can open it, and its elements go to where they belong.
func Restore(c Context, from Store, of ...Saved) (found bool, err error) {
	r := c.own().r
	var s savedState
	r.population.uses(from)
	s.Number, s.Manifest, err = from.Newest(r.place())
	if s, err = allKnow(c, s, err); err != nil {
		return false, fmt.Errorf("amt: restore: %w", err)
	}
	if s.Number == 0 {
		return false, nil
	}
	m, err := checkpoint.ParseManifest(s.Manifest)
	if err == nil {
		err = restorable(m, of)
	}
	if err == nil {
		err = c.restore(from, m, of)
	}
	if err != nil {
		return false, fmt.Errorf("amt: restore: checkpoint %d: %w", s.Number, err)
	}
	r.phase = m.Phase
	r.measures.inOrder()
	var partly []int
	for i, part := range r.collections {
		if part != nil && part.elementsOfAll() != part.span() {
			partly = append(partly, i)
		}
	}
	return true, c.order(partly)
}

// restorable says whether a checkpoint has the collections of a program.
func restorable(m *checkpoint.Manifest, of []Saved) error {
	for i, k := range of {
		if i >= len(m.Collections) || m.Collections[i].Name != k.named() {
			var names []string
			for _, in := range m.Collections {
				names = append(names, in.Name)
			}
			return fmt.Errorf("it has the collections %q, wanted %q in place %d: it is another program's, or another order", names, k.named(), i)
		}
	}
	if len(of) != len(m.Collections) {
		return fmt.Errorf("it has %d collections, wanted %d", len(m.Collections), len(of))
	}
	return nil
}

// restore brings all elements to the ranks where they belong, or none.
func (c Context) restore(from Store, m *checkpoint.Manifest, of []Saved) (err error) {
	r := c.f.r
	var to []restorer
	defer func() {
		r.population.restoring = nil
		for i := range min(len(to), len(of)) {
			if err != nil {
				of[i].forget(r)
			}
		}
	}()
	own := savedState{Readers: []reader{{Rank: r.self}}}
	for i, k := range of {
		t, err2 := k.restorer(r, &m.Collections[i])
		if err = err2; err != nil {
			break
		}
		to = append(to, t)
	}
	if err == nil {
		var histories []restorer
		histories, err = r.histories(m, to)
		to = append(to, histories...)
	}
	if err == nil {
		err = own.Readers[0].looks(from, r.place(), m)
	}
	r.population.restoring = to // others send elements as soon as they know that this rank is ready
	all, err := allKnow(c, own, err)
	if err != nil {
		return err
	}
	by, err := readersOf(len(m.Parts), all.Readers)
	if err != nil { // the same on all ranks
		return err
	}
	have := make([]checkpoint.Collection, len(to))
	err = c.Collective("restore", func(c Context) error {
		for p := range m.Parts {
			if by[p] == r.self {
				if err := c.restorePart(from, m, p, have); err != nil {
					return err
				}
			}
		}
		return nil
	}).Wait(c)
	if err != nil {
		return err
	}
	var s savedState
	absent := ""
	for i, t := range to {
		s.Counts, s.Digests = append(s.Counts, t.count()), append(s.Digests, have[i].Digest)
		if absent == "" {
			absent = t.missing()
		}
	}
	if s, err = allKnow(c, s, nil); err == nil {
		err = complete(c, m, s, absent)
	}
	if err == nil {
		r.measures.remember(m.Phases)
	}
	for i := 0; i < len(to) && err == nil; i++ {
		err = to[i].finish(c)
	}
	return err
}

// looks finds out which parts a rank can open.
func (rd *reader) looks(from Store, at Place, m *checkpoint.Manifest) error {
	names, err := from.Here(at, m.Number)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, name := range names {
		there[name] = true
	}
	for p := range m.Parts {
		if there[partName(p)] {
			rd.Parts = append(rd.Parts, p)
		}
	}
	if rd.All = len(rd.Parts) == len(m.Parts); rd.All {
		rd.Parts = nil
	}
	return nil
}

// readersOf says which rank reads each part: one that can, and each about as many. It is the same on all ranks.
func readersOf(parts int, readers []reader) ([]int, error) {
	var all []int
	some := make([][]int, parts)
	for _, rd := range readers {
		if rd.All {
			all = append(all, rd.Rank)
		}
		for _, p := range rd.Parts {
			some[p] = append(some[p], rd.Rank)
		}
	}
	by := make([]int, parts)
	for p := range by {
		switch can := some[p]; {
		case len(all) > 0:
			by[p] = all[p*len(all)/parts]
		case len(can) > 0:
			by[p] = can[p%len(can)]
		default:
			return nil, fmt.Errorf("%s is not there: no rank can open it", partName(p))
		}
	}
	return by, nil
}

// returned is an element on its way to where it belongs.
type returned struct {
	Collection int
	Number     uint64
	State      []byte
}

var returns Handler[returned]

func init() {
	returns.Is(func(c Context, m *returned) {
		to := c.f.r.population.restoring
		if m.Collection >= len(to) {
			c.Fail(fmt.Errorf("amt: rank %d: an element of collection %d comes from rank %d, but is not restored here", c.Rank(), m.Collection, c.From()))
			return
		}
		c.Fail(to[m.Collection].restore(m.Number, m.State))
	})
}

// restorePart reads a part, and sends its elements to where they belong.
func (c Context) restorePart(from Store, m *checkpoint.Manifest, n int, have []checkpoint.Collection) (err error) {
	f, err := from.Open(c.f.r.place(), m.Number, partName(n))
	if err != nil {
		return fmt.Errorf("%s: %w", partName(n), err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := checkpoint.Open(f, m.Parts[n])
	if err != nil {
		return fmt.Errorf("%s: %w", partName(n), err)
	}
	for _, e := range in.Elements() {
		if err := c.restoreElement(in, e, have); err != nil {
			return fmt.Errorf("%s: %w", partName(n), err)
		}
	}
	return nil
}

func (c Context) restoreElement(in *checkpoint.Reader, e checkpoint.Element, have []checkpoint.Collection) error {
	r := c.f.r
	to := r.population.restoring
	if int(e.Collection) >= len(to) {
		return fmt.Errorf("%w: an element of collection %d of %d", checkpoint.ErrDamaged, e.Collection, len(to))
	}
	home, ok := to[e.Collection].homeOf(e.Number)
	if !ok {
		return fmt.Errorf("%w: element %d of collection %d, whose extent ends before", checkpoint.ErrDamaged, e.Number, e.Collection)
	}
	b, err := in.Read(e, &have[e.Collection])
	if err != nil {
		return err
	}
	if home == r.self {
		return to[e.Collection].restore(e.Number, b)
	}
	returns.Send(c, home, &returned{int(e.Collection), e.Number, b})
	return nil
}

// complete compares what all ranks have with what was saved.
func complete(c Context, m *checkpoint.Manifest, s savedState, absent string) error {
	for i, in := range m.All() {
		if s.Counts[i] == in.Count && s.Digests[i] == in.Digest {
			continue
		}
		var wrong error
		if absent != "" {
			wrong = errors.New(absent)
		}
		if _, err := allKnow(c, savedState{}, wrong); err != nil {
			return err
		}
		return fmt.Errorf("the collection %q: %d elements with the digest %016x, wanted %d with %016x", in.Name, s.Counts[i], s.Digests[i], in.Count, in.Digest)
	}
	return nil
}
