package pup

// What this package takes for granted about the Go release that it runs on, beyond what the language promises, stands here
// and nowhere else. Each assumption is tested when it is first needed, once; none is ever only believed where a test can tell.
//
//	assumption  what is assumed                                            when it does not hold
//	words       an interface is two words: one that tells types apart,     refused: no value is packed, unpacked, checked
//	            even numbers, and one that is the value if that is a       or weighed; the error wraps ErrRuntime and
//	            pointer, else points to it                                 names the assumption and the release
//	slices      a slice is a pointer, a length and a capacity; only        refused
//	            a nil slice's pointer is nil
//	functions   a function that takes a *T can be called as one that       refused
//	            takes an unsafe.Pointer
//	maps        a map is one pointer, the same for all who share it        refused
//	numbers     numbers lie in memory as the file native_*.go for this     refused
//	            processor says, bools as a byte of 0 or 1
//	wrappers    methods that the compiler writes for what a structure      a structure that has such a method, or one that
//	            embeds have no file in the line table, others have one     hides it, is refused: nobody can tell which
//	buffers     a strings.Builder grows by memory that nobody else has,    large slices are filled with zeros before
//	            has not filled it, and lies where numbers may lie          they are filled with data
//	image       the heap is far from the program's variables and text;     Footprint counts constants of the program, too
//	            not so on machines of 32 bits
//	tables      the insides of a map are those of Go 1.24                  Footprint estimates maps by their length
//
// Whether an interface holds values of a type themselves differs between releases and is assumed of none: each type is
// tried (direct).
//
// Not tested, because no test could tell: objects on the heap do not move while they are reachable, and processors that
// anyAlignment names copy a variable from and to any address; and that the compiler does not see through hide, which costs
// an allocation for each visit if it does. Footprint's sums assume the allocator's headers and blocks for
// tiny objects (allocated, sum); what a release changes there makes the sum wrong by as much, and TestFootprint fail.

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// ErrRuntime is wrapped by errors about Go releases whose runtime is not as this package assumes.
var ErrRuntime = errors.New("not as in the Go releases that this package knows")

// assumption is one line of the table above.
type assumption struct {
	says  string
	holds func() bool
}

// assumptions is the table.
type assumptions struct{ words, slices, functions, maps, numbers, wrappers, buffers, image, tables *assumption }

var runtimeHas = assumptions{
	words:     assume("an interface is two words", wordsAreKnown),
	slices:    assume("a slice is a pointer, a length and a capacity", slicesAreKnown),
	functions: assume("functions of pointers are called alike", functionsAreKnown),
	maps:      assume("a map is one pointer", mapsArePointers),
	numbers:   assume("numbers lie in memory as on other machines of this kind", numbersAreKnown),
	wrappers:  assume("the line table tells methods that the compiler wrote", wrappersAreKnown),
	buffers:   assume("a strings.Builder has memory of its own", buffersAreKnown),
	image:     assume("the heap is far from the program", imageIsFar),
	tables:    assume("maps are tables of groups of eight", tablesAreKnown),
}

func assume(says string, test func() bool) *assumption {
	return &assumption{says, sync.OnceValue(func() (yes bool) {
		defer func() {
			if recover() != nil { // what the test has read was not there
				yes = false
			}
		}()
		return test()
	})}
}

// fault is the error about an assumption that does not hold.
func (a *assumption) fault() error {
	return fmt.Errorf("%w: %s: not in %s", ErrRuntime, a.says, runtime.Version())
}

// fault is the first assumption that does not hold of those without which nothing can be done.
func (h *assumptions) fault() error {
	for _, a := range [...]*assumption{h.words, h.slices, h.functions, h.maps, h.numbers} {
		if !a.holds() {
			return a.fault()
		}
	}
	return nil
}

// eface is an interface as it lies in memory.
type eface struct{ typ, data unsafe.Pointer }

// contentOf returns where the value in the interface variable at v lies. It must not be written to.
func contentOf(v unsafe.Pointer, direct bool) unsafe.Pointer {
	e := (*eface)(v)
	if direct {
		return unsafe.Pointer(&e.data)
	}
	return e.data
}

// direct tells whether an interface holds values of t themselves, not a pointer to them: it looks into one that the runtime
// made. Only what is as large as a pointer can take its place.
func direct(t reflect.Type) bool {
	if t.Size() != unsafe.Sizeof(uintptr(0)) {
		return false
	}
	mark, v := unsafe.Pointer(new(uint64)), reflect.New(t)
	*(*unsafe.Pointer)(v.UnsafePointer()) = mark
	x := v.Elem().Interface()
	return (*eface)(unsafe.Pointer(&x)).data == mark
}

func wordsAreKnown() bool {
	one, two := &CheckError{}, &CheckError{}
	var a, b, c any = one, two, &Fault{}
	var e error = one
	if unsafe.Sizeof(a) != unsafe.Sizeof(eface{}) || unsafe.Sizeof(e) != unsafe.Sizeof(eface{}) {
		return false
	}
	x, y, z, i := (*eface)(unsafe.Pointer(&a)), (*eface)(unsafe.Pointer(&b)), (*eface)(unsafe.Pointer(&c)), (*eface)(unsafe.Pointer(&e))
	if x.data != unsafe.Pointer(one) || i.data != unsafe.Pointer(one) || y.data != unsafe.Pointer(two) || x.typ != y.typ || x.typ == z.typ ||
		(uintptr(x.typ)|uintptr(z.typ))%2 != 0 {
		return false
	}
	s, t := reflect.TypeFor[Fault](), reflect.TypeFor[CheckError]()
	if p, q := (*eface)(unsafe.Pointer(&s)).data, (*eface)(unsafe.Pointer(&t)).data; p == q || (uintptr(p)|uintptr(q))%2 != 0 {
		return false
	}
	x.data, i.data = unsafe.Pointer(two), unsafe.Pointer(two)
	if a != any(two) || e != error(two) {
		return false
	}
	big := [3]uint64{1, 2, 3}
	a = big
	return direct(reflect.TypeFor[*int]()) && *(*[3]uint64)(x.data) == big
}

// sliceHeader is a slice as it lies in memory.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

func slicesAreKnown() bool {
	s, empty := make([]uint64, 3, 5), make([]uint64, 0)
	if unsafe.Sizeof(s) != unsafe.Sizeof(sliceHeader{}) {
		return false
	}
	h := (*sliceHeader)(unsafe.Pointer(&s))
	if *h != (sliceHeader{unsafe.Pointer(&s[0]), 3, 5}) || (*sliceHeader)(unsafe.Pointer(&empty)).data == nil {
		return false
	}
	h.data, h.len, h.cap = unsafe.Pointer(&s[1]), 1, 2
	if len(s) != 1 || cap(s) != 2 || unsafe.Pointer(&s[0]) != h.data {
		return false
	}
	*h = sliceHeader{}
	return s == nil
}

// untyped forgets the type of an element function's argument, which is a pointer either way.
func untyped[E any](elem func(*Stream, *E)) func(*Stream, unsafe.Pointer) {
	return *(*func(*Stream, unsafe.Pointer))(unsafe.Pointer(&elem))
}

// untypedPack and untypedUnpack are the same for short code.
func untypedPack[T any](f func([]byte, *T) int) func([]byte, unsafe.Pointer) int {
	return *(*func([]byte, unsafe.Pointer) int)(unsafe.Pointer(&f))
}

func untypedUnpack[T any](f func(*Stream, []byte, *T) int) func(*Stream, []byte, unsafe.Pointer) int {
	return *(*func(*Stream, []byte, unsafe.Pointer) int)(unsafe.Pointer(&f))
}

func functionsAreKnown() bool {
	p, room, x := &Stream{}, make([]byte, 7), &[4]uint64{1, 2, 3, 4}
	same := 0
	untyped(func(q *Stream, v *[4]uint64) {
		if q == p && v == x {
			same++
		}
	})(p, unsafe.Pointer(x))
	same += untypedPack(func(b []byte, v *[4]uint64) int {
		if len(b) == 7 && &b[0] == &room[0] && v == x {
			return 1
		}
		return 0
	})(room, unsafe.Pointer(x))
	same += untypedUnpack(func(q *Stream, b []byte, v *[4]uint64) int {
		if q == p && len(b) == 7 && &b[0] == &room[0] && v == x {
			return 1
		}
		return 0
	})(p, room, unsafe.Pointer(x))
	return same == 3
}

func mapsArePointers() bool {
	m, n := map[string]int{"a": 1}, map[string]int{"a": 1}
	if unsafe.Sizeof(m) != unsafe.Sizeof(unsafe.Pointer(nil)) {
		return false
	}
	word := func(m *map[string]int) *unsafe.Pointer { return (*unsafe.Pointer)(unsafe.Pointer(m)) }
	var other map[string]int
	if *word(&other) != nil || *word(&m) == *word(&n) || *word(&m) != reflect.ValueOf(m).UnsafePointer() {
		return false
	}
	*word(&other) = *word(&m)
	other["b"] = 2
	return maps.Equal(m, other) && len(m) == 2 && len(n) == 1
}

func numbersAreKnown() bool {
	x, bools := uint64(0x0807060504030201), []bool{false, true}
	little := slices.Equal(view(unsafe.Pointer(&x), 8), []byte{1, 2, 3, 4, 5, 6, 7, 8})
	if native && (!little || unsafe.Sizeof(int(0)) != 8) {
		return false
	}
	return slices.Equal(view(unsafe.Pointer(&bools[0]), 2), []byte{0, 1})
}

// The methods of embedder are promoted, from before and behind other fields, and one is small enough to be copied into its
// wrapper; hider has methods of its own.
type (
	embedded   struct{ last int }
	unmarshals struct{ embedded }
	embedder   struct {
		_ int
		*unmarshals
	}
	hider struct{ embedded }
)

func (e embedded) MarshalBinary() ([]byte, error)     { return nil, nil }
func (e *embedded) UnmarshalBinary(data []byte) error { e.last = len(data); return nil }
func (h hider) MarshalBinary() ([]byte, error)        { return nil, nil }
func (h *hider) UnmarshalBinary(data []byte) error    { return h.embedded.UnmarshalBinary(data) }

func wrappersAreKnown() bool {
	for t, own := range map[reflect.Type]bool{reflect.TypeFor[embedded](): true, reflect.TypeFor[unmarshals](): false,
		reflect.TypeFor[embedder](): false, reflect.TypeFor[hider](): true} {
		for _, method := range []string{"MarshalBinary", "UnmarshalBinary"} {
			if written, known := hasFile(methodOf(t, method)); !known || written != own {
				return false
			}
		}
	}
	return true
}

// methodOf is where the code of a method of T or *T begins.
func methodOf(t reflect.Type, method string) (pc uintptr) {
	m, ok := t.MethodByName(method)
	if !ok {
		m, _ = reflect.PointerTo(t).MethodByName(method)
	}
	return m.Func.Pointer()
}

// hasFile tells whether a function stands in a file, by the first of its instructions that is its own: others may belong to
// functions that were copied into it. A function without any cannot be known.
func hasFile(pc uintptr) (yes, known bool) {
	for at := pc; ; at++ {
		f, _ := runtime.CallersFrames([]uintptr{at + 1}).Next() // of the call that returns there
		if f.Entry != pc {
			return false, false
		}
		if f.Func != nil {
			return f.File != "<autogenerated>", true
		}
	}
}

// builderMemory is memory of n bytes, at least large. The only way that the standard library has to memory that is not filled
// with zeros is a strings.Builder: its buffer is taken over after one byte was written, which makes it known.
func builderMemory(n int) []byte {
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0)
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}

func buffersAreKnown() bool {
	var b strings.Builder
	b.Grow(large)
	room := b.Cap()
	b.WriteByte(0)
	x, y := builderMemory(large), builderMemory(large)
	from, to := uintptr(unsafe.Pointer(&x[0])), uintptr(unsafe.Pointer(&y[0]))
	return room >= large && b.Cap() == room && (from|to)%16 == 0 && (to-from >= large && from-to >= large)
}

// static tells whether an address lies in the program's image, not on the heap: near a variable of this package.
func static(addr uintptr) bool {
	const image = 1 << 30 // more than any program has, less than the way to the heap
	here := uintptr(unsafe.Pointer(known))
	return addr-here < image || here-addr < image
}

func imageIsFar() bool {
	small, large, text := new(uint64), make([]byte, 1<<20), "constant"
	at := func(p unsafe.Pointer) bool { return static(uintptr(p)) }
	return bits.UintSize == 64 && !at(unsafe.Pointer(small)) && !at(unsafe.Pointer(&large[0])) && at(unsafe.Pointer(unsafe.StringData(text)))
}
