// Package box has mailboxes: handlers that count.
package box

import "github.com/byssus-hpc/byssus/amt"

// A Box is a handler, and how many messages each rank has sent to it.
type Box[M any] struct {
	handler amt.Handler[M]
	sent    amt.Local[int]
}

// Is says what is done with messages.
func (b *Box[M]) Is(do func(c amt.Context, m *M)) { b.handler.Is(do) }

// Put sends one.
func (b *Box[M]) Put(c amt.Context, to int, m *M) {
	*b.sent.Of(c)++
	b.handler.Send(c, to, m)
}

// PutAll sends many, and says what is done when all are handled.
func PutAll[M any](c amt.Context, b *Box[M], list []M, then func(amt.Context)) *amt.Epoch {
	ep := c.Rooted("all", func(c amt.Context) error {
		for i := range list {
			b.Put(c, i%c.Ranks(), &list[i])
		}
		return nil
	})
	ep.OnDone(c, then)
	return ep
}

// Sent is how many this rank has sent.
func (b *Box[M]) Sent(c amt.Context) int { return *b.sent.Of(c) }

// Each runs a function in a task for every element, and waits.
func Each[T any](c amt.Context, list []T, do func(c amt.Context, v T) error) error {
	return c.Rooted("each", func(c amt.Context) error {
		for _, v := range list {
			c.Go("one", func(c amt.Context) error { return do(c, v) })
		}
		return nil
	}).Wait(c)
}
