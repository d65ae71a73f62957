package pup

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"time"
	"unsafe"
)

// A union is a value whose code visits some fields only when others say so. Its other fields hold zeros, and no visit of
// those is missed. Whether code is of this kind is found out by giving it values that nobody had: each field in turn gets
// some that are usual for kinds, flags and counts, and what is visited then is compared. Words for kinds cannot be
// guessed; code that refuses the one it is given shows that it asks.

// trials tell what would become of a value that nobody had, by giving one.
type trials struct {
	of     *subject
	seen   *sightings
	quiet  bool            // compare only: nothing where the walk is was visited, and nothing can be tried out
	owners []reflect.Value // variables with code of their own on the way to where the walk is
	unions map[reflect.Type]bool
}

// lost tells whether a part that holds nothing, and was not visited, would be lost if it held something.
func (t *trials) lost(a, b reflect.Value) bool { return !t.quiet && !t.union(a) && !t.carried(b) }

// carried gives a part of the copy another value and looks whether that survives packing.
func (t *trials) carried(part reflect.Value) (yes bool) {
	mark, ok := marked(part.Type())
	if !ok || !part.CanSet() {
		return false
	}
	was := reflect.New(part.Type()).Elem()
	was.Set(part)
	part.Set(mark)
	defer func() {
		if recover() != nil {
			yes = false
		}
		part.Set(was)
	}()
	data, err := Marshal(t.of.copy.Interface(), t.of.opts...)
	if err != nil {
		return false
	}
	again := reflect.New(t.of.root.info.t)
	if err := Unmarshal(data, again.Interface(), t.of.opts...); err != nil {
		return false
	}
	other, err := Marshal(again.Interface(), t.of.opts...)
	part.Set(was)
	plain, _ := Marshal(t.of.copy.Interface(), t.of.opts...)
	return err == nil && bytes.Equal(other, data) && !bytes.Equal(data, plain)
}

// union asks those whose code should have visited a variable, the nearest first, as far as they were visited themselves.
func (t *trials) union(part reflect.Value) bool {
	if !part.CanAddr() {
		return false
	}
	for _, o := range slices.Backward(t.owners) {
		if t.seen.within(o.UnsafeAddr(), o.Type().Size()) {
			return t.depends(o, part.UnsafeAddr())
		}
	}
	return false
}

// depends tells whether the owner's code asks values what to visit, or visits the variable at part for some.
func (t *trials) depends(owner reflect.Value, part uintptr) bool {
	of, depth := owner.Type(), t.of.o.maxDepth
	asks, known := t.unions[of]
	if !known {
		asks = try(of, reflect.Zero(of), owner.UnsafeAddr(), 0, depth)
		t.unions[of] = asks
	}
	return asks || try(of, owner, owner.UnsafeAddr(), part, depth)
}

// try runs the code of a type on copies of a value that differ from it in one field, and compares what is visited of the
// copies, or looks for a visit of the variable at part, if that is not 0.
func try(t reflect.Type, base reflect.Value, begin, part uintptr, depth int) (yes bool) {
	v := reflect.New(t).Elem()
	v.Set(base)
	if part-begin < t.Size() {
		part += v.UnsafeAddr() - begin
	}
	first := look(v, part, depth)
	leaves(v, func(leaf reflect.Value) bool {
		was := variableOf(leaf)
		for _, x := range attempts(leaf) {
			leaf.Set(x)
			next := look(v, part, depth)
			yes = next.found || !next.failed && !first.failed && !maps.Equal(first.own, next.own) ||
				next.failed != first.failed && leaf.Kind() == reflect.String
			if yes {
				break
			}
		}
		leaf.Set(was)
		return !yes
	})
	return yes
}

// leaves calls f for the parts of a variable's own memory that hold one value, until f has enough.
func leaves(v reflect.Value, f func(reflect.Value) bool) bool {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "_" && !leaves(fieldOf(v, i), f) {
				return false
			}
		}
		return true
	case v.Kind() == reflect.Array && v.Len() > 0:
		return leaves(v.Index(0), f) // kinds are no arrays
	}
	return f(v)
}

// marked is a value of a type that is not zero.
func marked(t reflect.Type) (reflect.Value, bool) {
	v := reflect.New(t).Elem()
	switch {
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	case v.CanComplex():
		v.SetComplex(1)
	case t.Kind() == reflect.Bool:
		v.SetBool(true)
	case t.Kind() == reflect.String:
		v.SetString("x")
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
	case t.Kind() == reflect.Map && t.Key().Comparable():
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(reflect.Zero(t.Key()), reflect.Zero(t.Elem()))
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 1)))
	default:
		return v, false
	}
	return v, true
}

// attempts are values that a field may have when others depend on it.
func attempts(leaf reflect.Value) (list []reflect.Value) {
	add := func(n uint64) {
		x := reflect.New(leaf.Type()).Elem()
		switch {
		case x.CanInt() && !x.OverflowInt(int64(n)):
			x.SetInt(int64(n))
		case x.CanUint() && !x.OverflowUint(n):
			x.SetUint(n)
		default:
			return
		}
		list = append(list, x)
	}
	if leaf.CanInt() || leaf.CanUint() {
		const small, bits = 16, 20
		for n := range uint64(small) {
			add(n)
		}
		for n := range bits {
			add(1 << n)
		}
		if leaf.CanInt() {
			add(^uint64(0))
		}
		return list
	}
	list = append(list, reflect.Zero(leaf.Type()))
	if leaf.Kind() == reflect.Interface {
		return append(list, known.implementing(leaf.Type())...)
	}
	if x, ok := marked(leaf.Type()); ok {
		list = append(list, x)
	}
	return list
}

// look runs the code of a variable's type.
func look(v reflect.Value, part uintptr, depth int) (l *lookout) {
	const most = 1 << 12
	l = &lookout{base: v.UnsafeAddr(), size: v.Type().Size(), part: part, left: most, own: map[visited]bool{}, entered: map[visited]bool{}}
	p := &Stream{state: state{mode: observing, watch: l, maxDepth: depth}}
	p.push(frame{t: v.Type(), val: v.Addr().UnsafePointer()})
	defer func() {
		l.failed = recover() != nil || p.err != nil
	}()
	p.value(known.info(v.Type()), v.Addr().UnsafePointer())
	return l
}

// A lookout notes what is visited of a variable's own memory, and whether another one is.
type lookout struct {
	base, size, part uintptr
	left             int // visits until it has seen enough
	inside           int // what the variable leads to
	own              map[visited]bool
	entered          map[visited]bool
	found, failed    bool
}

func (l *lookout) visit(p *Stream, t reflect.Type, v unsafe.Pointer) descent {
	at := uintptr(v)
	if l.left--; l.left < 0 {
		panic("enough")
	}
	if l.inside == 0 && at-l.base < l.size {
		l.own[visited{at - l.base, t}] = true
	}
	if l.part != 0 && l.part-at < t.Size() {
		l.found = true
	}
	key := visited{at, t}
	if l.entered[key] || !refers(reflect.NewAt(t, v).Elem()) {
		return stop
	}
	l.entered[key] = true
	l.inside++
	return content
}

// refers tells whether a variable leads somewhere.
func refers(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Interface:
		return !v.IsNil()
	case reflect.Slice:
		return v.Len() > 0
	}
	return false
}

func (l *lookout) leave()                                             { l.inside-- }
func (l *lookout) entry(unsafe.Pointer, reflect.Value, reflect.Value) {}
func (l *lookout) skip(*Stream, reflect.Type, unsafe.Pointer, string) {}
