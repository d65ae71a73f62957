package pupcheck

import (
	"go/ast"
	"go/token"
	"go/types"
)

// An item is a statement, or the end of a switch.
type item struct {
	stmt  ast.Stmt
	ended *loopCtx
}

func items(list []ast.Stmt) []item {
	out := make([]item, len(list))
	for i, s := range list {
		out[i].stmt = s
	}
	return out
}

// exec executes statements in order and reports whether the end of the list is reached.
func (r *run) exec(f *frame, list []item) bool {
	for i, it := range list {
		if it.stmt == nil {
			continue
		}
		r.step()
		r.at = it.stmt.Pos()
		rest := list[i+1:]
		if s, ok := it.stmt.(*ast.LabeledStmt); ok {
			it.stmt = s.Stmt
		}
		switch s := it.stmt.(type) {
		case *ast.BlockStmt:
			return r.exec(f, append(items(s.List), rest...))
		case *ast.IfStmt:
			return r.ifStmt(f, s, rest)
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			return r.switchStmt(f, s, rest)
		case *ast.ReturnStmt:
			r.leave(f, r.results(f, s))
			r.die()
			return false
		case *ast.BranchStmt:
			return r.jump(f, s, rest)
		default:
			if !r.simple(f, s) {
				return false
			}
		}
	}
	return true
}

// die ends the present path; the state that was left belongs to whoever joins it.
func (r *run) die() {
	r.st = r.st.clone()
	r.st.dead = true
}

func (r *run) results(f *frame, s *ast.ReturnStmt) *value {
	switch len(s.Results) {
	case 0:
		return nil
	case 1:
		return r.eval(f, s.Results[0])
	}
	v := &value{}
	for _, e := range s.Results {
		v.tuple = append(v.tuple, r.eval(f, e))
	}
	return v
}

// jump executes break, continue, goto and fallthrough.
func (r *run) jump(f *frame, s *ast.BranchStmt, rest []item) bool {
	switch s.Tok {
	case token.BREAK:
		if s.Label == nil {
			for i, it := range rest {
				if it.ended != nil {
					return r.exec(f, rest[i+1:])
				}
			}
		}
		fallthrough
	case token.CONTINUE:
		if len(f.loops) == 0 {
			panic(gaveUp{})
		}
		l := f.loops[len(f.loops)-1]
		l.exits = append(l.exits, r.st)
		if s.Tok == token.CONTINUE {
			l.completes = true
		} else {
			l.leaves(r.st.path)
		}
		r.die()
		return false
	case token.GOTO:
		panic(gaveUp{})
	}
	return true // fallthrough: the next clause's statements follow
}

// simple executes a statement without alternatives; false says that the path ends.
func (r *run) simple(f *frame, s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		r.eval(f, s.X)
		if call, ok := ast.Unparen(s.X).(*ast.CallExpr); ok && r.endsProgram(call) {
			r.st.failed = true
			r.leave(f, nil)
			r.die()
			return false
		}
	case *ast.AssignStmt:
		r.assignStmt(f, s)
	case *ast.IncDecStmt:
		v := r.eval(f, s.X).plain()
		r.assign(r.places(f, s.X), v, r.typeOf(f, s.X))
	case *ast.DeclStmt:
		r.declStmt(f, s)
	case *ast.RangeStmt:
		return r.rangeStmt(f, s)
	case *ast.ForStmt:
		return r.forStmt(f, s)
	case *ast.DeferStmt:
		r.deferStmt(f, s)
	case *ast.GoStmt:
		r.goStmt(f, s)
	case *ast.SendStmt:
		if r.eval(f, s.Value).stream {
			r.report(r.position(s.Pos()), "stored", "the stream is sent on a channel: it is of no use after PUP has returned")
		}
	}
	return true
}

func (r *run) declStmt(f *frame, s *ast.DeclStmt) {
	d, ok := s.Decl.(*ast.GenDecl)
	if !ok || d.Tok != token.VAR {
		return
	}
	for _, spec := range d.Specs {
		spec := spec.(*ast.ValueSpec)
		var values []*value
		for _, e := range spec.Values {
			values = append(values, r.eval(f, e))
		}
		for i, name := range spec.Names {
			obj := r.pass.TypesInfo.Defs[name]
			if obj == nil {
				continue
			}
			v := zeroOf(f.subst(obj.Type()))
			if len(values) == len(spec.Names) {
				v = values[i]
			} else if len(values) == 1 {
				v = values[0].part(i)
			}
			r.assign([]Place{r.declare(f, obj)}, v, obj.Type())
		}
	}
}

func (r *run) assignStmt(f *frame, s *ast.AssignStmt) {
	var values []*value
	for _, e := range s.Rhs {
		values = append(values, r.eval(f, e))
	}
	for i, lhs := range s.Lhs {
		v := values[0]
		if len(values) == len(s.Lhs) {
			v = values[i]
		} else {
			v = v.part(i)
		}
		if s.Tok != token.ASSIGN && s.Tok != token.DEFINE {
			v = r.binary(r.eval(f, lhs), v, assignOp(s.Tok))
		}
		r.assignTo(f, lhs, v)
	}
}

// assignTo stores a value in what an expression denotes.
func (r *run) assignTo(f *frame, lhs ast.Expr, v *value) {
	lhs = ast.Unparen(lhs)
	if id, ok := lhs.(*ast.Ident); ok {
		if id.Name == "_" {
			return
		}
		if obj := r.pass.TypesInfo.Defs[id]; obj != nil {
			r.assign([]Place{r.declare(f, obj)}, v, obj.Type())
			return
		}
	}
	places := r.places(f, lhs)
	if len(places) == 0 && v.stream {
		r.report(r.position(lhs.Pos()), "stored", "the stream is stored: it is of no use after PUP has returned")
	}
	r.assign(places, v, r.typeOf(f, lhs))
	if ix, ok := lhs.(*ast.IndexExpr); ok && len(places) > 0 {
		r.assign(places, v.depend(r.eval(f, ix.Index).deep()), r.typeOf(f, lhs))
	}
}

// An alternative is one way that execution can take.
type alternative struct {
	cond *value // nil: none of those before
	list []item
	bind func()

	orFails bool // otherwise, the traversal fails
}

// ifStmt executes an if statement and, if a path through it may end, all that follows it on each path.
func (r *run) ifStmt(f *frame, s *ast.IfStmt, rest []item) bool {
	if s.Init != nil && !r.exec(f, []item{{stmt: s.Init}}) {
		return false
	}
	alts := []alternative{{cond: r.eval(f, s.Cond), list: items(s.Body.List)}, {}}
	if s.Else != nil {
		alts[1].list = []item{{stmt: s.Else}}
		alts[0].orFails = r.fails(s.Else)
	}
	return r.alternatives(f, s, alts, rest)
}

// alternatives executes one of several lists, and then the rest.
func (r *run) alternatives(f *frame, s ast.Stmt, alts []alternative, rest []item) bool {
	if !r.mayLeave(s) {
		return r.choose(f, s.Pos(), alts) && r.exec(f, rest)
	}
	for i := range alts {
		alts[i].list = append(alts[i].list[:len(alts[i].list):len(alts[i].list)], rest...)
	}
	return r.choose(f, s.Pos(), alts)
}

// choose executes alternatives and joins what holds after them.
func (r *run) choose(f *frame, pos token.Pos, alts []alternative) bool {
	a := alts[0]
	take := func() bool {
		if a.bind != nil {
			a.bind()
		}
		return r.exec(f, a.list)
	}
	if a.cond == nil || len(alts) == 1 {
		return take()
	}
	if is, known := a.cond.truth(); known && is {
		return take()
	} else if known {
		return r.choose(f, pos, alts[1:])
	}
	start, nodes := r.st, r.nodes
	cond := lit{text: a.cond.text, cmp: a.cond.cmp, loops: a.cond.loops, index: indexOnly(a.cond)}
	if cond.text == "" {
		r.vars++
		cond.text = "condition" + itoa(r.vars)
	}
	if r.mode == unpacking {
		for _, p := range a.cond.unset {
			r.reported[p.object().key()] = true
		}
	}
	failed := false
	run := func(not bool, body func() bool) (*state, []*Node, bool) {
		r.st, r.nodes = start.clone(), nil
		cond.not = not
		r.st.path = append(r.st.path, cond)
		if !failed {
			r.st.ctl = r.st.ctl.and(a.cond.control())
		}
		ended := !body()
		r.st.path, r.st.ctl = start.path, start.ctl
		return r.st, r.nodes, !ended
	}
	cond.index = cond.index && !a.orFails
	thenState, thenNodes, thenEnds := run(false, take)
	if failed = thenState.failed; failed {
		cond.index = false
		r.noteTested(a.cond)
	}
	elseState, elseNodes, elseEnds := run(true, func() bool { return r.choose(f, pos, alts[1:]) })
	r.nodes = nodes
	r.st = join(thenState, elseState, !isVersion(a.cond))
	r.st.path, r.st.ctl = start.path, start.ctl
	switch {
	case thenState.failed && !elseState.failed:
		r.nodes = append(r.nodes, elseNodes...)
	case elseState.failed && !thenState.failed:
		r.nodes = append(r.nodes, thenNodes...)
	default:
		r.branch(a.cond, pos, thenNodes, elseNodes)
	}
	return thenEnds || elseEnds
}

// fails reports whether a statement holds a call that makes the traversal fail.
func (r *run) fails(s ast.Stmt) bool {
	found := false
	ast.Inspect(s, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			name, _ := r.pupCallee(call)
			found = found || name == "Stream.Fail" || r.endsProgram(call)
		}
		return !found
	})
	return found
}

// branch adds the node of two alternatives and checks their condition.
func (r *run) branch(cond *value, pos token.Pos, then, els []*Node) {
	if len(then)+len(els) == 0 {
		return
	}
	n := &Node{Op: OpBranch, Then: then, Else: els, Cond: condOf(cond.deep(), cond.text), pos: pos}
	r.nodes = append(r.nodes, n)
	r.checkCond(n, "condition")
}

// condOf is what a condition depends on.
func condOf(d deps, text string) Cond {
	c := Cond{Flags: uint(d.flags), Global: d.global}
	for _, p := range sortedPlaces(d.unset) {
		c.Unset = append(c.Unset, p.object())
	}
	if d.flags&fromStream == 0 {
		c.Text = text
	}
	return c
}

// switchStmt turns a switch or select into a chain of alternatives.
func (r *run) switchStmt(f *frame, s ast.Stmt, rest []item) bool {
	mark := item{ended: &loopCtx{}}
	var alts []alternative
	switch s := s.(type) {
	case *ast.SwitchStmt:
		if s.Init != nil && !r.exec(f, []item{{stmt: s.Init}}) {
			return false
		}
		tag := boolValue(true)
		if s.Tag != nil {
			tag = r.eval(f, s.Tag)
		}
		alts = r.cases(f, s.Body, func(e ast.Expr) *value {
			if s.Tag == nil {
				return r.eval(f, e)
			}
			return r.binary(tag, r.eval(f, e), token.EQL)
		})
	case *ast.TypeSwitchStmt:
		if s.Init != nil && !r.exec(f, []item{{stmt: s.Init}}) {
			return false
		}
		alts = r.typeCases(f, s)
	case *ast.SelectStmt:
		alts = r.selectCases(f, s)
	}
	for i := range alts {
		alts[i].list = append(alts[i].list, mark)
	}
	return r.alternatives(f, s, alts, rest)
}

// cases lists the clauses of a switch, the default last.
func (r *run) cases(f *frame, body *ast.BlockStmt, test func(ast.Expr) *value) []alternative {
	var alts []alternative
	last := alternative{}
	for i, c := range body.List {
		clause := c.(*ast.CaseClause)
		list := items(clause.Body)
		for j := i; fallsThrough(body.List[j]); j++ {
			list = append(list[:len(list)-1], items(body.List[j+1].(*ast.CaseClause).Body)...)
		}
		if clause.List == nil {
			last.list = list
			continue
		}
		var cond *value
		for _, e := range clause.List {
			if v := test(e); cond == nil {
				cond = v
			} else {
				cond = r.binary(cond, v, token.LOR)
			}
		}
		alts = append(alts, alternative{cond: cond, list: list})
	}
	return append(alts, last)
}

func fallsThrough(c ast.Stmt) bool {
	list := c.(*ast.CaseClause).Body
	if len(list) == 0 {
		return false
	}
	b, ok := list[len(list)-1].(*ast.BranchStmt)
	return ok && b.Tok == token.FALLTHROUGH
}

func (r *run) typeCases(f *frame, s *ast.TypeSwitchStmt) []alternative {
	var x ast.Expr
	switch a := s.Assign.(type) {
	case *ast.AssignStmt:
		x = a.Rhs[0]
	case *ast.ExprStmt:
		x = a.X
	}
	subject := r.eval(f, ast.Unparen(x).(*ast.TypeAssertExpr).X)
	alts := r.cases(f, s.Body, func(e ast.Expr) *value {
		return &value{deps: subject.deep(), text: subject.text + " is " + types.ExprString(e)}
	})
	n := 0
	bind := func(c *ast.CaseClause) func() {
		return func() {
			obj := r.pass.TypesInfo.Implicits[c]
			if obj == nil {
				return
			}
			r.assign([]Place{r.declare(f, obj)}, asserted(subject, f.subst(obj.Type())), obj.Type())
		}
	}
	for _, c := range s.Body.List {
		if c := c.(*ast.CaseClause); c.List == nil {
			alts[len(alts)-1].bind = bind(c)
		} else {
			alts[n].bind = bind(c)
			n++
		}
	}
	return alts
}

// asserted is a value of interface type as one of another type.
func asserted(v *value, t types.Type) *value {
	if v.kind == copyOf {
		w := *v
		w.kind, w.refs = noRef, nil
		for _, p := range v.refs {
			kind, refs := reference(p, t)
			w.kind, w.refs = kind, append(w.refs, refs...)
		}
		return &w
	}
	return v
}

func (r *run) selectCases(f *frame, s *ast.SelectStmt) []alternative {
	var alts []alternative
	for _, c := range s.Body.List {
		clause := c.(*ast.CommClause)
		list := items(clause.Body)
		if clause.Comm != nil {
			list = append([]item{{stmt: clause.Comm}}, list...)
		}
		r.vars++
		alts = append(alts, alternative{cond: &value{deps: deps{flags: fromChannel}, text: "ready" + itoa(r.vars)}, list: list})
	}
	if len(alts) > 0 {
		alts[len(alts)-1].cond = nil
	} else {
		alts = append(alts, alternative{})
	}
	return alts
}

// loop executes the body of a loop once, for all its passes.
func (r *run) loop(f *frame, l *loopCtx, over *value, isMap bool, pos token.Pos, head func(), body []item, post func()) bool {
	start, nodes := r.st, r.nodes
	r.st, r.nodes = start.clone(), nil
	f.loops, r.loops = append(f.loops, l), append(r.loops, l)
	n := &Node{Op: OpLoop, Cond: condOf(over.deps, over.text), pos: pos}
	n.Cond.MapKey = isMap
	n.Open = l.open
	for _, p := range n.Cond.Unset {
		r.reported[p.key()] = true
	}
	r.unsettle(f, l)
	head()
	if r.exec(f, body) {
		l.completes = true
		if post != nil {
			post()
		}
	}
	f.loops, r.loops = f.loops[:len(f.loops)-1], r.loops[:len(r.loops)-1]
	end := r.st
	for _, s := range l.exits {
		end = join(end, s, false)
	}
	if l.cut || !l.completes && !end.failed && l.bound != nil {
		r.loops = append(r.loops, l)
		r.cutShort(l, r.nodes)
		r.loops = r.loops[:len(r.loops)-1]
	}
	n.Then = r.nodes
	r.nodes = nodes
	if len(n.Then) > 0 {
		r.nodes = append(r.nodes, n)
		r.checkCond(n, "number of passes of this loop")
	}
	if l.completes {
		for _, v := range l.twice {
			r.reportFix(v.pos, "twice", nil, "%s is visited in every pass of the loop", v.node.Place.object())
		}
	}
	if end.dead {
		end = end.clone()
		end.dead = false
	}
	r.st = join(start, end, false)
	r.st.path, r.st.ctl = start.path, start.ctl
	return true
}

// newLoop makes the context of a loop in whose passes the given variables differ.
func (r *run) newLoop(nodes ...ast.Node) *loopCtx {
	r.bits++
	l := &loopCtx{bit: 1 << (r.bits % 64), assigned: map[types.Object]bool{}, whole: map[types.Object]bool{}}
	for _, n := range nodes {
		if n == nil {
			continue
		}
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					r.noteAssigned(l, e)
				}
			case *ast.IncDecStmt:
				r.noteAssigned(l, n.X)
			}
			return true
		})
	}
	return l
}

// noteAssigned notes the variable at the root of an expression.
func (r *run) noteAssigned(l *loopCtx, e ast.Expr) {
	if id, ok := ast.Unparen(e).(*ast.Ident); ok {
		l.whole[r.pass.TypesInfo.ObjectOf(id)] = true
	}
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.Ident:
			if obj := r.pass.TypesInfo.ObjectOf(x); obj != nil {
				l.assigned[obj] = true
			}
			return
		default:
			return
		}
	}
}
