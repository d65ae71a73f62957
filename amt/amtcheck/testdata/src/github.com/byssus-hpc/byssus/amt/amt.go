// Package amt has the signatures of the real package amt and nothing behind them.
package amt

import "github.com/byssus-hpc/byssus/mpi"

type Context struct {
	f   *int
	gen uint64
}

func (c Context) Collective(label string, body func(Context) error, opts ...EpochOption) *Epoch {
	return nil
}
func (c Context) Rooted(label string, body func(Context) error, opts ...EpochOption) *Epoch {
	return nil
}
func (c Context) Fail(err error)                           {}
func (c Context) From() int                                { return 0 }
func (c Context) Go(name string, work func(Context) error) {}
func (c Context) Poll()                                    {}
func (c Context) Rank() int                                { return 0 }
func (c Context) Ranks() int                               { return 0 }
func (c Context) Scope(label string) (*Scope, error)       { return nil, nil }
func (c Context) World() *mpi.Comm                         { return nil }
func Main(main func(Context) error)                        {}
func Run(main func(Context) error) error                   { return nil }
func RunLocal(n int, main func(Context) error) error       { return nil }

type Attached struct{ n int }

func (a *Attached) Detach() error                      { return nil }
func (a *Attached) Enter(do func(Context) error) error { return nil }
func (a *Attached) Run(main func(Context) error) error { return nil }

type Epoch struct{ n int }

func (ep *Epoch) OnDone(c Context, then func(Context)) {}
func (ep *Epoch) Wait(c Context) error                 { return nil }

type EpochOption func(*Epoch) error

func After(other *Epoch) EpochOption { return nil }

type Handler[M any] struct{ m *M }

func (h *Handler[M]) Broadcast(c Context, m *M)                         {}
func (h *Handler[M]) Is(do func(c Context, m *M), priority ...Priority) {}
func (h *Handler[M]) Send(c Context, to int, m *M)                      {}
func (h *Handler[M]) SendAt(c Context, to int, m *M, priority Priority) {}

type Local[T any] struct{ t *T }

func (l *Local[T]) Of(c Context) *T { return nil }

type Callback[R any] struct{ Tag uint64 }

func (cb Callback[R]) Send(c Context, value *R) {}

type Reply[R any] struct {
	Value R
	Tag   uint64
}

func CallbackTo[R any](c Context, h *Handler[Reply[R]], tag uint64) Callback[R] { return Callback[R]{} }

type Call[Q, R any] struct {
	q *Q
	r *R
}

func (k *Call[Q, R]) Ask(c Context, to int, q *Q, reply Callback[R])                       {}
func (k *Call[Q, R]) Is(do func(c Context, q *Q, reply Callback[R]), priority ...Priority) {}
func (k *Call[Q, R]) Wait(c Context, to int, q *Q) (none R, err error)                     { return none, nil }

type Priority int16

type Reduction[T any] struct{ t *T }

func (d *Reduction[T]) All(c Context, value T) (T, error) { return value, nil }
func (d *Reduction[T]) Is(op func(a, b T) T)              {}

type Scope struct{ n int }

func (s *Scope) Do(c Context, operation func(comm *mpi.Comm) error, then ...func(Context)) {}

type Index1 struct{ X int }

type At[I any] struct {
	Context
	index I
}

func (c At[I]) Index() I        { return c.index }
func (c At[I]) MoveTo(rank int) {}
func (c At[I]) Weigh(w float64) {}

type Collection[I, T any] struct {
	i *I
	t *T
}

type CollectionOption[I any] func(*I)

func MappedBy[I any](to func(i, extent I, ranks int) int) CollectionOption[I] { return nil }

func (k *Collection[I, T]) Is(name string, opts ...CollectionOption[I]) {}

type Method[I, T, M any] struct {
	t *T
	m *M
}

func (h *Method[I, T, M]) Is(of *Collection[I, T], do func(c At[I], element *T, m *M), priority ...Priority) {
}
func (h *Method[I, T, M]) Send(c Context, i I, m *M) {}

type ElementReduction[I, T, V any] struct {
	t *T
	v *V
}

func (d *ElementReduction[I, T, V]) Is(of *Collection[I, T], op func(a, b V) V) {}

func (c Context) Modify(label string, body func(c Context) error) error { return nil }
func (c Context) Phase(to ...int) error                                 { return nil }
func (c Context) Subphase()                                             {}
func OnPhase(c Context, do func(c Context, phase int) error)            {}

func (k *Collection[I, T]) CreateEmpty(c Context, extent I) error            { return nil }
func (k *Collection[I, T]) Insert(c Context, i I, value T)                   {}
func (k *Collection[I, T]) Delete(c Context, i I)                            {}
func (d *ElementReduction[I, T, V]) Wait(c Context, n uint64) (v V, e error) { return v, nil }
