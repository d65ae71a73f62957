package pup

import (
	"bytes"
	"fmt"
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
	c := &checker{of: subject{root: t, opts: opts, o: optionsOf(opts)}, seen: newSightings(), pairs: newPairing()}
	c.trials = trials{of: &c.of, seen: &c.seen, unions: map[reflect.Type]bool{}}
	c.check()
	if len(c.found.faults) == 0 {
		return nil
	}
	return &CheckError{c.found.faults}
}

// checker is one run of Check: it lets PUP go over the value and notes what that visits; then it walks the value by reflection.
type checker struct {
	of      subject
	seen    sightings
	found   findings
	pairs   pairing
	trials  trials
	changes []image         // variables that packing has changed
	keep    []reflect.Value // copies of map entries, whose addresses must not be used again
}

// subject is the value that is checked.
type subject struct {
	root target
	opts []Option
	o    options
	copy reflect.Value // what came back; a pointer
}

// findings are what is wrong, and the way to where the walk is, which stands in them.
type findings struct {
	faults []Fault
	fields []FieldRef
}

func (f *findings) fault(path string, kind FaultKind, format string, args ...any) {
	if !f.enough() {
		f.faults = append(f.faults, Fault{path, kind, fmt.Sprintf(format, args...), slices.Clone(f.fields)})
	}
}

func (f *findings) enough() bool { return len(f.faults) >= mostFaults }

// split reports that memory of the last reference is not shared as it was, once.
func (f *findings) split(via, detail string) {
	for _, o := range f.faults {
		if o.Path == via && o.Kind == Shared {
			return
		}
	}
	f.fault(via, Shared, "%s", detail)
}

func (c *checker) check() {
	word := typeWord(c.of.root.info.t)
	_ = time.Local.String() // its first use in a process changes what a time.Time points to
	before := images(c.of.root.v)
	first, err := Marshal(c.of.root.v.Interface(), c.of.opts...)
	c.written(before)
	if err != nil {
		c.found.fault(word, Unsound, "%v", err)
		return
	}
	for range again(len(first)) {
		if second, err := Marshal(c.of.root.v.Interface(), c.of.opts...); err != nil || !bytes.Equal(first, second) {
			c.found.fault(word, Unsound, "packed again, the bytes differ: something depends on the order of a map, on time or on chance (%v)", err)
			break
		}
	}
	c.of.copy = reflect.New(c.of.root.info.t)
	if err := Unmarshal(first, c.of.copy.Interface(), c.of.opts...); err != nil {
		c.found.fault(word, Unsound, "packed, but cannot be unpacked: %v", err)
		return
	}
	p := &Stream{state: state{mode: observing, watch: &c.seen, maxDepth: c.of.o.maxDepth}}
	p.push(frame{t: c.of.root.info.t, val: c.of.root.v.UnsafePointer()})
	if p.value(c.of.root.info, c.of.root.v.UnsafePointer()); p.err != nil {
		c.found.fault(word, Unsound, "%v", p.err)
		return
	}
	for _, m := range c.changes {
		if c.seen.skips[uintptr(m.at)] == "" {
			c.found.fault(m.path, Changed, "by PUP, while it packed")
		}
	}
	c.sized(word, len(first))
	c.walk(word, c.of.root.v.Elem(), c.of.copy.Elem())
	if third, err := Marshal(c.of.copy.Interface(), c.of.opts...); len(c.found.faults) == 0 && (err != nil || !bytes.Equal(first, third)) {
		c.found.fault(word, Unsound, "the copy packs to other bytes (%v)", err)
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

// walk compares a variable with its copy, and asks of each part whether it was visited.
func (c *checker) walk(path string, a, b reflect.Value) {
	if c.found.enough() || a.CanAddr() && c.seen.skips[a.UnsafeAddr()] != "" && !c.seen.was(a) {
		return
	}
	c.placed(a, b)
	if a.CanAddr() && known.info(a.Type()).hand {
		c.trials.owners = append(c.trials.owners, a)
		defer func() { c.trials.owners = c.trials.owners[:len(c.trials.owners)-1] }()
	}
	if n := c.seen.times(a); n > 1 {
		c.found.fault(path, Doubled, "visited %d times", n)
		return
	}
	switch was := c.seen.was(a); {
	case was && c.seen.visitedAs(a) != nil && whole(c.seen.visitedAs(a)):
		t := c.seen.visitedAs(a)
		if !samePacked(reflect.NewAt(t, a.Addr().UnsafePointer()), reflect.NewAt(t, b.Addr().UnsafePointer())) {
			c.found.fault(path, Changed, "%s became %s", short(a), short(b))
		}
		return
	case was && !leads(a.Kind()):
		c.same(path, a, b)
		return
	case was && isHandle(a.Type()):
		if a.Interface() != b.Interface() {
			c.found.fault(path, Changed, "%s became %s", short(a), short(b))
		}
		return
	case unsaved(a.Type()) != "":
		c.found.fault(path, Missed, "no visit: %s", unsaved(a.Type()))
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
				c.found.fields = append(c.found.fields, FieldRef{a.Type(), f.Name})
				c.walk(path+"."+f.Name, fieldOf(a, i), fieldOf(b, i))
				c.found.fields = c.found.fields[:len(c.found.fields)-1]
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

// leads tells whether variables of a kind lead to others.
func leads(k reflect.Kind) bool {
	return k == reflect.Pointer || k == reflect.Slice || k == reflect.Map || k == reflect.Interface || k == reflect.Struct || k == reflect.Array
}

// placed pairs a variable with its copy, and reports where two became one or one became two.
func (c *checker) placed(a, b reflect.Value) {
	switch c.pairs.place(a, b) {
	case cameTwice:
		c.found.split(c.pairs.via, "it leads to memory that is reachable on another way too, and came back twice: "+c.of.advice())
	case cameTogether:
		c.found.split(c.pairs.via, "it leads to memory of its own, and came back as a part of other memory")
	}
}

// advice says how memory stays shared.
func (s *subject) advice() string {
	if s.o.graph {
		return "PUP must hand the slice or pointer itself to a helper"
	}
	return "use the option Graph"
}

// same compares a variable that was visited as a whole.
func (c *checker) same(path string, a, b reflect.Value) {
	if !equalBits(a, b) {
		c.found.fault(path, Changed, "%s became %s", short(a), short(b))
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
		c.found.fault(path, Missed, "no visit; %s became %s", short(a), short(b))
	case a.IsZero() && c.trials.lost(a, b):
		c.found.fault(path, Missed, "no visit")
	}
}

// reference compares pointers, slices, maps and interfaces, and what they lead to.
func (c *checker) reference(path string, a, b reflect.Value) {
	boxed := c.pairs.boxed
	c.pairs.boxed = false
	defer func() { c.pairs.boxed = boxed }()
	if a.IsNil() != b.IsNil() {
		if k := a.Kind(); !c.seen.was(a) && (k == reflect.Slice || k == reflect.Map) && a.Len() == b.Len() {
			return // the type's own code carries it and makes no difference between nil and empty
		}
		kind := Changed
		if !c.seen.was(a) {
			kind = Missed
		}
		c.found.fault(path, kind, "%s became %s", short(a), short(b))
		return
	}
	if a.IsNil() {
		if !c.seen.was(a) && c.trials.lost(a, b) {
			c.found.fault(path, Missed, "no visit")
		}
		return
	}
	switch a.Kind() {
	case reflect.Pointer:
		if c.pairs.enter(path, a, b, a.Type().Elem()) {
			c.walk(path, a.Elem(), b.Elem())
		}
	case reflect.Slice:
		if a.Len() != b.Len() {
			kind := Changed
			if !c.seen.was(a) {
				kind = Missed
			}
			c.found.fault(path, kind, "length %d became %d", a.Len(), b.Len())
			return
		}
		if a.Len() == 0 && !c.seen.was(a) && c.trials.lost(a, b) {
			c.found.fault(path, Missed, "no visit")
		}
		if !c.seen.was(a) && !c.seen.inside(a) { // not a part of it was visited, and yet it came back: it is derived
			defer func(quiet bool) { c.trials.quiet = quiet }(c.trials.quiet)
			c.trials.quiet = true
		}
		if a.Len() > 0 && c.pairs.enter(path, a, b, reflect.SliceOf(a.Type().Elem())) && a.Type().Elem().Size() > 0 {
			c.walkElements(path, a, b)
		}
	case reflect.Map:
		c.walkMap(path, a, b)
	case reflect.Interface:
		c.walkInterface(path, a, b)
	}
}

// walkElements compares plain elements in one piece.
func (c *checker) walkElements(path string, a, b reflect.Value) {
	for i := range a.Len() {
		c.walk(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i))
	}
}

func (c *checker) walkMap(path string, a, b reflect.Value) {
	if a.Len() != b.Len() {
		c.found.fault(path, Changed, "%d entries became %d", a.Len(), b.Len())
		return
	}
	if a.Len() == 0 {
		if !c.seen.was(a) && c.trials.lost(a, b) {
			c.found.fault(path, Missed, "no visit")
		}
		return
	}
	if !c.pairs.enter(path, a, b, a.Type()) {
		return
	}
	from, to := visited{a.Pointer(), a.Type()}, visited{b.Pointer(), a.Type()}
	if c.pairs.twice(from, to) {
		c.found.split(c.pairs.via, "the map is reachable on another way too, and came back twice: "+c.of.advice())
		return
	}
	c.pairs.forth[from] = to.addr
	list := c.seen.entries[a.UnsafeAddr()]
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
				c.found.fault(at, Changed, "the entry is gone")
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
		c.found.fault(path, Changed, "the entry is gone")
		return
	}
	x, y := reflect.New(a.Type()).Elem(), reflect.New(a.Type()).Elem()
	x.Set(a)
	y.Set(b)
	c.keep = append(c.keep, x, y)
	quiet := c.trials.quiet
	c.trials.quiet = true
	c.walk(path, x, y)
	c.trials.quiet = quiet
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
		c.found.fault(path, Changed, "a %v became a %v", x.Type(), y.Type())
		return
	}
	path = fmt.Sprintf("%s.(%v)", path, x.Type())
	if x.Kind() == reflect.Pointer && !whole(x.Type()) {
		if !x.IsNil() && !y.IsNil() && c.pairs.enter(path, x, y, x.Type().Elem()) {
			c.walk(path, x.Elem(), y.Elem())
		} else if x.IsNil() != y.IsNil() {
			c.found.fault(path, Changed, "%s became %s", short(x), short(y))
		}
		return
	}
	c.pairs.boxed = true
	direct := known.info(x.Type()).direct
	was := reflect.NewAt(x.Type(), contentOf(a.Addr().UnsafePointer(), direct)).Elem()
	if list := c.seen.entries[a.UnsafeAddr()]; len(list) > 0 {
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
