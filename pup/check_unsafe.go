package pup

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// A Fault is something that Check found.
type Fault struct {
	Path   string // of the variable, from the value that was checked
	Kind   FaultKind
	Detail string
	Fields []FieldRef // the fields on the way to the variable, outermost first
}

// A FieldRef is a field of a structure.
type FieldRef struct {
	Struct reflect.Type
	Name   string
}

// FaultKind says what is wrong with a variable.
type FaultKind string

const (
	Missed  FaultKind = "missed"  // no part of PUP visits it, and it does not come back
	Doubled FaultKind = "doubled" // visited twice
	Changed FaultKind = "changed" // visited, but it comes back different
	Shared  FaultKind = "shared"  // memory that two variables share is not shared afterwards
	Unsound FaultKind = "unsound" // the value as a whole: it cannot be packed, or not twice alike
)

func (f Fault) String() string { return fmt.Sprintf("%s: %s: %s", f.Path, f.Kind, f.Detail) }

// A CheckError is what Check found, all of it.
type CheckError struct{ Faults []Fault }

func (e *CheckError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pup: check: %d faults", len(e.Faults))
	for _, f := range e.Faults {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// mostFaults is after how many Check stops: a fault in an element shows in all elements.
const mostFaults = 100

// Check proves on a value that its PUP methods are right: it packs and unpacks it, compares the variables that were visited,
// by their addresses, with those that reflection finds, and the copy with the value. It returns nil or a *CheckError that
// lists every variable that was missed, visited twice, or changed, memory that is no longer shared, and values that are sized
// as other than they are packed. Options are those of Marshal. Check does not change the value; it takes several times the
// value's memory.
//
// A field that was not visited and holds zero is missed unless the type is seen to visit it for some values: so that each
// kind of a union is proved, check a value of each.
func Check(v any, opts ...Option) error {
	t, err := source(v)
	if err != nil {
		return err
	}
	c := &checker{root: t, opts: opts, o: optionsOf(opts), skips: map[uintptr]string{}, visits: map[uintptr][]visit{},
		entries: map[uintptr][]checkedEntry{}, pairs: map[pair]bool{}, unions: map[reflect.Type]bool{}, entered: map[visited]bool{},
		forth: map[visited]uintptr{}, back: map[visited]uintptr{}}
	c.check()
	if len(c.faults) == 0 {
		return nil
	}
	return &CheckError{c.faults}
}

// checker is one run of Check. As an observer it notes what is visited; then it walks the value by reflection.
type checker struct {
	root    target
	opts    []Option
	o       options
	copy    reflect.Value // what came back; a pointer
	faults  []Fault
	changes []image         // variables that packing has changed
	quiet   bool            // compare only: nothing in here was visited, and nothing can be tried out
	owners  []reflect.Value // variables with code of their own on the way to where the walk is
	unions  map[reflect.Type]bool
	fields  []FieldRef          // on the way to where the walk is
	skips   map[uintptr]string  // addresses of variables that are skipped on purpose
	visits  map[uintptr][]visit // by address
	entries map[uintptr][]checkedEntry
	acts    []int // activations that are open: what a pointer, slice, map or interface leads to
	nextAct int
	pairs   map[pair]bool
	entered map[visited]bool
	forth   map[visited]uintptr // from a variable of the value to its copy
	back    map[visited]uintptr
	sorted  []uintptr       // addresses of all visits
	keep    []reflect.Value // copies of map entries, whose addresses must not be used again
	via     string          // the last reference that was followed
	boxed   bool            // what is walked lies in an interface: nobody can tell whether others see the same memory
}

// visit is a variable that was visited.
type visit struct {
	t     reflect.Type
	act   int // what led to it
	times int
}

// checkedEntry is a map's entry, in the copies that were visited, or the copy of what an interface holds.
type checkedEntry struct{ key, val reflect.Value }

type pair struct {
	a, b uintptr
	t    reflect.Type
}

func (c *checker) fault(path string, kind FaultKind, format string, args ...any) {
	if len(c.faults) < mostFaults {
		c.faults = append(c.faults, Fault{path, kind, fmt.Sprintf(format, args...), slices.Clone(c.fields)})
	}
}

func (c *checker) check() {
	word := typeWord(c.root.info.t)
	_ = time.Local.String() // its first use in a process changes what a time.Time points to
	before := images(c.root.v)
	first, err := Marshal(c.root.v.Interface(), c.opts...)
	c.written(before)
	if err != nil {
		c.fault(word, Unsound, "%v", err)
		return
	}
	for range again(len(first)) {
		if second, err := Marshal(c.root.v.Interface(), c.opts...); err != nil || !bytes.Equal(first, second) {
			c.fault(word, Unsound, "packed again, the bytes differ: something depends on the order of a map, on time or on chance (%v)", err)
			break
		}
	}
	c.copy = reflect.New(c.root.info.t)
	if err := Unmarshal(first, c.copy.Interface(), c.opts...); err != nil {
		c.fault(word, Unsound, "packed, but cannot be unpacked: %v", err)
		return
	}
	p := &Stream{state: state{mode: observing, watch: c, maxDepth: c.o.maxDepth}}
	p.push(frame{t: c.root.info.t, val: c.root.v.UnsafePointer()})
	c.acts = []int{0}
	if p.value(c.root.info, c.root.v.UnsafePointer()); p.err != nil {
		c.fault(word, Unsound, "%v", p.err)
		return
	}
	for _, m := range c.changes {
		if c.skips[uintptr(m.at)] == "" {
			c.fault(m.path, Changed, "by PUP, while it packed")
		}
	}
	c.sized(word, len(first))
	c.walk(word, c.root.v.Elem(), c.copy.Elem())
	if third, err := Marshal(c.copy.Interface(), c.opts...); len(c.faults) == 0 && (err != nil || !bytes.Equal(first, third)) {
		c.fault(word, Unsound, "the copy packs to other bytes (%v)", err)
	}
}

// image is what memory held before packing.
type image struct {
	at   unsafe.Pointer
	was  []byte
	path string
}

// images copies the numbers and strings' headers of a value, variable by variable, as far as pointers and slices lead.
func images(root reflect.Value) []image {
	var list []image
	seen := map[visited]bool{}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); !known.info(v.Type()).skipped(f) {
					walk(path+"."+f.Name, fieldOf(v, i))
				}
			}
		case reflect.Array, reflect.Slice:
			if v.Kind() == reflect.Slice && layoutOf(v.Type().Elem()) != nil {
				n := uintptr(v.Len()) * v.Type().Elem().Size()
				list = append(list, image{v.UnsafePointer(), bytes.Clone(view(v.UnsafePointer(), n)), path})
				return
			}
			if key := (visited{addressOf(v), v.Type()}); v.Len() > 0 && !seen[key] {
				seen[key] = true
				for i := range v.Len() {
					walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
				}
			}
		case reflect.Pointer:
			if key := (visited{v.Pointer(), v.Type()}); !v.IsNil() && !seen[key] {
				seen[key] = true
				walk(path, v.Elem())
			}
		default:
			if v.CanAddr() && v.Kind() <= reflect.String {
				at := v.Addr().UnsafePointer()
				list = append(list, image{at, bytes.Clone(view(at, v.Type().Size())), path})
			}
		}
	}
	walk(typeWord(root.Type().Elem()), root.Elem())
	return list
}

// addressOf is where a slice's elements or an array begin.
func addressOf(v reflect.Value) uintptr {
	if v.Kind() == reflect.Slice {
		return v.Pointer()
	}
	return v.UnsafeAddr()
}

// written notes what packing has changed in the value itself. Which of it is skipped is known only later.
func (c *checker) written(before []image) {
	for _, m := range before {
		if !bytes.Equal(view(m.at, uintptr(len(m.was))), m.was) {
			c.changes = append(c.changes, m)
		}
	}
}

// again is how often data of a size is packed for comparison. A map of a few entries has the same order twice now and then.
func again(size int) int {
	const small = 1 << 20
	if size < small {
		return 8
	}
	return 1
}

// visit notes a variable, and goes on where it leads unless that was visited before.
func (c *checker) visit(_ *Stream, t reflect.Type, v unsafe.Pointer) descent {
	if act := c.acts[len(c.acts)-1]; t.Size() > 0 {
		list := c.visits[uintptr(v)]
		at := slices.IndexFunc(list, func(o visit) bool { return o.t == t && o.act == act })
		if at < 0 {
			c.visits[uintptr(v)] = append(list, visit{t, act, 1})
		} else {
			list[at].times++
		}
	}
	x := reflect.NewAt(t, v).Elem()
	switch t.Kind() {
	case reflect.Pointer:
		if x.IsNil() || c.known(x.Pointer(), t.Elem()) {
			return stop
		}
	case reflect.Slice:
		if x.Len() == 0 || c.known(x.Pointer(), reflect.SliceOf(t.Elem())) {
			return stop
		}
	case reflect.Map:
		if x.IsNil() || c.known(x.Pointer(), t) {
			return stop
		}
	case reflect.Interface:
		if x.IsNil() {
			return stop
		}
	default:
		return stop
	}
	c.nextAct++
	c.acts = append(c.acts, c.nextAct)
	return content
}

// known tells whether memory was entered before, and notes that it is now.
func (c *checker) known(addr uintptr, t reflect.Type) bool {
	key := visited{addr, t}
	again := c.entered[key]
	c.entered[key] = true
	return again
}

func (c *checker) leave() { c.acts = c.acts[:len(c.acts)-1] }

func (c *checker) entry(v unsafe.Pointer, key, val reflect.Value) {
	c.entries[uintptr(v)] = append(c.entries[uintptr(v)], checkedEntry{key, val})
}

func (c *checker) skip(_ *Stream, _ reflect.Type, v unsafe.Pointer, reason string) {
	c.skips[uintptr(v)] = reason
}

// was tells whether the variable was visited, itself or as a part of something that was visited whole.
func (c *checker) was(v reflect.Value) bool {
	return !v.CanAddr() || v.Type().Size() == 0 || c.visitedAs(v) != nil
}

// visitedAs is the type that the variable had for who visited it, or nil. Code may convert its pointer.
func (c *checker) visitedAs(v reflect.Value) reflect.Type {
	if !v.CanAddr() {
		return nil
	}
	for _, o := range c.visits[v.UnsafeAddr()] {
		if o.t == v.Type() || o.t.Size() == v.Type().Size() && o.t.Kind() == v.Kind() {
			return o.t
		}
	}
	return nil
}

// times is how often a variable was visited from one and the same place.
func (c *checker) times(v reflect.Value) (most int) {
	if v.CanAddr() {
		for _, o := range c.visits[v.UnsafeAddr()] {
			if o.t == v.Type() {
				most = max(most, o.times)
			}
		}
	}
	return most
}

// walk compares a variable with its copy, and asks of each part whether it was visited.
func (c *checker) walk(path string, a, b reflect.Value) {
	if len(c.faults) >= mostFaults || a.CanAddr() && c.skips[a.UnsafeAddr()] != "" && !c.was(a) {
		return
	}
	c.placed(a, b)
	if a.CanAddr() && known.info(a.Type()).hand {
		c.owners = append(c.owners, a)
		defer func() { c.owners = c.owners[:len(c.owners)-1] }()
	}
	if n := c.times(a); n > 1 {
		c.fault(path, Doubled, "visited %d times", n)
		return
	}
	switch was := c.was(a); {
	case was && c.visitedAs(a) != nil && whole(c.visitedAs(a)):
		t := c.visitedAs(a)
		if !samePacked(reflect.NewAt(t, a.Addr().UnsafePointer()), reflect.NewAt(t, b.Addr().UnsafePointer())) {
			c.fault(path, Changed, "%s became %s", short(a), short(b))
		}
		return
	case was && !leads(a.Kind()):
		c.same(path, a, b)
		return
	case was && isHandle(a.Type()):
		if a.Interface() != b.Interface() {
			c.fault(path, Changed, "%s became %s", short(a), short(b))
		}
		return
	case unsaved(a.Type()) != "":
		c.fault(path, Missed, "no visit: %s", unsaved(a.Type()))
		return
	case known.info(a.Type()).special != "" && a.CanAddr():
		c.unvisited(path, a, b, samePacked(a.Addr(), b.Addr()))
		return
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			f := a.Type().Field(i)
			if !known.info(a.Type()).skipped(f) {
				c.fields = append(c.fields, FieldRef{a.Type(), f.Name})
				c.walk(path+"."+f.Name, fieldOf(a, i), fieldOf(b, i))
				c.fields = c.fields[:len(c.fields)-1]
			}
		}
	case reflect.Array:
		for i := range a.Len() {
			c.walk(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i))
		}
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		c.reference(path, a, b)
	default:
		c.unvisited(path, a, b, equalBits(a, b))
	}
}

// whole tells whether variables of a type are visited in one piece.
func whole(t reflect.Type) bool {
	if t == reflect.TypeFor[*time.Location]() {
		return true
	}
	if k := t.Kind(); k != reflect.Struct && k != reflect.Array {
		return false
	}
	return known.info(t).special != "" || layoutOf(t) != nil
}

// samePacked compares what two pointers lead to by the bytes that it packs to.
func samePacked(a, b reflect.Value) bool {
	x, err1 := Marshal(a.Interface())
	y, err2 := Marshal(b.Interface())
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// placed pairs a variable with its copy, and reports where two became one or one became two.
func (c *checker) placed(a, b reflect.Value) {
	if c.boxed || !a.CanAddr() || !b.CanAddr() || a.Type().Size() == 0 {
		return
	}
	from, to := visited{a.UnsafeAddr(), a.Type()}, visited{b.UnsafeAddr(), a.Type()}
	if was, ok := c.forth[from]; ok && was != to.addr {
		c.split("it leads to memory that is reachable on another way too, and came back twice: " + c.advice())
	}
	if was, ok := c.back[to]; ok && was != from.addr {
		c.split("it leads to memory of its own, and came back as a part of other memory")
	}
	c.forth[from], c.back[to] = to.addr, from.addr
}

// advice says how memory stays shared.
func (c *checker) advice() string {
	if c.o.graph {
		return "PUP must hand the slice or pointer itself to a helper"
	}
	return "use the option Graph"
}

// split reports the last reference, once.
func (c *checker) split(detail string) {
	for _, f := range c.faults {
		if f.Path == c.via && f.Kind == Shared {
			return
		}
	}
	c.fault(c.via, Shared, "%s", detail)
}

// leads tells whether variables of a kind lead to others.
func leads(k reflect.Kind) bool {
	return k == reflect.Pointer || k == reflect.Slice || k == reflect.Map || k == reflect.Interface || k == reflect.Struct || k == reflect.Array
}

// same compares a variable that was visited as a whole.
func (c *checker) same(path string, a, b reflect.Value) {
	if !equalBits(a, b) {
		c.fault(path, Changed, "%s became %s", short(a), short(b))
	}
}

// equalBits compares numbers by their bits, so that NaNs are equal to themselves.
func equalBits(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Float32, reflect.Float64:
		return math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.Complex64, reflect.Complex128:
		x, y := a.Complex(), b.Complex()
		return math.Float64bits(real(x)) == math.Float64bits(real(y)) && math.Float64bits(imag(x)) == math.Float64bits(imag(y))
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return a.IsNil() && b.IsNil()
	}
	return a.Comparable() && b.Comparable() && a.Interface() == b.Interface()
}

// unvisited is a number, string or bool that no helper was given. The type's code may carry it by way of a variable of
// its own, so what came back decides; where nothing was there to lose, the copy is given something.
func (c *checker) unvisited(path string, a, b reflect.Value, equal bool) {
	switch {
	case !equal:
		c.fault(path, Missed, "no visit; %s became %s", short(a), short(b))
	case a.IsZero() && c.lost(a, b):
		c.fault(path, Missed, "no visit")
	}
}

// carried gives a part of the copy another value and looks whether that survives packing.
func (c *checker) carried(part reflect.Value) (yes bool) {
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
	data, err := Marshal(c.copy.Interface(), c.opts...)
	if err != nil {
		return false
	}
	again := reflect.New(c.root.info.t)
	if err := Unmarshal(data, again.Interface(), c.opts...); err != nil {
		return false
	}
	other, err := Marshal(again.Interface(), c.opts...)
	part.Set(was)
	plain, _ := Marshal(c.copy.Interface(), c.opts...)
	return err == nil && bytes.Equal(other, data) && !bytes.Equal(data, plain)
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

// reference compares pointers, slices, maps and interfaces, and what they lead to.
func (c *checker) reference(path string, a, b reflect.Value) {
	boxed := c.boxed
	c.boxed = false
	defer func() { c.boxed = boxed }()
	if a.IsNil() != b.IsNil() {
		if k := a.Kind(); !c.was(a) && (k == reflect.Slice || k == reflect.Map) && a.Len() == b.Len() {
			return // the type's own code carries it and makes no difference between nil and empty
		}
		kind := Changed
		if !c.was(a) {
			kind = Missed
		}
		c.fault(path, kind, "%s became %s", short(a), short(b))
		return
	}
	if a.IsNil() {
		if !c.was(a) && c.lost(a, b) {
			c.fault(path, Missed, "no visit")
		}
		return
	}
	switch a.Kind() {
	case reflect.Pointer:
		if c.enter(path, a, b, a.Type().Elem()) {
			c.walk(path, a.Elem(), b.Elem())
		}
	case reflect.Slice:
		if a.Len() != b.Len() {
			kind := Changed
			if !c.was(a) {
				kind = Missed
			}
			c.fault(path, kind, "length %d became %d", a.Len(), b.Len())
			return
		}
		if a.Len() == 0 && !c.was(a) && c.lost(a, b) {
			c.fault(path, Missed, "no visit")
		}
		if !c.was(a) && !c.inside(a) { // not a part of it was visited, and yet it came back: it is derived
			defer func(quiet bool) { c.quiet = quiet }(c.quiet)
			c.quiet = true
		}
		if a.Len() > 0 && c.enter(path, a, b, reflect.SliceOf(a.Type().Elem())) && a.Type().Elem().Size() > 0 {
			c.walkElements(path, a, b)
		}
	case reflect.Map:
		c.walkMap(path, a, b)
	case reflect.Interface:
		c.walkInterface(path, a, b)
	}
}

// inside tells whether anything was visited in a slice's array.
func (c *checker) inside(v reflect.Value) bool {
	return c.within(v.Pointer(), uintptr(v.Len())*v.Type().Elem().Size())
}

// within tells whether anything was visited in a piece of memory.
func (c *checker) within(begin, size uintptr) bool {
	if c.sorted == nil {
		c.sorted = slices.Sorted(maps.Keys(c.visits))
	}
	at, _ := slices.BinarySearch(c.sorted, begin)
	return at < len(c.sorted) && c.sorted[at] < begin+size
}

// walkElements compares plain elements in one piece.
func (c *checker) walkElements(path string, a, b reflect.Value) {
	for i := range a.Len() {
		c.walk(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i))
	}
}

// enter pairs what two references lead to, and answers whether the pair is new.
func (c *checker) enter(path string, a, b reflect.Value, t reflect.Type) bool {
	c.via = path
	key := pair{a.Pointer(), b.Pointer(), t}
	if c.pairs[key] || t.Size() == 0 {
		return false
	}
	c.pairs[key] = true
	return true
}

func (c *checker) walkMap(path string, a, b reflect.Value) {
	if a.Len() != b.Len() {
		c.fault(path, Changed, "%d entries became %d", a.Len(), b.Len())
		return
	}
	if a.Len() == 0 {
		if !c.was(a) && c.lost(a, b) {
			c.fault(path, Missed, "no visit")
		}
		return
	}
	if !c.enter(path, a, b, a.Type()) {
		return
	}
	from, to := visited{a.Pointer(), a.Type()}, visited{b.Pointer(), a.Type()}
	if was, ok := c.forth[from]; ok && was != to.addr {
		c.split("the map is reachable on another way too, and came back twice: " + c.advice())
		return
	}
	c.forth[from] = to.addr
	list := c.entries[a.UnsafeAddr()]
	if len(list) == 0 { // carried by the type's own code, entry by entry
		for it := a.MapRange(); it.Next(); {
			c.walkEntry(fmt.Sprintf("%s[%s]", path, keyWord(it.Key())), it.Value(), b.MapIndex(it.Key()))
		}
		return
	}
	for _, e := range list[:min(len(list), a.Len())] {
		at := fmt.Sprintf("%s[%s]", path, keyWord(e.key))
		if holdsPointers(e.key.Type()) {
			continue // another key in the copy; the pointers were compared where they came first
		}
		x := b.MapIndex(e.key)
		if !x.IsValid() {
			if !nanKeys(e.key.Type()) {
				c.fault(at, Changed, "the entry is gone")
			}
			continue
		}
		y := reflect.New(x.Type()).Elem()
		y.Set(x)
		c.keep = append(c.keep, y)
		c.walk(at, e.val, y)
	}
}

// walkEntry compares a map's value that the type's own code carried.
func (c *checker) walkEntry(path string, a, b reflect.Value) {
	if !b.IsValid() {
		c.fault(path, Changed, "the entry is gone")
		return
	}
	x, y := reflect.New(a.Type()).Elem(), reflect.New(a.Type()).Elem()
	x.Set(a)
	y.Set(b)
	c.keep = append(c.keep, x, y)
	quiet := c.quiet
	c.quiet = true
	c.walk(path, x, y)
	c.quiet = quiet
}

func holdsPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Chan, reflect.UnsafePointer:
		return true
	case reflect.Array:
		return holdsPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsPointers(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

func (c *checker) walkInterface(path string, a, b reflect.Value) {
	x, y := a.Elem(), b.Elem()
	if x.Type() != y.Type() {
		c.fault(path, Changed, "a %v became a %v", x.Type(), y.Type())
		return
	}
	path = fmt.Sprintf("%s.(%v)", path, x.Type())
	if x.Kind() == reflect.Pointer && !whole(x.Type()) {
		if !x.IsNil() && !y.IsNil() && c.enter(path, x, y, x.Type().Elem()) {
			c.walk(path, x.Elem(), y.Elem())
		} else if x.IsNil() != y.IsNil() {
			c.fault(path, Changed, "%s became %s", short(x), short(y))
		}
		return
	}
	c.boxed = true
	direct := known.info(x.Type()).direct
	was := reflect.NewAt(x.Type(), contentOf(a.Addr().UnsafePointer(), direct)).Elem()
	if list := c.entries[a.UnsafeAddr()]; len(list) > 0 {
		was = list[0].val
	}
	c.walk(path, was, reflect.NewAt(y.Type(), contentOf(b.Addr().UnsafePointer(), direct)).Elem())
}

// short is a value for a message.
func short(v reflect.Value) string {
	const most = 60
	s := fmt.Sprintf("%v", v)
	switch v.Kind() {
	case reflect.String:
		s = fmt.Sprintf("%q", v.String())
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan:
		if v.IsNil() {
			return "nil"
		}
		if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
			return fmt.Sprintf("%v of %d", v.Type(), v.Len())
		}
		return fmt.Sprintf("a %v", v.Type())
	}
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}
