package pupcheck

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
)

// mayLeave reports whether a path through a statement may skip what follows the statement.
func (r *run) mayLeave(s ast.Stmt) bool {
	found := false
	var inspect func(n ast.Node, inLoop, inSwitch bool)
	inspect = func(n ast.Node, inLoop, inSwitch bool) {
		ast.Inspect(n, func(m ast.Node) bool {
			switch m := m.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ReturnStmt:
				found = true
			case *ast.BranchStmt:
				switch {
				case m.Label != nil || m.Tok == token.GOTO:
					found = true
				case m.Tok == token.BREAK:
					found = found || !inLoop && !inSwitch
				case m.Tok == token.CONTINUE:
					found = found || !inLoop
				}
			case *ast.ForStmt, *ast.RangeStmt:
				if m != n {
					inspect(m, true, inSwitch)
					return false
				}
			case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
				if m != n {
					inspect(m, inLoop, true)
					return false
				}
			}
			return !found
		})
	}
	_, isIf := s.(*ast.IfStmt)
	inspect(s, false, !isIf)
	return found
}

// A ranged is what a range loop goes through, with the variables for the index and the element.
type ranged struct {
	over       ast.Expr
	key, value ast.Expr
	dir        int8
}

// rangedOf sees through the iterators of package slices.
func (r *run) rangedOf(s *ast.RangeStmt) ranged {
	out := ranged{s.X, s.Key, s.Value, 1}
	call, ok := ast.Unparen(s.X).(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return out
	}
	id := calleeIdent(ast.Unparen(call.Fun))
	if id == nil {
		return out
	}
	f, ok := r.pass.TypesInfo.Uses[id].(*types.Func)
	if !ok || f.Pkg() == nil || f.Pkg().Path() != "slices" {
		return out
	}
	switch f.Name() {
	case "All":
		return ranged{call.Args[0], s.Key, s.Value, 1}
	case "Backward":
		return ranged{call.Args[0], s.Key, s.Value, -1}
	case "Values":
		return ranged{call.Args[0], nil, s.Key, 1}
	}
	return out
}

// rangeStmt executes a range loop.
func (r *run) rangeStmt(f *frame, s *ast.RangeStmt) bool {
	g, reads := r.rangedOf(s), len(r.reads)
	x := r.eval(f, g.over)
	if g.value == nil {
		r.reads = r.reads[:reads] // only the length matters
	}
	t := r.typeOf(f, g.over)
	if x.listed && len(x.list) > 0 && len(x.list) <= 64 && g.dir > 0 {
		return r.unroll(f, s, g, x)
	}
	if isFunc(under(t)) && r.known(x.fn) {
		return r.iterate(f, s, x)
	}
	l := r.newLoop(s.Body)
	for _, e := range []ast.Expr{g.key, g.value} {
		if e != nil {
			r.noteAssigned(l, e)
		}
	}
	over := &value{deps: shapeDeps(x)}
	u := under(pointee(t))
	_, overMap := u.(*types.Map)
	if _, isChan := u.(*types.Chan); isChan {
		over.flags |= fromChannel
	}
	if x.flags&inMapOrder != 0 {
		overMap = true
	}
	b := r.rangeBound(x, u)
	b.dir = g.dir
	over.text = b.text
	l.bound, l.stmt = b, s
	if isTable(u) && b.hasHi && b.over == nil {
		over.deps = deps{}
	}
	head := func() { r.bindRanged(f, g, l, x, overMap) }
	return r.loop(f, l, over, overMap, s.Pos(), head, items(s.Body.List), nil)
}

// bindRanged gives the variables of a range loop their values.
func (r *run) bindRanged(f *frame, g ranged, l *loopCtx, x *value, overMap bool) {
	t := r.typeOf(f, g.over)
	u := under(pointee(t))
	r.vars++
	key := &value{deps: deps{loops: l.bit, flags: x.flags & (fromStream | inMapOrder)}, loop: l.bound, text: pass + itoa(r.vars)}
	if overMap {
		key.flags |= inMapOrder
	}
	if overMap || isFunc(u) {
		key = &value{deps: x.deep().and(key.deps), text: key.text}
	}
	if isFunc(u) {
		r.bindIterated(f, g, x, key)
		return
	}
	if g.key != nil {
		r.assignTo(f, g.key, key)
	}
	if g.value != nil {
		v := r.load1(r.elementPlaces(f, g.over, x, key, t), elementType(u))
		r.assignTo(f, g.value, v.depend(deps{flags: key.flags, loops: l.bit}).and(x))
	}
}

// known reports whether the body of a function can be followed.
func (r *run) known(c *closure) bool {
	if c.literal() {
		return true
	}
	if c == nil || c.obj == nil || c.path != nil {
		return false
	}
	decl := r.decls[c.obj.Origin()]
	return decl != nil && decl.Body != nil && r.follow(decl, c.obj.Origin())
}

// iterate executes a loop over a function whose body is known: the loop's body takes the place of yield.
func (r *run) iterate(f *frame, s *ast.RangeStmt, x *value) bool {
	l := &loopCtx{}
	yield := &closure{native: func(args []arg) *value {
		for i, e := range []ast.Expr{s.Key, s.Value} {
			if e != nil && i < len(args) {
				r.assignTo(f, e, args[i].v)
			}
		}
		f.loops = append(f.loops, l)
		l.exits = nil
		r.exec(f, items(s.Body.List))
		for _, st := range l.exits {
			r.st = join(r.st, st, false)
		}
		f.loops = f.loops[:len(f.loops)-1]
		return boolValue(true)
	}}
	r.apply(x.fn, []arg{{&value{fn: yield}, types.Typ[types.Invalid]}}, s.Pos())
	return true
}

// bindIterated gives the variables of a range over a function values that depend on whatever the function depends on.
func (r *run) bindIterated(f *frame, g ranged, x, key *value) {
	for _, e := range []ast.Expr{g.key, g.value} {
		if e == nil {
			continue
		}
		v := &value{deps: key.deps, text: key.text}
		if refs := x.refs; len(refs) > 0 {
			if t := r.typeOf(f, e); t != nil && isPointer(t) {
				v.kind, v.vague = pointerTo, true
				for _, p := range refs {
					p.loops |= key.loops
					v.refs = append(v.refs, p)
				}
			}
		}
		r.assignTo(f, e, v)
	}
}

func isTable(u types.Type) bool {
	switch u := u.(type) {
	case *types.Array:
		return true
	case *types.Basic:
		return u.Info()&types.IsInteger != 0
	}
	return false
}

func isFunc(u types.Type) bool {
	_, ok := u.(*types.Signature)
	return ok
}

func elementType(u types.Type) types.Type {
	switch u := u.(type) {
	case *types.Slice:
		return u.Elem()
	case *types.Array:
		return u.Elem()
	case *types.Map:
		return u.Elem()
	case *types.Chan:
		return u.Elem()
	}
	return types.Typ[types.Rune]
}

// shapeDeps is the dependence of the length of a value.
func shapeDeps(v *value) deps {
	d := v.deep()
	src := map[string]Place{}
	for k, p := range d.src {
		for _, ref := range v.refs {
			if ref.key() == k {
				p = p.shape()
			}
		}
		src[p.key()] = p
	}
	d.src = src
	return d
}

// rangeBound is the interval that the key of a range loop takes.
func (r *run) rangeBound(x *value, u types.Type) *bound {
	b := &bound{hasLo: true, dir: 1}
	switch u := u.(type) {
	case *types.Array:
		b.hi, b.hasHi, b.text = u.Len(), true, itoa(int(u.Len()))
		return b
	case *types.Basic:
		b.text = x.text
		if n, ok := intOf(x); ok {
			b.hi, b.hasHi, b.text = n, true, itoa(int(n))
		}
		b.limit(x.length, 0)
		return b
	case *types.Slice:
	default:
		b.hasLo = false
		return b
	}
	switch {
	case x.moving || len(x.refs) != 1:
	case x.window != nil:
		m, n := windowLength(x.window, x.refs[0])
		b.hi, b.hasHi = n, true
		b.limit(m, 0)
	default:
		b.limit(&measure{of: x.refs[0]}, 0)
		b.text = "len(" + x.refs[0].key() + ")"
	}
	return b
}

// limit sets the end of an interval to a number that comes from a length, plus n.
func (b *bound) limit(m *measure, n int64) {
	switch {
	case m == nil:
	case m.cut:
		b.cut = &m.of
	default:
		b.over, b.hi, b.hasHi, b.capacity = &m.of, m.offset+n, true, m.capacity
	}
}

func intOf(v *value) (int64, bool) {
	if v.konst == nil {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(v.konst))
}

// unroll executes the body of a loop over a literal once for each element.
func (r *run) unroll(f *frame, s *ast.RangeStmt, g ranged, x *value) bool {
	l := &loopCtx{}
	f.loops = append(f.loops, l)
	for i, e := range x.list {
		if g.key != nil {
			r.assignTo(f, g.key, constValue(constant.MakeInt64(int64(i))))
		}
		if g.value != nil {
			r.assignTo(f, g.value, e)
		}
		l.exits = nil
		r.exec(f, items(s.Body.List))
		for _, st := range l.exits {
			r.st = join(r.st, st, false)
		}
		if r.st.dead {
			break
		}
	}
	f.loops = f.loops[:len(f.loops)-1]
	return !r.st.dead
}

// forStmt executes a for loop.
func (r *run) forStmt(f *frame, s *ast.ForStmt) bool {
	if s.Init != nil && !r.exec(f, []item{{stmt: s.Init}}) {
		return false
	}
	nodes := []ast.Node{s.Body}
	if s.Post != nil {
		nodes = append(nodes, s.Post)
	}
	l := r.newLoop(nodes...)
	over := &value{}
	if s.Cond != nil {
		over = r.eval(f, s.Cond)
		if is, known := over.truth(); known && !is && !r.varies(s.Cond, l) {
			return true
		}
		over = &value{deps: over.deep()}
	}
	b, at := r.forBound(f, s, l)
	l.bound, l.stmt = b, s
	if b != nil {
		over.text = b.text
	}
	head := func() {
		if b == nil {
			return
		}
		r.vars++
		v := &value{deps: deps{loops: l.bit, flags: over.flags & fromStream}, loop: b, text: pass + itoa(r.vars)}
		r.st.set(at, v)
	}
	body := items(s.Body.List)
	post := func() {
		if s.Post != nil {
			r.exec(f, []item{{stmt: s.Post}})
		}
	}
	l.open = b == nil && (s.Cond == nil || r.varies(s.Cond, l))
	goesOn := r.loop(f, l, over, false, s.Pos(), head, body, post)
	if b != nil {
		r.vars++
		r.st.set(at, &value{deps: over.deps, text: "after" + itoa(r.vars)})
	}
	return goesOn
}

// varies reports whether an expression mentions a variable that the loop assigns.
func (r *run) varies(e ast.Expr, l *loopCtx) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && l.assigned[r.pass.TypesInfo.ObjectOf(id)] {
			found = true
		}
		return !found
	})
	return found
}

// unsettle forgets constants that hold only in the first pass of a loop.
func (r *run) unsettle(f *frame, l *loopCtx) {
	for obj := range l.assigned {
		p, ok := f.place(obj)
		if !ok {
			continue
		}
		if e, ok := r.st.store[p.key()]; ok && (e.v.konst != nil || e.v.isNil) {
			v := *e.v
			v.konst, v.isNil, v.list, v.listed = nil, false, nil, false
			r.vars++
			v.text = "varies" + itoa(r.vars)
			r.st.store[p.key()] = entry{p, &v}
		}
	}
}

// A counter is the variable with which a for loop counts.
type counter struct {
	obj   types.Object
	step  int64
	plus  int64 // the condition compares the variable plus this
	op    token.Token
	limit ast.Expr
}

// forBound recognises the loops that count through an interval.
func (r *run) forBound(f *frame, s *ast.ForStmt, l *loopCtx) (*bound, Place) {
	c, ok := r.counter(s)
	if !ok {
		return nil, Place{}
	}
	at, ok := f.place(c.obj)
	if !ok {
		return nil, Place{}
	}
	from, limit := r.load(at, c.obj.Type()), r.eval(f, c.limit)
	if c.step < 0 {
		return countDown(from, limit, c), at
	}
	b := &bound{stride: c.step, dir: 1}
	b.lo, b.hasLo = intOf(from)
	end := -c.plus
	switch c.op {
	case token.LEQ:
		end++
	case token.LSS, token.NEQ:
	default:
		return nil, Place{}
	}
	if n, ok := intOf(limit); ok {
		b.hi, b.hasHi = n+end, true
	}
	b.limit(limit.length, end)
	switch {
	case b.hasLo && b.hasHi && b.over == nil:
		b.text = itoa(int((b.hi - b.lo + b.stride - 1) / b.stride))
	case b.hasLo && b.lo == 0 && end == 0 && c.step == 1:
		b.text = limit.text
	}
	return b, at
}

// countDown is the interval of a loop that goes down.
func countDown(from, limit *value, c counter) *bound {
	b := &bound{stride: -c.step, dir: -1}
	if n, ok := intOf(limit); ok && (c.op == token.GEQ || c.op == token.GTR || c.op == token.NEQ) {
		if b.lo, b.hasLo = n-c.plus, true; c.op != token.GEQ {
			b.lo++
		}
	}
	if n, ok := intOf(from); ok {
		b.hi, b.hasHi = n+1, true
	}
	b.limit(from.length, 1)
	if b.stride > 1 {
		b.hasLo = false // which are left out depends on the length
	} else if b.hasLo && b.hasHi && b.over == nil {
		b.text = "down " + itoa(int(b.hi-b.lo))
	}
	return b
}

// counter finds the variable of a for loop that nothing but the end of each pass changes.
func (r *run) counter(s *ast.ForStmt) (counter, bool) {
	var c counter
	post, body := s.Post, s.Body.List
	if post == nil && len(body) > 0 {
		post, body = body[len(body)-1], body[:len(body)-1]
	}
	cond, ok := s.Cond.(*ast.BinaryExpr)
	if !ok {
		return c, false
	}
	c.op, c.limit = cond.Op, cond.Y
	x := ast.Unparen(cond.X)
	if sum, ok := x.(*ast.BinaryExpr); ok && (sum.Op == token.ADD || sum.Op == token.SUB) {
		v := r.pass.TypesInfo.Types[sum.Y].Value
		n, exact := int64(0), v != nil && v.Kind() == constant.Int
		if exact {
			n, exact = constant.Int64Val(v)
		}
		if !exact {
			return c, false
		}
		if x, c.plus = ast.Unparen(sum.X), n; sum.Op == token.SUB {
			c.plus = -n
		}
	}
	id, ok := x.(*ast.Ident)
	if !ok {
		return c, false
	}
	c.obj = r.pass.TypesInfo.ObjectOf(id)
	c.step = r.increment(post, c.obj)
	return c, c.step != 0 && !r.assignedIn(&ast.BlockStmt{List: body}, c.obj)
}

// increment is the constant that a statement adds to a variable, or 0.
func (r *run) increment(s ast.Stmt, obj types.Object) int64 {
	is := func(e ast.Expr) bool {
		id, ok := ast.Unparen(e).(*ast.Ident)
		return ok && r.pass.TypesInfo.ObjectOf(id) == obj
	}
	switch s := s.(type) {
	case *ast.IncDecStmt:
		if is(s.X) && s.Tok == token.INC {
			return 1
		} else if is(s.X) {
			return -1
		}
	case *ast.AssignStmt:
		if len(s.Lhs) != 1 || !is(s.Lhs[0]) || s.Tok != token.ADD_ASSIGN && s.Tok != token.SUB_ASSIGN {
			return 0
		}
		v := r.pass.TypesInfo.Types[s.Rhs[0]].Value
		if v == nil || v.Kind() != constant.Int {
			return 0
		}
		n, _ := constant.Int64Val(v)
		if s.Tok == token.SUB_ASSIGN {
			n = -n
		}
		return n
	}
	return 0
}

func (r *run) assignedIn(body ast.Node, obj types.Object) bool {
	return r.newLoop(body).assigned[obj]
}
