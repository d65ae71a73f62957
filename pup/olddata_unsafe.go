package pup

import (
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// reader reads data whose type the program does not have any more, by the schema that came with it.
type reader struct {
	p    *Stream
	data *table
}

// kindWords are the words of schemas for numbers.
var kindWords = func() map[string]reflect.Kind {
	words := map[string]reflect.Kind{}
	for k := reflect.Bool; k <= reflect.Complex128; k++ {
		words[k.String()] = k
	}
	return words
}()

func kindOf(word string) (reflect.Kind, bool) {
	k, ok := kindWords[word]
	return k, ok
}

// widens tells whether every value of one type expression has its like in another.
func widens(from, to string) bool {
	if a, b, n, ok := bothElements(from, to); ok {
		return n && widens(a, b)
	}
	f, ok1 := kindOf(from)
	t, ok2 := kindOf(to)
	if !ok1 || !ok2 || f == reflect.Bool || t == reflect.Bool {
		return false
	}
	if f == t {
		return true
	}
	signed := func(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Int64 }
	unsigned := func(k reflect.Kind) bool { return k >= reflect.Uint && k <= reflect.Uintptr }
	float := func(k reflect.Kind) bool { return k == reflect.Float32 || k == reflect.Float64 }
	exact := map[reflect.Kind]uint64{reflect.Float32: 2, reflect.Float64: 4} // bytes of integers that it holds
	switch {
	case signed(f) && signed(t), unsigned(f) && (unsigned(t) || signed(t)), float(f) && float(t):
		return wireSize(f) < wireSize(t)
	case (signed(f) || unsigned(f)) && float(t):
		return wireSize(f) <= exact[t]
	case f == reflect.Complex64:
		return t == reflect.Complex128
	case f == reflect.Float32:
		return t == reflect.Complex64 || t == reflect.Complex128
	case f == reflect.Float64:
		return t == reflect.Complex128
	}
	return false
}

// bothElements takes the element types of two slices, or of two arrays, which must be equally long.
func bothElements(from, to string) (a, b string, same, ok bool) {
	if !strings.HasPrefix(from, "[") || !strings.HasPrefix(to, "[") {
		return "", "", false, false
	}
	i, j := strings.IndexByte(from, ']')+1, strings.IndexByte(to, ']')+1
	return from[i:], to[j:], from[:i] == to[:j], true
}

// widen reads numbers of a narrower type.
func (r reader) widen(expr string, t reflect.Type, v unsafe.Pointer) {
	switch t.Kind() {
	case reflect.Slice:
		r.widenSlice(expr[2:], t, v)
	case reflect.Array:
		expr = expr[strings.IndexByte(expr, ']')+1:]
		for n := range t.Len() {
			r.widen(expr, t.Elem(), unsafe.Add(v, uintptr(n)*t.Elem().Size()))
		}
	default:
		r.widenNumber(expr, reflect.NewAt(t, v).Elem())
	}
}

// widenSlice reads a slice of elements of a narrower type. In a graph, the object in which they lie becomes one of the wider type:
// whatever else leads to it must be widened alike.
func (r reader) widenSlice(elem string, t reflect.Type, v unsafe.Pointer) {
	p, i, h, least := r.p, known.info(t), (*sliceHeader)(v), uint64(min(1, t.Elem().Size()))
	wide := func(_ *Stream, e unsafe.Pointer) { r.widen(elem, t.Elem(), e) }
	if p.graph != nil {
		p.graphSlice(h, i.elem, i.make, least, wide)
	} else {
		p.unpackSlice(h, i.elem, i.make, least, wide)
	}
}

func (r reader) widenNumber(expr string, to reflect.Value) {
	k, _ := kindOf(expr)
	from := reflect.New(basicTypes()[k]).Elem()
	l := layoutOf(from.Type())
	if r.p.plain(l, from.Addr().UnsafePointer(), 1); r.p.mode == failed {
		return
	}
	if to.Kind() == reflect.Complex64 || to.Kind() == reflect.Complex128 {
		if from.CanFloat() {
			to.SetComplex(complex(from.Float(), 0))
			return
		}
	}
	to.Set(from.Convert(to.Type()))
}

// basicTypes are the types that kinds of numbers stand for.
func basicTypes() map[reflect.Kind]reflect.Type {
	list := map[reflect.Kind]reflect.Type{}
	for _, v := range []any{false, int8(0), int16(0), int32(0), int64(0), uint8(0), uint16(0), uint32(0), uint64(0),
		float32(0), float64(0), complex64(0), complex128(0)} {
		list[reflect.TypeOf(v).Kind()] = reflect.TypeOf(v)
	}
	return list
}

// drop reads a value and forgets it.
func (r reader) drop(expr string) {
	p, at := r.p, place{}
	if p.mode == failed || !p.enter(at) {
		return
	}
	defer p.leave()
	before := p.done()
	r.dropKind(expr)
	if p.mode != failed && p.done() == before {
		p.spend(at) // made-up schemas could hold any number of things that take no bytes
	}
}

// dropKind is drop for each kind of type.
func (r reader) dropKind(expr string) {
	p, at := r.p, place{}
	k, number := kindOf(expr)
	switch {
	case number:
		r.dropBytes(wireSize(k))
	case expr == "string":
		n := uint64(0)
		p.uvarint(&n, at)
		r.dropBytes(n)
	case strings.HasPrefix(expr, "[]"):
		r.dropSlice(expr[2:])
	case strings.HasPrefix(expr, "["):
		end := strings.IndexByte(expr, ']')
		n, err := strconv.Atoi(expr[1:max(end, 1)])
		for i := 0; i < n && p.mode != failed; i++ {
			r.drop(expr[end+1:])
		}
		if err != nil {
			p.fail(at, "%w: type %q in the schema", ErrData, expr)
		}
	case strings.HasPrefix(expr, "map["):
		r.dropMap(expr[4:])
	case expr[:min(1, len(expr))] == "*":
		r.dropPointer(expr[1:])
	case strings.HasPrefix(expr, "struct{"):
		r.dropFields(splitFields(expr))
	case expr == "interface":
		var x any
		Interface(p, &x)
	default:
		r.dropNamed(expr)
	}
}

func (r reader) dropBytes(n uint64) {
	if !r.p.fits(n, 1, place{}) {
		return
	}
	var b [512]byte
	for ; n > 0 && r.p.mode != failed; n -= min(n, uint64(len(b))) {
		r.p.bytes(b[:min(n, uint64(len(b)))], place{})
	}
}

func (r reader) dropFields(list []fieldLine) {
	for _, f := range list {
		r.drop(f.expr)
	}
}

// dropNamed forgets a value of a named type, or of one with a form of its own.
func (r reader) dropNamed(expr string) {
	p := r.p
	l := r.data.entries[expr]
	if l == nil {
		for _, s := range standards() {
			if s.t == reflect.TypeFor[*time.Location]() && s.word == expr {
				new(zoneForm).visit(p) // this machine need not know it
				return
			}
			if s.word == expr {
				s.visit(p, reflect.New(s.t).UnsafePointer())
				return
			}
		}
	}
	switch {
	case l == nil:
		p.fail(place{}, "%w: type %.100q in the schema", ErrData, expr)
	case l.form == "struct" || l.form == "is":
		r.dropFields(l.fields)
	case l.form == "binary":
		n := uint64(0)
		p.uvarint(&n, place{})
		r.dropBytes(n)
	default:
		reg := known.named(expr)
		if reg == nil {
			p.fail(place{}, "%w: a %s was removed that only its own code can read: keep the type registered", ErrSchema, expr)
			return
		}
		p.value(known.info(reg.t), reflect.New(reg.t).UnsafePointer())
	}
}

// splitFields takes the fields of a structure without a name: struct{A int64,B []string}.
func splitFields(expr string) []fieldLine {
	var list []fieldLine
	rest := strings.TrimSuffix(strings.TrimPrefix(expr, "struct{"), "}")
	for rest != "" {
		depth, end := 0, len(rest)
		for i, c := range rest {
			if c == '{' || c == '[' {
				depth++
			} else if c == '}' || c == ']' {
				depth--
			} else if c == ',' && depth == 0 {
				end = i
				break
			}
		}
		name, of, _ := strings.Cut(rest[:end], " ")
		list = append(list, fieldLine{name, of})
		rest = strings.TrimPrefix(rest[end:], ",")
	}
	return list
}

func (r reader) dropSlice(elem string) {
	p, n, token := r.p, uint64(0), uint64(0)
	if r.empty(elem) {
		return
	}
	if p.graph == nil {
		if p.uvarint(&n, place{}); n > 0 {
			r.dropEach(n-1, elem)
		}
		return
	}
	switch p.uvarint(&token, place{}); token {
	case tokenNil:
	case tokenWhole:
		if p.uvarint(&n, place{}); n > 0 && p.mode != failed {
			p.graph.objects.add(object{info: known.info(reflect.TypeFor[dropped]())})
		}
		r.dropEach(n, elem)
	default:
		p.fail(place{}, "%w: a removed field shares a slice with others", ErrSchema)
	}
}

// dropped stands for objects that were read and forgotten: a later reference finds another type than it wants.
type dropped struct{ _ byte }

func (r reader) dropEach(n uint64, elem string) {
	if k, ok := kindOf(elem); ok {
		if n <= r.p.left()/wireSize(k) || r.p.mode == failed {
			r.dropBytes(n * wireSize(k))
			return
		}
	}
	if !r.p.fits(n, 1, place{}) {
		return
	}
	for ; n > 0 && r.p.mode != failed; n-- {
		r.drop(elem)
	}
}

func (r reader) dropMap(expr string) {
	depth, end := 1, 0
	for end < len(expr) && depth > 0 {
		switch expr[end] {
		case '[':
			depth++
		case ']':
			depth--
		}
		end++
	}
	if r.p.graph != nil && !r.freshMap() {
		return
	}
	n := uint64(0)
	if r.p.uvarint(&n, place{}); n == 0 || depth > 0 || !r.p.fits(n-1, 1, place{}) {
		return
	}
	for n--; n > 0 && r.p.mode != failed; n-- {
		r.drop(expr[:end-1])
		r.drop(expr[end:])
	}
}

// freshMap reads a map's token in a graph and tells whether the entries follow.
func (r reader) freshMap() bool {
	p, token := r.p, uint64(0)
	switch p.uvarint(&token, place{}); {
	case p.mode == failed || token == tokenNil:
		return false
	case token != tokenNew:
		p.fail(place{}, "%w: a removed field shares a map with others", ErrSchema)
		return false
	}
	p.graph.objects.add(object{info: known.info(reflect.TypeFor[dropped]())})
	return true
}

// empty refuses, in a graph, to drop what takes no bytes: whether it counts as an object is not in the data.
func (r reader) empty(elem string) bool {
	l := r.data.entries[elem]
	if r.p.graph != nil && (elem == "struct{}" || strings.HasPrefix(elem, "[0]") || l != nil && len(l.fields) == 0) {
		r.p.fail(place{}, "%w: a removed field leads to values of no size in a graph", ErrSchema)
		return true
	}
	return false
}

func (r reader) dropPointer(elem string) {
	p, token := r.p, uint64(0)
	if r.empty(elem) {
		return
	}
	p.uvarint(&token, place{})
	switch {
	case token == tokenNil || p.mode == failed:
	case token != tokenNew:
		p.fail(place{}, "%w: a removed field shares what it points to with others", ErrSchema)
	case p.graph == nil:
		r.drop(elem)
	default:
		p.graph.objects.add(object{info: known.info(reflect.TypeFor[dropped]())})
		p.content(nil, place{}, func(*Stream, unsafe.Pointer) { r.drop(elem) })
	}
}
