package amt

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/byssus-hpc/byssus/amt/internal/checkpoint"
	"github.com/byssus-hpc/byssus/pup"
)

// A history is what was measured of the elements of a collection, or, without one, of ranks themselves, in the phases that are remembered
// (Context.Loads). A checkpoint has it as a collection more, whose elements are what a rank has of an object: what it has of one that has
// moved is on several ranks. When it is restored, that comes to where the element is.
type history struct {
	r       *rank
	name    string
	home    func(number uint64) (rank int, ok bool)
	codec   *pup.Codec[past]
	phases  int
	rows    uint64
	objects map[uint64]*past
}

// A past is what was measured of an object. It is stored.
type past struct{ Phases []pastPhase }

// A pastPhase is that of a phase, by its place among those that are remembered.
type pastPhase struct {
	Place int
	Loads []pastLoad // more than one of an element that was deleted and inserted
	Edges []pastEdges
}

type pastLoad struct {
	Subphases  []float64
	Messages   uint64
	Broadcasts uint64
	Weighed    bool
	Gone       bool
}

// pastEdges are those to elements of a collection.
type pastEdges struct {
	Collection string
	To         []uint64
	Messages   []uint64
	Bytes      []uint64
}

// phases are the numbers of those that are remembered: the same on all ranks.
func (ms *measures) phases() (numbers []int) {
	for _, p := range ms.window {
		numbers = append(numbers, p.Phase)
	}
	return numbers
}

// histories are what is saved of what was measured of collections, and last that of ranks: none if nothing was.
func (ms *measures) histories(of []Saved) (names []string) {
	if len(ms.window) == 0 {
		return nil
	}
	for _, k := range of {
		if k.measured() {
			names = append(names, k.named())
		}
	}
	return append(names, "")
}

func (k *Collection[I, T]) measured() bool { return k.measures.on }

func (g *Group[T]) measured() bool { return false }

// save gives what a rank has of a history, in the order of numbers.
func (ms *measures) save(name string, add func(number uint64, b []byte) error) error {
	objects := map[uint64]*past{}
	for place, p := range ms.window {
		for _, l := range p.Loads {
			if l.Collection == name {
				at := phaseOf(objects, l.Number, place)
				at.Loads = append(at.Loads, pastLoad{l.Subphases, l.Messages, l.Broadcasts, l.Weighed, l.Gone})
			}
		}
		for _, e := range p.Edges {
			if e.From.Collection == name {
				phaseOf(objects, e.From.Number, place).add(e)
			}
		}
	}
	_, codec, err := schemaOf[past]()
	var b []byte
	for _, number := range slices.Sorted(maps.Keys(objects)) {
		if b, err = codec.Append(b[:0], objects[number]); err == nil {
			err = add(number, b)
		}
		if err != nil {
			break
		}
	}
	return err
}

// phaseOf is that of an object in a phase, made if there is none.
func phaseOf(objects map[uint64]*past, number uint64, place int) *pastPhase {
	o := objects[number]
	if o == nil {
		o = &past{}
		objects[number] = o
	}
	if n := len(o.Phases); n == 0 || o.Phases[n-1].Place != place {
		o.Phases = append(o.Phases, pastPhase{Place: place})
	}
	return &o.Phases[len(o.Phases)-1]
}

// add adds an edge.
func (p *pastPhase) add(e Edge) {
	n := slices.IndexFunc(p.Edges, func(es pastEdges) bool { return es.Collection == e.To.Collection })
	if n < 0 {
		n = len(p.Edges)
		p.Edges = append(p.Edges, pastEdges{Collection: e.To.Collection})
	}
	es := &p.Edges[n]
	es.To, es.Messages, es.Bytes = append(es.To, e.To.Number), append(es.Messages, e.Messages), append(es.Bytes, e.Bytes)
}

// histories are those of a checkpoint, to be restored with its collections.
func (r *rank) histories(m *checkpoint.Manifest, to []restorer) (all []restorer, err error) {
	schema, codec, err := schemaOf[past]()
	for _, in := range m.Histories {
		h := &history{r: r, name: in.Name, codec: codec, phases: len(m.Phases), objects: map[uint64]*past{}}
		n := slices.IndexFunc(m.Collections, func(k checkpoint.Collection) bool { return k.Name == in.Name })
		switch {
		case err != nil:
			return nil, err
		case in.Schema != schema:
			return nil, fmt.Errorf("what was measured of the collection %q has another schema: found %s, wanted %s", in.Name, in.Schema, schema)
		case in.Name == "":
			h.home = func(number uint64) (int, bool) {
				return int(number) * r.ranks / len(m.Parts), number < uint64(len(m.Parts))
			}
		case n < 0:
			return nil, fmt.Errorf("%w: it has what was measured of the collection %q, and not that", checkpoint.ErrDamaged, in.Name)
		default:
			h.home = to[n].homeOf
		}
		all = append(all, h)
	}
	return all, nil
}

func (h *history) homeOf(number uint64) (int, bool) { return h.home(number) }

func (h *history) restore(number uint64, b []byte) error {
	var p past
	err := h.codec.Unmarshal(b, &p)
	for _, at := range p.Phases {
		if at.Place < 0 || at.Place >= h.phases {
			err = errors.Join(err, fmt.Errorf("%w: place %d of %d phases", checkpoint.ErrDamaged, at.Place, h.phases))
		}
		for _, es := range at.Edges {
			if len(es.Messages) != len(es.To) || len(es.Bytes) != len(es.To) {
				err = errors.Join(err, fmt.Errorf("%w: %d edges with %d and %d counts", checkpoint.ErrDamaged, len(es.To), len(es.Messages), len(es.Bytes)))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("what was measured of element %d of the collection %q: %w", number, h.name, err)
	}
	if h.rows++; h.name == "" {
		number = uint64(h.r.self) // ranks there may be no more of are this one now
	}
	if o := h.objects[number]; o != nil {
		o.Phases = append(o.Phases, p.Phases...)
	} else {
		h.objects[number] = &p
	}
	return nil
}

func (h *history) missing() string { return "" }

func (h *history) count() uint64 { return h.rows }

// finish adds the history to what the rank remembers. Homes are those of now.
func (h *history) finish(Context) error {
	for _, number := range slices.Sorted(maps.Keys(h.objects)) {
		for _, at := range h.objects[number].Phases {
			p := &h.r.measures.window[at.Place]
			from := Object{h.name, number}
			for _, l := range at.Loads {
				home, _ := h.home(number)
				p.Loads = append(p.Loads, Load{from, home, l.Subphases, l.Weighed, l.Messages, l.Broadcasts, l.Gone})
			}
			for _, es := range at.Edges {
				for i, to := range es.To {
					p.addEdge(Edge{from, Object{es.Collection, to}, es.Messages[i], es.Bytes[i]}, h.name == "")
				}
			}
		}
	}
	return nil
}

// addEdge adds one; those of several ranks that are one now are added up.
func (p *PhaseLoads) addEdge(e Edge, up bool) {
	n := -1
	if up {
		n = slices.IndexFunc(p.Edges, func(o Edge) bool { return o.From == e.From && o.To == e.To })
	}
	if n < 0 {
		p.Edges = append(p.Edges, e)
		return
	}
	p.Edges[n].Messages += e.Messages
	p.Edges[n].Bytes += e.Bytes
}

// remember is what is remembered after Restore, which histories fill: nothing of what was measured before.
func (ms *measures) remember(phases []int) {
	ms.window = nil
	for _, number := range phases {
		ms.window = append(ms.window, PhaseLoads{Phase: number})
	}
}

// inOrder puts what was restored into the order that it would have.
func (ms *measures) inOrder() {
	order := map[string]int{}
	for n, e := range collections.all {
		order[e.name] = n
	}
	for i := range ms.window {
		slices.SortStableFunc(ms.window[i].Loads, func(a, b Load) int {
			return cmp.Or(cmp.Compare(order[a.Collection], order[b.Collection]), cmp.Compare(a.Number, b.Number))
		})
	}
}
