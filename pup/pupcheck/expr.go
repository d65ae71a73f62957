package pupcheck

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"math"
	"slices"
	"strconv"
)

func itoa(n int) string { return strconv.Itoa(n) }

func (f *frame) subst(t types.Type) types.Type { return f.targs.subst(t) }

func (r *run) typeOf(f *frame, e ast.Expr) types.Type {
	t := r.pass.TypesInfo.TypeOf(e)
	if t == nil {
		return types.Typ[types.Invalid]
	}
	return f.subst(t)
}

// eval is the value of an expression.
func (r *run) eval(f *frame, e ast.Expr) *value {
	r.step()
	if tv := r.pass.TypesInfo.Types[e]; tv.Value != nil {
		return constValue(tv.Value)
	} else if tv.IsNil() {
		return &value{isNil: true, listed: true, text: "nil"}
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return r.eval(f, e.X)
	case *ast.Ident:
		return r.ident(f, e)
	case *ast.SelectorExpr:
		return r.selector(f, e)
	case *ast.StarExpr:
		return r.loadAll(f, e)
	case *ast.IndexExpr:
		return r.index(f, e)
	case *ast.IndexListExpr:
		return r.eval(f, e.X)
	case *ast.SliceExpr:
		return r.slice(f, e)
	case *ast.UnaryExpr:
		return r.unary(f, e)
	case *ast.BinaryExpr:
		return r.binaryExpr(f, e)
	case *ast.CallExpr:
		return r.call(f, e)
	case *ast.FuncLit:
		return &value{fn: &closure{lit: e, frame: f}}
	case *ast.CompositeLit:
		return r.composite(f, e)
	case *ast.TypeAssertExpr:
		if e.Type == nil {
			return r.eval(f, e.X)
		}
		v := asserted(r.eval(f, e.X), r.typeOf(f, e.Type))
		if _, pair := r.pass.TypesInfo.TypeOf(e).(*types.Tuple); pair {
			return &value{tuple: []*value{v, v.plain()}}
		}
		return v
	}
	return &value{}
}

func (r *run) ident(f *frame, e *ast.Ident) *value {
	obj := r.pass.TypesInfo.ObjectOf(e)
	switch obj := obj.(type) {
	case *types.Func:
		return &value{fn: r.funcValue(f, obj, e)}
	case *types.Var:
		p, ok := f.place(obj)
		if !ok {
			return r.global(obj)
		}
		v := r.load(p, f.subst(obj.Type()))
		for _, l := range r.loops {
			if l.assigned[obj] {
				v = v.taint(l.bit)
				if l.whole[obj] && l.stmt != nil && (obj.Pos() < l.stmt.Pos() || obj.Pos() >= l.stmt.End()) {
					v.flags |= fromPass
					v.moving = true
				}
			}
		}
		return v
	}
	return &value{}
}

// taint is v as a value that differs between the passes of a loop.
func (v *value) taint(bit uint64) *value {
	w := v.depend(deps{loops: bit})
	w.refs = nil
	for _, p := range v.refs {
		p.loops |= bit
		w.refs = append(w.refs, p)
	}
	return w
}

// global is the value of a variable of a package.
func (r *run) global(obj *types.Var) *value {
	if fields, ok := r.blockOf(obj); ok {
		return &value{block: fields}
	}
	if init := r.tables[obj]; init != nil {
		if lit, ok := init.(*ast.FuncLit); ok {
			return &value{fn: &closure{lit: lit}}
		}
		return &value{text: obj.Name()}
	}
	v := &value{text: "global " + obj.Name(), deps: deps{flags: fromGlobal, global: obj.Name()}, errVal: isError(obj.Type())}
	if isError(obj.Type()) {
		v.flags = 0
	}
	return v
}

// places is what an expression that can be assigned to denotes.
func (r *run) places(f *frame, e ast.Expr) []Place {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		if p, ok := f.place(r.pass.TypesInfo.ObjectOf(e)); ok {
			return []Place{p}
		}
	case *ast.SelectorExpr:
		if sel := r.pass.TypesInfo.Selections[e]; sel != nil && sel.Kind() == types.FieldVal {
			places, _ := r.fieldPlaces(f, e, sel.Index())
			return places
		}
	case *ast.StarExpr:
		return r.eval(f, e.X).refs
	case *ast.IndexExpr:
		x := r.indexed(f, e.X)
		return r.elementPlaces(f, e.X, x, r.eval(f, e.Index), r.typeOf(f, e.X))
	case *ast.TypeAssertExpr, *ast.CallExpr, *ast.CompositeLit:
		if v := r.eval(f, e); v.kind == copyOf {
			return v.refs
		}
	}
	return nil
}

// fieldPlaces follows the fields that a selector names, through embedded structs and pointers.
func (r *run) fieldPlaces(f *frame, e *ast.SelectorExpr, path []int) ([]Place, types.Type) {
	t := r.typeOf(f, e.X)
	var places []Place
	if isPointer(t) {
		places, t = r.eval(f, e.X).refs, pointee(t)
	} else {
		places = r.places(f, e.X)
	}
	for _, i := range path {
		if isPointer(t) {
			places, t = r.loadPlaces(places, t).refs, pointee(t)
		}
		s, ok := under(t).(*types.Struct)
		if !ok || i >= s.NumFields() {
			return nil, types.Typ[types.Invalid]
		}
		field := s.Field(i)
		next := make([]Place, len(places))
		for j, p := range places {
			next[j] = p.field(field.Name())
		}
		places, t = next, field.Type()
	}
	return places, t
}

// loadPlaces reads what stands at one of several places.
func (r *run) loadPlaces(places []Place, t types.Type) *value {
	var v *value
	for _, p := range places {
		v = joinValues(v, r.load(p, t))
	}
	if v == nil {
		return &value{}
	}
	return v
}

func (r *run) load1(places []Place, t types.Type) *value { return r.loadPlaces(places, t) }

// loadAll reads what an expression denotes, or if that has no place keeps the dependence of its operand.
func (r *run) loadAll(f *frame, e ast.Expr) *value {
	if places := r.places(f, e); len(places) > 0 {
		return r.loadPlaces(places, r.typeOf(f, e))
	}
	switch e := e.(type) {
	case *ast.SelectorExpr:
		x := r.eval(f, e.X)
		if v, ok := x.fields[e.Sel.Name]; ok {
			return v
		}
		return x.plain()
	case *ast.StarExpr:
		return r.eval(f, e.X).plain()
	case *ast.IndexExpr:
		x := r.eval(f, e.X)
		if n, ok := intOf(r.eval(f, e.Index)); ok && x.listed && n >= 0 && n < int64(len(x.list)) {
			return x.list[n]
		}
		if x.listed && len(x.list) > 0 {
			out := x.list[0]
			for _, v := range x.list[1:] {
				out = joinValues(out, v)
			}
			return out
		}
		return x.plain().and(r.eval(f, e.Index))
	}
	return &value{}
}

func (r *run) selector(f *frame, e *ast.SelectorExpr) *value {
	sel := r.pass.TypesInfo.Selections[e]
	if sel == nil {
		switch obj := r.pass.TypesInfo.ObjectOf(e.Sel).(type) {
		case *types.Func:
			return &value{fn: r.funcValue(f, obj, e.Sel)}
		case *types.Var:
			return r.global(obj)
		}
		return &value{}
	}
	switch sel.Kind() {
	case types.FieldVal:
		return r.loadAll(f, e)
	case types.MethodExpr:
		return &value{fn: &closure{obj: sel.Obj().(*types.Func), path: sel.Index()}}
	}
	return &value{fn: &closure{obj: sel.Obj().(*types.Func), recv: r.receiver(f, e, sel), recvType: r.receiverType(f, e, sel)}}
}

// receiver is the receiver argument of a method value or call.
func (r *run) receiver(f *frame, e *ast.SelectorExpr, sel *types.Selection) *value {
	path := sel.Index()
	path = path[:len(path)-1]
	sig := sel.Obj().(*types.Func).Signature()
	_, wantPtr := types.Unalias(sig.Recv().Type()).(*types.Pointer)
	t := r.typeOf(f, e.X)
	if len(path) == 0 && (isPointer(t) == wantPtr || types.IsInterface(t)) {
		return r.eval(f, e.X)
	}
	places, t := r.fieldPlaces(f, e, path)
	switch {
	case isPointer(t) && wantPtr:
		return r.loadPlaces(places, t)
	case isPointer(t):
		return r.loadPlaces(r.loadPlaces(places, t).refs, pointee(t))
	case len(places) == 0:
		return r.eval(f, e.X)
	case wantPtr:
		v := &value{kind: pointerTo, refs: places}
		for _, p := range places {
			v.deps = v.deps.and(r.placeDeps(p))
		}
		return v
	}
	return r.loadPlaces(places, t)
}

// placeDeps is the dependence of a pointer to a place.
func (r *run) placeDeps(p Place) deps {
	var d deps
	for _, l := range r.loops {
		if l.bit&p.loops != 0 {
			d.loops |= l.bit
		}
	}
	return d
}

// receiverType is what a receiver points to, after the embedded fields on the way to a method.
func (r *run) receiverType(f *frame, e *ast.SelectorExpr, sel *types.Selection) types.Type {
	t := r.typeOf(f, e.X)
	path := sel.Index()
	for _, i := range path[:len(path)-1] {
		s, ok := under(pointee(t)).(*types.Struct)
		if !ok || i >= s.NumFields() {
			return pointee(t)
		}
		t = s.Field(i).Type()
	}
	return pointee(t)
}

// indexed is the operand of an index expression.
func (r *run) indexed(f *frame, e ast.Expr) *value {
	if _, isArray := under(r.typeOf(f, e)).(*types.Array); isArray {
		if places := r.places(f, e); len(places) > 0 {
			return &value{kind: headerOf, refs: places}
		}
	}
	return r.eval(f, e)
}

// elementPlaces is where the element of x with an index stands.
func (r *run) elementPlaces(f *frame, e ast.Expr, x, index *value, t types.Type) []Place {
	refs := x.refs
	if x.kind == noRef || x.kind == copyOf && !isArrayType(t) {
		if id, ok := ast.Unparen(e).(*ast.Ident); ok {
			if p, ok := f.place(r.pass.TypesInfo.ObjectOf(id)); ok && !p.param() {
				refs = []Place{p}
			}
		}
	}
	var out []Place
	for _, p := range refs {
		q := p.with(r.indexStep(p, x, index, t))
		q.loops |= index.loops
		out = append(out, q)
	}
	return out
}

func isArrayType(t types.Type) bool {
	_, ok := under(t).(*types.Array)
	return ok
}

func (r *run) indexStep(p Place, x, index *value, t types.Type) Step {
	window := x.window
	if n, ok := intOf(index); ok && !isMap(t) && n >= 0 && !(x.moving && window != nil) {
		if window != nil {
			n += window[0]
		}
		return Step{Op: opIndex, Lo: n, Hi: n + 1}
	}
	if b := index.loop; b != nil && !isMap(t) && !x.moving {
		if s, ok := b.step(p, window); ok {
			if b.capacity && !x.made && s.Hi < 0 {
				r.report(r.position(r.at), "unstable", "the loop goes to the capacity of %s, which is not saved: use its length", p)
			}
			return s
		}
	}
	text := index.text
	if text == "" {
		r.vars++
		text = "index" + itoa(r.vars)
	}
	return Step{Op: opIndex, Name: text}
}

func (r *run) index(f *frame, e *ast.IndexExpr) *value {
	if tv := r.pass.TypesInfo.Types[e.Index]; tv.IsType() {
		return r.eval(f, e.X)
	}
	v := r.loadAll(f, e).and(r.eval(f, e.Index).plain())
	if _, pair := r.pass.TypesInfo.TypeOf(e).(*types.Tuple); pair {
		return &value{tuple: []*value{v, v.plain()}}
	}
	return v
}

func (r *run) slice(f *frame, e *ast.SliceExpr) *value {
	x := r.indexed(f, e.X)
	v := *x
	v.list, v.listed, v.length, v.isNil = nil, false, nil, false
	if e.Low == nil && e.High == nil {
		v.list, v.listed = x.list, x.listed
		return &v
	}
	lo, okLo := int64(0), true
	var high *value
	if e.Low != nil {
		low := r.eval(f, e.Low)
		lo, okLo = intOf(low)
		v.deps = v.deps.and(low.deep())
	}
	if a, ok := under(pointee(r.typeOf(f, e.X))).(*types.Array); ok && e.High == nil {
		high = constValue(constant.MakeInt64(a.Len()))
	} else if e.High != nil {
		high = r.eval(f, e.High)
		if d := high.deep(); len(d.unset) == 0 {
			v.unset = nil // the length does not depend on what was there
			v.deps = v.deps.and(d)
		} else {
			v.deps = v.deps.and(d)
		}
	}
	v.refs = slices.Clone(x.refs)
	for i := range v.refs {
		v.refs[i].loops |= v.loops
	}
	v.window = nil
	if okLo && !isString(r.typeOf(f, e.X)) {
		v.window = inWindow(x, lo, high)
	}
	v.text, v.made, v.clipped = "", true, e.Slice3
	return &v
}

func (r *run) unary(f *frame, e *ast.UnaryExpr) *value {
	switch e.Op {
	case token.AND:
		return r.address(f, e.X)
	case token.ARROW:
		v := r.eval(f, e.X).plain()
		v.flags |= fromChannel
		return v
	case token.NOT:
		x := r.eval(f, e.X)
		if is, known := x.truth(); known {
			return boolValue(!is)
		}
		v := &value{deps: x.deep(), text: "!" + x.text}
		if x.cmp != nil {
			c := *x.cmp
			c.not = !c.not
			v.cmp = &c
		}
		return v
	}
	x := r.eval(f, e.X)
	if x.konst != nil {
		return constValue(constant.UnaryOp(e.Op, x.konst, 0))
	}
	return &value{deps: x.deep(), text: e.Op.String() + x.text}
}

// address is the value of &e.
func (r *run) address(f *frame, e ast.Expr) *value {
	e = ast.Unparen(e)
	if isStream(r.typeOf(f, e)) {
		return &value{stream: true}
	}
	if lit, ok := e.(*ast.CompositeLit); ok {
		v := r.composite(f, lit)
		p := r.fresh("the new " + types.TypeString(r.typeOf(f, lit), shortNames))
		r.assign([]Place{p}, v, r.typeOf(f, lit))
		return &value{kind: pointerTo, refs: []Place{p}, made: len(lit.Elts) == 0}
	}
	v := &value{kind: pointerTo, refs: r.places(f, e)}
	for _, p := range v.refs {
		v.deps = v.deps.and(r.placeDeps(p))
		v.text = "&" + p.key()
	}
	if id, ok := e.(*ast.Ident); ok && len(v.refs) == 0 {
		if obj, ok := r.pass.TypesInfo.ObjectOf(id).(*types.Var); ok {
			v.deps = r.global(obj).deps
		}
	}
	return v
}

func (r *run) binaryExpr(f *frame, e *ast.BinaryExpr) *value {
	x := r.eval(f, e.X)
	if is, known := x.truth(); known && (e.Op == token.LAND && !is || e.Op == token.LOR && is) {
		return x
	}
	return r.binary(x, r.eval(f, e.Y), e.Op)
}

// binary is the value of x op y.
func (r *run) binary(x, y *value, op token.Token) *value {
	d := x.deep().and(y.deep())
	switch op {
	case token.LAND, token.LOR:
		return r.logical(x, y, op, d)
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return r.compare(x, y, op)
	}
	d.flags &^= inMapOrder
	r.noteSplit(x, op)
	if x.konst != nil && y.konst != nil {
		if v := fold(x.konst, y.konst, op); v != nil {
			return &value{konst: v, text: v.ExactString(), deps: d}
		}
	}
	return arithmetic(&value{deps: d, text: "(" + x.text + op.String() + y.text + ")"}, x, y, op)
}

func fold(x, y constant.Value, op token.Token) (out constant.Value) {
	defer func() {
		if recover() != nil {
			out = nil // division by zero or a shift out of range: the program's business
		}
	}()
	switch {
	case op == token.SHL || op == token.SHR:
		n, _ := constant.Uint64Val(y)
		return constant.Shift(constant.ToInt(x), op, uint(min(n, 64)))
	case op == token.QUO && x.Kind() == constant.Int && y.Kind() == constant.Int:
		op = token.QUO_ASSIGN
	}
	return constant.BinaryOp(x, op, y)
}

func (r *run) logical(x, y *value, op token.Token, d deps) *value {
	short := op == token.LOR // the operand that decides
	for _, pair := range [][2]*value{{x, y}, {y, x}} {
		if is, known := pair[0].truth(); known {
			if is == short {
				return boolValue(is)
			}
			return pair[1]
		}
	}
	v := &value{deps: d, text: "(" + x.text + op.String() + y.text + ")"}
	if op == token.LOR && x.cmp != nil && y.cmp != nil && x.cmp.subject == y.cmp.subject && x.cmp.lo == x.cmp.hi &&
		y.cmp.lo == y.cmp.hi && !x.cmp.not && !y.cmp.not && y.cmp.lo == x.cmp.hi+1 {
		v.cmp = &comparison{subject: x.cmp.subject, lo: x.cmp.lo, hi: y.cmp.hi}
	}
	return v
}

// compare is the value of a comparison.
func (r *run) compare(x, y *value, op token.Token) *value {
	if x.errVal && y.isNil || y.errVal && x.isNil {
		return boolValue(op == token.EQL) // what happens after an error is of no interest
	}
	if x.konst != nil && y.konst != nil {
		if x.konst.Kind() == y.konst.Kind() || numeric(x.konst) && numeric(y.konst) {
			return boolValue(constant.Compare(x.konst, op, y.konst))
		}
	}
	if x.konst != nil {
		x, y, op = y, x, mirrored(op)
	}
	d := shapeIf(x, y).and(shapeIf(y, x))
	if y.konst != nil && y.konst.Kind() == constant.Bool && (op == token.EQL || op == token.NEQ) {
		if is, _ := y.truth(); is == (op == token.EQL) {
			return x
		}
		return &value{deps: d, text: "!" + x.text}
	}
	v := &value{deps: d, text: "(" + x.text + op.String() + y.text + ")"}
	if x.text == "" || y.text == "" {
		v.text = ""
		return v
	}
	if y.konst != nil && y.konst.Kind() == constant.String {
		// Strings are told apart by number: the same string has the same number.
		n := r.number(y.text)
		y = &value{konst: constant.MakeInt64(n)}
	}
	if n, ok := intOf(y); ok {
		v.cmp = interval(x.text, op, n)
		r.noteVersion(x.text, op, n)
	}
	return v
}

func numeric(k constant.Value) bool { return k.Kind() == constant.Int || k.Kind() == constant.Float }

// shapeIf is the dependence of x in a comparison with y: with nil, only the shape counts.
func shapeIf(x, y *value) deps {
	if y.isNil {
		return shapeDeps(&value{deps: x.deps, refs: append(x.refs[:len(x.refs):len(x.refs)], withoutDeref(x.refs)...)})
	}
	return x.deep()
}

func withoutDeref(refs []Place) []Place {
	var out []Place
	for _, p := range refs {
		if n := len(p.Steps); n > 0 && p.Steps[n-1].Op == opDeref {
			p.Steps = p.Steps[:n-1]
			out = append(out, p)
		}
	}
	return out
}

func mirrored(op token.Token) token.Token {
	switch op {
	case token.LSS:
		return token.GTR
	case token.LEQ:
		return token.GEQ
	case token.GTR:
		return token.LSS
	case token.GEQ:
		return token.LEQ
	}
	return op
}

// interval is the comparison of a subject with a constant.
func interval(subject string, op token.Token, n int64) *comparison {
	switch op {
	case token.EQL, token.NEQ:
		return &comparison{subject, n, n, op == token.NEQ}
	case token.LSS:
		return &comparison{subject, math.MinInt64, n - 1, false}
	case token.LEQ:
		return &comparison{subject, math.MinInt64, n, false}
	case token.GTR:
		return &comparison{subject, n + 1, math.MaxInt64, false}
	}
	return &comparison{subject, n, math.MaxInt64, false}
}

func assignOp(t token.Token) token.Token { return t - token.ADD_ASSIGN + token.ADD }

// composite is the value of a composite literal.
func (r *run) composite(f *frame, e *ast.CompositeLit) *value {
	v := &value{}
	switch u := under(pointee(r.typeOf(f, e))).(type) {
	case *types.Struct:
		v.fields = map[string]*value{}
		for i, el := range e.Elts {
			if kv, ok := el.(*ast.KeyValueExpr); ok {
				v.fields[kv.Key.(*ast.Ident).Name] = r.element(f, kv.Value)
			} else if i < u.NumFields() {
				v.fields[u.Field(i).Name()] = r.element(f, el)
			}
		}
		for field := range u.Fields() {
			if v.fields[field.Name()] == nil {
				v.fields[field.Name()] = zeroOf(field.Type())
			}
		}
	case *types.Slice, *types.Array:
		v.listed = true
		for _, el := range e.Elts {
			if kv, ok := el.(*ast.KeyValueExpr); ok {
				el = kv.Value
			}
			v.list = append(v.list, r.element(f, el))
		}
	default:
		for _, el := range e.Elts {
			if kv, ok := el.(*ast.KeyValueExpr); ok {
				v.list = append(v.list, r.element(f, kv.Value))
			}
		}
	}
	return v
}

// element is an element of a composite literal, whose type may be left out.
func (r *run) element(f *frame, e ast.Expr) *value {
	if lit, ok := e.(*ast.CompositeLit); ok && isPointer(r.typeOf(f, lit)) {
		return r.address(f, lit)
	}
	return r.eval(f, e)
}
