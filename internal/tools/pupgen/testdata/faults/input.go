// Package faults has types that cannot be generated, each for a reason of its own.
package faults

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/byssus-hpc/byssus/pup"
)

type Chan struct {
	Name string
	ch   chan int
}

type Func struct{ F func() }

type Lock struct {
	A  int
	mu sync.Mutex
}

type Locks struct {
	sync.RWMutex
	wg    *sync.WaitGroup
	once  []sync.Once
	cond  map[string]*sync.Cond
	pool  [2]sync.Pool
	table sync.Map
}

type Addresses struct {
	P unsafe.Pointer
	A atomic.Pointer[int]
}

type Context struct{ ctx context.Context }

type Deep struct{ M map[string][]*func() }

type NoReason struct {
	A int //pup:skip
	B int `pup:"-"`
	C int `pup:"-, "`
	D int `pup:"skip"`
}

type Unknown struct {
	A Missing
	B []time.Tyme
}

type Hand struct{ A int }

func (h *Hand) PUP(p *pup.Stream) { pup.Number(p, &h.A) }

type OtherPUP struct{ A int }

func (o OtherPUP) PUP(n int) int { return n }

type FieldPUP struct{ PUP int }

type Alias = Hand

type Interface interface{ A() }

type Pointer *Hand

type Signal chan int

type Callback func()

type DeclaredLock sync.Mutex

type HoldsDeclaredLock struct{ L DeclaredLock }

type Inner struct {
	Name string
	Out  func(io.Writer)
}

type Reflected struct{ List []Inner }

type InnerSkip struct {
	Name string
	tmp  []byte //pup:skip made again
}

type ReflectedSkip struct{ InnerSkip }

type Nameless struct {
	Opts struct {
		Name string
		Done chan bool
	}
}

type Endless struct{ E Endless }

type Foreign struct {
	H  http.HandlerFunc
	Hs []http.HandlerFunc
}

type Generic[T any] struct {
	Item T
	F    func(T)
}
