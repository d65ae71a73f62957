package pup

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"
	"unsafe"
)

// A PUPer visits each of its fields, always in the same order, with the functions of this package.
type PUPer interface {
	PUP(p *Stream)
}

// windows are the parts of a body one after the other.
type windows interface {
	next(p *Stream) error // makes the next one p's
}

// mode is what a traversal is for.
type mode uint8

const (
	failed    mode = iota // an error was found: every helper does nothing
	sizing                // add up the bytes
	packing               // values to bytes
	unpacking             // bytes to values
	observing             // tell the observer of each visit
)

// A Stream is one traversal of a value. It is made by the functions of this package and handed to PUP methods; it
// belongs to one goroutine, is of no use after the traversal and must not be kept: its memory serves again.
type Stream struct {
	state
	infos [lines]cachedInfo // of the program, whatever the traversal
}

// state is what a traversal begins anew.
type state struct {
	mode     mode
	direct   bool     // packing or unpacking a tree of today's types: the short ways are open
	claims   *claims  // not nil: memory is used again; what was filled in place so far
	owned    bool     // unpacking: the data, one window, is the value's from now on (adopt)
	evolving bool     // unpacking: at least one type of the data is not as it is in this program
	probe    *probing // not nil: a type is asked what its PUP does
	pos      int
	win      []byte // packing: room in the current chunk; unpacking: content of the current chunk
	size     uint64 // sizing: bytes so far; packing and unpacking: bytes in the windows before this one
	rest     uint64 // unpacking: bytes of the body after this window
	depth    int
	maxDepth int
	budget
	graph     *graph
	keys      bool   // packing keys of a map, for their order
	inOrder   bool   // sizing: maps in the order in which they are stored
	keyGraph  *graph // whose objects pointers in keys may lead to
	dynamic   dynamic
	old       map[*typeInfo]*plan
	windows   windows
	within    place // of a value of the standard library whose parts are being visited: they have no names
	watch     observer
	frames    []frame
	zone      *time.Location // the last that was looked up
	zones     map[zoneForm]*time.Location
	zoneForms map[*time.Location]zoneForm
	slab      unsafe.Pointer // unpacking: memory for small things
	slabUsed  uintptr
	slabSize  uintptr
	adopted   int // where what values have of the data ends in the window
	err       error
}

// Sizing tells whether the traversal adds up the bytes that packing will take.
func (p *Stream) Sizing() bool { return p.mode == sizing }

// Packing tells whether the traversal turns values into bytes.
func (p *Stream) Packing() bool { return p.mode == packing }

// Unpacking tells whether the traversal fills values from bytes.
func (p *Stream) Unpacking() bool { return p.mode == unpacking }

// Err returns the first error of the traversal. After it, helpers leave all values as they are.
func (p *Stream) Err() error { return p.err }

// Fail ends the traversal because the content of a value is wrong; the first failure counts.
func (p *Stream) Fail(err error) {
	if p.mode != failed && err != nil {
		p.failWith(place{}, err)
	}
}

// stop records the first error and makes every helper idle.
func (p *Stream) stop(err error) {
	if p.err == nil {
		p.err = err
	}
	p.mode, p.direct = failed, false
}

// fail ends the traversal with the path of the variable at a place.
func (p *Stream) fail(at place, format string, args ...any) {
	if p.mode != failed {
		p.failWith(at, fmt.Errorf(format, args...))
	}
}

func (p *Stream) failWith(at place, err error) { p.stop(&Error{p.verb(), p.path(at), err}) }

func (p *Stream) verb() string {
	switch p.mode {
	case unpacking:
		return "unpack"
	case observing:
		return "look"
	default:
		return "pack"
	}
}

// enter goes one level deeper, for values that hold values.
func (p *Stream) enter(at place) bool {
	if p.depth >= p.maxDepth {
		p.fail(at, "%w: more than %d levels (a cycle needs the option Graph)", ErrDepth, p.maxDepth)
		return false
	}
	p.depth++
	return true
}

func (p *Stream) leave() { p.depth-- }

// done is how many bytes of the body were packed or unpacked so far.
func (p *Stream) done() uint64 {
	if p.mode == sizing {
		return p.size
	}
	return p.size + uint64(p.pos)
}

// left is how many bytes of the body can still be unpacked.
func (p *Stream) left() uint64 { return uint64(len(p.win)-p.pos) + p.rest }

// bytes packs or unpacks b as it is.
func (p *Stream) bytes(b []byte, at place) {
	switch p.mode {
	case packing:
		if len(b) <= len(p.win)-p.pos {
			p.pos += copy(p.win[p.pos:], b)
			return
		}
		p.split(b, at)
	case unpacking:
		if len(b) <= len(p.win)-p.pos {
			p.pos += copy(b, p.win[p.pos:])
			return
		}
		p.split(b, at)
	case sizing:
		p.size += uint64(len(b))
	}
}

// split is bytes across the ends of windows.
func (p *Stream) split(b []byte, at place) {
	if p.mode == unpacking && uint64(len(b)) > p.left() {
		p.fail(at, "%w: %d bytes wanted, %d left", ErrData, len(b), p.left())
		return
	}
	for {
		n := 0
		if p.mode == packing {
			n = copy(p.win[p.pos:], b)
		} else {
			n = copy(b, p.win[p.pos:])
		}
		p.pos += n
		if b = b[n:]; len(b) == 0 {
			return
		}
		if m, ok := p.windows.(*memory); ok {
			m.coming = uint64(len(b))
		}
		if err := p.advance(); err != nil {
			p.failWith(at, err)
			return
		}
	}
}

// advance makes the next chunk the window.
func (p *Stream) advance() error {
	before := p.done()
	if err := p.windows.next(p); err != nil {
		return err
	}
	p.size, p.pos = before, 0
	return nil
}

// uvarint packs *x, or unpacks it, in base 128, least significant digit first.
func (p *Stream) uvarint(x *uint64, at place) {
	switch p.mode {
	case sizing:
		p.size += uint64(uvarintLen(*x))
	case packing:
		if *x < 0x80 && p.pos < len(p.win) {
			p.win[p.pos] = byte(*x)
			p.pos++
			return
		}
		p.putUvarint(*x, at)
	case unpacking:
		if p.pos < len(p.win) && p.win[p.pos] < 0x80 {
			*x = uint64(p.win[p.pos])
			p.pos++
			return
		}
		*x = p.getUvarint(at)
	}
}

func uvarintLen(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

func (p *Stream) putUvarint(x uint64, at place) {
	if w := p.win[p.pos:]; len(w) >= 10 {
		n := binary.PutUvarint(w, x)
		p.pos += n
		return
	}
	var b [10]byte
	n := 0
	for ; x >= 0x80; x >>= 7 {
		b[n] = byte(x) | 0x80
		n++
	}
	b[n] = byte(x)
	p.bytes(b[:n+1], at)
}

// getUvarint accepts only the shortest form of a number, so that equal values have equal bytes.
func (p *Stream) getUvarint(at place) uint64 {
	if w := p.win[p.pos:]; len(w) >= 4 && w[0] >= 0x80 { // two to four bytes at once
		switch {
		case w[1] < 0x80 && w[1] > 0:
			p.pos += 2
			return uint64(w[0]&0x7f) | uint64(w[1])<<7
		case w[1] >= 0x80 && w[2] < 0x80 && w[2] > 0:
			p.pos += 3
			return uint64(w[0]&0x7f) | uint64(w[1]&0x7f)<<7 | uint64(w[2])<<14
		case w[1] >= 0x80 && w[2] >= 0x80 && w[3] < 0x80 && w[3] > 0:
			p.pos += 4
			return uint64(w[0]&0x7f) | uint64(w[1]&0x7f)<<7 | uint64(w[2]&0x7f)<<14 | uint64(w[3])<<21
		}
	}
	x := uint64(0)
	for i := range 10 {
		var b [1]byte
		if p.bytes(b[:], at); p.mode == failed {
			return 0
		}
		if b[0] < 0x80 {
			if i > 0 && b[0] == 0 || i == 9 && b[0] > 1 {
				break
			}
			return x | uint64(b[0])<<(7*i)
		}
		x |= uint64(b[0]&0x7f) << (7 * i)
	}
	p.fail(at, "%w: a number that is too long", ErrData)
	return 0
}

// putLength packs the length of a slice or map, one more than it is because 0 stands for nil.
func (p *Stream) putLength(n int, isNil bool, at place) {
	x := uint64(n) + 1
	if isNil {
		x = 0
	}
	p.uvarint(&x, at)
}

// getLength unpacks a length and compares it with what is left: each element takes at least least bytes. It answers
// -1 for nil and when it failed.
func (p *Stream) getLength(least uint64, at place) int {
	x := uint64(0)
	p.uvarint(&x, at)
	if x == 0 || p.mode == failed {
		return -1
	}
	if x--; !p.fits(x, least, at) {
		return -1
	}
	return int(x)
}

// least is how many bytes a value takes at least when it is visited as its type says: not by an element function, which may
// visit what it likes. In older data it may be fewer than today.
func (p *Stream) least(i *typeInfo) uint64 {
	if p.evolving {
		return 0
	}
	return i.least
}

// fits tells whether n elements can follow, and fails if not.
func (p *Stream) fits(n, least uint64, at place) bool {
	most := p.left()
	if least > 0 {
		most /= least
	} else {
		most = max(most, uint64(p.free))
	}
	if n > most || n > uint64(maxInt) {
		p.fail(at, "%w: length %d exceeds the %d bytes left", ErrData, n, p.left())
		return false
	}
	return true
}

// A place says which variable a helper works on, for the path in an error: its address and its shape, which differ
// for a structure and its first field.
type place struct {
	addr  uintptr
	shape shape
}

// shape is what a variable is to the traversal.
type shape uint8

const (
	anyShape shape = iota
	leafShape
	textShape
	sliceShape
	arrayShape
	mapShape
	pointerShape
	interfaceShape
	objectShape
)

// reuse tells whether what a pointer, slice or map leads to may be filled in place, and notes that it is.
func (p *Stream) reuse(v unsafe.Pointer, size uintptr) bool {
	if p.claims == nil || v == nil {
		return false
	}
	p.claims.claim(uintptr(v), size)
	return true
}
