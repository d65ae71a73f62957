package pup

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"strings"
	"time"
	"unique"
	"unsafe"
)

// Some values mean what they are, not what they hold: two locations or handles are one if they are in the same place, and
// a copy of what they lead to is another. They are kept by what they stand for, or refused.

// identity says why values of a type cannot be copied, or "".
func identity(t reflect.Type) string {
	switch {
	case isHandle(t):
		return "a copy of what a handle leads to is not that handle: visit it by pup.Handle, or register it with pup.Visit(pup.Handle)"
	case t == reflect.TypeFor[time.Location]():
		return "a copy of a location is not that location: visit a pointer to it"
	case t == reflect.TypeFor[maphash.Seed](), t == reflect.TypeFor[maphash.Hash]():
		return "a seed means nothing outside the process; skip it"
	}
	return ""
}

// isHandle tells whether a type is a unique.Handle.
func isHandle(t reflect.Type) bool {
	return t.PkgPath() == "unique" && strings.HasPrefix(t.Name(), "Handle[")
}

// Handle visits a handle by its value, of which unpacking makes it again. A value with pointers is another value
// afterwards, and so refused, unless the option Graph keeps what the pointers lead to.
func Handle[T comparable](p *Stream, v *unique.Handle[T]) {
	if p.mode == failed {
		return
	}
	val, set, at := new(T), *v != unique.Handle[T]{}, placeOf(unsafe.Pointer(v), anyShape)
	if p.mode == observing {
		p.watch.visit(p, reflect.TypeFor[unique.Handle[T]](), unsafe.Pointer(v))
	}
	if p.graph == nil && p.mode != observing && holdsPointers(reflect.TypeFor[T]()) {
		p.fail(at, "%w: %v: its values hold pointers: use the option Graph", ErrType, reflect.TypeFor[unique.Handle[T]]())
		return
	}
	if set && p.mode != unpacking {
		*val = v.Value()
	}
	unset := p.unset()
	if Bool(p, &set); set || p.mode == observing {
		Value(p, val)
	}
	if p.mode != unpacking {
		return
	}
	*v = unique.Handle[T]{}
	if set {
		p.setLater(unset, func() { *v = unique.Make(*val) })
	}
}

// How a location is stored.
const (
	noLocation    = 0
	utcLocation   = 1
	localLocation = 2
	namedLocation = 3
	fixedLocation = 4
)

// zoneForm is a location as it is stored.
type zoneForm struct {
	form   uint8
	name   string
	offset int32
}

// Location visits a location: none, UTC, the machine's local one, one of a name that machines know, or a fixed zone. Those
// that are stored alike are one afterwards. A machine that does not know a name refuses it.
func Location(p *Stream, v **time.Location) {
	if p.mode == observing {
		if p.watch.visit(p, reflect.TypeFor[*time.Location](), unsafe.Pointer(v)) == content {
			p.watch.leave()
		}
		return
	}
	at, f := placeOf(unsafe.Pointer(v), pointerShape), zoneForm{}
	if p.mode == sizing || p.mode == packing {
		var ok bool
		if f, ok = p.formOf(*v); !ok {
			p.fail(at, "%w: location %q, which is neither one that this machine knows by that name nor a fixed zone", ErrType, *v)
		}
	}
	if f.visit(p); p.mode != unpacking {
		return
	}
	l, err := p.locationOf(f)
	if err != nil {
		p.fail(at, "%w", err)
		return
	}
	*v = l
}

func (f *zoneForm) visit(p *Stream) {
	Number(p, &f.form)
	if f.form == namedLocation || f.form == fixedLocation {
		String(p, &f.name)
	}
	if f.form == fixedLocation {
		Number(p, &f.offset)
	}
}

// formOf finds out how to store a location, and tells whether there is a way.
func (p *Stream) formOf(l *time.Location) (f zoneForm, ok bool) {
	switch l {
	case nil:
		return zoneForm{form: noLocation}, true
	case time.UTC:
		return zoneForm{form: utcLocation}, true
	case time.Local:
		return zoneForm{form: localLocation}, true
	}
	if f, ok = p.zoneForms[l]; ok {
		return f, true
	}
	name, offset := time.Unix(0, 0).In(l).Zone()
	for _, f := range []zoneForm{{form: namedLocation, name: l.String()}, {fixedLocation, name, int32(offset)}} {
		if same, err := p.locationOf(f); err == nil && same.String() == l.String() && sameZones(l, same) {
			if p.zoneForms == nil {
				p.zoneForms = map[*time.Location]zoneForm{}
			}
			p.zoneForms[l] = f
			return f, true
		}
	}
	return zoneForm{}, false
}

// locationOf is the location that is stored in a form, always the same one.
func (p *Stream) locationOf(f zoneForm) (l *time.Location, err error) {
	if l = p.zones[f]; l != nil {
		return l, nil
	}
	switch f.form {
	case noLocation:
		return nil, nil
	case utcLocation:
		return time.UTC, nil
	case localLocation:
		return time.Local, nil
	case namedLocation:
		if f.name == "" || f.name == "UTC" || f.name == "Local" {
			return nil, fmt.Errorf("%w: a location called %q", ErrData, f.name)
		}
		if l, err = time.LoadLocation(f.name); err != nil {
			return nil, fmt.Errorf("location %.100q: %w", f.name, err)
		}
	case fixedLocation:
		l = time.FixedZone(f.name, int(f.offset))
	default:
		return nil, fmt.Errorf("%w: a location in form %d", ErrData, f.form)
	}
	if p.zones == nil {
		p.zones = map[zoneForm]*time.Location{}
	}
	p.zones[f] = l
	return l, nil
}

// sameZones tells whether two locations have the same zones at all times from the first ones until long after today.
func sameZones(a, b *time.Location) bool {
	end := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	for t := time.Date(-1000, 1, 1, 0, 0, 0, 0, time.UTC); ; {
		x, y := t.In(a), t.In(b)
		name, offset := x.Zone()
		if other, o := y.Zone(); name != other || offset != o || x.IsDST() != y.IsDST() {
			return false
		}
		_, next := x.ZoneBounds()
		if _, n := y.ZoneBounds(); !n.Equal(next) {
			return false
		}
		if next.IsZero() || !next.After(t) || next.After(end) {
			return true
		}
		t = next
	}
}
