package pup

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Class is how values of a type are traversed, fastest first.
type Class uint8

const (
	PlainClass       Class = iota // without pointers: copied as memory
	GeneratedClass                // by code from pupgen
	HandwrittenClass              // by a PUP method, or a function given with Visit, of the type's author
	BinaryClass                   // by the type's MarshalBinary and UnmarshalBinary
	ReflectedClass                // by reflection, the last resort
	RefusedClass                  // cannot be saved
)

func (c Class) String() string {
	return [...]string{"plain", "generated", "handwritten", "binary", "reflected", "refused"}[c]
}

// ClassOf returns how values of type T are traversed.
func ClassOf[T any]() Class { return known.info(reflect.TypeFor[T]()).class }

// typeInfo is all that pup knows of a type. It is made once and then only read.
type typeInfo struct {
	t       reflect.Type
	number  uint32        // of its own, while the process lives
	reg     *registration // nil: not registered
	name    string        // in schemas; "" for types that have no name of their own there
	class   Class
	layout  *layout // not nil: plain
	least   uint64  // fewest bytes that a value takes; 0 when unknown
	hand    bool    // its own code decides what is visited
	code    bool    // code of somebody's own is given a part of its values' memory, and may write to it
	direct  bool    // an interface holds its values themselves
	visit   func(p *Stream, v unsafe.Pointer)
	value   func(p *Stream, v unsafe.Pointer) // p.value: the element function of what holds such values
	fields  []field                           // of a structure that is walked by its fields
	skips   map[uintptr]reflect.Type          // of a structure with generated code: what that skips, by offset
	steps   []step                            // the same, joined
	short   *shortCode                        // not nil: does for short values what the steps do
	elem    *typeInfo                         // of slices, arrays, pointers and maps
	key     *typeInfo
	init    func(v unsafe.Pointer)             // not nil: what a new value begins as, where it is not zero
	make    maker                              // what a slice or a pointer leads to
	pointer func(p *Stream, v *unsafe.Pointer) // not nil: how a pointer to such a value is visited, whatever visits the value
	special string                             // the word for it in schemas: types of the standard library with a form of their own
	fault   error                              // why it cannot be saved
	schema  atomic.Pointer[table]
}

// field is a visited field of a structure.
type field struct {
	name string
	off  uintptr
	info *typeInfo
}

// cachedInfo is a line of a stream's own cache, which saves the way to the registry.
type cachedInfo struct {
	key    uintptr
	info   *typeInfo
	number uint64 // of a dynamic type in this stream, + 1
}

// leads tells whether values of a type may lead to memory that others share: to all but plain values and strings. A graph of
// one that does not is stored as a tree is.
func (i *typeInfo) leads() bool { return i.layout == nil && (i.t.Kind() != reflect.String || i.hand) }

// infoFor is the information about T. A pointer to T has the same key in the cache, and is cheaper to ask for its type.
func infoFor[T any](p *Stream) *typeInfo {
	x := any((*T)(nil))
	key := uintptr((*eface)(unsafe.Pointer(&x)).typ)
	if line := &p.infos[key>>6%lines]; line.key == key {
		return line.info
	}
	return p.infoLine(key, reflect.TypeFor[T]()).info
}

// lines is the size of a stream's cache; a type has one of some lines in a row.
const (
	lines      = 16
	linesInRow = 4
)

// infoLine is the line of the cache for a type and its key.
func (p *Stream) infoLine(key uintptr, t reflect.Type) *cachedInfo {
	at := key >> 6
	for n := range uintptr(linesInRow) {
		line := &p.infos[(at+n)%lines]
		if line.key == key {
			return line
		}
		if line.key == 0 {
			at += n
			break
		}
	}
	line := &p.infos[at%lines]
	*line = cachedInfo{key: key, info: known.info(t)}
	return line
}

// infoOf is infoFor for a type that is known only now. Its key is odd, to differ from the one of what a pointer type
// points to.
func (p *Stream) infoOf(t reflect.Type) *cachedInfo {
	return p.infoLine(uintptr((*eface)(unsafe.Pointer(&t)).data)|1, t)
}

// info returns the information about a type.
func (k *registry) info(t reflect.Type) *typeInfo {
	if i, ok := k.infos.Load(t); ok {
		return i.(*typeInfo)
	}
	k.begin()
	fresh := map[reflect.Type]*probing{}
	k.probeAll(t, fresh)
	k.mu.Lock()
	defer k.mu.Unlock()
	for t, b := range fresh {
		k.probes[t] = b
	}
	k.making = map[reflect.Type]*typeInfo{}
	i := k.make(t)
	for _, made := range k.making {
		k.infos.LoadOrStore(made.t, made)
	}
	k.making = nil
	published, _ := k.infos.Load(i.t)
	return published.(*typeInfo)
}

// make works a type out. A type that holds itself finds itself in making.
func (k *registry) make(t reflect.Type) *typeInfo {
	if i, ok := k.infos.Load(t); ok {
		return i.(*typeInfo)
	}
	if i := k.making[t]; i != nil {
		return i
	}
	k.count++
	i := &typeInfo{t: t, number: k.count, reg: k.byType[t], class: ReflectedClass, direct: direct(t)}
	i.value = func(p *Stream, v unsafe.Pointer) { p.value(i, v) }
	k.making[t] = i
	i.name = k.nameOf(t)
	if i.reg != nil {
		i.fault, i.init = i.reg.fault, i.reg.construct
	}
	probed := k.probes[t]
	i.skips = probed.skips
	switch reason := refused(t); {
	case reason != "":
		i.refuse(errors.New(reason))
	case i.reg != nil && i.reg.visit != nil:
		i.class, i.hand, i.visit = HandwrittenClass, true, i.reg.visit
	case probed.hand:
		i.class, i.hand, i.visit = HandwrittenClass, true, callPUP(t)
	case k.makeStandard(i):
	case identity(t) != "":
		i.refuse(errors.New(identity(t)))
		if t == reflect.TypeFor[time.Location]() {
			i.pointer = func(p *Stream, v *unsafe.Pointer) { Location(p, (**time.Location)(unsafe.Pointer(v))) }
		}
	case probed.fault != nil:
		i.refuse(probed.fault)
	case k.plain(t) != nil:
		i.makePlain(k.plain(t))
	case probed.generated:
		k.makeByKind(i) // the same visits as the generated code makes, without the calls
		if i.class = GeneratedClass; holdsMap(t) {
			i.steps, i.visit = nil, callPUP(t) // which knows the types of keys and values
		}
		if code := k.shorts[t]; anyAlignment && code != nil && i.agrees(code) {
			i.short = code
		}
	case probed.binary:
		i.class, i.least, i.special = BinaryClass, 1, "binary"
		i.visit = func(p *Stream, v unsafe.Pointer) { Binary(p, reflect.NewAt(t, v).Interface().(BinaryValue)) }
	default:
		k.makeByKind(i)
	}
	i.code = i.hand || i.class == BinaryClass || i.t.Kind() == reflect.Array && i.elem != nil && i.elem.code ||
		slices.ContainsFunc(i.fields, func(f field) bool { return f.info.code })
	return i
}

// nameOf is a type's name in schemas: as registered, or else its package and name, which no build changes. Types whose
// name says nothing about how they are stored have none.
func (k *registry) nameOf(t reflect.Type) string {
	if t.PkgPath() == "" || t.Kind() <= reflect.Complex128 || t.Kind() == reflect.String || t.Kind() == reflect.Interface {
		return ""
	}
	if r := k.byType[t]; r != nil {
		return r.name
	}
	return t.PkgPath() + "." + strings.ReplaceAll(t.Name(), " ", "")
}

// plain is the layout of a type that is plain and is nowhere traversed by code of its author's own.
func (k *registry) plain(t reflect.Type) *layout {
	if !k.untouched(t) {
		return nil
	}
	return layoutOf(t)
}

// untouched tells whether no part of a type's own memory has code of its own.
func (k *registry) untouched(t reflect.Type) bool {
	if r := k.byType[t]; r != nil && (r.visit != nil || r.fault != nil || r.construct != nil) {
		return false
	}
	if probed := k.probes[t]; probed.hand || probed.fault != nil || len(probed.skips) > 0 || unsaved(t) != "" {
		return false
	}
	switch t.Kind() {
	case reflect.Array:
		return k.untouched(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if _, skip := skipTag(f); !skip && f.Name != "_" && !k.untouched(f.Type) {
				return false
			}
		}
	}
	return true
}

func (i *typeInfo) makePlain(l *layout) {
	i.class, i.layout, i.least = PlainClass, l, l.wire
	t := i.t
	i.visit = func(p *Stream, v unsafe.Pointer) {
		if p.mode == observing {
			p.watch.visit(p, t, v)
		} else {
			p.plain(l, v, 1)
		}
	}
}

// refuse makes i a type that fails wherever it is met.
func (i *typeInfo) refuse(reason error) {
	i.class = RefusedClass
	i.fault = fmt.Errorf("%w: %v: %w", ErrType, i.t, reason)
	i.visit = func(p *Stream, v unsafe.Pointer) { p.fail(placeOf(v, shapeOf(i.t.Kind())), "%w", i.fault) }
}

// skipTag reads the tag pup:"-,reason".
func skipTag(f reflect.StructField) (reason string, skip bool) {
	tag, ok := f.Tag.Lookup("pup")
	if !ok {
		return "", false
	}
	word, reason, _ := strings.Cut(tag, ",")
	return reason, word == "-"
}

// refused says why no value of a type can be saved, or "".
func refused(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Chan:
		return "a channel belongs to the goroutines that use it; skip it and make it again"
	case reflect.Func:
		return "a function has no form outside the program; skip it and set it again"
	case reflect.UnsafePointer:
		return "what it points to is not known; skip it"
	}
	switch t {
	case reflect.TypeFor[sync.Mutex](), reflect.TypeFor[sync.RWMutex](), reflect.TypeFor[sync.Once](),
		reflect.TypeFor[sync.WaitGroup](), reflect.TypeFor[sync.Cond](), reflect.TypeFor[sync.Pool](),
		reflect.TypeFor[sync.Map](), reflect.TypeFor[atomic.Value]():
		return "its state means nothing outside the process; skip it"
	}
	return ""
}

// unsaved says why no value of a type can be saved as it is, or "".
func unsaved(t reflect.Type) string { return cmp.Or(refused(t), identity(t)) }

// A probing is what the PUP of a type shows of itself when it visits a zero value with idle helpers.
type probing struct {
	t         reflect.Type
	v         unsafe.Pointer // the zero value
	hand      bool
	generated bool
	binary    bool  // by MarshalBinary and UnmarshalBinary
	fault     error // why it cannot be known
	skips     map[uintptr]reflect.Type
}

// old is told of calls of Old, the first call of generated code, and answers whether that goes on to say what it skips.
func (b *probing) old(t reflect.Type, v unsafe.Pointer) bool {
	if t != b.t || v != b.v {
		return false // of a value inside
	}
	b.generated = true
	return true
}

// skip is told of calls of Skip.
func (b *probing) skip(t reflect.Type, v unsafe.Pointer) {
	if at := uintptr(v) - uintptr(b.v); at < b.t.Size() {
		if b.skips == nil {
			b.skips = map[uintptr]reflect.Type{}
		}
		b.skips[at] = t
	}
}

// skipped tells whether a field is not saved, by its tag or by generated code.
func (i *typeInfo) skipped(f reflect.StructField) bool {
	_, tag := skipTag(f)
	return tag || f.Name == "_" || !i.hand && i.skips[f.Offset] == f.Type
}

// probeAll probes a type and all that it is made of, as far as that was not done. It runs the authors' code, which may do
// what it likes, even pack something, and so holds no lock meanwhile. Two goroutines may probe the same type; they find
// the same.
func (k *registry) probeAll(t reflect.Type, fresh map[reflect.Type]*probing) {
	k.mu.Lock()
	done := k.probes[t] != nil || fresh[t] != nil
	k.mu.Unlock()
	if done {
		return
	}
	fresh[t] = probe(t)
	switch t.Kind() {
	case reflect.Map:
		k.probeAll(t.Key(), fresh)
		k.probeAll(t.Elem(), fresh)
	case reflect.Slice, reflect.Array, reflect.Pointer:
		k.probeAll(t.Elem(), fresh)
	case reflect.Struct:
		for i := range t.NumField() {
			k.probeAll(t.Field(i).Type, fresh)
		}
	}
}

// probe finds out whether *T has a PUP method of its own, and of which kind.
func probe(t reflect.Type) (b *probing) {
	b = &probing{t: t}
	b.binary, b.fault = isBinary(t)
	yes, err := own(t, reflect.TypeFor[PUPer](), "PUP")
	if !yes {
		b.fault = errors.Join(err, b.fault)
		return b
	}
	b.fault = nil
	defer func() {
		if recover() != nil {
			b.generated = false // it is the author's code that does not bear a zero value
		}
		b.hand = !b.generated
	}()
	v := reflect.New(t)
	b.v = v.UnsafePointer()
	v.Interface().(PUPer).PUP(&Stream{state: state{mode: failed, evolving: true, probe: b}})
	return b
}

// isBinary tells whether a type has both methods of encoding.BinaryMarshaler and its counterpart, its own.
func isBinary(t reflect.Type) (yes bool, err error) {
	if yes, err = own(t, reflect.TypeFor[encoding.BinaryMarshaler](), "MarshalBinary"); yes {
		yes, err = own(t, reflect.TypeFor[encoding.BinaryUnmarshaler](), "UnmarshalBinary")
	}
	return yes, err
}

// own tells whether *T implements an interface by a method of its own. The compiler gives a structure the methods of what
// it embeds, which would leave out its other fields. The error says that it cannot be known.
func own(t, i reflect.Type, method string) (bool, error) {
	if t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer || !reflect.PointerTo(t).Implements(i) {
		return false, nil
	}
	if !embeds(t, i) {
		return true, nil
	}
	if runtimeHas.wrappers.holds() {
		if written, known := hasFile(methodOf(t, method)); known {
			return written, nil
		}
	}
	return false, fmt.Errorf("whose %s it has, its own or that of what it embeds: %w", method, runtimeHas.wrappers.fault())
}

// embeds tells whether what a structure embeds has a method of an interface, so that the structure may have it from there.
func embeds(t, i reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for n := range t.NumField() {
		f := t.Field(n)
		if f.Anonymous && (f.Type.Implements(i) || reflect.PointerTo(f.Type).Implements(i)) {
			return true
		}
	}
	return false
}

// callPUP calls the PUP method of the value at v. It makes the interface by putting v into one that was made before, which
// costs nothing.
func callPUP(t reflect.Type) func(p *Stream, v unsafe.Pointer) {
	template := reflect.New(t).Interface().(PUPer)
	return func(p *Stream, v unsafe.Pointer) {
		x := template
		(*eface)(unsafe.Pointer(&x)).data = v
		x.PUP(p)
	}
}

// holdsMap tells whether a map is a part of a type, or of what is a part of it and has no name.
func holdsMap(t reflect.Type) bool {
	inside := func(t reflect.Type) bool { return t.Name() == "" && holdsMap(t) || t.Kind() == reflect.Map }
	switch t.Kind() {
	case reflect.Map:
		return true
	case reflect.Array, reflect.Slice, reflect.Pointer:
		return inside(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if inside(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// BinaryValue is what Binary traverses.
type BinaryValue interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}
