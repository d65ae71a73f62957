package pup

import (
	"reflect"
	"unsafe"
)

// An observer is told of every variable that a traversal visits.
type observer interface {
	// visit is told of the variable of type t at v, before what it leads to; it answers whether to go on there, and
	// is told by leave when that is done.
	visit(p *Stream, t reflect.Type, v unsafe.Pointer) descent
	leave()
	// entry is told of the copies that stand for an entry of the map at v, or, without a key, for what the interface at v
	// holds.
	entry(v unsafe.Pointer, key, val reflect.Value)
	// skip is told of a field that is deliberately not saved.
	skip(p *Stream, t reflect.Type, v unsafe.Pointer, reason string)
}

// descent is an observer's answer.
type descent bool

const (
	stop    descent = false
	content descent = true
)

// describer lists what a type's own code visits.
type describer struct {
	table *table
	root  reflect.Type
	base  uintptr
	list  []fieldLine
}

func (d *describer) visit(_ *Stream, t reflect.Type, v unsafe.Pointer) descent {
	if isHandle(t) {
		return stop // its value comes next
	}
	name := "-"
	if offset := uintptr(v) - d.base; uintptr(v) >= d.base && offset < max(d.root.Size(), 1) {
		if path, _, ok := subobject(d.root, offset, t); ok && path != "" {
			name = path[1:]
		}
	}
	d.list = append(d.list, fieldLine{name, d.table.expr(known.info(t))})
	return stop
}

func (d *describer) leave()                                             {}
func (d *describer) entry(unsafe.Pointer, reflect.Value, reflect.Value) {}
func (d *describer) skip(*Stream, reflect.Type, unsafe.Pointer, string) {}
