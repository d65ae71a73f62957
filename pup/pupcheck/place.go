package pupcheck

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// The operations that lead from a variable to a part of it.
const (
	opField = '.'
	opDeref = '*'
	opIndex = '['
	opShape = '#' // the length of a slice, string or map, or whether a pointer is nil: not the content
)

// A Step is one operation on the way from a variable to a part of it.
type Step struct {
	Op     byte
	Name   string // opField: the field; opIndex: text of an index that is not constant, "" for the interval [Lo, Hi)
	Lo, Hi int64  // opIndex: interval; Hi < 0 counts from the end: -1 is the end itself, -2 leaves out the last element
	Out    string // opIndex: what tells the elements of the interval that are left out, "" for none
	Dir    int8   // opIndex: 1 for a loop that goes up, -1 for one that goes down
}

// everyElement is the index step of a loop over all elements.
func everyElement() Step { return Step{Op: opIndex, Hi: -1} }

// mapKey is the index step that stands for a key of a map.
func mapKey() Step { return Step{Op: opIndex, Name: "key"} }

func (s Step) every() bool {
	return s.Op == opIndex && s.Name == "" && s.Lo == 0 && s.Hi == -1 && s.Out == ""
}

// end is the end of an interval, as far as it is known without the length.
func (s Step) end() int64 {
	if s.Hi < 0 {
		return math.MaxInt64 + s.Hi + 1
	}
	return s.Hi
}

// meets reports whether two steps from one place can lead to the same place.
func (s Step) meets(o Step) bool {
	if s.Op != o.Op {
		return false
	}
	if s.Op != opIndex {
		return s.Name == o.Name
	}
	key := mapKey()
	switch {
	case s == key || o == key:
		return s == o
	case s.every() || o.every():
		return true
	case s.Name != "" || o.Name != "" || s.Out != o.Out:
		return s.Name == o.Name && s.Out == o.Out
	}
	return s.Lo < o.end() && o.Lo < s.end()
}

// covers reports whether s leads to everything that o leads to.
func (s Step) covers(o Step) bool {
	if s.Op == opIndex && o.Op == opIndex && s.Name == "" && o.Name == "" && !s.every() && s != mapKey() {
		return (s.Out == "" || s.Out == o.Out) && s.Lo <= o.Lo && o.end() <= s.end() && (s.Hi < 0) == (o.Hi < 0)
	}
	return s.meets(o) && (!o.every() || s.every())
}

// A Place is a variable or a part of it. Root is the number of a parameter of the function under analysis (what a
// pointer parameter points to), or negative for a variable of the function itself.
type Place struct {
	Root  int
	Name  string // of the variable, for messages
	Steps []Step
	loops uint64 // loops whose passes lead to different places
}

func (p Place) param() bool { return p.Root >= 0 }

func (p Place) with(steps ...Step) Place {
	p.Steps = append(slices.Clip(p.Steps), steps...)
	return p
}

func (p Place) field(name string) Place { return p.with(Step{Op: opField, Name: name}) }
func (p Place) deref() Place            { return p.with(Step{Op: opDeref}) }
func (p Place) shape() Place            { return p.with(Step{Op: opShape}) }

// shapeOnly reports whether the place is the shape of something and not its content.
func (p Place) shapeOnly() bool { return len(p.Steps) > 0 && p.Steps[len(p.Steps)-1].Op == opShape }

// object is the place without a final shape step.
func (p Place) object() Place {
	if p.shapeOnly() {
		p.Steps = p.Steps[:len(p.Steps)-1]
	}
	return p
}

// covers reports whether q is p or a part of p.
func (p Place) covers(q Place) bool {
	return p.Root == q.Root && len(p.Steps) <= len(q.Steps) && matchSteps(p.Steps, q.Steps, Step.covers)
}

// contains reports whether q is reached by way of p, step by step.
func (p Place) contains(q Place) bool {
	return p.Root == q.Root && len(p.Steps) <= len(q.Steps) && slices.Equal(p.Steps, q.Steps[:len(p.Steps)])
}

// meets reports whether p and q have a part in common.
func (p Place) meets(q Place) bool {
	return p.Root == q.Root && matchSteps(p.Steps, q.Steps, Step.meets)
}

func matchSteps(a, b []Step, match func(Step, Step) bool) bool {
	for i := range min(len(a), len(b)) {
		if !match(a[i], b[i]) {
			return false
		}
	}
	return true
}

// key tells places apart.
func (p Place) key() string {
	var b strings.Builder
	b.WriteString(strconv.Itoa(p.Root))
	for _, s := range p.Steps {
		b.WriteByte(s.Op)
		b.WriteString(s.Name)
		if s.Op == opIndex && s.Name == "" {
			b.WriteString(strconv.FormatInt(s.Lo, 10) + ":" + strconv.FormatInt(s.Hi, 10) + s.Out)
		}
	}
	return b.String()
}

// String is the place as a programmer would write it.
func (p Place) String() string {
	text := p.Name
	for i, s := range p.Steps {
		switch {
		case s.Op == opField:
			text += "." + s.Name
		case s.Op == opDeref && i == len(p.Steps)-1:
			text = "*" + text
		case s.Op == opIndex && s.Name == "" && s.Hi == s.Lo+1 && s.Out == "":
			text += "[" + strconv.FormatInt(s.Lo, 10) + "]"
		case s.Op == opIndex:
			text += "[...]"
		}
	}
	return text
}

// meetsAny reports whether p has a part in common with one of the places.
func (p Place) meetsAny(places []Place) bool { return slices.ContainsFunc(places, p.meets) }
