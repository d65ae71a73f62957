package amt

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/checkpoint"
	"github.com/byssus-hpc/byssus/pup"
)

// Saved is a Collection or a Group, of any type.
type Saved interface {
	saver(r *rank) (saver, error)
	restorer(r *rank, in *checkpoint.Collection) (restorer, error)
	named() string
	measured() bool
	forget(r *rank)
}

// A saver gives the elements that a rank has of a collection.
type saver interface {
	describe() (checkpoint.Collection, error)
	save(add func(number uint64, b []byte) error) error
	elementsOfAll() uint64 // ranks
}

// A restorer takes elements that belong on the rank.
type restorer interface {
	homeOf(number uint64) (rank int, ok bool)
	restore(number uint64, b []byte) error
	missing() string
	count() uint64
	finish(c Context) error // when all ranks have all of theirs
}

// A state of a checkpoint on some ranks, or all, is what they tell each other.
type savedState struct {
	Number   uint64
	Manifest []byte // from rank 0
	Parts    []checkpoint.Part
	Counts   []uint64 // by collection
	Digests  []uint64
	Readers  []reader
	Wrong    string // the first error
}

// A reader is a rank, and which parts it can open.
type reader struct {
	Rank  int
	All   bool
	Parts []int
}

var savedStates Reduction[savedState]

func init() {
	savedStates.Is(func(a, b savedState) savedState {
		for i := range min(len(a.Counts), len(b.Counts)) {
			a.Counts[i] += b.Counts[i]
			a.Digests[i] += b.Digests[i]
		}
		a.Number = max(a.Number, b.Number)
		a.Parts = append(a.Parts, b.Parts...)
		a.Readers = append(a.Readers, b.Readers...)
		if len(a.Manifest) == 0 {
			a.Manifest = b.Manifest
		}
		if a.Wrong == "" {
			a.Wrong = b.Wrong
		}
		return a
	})
}

// allKnow has all ranks know what all have.
func allKnow(c Context, s savedState, err error) (savedState, error) {
	if err != nil {
		s.Wrong = fmt.Sprintf("amt: rank %d: %v", c.Rank(), err)
	}
	all, err := savedStates.All(c, s)
	if err == nil && all.Wrong != "" {
		err = errors.New(all.Wrong)
	}
	return all, err
}

// partName is the name of a rank's part in a store.
func partName(rank int) string { return fmt.Sprintf("part-%05d", rank) }

// Save saves collections into a store; all main functions call it, when what they have begun is over. It counts when all ranks have saved
// theirs, else the one before does. What Restore brings back it brings back on any number of ranks.
func Save(c Context, to Store, of ...Saved) error {
	r := c.own().r
	var s savedState
	var err error
	r.population.uses(to)
	s.Number, _, err = to.Newest(r.place())
	if s, err = allKnow(c, s, err); err == nil {
		s.Number++
		if _, err = allKnow(c, savedState{}, to.Begin(r.place(), s.Number)); err != nil {
			to.Abandon(r.place(), s.Number)
		}
	}
	if err != nil {
		return fmt.Errorf("amt: save: %w", err)
	}
	m := checkpoint.Manifest{Number: s.Number, Phase: r.phase, Phases: r.measures.phases()}
	s, err = savePart(r, to, s.Number, &m, of)
	if s, err = allKnow(c, s, err); err == nil {
		err = all(&m, s, of, r)
	}
	if err == nil {
		m.Parts = s.Parts
		for i, in := range m.All() {
			in.Count, in.Digest = s.Counts[i], s.Digests[i]
		}
		var b []byte
		if b, err = m.Encode(); err == nil {
			err = to.Commit(r.place(), m.Number, b)
		}
		_, err = allKnow(c, savedState{}, err)
	}
	if err != nil {
		to.Abandon(r.place(), m.Number)
		return fmt.Errorf("amt: save: checkpoint %d: %w", m.Number, err)
	}
	return nil
}

// all says whether ranks have saved all elements together: some may be on their way.
func all(m *checkpoint.Manifest, s savedState, of []Saved, r *rank) error {
	for i, k := range of {
		from, err := k.saver(r)
		if err != nil {
			return err
		}
		if found, wanted := s.Counts[i], from.elementsOfAll(); found != wanted {
			return fmt.Errorf("the collection %q: found %d elements, wanted %d: some are on their way, save when what was begun is over", m.Collections[i].Name, found, wanted)
		}
	}
	return nil
}

// savePart writes what a rank has.
func savePart(r *rank, to Store, n uint64, m *checkpoint.Manifest, of []Saved) (s savedState, err error) {
	f, err := to.Create(r.place(), n, partName(r.self))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w, err := checkpoint.NewWriter(f)
	if err != nil {
		return s, err
	}
	for i, k := range of {
		from, err := k.saver(r)
		if err != nil {
			return s, err
		}
		in, err := from.describe()
		if err != nil {
			return s, err
		}
		if err := from.save(func(number uint64, b []byte) error { return w.Add(uint32(i), number, b, &in) }); err != nil {
			return s, err
		}
		m.Collections = append(m.Collections, in)
		s.Counts, s.Digests = append(s.Counts, in.Count), append(s.Digests, in.Digest)
	}
	for i, name := range r.measures.histories(of) {
		in := checkpoint.Collection{Name: name}
		if in.Schema, _, err = schemaOf[past](); err == nil {
			err = r.measures.save(name, func(number uint64, b []byte) error { return w.Add(uint32(len(of)+i), number, b, &in) })
		}
		if err != nil {
			return s, err
		}
		m.Histories = append(m.Histories, in)
		s.Counts, s.Digests = append(s.Counts, in.Count), append(s.Digests, in.Digest)
	}
	p, err := w.Finish()
	s.Parts = []checkpoint.Part{p}
	return s, err
}

func (k *Collection[I, T]) named() string {
	if k.entry == nil {
		return ""
	}
	return k.entry.name
}

// forget is the end of a rank's part that was not restored.
func (k *Collection[I, T]) forget(r *rank) { r.collections[k.entry.id] = nil }

func (k *Collection[I, T]) saver(r *rank) (saver, error) {
	m := k.members(r)
	if m == nil {
		return nil, fmt.Errorf("the collection %q was not created", k.named())
	}
	return m, nil
}

// schema is that of elements, which a checkpoint must have.
func (k *Collection[I, T]) schema() (string, *pup.Codec[T], error) {
	schema, codec, err := schemaOf[T]()
	if err != nil {
		return "", nil, fmt.Errorf("%v: %w", k.entry, err)
	}
	if k.state.graph {
		schema += "-graph"
	}
	return schema, codec, nil
}

func (m *members[I, T]) describe() (checkpoint.Collection, error) {
	schema, _, err := m.of.schema()
	if err != nil {
		return checkpoint.Collection{}, err
	}
	extent, err := pup.Marshal(&m.extent)
	return checkpoint.Collection{Name: m.of.entry.name, Schema: schema, Extent: extent}, err
}

func (m *members[I, T]) elementsOfAll() uint64 { return m.all }

func (m *members[I, T]) save(add func(number uint64, b []byte) error) error {
	_, codec, err := m.of.schema()
	if err != nil {
		return err
	}
	var b []byte
	for _, e := range m.elements.inOrder() {
		if m.of.state.graph {
			b, err = pup.Marshal(&e.value, pup.Graph())
		} else {
			b, err = codec.Append(b[:0], &e.value)
		}
		if err != nil {
			return fmt.Errorf("%v: element %v: %w", m.of.entry, e.index, err)
		}
		if err := add(e.key, b); err != nil {
			return err
		}
	}
	return nil
}

// restored is a part of a collection that is being restored.
type restored[I Index[I], T any] struct {
	*members[I, T]
	codec *pup.Codec[T]
}

func (k *Collection[I, T]) restorer(r *rank, in *checkpoint.Collection) (restorer, error) {
	schema, codec, err := k.schema()
	if err != nil {
		return nil, err
	}
	if schema != in.Schema {
		return nil, fmt.Errorf("the collection %q: its elements have another schema: found %s, wanted %s: the type has changed, or it is another program's", in.Name, in.Schema, schema)
	}
	var extent I
	if err := pup.Unmarshal(bytes.Clone(in.Extent), &extent); err != nil {
		return nil, fmt.Errorf("the collection %q: its extent: %w", in.Name, err)
	}
	indices, _ := extent.Count()
	m, err := k.newMembers(r, extent, in.Count == indices)
	if err != nil {
		return nil, err
	}
	m.all = in.Count
	return &restored[I, T]{m, codec}, nil
}

func (m *restored[I, T]) homeOf(number uint64) (int, bool) {
	if number >= m.indices {
		return 0, false
	}
	return m.home(number), true
}

func (m *restored[I, T]) finish(Context) error { return nil }

func (m *restored[I, T]) count() uint64 { return uint64(len(m.elements.all)) }

func (m *restored[I, T]) restore(number uint64, b []byte) error {
	index := m.extent.At(number)
	var value T
	var err error
	if m.of.state.graph {
		err = pup.Unmarshal(b, &value)
	} else {
		err = m.codec.Unmarshal(b, &value)
	}
	if err != nil {
		return fmt.Errorf("%v: element %v: %w", m.of.entry, index, err)
	}
	if !m.make(number, number, value) {
		return fmt.Errorf("%v: element %v: %w: it is there twice", m.of.entry, index, checkpoint.ErrDamaged)
	}
	return nil
}

// missing is the first element that is not there, of a collection that has one of each index.
func (m *restored[I, T]) missing() string {
	for n := uint64(0); n < m.indices && m.all == m.indices; n++ {
		if m.home(n) == m.r.self && m.elements.find(n) == nil {
			return fmt.Sprintf("%v: element %v is not there", m.of.entry, m.extent.At(n))
		}
	}
	return ""
}
