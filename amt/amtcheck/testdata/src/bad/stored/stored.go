// Package stored has Contexts that are kept.
package stored

import "github.com/byssus-hpc/byssus/amt"

type solver struct {
	n int
	c amt.Context // want `^the field c holds a Context: a Context is of use only to the code that it was given to: hand it on as a parameter$`
}

type embeds struct {
	amt.Context // want `^the field Context holds a Context`
}

type message struct {
	Rank int
	From *amt.Context // want `^the field From holds a Context`
}

type many struct {
	list []amt.Context       // want `^the field list holds a Context`
	by   map[int]amt.Context // want `^the field by holds a Context`
	next chan amt.Context    // want `^the field next holds a Context`
}

type loose struct{ value any }

var (
	sends   amt.Handler[message]
	of      amt.Handler[amt.Context] // want `^Handler is of Contexts`
	own     amt.Local[[]amt.Context] // want `^Local is of Contexts`
	current amt.Context
	pointed *amt.Context
	all     = map[int]amt.Context{}
	any1    any
)

func variables(c amt.Context) {
	current = c       // want `^c is stored in current: a Context is of use only to the code that it was given to`
	pointed = &c      // want `^&c is stored in pointed`
	all[c.Rank()] = c // want `^c is stored in all\[c.Rank\(\)\]`
	any1 = c          // want `^c is stored in any1`
	sends.Send(c, 0, &message{c.Rank(), &c})
}

func elements(c amt.Context, out *amt.Context) {
	list := make([]amt.Context, c.Ranks())
	list[c.Rank()] = c             // want `^c is stored in list\[c.Rank\(\)\]`
	list = append(list, c)         // want `^c is appended to list`
	list = []amt.Context{c}        // want `^c is stored in a value of type \[\]amt.Context`
	m := map[string]any{"here": c} // want `^c is stored in a value of type map\[string\]any`
	l := loose{c}                  // want `^c is stored in a value of type loose`
	_ = []*solver{{1, c}, {c: c}}
	l.value = c // want `^c is stored in l.value`
	*out = c    // want `^c is stored in \*out`
	_, _, _ = list, m, l
}

func sent(c amt.Context, to chan amt.Context, also chan<- any) {
	to <- c   // want `^c is sent on the channel to: a Context is of use only`
	also <- c // want `^c is sent on the channel also`
}

// A copy in a variable of the function is none.
func local(c amt.Context) int {
	same := c
	var other amt.Context
	other = same
	return other.Rank()
}
