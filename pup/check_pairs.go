package pup

import "reflect"

// A pairing is which variable of the copy stands for which of the value that is checked.
type pairing struct {
	forth    map[visited]uintptr // from a variable of the value to its copy
	back     map[visited]uintptr
	compared map[pair]bool // references whose targets were compared
	via      string        // the last reference that was followed
	boxed    bool          // what is walked lies in an interface: nobody can tell whether others see the same memory
}

type pair struct {
	a, b uintptr
	t    reflect.Type
}

func newPairing() pairing {
	return pairing{forth: map[visited]uintptr{}, back: map[visited]uintptr{}, compared: map[pair]bool{}}
}

// placement is how a variable and its copy lie.
type placement int

const (
	alike        placement = iota
	cameTwice              // a variable has two copies
	cameTogether           // two variables have one copy
)

// place notes where the copy of a variable is.
func (p *pairing) place(a, b reflect.Value) (is placement) {
	if p.boxed || !a.CanAddr() || !b.CanAddr() || a.Type().Size() == 0 {
		return alike
	}
	from, to := visited{a.UnsafeAddr(), a.Type()}, visited{b.UnsafeAddr(), a.Type()}
	if was, ok := p.back[to]; ok && was != from.addr {
		is = cameTogether
	}
	if p.twice(from, to) {
		is = cameTwice
	}
	p.forth[from], p.back[to] = to.addr, from.addr
	return is
}

// twice tells whether a variable has another copy already.
func (p *pairing) twice(from, to visited) bool {
	was, ok := p.forth[from]
	return ok && was != to.addr
}

// enter pairs what two references lead to, and answers whether the pair is new.
func (p *pairing) enter(path string, a, b reflect.Value, t reflect.Type) bool {
	p.via = path
	key := pair{a.Pointer(), b.Pointer(), t}
	if p.compared[key] || t.Size() == 0 {
		return false
	}
	p.compared[key] = true
	return true
}
