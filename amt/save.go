package amt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/byssus-hpc/byssus/amt/internal/checkpoint"
	"github.com/byssus-hpc/byssus/pup"
)

// Saved is a collection, of any type.
type Saved interface {
	saver(r *rank) (saver, error)
	restorer(r *rank, in *checkpoint.Collection) (restorer, error)
	named() string
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
	wants(number uint64) bool
	restore(number uint64, b []byte) error
	missing() string
}

// A state of a checkpoint on some ranks, or all, is what they tell each other.
type savedState struct {
	Number   uint64
	Manifest []byte // from rank 0
	Parts    []checkpoint.Part
	Counts   []uint64 // by collection
	Digests  []uint64
	Wrong    string // the first error
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
	if r.self == 0 {
		if s.Number, _, err = to.Newest(); err == nil {
			s.Number++
			err = to.Begin(s.Number)
		}
	}
	s, err = allKnow(c, s, err)
	if err != nil {
		return fmt.Errorf("amt: save: %w", err)
	}
	m := checkpoint.Manifest{Number: s.Number, Phase: r.phase}
	s, err = savePart(r, to, s.Number, &m, of)
	if s, err = allKnow(c, s, err); err == nil {
		err = all(&m, s, of, r)
	}
	if err == nil && r.self == 0 {
		m.Parts = s.Parts
		for i := range m.Collections {
			m.Collections[i].Count, m.Collections[i].Digest = s.Counts[i], s.Digests[i]
		}
		var b []byte
		if b, err = m.Encode(); err == nil {
			err = to.Commit(m.Number, b)
		}
	}
	if _, err = allKnow(c, savedState{}, err); err != nil {
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
	f, err := to.Create(n, partName(r.self))
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
	p, err := w.Finish()
	s.Parts = []checkpoint.Part{p}
	return s, err
}

// Restore makes collections of the newest checkpoint in a store, with all their elements; all main functions call it, on any number of
// ranks. Without a checkpoint found is false, and the collections are to be created. If not every element is there as it was saved, it is an
// error that names the first.
func Restore(c Context, from Store, of ...Saved) (found bool, err error) {
	r := c.own().r
	var s savedState
	if r.self == 0 {
		s.Number, s.Manifest, err = from.Newest()
	}
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
	if err != nil { // the same on all ranks
		return false, fmt.Errorf("amt: restore: checkpoint %d: %w", s.Number, err)
	}
	t, absent, err := restoreParts(r, from, m, of)
	if t, err = allKnow(c, t, err); err == nil {
		err = complete(c, m, t, absent)
	}
	if err != nil {
		for _, k := range of {
			k.forget(r)
		}
		return false, fmt.Errorf("amt: restore: checkpoint %d: %w", s.Number, err)
	}
	r.phase = m.Phase
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

// restoreParts takes what belongs on a rank from all parts. absent says which element is not there, if one is not.
func restoreParts(r *rank, from Store, m *checkpoint.Manifest, of []Saved) (s savedState, absent string, err error) {
	to, have := make([]restorer, len(of)), make([]checkpoint.Collection, len(of))
	for i, k := range of {
		if to[i], err = k.restorer(r, &m.Collections[i]); err != nil {
			return s, "", err
		}
	}
	for rank, p := range m.Parts {
		if err := restorePart(from, m.Number, partName(rank), p, to, have); err != nil {
			return s, "", err
		}
	}
	for i, in := range have {
		s.Counts, s.Digests = append(s.Counts, in.Count), append(s.Digests, in.Digest)
		if absent == "" {
			absent = to[i].missing()
		}
	}
	return s, absent, nil
}

func restorePart(from Store, n uint64, name string, p checkpoint.Part, to []restorer, have []checkpoint.Collection) error {
	f, err := from.Open(n, name)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := checkpoint.Open(f, p)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, e := range in.Elements() {
		if int(e.Collection) >= len(to) {
			return fmt.Errorf("%s: %w: an element of collection %d of %d", name, checkpoint.ErrDamaged, e.Collection, len(to))
		}
		if !to[e.Collection].wants(e.Number) {
			continue
		}
		b, err := in.Read(e, &have[e.Collection])
		if err == nil {
			err = to[e.Collection].restore(e.Number, b)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// complete compares what all ranks have with what was saved.
func complete(c Context, m *checkpoint.Manifest, s savedState, absent string) error {
	for i, in := range m.Collections {
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
	codec, err := pup.CodecOf[T]()
	if err != nil {
		return "", nil, fmt.Errorf("%v: %w", k.entry, err)
	}
	return hex.EncodeToString(codec.Schema()), codec, nil
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
		if b, err = codec.Append(b[:0], &e.value); err != nil {
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

func (m *restored[I, T]) wants(number uint64) bool {
	return number < m.indices && m.home(number) == m.r.self
}

func (m *restored[I, T]) restore(number uint64, b []byte) error {
	index := m.extent.At(number)
	var value T
	if err := m.codec.Unmarshal(b, &value); err != nil {
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
