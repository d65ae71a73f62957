// Package pup has the signatures of the real package pup and nothing behind them.
package pup

import (
	"math/big"
	"net/netip"
	"time"
)

type Stream struct{ mode int }

type PUPer interface{ PUP(p *Stream) }

func (p *Stream) Sizing() bool    { return false }
func (p *Stream) Packing() bool   { return false }
func (p *Stream) Unpacking() bool { return false }
func (p *Stream) Err() error      { return nil }
func (p *Stream) Fail(err error)  {}

type number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128
}

func Number[T number](p *Stream, v *T)                             {}
func Bool[T ~bool](p *Stream, v *T)                                {}
func String[T ~string](p *Stream, v *T)                            {}
func Plain[T any](p *Stream, v *T)                                 {}
func PlainSlice[S ~[]E, E any](p *Stream, v *S)                    {}
func Slice[S ~[]E, E any](p *Stream, v *S, elem func(*Stream, *E)) {}
func Array[E any](p *Stream, a []E, elem func(*Stream, *E))        {}
func Ptr[T any](p *Stream, v **T, elem func(*Stream, *T))          {}
func Interface[I any](p *Stream, v *I)                             {}
func Value[T any](p *Stream, v *T)                                 {}
func Skip[T any](p *Stream, v *T, reason string)                   {}
func Time(p *Stream, v *time.Time)                                 {}
func BigInt(p *Stream, v *big.Int)                                 {}
func BigFloat(p *Stream, v *big.Float)                             {}
func BigRat(p *Stream, v *big.Rat)                                 {}
func Addr(p *Stream, v *netip.Addr)                                {}
func AddrPort(p *Stream, v *netip.AddrPort)                        {}
func Prefix(p *Stream, v *netip.Prefix)                            {}

func Map[M ~map[K]V, K comparable, V any](p *Stream, v *M, key func(*Stream, *K), val func(*Stream, *V)) {
}

func Object[T any, PT interface {
	*T
	PUPer
}](p *Stream, v PT) {
}

type BinaryValue interface {
	MarshalBinary() ([]byte, error)
	UnmarshalBinary([]byte) error
}

func Binary(p *Stream, v BinaryValue) {}

func Version[T any](p *Stream) int { return 1 }

type Block[T any] struct{ fields []string }

func BlockOf[T any](fields ...string) Block[T] { return Block[T]{} }
func (b Block[T]) PUP(p *Stream, x *T)         {}

type Rule struct{}
type Type[T any] struct{}

func Register[T any](name string, rules ...Rule) Type[T] { return Type[T]{} }
func SchemaVersion(version int) Rule                     { return Rule{} }
func Alias(name string) Rule                             { return Rule{} }
func Added(field string, version int) Rule               { return Rule{} }
func Removed(field string, version int) Rule             { return Rule{} }
func Renamed(from, to string, version int) Rule          { return Rule{} }
func Widened(field, from string, version int) Rule       { return Rule{} }
func Construct[T any](new func() T) Rule                 { return Rule{} }
func Visit[T any](visit func(p *Stream, v *T)) Rule      { return Rule{} }
