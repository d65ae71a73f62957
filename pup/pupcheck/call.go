package pupcheck

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// An arg is an argument of a call.
type arg struct {
	v   *value
	typ types.Type
}

// pointsTo is the type that a pointer argument points to.
func (a arg) pointsTo() types.Type { return pointee(a.typ) }

// call is the value of a call.
func (r *run) call(f *frame, e *ast.CallExpr) *value {
	fun := ast.Unparen(e.Fun)
	tv := r.pass.TypesInfo.Types[fun]
	switch {
	case tv.IsType():
		return r.convert(f, r.typeOf(f, e), e.Args[0])
	case tv.IsBuiltin():
		return r.builtin(f, e, builtinName(fun))
	}
	fn := r.eval(f, fun)
	sig, _ := under(r.typeOf(f, fun)).(*types.Signature)
	args := r.arguments(f, e, sig)
	if fn.fn == nil {
		return r.callParameter(fn, args, e.Pos(), r.typeOf(f, e))
	}
	at := r.at
	v := r.invoke(f, fn.fn, args, e)
	r.at = at
	return v
}

func builtinName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return "unsafe." + e.Sel.Name
	}
	return ""
}

// arguments evaluates the arguments of a call; those of a variadic parameter become a slice.
func (r *run) arguments(f *frame, e *ast.CallExpr, sig *types.Signature) []arg {
	var args []arg
	if len(e.Args) == 1 {
		if tuple, ok := r.pass.TypesInfo.TypeOf(e.Args[0]).(*types.Tuple); ok {
			v := r.eval(f, e.Args[0])
			for i := range tuple.Len() {
				args = append(args, arg{v.part(i), f.subst(tuple.At(i).Type())})
			}
			return args
		}
	}
	for _, a := range e.Args {
		args = append(args, arg{r.eval(f, a), r.typeOf(f, a)})
	}
	if sig == nil || !sig.Variadic() || e.Ellipsis.IsValid() {
		return args
	}
	fixed := min(sig.Params().Len()-1, len(args))
	rest := &value{listed: true}
	for _, a := range args[fixed:] {
		rest.list = append(rest.list, a.v)
	}
	return append(args[:fixed:fixed], arg{rest, f.subst(sig.Params().At(fixed).Type())})
}

// invoke calls a function value.
func (r *run) invoke(f *frame, c *closure, args []arg, e *ast.CallExpr) *value {
	r.step()
	result := r.typeOf(f, e)
	if c.native != nil {
		return c.native(args)
	}
	if c.lit != nil && r.active[c.lit] {
		return r.unknown("", args, e.Pos(), result)
	}
	if c.lit != nil {
		return r.inlineLit(c, args, e.Pos())
	}
	if c.recv != nil {
		args = append([]arg{{c.recv, types.NewPointer(c.recvType)}}, args...)
	}
	return r.invokeFunc(c, args, e.Pos(), result, e)
}

// inlineLit executes the body of a function literal.
func (r *run) inlineLit(c *closure, args []arg, pos token.Pos) *value {
	if r.active[c.lit] {
		return &value{}
	}
	r.active[c.lit] = true
	v := r.inline(c.frame, c.targs, c.lit.Type, r.litSignature(c), c.lit.Body, args, nil, pos)
	r.active[c.lit] = false
	return v
}

func (r *run) litSignature(c *closure) *types.Signature {
	return r.pass.TypesInfo.TypeOf(c.lit).(*types.Signature)
}

// invokeFunc calls a declared function; the receiver, if any, is the first argument.
func (r *run) invokeFunc(c *closure, args []arg, pos token.Pos, result types.Type, e *ast.CallExpr) *value {
	obj := c.obj.Origin()
	if isPUP(obj) && len(args) > 0 {
		r.visitPUP(args[0], pos)
		return &value{}
	}
	if name := pupFunc(obj); name != "" {
		return r.helper(name, c, args, pos, e)
	}
	if decl := r.decls[obj]; decl != nil && decl.Body != nil && r.follow(decl, obj) {
		return r.inlineDecl(c, decl, args, pos)
	}
	if !takesStream(obj.Signature()) {
		return r.library(obj, args, pos, result, e)
	}
	if fact := new(FuncFact); obj.Pkg() != r.pass.Pkg && r.pass.ImportObjectFact(obj, fact) {
		r.replay(fact, args, pos)
		return r.given(args)
	}
	return r.unknown(obj.Name(), args, pos, result)
}

// follow reports whether the body of a function may be executed here: recursion is not followed.
func (r *run) follow(decl *ast.FuncDecl, obj *types.Func) bool {
	if decl == r.root || slices.Contains(r.stack, decl) {
		return false
	}
	if takesStream(obj.Signature()) {
		return len(r.stack) < 16
	}
	return len(r.stack) < 6
}

// inlineDecl executes the body of a function of this package.
func (r *run) inlineDecl(c *closure, decl *ast.FuncDecl, args []arg, pos token.Pos) *value {
	obj := c.obj.Origin()
	sig := obj.Signature()
	r.reached[decl] = true
	targs := c.targs
	if sig.Recv() != nil && sig.RecvTypeParams().Len() > 0 && len(args) > 0 {
		if n, ok := types.Unalias(args[0].pointsTo()).(*types.Named); ok && n.TypeArgs().Len() == sig.RecvTypeParams().Len() {
			targs = bindTypeArgs(sig.RecvTypeParams(), n.TypeArgs(), nil)
		}
	}
	r.stack = append(r.stack, decl)
	v := r.inline(nil, targs, decl.Type, sig, decl.Body, args, decl.Recv, pos)
	r.stack = r.stack[:len(r.stack)-1]
	return v
}

// inline executes a body with arguments.
func (r *run) inline(parent *frame, targs *typeArgs, ft *ast.FuncType, sig *types.Signature, body *ast.BlockStmt, args []arg,
	recv *ast.FieldList, pos token.Pos) *value {
	if targs == nil && parent != nil {
		targs = parent.targs
	}
	f := &frame{parent: parent, vars: map[types.Object]Place{}, targs: targs, sig: sig}
	if f.depth = 1; parent != nil {
		f.depth = parent.depth + 1
	}
	if f.depth > 24 {
		panic(gaveUp{})
	}
	var params []*types.Var
	if recv != nil {
		params = append(params, sig.Recv())
	}
	for v := range sig.Params().Variables() {
		params = append(params, v)
	}
	for i, v := range params {
		if i < len(args) {
			r.assign([]Place{r.declare(f, v)}, args[i].v, f.subst(v.Type()))
		}
	}
	for v := range sig.Results().Variables() {
		if v.Name() != "" {
			f.named = append(f.named, v)
		}
	}
	site := r.site
	if r.position(body.Pos()) != body.Pos() || site == token.NoPos && (body.Pos() < r.root.Pos() || body.Pos() > r.root.End()) {
		if site == token.NoPos {
			r.site = pos
		}
	}
	path, ctl := r.st.path, r.st.ctl
	v := r.body(f, body)
	r.st.path, r.st.ctl = path, ctl
	r.site = site
	return v
}

// visitPUP notes the call of a method PUP.
func (r *run) visitPUP(a arg, pos token.Pos) {
	v, t := a.v, a.pointsTo()
	if v.kind == copyOf && types.IsInterface(t) {
		v = asserted(v, types.NewPointer(t))
	}
	if v.vague {
		r.visit("PUP", visitArg{v: v, typ: t, pos: pos, assumed: true})
		return
	}
	r.visit("PUP", visitArg{v: v, typ: t, pos: pos})
}

// given is what a function with the stream returns: data that it has visited.
func (r *run) given(args []arg) *value {
	v := &value{carries: true}
	for _, a := range args {
		v.deps = v.deps.and(a.v.deep())
	}
	if r.mode.reads() {
		v.flags |= fromStream
		v.unset = nil
	}
	return v
}

// unknown calls a function whose body is not known. With the stream, it visits all that it can reach.
func (r *run) unknown(name string, args []arg, pos token.Pos, result types.Type) *value {
	streams := slices.ContainsFunc(args, func(a arg) bool { return r.carriesStream(a.v) })
	var all deps
	for _, a := range args {
		all = all.and(a.v.deep()).and(r.content(a.v)).and(r.pointed(a.v))
	}
	for _, a := range args {
		if a.v.fn.literal() {
			r.callback(a.v, &value{deps: all}, pos)
		}
	}
	if streams {
		for _, a := range args {
			for _, v := range append(slices.Clone(a.v.list), a.v) {
				if r.carriesStream(v) || v.kind != pointerTo && v.kind != headerOf && len(v.src) == 0 {
					continue
				}
				typ := a.pointsTo()
				if v.kind == pointerTo || v.kind == headerOf {
					r.visit(name, visitArg{v: v, typ: typ, pos: pos, assumed: true})
				} else {
					r.nodes = append(r.nodes, r.temp(name, visitArg{typ: typ, pos: pos, assumed: true}, v.deep()))
				}
			}
		}
		return r.given(args)
	}
	for i, a := range args {
		if a.v.kind == pointerTo || a.v.kind == headerOf {
			r.mayAssign(a, args, i)
		}
	}
	v := &value{deps: all, errVal: result != nil && isError(result)}
	return r.vagueResult(v, args, result)
}

// carriesStream reports whether a value is or holds the stream.
func (r *run) carriesStream(v *value) bool {
	if v.stream || v.carries && v.kind == noRef {
		return true
	}
	for _, f := range v.fields {
		if f.stream {
			return true
		}
	}
	for _, e := range r.st.store {
		if v.kind != pointerTo && v.kind != copyOf {
			break
		}
		for _, p := range v.refs {
			if !p.param() && p.covers(e.place) && (e.v.stream || e.v.fields != nil && r.carriesStream(&value{fields: e.v.fields})) {
				return true
			}
		}
	}
	return false
}

// pointed is the dependence of what a value points to.
func (r *run) pointed(v *value) deps {
	var d deps
	if v.kind != pointerTo {
		return d
	}
	for _, p := range v.refs {
		if p = r.st.resolve(p); p.param() {
			d = d.and(r.readParam(p, types.Typ[types.Int], r.stored(p, types.Typ[types.Int], 0)).deps)
		}
	}
	return d
}

// mayAssign notes that a function without the stream may assign to what it gets a pointer to.
func (r *run) mayAssign(a arg, args []arg, i int) {
	var others deps
	for j, o := range args {
		if j != i {
			others = others.and(o.v.deep()).and(r.content(o.v))
		}
	}
	for _, p := range a.v.refs {
		p = r.st.resolve(p)
		switch {
		case !p.param():
			if len(others.src)+len(others.temps) > 0 || others.flags != 0 {
				old := r.load(p, a.pointsTo())
				w := *old
				w.konst, w.list, w.listed, w.isNil = nil, nil, false, false
				r.assign([]Place{p}, (&w).depend(others), a.pointsTo())
			}
		case r.mode.reads() && others.flags&fromStream != 0:
			r.restore(p, others)
			r.st.setKnown(p, false)
		}
	}
}

// vagueResult gives the result of an unknown function the places that its arguments point to, if it is a pointer.
func (r *run) vagueResult(v *value, args []arg, result types.Type) *value {
	tuple, ok := result.(*types.Tuple)
	if ok {
		for part := range tuple.Variables() {
			v.tuple = append(v.tuple, r.vagueResult(&value{deps: v.deps, errVal: isError(part.Type())}, args, part.Type()))
		}
		return v
	}
	if result == nil {
		return v
	}
	switch under(result).(type) {
	case *types.Pointer, *types.Slice, *types.Map, *types.Interface, *types.Signature:
	default:
		return v
	}
	for _, a := range args {
		if a.v.kind == pointerTo || a.v.kind == headerOf {
			v.kind, v.vague, v.refs = pointerTo, true, append(v.refs, a.v.refs...)
		}
	}
	return v
}

// callback executes a function literal that an unknown function gets, as if it were called once with values of v.
func (r *run) callback(fn, v *value, pos token.Pos) {
	sig := r.litSignature(fn.fn)
	var args []arg
	for p := range sig.Params().Variables() {
		args = append(args, arg{&value{deps: v.deps}, p.Type()})
	}
	r.inlineLit(fn.fn, args, pos)
}

// funcValue is a declared function as a value.
func (r *run) funcValue(f *frame, obj *types.Func, id *ast.Ident) *closure {
	c := &closure{obj: obj}
	if inst, ok := r.pass.TypesInfo.Instances[id]; ok {
		c.targs = bindTypeArgs(obj.Origin().Signature().TypeParams(), inst.TypeArgs, f.targs)
	}
	return c
}

// convert is the value of a conversion.
func (r *run) convert(f *frame, to types.Type, e ast.Expr) *value {
	x := r.eval(f, e)
	from := r.typeOf(f, e)
	v := *x
	v.text = x.text
	if x.konst != nil {
		if b, ok := under(to).(*types.Basic); ok && b.Info()&types.IsInteger != 0 && x.konst.Kind() == constant.Float {
			v.konst = nil
		}
		return &v
	}
	r.noteLoss(&v, x, from, to)
	_, toPtr := under(to).(*types.Pointer)
	switch {
	case isUnsafePointer(to) && isPointer(from):
		v.raw = pointee(from)
	case toPtr && isUnsafePointer(from):
		if v.raw != nil && !isBytes(pointee(to)) {
			v.raw = nil
		}
	case isString(to) != isString(from):
		v.kind, v.refs, v.list, v.listed = noRef, nil, nil, false
	}
	return &v
}

func isUnsafePointer(t types.Type) bool {
	b, ok := under(t).(*types.Basic)
	return ok && b.Kind() == types.UnsafePointer
}

func isByte(t types.Type) bool {
	b, ok := under(t).(*types.Basic)
	return ok && (b.Kind() == types.Uint8 || b.Kind() == types.Int8)
}

// isBytes reports whether a type is that of a byte or of several.
func isBytes(t types.Type) bool {
	switch u := under(t).(type) {
	case *types.Array:
		return isByte(u.Elem())
	case *types.Slice:
		return isByte(u.Elem())
	}
	return isByte(t)
}

func isString(t types.Type) bool {
	b, ok := under(t).(*types.Basic)
	return ok && b.Info()&types.IsString != 0
}

// builtin is the value of a call of a builtin function.
func (r *run) builtin(f *frame, e *ast.CallExpr, name string) *value {
	var args []*value
	for _, a := range e.Args {
		if tv := r.pass.TypesInfo.Types[a]; tv.IsType() {
			args = append(args, &value{})
			continue
		}
		args = append(args, r.eval(f, a))
	}
	switch name {
	case "len", "cap":
		return r.length(f, e.Args[0], args[0], name == "cap")
	case "min":
		return minimum(args)
	case "new":
		p := r.fresh("the new value")
		if tv := r.pass.TypesInfo.Types[e.Args[0]]; !tv.IsType() {
			r.assign([]Place{p}, args[0], r.typeOf(f, e.Args[0]))
		}
		return &value{kind: pointerTo, refs: []Place{p}, made: true}
	case "make":
		v := &value{made: true, kind: headerOf, refs: []Place{r.fresh("the new slice")}}
		for _, a := range args[1:] {
			v.deps = v.deps.and(a.deep())
		}
		return v
	case "append":
		return r.appendTo(args, e.Ellipsis.IsValid())
	case "copy":
		for _, p := range args[0].refs {
			p = p.with(everyElement())
			r.assign([]Place{p}, args[1].plain(), r.typeOf(f, e.Args[1]))
		}
		return &value{deps: args[0].deep().and(args[1].deep())}
	case "delete":
		r.changesPlaces(args[0])
	case "clear":
		r.clears(args[0])
	case "panic":
		r.st.failed = true
		return &value{}
	case "unsafe.Slice", "unsafe.SliceData", "unsafe.String", "unsafe.StringData", "unsafe.Add":
		v := *args[0]
		if strings.HasPrefix(name, "unsafe.Slice") && name != "unsafe.SliceData" {
			v.kind = headerOf
		}
		if v.raw == nil && name == "unsafe.String" && len(v.refs) == 1 {
			v.kind = pointerTo
		}
		return &v
	}
	out := &value{}
	for _, a := range args {
		out.deps = out.deps.and(a.deep())
	}
	return out
}

// minimum is the value of min: less than a length, if one of the others is constant.
func minimum(args []*value) *value {
	out := args[0]
	for _, a := range args[1:] {
		next := &value{deps: out.deep().and(a.deep()), text: "min(" + out.text + "," + a.text + ")"}
		if _, ok := intOf(a); ok {
			next.length = out.length.part()
		} else if _, ok := intOf(out); ok {
			next.length = a.length.part()
		}
		out = next
	}
	return out
}

// length is the value of len(x) or cap(x).
func (r *run) length(f *frame, e ast.Expr, x *value, capacity bool) *value {
	if x.listed {
		return constValue(constant.MakeInt64(int64(len(x.list))))
	}
	if x.vague {
		return x.plain()
	}
	v := &value{deps: shapeDeps(x)}
	refs := x.refs
	if len(refs) == 0 {
		refs = r.places(f, e)
	}
	if len(refs) == 1 {
		v.text = "len(" + refs[0].key() + ")"
		v.length = &measure{of: refs[0], capacity: capacity}
	}
	if len(refs) == 1 && x.window != nil && !capacity {
		m, n := windowLength(x.window, refs[0])
		if m == nil {
			return constValue(constant.MakeInt64(n))
		}
		v.length, v.text = m, v.text+"-"+itoa(int(x.window[0]))
	}
	if r.mode.reads() && len(v.unset) == 0 && v.text != "" {
		v.text += x.text
	}
	return v
}

// appendTo is the value of append.
func (r *run) appendTo(args []*value, spread bool) *value {
	base := args[0]
	v := &value{deps: base.deps, kind: base.kind, refs: base.refs}
	if base.clipped {
		v.kind, v.refs = noRef, nil
	}
	if base.listed {
		v.list, v.listed = slices.Clone(base.list), true
	}
	for _, a := range args[1:] {
		v.deps = v.deps.and(r.content(a))
		if spread {
			v.deps = v.deps.and(a.deep())
			v.listed = v.listed && a.listed
			v.list = append(v.list, a.list...)
		} else {
			v.list = append(v.list, a)
		}
	}
	if !v.listed {
		v.deps = v.deep()
	}
	return v
}

// literal reports whether a function value is a function literal.
func (c *closure) literal() bool { return c != nil && c.lit != nil }
