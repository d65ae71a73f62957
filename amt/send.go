package amt

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Send sends a message to a rank, this or another, within the epoch of the context. The message is copied. What is wrong
// with it fails the epoch.
func (h *Handler[M]) Send(c Context, to int, m *M) {
	f := c.own()
	ep, r := f.ep, f.r
	if h.entry == nil || h.entry.fault != nil || f.task != nil || uint(to) >= uint(r.outgoing.reached) || ep.gate.closed() {
		if !h.sendRarely(f, to, m, nil) {
			return
		}
	}
	ep.sent(to)
	if size := h.code.size; size > 0 {
		*(*M)(r.outgoing.place(to, h.entry.what, ep.id, size)) = *m
		return
	}
	h.sendPacked(f, to, m)
}

// sendPacked sends a message that has to be packed, and is counted already.
func (h *Handler[M]) sendPacked(f *frame, to int, m *M) {
	ep, r := f.ep, f.r
	var at int
	b, err := h.code.sized(m, func(size int) (b []byte, err error) {
		b, at = openRecord(r.outgoing.room(to, wholeSize(size)+8))
		return b, nil
	})
	if err != nil { // something has to come
		r.outgoing.control(to, what(recordNothing), ep.id, nil)
		ep.fail(h.trouble(f, to, err))
		return
	}
	r.outgoing.fill(to, closeRecord(b, at, h.entry.what, ep.id))
}

// SendAt is Send with a priority for this message, in place of its handler's.
func (h *Handler[M]) SendAt(c Context, to int, m *M, priority Priority) {
	h.sendRarely(c.own(), to, m, &priority)
}

// sendRarely is Send where something is special, or wrong. It tells whether nothing is any more.
func (h *Handler[M]) sendRarely(f *frame, to int, m *M, priority *Priority) bool {
	f.waitForRoom()
	err := h.check(f.r.ranks, to)
	if err == nil && f.task == nil && priority == nil && !f.ep.gate.closed() {
		return true
	}
	var record []byte
	if err == nil {
		record, err = h.code.record(m)
	}
	ep := f.ep
	post := func() {
		if err != nil {
			ep.fail(h.trouble(f, to, err))
			return
		}
		w := h.entry.what
		if priority != nil {
			w = whatOf(h.entry.id, *priority)
		}
		ep.post(to, w, record)
	}
	if f.task != nil {
		f.r.memory.askToSend(len(record), post)
	} else {
		post()
	}
	return false
}

// waitForRoom is called before the code of a frame packs what it sends.
func (f *frame) waitForRoom() {
	if m := &f.r.memory; f.task != nil || m.over {
		m.wait(f)
	}
}

// askToSend asks for a message of a task to be sent, which has so many bytes.
func (m *memory) askToSend(size int, post func()) {
	m.asked.Add(int64(size))
	m.r.inbox.ask(func() {
		m.asked.Add(-int64(size))
		post()
	})
}

var errUndeclared = errors.New("it was never said what it is (Is, in an init function)")

func (h *Handler[M]) check(ranks, to int) error {
	switch {
	case h.entry == nil:
		return errUndeclared
	case h.entry.fault != nil:
		return h.entry.fault
	case uint(to) >= uint(ranks):
		return fmt.Errorf("there is no rank %d, the last one is %d", to, ranks-1)
	}
	return nil
}

// trouble says what could not be sent.
func (h *Handler[M]) trouble(f *frame, to int, err error) error {
	what := any("a message")
	if h.entry != nil {
		what = h.entry
	}
	return fmt.Errorf("amt: rank %d: %s cannot send to rank %d, to %v: %w", f.r.self, f.who(), to, what, err)
}

// Broadcast sends a message to all ranks, this one included, down a tree.
func (h *Handler[M]) Broadcast(c Context, m *M) {
	f := c.own()
	f.waitForRoom()
	err := h.check(f.r.ranks, 0)
	var record []byte
	if err == nil {
		const inner = headerSize + 8 // where the record for the handler begins
		record = binary.LittleEndian.AppendUint64(make([]byte, headerSize, inner+headerSize), uint64(f.r.self))
		if record, err = h.code.pack(record[:inner+headerSize], m); err == nil {
			record = closeRecord(record, inner, h.entry.what, 0)
		}
	}
	ep := f.ep
	begin := func() {
		if err != nil {
			ep.fail(h.trouble(f, 0, err))
			return
		}
		ep.post(f.r.self, whatOf(recordSpread, h.entry.priority), record)
	}
	if f.task != nil {
		f.r.memory.askToSend(len(record), begin)
		return
	}
	begin()
}
