package amt

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/byssus-hpc/byssus/amt/internal/locate"
)

// A Method is a function that messages of type M to the elements of a collection are for. It is a variable of a package, and said what it
// is in an init function of that package, as a Handler is. A method runs to its end without another of its rank, so that it has its element
// for itself. What it starts by Go, or has follow an epoch, and refers to its element pins that: it cannot migrate before.
type Method[I Index[I], T, M any] struct {
	of     *Collection[I, T]
	entry  *entry
	direct *entry // the same, if its messages need nothing but their stamp
	head   int    // bytes before a message
	code   codec[M]
	do     func(c At[I], element *T, m *M)
}

// A MethodOption says more of a method: its Priority, or that it is Ordered.
type MethodOption interface{ of(o *methodOptions) }

// methodOptions is what options fill.
type methodOptions struct {
	priorities []Priority
	ordered    bool
}

func (p Priority) of(o *methodOptions) { o.priorities = append(o.priorities, p) }

// At is the Context of a method: where it runs, and for which element.
type At[I any] struct {
	Context
	index I
	seat  *seat
}

// Index is that of the element.
func (c At[I]) Index() I { return c.index }

// MoveTo has the element migrate to a rank when the method has ended. What is sent to it meanwhile finds it.
func (c At[I]) MoveTo(rank int) {
	f := c.own()
	if rank < 0 || rank >= f.r.ranks {
		f.ep.fail(fmt.Errorf("amt: rank %d: %s has an element go to rank %d, the last one is %d", f.r.self, f.who(), rank, f.r.ranks-1))
		return
	}
	c.seat.to = int32(rank)
}

// Is says what the method does, with which priority if that is not 0, and whether its messages are Ordered. It is called once, from an init
// function.
func (h *Method[I, T, M]) Is(of *Collection[I, T], do func(c At[I], element *T, m *M), options ...MethodOption) {
	fault := faultOf(reflect.ValueOf(do), *(*uintptr)(unsafe.Pointer(&do)))
	var o methodOptions
	for _, option := range options {
		option.of(&o)
	}
	if len(o.priorities) > 1 {
		fault = errors.Join(fault, errTwoPriorities)
	}
	h.is(of, do, fault, o)
}

// is declares the method for who called its caller.
func (h *Method[I, T, M]) is(of *Collection[I, T], do func(c At[I], element *T, m *M), fault error, o methodOptions) {
	e := newEntry(reflect.TypeFor[M](), reflect.ValueOf(do), fault, o.priorities)
	var unfit error
	if h.code, unfit = codecOf[M](); unfit != nil {
		e.fault = errors.Join(e.fault, fmt.Errorf("its message cannot be sent: %w", unfit))
	}
	if of == nil {
		e.fault = errors.Join(e.fault, errors.New("its collection is nil"))
	}
	if h.entry != nil {
		e.fault = errors.New("it is said twice what it is")
	}
	h.of, h.do, h.entry, e.handler = of, do, e, h
	e.run, e.plain = h.receiver(), h.code.size > 0
	h.direct, h.head = e, stampSize
	if o.ordered {
		e.run, e.number = h.receiveOrdered, h.number
		h.direct, h.head = nil, stampSize+orderSize
	}
	declare(e)
}

// Send sends a message to an element, wherever it is, within the epoch of the context. The message is copied. An element that does not
// exist is an error of the epoch.
func (h *Method[I, T, M]) Send(c Context, i I, m *M) {
	f := c.own()
	r, ep := f.r, f.ep
	if h.direct == nil || h.direct.fault != nil || f.task != nil || r.outgoing.reached == 0 || ep.gate.closed() {
		h.sendRarely(f, i, m, nil)
		return
	}
	s := h.of.members(r)
	if s == nil {
		h.sendRarely(f, i, m, nil)
		return
	}
	key, ok := s.extent.Number(i)
	if !ok {
		h.sendRarely(f, i, m, nil)
		return
	}
	to, stamp := r.self, locate.Stamp{Origin: r.measures.origin}
	if s.elements.near(key) == nil && s.elements.find(key) == nil {
		switch step := s.machine.Send(key, s.spare); step.Do {
		case locate.Forward:
			to, stamp.Move, stamp.ByHome = int(step.To), step.Move, step.ByHome
		case locate.Fail:
			ep.fail(s.nobody(h.entry.what, key, r.self))
			return
		default:
			h.park(f, s, key, m)
			return
		}
	}
	if h.code.size == 0 {
		h.sendPacked(f, s, to, key, stamp, m)
		return
	}
	if s.measuring.on {
		h.counts(f, key, h.code.size)
	}
	ep.sent(to)
	p := r.outgoing.place(to, h.entry.what, ep.id, stampSize+h.code.size)
	putStamp(unsafe.Slice((*byte)(p), stampSize), key, stamp)
	*(*M)(unsafe.Add(p, stampSize)) = *m
}

// record packs a message for an element, behind room for the header of a record.
func (h *Method[I, T, M]) record(key uint64, stamp locate.Stamp, m *M) ([]byte, error) {
	b, err := h.code.packBehind(m, headerSize+h.head)
	if err == nil {
		putStamp(b[headerSize:], key, stamp)
	}
	return b, err
}

// park fills in what the machine holds.
func (h *Method[I, T, M]) park(f *frame, s *members[I, T], key uint64, m *M) {
	record, err := h.record(key, locate.Stamp{Origin: f.r.measures.origin}, m)
	if err != nil { // something has to be there
		f.ep.fail(h.trouble(f, err))
		record = make([]byte, headerSize+stampSize)
	} else if s.measuring.on {
		h.counts(f, key, len(record)-headerSize-h.head)
	}
	s.hold(f.ep, h.entry.what, record[headerSize:])
}

// sendPacked sends a message that has to be packed.
func (h *Method[I, T, M]) sendPacked(f *frame, s *members[I, T], to int, key uint64, stamp locate.Stamp, m *M) {
	record, err := h.record(key, stamp, m)
	if err != nil {
		f.ep.fail(h.trouble(f, err))
		return
	}
	if s.measuring.on {
		h.counts(f, key, len(record)-headerSize-h.head)
	}
	f.ep.sent(to)
	f.r.outgoing.record(to, h.entry.what, f.ep.id, record)
}

// counts counts a message of so many bytes to an element that is measured. One that deletes it is the runtime's, and does not count.
func (h *Method[I, T, M]) counts(f *frame, key uint64, bytes int) {
	if h.entry != h.of.deletes.entry {
		f.counts(target{uint32(h.of.entry.id), key}, bytes)
	}
}

// SendAt is Send with a priority for this message, in place of its method's.
func (h *Method[I, T, M]) SendAt(c Context, i I, m *M, priority Priority) {
	h.sendRarely(c.own(), i, m, &priority)
}

// sendRarely is Send where something is special, or wrong. The message looks for its element when it is handled here.
func (h *Method[I, T, M]) sendRarely(f *frame, i I, m *M, priority *Priority) {
	f.waitForRoom()
	record, err := h.checked(f, i, m)
	ep, sender := f.ep, f.seat
	post := func() {
		if err != nil {
			ep.fail(err)
			return
		}
		w := h.entry.what
		if priority != nil {
			w = whatOf(h.entry.id, *priority)
		}
		if h.of.measures.on {
			h.stampLate(f, record)
		}
		if h.entry.number != nil {
			h.postOrdered(ep, sender, w, record)
			return
		}
		ep.post(f.r.self, w, record)
	}
	if f.task != nil {
		f.r.memory.askToSend(len(record), post)
		return
	}
	post()
}

// stampLate counts a message when the rank sends it, and notes in which subphase: the code that has packed it may be a task's.
func (h *Method[I, T, M]) stampLate(f *frame, record []byte) {
	b := record[headerSize:]
	key, stamp := stampOf(b)
	stamp.Origin = f.r.measures.origin
	putStamp(b, key, stamp)
	h.counts(f, key, len(b)-h.head)
}

// checked packs a message after a look at all that can be wrong with it.
func (h *Method[I, T, M]) checked(f *frame, i I, m *M) ([]byte, error) {
	switch {
	case h.entry == nil:
		return nil, h.trouble(f, errUndeclared)
	case h.entry.fault != nil:
		return nil, h.trouble(f, h.entry.fault)
	}
	s := h.of.members(f.r)
	if s == nil {
		return nil, h.trouble(f, errors.New("its collection was not created"))
	}
	key, ok := s.extent.Number(i)
	if !ok {
		return nil, h.trouble(f, fmt.Errorf("there is no index %v: the extent is %v", i, s.extent))
	}
	record, err := h.record(key, locate.Stamp{Origin: int32(f.r.self)}, m)
	if err != nil {
		return nil, h.trouble(f, err)
	}
	return record, nil
}

// trouble says what could not be sent.
func (h *Method[I, T, M]) trouble(f *frame, err error) error {
	what := any("a message to an element")
	if h.entry != nil {
		what = h.entry
	}
	return fmt.Errorf("amt: rank %d: %s cannot send %v: %w", f.r.self, f.who(), what, err)
}

// sendReply sends the reply of a callback to an element.
func (h *Method[I, T, M]) sendReply(c Context, key uint64, m *M) {
	s := h.of.members(c.f.r)
	if s == nil || key >= s.indices {
		c.Fail(h.trouble(c.f, errors.New("its collection was not created")))
		return
	}
	h.Send(c, s.extent.At(key), m)
}

// receive is the long way of receiver: the element runs the message if it is here.
func (h *Method[I, T, M]) receive(c Context, payload []byte) error {
	f := c.f
	s := h.of.members(f.r)
	if s == nil || len(payload) < stampSize {
		return errors.New("its collection was not created")
	}
	key, stamp := stampOf(payload)
	e := s.elements.find(key)
	if e == nil {
		s.find(f.ep, f.from, f.r.dispatcher.now, payload)
		return nil
	}
	f.from = int(stamp.Origin)
	if s.measuring.on {
		f.r.measures.enters(subphaseOf(payload))
	}
	return h.invoke(c, s, e, payload[stampSize:])
}

// receiver takes a message from a rank. What most are, plain and for an element of the table that has no baggage, it does without calls
// but of the method; the rest is for receive.
func (h *Method[I, T, M]) receiver() func(c Context, payload []byte) error {
	size, of, do := stampSize+h.code.size, h.of, h.do
	if h.code.size == 0 || of == nil {
		return h.receive
	}
	return func(c Context, payload []byte) error {
		f := c.f
		s := of.members(f.r)
		if s == nil || len(payload) != size || s.measuring.on {
			return h.receive(c, payload)
		}
		key, stamp := stampOf(payload)
		e := s.elements.near(key)
		if e == nil || e.baggage != nil {
			return h.receive(c, payload)
		}
		f.from, f.seat = int(stamp.Origin), &e.seat
		do(At[I]{c, e.index, &e.seat}, &e.value, (*M)(unsafe.Pointer(&payload[stampSize])))
		f.seat = nil
		if e.to != stays {
			s.leave(f.ep, e)
		}
		return nil
	}
}

// invoke runs the method for an element, which may leave then.
func (h *Method[I, T, M]) invoke(c Context, s *members[I, T], e *element[I, T], payload []byte) error {
	m, err := h.code.open(payload, c.f.r.t.short)
	if err != nil {
		return err
	}
	f := c.f
	f.seat = &e.seat
	if e.load() == nil {
		h.do(At[I]{c, e.index, &e.seat}, &e.value, m)
	} else {
		h.measured(c, e, m)
	}
	f.seat = nil
	if e.to != stays {
		s.leave(f.ep, e)
	}
	return nil
}

// measured runs the method, and measures it.
func (h *Method[I, T, M]) measured(c Context, e *element[I, T], m *M) {
	ms, l := &c.f.r.measures, e.load()
	if h.entry != h.of.deletes.entry {
		l.messages++
	}
	since, ok := ms.begin(l)
	h.do(At[I]{c, e.index, &e.seat}, &e.value, m)
	if ok {
		ms.end(l, since)
	}
}
