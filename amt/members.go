package amt

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/amt/internal/hang"
	"github.com/byssus-hpc/byssus/amt/internal/locate"
)

// A seat is what the runtime keeps of an element beside its state and index, but for its place in reductions.
type seat struct {
	key     uint64   // the number of its index
	done    uint64   // the last broadcast that it has run
	baggage *baggage // nil: it has none
	to      int32    // the rank that it is to go to, or one of those below
	pins    int32    // tasks, and what is to follow epochs, that its methods have begun: it stays as long as there are any
	place   uint32   // in the list of those that are here
	of      uint32   // the number of its collection
}

const (
	stays = -1 // where it is
	ends  = -2 // it is deleted
)

// noPlace is the ordinal of an element that was inserted and has none yet.
const noPlace = ^uint64(0)

// pin counts one more, or less, of what keeps an element where it is; nil: there is no element.
func (s *seat) pin(n int32) {
	if s != nil {
		s.pins += n
	}
}

type element[I, T any] struct {
	seat
	index I
	value T
}

// elements are those of a collection that are on a rank.
type elements[I, T any] struct {
	byKey  []*element[I, T] // of a range of indices, from first on
	first  uint64
	other  hashed[element[I, T]] // of all others
	all    []*element[I, T]
	sorted []*element[I, T] // the same, in the order of indices; nil: not since one has come or gone
	shares
}

// shares are the parts of elements in reductions, by their places in the list; there are none if there are no reductions.
type shares struct {
	kinds    int      // of reductions
	given    []uint64 // of each kind, one more than the last that the element has given a value for
	ordinals []uint64 // places among all elements that there are, in the order of indices; none: those are their keys
}

// mostByKey is how many indices there may be of which each has a place in a table on every rank.
const mostByKey = 1 << 20

// init is for so many elements that are made in a range of indices, each of which has a place in a table.
func (es *elements[I, T]) init(first, n, own uint64) {
	es.first, es.byKey = first, make([]*element[I, T], n)
	es.all, es.given = make([]*element[I, T], 0, own), make([]uint64, 0, own*uint64(es.kinds))
}

func (es *elements[I, T]) find(key uint64) *element[I, T] {
	if e := es.near(key); e != nil {
		return e
	}
	return es.other.find(key)
}

// near is find for an element that has a place in the table; nil: it has none, or is not here. It becomes a part of its callers.
func (es *elements[I, T]) near(key uint64) *element[I, T] {
	if at := key - es.first; at < uint64(len(es.byKey)) {
		return es.byKey[at]
	}
	return nil
}

// put adds an element, with its place in the order of indices.
func (es *elements[I, T]) put(e *element[I, T], ordinal uint64) {
	if at := e.key - es.first; at < uint64(len(es.byKey)) {
		es.byKey[at] = e
	} else {
		es.other.put(e.key, e)
	}
	e.place = uint32(len(es.all))
	es.all, es.sorted = append(es.all, e), nil
	if es.kinds > 0 {
		es.given = append(es.given, make([]uint64, es.kinds)...)
		es.order(e, ordinal)
	}
}

// order gives an element another place in the order of indices.
func (es *elements[I, T]) order(e *element[I, T], ordinal uint64) {
	if es.ordinals == nil {
		if ordinal == e.key {
			return
		}
		es.ordinals = make([]uint64, 0, len(es.all))
	}
	for n := len(es.ordinals); n < len(es.all); n++ {
		es.ordinals = append(es.ordinals, es.all[n].key)
	}
	es.ordinals[e.place] = ordinal
}

func (es *elements[I, T]) remove(e *element[I, T]) {
	if at := e.key - es.first; at < uint64(len(es.byKey)) {
		es.byKey[at] = nil
	} else {
		es.other.remove(e.key)
	}
	end := len(es.all) - 1
	last := es.all[end]
	es.shares.remove(int(e.place), end)
	es.all[e.place], last.place = last, e.place
	es.all[end] = nil
	es.all, es.sorted = es.all[:end], nil
}

// of are the numbers of an element at a place.
func (s *shares) of(place uint32) []uint64 {
	return s.given[int(place)*s.kinds : int(place+1)*s.kinds]
}

// ordinal is that of an element.
func (s *shares) ordinal(e *seat) uint64 {
	if s.ordinals == nil {
		return e.key
	}
	return s.ordinals[e.place]
}

// remove removes that of a place, where the last is then.
func (s *shares) remove(place, last int) {
	if s.kinds == 0 {
		return
	}
	copy(s.given[place*s.kinds:(place+1)*s.kinds], s.given[last*s.kinds:])
	s.given = s.given[:last*s.kinds]
	if s.ordinals != nil {
		s.ordinals[place] = s.ordinals[last]
		s.ordinals = s.ordinals[:last]
	}
}

// inOrder lists them in the order of their indices. The list stays what it is when elements come or go.
func (es *elements[I, T]) inOrder() []*element[I, T] {
	if es.sorted == nil {
		es.sorted = slices.SortedFunc(slices.Values(es.all), func(a, b *element[I, T]) int { return cmp.Compare(a.key, b.key) })
	}
	return es.sorted
}

// A parked message is held until its element is found.
type parked struct {
	ep     *Epoch
	w      what
	record []byte // room for the header of a record, and the payload
}

// members is a rank's part of a collection. It belongs to the goroutine that drives the rank.
type members[I Index[I], T any] struct {
	of         *Collection[I, T]
	r          *rank
	extent     I
	indices    uint64 // how many the extent has
	all        uint64 // elements that there are, on all ranks together
	changes    changes
	unplaced   bool // elements have no places in the order of indices that are right
	home       func(n uint64) int
	machine    *locate.Machine[*parked]
	elements   elements[I, T]
	broadcasts broadcasts
	sections   map[uint64]*section
	spare      *parked // what the machine is given, and keeps if it holds a message
	orders     []locate.Order[*parked]
	measuring  measuring
}

// A membership is what the runtime knows of a rank's part of any collection.
type membership interface {
	news(ep *Epoch, from int, n locate.News)
	arrive(ep *Epoch, from int, payload []byte)
	broadcast(ep *Epoch, from int, payload []byte)
	rebalance(ep *Epoch, to Balancer)
	phaseOver()
	measured(p *PhaseLoads) bool
	indexOf(key uint64) string
	lacks() []hang.Lack
	without(nth int, number, section uint64) string
	changing
}

func (m *members[I, T]) indexOf(key uint64) string { return fmt.Sprint(m.extent.At(key)) }

// make makes an element whose home is this rank; false: there is one.
func (m *members[I, T]) make(key, ordinal uint64, value T) bool {
	out := m.machine.Create(key, m.orders[:0]) // it is home: no news, and nothing waits for the element
	if out[0].Do == locate.Refuse {
		return false
	}
	m.elements.put(&element[I, T]{seat{key: key, of: uint32(m.of.entry.id), done: m.broadcasts.rounds.Made(), to: stays, baggage: m.measuring.begins(m.r.measures.period)}, m.extent.At(key), value}, ordinal)
	return true
}

// The payload of a message for an element begins with where it is to go, as package locate has it:
//
//	0  8  number of the element's index
//	8  4  move
//	12 4  the rank that sent it first, in which subphase, and whether home has seen it
const stampSize = 16

const byHome = 1 << 31

func putStamp(b []byte, key uint64, s locate.Stamp) {
	origin := uint32(s.Origin)
	if s.ByHome {
		origin |= byHome
	}
	binary.LittleEndian.PutUint64(b, key)
	binary.LittleEndian.PutUint64(b[8:], uint64(s.Move)|uint64(origin)<<32)
}

// restamp is putStamp on the way: the subphase stays.
func restamp(b []byte, key uint64, s locate.Stamp) {
	subphase := b[stampSize-1] &^ (byHome >> 24)
	putStamp(b, key, s)
	b[stampSize-1] |= subphase
}

// subphaseOf is that in which a message was sent.
func subphaseOf(stamp []byte) int { return int(stamp[stampSize-1] &^ (byHome >> 24)) }

func stampOf(b []byte) (key uint64, s locate.Stamp) {
	rest := binary.LittleEndian.Uint64(b[8:])
	return binary.LittleEndian.Uint64(b), locate.Stamp{Move: uint32(rest), Origin: int32(rest >> 32 & originRank), ByHome: rest>>63 != 0}
}

// find decides what becomes of a message whose element is not here.
func (m *members[I, T]) find(ep *Epoch, from int, w what, payload []byte) {
	key, stamp := stampOf(payload)
	var step locate.Step
	out := m.orders[:0]
	if from == m.r.self && stamp.Move == 0 && !stamp.ByHome { // it has been nowhere else
		step = m.machine.Send(key, m.spare)
	} else {
		step, out = m.machine.Deliver(key, stamp, from, m.spare, out)
	}
	switch step.Do {
	case locate.Hold:
		m.hold(ep, w, payload)
	case locate.Forward:
		ep.sent(int(step.To))
		b, at := openRecord(m.r.outgoing.room(int(step.To), wholeSize(len(payload))))
		b = append(b, payload...)
		restamp(b[at+headerSize:], key, locate.Stamp{Move: step.Move, Origin: stamp.Origin, ByHome: step.ByHome})
		m.r.outgoing.fill(int(step.To), closeRecord(b, at, w, ep.id))
	case locate.Fail:
		ep.fail(m.nobody(w, key, int(stamp.Origin)))
	}
	m.carry(ep, out)
}

// hold fills in what the machine was given for a message that it holds.
func (m *members[I, T]) hold(ep *Epoch, w what, payload []byte) {
	*m.spare = parked{ep, w, append(make([]byte, headerSize, wholeSize(len(payload))), payload...)}
	ep.detector.hold()
	m.spare = &parked{}
}

func (m *members[I, T]) nobody(w what, key uint64, origin int) error {
	return fmt.Errorf("amt: rank %d: a message from rank %d for %v: %v has no element %v", m.r.self, origin, m.r.dispatcher.table[int(w.id())-int(firstHandler)], m.of.entry, m.extent.At(key))
}

// carry carries out what the machine orders, within an epoch.
func (m *members[I, T]) carry(ep *Epoch, out []locate.Order[*parked]) {
	m.orders = nil // what follows may come here again
	for _, o := range out {
		switch p := o.Message; o.Do {
		case locate.Run, locate.Forward:
			to := int(o.To)
			if o.Do == locate.Run { // when what runs now has ended: it goes by where the element is then
				to = m.r.self
			}
			restamp(p.record[headerSize:], o.Element, o.Stamp)
			p.ep.sent(to)
			m.r.outgoing.record(to, p.w, p.ep.id, p.record)
			p.ep.release(1)
		case locate.Fail:
			p.ep.fail(m.nobody(p.w, o.Element, int(o.Stamp.Origin)))
			p.ep.release(1)
		case locate.Tell:
			m.tell(ep, int(o.To), o.News)
		}
	}
	clear(out)
	m.orders = out[:0]
}

// tell sends news to the part of another rank.
func (m *members[I, T]) tell(ep *Epoch, to int, n locate.News) {
	var b [24]byte
	binary.LittleEndian.PutUint32(b[:], uint32(m.of.entry.id)|uint32(n.Kind)<<16)
	binary.LittleEndian.PutUint32(b[4:], n.Move)
	binary.LittleEndian.PutUint32(b[8:], uint32(n.Rank))
	binary.LittleEndian.PutUint64(b[16:], n.Element)
	ep.sent(to)
	m.r.outgoing.control(to, what(recordNews), ep.id, b[:])
}

// newsOf reads what tell has sent.
func newsOf(b []byte) (collection int, n locate.News) {
	head := binary.LittleEndian.Uint32(b)
	return int(head & 0xffff), locate.News{Kind: locate.Kind(head >> 16), Move: binary.LittleEndian.Uint32(b[4:]), Rank: int32(binary.LittleEndian.Uint32(b[8:])), Element: binary.LittleEndian.Uint64(b[16:])}
}

func (m *members[I, T]) news(ep *Epoch, from int, n locate.News) {
	m.carry(ep, m.machine.Receive(from, n, m.orders[:0]))
	if n.Kind == locate.Acked || n.Kind == locate.Installed && int(n.Rank) == m.r.self {
		m.broadcasts.carry(m.broadcasts.rounds.Confirmed(n.Element, n.Move, nil))
	}
}

// The payload of an element that goes to another rank: its collection, 2 bytes, whether it has baggage, 2, and its move, 4; the number of its
// index, its ordinal, the last broadcast, the last of each kind of reduction, its load if that is measured, its baggage if it has any, and its
// state.
const elementHead = 32

// leave sends an element to another rank, or ends it.
func (m *members[I, T]) leave(ep *Epoch, e *element[I, T]) {
	to := int(e.to)
	e.to = stays
	if to == m.r.self {
		return
	}
	if e.pins > 0 {
		what := fmt.Sprintf("to go to rank %d", to)
		if to == ends {
			what = "to be deleted"
		}
		ep.fail(fmt.Errorf("amt: rank %d: %v: element %v is %s, but of the tasks, and of what follows epochs, that its methods have begun, %d are not over", m.r.self, m.of.entry, e.index, what, e.pins))
		return
	}
	if to == ends {
		m.end(ep, e)
		return
	}
	given := m.elements.of(e.place)
	head := headerSize + elementHead + 8*len(given)
	load := e.load()
	if load != nil {
		head += 8 * load.words()
	}
	baggage := e.baggage.pack(m.sections)
	head += len(baggage)
	pack := m.of.state.packBehind
	if m.of.state.graph {
		pack = m.of.state.graphBehind
	}
	b, err := pack(&e.value, head)
	if err != nil {
		ep.fail(fmt.Errorf("amt: rank %d: %v: element %v cannot go to rank %d: %w", m.r.self, m.of.entry, e.index, to, err))
		return
	}
	if tr := m.r.tracer; tr != nil {
		tr.leaves(m.of.entry, e.key, to)
	}
	move, _ := m.machine.Migrate(e.key, to)
	binary.LittleEndian.PutUint32(b[headerSize:], uint32(m.of.entry.id))
	if baggage != nil {
		b[headerSize+2] = 1
		copy(b[head-len(baggage):], baggage)
	}
	binary.LittleEndian.PutUint32(b[headerSize+4:], move)
	binary.LittleEndian.PutUint64(b[headerSize+8:], e.key)
	binary.LittleEndian.PutUint64(b[headerSize+16:], m.elements.ordinal(&e.seat))
	binary.LittleEndian.PutUint64(b[headerSize+24:], e.done)
	for i, number := range given {
		binary.LittleEndian.PutUint64(b[headerSize+elementHead+8*i:], number)
	}
	if load != nil {
		load.pack(b[headerSize+elementHead+8*len(given):])
	}
	m.elements.remove(e)
	m.broadcasts.rounds.Leave(e.key, move, e.done)
	ep.sent(to)
	m.r.outgoing.record(to, what(recordElement), ep.id, b)
	m.carry(ep, m.machine.Left(e.key, m.orders[:0]))
	m.r.handOn(&e.seat)
}

// arrive takes an element from another rank. It does so in an epoch that has failed, too: no element is lost.
func (m *members[I, T]) arrive(ep *Epoch, from int, payload []byte) {
	move, key := binary.LittleEndian.Uint32(payload[4:]), binary.LittleEndian.Uint64(payload[8:])
	e := &element[I, T]{seat: seat{key: key, of: uint32(m.of.entry.id), done: binary.LittleEndian.Uint64(payload[24:]), to: stays, baggage: m.measuring.begins(0)}, index: m.extent.At(key)}
	given, rest := payload[elementHead:], payload[elementHead+8*m.of.sums:]
	load := e.load()
	if load != nil {
		rest = load.unpack(rest)
	}
	if payload[2] != 0 {
		e.baggage, rest = unpackBaggage(rest)
		e.baggage.load = load
	}
	if err := m.of.state.unpack(rest, &e.value, m.r.t.short); err != nil {
		m.r.main.epoch.fail(fmt.Errorf("amt: rank %d: %v: element %v comes from rank %d and cannot be unpacked: %w", m.r.self, m.of.entry, e.index, from, err))
		return
	}
	m.machine.Arrive(key, move, from)
	m.elements.put(e, binary.LittleEndian.Uint64(payload[16:]))
	for i := range m.of.sums {
		m.elements.of(e.place)[i] = binary.LittleEndian.Uint64(given[8*i:])
	}
	m.broadcasts.carry(m.broadcasts.rounds.Arrive(e.done, nil))
	m.carry(ep, m.machine.Installed(key, m.orders[:0]))
	m.catchUp(e)
}

func (m *members[I, T]) phaseOver() {
	m.machine.PhaseOver()
	m.machine.Forget()
}

// lacks are the elements for which messages are held here.
func (m *members[I, T]) lacks() (all []hang.Lack) {
	m.machine.Held(func(key uint64, p *parked) {
		all = append(all, hang.Lack{Epoch: p.ep.number(), Elements: fmt.Sprintf("element %v of the collection %q", m.extent.At(key), m.of.entry.name), Why: fmt.Sprintf("rank %d holds a message for it", m.r.self)})
	})
	return append(all, waitTheirTurn(m)...)
}

// without names the elements here, or the members of a section, that have given no value for a reduction of a kind: the first, and how many
// more.
func (m *members[I, T]) without(nth int, number, section uint64) string {
	var first *element[I, T]
	n := 0
	for _, e := range m.elements.all {
		if !lacking(m, e, nth, number, section) {
			continue
		}
		if n++; first == nil || e.key < first.key {
			first = e
		}
	}
	if first == nil {
		return ""
	}
	text := fmt.Sprintf("element %v of the collection %q", first.index, m.of.entry.name)
	if n > 1 {
		text += fmt.Sprintf(", and %d more of rank %d", n-1, m.r.self)
	}
	return text
}

// lacking tells whether an element is to give a value for a reduction.
func lacking[I Index[I], T any](m *members[I, T], e *element[I, T], nth int, number, section uint64) bool {
	if section == 0 {
		return m.elements.of(e.place)[nth] <= number
	}
	of := m.sections[section]
	if of == nil {
		return false
	}
	_, ok := of.place(e.key)
	return ok && *e.tally(section, nth) <= number
}

// rebalance has elements go where a balancer says.
func (m *members[I, T]) rebalance(ep *Epoch, to Balancer) {
	for _, e := range m.elements.inOrder() {
		rank := to(m.of.entry.name, e.key, m.r.self, m.r.ranks)
		if rank < 0 || rank >= m.r.ranks {
			ep.fail(fmt.Errorf("amt: rank %d: %v: element %v is to go to rank %d, the last one is %d", m.r.self, m.of.entry, e.index, rank, m.r.ranks-1))
			return
		}
		e.to = int32(rank)
		m.leave(ep, e)
	}
}
