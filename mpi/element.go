package mpi

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/byssus-hpc/byssus/internal/engine"
	"github.com/byssus-hpc/byssus/pup"
)

// Number is what can be combined by Sum, Prod and, but for complex numbers, Max and Min; integers by the others, too.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint | ~uintptr | ~float32 | ~float64 |
		~complex64 | ~complex128
}

// numberType is the type that MPI knows of a kind.
func numberType(k reflect.Kind) (engine.Type, bool) {
	switch k {
	case reflect.Bool:
		return engine.Bool, true
	case reflect.Int8:
		return engine.Int8, true
	case reflect.Int16:
		return engine.Int16, true
	case reflect.Int32:
		return engine.Int32, true
	case reflect.Int64, reflect.Int:
		return engine.Int64, true
	case reflect.Uint8:
		return engine.Uint8, true
	case reflect.Uint16:
		return engine.Uint16, true
	case reflect.Uint32:
		return engine.Uint32, true
	case reflect.Uint64, reflect.Uint, reflect.Uintptr:
		return engine.Uint64, true
	case reflect.Float32:
		return engine.Float32, true
	case reflect.Float64:
		return engine.Float64, true
	case reflect.Complex64:
		return engine.Complex64, true
	case reflect.Complex128:
		return engine.Complex128, true
	}
	return engine.Byte, false
}

// typeOf is the type of elements as MPI knows it, and how many of those one element is.
func typeOf[T any]() (engine.Type, int, error) {
	t := reflect.TypeFor[T]()
	if e, ok := numberType(t.Kind()); ok {
		return e, 1, nil
	}
	if pup.ClassOf[T]() != pup.PlainClass {
		return 0, 0, fmt.Errorf("mpi: elements of type %v hold pointers, which other ranks do not have: use SendValue and its like", t)
	}
	return engine.Byte, int(t.Size()), nil
}

// bufOf is the memory of a slice.
func bufOf[T any](s []T) (engine.Buf, error) {
	t, each, err := typeOf[T]()
	return engine.Buf{P: unsafe.Pointer(unsafe.SliceData(s)), N: len(s) * each, Type: t}, err
}

// An Op combines elements of ranks.
type Op = engine.Op

// The operations of reductions.
const (
	Max  = engine.Max
	Min  = engine.Min
	Sum  = engine.Sum
	Prod = engine.Prod
	LAnd = engine.LAnd
	BAnd = engine.BAnd
	LOr  = engine.LOr
	BOr  = engine.BOr
	LXor = engine.LXor
	BXor = engine.BXor
)

// fitting tells why an operation is not for elements of a type; MPI's table of them, MPI-4.1 section 6.9.2.
func fitting(k engine.Kind, op Op, t engine.Type) error {
	complexes := t == engine.Complex64 || t == engine.Complex128
	floats := t == engine.Float32 || t == engine.Float64
	switch {
	case op <= engine.NoOp || int(op) >= engine.Ops:
		return wrong(k, ErrOp, "there is no operation %d", op)
	case complexes && op != Sum && op != Prod, floats && op > Prod:
		return wrong(k, ErrOp, "%s is not for such elements", [...]string{"", "Max", "Min", "Sum", "Prod", "LAnd", "BAnd", "LOr", "BOr", "LXor", "BXor"}[op])
	}
	return nil
}
