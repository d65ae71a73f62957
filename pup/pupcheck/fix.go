package pupcheck

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

func fix(message string, edits ...analysis.TextEdit) []analysis.SuggestedFix {
	return []analysis.SuggestedFix{{Message: message, TextEdits: edits}}
}

// pointerReceiver makes the receiver of a method a pointer.
func pointerReceiver(decl *ast.FuncDecl) []analysis.SuggestedFix {
	t := decl.Recv.List[0].Type
	return fix("Make it a pointer receiver", analysis.TextEdit{Pos: t.Pos(), End: t.Pos(), NewText: []byte("*")})
}

// insertVisit adds the visit of a field at the end of PUP.
func (c *checker) insertVisit(decl *ast.FuncDecl, m missing) []analysis.SuggestedFix {
	call := c.visitCall(decl, m)
	if call == "" {
		return nil
	}
	return fix("Visit "+m.place.String(), c.insertion(decl, "\t"+call+"\n"))
}

// insertion adds statements at the end of a function, before a last return.
func (c *checker) insertion(decl *ast.FuncDecl, text string) analysis.TextEdit {
	body := decl.Body
	at := body.Rbrace
	if n := len(body.List); n > 0 {
		if last, ok := body.List[n-1].(*ast.ReturnStmt); ok {
			at, text = last.Pos(), strings.TrimPrefix(text, "\t")+"\t"
		}
	}
	if c.pass.Fset.Position(body.Lbrace).Line == c.pass.Fset.Position(body.Rbrace).Line {
		text = "\n" + text
	}
	return analysis.TextEdit{Pos: at, End: at, NewText: []byte(text)}
}

// insertAll adds the visits of all fields to an empty PUP.
func (c *checker) insertAll(decl *ast.FuncDecl, t types.Type, root Place) []analysis.SuggestedFix {
	s, ok := under(t).(*types.Struct)
	if !ok {
		return nil
	}
	var b strings.Builder
	for i := range s.NumFields() {
		f := s.Field(i)
		if f.Name() == "_" || c.empty(f.Type()) || c.isSkipped(f, s.Tag(i)) {
			continue
		}
		call := c.visitCall(decl, missing{place: root.field(f.Name()), typ: f.Type(), field: f})
		if call == "" {
			return nil
		}
		b.WriteString("\t" + call + "\n")
	}
	return fix("Visit all fields", c.insertion(decl, b.String()))
}

// visitCall is the statement that visits a field, or "" if its type cannot be saved.
func (c *checker) visitCall(decl *ast.FuncDecl, m missing) string {
	param := decl.Type.Params.List[0]
	if len(param.Names) == 0 || param.Names[0].Name == "_" || len(decl.Recv.List[0].Names) == 0 {
		return ""
	}
	p, pup := param.Names[0].Name, c.pupName(decl)
	if pup == "" {
		return ""
	}
	x := m.place.String()
	if hasPUP(m.typ) {
		return fmt.Sprintf("%s.PUP(%s)", x, p)
	}
	name, elem := c.helperFor(m.typ, pup)
	switch name {
	case "":
		return ""
	case "Array":
		return fmt.Sprintf("%s.Array(%s, %s[:], %s)", pup, p, x, elem)
	}
	if elem != "" {
		elem = ", " + elem
	}
	return fmt.Sprintf("%s.%s(%s, &%s%s)", pup, name, p, x, elem)
}

// pupName is the name under which the file of a method imports package pup.
func (c *checker) pupName(decl *ast.FuncDecl) string {
	for _, file := range c.pass.Files {
		if decl.Pos() < file.FileStart || decl.Pos() >= file.FileEnd {
			continue
		}
		for _, imp := range file.Imports {
			if !isPupPath(strings.Trim(imp.Path.Value, "\"`")) {
				continue
			}
			if imp.Name == nil {
				return "pup"
			}
			if imp.Name.Name != "." && imp.Name.Name != "_" {
				return imp.Name.Name
			}
		}
	}
	return ""
}

func hasPUP(t types.Type) bool {
	if types.IsInterface(t) {
		return false
	}
	obj, _, _ := types.LookupFieldOrMethod(types.NewPointer(t), true, nil, "PUP")
	f, ok := obj.(*types.Func)
	return ok && isPUP(f)
}

// simpleHelpers are the helpers for types of the standard library.
var simpleHelpers = map[string]string{
	"time.Time": "Time", "math/big.Int": "BigInt", "math/big.Float": "BigFloat", "math/big.Rat": "BigRat",
	"net/netip.Addr": "Addr", "net/netip.AddrPort": "AddrPort", "net/netip.Prefix": "Prefix",
}

// helperFor is the helper for a type, and its element functions.
func (c *checker) helperFor(t types.Type, pup string) (name, elem string) {
	if _, isParam := types.Unalias(t).(*types.TypeParam); isParam {
		return "Value", ""
	}
	if name := simpleHelpers[types.TypeString(t, nil)]; name != "" {
		return name, ""
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Kind() == types.Uintptr || u.Kind() == types.UnsafePointer:
			return "", ""
		case u.Info()&types.IsBoolean != 0:
			return "Bool", ""
		case u.Info()&types.IsString != 0:
			return "String", ""
		}
		return "Number", ""
	case *types.Slice:
		if isNumber(u.Elem()) && !hasPUP(u.Elem()) {
			return "PlainSlice", ""
		}
		return withElements("Slice", c.elementFunc(u.Elem(), pup))
	case *types.Array:
		return withElements("Array", c.elementFunc(u.Elem(), pup))
	case *types.Map:
		return withElements("Map", c.elementFunc(u.Key(), pup), c.elementFunc(u.Elem(), pup))
	case *types.Pointer:
		return withElements("Ptr", c.elementFunc(u.Elem(), pup))
	case *types.Interface:
		return "Interface", ""
	case *types.Chan, *types.Signature:
		return "", ""
	}
	return "Value", ""
}

// withElements is a helper with its element functions, or pup.Value if there are none.
func withElements(name string, elems ...string) (string, string) {
	for _, e := range elems {
		if e == "" {
			return "Value", ""
		}
	}
	return name, strings.Join(elems, ", ")
}

func isNumber(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0 && b.Kind() != types.Uintptr
}

// elementFunc is a function that visits an element of type t.
func (c *checker) elementFunc(t types.Type, pup string) string {
	if hasPUP(t) {
		return pup + ".Object"
	}
	if name, elems := c.helperFor(t, pup); name != "" && elems == "" {
		return pup + "." + name
	}
	return ""
}

// deleteVisit removes a statement that visits again, if it does nothing else.
func (r *run) deleteVisit(v *visit) []analysis.SuggestedFix {
	if r.site != token.NoPos {
		return nil
	}
	var stmt ast.Stmt
	ast.Inspect(r.root, func(n ast.Node) bool {
		if s, ok := n.(*ast.ExprStmt); ok && s.X.Pos() == v.node.pos {
			stmt = s
		}
		return stmt == nil
	})
	if stmt == nil {
		return nil
	}
	return fix("Delete the second visit", analysis.TextEdit{Pos: stmt.Pos(), End: stmt.End()})
}

// plainToValue replaces pup.Plain or pup.PlainSlice by pup.Value.
func (r *run) plainToValue(pos token.Pos) []analysis.SuggestedFix {
	var edit *analysis.TextEdit
	ast.Inspect(r.root, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || call.Pos() != pos {
			return edit == nil
		}
		if name, _ := r.pupCallee(call); name == "Plain" || name == "PlainSlice" {
			if _, explicit := ast.Unparen(call.Fun).(*ast.SelectorExpr); explicit {
				id := calleeIdent(call.Fun)
				edit = &analysis.TextEdit{Pos: id.Pos(), End: id.End(), NewText: []byte("Value")}
			}
		}
		return edit == nil
	})
	if edit == nil {
		return nil
	}
	return fix("Use pup.Value", *edit)
}

// receiverName is the type that a method belongs to.
func receiverName(f *types.Func) *types.TypeName {
	if recv := f.Signature().Recv(); recv != nil {
		if n, ok := types.Unalias(deref(recv.Type())).(*types.Named); ok {
			return n.Origin().Obj()
		}
	}
	return types.NewTypeName(token.NoPos, nil, f.Name(), nil)
}
