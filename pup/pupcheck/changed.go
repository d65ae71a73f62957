package pupcheck

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// A change of a part of a parameter while it is packed.
type change struct {
	place  Place
	stmt   token.Pos // that changes it
	at     token.Pos // where to report it
	packed int       // how much had been packed before
	kind   changeKind
}

type changeKind int

const (
	reordered changeKind = iota // or some elements removed
	own                         // computed from what it was
	copied                      // from another part
	emptied                     // assigned what depends on nothing
	filled                      // emptied, and then assigned data
	derived                     // computed from something else
)

// noteChange notes that a part of a parameter changes.
func (r *run) noteChange(p Place, kind changeKind) {
	if r.mode.reads() || r.rebuilt(p, kind) {
		return
	}
	r.changes = append(r.changes, change{p, r.at, r.position(r.at), len(r.packed), kind})
}

// rebuilt reports whether a place was made from something else before, and notes it of those that were empty.
func (r *run) rebuilt(p Place, kind changeKind) bool {
	found := false
	for i, c := range r.changes {
		if (c.kind == emptied || c.kind == filled || c.kind == derived) && c.place.covers(p) {
			found = true
			if c.kind == emptied && kind != emptied {
				r.changes[i].kind = filled
			}
		}
	}
	return found
}

// noteStored notes the assignment of a value to a part of a parameter, in whichever mode.
func (r *run) noteStored(p Place, v *value, d deps) {
	if r.mode.reads() {
		if r.stores == nil {
			r.stores = map[token.Pos]bool{}
		}
		r.stores[r.at] = r.stores[r.at] || len(d.temps) > 0 || v.carries
		r.checkReset(p, v)
		return
	}
	if v.kind == copyOf && len(v.refs) == 1 && v.refs[0].key() == p.key() {
		return
	}
	at := everyIndex(p)
	var self bool
	for _, q := range d.src {
		self = self || everyIndex(q.object()).meets(at) && !q.shapeOnly()
	}
	switch {
	case slices.ContainsFunc(sortedPlaces(r.st.ctl.src), func(q Place) bool { return q.object().meets(p) }):
		// another value for a certain one
	case v.kind == copyOf && self:
		r.noteChange(p, copied)
	case emptySlice(v), isEmpty(v, d):
		r.noteChange(p, emptied)
	case self:
		r.noteChange(p, own)
	default:
		r.noteChange(p, derived)
	}
}

// emptySlice reports whether a value is a slice without elements of another.
func emptySlice(v *value) bool { return v.window != nil && v.window[0] == v.window[1] }

// isEmpty reports whether a value is constant, or new and without content.
func isEmpty(v *value, d deps) bool {
	if len(d.src)+len(d.temps) > 0 || d.flags != 0 || v.stream {
		return false
	}
	for _, f := range v.fields {
		if !isEmpty(f, f.deep()) {
			return false
		}
	}
	local := v.kind == copyOf && len(v.refs) == 1 && !v.refs[0].param()
	return v.konst != nil || v.isNil || v.made || local || len(v.fields) > 0
}

// checkChanges reports what is changed while it is packed; unpack is the run of the same function for unpacking.
func (r *run) checkChanges(unpack *run) {
	for _, c := range r.changes {
		if !r.isPacked(c.place, r.packed) {
			continue
		}
		restores, both := unpack.stores[c.stmt]
		after := r.isPacked(c.place, r.packed[:c.packed])
		switch c.kind {
		case own, copied, emptied:
			if restores || both && c.kind == copied {
				continue
			}
		case filled, derived:
			if restores || !after {
				continue
			}
		}
		r.report(c.at, "changed", "%s is changed while it is packed: change a copy, or do it before", c.place)
	}
}

// isPacked reports whether a place is among what is packed.
func (r *run) isPacked(p Place, packed []Place) bool {
	p = everyIndex(p)
	return slices.ContainsFunc(packed, func(q Place) bool { return p.meets(q) && !r.skipsWithin(p, len(q.Steps)) })
}

// skipsWithin reports whether a field on the way to a place, after some steps, is not saved.
func (r *run) skipsWithin(p Place, steps int) bool {
	t := r.typeOfRoot(p.Root)
	for i, s := range p.Steps {
		if u, ok := under(t).(*types.Struct); ok && s.Op == opField && i >= steps {
			if j := fieldIndex(u, s.Name); j >= 0 && (r.isSkipped(u.Field(j), u.Tag(j)) || r.skipCalls[u.Field(j).Origin()]) {
				return true
			}
		}
		t = typeAt(t, []Step{s})
	}
	return false
}

// noteSkipCall notes a field that is given to pup.Skip.
func (c *checker) noteSkipCall(call *ast.CallExpr) {
	if len(call.Args) != 3 {
		return
	}
	ptr, ok := ast.Unparen(call.Args[1]).(*ast.UnaryExpr)
	if !ok {
		return
	}
	if field, ok := ast.Unparen(ptr.X).(*ast.SelectorExpr); ok {
		if v, ok := c.pass.TypesInfo.Uses[field.Sel].(*types.Var); ok {
			c.skipCalls[v.Origin()] = true
		}
	}
}

// notePacked notes that places are packed.
func (r *run) notePacked(places ...Place) {
	if !r.mode.reads() {
		for _, p := range places {
			r.packed = append(r.packed, everyIndex(p))
		}
	}
}

// changesArgument notes what functions of the standard library do to their first argument.
func (r *run) changesArgument(pkg, name string, args []arg) {
	if len(args) == 0 || r.mode.reads() {
		return
	}
	var names []string
	switch pkg {
	case "sort":
		names = []string{"Slice", "SliceStable", "Sort", "Stable", "Ints", "Strings", "Float64s"}
	case "slices":
		names = []string{"Sort", "SortFunc", "SortStableFunc", "Reverse", "Delete", "DeleteFunc", "Compact", "CompactFunc",
			"Replace", "Insert"}
	case "container/heap":
		names = []string{"Init", "Push", "Pop", "Fix", "Remove"}
	case "maps":
		names = []string{"DeleteFunc"}
	}
	if slices.Contains(names, name) {
		r.changesPlaces(args[0].v)
	}
}

// changesPlaces notes that what a pointer, slice or map refers to is changed.
func (r *run) changesPlaces(v *value) {
	if v.vague || v.kind != pointerTo && v.kind != headerOf {
		return
	}
	for _, p := range v.refs {
		if p = r.st.resolve(p); p.param() {
			r.noteChange(p, reordered)
		}
	}
}

// clears notes that the elements of a slice or map are gone.
func (r *run) clears(v *value) {
	for _, p := range v.refs {
		if p = r.st.resolve(p); !p.param() || v.vague || v.kind != headerOf {
			continue
		}
		if r.mode.reads() {
			r.checkReset(p, &value{made: true})
		} else {
			r.noteChange(p, emptied)
		}
	}
}

// noteRead notes that what was unpacked is used.
func (r *run) noteRead(p Place) {
	if r.mode == unpacking && p.param() && r.st.isKnown(p) {
		r.reads = append(r.reads, read{p, r.at})
	}
}

// A read of what has been unpacked.
type read struct {
	place Place
	stmt  token.Pos
}

// checkReset reports that something is made empty after it has been unpacked, and before anyone has looked at it.
func (r *run) checkReset(p Place, v *value) {
	empty := emptySlice(v) || isEmpty(v, v.deep())
	if r.mode != unpacking || !empty || r.st.ctl.flags != 0 || len(r.st.ctl.src) > 0 {
		return
	}
	for _, k := range r.st.known {
		if !k.data || !k.place.meets(p) || r.skipsWithin(p, len(k.place.Steps)) {
			continue
		}
		used := func(q read) bool { return q.stmt != r.at && q.place.meets(k.place) }
		if slices.ContainsFunc(r.reads, used) {
			continue
		}
		if len(k.place.Steps) > len(p.Steps) {
			p = k.place
		}
		r.report(r.position(r.at), "reset", "%s is unpacked before, and lost here", p.object())
		return
	}
}
