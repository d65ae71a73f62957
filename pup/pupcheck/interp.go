package pupcheck

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"slices"
)

// A mode is what the stream does in one interpretation of a function.
type mode int

const (
	sizing mode = iota
	packing
	unpacking
	anyVersion // unpacking, and nothing is known of the version of the data
	modes
)

func (m mode) reads() bool { return m == unpacking || m == anyVersion }

// most is the number of statements and calls after which a function is too large to be followed.
const most = 20000

// A visit is one that happened during an interpretation.
type visit struct {
	node  *Node
	path  []lit
	loops uint64
	typ   types.Type
	pos   token.Pos
}

// A loopCtx is a loop or switch being executed.
type loopCtx struct {
	bit       uint64
	assigned  map[types.Object]bool // also in parts
	whole     map[types.Object]bool // assigned themselves
	exits     []*state
	twice     []*visit // visits that every pass repeats
	completes bool     // there is a second pass
	cut       bool     // it ends before the last pass
	bound     *bound   // of its variable, if that is known
	stmt      ast.Node
	open      bool // what happens in it decides whether there is another pass
}

// A frame holds the variables of one call.
type frame struct {
	parent  *frame
	vars    map[types.Object]Place
	targs   *typeArgs
	sig     *types.Signature
	named   []*types.Var // named results
	result  *value
	exits   []*state
	defers  []func()
	loops   []*loopCtx
	decl    *ast.FuncDecl
	depth   int
	streams bool // has a stream parameter
}

func (f *frame) place(obj types.Object) (Place, bool) {
	for ; f != nil; f = f.parent {
		if p, ok := f.vars[obj]; ok {
			return p, true
		}
	}
	return Place{}, false
}

// An element is an element function being executed.
type element struct {
	place Place
	since int // variables made later are its own
}

// A run interprets one function in one mode.
type run struct {
	*checker
	mode    mode
	root    *ast.FuncDecl
	self    *types.Func
	isPUP   bool
	params  []types.Type // types of the places with these roots
	st      *state
	nodes   []*Node
	visits  []*visit
	loops   []*loopCtx // that are being executed, of all frames
	elems   []element
	active  map[*ast.FuncLit]bool // literals whose bodies are being executed
	site    token.Pos             // of the call in root through which the present code is executed
	vars    int
	bits    int
	steps   int
	changes []change // of parameters, not unpacking
	packed  []Place  // so far
	reads   []read
	stores  map[token.Pos]bool // statements that assign when unpacking, and whether visited data
	tested  map[string]bool    // places for whose values the traversal may fail, or which are packed in parts
	at      token.Pos          // the statement being executed
	stack   []*ast.FuncDecl    // whose bodies are being executed
}

// gaveUp is the panic value of a run that takes too long or meets what cannot be followed.
type gaveUp struct{}

func (r *run) step() {
	if r.steps++; r.steps > most {
		panic(gaveUp{})
	}
}

// execute interprets fn and returns false if it could not be followed to its end.
func (r *run) execute() (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // gaveUp, or a program that this package has not been made for: nothing is known of it
		}
	}()
	r.st, r.active = newState(), map[*ast.FuncLit]bool{}
	r.tested = map[string]bool{}
	f := &frame{vars: map[types.Object]Place{}, decl: r.root, sig: r.self.Signature(), streams: true}
	r.bindRoot(f)
	r.body(f, r.root.Body)
	return true
}

// bindRoot gives the parameters of the root function the places with numbers from 0, the receiver first.
func (r *run) bindRoot(f *frame) {
	sig := r.self.Signature()
	var list []*types.Var
	if recv := sig.Recv(); recv != nil {
		list = append(list, recv)
	}
	for v := range sig.Params().Variables() {
		list = append(list, v)
	}
	for _, v := range list {
		t := v.Type()
		at := Place{Root: len(r.params), Name: v.Name()}
		if v.Name() == "" || v.Name() == "_" {
			at.Name = "its argument"
		}
		r.params = append(r.params, pointee(t))
		switch {
		case isStreamPtr(t):
			r.st.set(r.declare(f, v), &value{stream: true})
		case isPointer(t):
			r.st.set(r.declare(f, v), &value{kind: pointerTo, refs: []Place{at}, text: at.key()})
		case r.isPUP:
			f.vars[v] = at // a value receiver
		default:
			r.st.set(r.declare(f, v), r.readParam(at, t, nil))
		}
	}
}

func isPointer(t types.Type) bool {
	_, ok := under(t).(*types.Pointer)
	return ok
}

// declare makes a new variable.
func (r *run) declare(f *frame, obj types.Object) Place {
	r.vars++
	p := Place{Root: -r.vars, Name: obj.Name()}
	f.vars[obj] = p
	return p
}

// fresh makes a variable without a name, as new does.
func (r *run) fresh(name string) Place {
	r.vars++
	return Place{Root: -r.vars, Name: name}
}

// position is where to report something at pos: there, if it is written in the root function, else the call there.
func (r *run) position(pos token.Pos) token.Pos {
	if r.site == token.NoPos || r.root.Pos() <= pos && pos < r.root.End() {
		return pos
	}
	return r.site
}

// body executes a function's body in a frame.
func (r *run) body(f *frame, body *ast.BlockStmt) *value {
	for _, v := range f.named {
		r.st.set(r.declare(f, v), zeroOf(v.Type()))
	}
	if r.exec(f, items(body.List)) {
		r.leave(f, nil)
	}
	r.st = f.exits[0]
	for _, s := range f.exits[1:] {
		r.st = join(r.st, s, false)
	}
	r.st.dead = false
	for _, d := range slices.Backward(f.defers) {
		d()
	}
	if f.result == nil {
		return &value{}
	}
	return f.result
}

// leave ends the present path through a function.
func (r *run) leave(f *frame, result *value) {
	if len(f.named) > 0 && result == nil {
		var parts []*value
		for _, v := range f.named {
			p, _ := f.place(v)
			parts = append(parts, r.load(p, v.Type()))
		}
		result = parts[0]
		if len(parts) > 1 {
			result = &value{tuple: parts}
		}
	}
	if result != nil {
		result = result.depend(r.st.ctl.control())
		if f.result != nil && (len(f.result.tuple) > 0 || len(result.tuple) > 0) {
			f.result = joinTuples(f.result, result)
		} else {
			f.result = joinValues(f.result, result)
		}
	}
	f.exits = append(f.exits, r.st)
}

func joinTuples(a, b *value) *value {
	out := &value{}
	for i := range max(len(a.tuple), len(b.tuple)) {
		out.tuple = append(out.tuple, joinValues(a.part(i), b.part(i)))
	}
	return out
}

// zeroOf is the value of a variable that has been declared only.
func zeroOf(t types.Type) *value {
	switch u := under(t).(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsBoolean != 0:
			return boolValue(false)
		case u.Info()&types.IsString != 0:
			return constValue(constant.MakeString(""))
		case u.Info()&types.IsNumeric != 0:
			return constValue(constant.MakeInt64(0))
		}
	case *types.Slice, *types.Pointer, *types.Map, *types.Signature, *types.Chan:
		return &value{isNil: true, listed: true, text: "nil"}
	case *types.Interface:
		return &value{isNil: true, text: "nil", errVal: isError(t)}
	}
	return &value{}
}

func isError(t types.Type) bool {
	return types.Identical(t, types.Universe.Lookup("error").Type())
}

// load reads a place.
func (r *run) load(p Place, t types.Type) *value {
	p = r.st.resolve(p)
	r.noteRead(p)
	v := r.stored(p, t, 0)
	if p.param() {
		v = r.readParam(p, t, v)
	}
	for _, l := range r.loops {
		if l.bit&p.loops != 0 {
			v = v.depend(deps{loops: l.bit})
		}
	}
	return v
}

// readParam adds to a stored value that it was read from a part of a parameter.
func (r *run) readParam(p Place, t types.Type, stored *value) *value {
	v := &value{text: p.key(), errVal: isError(t)}
	if stored != nil {
		v.deps = stored.deep()
		v.fn = stored.fn
		if stored.konst != nil {
			v.konst, v.text = stored.konst, stored.text
		} else {
			v.text = fmt.Sprintf("%s=%s", p.key(), stored.text)
		}
	}
	d := deps{src: map[string]Place{p.key(): p}}
	if r.mode.reads() {
		if r.st.isKnown(p) {
			d.flags |= fromStream
		} else if stored == nil {
			d.unset = d.src
		}
	}
	v.deps = v.deps.and(d)
	v.kind, v.refs = reference(p, t)
	return v
}

// reference is how a value of type t that stands at p refers to p.
func reference(p Place, t types.Type) (refKind, []Place) {
	switch under(t).(type) {
	case *types.Pointer:
		return pointerTo, []Place{p.deref()}
	case *types.Slice, *types.Map:
		return headerOf, []Place{p}
	}
	return copyOf, []Place{p}
}

// stored finds what was last assigned at a place, or nil. For a variable of the function it is never nil.
func (r *run) stored(p Place, t types.Type, depth int) *value {
	if e, ok := r.st.store[p.key()]; ok {
		return r.withParts(p, t, e.v)
	}
	for n := len(p.Steps) - 1; n >= 0; n-- {
		outer := p
		outer.Steps = p.Steps[:n]
		if e, ok := r.st.store[outer.key()]; ok {
			return r.withParts(p, t, r.inner(e.v, p.Steps[n:], t, depth))
		}
	}
	if !p.param() {
		return r.withParts(p, t, zeroOf(t))
	}
	for _, e := range r.st.store {
		if p.Root == e.place.Root && p.covers(e.place) {
			return r.withParts(p, t, &value{deps: deps{}})
		}
	}
	return nil
}

// withParts adds the dependence of what was stored at parts of a place.
func (r *run) withParts(p Place, t types.Type, v *value) *value {
	for k, e := range r.st.store {
		if p.Root == e.place.Root && len(e.place.Steps) > len(p.Steps) && k != p.key() && p.covers(e.place) {
			v = v.depend(e.v.deep())
			v.konst, v.list, v.listed, v.isNil = nil, nil, false, false
			if v.kind != pointerTo && v.kind != headerOf {
				v.kind, v.refs = reference(p, t)
			}
		}
	}
	if v.kind == noRef && !p.param() {
		if _, isStruct := under(t).(*types.Struct); isStruct {
			v = v.depend(deps{})
			v.kind, v.refs = copyOf, []Place{p}
		}
	}
	return v
}

// inner is the part of a value that steps lead to.
func (r *run) inner(v *value, steps []Step, t types.Type, depth int) *value {
	if f, ok := v.fields[steps[0].Name]; ok && steps[0].Op == opField {
		if len(steps) == 1 {
			return f
		}
		return r.inner(f, steps[1:], t, depth)
	}
	if i := steps[0]; i.Op == opIndex && i.Name == "" && i.Hi == i.Lo+1 && v.listed && i.Hi <= int64(len(v.list)) {
		if len(steps) == 1 {
			return v.list[i.Lo]
		}
		return r.inner(v.list[i.Lo], steps[1:], t, depth)
	}
	if len(v.refs) > 0 && v.kind != noRef && depth < 8 {
		if v.kind == pointerTo && steps[0].Op == opDeref {
			steps = steps[1:]
		}
		var out *value
		for _, ref := range v.refs {
			if ref.param() {
				at := ref.with(steps...)
				out = joinValues(out, r.readParam(at, t, r.stored(at, t, depth+1)))
			}
		}
		if out != nil {
			return out.depend(v.deps)
		}
	}
	return v.plain()
}

// assign stores a value at places.
func (r *run) assign(places []Place, v *value, t types.Type) {
	weak := len(places) > 1
	for _, p := range places {
		p = r.st.resolve(p)
		w := v.depend(r.st.ctl.control())
		if p.param() {
			r.assignParam(p, w)
		}
		if weak || p.loops != 0 && p.param() {
			if old, ok := r.st.store[p.key()]; ok {
				w = joinValues(old.v, w)
			}
		}
		var parts []entry
		if w.kind == copyOf && len(w.refs) == 1 && w.refs[0].Root != p.Root {
			parts = r.parts(w.refs[0])
		}
		r.st.set(p, w)
		for _, e := range parts {
			e.place = p.with(e.place.Steps[len(w.refs[0].Steps):]...)
			r.st.store[e.place.key()] = e
		}
	}
}

// parts lists what is stored at proper parts of a place.
func (r *run) parts(p Place) []entry {
	var out []entry
	for _, e := range r.st.store {
		if p.Root == e.place.Root && len(e.place.Steps) > len(p.Steps) && p.covers(e.place) {
			out = append(out, e)
		}
	}
	return out
}

// assignParam notes that a part of a parameter gets a value.
func (r *run) assignParam(p Place, v *value) {
	if len(v.fields) > 0 {
		if r.mode.reads() {
			r.checkReset(p, v)
		}
		for _, name := range slices.Sorted(maps.Keys(v.fields)) {
			r.assignParam(p.field(name), v.fields[name].depend(v.deps))
		}
		return
	}
	r.checkStored(p, v)
	if v.stream {
		return
	}
	if v.kind == copyOf && len(v.refs) == 1 && !v.refs[0].param() {
		for _, e := range r.parts(v.refs[0]) {
			r.assignParam(p.with(e.place.Steps[len(v.refs[0].Steps):]...), e.v)
		}
	}
	inside := r.content(v)
	made := v.made && len(v.list) == 0 && inside.flags&fromStream == 0
	v = v.depend(inside)
	r.adopt(p, v)
	d := v.deep()
	r.noteStored(p, v, d)
	if !r.mode.reads() {
		if !made && len(d.src) > 0 && r.mode == packing && len(r.st.path) == 0 {
			r.nodes = append(r.nodes, &Node{Op: OpDerive, Place: p, Src: sortedPlaces(d.src)})
		}
		return
	}
	if made {
		p = p.shape()
	}
	if len(d.unset) == 0 || d.flags&fromStream != 0 {
		r.st.setKnown(p, false)
	}
	if d.flags&fromStream != 0 {
		r.restore(p, d)
		if len(d.temps) > 0 && !made {
			r.st.known = append(r.st.known, knownPlace{place: p, data: true})
		}
	}
}

// checkStored reports a stream, or a function that uses it, which is kept.
func (r *run) checkStored(p Place, v *value) {
	for _, e := range append(slices.Clone(v.list), v) {
		switch {
		case e.stream:
			r.report(r.position(r.at), "stored", "the stream is stored in %s: it is of no use after PUP has returned", p)
		case e.fn.literal() && r.usesStream(e.fn.lit):
			r.report(r.position(r.at), "stored",
				"a function that uses the stream is stored in %s: the stream is of no use after PUP has returned", p)
		}
	}
}

// usesStream reports whether a function literal mentions a stream from outside of it.
func (r *run) usesStream(lit *ast.FuncLit) bool {
	found := false
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			obj, isVar := r.pass.TypesInfo.Uses[id].(*types.Var)
			found = found || isVar && isStreamPtr(obj.Type()) && (obj.Pos() < lit.Pos() || obj.Pos() > lit.End())
		}
		return !found
	})
	return found
}

// adopt notes that a variable made for a pointer or slice is now reached through a place.
func (r *run) adopt(p Place, v *value) {
	for _, e := range append(slices.Clone(v.list), v) {
		for _, ref := range e.refs {
			if ref.param() || len(ref.Steps) > 0 {
				continue
			}
			at := p
			switch {
			case e.kind == pointerTo && e == v:
				at = p.deref()
			case e.kind == pointerTo:
				at = p.with(everyElement(), Step{Op: opDeref})
			case e.kind == headerOf && e != v:
				at = p.with(everyElement())
			case e.kind != headerOf:
				continue
			}
			at.loops = everyLoop
			r.st.alias[ref.Root] = at
			for _, inner := range r.parts(ref) {
				if r.mode.reads() && len(inner.v.deep().unset) == 0 {
					r.st.setKnown(at.with(inner.place.Steps...), false)
				}
			}
		}
	}
}

// content is the dependence of what a value of the function's own points to.
func (r *run) content(v *value) deps {
	var d deps
	for _, e := range append(slices.Clone(v.list), v) {
		if e.kind == pointerTo || e.kind == headerOf {
			for _, ref := range e.refs {
				if !ref.param() {
					d = d.and(r.contentOf(ref))
				}
			}
		}
	}
	return d
}

func (r *run) contentOf(p Place) deps {
	var d deps
	for _, e := range r.st.store {
		if p.meets(e.place) {
			d = d.and(e.v.deep())
		}
	}
	return d
}

// restore notes that unpacking gives a part of a parameter a value made of visited data.
func (r *run) restore(p Place, d deps) {
	r.checkRestored(p, d)
	r.nodes = append(r.nodes, &Node{Op: OpRestore, Place: p})
	for t := range d.temps {
		t.Dst = append(t.Dst, p)
	}
}
