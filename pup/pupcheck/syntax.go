package pupcheck

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"strings"
)

const directive = "//pup:"

// knownDirectives are the words that may follow the directive.
var knownDirectives = []string{"skip", "generate", "version"}

// checkFiles checks what is found without executing functions.
func (c *checker) checkFiles() {
	for _, file := range c.pass.Files {
		onField := map[*ast.Comment]bool{}
		var within *ast.TypeSpec
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				c.checkStruct(n, onField, within != nil && within.Name.IsExported())
			case *ast.FuncDecl:
				c.checkMethod(n)
			case *ast.CallExpr:
				c.checkCall(n)
			case *ast.StarExpr:
				c.checkCopy(n)
			case *ast.TypeSpec:
				within = n
				c.checkInherited(n)
			case *ast.CompositeLit:
				c.checkLiteral(n)
			}
			return true
		})
		c.checkComments(file, onField)
	}
}

// checkStruct reads the directives and tags of the fields of a struct.
func (c *checker) checkStruct(s *ast.StructType, onField map[*ast.Comment]bool, exported bool) {
	for _, f := range s.Fields.List {
		for _, group := range []*ast.CommentGroup{f.Doc, f.Comment} {
			if group == nil {
				continue
			}
			for _, comment := range group.List {
				if text, ok := strings.CutPrefix(comment.Text, directive+"skip"); ok && (text == "" || text[0] == ' ' || text[0] == '\t') {
					onField[comment] = true
					if strings.TrimSpace(text) == "" {
						c.report(comment.Pos(), "reason", "//pup:skip without a reason: //pup:skip reason")
					}
					c.skipField(f, comment.Pos(), exported)
				}
			}
		}
		if f.Tag == nil {
			continue
		}
		tag, ok := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Lookup("pup")
		if reason, skip := strings.CutPrefix(tag, "-"); ok && skip {
			if strings.TrimSpace(strings.TrimPrefix(reason, ",")) == "" {
				c.report(f.Tag.Pos(), "reason", "tag pup:\"-\" without a reason: pup:\"-,reason\"")
			}
			c.skipField(f, f.Tag.Pos(), exported)
		}
	}
}

// skipField notes that the names of a field are not saved. Other packages can know it of exported types.
func (c *checker) skipField(f *ast.Field, pos token.Pos, exported bool) {
	note := func(obj types.Object) {
		if v, ok := obj.(*types.Var); ok {
			c.skipped[v] = pos
			if exported {
				c.pass.ExportObjectFact(v, new(SkipFact))
			}
		}
	}
	for _, name := range f.Names {
		note(c.pass.TypesInfo.Defs[name])
	}
	if len(f.Names) == 0 {
		e := f.Type
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		if id := calleeIdent(e); id != nil {
			note(c.pass.TypesInfo.Defs[id])
			c.skipEmbedded(id, pos)
		}
	}
}

// skipEmbedded finds the field of an embedded type: the type checker knows it only by its position.
func (c *checker) skipEmbedded(id *ast.Ident, pos token.Pos) {
	for _, obj := range c.pass.TypesInfo.Implicits {
		if v, ok := obj.(*types.Var); ok && v.Embedded() && v.Pos() == id.Pos() {
			c.skipped[v] = pos
		}
	}
}

// isSkipped reports whether a field is declared as not saved.
func (c *checker) isSkipped(f *types.Var, tag string) bool {
	f = f.Origin()
	if _, ok := c.skipped[f]; ok {
		return true
	}
	if strings.HasPrefix(reflect.StructTag(tag).Get("pup"), "-") {
		return true
	}
	return f.Pkg() != nil && f.Pkg() != c.pass.Pkg && c.pass.ImportObjectFact(f, new(SkipFact))
}

// checkComments reports directives that mean nothing.
func (c *checker) checkComments(file *ast.File, onField map[*ast.Comment]bool) {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text := comment.Text
			rest, _ := strings.CutPrefix(text, "//")
			if strings.HasPrefix(strings.TrimSpace(rest), "pup:") && !strings.HasPrefix(rest, "pup:") {
				word := strings.Fields(strings.TrimSpace(rest)[len("pup:"):])
				if len(word) > 0 && slices.Contains(knownDirectives, word[0]) {
					c.report(comment.Pos(), "directive", "a directive has no blank after //: //pup:%s", word[0])
				}
				continue
			}
			rest, ok := strings.CutPrefix(text, directive)
			if !ok {
				continue
			}
			word, _, _ := strings.Cut(strings.ReplaceAll(rest, "\t", " "), " ")
			switch {
			case !slices.Contains(knownDirectives, word):
				c.report(comment.Pos(), "directive", "unknown directive //pup:%s: known are skip, generate, version", word)
			case word == "skip" && !onField[comment]:
				c.report(comment.Pos(), "directive", "//pup:skip stands at no field of a struct")
			}
		}
	}
}

// checkMethod reports a PUP with a value receiver.
func (c *checker) checkMethod(decl *ast.FuncDecl) {
	f, ok := c.pass.TypesInfo.Defs[decl.Name].(*types.Func)
	if !ok || !isPUP(f) || types.IsInterface(f.Signature().Recv().Type()) {
		return
	}
	if _, ptr := types.Unalias(f.Signature().Recv().Type()).(*types.Pointer); !ptr {
		c.reportFix(decl.Name.Pos(), "receiver", pointerReceiver(decl),
			"PUP has a value receiver: what is unpacked goes into a copy and is lost")
	}
}

// checkCopy reports *p as a value.
func (c *checker) checkCopy(e *ast.StarExpr) {
	if tv := c.pass.TypesInfo.Types[e]; tv.IsValue() && isStream(tv.Type) {
		c.report(e.Pos(), "copied", "the stream is copied: the copy and the original lose track of each other")
	}
}

// checkLiteral reports a stream in the literal of a type that outlives the call by being a global's value. Others are
// followed where they are used.
func (c *checker) checkLiteral(e *ast.CompositeLit) {
	if isStream(c.pass.TypesInfo.TypeOf(e)) {
		c.report(e.Pos(), "copied", "a stream is made by package pup only")
	}
}

// checkInherited reports a struct that has its PUP only from an embedded type, which knows nothing of the other fields.
func (c *checker) checkInherited(spec *ast.TypeSpec) {
	obj, ok := c.pass.TypesInfo.Defs[spec.Name].(*types.TypeName)
	if !ok || obj.IsAlias() {
		return
	}
	s, ok := obj.Type().Underlying().(*types.Struct)
	if !ok {
		return
	}
	m, path, _ := types.LookupFieldOrMethod(types.NewPointer(obj.Type()), true, c.pass.Pkg, "PUP")
	f, ok := m.(*types.Func)
	if !ok || len(path) < 2 || !isPUP(f) {
		return
	}
	from := s.Field(path[0])
	if types.IsInterface(from.Type()) {
		return
	}
	c.inherited = append(c.inherited, inheritedPUP{spec, s, from})
}

// An inheritedPUP is a struct whose PUP is that of a field.
type inheritedPUP struct {
	spec *ast.TypeSpec
	typ  *types.Struct
	from *types.Var
}

// reportInherited reports the fields that inherited PUP methods leave out.
func (c *checker) reportInherited() {
	for _, in := range c.inherited {
		for i := range in.typ.NumFields() {
			f := in.typ.Field(i)
			if f == in.from || f.Name() == "_" || c.empty(f.Type()) || c.isSkipped(f, in.typ.Tag(i)) {
				continue
			}
			c.report(in.spec.Name.Pos(), "inherited", "%s has its PUP from the embedded %s, which does not visit %s: write a PUP",
				in.spec.Name.Name, in.from.Name(), f.Name())
			break
		}
	}
}

// checkCall checks calls of package pup whose arguments alone show a mistake.
func (c *checker) checkCall(call *ast.CallExpr) {
	name, _ := c.pupCallee(call)
	switch name {
	case "Skip":
		c.noteSkipCall(call)
		if len(call.Args) == 3 {
			v := c.pass.TypesInfo.Types[call.Args[2]].Value
			if v != nil && v.Kind() == constant.String && strings.TrimSpace(constant.StringVal(v)) == "" {
				c.report(call.Args[2].Pos(), "reason", "pup.Skip without a reason")
			}
		}
	case "BlockOf":
		c.checkBlock(call)
	case "Slice", "Array", "Map", "Ptr":
		for _, a := range call.Args {
			if c.pass.TypesInfo.Types[a].IsNil() {
				c.report(call.Pos(), "nilelem", "pup.%s with a nil element function", name)
			}
		}
	}
}

// blockFields are the constant arguments of pup.BlockOf, or nil.
func (c *checker) blockFields(call *ast.CallExpr) []string {
	if call == nil {
		return nil
	}
	if name, _ := c.pupCallee(call); name != "BlockOf" {
		return nil
	}
	fields := []string{}
	for _, a := range call.Args {
		v := c.pass.TypesInfo.Types[a].Value
		if v == nil || v.Kind() != constant.String {
			return nil
		}
		fields = append(fields, constant.StringVal(v))
	}
	return fields
}

// checkBlock checks the fields that pup.BlockOf names.
func (c *checker) checkBlock(call *ast.CallExpr) {
	_, inst := c.pupCallee(call)
	if inst == nil || inst.Len() != 1 {
		return
	}
	t := inst.At(0)
	s, ok := under(t).(*types.Struct)
	if !ok {
		c.report(call.Pos(), "block", "pup.BlockOf needs a struct, found %s", typeText(t))
		return
	}
	last, end := -1, int64(0)
	for _, a := range call.Args {
		v := c.pass.TypesInfo.Types[a].Value
		if v == nil || v.Kind() != constant.String {
			return
		}
		name := constant.StringVal(v)
		i := fieldIndex(s, name)
		if i < 0 {
			c.report(a.Pos(), "block", "%s has no field %s", typeText(t), name)
			return
		}
		f := s.Field(i)
		if found := pointerIn(f.Type()); found != "" {
			c.report(a.Pos(), "block", "field %s of a block holds a pointer: %s", name, found)
			return
		}
		if found := addressIn(f.Type()); found != "" {
			c.reportAddress(a.Pos(), "field "+name+" of a block")
		}
		if last >= 0 && i != last+1 {
			c.report(a.Pos(), "block", "field %s does not follow field %s in %s: a block has consecutive fields in their order",
				name, s.Field(last).Name(), typeText(t))
			return
		}
		if !generic(s) {
			if end = c.checkBlockPadding(a, s, i, last, end, t); end < 0 {
				return
			}
		}
		last = i
	}
}

func fieldIndex(s *types.Struct, name string) int {
	for i := range s.NumFields() {
		if s.Field(i).Name() == name {
			return i
		}
	}
	return -1
}

// checkBlockPadding checks that field i follows the end of the one before without a gap, and returns its own end.
func (c *checker) checkBlockPadding(a ast.Expr, s *types.Struct, i, last int, end int64, t types.Type) int64 {
	fields := make([]*types.Var, s.NumFields())
	for j := range fields {
		fields[j] = s.Field(j)
	}
	at := c.pass.TypesSizes.Offsetsof(fields)[i]
	f := s.Field(i)
	switch {
	case last >= 0 && at != end:
		c.report(a.Pos(), "block", "%s has %d padding bytes before field %s; a block has none between its fields",
			typeText(t), at-end, f.Name())
		return -1
	case padding(f.Type(), c.pass.TypesSizes) > 0:
		c.report(a.Pos(), "block", "field %s of a block has %d padding bytes", f.Name(), padding(f.Type(), c.pass.TypesSizes))
		return -1
	}
	return at + c.pass.TypesSizes.Sizeof(f.Type())
}
