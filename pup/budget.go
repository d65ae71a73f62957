package pup

import (
	"math/bits"
	"reflect"
)

// A budget bounds the memory that unpacking makes before it has seen the data for it.
//
// Slices are made whole: their elements never move, so that a pointer into them that somebody keeps stays good. In return
// the elements whose content has not come yet, all open slices and maps together, may take at most perByte bytes for each
// byte of the data that is there, and extra. An element that was visited has paid for itself, whatever its type promised;
// one that took no bytes never does, and the number of those is bounded, too.
//
// Packing counts the same at the same places, so that what it accepts can be unpacked (balance).
type budget struct {
	extra  uint64
	ahead  uint64       // bytes of memory for elements that were not visited yet
	free   int          // elements without bytes of their own that may still come
	need   uint64       // packing: the most that ahead was, plus perByte for each byte before
	needOf reflect.Type // of the elements that this was counted for
	needN  int
}

const (
	perByte      = 64       // bytes of memory for each byte of data
	defaultExtra = 16 << 20 // bytes
	freeElements = 1 << 20
)

func newBudget(o options) budget { return budget{extra: o.maxMemory, free: freeElements} }

// grant charges n elements of size bytes, whose number has just been visited, and tells whether they may be made.
func (p *Stream) grant(t reflect.Type, n int, size uintptr, at place) bool {
	over, cost := bits.Mul64(uint64(n), uint64(size))
	if over == 0 && cost == 0 {
		return true
	}
	cost += p.ahead
	if over != 0 || cost < p.ahead {
		p.fail(at, "%w: %d elements of %d bytes", ErrMemory, n, size)
		return false
	}
	if p.mode != unpacking {
		p.ahead = cost
		if cost += perByte * p.done(); cost > p.need {
			p.need, p.needOf, p.needN = cost, t, n
		}
		return true
	}
	if cost > p.extra && !p.ensure((cost-p.extra+perByte-1)/perByte, at) {
		if p.mode != failed {
			p.fail(at, "%w: %d elements of %d bytes, %d bytes are left: %d times that and %d may be made before their content has come (MaxMemory)",
				ErrMemory, n, size, p.left(), perByte, p.extra)
		}
		return false
	}
	p.ahead = cost
	return true
}

// grantPlain is grant for plain elements, which are visited all at once. Mostly their memory is in proportion to their bytes.
func (p *Stream) grantPlain(t reflect.Type, l *layout, n int, at place) bool {
	if uint64(l.size) <= perByte*l.wire {
		return p.mode != unpacking || p.here(uint64(n)*l.wire, at)
	}
	if !p.grant(t, n, l.size, at) {
		return false
	}
	if l.wire > 0 {
		p.ahead -= uint64(n) * uint64(l.size)
	}
	return true
}

// here makes sure that enough of n bytes that are announced is there for memory of their size.
func (p *Stream) here(n uint64, at place) bool {
	return n <= defaultExtra || p.ensure((n-defaultExtra)/perByte, at)
}

// ensure tells whether n bytes of the body are there. A reader's are, when they have been read.
func (p *Stream) ensure(n uint64, at place) bool {
	if n > p.left() {
		return false
	}
	b, ok := p.windows.(*bodyReader)
	if !ok {
		return true
	}
	if err := b.more(p, n); err != nil {
		p.failWith(at, err)
		return false
	}
	return true
}

// pay is called before a granted element is visited; paid, with what that gave, after it, tells whether to go on.
func (p *Stream) pay(size uintptr) (before uint64) {
	p.ahead -= uint64(size)
	return p.done()
}

func (p *Stream) paid(before uint64, size uintptr, at place) bool {
	if p.mode != failed && p.done() == before {
		p.ahead += uint64(size)
		p.spend(at)
	}
	return p.mode != failed
}

// spend counts an element that took no bytes.
func (p *Stream) spend(at place) {
	if p.free--; p.free < 0 {
		p.fail(at, "%w: more than %d elements without content", ErrData, freeElements)
	}
}

// balance fails what was packed when unpacking would not be allowed to make it.
func (p *Stream) balance() {
	if p.mode == failed || p.need <= p.extra+perByte*p.done() {
		return
	}
	p.fail(place{}, "%w: %d elements of type %v, of %d bytes each, with others that are open then, take more than %d times the bytes that follow and %d (MaxMemory)",
		ErrMemory, p.needN, p.needOf, p.needOf.Size(), perByte, p.extra)
}
