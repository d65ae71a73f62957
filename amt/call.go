package amt

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Callback says where a reply of type R is to go: to a handler of some rank, or to an element, with a tag by which that knows what it is for.
// It is plain data: a message may carry it, to be handed on to whoever will know the reply. CallbackTo, CallbackToElement and Call make one; its
// fields are there for package pup.
type Callback[R any] struct {
	To      int32 // -1: to an element
	Handler int32 // its number, or that of a method, which is the same on all ranks
	Tag     uint64
	Element uint64 // the number of its index
}

const toElement = -1

// A Reply is the message of a callback's handler.
type Reply[R any] struct {
	Value R
	Tag   uint64
}

// CallbackTo makes a callback to a handler of this rank.
func CallbackTo[R any](c Context, h *Handler[Reply[R]], tag uint64) Callback[R] {
	f := c.live()
	cb := Callback[R]{To: int32(f.r.self), Tag: tag}
	if h.entry != nil {
		cb.Handler = int32(h.entry.id)
	}
	return cb
}

// CallbackToElement makes a callback to a method of an element, wherever that is by then.
func CallbackToElement[I Index[I], T, R any](c Context, h *Method[I, T, Reply[R]], i I, tag uint64) Callback[R] {
	f := c.live()
	cb := Callback[R]{To: toElement, Tag: tag}
	if h.entry == nil {
		return cb
	}
	cb.Handler = int32(h.entry.id)
	s := h.of.members(f.r)
	if s == nil {
		c.Fail(h.trouble(f, errors.New("its collection was not created")))
		return cb
	}
	var ok bool
	if cb.Element, ok = s.extent.Number(i); !ok {
		c.Fail(h.trouble(f, fmt.Errorf("there is no index %v: the extent is %v", i, s.extent)))
	}
	return cb
}

// Send sends the reply, within the epoch of the context. What is wrong with it fails that.
func (cb Callback[R]) Send(c Context, value *R) {
	f := c.own()
	if cb.To == toElement {
		cb.sendToElement(c, value)
		return
	}
	h, err := cb.handler(f.r)
	if err != nil {
		c.Fail(fmt.Errorf("amt: rank %d: %s cannot reply: %w", f.r.self, f.who(), err))
		return
	}
	h.Send(c, int(cb.To), &Reply[R]{*value, cb.Tag})
}

// replier is a method that takes replies.
type replier[R any] interface {
	sendReply(c Context, key uint64, m *Reply[R])
}

func (cb Callback[R]) sendToElement(c Context, value *R) {
	r := c.f.r
	n := int(cb.Handler) - int(firstHandler)
	if n >= 0 && n < len(r.dispatcher.table) {
		if h, ok := r.dispatcher.table[n].handler.(replier[R]); ok {
			h.sendReply(c, cb.Element, &Reply[R]{*value, cb.Tag})
			return
		}
	}
	c.Fail(fmt.Errorf("amt: rank %d: %s cannot reply: it has a Callback of %v to an element that CallbackToElement has not made", r.self, c.f.who(), reflect.TypeFor[R]()))
}

// handler is that of the callback, if it is one that takes such replies.
func (cb Callback[R]) handler(r *rank) (*Handler[Reply[R]], error) {
	n := int(cb.Handler) - int(firstHandler)
	if n < 0 || n >= len(r.dispatcher.table) {
		return nil, fmt.Errorf("it has a Callback of %v that neither Call nor CallbackTo has made", reflect.TypeFor[R]())
	}
	h, ok := r.dispatcher.table[n].handler.(*Handler[Reply[R]])
	if !ok {
		return nil, fmt.Errorf("it has a Callback of %v that is for %v", reflect.TypeFor[R](), r.dispatcher.table[n])
	}
	return h, nil
}

// A Call is a request of type Q to a rank, which is answered by a reply of type R, by that rank or by whom it hands the request on to. It
// is a variable of a package, and said what it is in an init function of that package, as a Handler is:
//
//	var lookup amt.Call[key, value]
//
//	func init() {
//		lookup.Is(func(c amt.Context, k *key, reply amt.Callback[value]) {
//			v := table.Of(c).find(*k)
//			reply.Send(c, &v)
//		})
//	}
//
//	v, err := lookup.Wait(c, owner, &k) // in a task or a main function
type Call[Q, R any] struct {
	ask   Handler[Request[Q, R]]
	reply Handler[Reply[R]]
}

// A Request is the message of a call.
type Request[Q, R any] struct {
	Question Q
	Reply    Callback[R]
}

// An awaited reply is one for which a task or the main function waits.
type awaited[R any] struct {
	value R
	has   atomic.Bool
}

// calls are those of a rank that wait for replies. Tasks make them too: any goroutine may use it.
type calls struct {
	requests atomic.Uint64 // of calls that this rank has waited for
	replies  sync.Map      // by the number of a request: *awaited of some type
}

// Is says what is done with a request, as Handler.Is does. The reply is sent by it, or later by what it starts or sends the callback
// to, in the epoch of the request.
func (k *Call[Q, R]) Is(do func(c Context, q *Q, reply Callback[R]), priority ...Priority) {
	fault := faultOf(reflect.ValueOf(do), *(*uintptr)(unsafe.Pointer(&do)))
	if len(priority) > 1 {
		fault = errors.Join(fault, errTwoPriorities)
	}
	k.ask.is(func(c Context, m *Request[Q, R]) { do(c, &m.Question, m.Reply) }, fault, priority...)
	k.reply.is(func(c Context, m *Reply[R]) {
		to, ok := c.f.r.calls.replies.Load(m.Tag)
		if !ok {
			c.Fail(fmt.Errorf("amt: rank %d: a reply of %v comes from rank %d when nobody waits for it", c.f.r.self, reflect.TypeFor[R](), c.f.from))
			return
		}
		a := to.(*awaited[R])
		if a.has.Load() {
			c.Fail(fmt.Errorf("amt: rank %d: a second reply of %v comes, from rank %d", c.f.r.self, reflect.TypeFor[R](), c.f.from))
			return
		}
		a.value = m.Value
		a.has.Store(true)
	}, fault)
}

// Ask sends a request to a rank; the reply goes to a callback.
func (k *Call[Q, R]) Ask(c Context, to int, q *Q, reply Callback[R]) {
	k.ask.Send(c, to, &Request[Q, R]{*q, reply})
}

// Wait sends a request to a rank, and returns the reply when everything is done that follows from the request. It is for tasks and main
// functions, as Epoch.Wait is. That nobody replies, or twice, is an error.
func (k *Call[Q, R]) Wait(c Context, to int, q *Q) (R, error) {
	var none R
	f := c.own()
	if k.ask.entry == nil {
		return none, fmt.Errorf("amt: rank %d: a call: %w", f.r.self, errUndeclared)
	}
	a := new(awaited[R])
	tag := f.r.calls.requests.Add(1)
	f.r.calls.replies.Store(tag, a)
	defer f.r.calls.replies.Delete(tag)
	err := c.Rooted("call", func(c Context) error {
		k.Ask(c, to, q, CallbackTo(c, &k.reply, tag))
		return nil
	}).Wait(c)
	switch {
	case err != nil:
		return none, err
	case !a.has.Load():
		return none, fmt.Errorf("amt: rank %d: rank %d was sent a request, and nobody has replied: %v", f.r.self, to, k.ask.entry)
	}
	return a.value, nil
}
