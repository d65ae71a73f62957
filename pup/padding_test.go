package pup_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/byssus-hpc/byssus/pup"
)

var typeCount = flag.Int("types", 0, "random types of TestPadding; 0: 2000, or 10000 with BYSSUS_TEST_LONG")

// randomType is a type of at most depth levels, with fields of no size at any place.
func randomType(r *rand.Rand, depth int) reflect.Type {
	leaves := []reflect.Type{reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](), reflect.TypeFor[int32](),
		reflect.TypeFor[float64](), reflect.TypeFor[uint64](), reflect.TypeFor[int](), reflect.TypeFor[complex64](), reflect.TypeFor[string]()}
	empty := []reflect.Type{reflect.TypeFor[struct{}](), reflect.TypeFor[[0]uint64](), reflect.TypeFor[[0]string](), reflect.TypeFor[[3]struct{}]()}
	switch n := r.IntN(10); {
	case depth == 0 || n == 0:
		return leaves[r.IntN(len(leaves))]
	case n == 1:
		return empty[r.IntN(len(empty))]
	case n < 4:
		return reflect.ArrayOf(r.IntN(4), randomType(r, depth-1))
	case n == 4:
		return []func() reflect.Type{
			func() reflect.Type { return reflect.SliceOf(randomType(r, depth-1)) },
			func() reflect.Type { return reflect.PointerTo(randomType(r, depth-1)) },
			func() reflect.Type { return reflect.MapOf(reflect.TypeFor[paddedKey](), randomType(r, depth-1)) },
		}[r.IntN(3)]()
	}
	var fields []reflect.StructField
	for i := range r.IntN(5) {
		t := randomType(r, depth-1)
		if r.IntN(3) == 0 {
			t = empty[r.IntN(len(empty))]
		}
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: t})
	}
	return reflect.StructOf(fields)
}

// paddedKey has padding inside and behind its fields.
type paddedKey struct {
	A int8
	B uint32
	C bool
	_ struct{}
}

// fill gives the leaves of v random values, and every byte of memory that belongs to none the value dirt. It returns which bytes of
// v's memory belong to a leaf.
func fill(r *rand.Rand, v reflect.Value, dirt byte) []bool {
	held := make([]bool, v.Type().Size())
	mark := func(off uintptr, part []bool) { copy(held[off:], part) }
	switch v.Kind() {
	case reflect.Array:
		for i := range v.Len() {
			mark(uintptr(i)*v.Type().Elem().Size(), fill(r, v.Index(i), dirt))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "_" {
				mark(f.Offset, fill(r, v.Field(i), dirt))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i), dirt)
		}
	case reflect.Pointer:
		if v.SetZero(); r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), dirt)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		for range r.IntN(3) {
			fill(r, key, dirt)
			fill(r, val, dirt)
			v.SetMapIndex(key, val)
		}
	case reflect.String:
		v.SetString(fmt.Sprint(r.IntN(1000)))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Complex64:
		v.SetComplex(complex(float64(r.IntN(99)), float64(r.IntN(99))))
	case reflect.Float64:
		v.SetFloat(float64(r.IntN(1000)))
	case reflect.Int, reflect.Int8, reflect.Int32:
		v.SetInt(int64(r.IntN(256) - 128))
	default:
		v.SetUint(r.Uint64N(1 << 16))
	}
	if k := v.Kind(); k != reflect.Array && k != reflect.Struct {
		for i := range held {
			held[i] = true
		}
		return held
	}
	memory := unsafe.Slice((*byte)(v.Addr().UnsafePointer()), len(held))
	for i, h := range held {
		if !h {
			memory[i] = dirt
		}
	}
	return held
}

// TestPadding: what is packed depends on the value alone, and is as long as Size says, for random types with padding of every kind.
func TestPadding(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	types, padded := cmp.Or(*typeCount, 2_000), 0
	if os.Getenv("BYSSUS_TEST_LONG") != "" && *typeCount == 0 {
		types = 10_000
	}
	for i := range types {
		r := rand.New(rand.NewPCG(*seed, uint64(i)))
		typ := randomType(r, 3)
		clean, dirty, back := reflect.New(typ), reflect.New(typ), reflect.New(typ)
		values := r.Uint64()
		held := fill(rand.New(rand.NewPCG(values, 0)), clean.Elem(), 0)
		fill(rand.New(rand.NewPCG(values, 0)), dirty.Elem(), 0xa5)
		if bytes.Contains(asBytes(held), []byte{0}) {
			padded++
		}
		for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
			a, err := pup.Marshal(clean.Interface(), opts...)
			if err != nil {
				t.Fatalf("type %d, %v: %v", i, typ, err)
			}
			b, err := pup.Marshal(dirty.Interface(), opts...)
			if err != nil || !bytes.Equal(a, b) {
				t.Fatalf("type %d, %v: equal values give % x and % x, %v", i, typ, a, b, err)
			}
			if n, err := pup.Size(dirty.Interface(), opts...); err != nil || n != uint64(len(a)) {
				t.Fatalf("type %d, %v: Size %d, %v; %d bytes", i, typ, n, err, len(a))
			}
			if err := pup.Unmarshal(b, back.Interface(), opts...); err != nil || !reflect.DeepEqual(back.Interface(), clean.Interface()) {
				t.Fatalf("type %d, %v: found %v, wanted %v, %v", i, typ, back.Elem(), clean.Elem(), err)
			}
		}
	}
	if padded < types/10 {
		t.Errorf("%d of %d types have padding", padded, types)
	}
}

func asBytes(bits []bool) []byte {
	b := make([]byte, len(bits))
	for i, x := range bits {
		if x {
			b[i] = 1
		}
	}
	return b
}
