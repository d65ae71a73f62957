package amt

// A Local is state of a rank: a variable of a package of which every rank has its own, also where ranks are goroutines of one
// process and share all other variables.
//
//	var count amt.Local[int]
//	...
//	*count.Of(c)++
//
// Handlers of one rank run one after the other; what tasks share with them needs a lock.
type Local[T any] struct{ _ byte } // not without size: each has an address of its own

// Of is the variable of this rank, at first the zero value.
func (l *Local[T]) Of(c Context) *T {
	r := c.own().r
	if v, ok := r.locals.Load(l); ok {
		return v.(*T)
	}
	v, _ := r.locals.LoadOrStore(l, new(T))
	return v.(*T)
}
