package pupcheck

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

// helper executes a function or method of package pup.
func (r *run) helper(name string, c *closure, args []arg, pos token.Pos, e *ast.CallExpr) *value {
	switch name {
	case "Stream.Sizing":
		return boolValue(r.mode == sizing)
	case "Stream.Packing":
		return boolValue(r.mode == packing)
	case "Stream.Unpacking":
		return boolValue(r.mode.reads())
	case "Stream.Err":
		return &value{isNil: true, errVal: true, text: "nil"}
	case "Stream.Fail":
		r.st.failed = true
		return &value{}
	case "Version":
		return r.version(c)
	case "Old":
		return boolValue(false)
	case "BlockOf":
		return &value{block: r.blockFields(e)}
	case "Block.PUP":
		if len(args) == 3 {
			r.visitBlock(args[0].v.block, args[2], pos)
		}
		return &value{}
	}
	if len(args) < 2 || !args[0].v.stream {
		return &value{}
	}
	v := args[1]
	a := visitArg{v: v.v, typ: v.pointsTo(), pos: pos, assumed: v.v.vague}
	switch name {
	case "Skip":
		r.skip(a)
	case "Slice", "Array", "Ptr", "Map":
		r.container(name, a, args[2:], pos)
	case "Binary":
		r.visit(name, a)
	default:
		r.visit(name, a)
		for _, other := range args[2:] {
			if other.v.kind == pointerTo {
				r.visit(name, visitArg{v: other.v, typ: other.pointsTo(), pos: pos, assumed: true})
			}
		}
	}
	return &value{}
}

// container visits a slice, array, map or pointer with functions for what is in it.
func (r *run) container(name string, a visitArg, elems []arg, pos token.Pos) {
	for _, e := range elems {
		if e.v.isNil {
			r.report(r.position(pos), "nilelem", "pup.%s with a nil element function", name)
			return
		}
	}
	if len(elems) == 0 {
		return
	}
	steps := []Step{everyElement()}
	u := under(a.typ)
	inner := []types.Type{elementType(u)}
	switch u := u.(type) {
	case *types.Map:
		steps = []Step{mapKey(), everyElement()}
		inner = []types.Type{u.Key(), u.Elem()}
	case *types.Pointer:
		steps, inner = []Step{{Op: opDeref}}, []types.Type{u.Elem()}
	}
	whole := len(elems) == len(steps)
	for i := range min(len(elems), len(steps)) {
		whole = r.wholeElement(elems[i].v, inner[i], pos) && whole
	}
	if name == "Array" {
		a = arrayElements(a)
		if whole {
			r.visit(name, a)
			return
		}
	}
	if whole || len(a.v.refs) != 1 || !r.st.resolve(a.v.refs[0]).param() {
		r.visit(name, a)
		return
	}
	p := r.st.resolve(a.v.refs[0])
	if name != "Array" {
		a.shape = true
		r.visit(name, a)
	}
	for i, step := range steps {
		at := p
		if name != "Array" {
			at = p.with(step)
		}
		if i < len(elems) {
			r.elementBody(elems[i].v, at, inner[i], pos)
		}
	}
}

// arrayElements turns the slice argument of pup.Array into the elements that it stands for.
func arrayElements(a visitArg) visitArg {
	v := *a.v
	v.refs = nil
	for _, p := range a.v.refs {
		step := everyElement()
		if w := a.v.window; w != nil {
			step = Step{Op: opIndex, Lo: w[0], Hi: w[1]}
		}
		if v.raw == nil {
			p = p.with(step)
		}
		v.refs = append(v.refs, p)
	}
	a.v = &v
	if a.v.raw == nil {
		a.typ = elementType(under(a.typ))
	}
	return a
}

// wholeElement reports whether an element function certainly, or for all that is known, visits all of its element.
func (r *run) wholeElement(fn *value, typ types.Type, pos token.Pos) bool {
	c := fn.fn
	switch {
	case c == nil:
		return true
	case c.lit != nil:
		return r.active[c.lit]
	case c.obj == nil:
		return true
	}
	obj := c.obj.Origin()
	if name := pupFunc(obj); name != "" {
		r.checkType(name, Place{Root: -1}, typ, visitArg{typ: typ, pos: pos})
		return name != "Block.PUP"
	}
	if isPUP(obj) {
		return true
	}
	if decl := r.decls[obj]; decl != nil {
		return decl.Body == nil || !r.follow(decl, obj)
	}
	return !r.pass.ImportObjectFact(obj, new(FuncFact))
}

// elementBody executes an element function for the element at a place.
func (r *run) elementBody(fn *value, at Place, typ types.Type, pos token.Pos) {
	nodes := r.nodes
	r.nodes = nil
	elem := &value{kind: pointerTo, refs: []Place{at}, text: "&" + at.key()}
	switch {
	case r.wholeElement(fn, typ, pos):
		r.visit("element", visitArg{v: elem, typ: typ, pos: pos})
	case fn.fn.lit == nil && pupFunc(fn.fn.obj.Origin()) == "Block.PUP":
		r.visitBlock(fn.fn.recv.block, arg{elem, types.NewPointer(typ)}, pos)
	default:
		r.elems = append(r.elems, element{place: at, since: r.vars})
		args := []arg{{&value{stream: true}, types.Typ[types.Invalid]}, {elem, types.NewPointer(typ)}}
		loops := r.loops
		r.loops = nil
		if fn.fn.lit == nil && fn.fn.recv == nil && fn.fn.obj.Signature().Recv() != nil {
			args[0], args[1] = args[1], args[0]
		}
		r.apply(fn.fn, args, pos)
		r.loops = loops
		r.elems = r.elems[:len(r.elems)-1]
	}
	body := r.nodes
	r.nodes = append(nodes, &Node{Op: OpLoop, Then: body, pos: pos})
	if len(body) == 0 && !r.empty(typ) {
		r.report(r.position(pos), "element", "the element function visits nothing of its argument")
	}
}

// visitBlock visits the fields of a pup.Block.
func (r *run) visitBlock(fields []string, x arg, pos token.Pos) {
	if fields == nil {
		r.visit("Block", visitArg{v: x.v, typ: x.pointsTo(), pos: pos, assumed: true})
		return
	}
	for _, p := range x.v.refs {
		for _, name := range fields {
			at := r.st.resolve(p).field(name)
			v := &value{kind: pointerTo, refs: []Place{at}}
			r.visit("Block", visitArg{v: v, typ: stepType(x.pointsTo(), Step{Op: opField, Name: name}), pos: pos})
		}
	}
}

const versionOf = "version of "

// version is the value of pup.Version[T](p).
func (r *run) version(c *closure) *value {
	var t types.Type
	if c.targs != nil {
		for _, t = range c.targs.m {
		}
	}
	if t == nil {
		return &value{text: versionOf + "a type"}
	}
	name := types.TypeString(t, nil)
	if n, ok := r.versions[name]; ok && r.mode != anyVersion {
		return constValue(constant.MakeInt64(n))
	}
	return &value{text: versionOf + name, deps: deps{flags: fromStream}}
}

func isVersion(v *value) bool { return strings.Contains(v.text, versionOf) }

// noteVersion notes that the version of a type is compared with a number.
func (r *run) noteVersion(text string, op token.Token, n int64) {
	if name, ok := strings.CutPrefix(text, versionOf); ok {
		r.compared[name] = append(r.compared[name], comparedVersion{op, n})
	}
}

// library calls a function without the stream whose body is not followed.
func (r *run) library(obj *types.Func, args []arg, pos token.Pos, result types.Type, e *ast.CallExpr) *value {
	pkg := ""
	if obj.Pkg() != nil {
		pkg = obj.Pkg().Path()
	}
	name := obj.Name()
	switch {
	case isGo(pkg, obj):
		r.goCall(args, pos)
		return &value{}
	case pkg == "sync" && (recvName(obj) == "Once" || strings.HasPrefix(name, "Once")):
		return r.sometimes(args, pos, cond(fromGlobal, "sync.Once"))
	case pkg == "sync" && recvName(obj) == "Map" && name == "Range":
		return r.sometimes(args, pos, &value{deps: deps{flags: inMapOrder}})
	}
	r.changesArgument(pkg, name, args)
	if pkg == "sort" && name == "Reverse" && len(args) == 1 {
		return args[0].v
	}
	v := r.unknown(name, args, pos, result)
	sorted := (pkg == "sort" || pkg == "slices") && (strings.HasPrefix(name, "Sort") || pkg == "sort")
	switch {
	case pkg == "maps" && (name == "Keys" || name == "Values" || name == "All"):
		v.flags |= inMapOrder
	case sorted && e != nil && len(e.Args) > 0:
		v.flags &^= inMapOrder
		r.noteSorted(args[0])
	default:
		v.flags |= originOf(pkg, name)
	}
	for i, part := range v.tuple {
		if part.errVal {
			continue
		}
		part = part.depend(deps{flags: v.flags})
		v.tuple[i] = part
	}
	return v
}

func cond(f flags, name string) *value { return &value{deps: deps{flags: f, global: name}} }

// originOf tells the functions whose results differ between runs.
func originOf(pkg, name string) flags {
	switch pkg {
	case "time":
		if name == "Now" || name == "Since" || name == "Until" {
			return fromClock
		}
	case "math/rand", "math/rand/v2", "crypto/rand":
		return fromRandom
	case "os", "os/user", "net", "syscall", "runtime", "runtime/debug", "flag", "plugin":
		return fromEnvironment
	}
	return 0
}

// isGo reports whether a function runs its argument in a goroutine.
func isGo(pkg string, obj *types.Func) bool {
	switch recvName(obj) {
	case "WaitGroup":
		return pkg == "sync" && obj.Name() == "Go"
	case "Group":
		return strings.HasSuffix(pkg, "errgroup") && (obj.Name() == "Go" || obj.Name() == "TryGo")
	}
	return pkg == "time" && obj.Name() == "AfterFunc"
}

func recvName(obj *types.Func) string {
	recv := obj.Signature().Recv()
	if recv == nil {
		return ""
	}
	if n, ok := types.Unalias(deref(recv.Type())).(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// sometimes executes a function argument under a condition.
func (r *run) sometimes(args []arg, pos token.Pos, cond *value) *value {
	nodes := r.nodes
	r.nodes = nil
	all := cond.deps
	for _, a := range args {
		all = all.and(a.v.deep()).and(r.pointed(a.v))
	}
	for _, a := range args {
		if a.v.fn.literal() {
			r.callback(a.v, &value{deps: all}, pos)
		}
	}
	body := r.nodes
	r.nodes = nodes
	if len(visible(body)) > 0 {
		n := &Node{Op: OpLoop, Then: body, Cond: condOf(cond.deps, ""), pos: pos}
		n.Cond.MapKey = cond.flags&inMapOrder != 0
		r.nodes = append(r.nodes, n)
		r.checkCond(n, "condition")
	}
	return &value{}
}

// noteSorted notes that a slice has an order of its own now.
func (r *run) noteSorted(a arg) {
	for k, e := range r.st.store {
		same := e.v.text != "" && e.v.text == a.v.text
		for _, p := range a.v.refs {
			same = same || p.meets(e.place)
		}
		if same || e.v.flags&inMapOrder != 0 && len(a.v.src) == len(e.v.src) {
			v := *e.v
			v.flags &^= inMapOrder
			r.st.store[k] = entry{e.place, &v}
		}
	}
}

// goCall reports a goroutine that visits.
func (r *run) goCall(args []arg, pos token.Pos) {
	nodes, visits := r.nodes, r.visits
	r.nodes = nil
	streams := false
	for _, a := range args {
		streams = streams || a.v.stream
		if a.v.fn.literal() {
			r.callback(a.v, &value{}, pos)
		}
	}
	if streams || len(visible(r.nodes)) > 0 {
		r.report(r.position(pos), "go", "visits in a goroutine happen in no fixed order, and maybe after PUP has returned")
	}
	r.nodes, r.visits = append(nodes, r.nodes...), visits
}

// goStmt executes a go statement where it stands.
func (r *run) goStmt(f *frame, s *ast.GoStmt) {
	nodes := r.nodes
	r.nodes = nil
	r.eval(f, s.Call)
	streams := false
	for _, a := range s.Call.Args {
		streams = streams || isStreamPtr(r.typeOf(f, a))
	}
	if streams || len(visible(r.nodes)) > 0 {
		r.report(r.position(s.Pos()), "go", "visits in a goroutine happen in no fixed order, and maybe after PUP has returned")
	}
	r.nodes = append(nodes, r.nodes...)
}

// deferStmt notes a call that is executed when the function ends.
func (r *run) deferStmt(f *frame, s *ast.DeferStmt) {
	if _, isLit := ast.Unparen(s.Call.Fun).(*ast.FuncLit); !isLit && !r.mentionsStream(f, s.Call) {
		return
	}
	f.defers = append(f.defers, func() { r.eval(f, s.Call) })
}

func (r *run) mentionsStream(f *frame, call *ast.CallExpr) bool {
	for _, a := range call.Args {
		if isStreamPtr(r.typeOf(f, a)) {
			return true
		}
	}
	return false
}

// endsProgram reports whether a call does not return.
func (r *run) endsProgram(e *ast.CallExpr) bool {
	switch fun := ast.Unparen(e.Fun).(type) {
	case *ast.Ident:
		_, builtin := r.pass.TypesInfo.Uses[fun].(*types.Builtin)
		return builtin && fun.Name == "panic"
	case *ast.SelectorExpr:
		obj, ok := r.pass.TypesInfo.Uses[fun.Sel].(*types.Func)
		if !ok || obj.Pkg() == nil {
			return false
		}
		path, name := obj.Pkg().Path(), obj.Name()
		return path == "os" && name == "Exit" || path == "log" && (strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Panic"))
	}
	return false
}
