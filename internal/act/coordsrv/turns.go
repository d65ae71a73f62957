package coordsrv

// turns has things done one after the other, in the order in which they are asked for: package keep makes one dataset again, or copies one, at
// a time, and several books want that of it. Each is over when it calls done, which all come to.
type turns struct {
	busy    bool
	waiting []func(done func())
}

func (t *turns) take(what func(done func())) {
	t.waiting = append(t.waiting, what)
	t.next()
}

func (t *turns) next() {
	if t.busy || len(t.waiting) == 0 {
		return
	}
	what := t.waiting[0]
	t.waiting, t.busy = t.waiting[1:], true
	what(func() {
		t.busy = false
		t.next()
	})
}
