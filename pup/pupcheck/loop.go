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

// rangeStmt executes a range loop.
func (r *run) rangeStmt(f *frame, s *ast.RangeStmt) bool {
	x := r.eval(f, s.X)
	t := r.typeOf(f, s.X)
	if x.listed && len(x.list) > 0 && len(x.list) <= 64 {
		return r.unroll(f, s, x)
	}
	if isFunc(under(t)) && x.fn.literal() {
		return r.iterate(f, s, x)
	}
	l := r.newLoop(s.Body)
	for _, e := range []ast.Expr{s.Key, s.Value} {
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
	b := r.rangeBound(f, s.X, x, u)
	over.text = b.text
	if isTable(u) && b.hi >= 0 {
		over.deps = deps{}
	}
	head := func() {
		r.vars++
		key := &value{deps: deps{loops: l.bit, flags: x.flags & (fromStream | inMapOrder)}, loop: b, text: "pass" + itoa(r.vars)}
		if overMap {
			key.flags |= inMapOrder
		}
		if overMap || isFunc(u) {
			key = &value{deps: x.deep().and(key.deps), text: key.text}
		}
		if s.Key != nil && !isFunc(u) {
			r.assignTo(f, s.Key, key)
		}
		if isFunc(u) {
			r.bindIterated(f, s, x, key)
		} else if s.Value != nil {
			v := r.load1(r.elementPlaces(f, s.X, x, key, t), elementType(u))
			r.assignTo(f, s.Value, v.depend(deps{flags: key.flags, loops: l.bit}).and(x))
		}
	}
	return r.loop(f, l, over, overMap, s.Pos(), head, items(s.Body.List), nil)
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
	r.inlineLit(x.fn, []arg{{&value{fn: yield}, types.Typ[types.Invalid]}}, s.Pos())
	return true
}

// bindIterated gives the variables of a range over a function values that depend on whatever the function depends on.
func (r *run) bindIterated(f *frame, s *ast.RangeStmt, x, key *value) {
	for _, e := range []ast.Expr{s.Key, s.Value} {
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
func (r *run) rangeBound(f *frame, e ast.Expr, x *value, u types.Type) *bound {
	switch u := u.(type) {
	case *types.Array:
		return &bound{hi: u.Len(), text: itoa(int(u.Len()))}
	case *types.Basic:
		if n, ok := intOf(x); ok {
			return &bound{hi: n, text: itoa(int(n))}
		}
		return &bound{hi: -1, text: x.text, over: x.length}
	}
	b := &bound{hi: -1}
	if x.window != nil {
		b.hi = x.window[1] - x.window[0]
	} else if len(x.refs) == 1 {
		b.over = &x.refs[0]
		b.text = "len(" + x.refs[0].key() + ")"
	}
	return b
}

func intOf(v *value) (int64, bool) {
	if v.konst == nil {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(v.konst))
}

// unroll executes the body of a loop over a literal once for each element.
func (r *run) unroll(f *frame, s *ast.RangeStmt, x *value) bool {
	l := &loopCtx{}
	f.loops = append(f.loops, l)
	for i, e := range x.list {
		if s.Key != nil {
			r.assignTo(f, s.Key, constValue(constant.MakeInt64(int64(i))))
		}
		if s.Value != nil {
			r.assignTo(f, s.Value, e)
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
	if b != nil {
		over.text = b.text
	}
	head := func() {
		if b == nil {
			return
		}
		r.vars++
		v := &value{deps: deps{loops: l.bit, flags: over.flags & fromStream}, loop: b, text: "pass" + itoa(r.vars)}
		r.st.set(at, v)
	}
	body := items(s.Body.List)
	post := func() {
		if s.Post != nil {
			r.exec(f, []item{{stmt: s.Post}})
		}
	}
	l.open = b == nil && (s.Cond == nil || r.varies(s.Cond, l))
	return r.loop(f, l, over, false, s.Pos(), head, body, post)
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

// forBound recognises the loops that count through an interval.
func (r *run) forBound(f *frame, s *ast.ForStmt, l *loopCtx) (*bound, Place) {
	init, ok := s.Init.(*ast.AssignStmt)
	post, okPost := s.Post.(*ast.IncDecStmt)
	cond, okCond := s.Cond.(*ast.BinaryExpr)
	if !ok || !okPost || !okCond || len(init.Lhs) != 1 {
		return nil, Place{}
	}
	id, ok := init.Lhs[0].(*ast.Ident)
	obj := r.pass.TypesInfo.ObjectOf(id)
	if x, isID := cond.X.(*ast.Ident); !ok || !isID || r.pass.TypesInfo.ObjectOf(x) != obj || r.assignedIn(s.Body, obj) {
		return nil, Place{}
	}
	at, ok := f.place(obj)
	if !ok {
		return nil, Place{}
	}
	from, limit := r.load(at, obj.Type()), r.eval(f, cond.Y)
	lo, okLo := intOf(from)
	if post.Tok == token.DEC {
		from, limit = limit, from
		n, okN := intOf(limit)
		m, okM := intOf(from)
		if cond.Op == token.GEQ && okN && okM {
			return &bound{lo: m, hi: n + 1, text: "down " + itoa(int(n+1-m))}, at
		}
		return &bound{hi: -1}, at
	}
	hi, okHi := intOf(limit)
	if cond.Op == token.LEQ {
		hi++
	} else if cond.Op != token.LSS && cond.Op != token.NEQ {
		return nil, Place{}
	}
	switch {
	case okLo && okHi:
		return &bound{lo: lo, hi: hi, text: itoa(int(hi - lo))}, at
	case okLo && lo == 0:
		return &bound{hi: -1, over: limit.length, text: limit.text}, at
	}
	return &bound{hi: -1}, at
}

func (r *run) assignedIn(body ast.Node, obj types.Object) bool {
	return r.newLoop(body).assigned[obj]
}
