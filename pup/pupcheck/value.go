package pupcheck

import (
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"slices"
)

// flags say where a value comes from, besides places.
type flags uint

const (
	fromStream flags = 1 << iota // data that was visited through a variable
	fromGlobal
	fromClock
	fromRandom
	fromEnvironment
	fromChannel
	inMapOrder // elements stand in the order of a map
	fromPass   // a variable that the passes of a loop hand on
)

// deps is what a value depends on.
type deps struct {
	src    map[string]Place // parts of parameters that it was computed from
	unset  map[string]Place // those of src that unpacking had not restored when they were read
	temps  map[*Node]bool   // visits of temporaries whose data it holds
	lost   map[string]Loss  // conversions on the way that cannot hold every value
	flags  flags
	loops  uint64 // loops in whose passes it differs
	global string // name of a variable, for messages
}

func union[K comparable, V any](a, b map[K]V) map[K]V {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

func (d deps) and(o deps) deps {
	if d.global == "" {
		d.global = o.global
	}
	return deps{union(d.src, o.src), union(d.unset, o.unset), union(d.temps, o.temps), union(d.lost, o.lost),
		d.flags | o.flags, d.loops | o.loops, d.global}
}

// control is what remains of the dependence of a condition for a value assigned under it.
func (d deps) control() deps {
	d.temps, d.lost, d.flags = nil, nil, d.flags&^(inMapOrder|fromPass)
	return d
}

// refKind says what the places of a value are to it.
type refKind int

const (
	noRef     refKind = iota
	pointerTo         // the value is a pointer to the place
	headerOf          // the value is a slice or map whose elements are those of the place
	copyOf            // the value was read from the place
)

// A closure is a function value.
type closure struct {
	lit      *ast.FuncLit
	obj      *types.Func        // also where the body is elsewhere
	frame    *frame             // of lit
	recv     *value             // of a method value
	native   func([]arg) *value // the body of a loop over a function
	recvType types.Type         // what recv points to
	path     []int              // of a method expression: the embedded fields on the way to the method
	targs    *typeArgs
}

// A value is what is known of an expression's value. Values are not changed once made.
type value struct {
	deps
	kind    refKind
	refs    []Place
	raw     types.Type // the type whose bytes are seen through an unsafe conversion
	konst   constant.Value
	isNil   bool
	fn      *closure
	block   []string // fields of a pup.Block
	stream  bool
	list    []*value          // elements of a slice or array literal
	listed  bool              // list is complete
	fields  map[string]*value // of a struct literal
	tuple   []*value
	text    string // the same for equal values
	loop    *bound // the value is this loop's variable
	cmp     *comparison
	errVal  bool       // an error value
	length  *measure   // it comes from the length of a slice
	window  *[2]int64  // a slice of these elements of an array
	made    bool       // a new slice, map or pointer, or another length of an old one: no content yet
	carries bool       // it may hold the stream
	vague   bool       // refs are a guess
	clipped bool       // a slice that append cannot extend in place
	data    bool       // just what was visited
	origin  types.Type // what a number was before it was converted
	moving  bool       // a variable that is another slice in every pass of a loop
}

// A comparison is a condition of the form subject op constant.
type comparison struct {
	subject string
	lo, hi  int64 // the subject lies in [lo, hi]
	not     bool  // or outside
}

func constValue(k constant.Value) *value { return &value{konst: k, text: k.ExactString()} }

func boolValue(b bool) *value { return constValue(constant.MakeBool(b)) }

// depend is v with more dependence.
func (v *value) depend(d deps) *value {
	w := *v
	w.deps = w.deps.and(d)
	return &w
}

// plain keeps only the dependence of a value.
func (v *value) plain() *value { return &value{deps: v.deep()} }

// deep is the dependence of a value with all its parts.
func (v *value) deep() deps {
	d := v.deps
	for _, e := range v.list {
		d = d.and(e.deep())
	}
	for _, f := range v.fields {
		d = d.and(f.deep())
	}
	for _, e := range v.tuple {
		d = d.and(e.deep())
	}
	return d
}

func (v *value) truth() (is, known bool) {
	if v.konst == nil || v.konst.Kind() != constant.Bool {
		return false, false
	}
	return constant.BoolVal(v.konst), true
}

// part is the i-th of several results.
func (v *value) part(i int) *value {
	if i < len(v.tuple) {
		return v.tuple[i]
	}
	return v.plain()
}

// joinValues is what is known of a value that is one of two.
func joinValues(a, b *value) *value {
	if a == b || a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	if a.konst != nil && b.konst != nil && a.text == b.text {
		return a.depend(b.deps)
	}
	j := &value{deps: a.deep().and(b.deep()), kind: a.kind, raw: a.raw, stream: a.stream || b.stream, errVal: a.errVal || b.errVal}
	if a.kind == noRef {
		j.kind = b.kind
	}
	if a.fn != nil && b.fn == nil || a.fn != nil && b.fn != nil && a.fn.lit == b.fn.lit && a.fn.obj == b.fn.obj && a.fn.recv == b.fn.recv {
		j.fn = a.fn
	}
	for _, r := range slices.Concat(a.refs, b.refs) {
		if !slices.ContainsFunc(j.refs, func(p Place) bool { return p.key() == r.key() }) {
			j.refs = append(j.refs, r)
		}
	}
	if a.text == b.text {
		j.text, j.cmp, j.block = a.text, a.cmp, a.block
	}
	if a.loop == b.loop {
		j.loop = a.loop
	}
	if a.text == b.text && a.listed {
		j.list, j.listed = b.list, b.listed
	}
	j.length = joinMeasures(a, b)
	j.fields = joinFields(a, b)
	return j
}

func joinFields(a, b *value) map[string]*value {
	if a.fields == nil || b.fields == nil {
		return nil
	}
	m := maps.Clone(a.fields)
	for name, f := range b.fields {
		m[name] = joinValues(m[name], f)
	}
	return m
}

// and adds the dependence of another value.
func (v *value) and(o *value) *value { return v.depend(o.deps) }
