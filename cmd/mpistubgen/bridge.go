package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/byssus-hpc/byssus/mpispec"
)

// A bridge is the body of a function that takes arguments in one language and calls another function with them in
// another language. A face translates from its ABI (outer) to neutral (inner), a driver from neutral to its ABI.
type bridge struct {
	f    *mpispec.Function
	side side
	pre  []string // statements before the call
	args []string // of the call
	post []string // statements after it; rc holds the neutral error code
	end  []string // statements at last: releases temporaries
}

// side is what differs between a face and a driver.
type side struct {
	driver   bool
	pointers bool // handles of the ABI are as wide as rh_t
}

// innerHandle is the type of a handle on the far side of the call.
func (s side) innerHandle(object string) string {
	if !s.driver {
		return "nx_t"
	}
	return handleTypes[object]
}

func (s side) handleIn(object, expr string) string {
	switch {
	case !s.driver:
		return fmt.Sprintf("in_%s(%s)", object, expr)
	case object == "keyval":
		return fmt.Sprintf("keyval_builtin_out(%s)", expr)
	}
	return fmt.Sprintf("REAL(%s, %s)", handleTypes[object], expr)
}

func (s side) handleOut(object, expr string) string {
	if s.driver {
		return fmt.Sprintf("RH(%s)", expr)
	}
	return fmt.Sprintf("out_%s(%s)", object, expr)
}

// mapIn and mapOut translate integers. The tables name the directions as the face sees them.
func (s side) mapIn(group, expr string) string  { return mapCall(group, !s.driver, expr) }
func (s side) mapOut(group, expr string) string { return mapCall(group, s.driver, expr) }

func mapCall(group string, in bool, expr string) string {
	if in {
		return fmt.Sprintf("%s_in(%s)", group, expr)
	}
	return fmt.Sprintf("%s_out(%s)", group, expr)
}

func newBridge(f *mpispec.Function, s side) *bridge {
	b := &bridge{f: f, side: s}
	for _, p := range f.Params {
		b.param(p)
	}
	if !s.driver && f.Yield == mpispec.Resume {
		b.pre = append(b.pre, "nx_cont cont;")
		b.args = append(b.args, "&cont")
	}
	return b
}

func (b *bridge) param(p mpispec.Param) {
	k := kindOf(p)
	switch k.class {
	case handle:
		b.handle(p, k.object)
	case mapped:
		b.mapped(p, k.group)
	case status:
		b.status(p)
	case buffer:
		b.buffer(p)
	case weights:
		b.arg(mapCall("weights", !b.side.driver, p.Name))
	default:
		b.arg(p.Name)
		b.extras(p, k)
	}
}

// extras adds what only the middle gets.
func (b *bridge) extras(p mpispec.Param, k kind) {
	if b.side.driver {
		return
	}
	if k.class == callback {
		b.arg("(void *)thunk_" + strings.ToLower(p.Kind))
	}
	if limited(p) {
		b.arg("ABI_" + p.Len)
	}
}

func (b *bridge) arg(expr string) { b.args = append(b.args, expr) }
func (b *bridge) before(format string, args ...any) {
	b.pre = append(b.pre, fmt.Sprintf(format, args...))
}
func (b *bridge) after(format string, args ...any) {
	b.post = append(b.post, fmt.Sprintf(format, args...))
}
func (b *bridge) finally(format string, args ...any) {
	b.end = append(b.end, fmt.Sprintf(format, args...))
}
func (b *bridge) success(format string, args ...any) {
	b.after("if (likely(rc == 0)) "+format, args...)
}
func (b *bridge) temporary(ctype string, name, n string) {
	b.before("TEMP(%s, t_%s, %s);", ctype, name, n)
	b.finally("TEMP_END(t_%s);", name)
}

func (b *bridge) buffer(p mpispec.Param) {
	if p.Place {
		b.arg(mapCall("place", !b.side.driver, p.Name))
		return
	}
	b.arg(p.Name)
}

func (b *bridge) handle(p mpispec.Param, object string) {
	if p.Array() {
		b.handles(p, object)
		return
	}
	v := p.Name + "_v"
	switch p.Dir {
	case mpispec.In:
		b.arg(b.side.handleIn(object, p.Name))
	case mpispec.Ref:
		b.refHandle(p, object)
	case mpispec.Out:
		b.before("%s;", declare(b.side.innerHandle(object), v))
		if b.side.driver {
			b.success("*%s = %s;", p.Name, b.side.handleOut(object, v))
		} else { // what was not made is the null handle
			b.after("*%s = %s;", p.Name, b.side.handleOut(object, "likely(rc == 0) ? "+v+" : 0"))
		}
		b.arg("&" + v)
	case mpispec.InOut:
		b.before("%s = %s;", declare(b.side.innerHandle(object), v), b.side.handleIn(object, "*"+p.Name))
		b.arg("&" + v)
		if b.side.driver {
			b.after("*%s = %s;", p.Name, b.side.handleOut(object, v))
			return
		}
		b.after("if (%s == 0) *%s = %s;", v, p.Name, b.side.handleOut(object, "0"))
	}
}

// refHandle passes a handle that the standard passes by address but only reads: by value in neutral.
func (b *bridge) refHandle(p mpispec.Param, object string) {
	if !b.side.driver {
		b.arg(b.side.handleIn(object, "*"+p.Name))
		return
	}
	b.before("%s = %s;", declare(b.side.innerHandle(object), p.Name+"_v"), b.side.handleIn(object, p.Name))
	b.arg("&" + p.Name + "_v")
}

// handles passes an array of handles through a temporary, or as it is where both sides look the same.
func (b *bridge) handles(p mpispec.Param, object string) {
	inner := b.side.innerHandle(object)
	if b.side.driver && b.side.pointers {
		b.arg(fmt.Sprintf("(%s)%s", pointer(constIf(p.Dir == mpispec.In, inner)), p.Name))
		return
	}
	n := b.length(p)
	b.temporary(inner, p.Name, n)
	t := "t_" + p.Name
	b.arg(t)
	if p.Dir != mpispec.Out {
		b.before("for (int i = 0; i < %s_n; i++) %s[i] = %s;", t, t, b.side.handleIn(object, p.Name+"[i]"))
	}
	switch {
	case p.Dir == mpispec.In:
	case b.side.driver:
		b.after("for (int i = 0; i < %s_n; i++) %s[i] = %s;", t, p.Name, b.side.handleOut(object, t+"[i]"))
	default:
		b.after("for (int i = 0; i < %s_n; i++) if (%s[i] == 0) %s[i] = %s;", t, t, p.Name, b.side.handleOut(object, "0"))
	}
}

func (b *bridge) mapped(p mpispec.Param, group string) {
	switch {
	case p.Array() && p.Dir == mpispec.In:
		b.temporary("int", p.Name, b.length(p))
		b.before("for (int i = 0; i < t_%s_n; i++) t_%s[i] = %s;", p.Name, p.Name, b.side.mapIn(group, p.Name+"[i]"))
		b.arg("t_" + p.Name)
	case p.Array():
		b.arg(p.Name)
		b.success("for (int i = 0; i < %s; i++) %s[i] = %s;", b.length(p), p.Name, b.side.mapOut(group, p.Name+"[i]"))
	case p.Dir == mpispec.In:
		b.arg(b.side.mapIn(group, p.Name))
	default:
		b.before("int %s_v;", p.Name)
		b.arg("&" + p.Name + "_v")
		b.success("*%s = %s;", p.Name, b.side.mapOut(group, p.Name+"_v"))
	}
}

// statusWords are the names of status handling on each side.
type statusWords struct{ inner, given, ignored, copy string }

func (s side) statusWords() statusWords {
	if s.driver {
		return statusWords{inner: "MPI_Status", given: "%s != NULL", ignored: "ABI_STATUS_IGNORE", copy: "status_in"}
	}
	return statusWords{inner: "nx_status", given: "%s != ABI_STATUS_IGNORE", ignored: "NULL", copy: "status_out"}
}

func (b *bridge) status(p mpispec.Param) {
	s := b.side.statusWords()
	given := fmt.Sprintf(s.given, p.Name)
	switch {
	case p.Dir == mpispec.In:
		b.before("nx_status %s_v;\n\tstatus_in(&%s_v, %s);", p.Name, p.Name, p.Name)
		b.arg("&" + p.Name + "_v")
	case p.Array():
		b.statuses(p, s, given)
	default:
		b.before("%s %s_v;", s.inner, p.Name)
		b.arg(fmt.Sprintf("%s ? &%s_v : %s", given, p.Name, s.ignored))
		b.after("if (%s && %s) %s(%s, &%s_v);", given, b.statusSet(), s.copy, p.Name, p.Name)
	}
}

// statusSet is the condition under which the call has filled in a status.
func (b *bridge) statusSet() string {
	for _, p := range b.f.Params {
		if p.Name == "flag" {
			return "STATUS_SET(rc) && *flag"
		}
	}
	return "STATUS_SET(rc)"
}

// statuses passes an array of statuses; the error of each counts when the call says so.
func (b *bridge) statuses(p mpispec.Param, s statusWords, given string) {
	set, n := b.lengths(p)
	b.temporary(s.inner, p.Name, fmt.Sprintf("%s ? %s : 0", given, n))
	b.arg(fmt.Sprintf("%s ? t_%s : %s", given, p.Name, s.ignored))
	cond := "STATUS_SET(rc) || rc == NX_ERR_IN_STATUS"
	if strings.Contains(b.statusSet(), "flag") {
		cond = "(STATUS_SET(rc) && *flag) || rc == NX_ERR_IN_STATUS"
	}
	b.after("if (%s && (%s))\n\t\tfor (int i = 0; i < %s; i++) %s_of_many(&%s[i], &t_%s[i], rc);", given, cond, set, s.copy, p.Name, p.Name)
}

// length is the number of elements of an array as a C expression.
func (b *bridge) length(p mpispec.Param) string {
	_, n := b.lengths(p)
	return n
}

// lengths splits "set<=room": how many elements the call sets, and how many there are. What describes the send buffer
// (sendtypes) has no elements when the buffer is MPI_IN_PLACE.
func (b *bridge) lengths(p mpispec.Param) (set, room string) {
	first, second, ok := strings.Cut(p.Len, "<=")
	set, room = b.expression(first), b.expression(first)
	if ok {
		room = b.expression(second)
	}
	if p.Dir == mpispec.In && strings.HasPrefix(p.Name, "send") && b.inPlace() {
		room = fmt.Sprintf("sendbuf == %s ? 0 : %s", b.placeValue(), room)
	}
	return set, room
}

func (b *bridge) placeValue() string {
	if b.side.driver {
		return "NX_IN_PLACE"
	}
	return "ABI_IN_PLACE"
}

// inPlace says that the arguments about the send buffer may be without meaning.
func (b *bridge) inPlace() bool {
	return len(b.f.Params) > 0 && b.f.Params[0].Name == "sendbuf" && b.f.Params[0].Place
}

var identifier = regexp.MustCompile(`[a-z_]\w*`)

// expression turns the length of an array as written in the description into C.
func (b *bridge) expression(text string) string {
	if name, ok := strings.CutPrefix(text, "size:"); ok {
		return fmt.Sprintf("COMM_SIZE(%s)", name)
	}
	if which, name, ok := strings.Cut(text, ":"); ok && (which == "in" || which == "out") {
		return fmt.Sprintf("NEIGHBOURS_%s(%s)", strings.ToUpper(which), name)
	}
	if name, ok := strings.CutPrefix(text, "sum:"); ok {
		for _, p := range b.f.Params {
			if p.Name == name {
				return fmt.Sprintf("sum(%s, %s)", name, p.Len)
			}
		}
	}
	return identifier.ReplaceAllStringFunc(text, func(name string) string {
		for _, p := range b.f.Params {
			if p.Name == name && (p.Dir == mpispec.Out || p.Dir == mpispec.InOut) {
				return "*" + name
			}
		}
		return name
	})
}
