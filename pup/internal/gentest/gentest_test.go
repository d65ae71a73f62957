package gentest

import (
	"bytes"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/byssus-hpc/byssus/internal/tools/pupgen"
	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/internal/gentest/other"
)

// TestCurrent fails when go generate would change the committed methods.
func TestCurrent(t *testing.T) {
	var out strings.Builder
	if code := pupgen.Main([]string{"-check"}, &out, &out); code != 0 {
		t.Errorf("code %d\n%s", code, &out)
	}
}

// tests are those of one type.
type tests struct{ roundTrip, check func(*testing.T) }

func of[T any]() tests { return tests{overValues[T](expect), overValues[T](check)} }

// kinds are all types of this package, each with its tests.
var kinds = map[string]tests{
	"Vec3":       of[Vec3](),
	"Particle":   of[Particle](),
	"Padded":     of[Padded](),
	"Tail":       of[Tail](),
	"Tails":      of[Tails](),
	"PaddedOnce": of[PaddedOnce](),
	"Numbers":    of[Numbers](),
	"Measure":    of[Measure](),
	"Named":      of[Named](),
	"Containers": of[Containers](),
	"Node":       of[Node](),
	"Circle":     of[Circle](),
	"Square":     of[Square](),
	"Drawing":    of[Drawing](),
	"Base":       of[Base](),
	"Derived":    of[Derived](),
	"Special":    of[Special](),
	"Foreign":    of[Foreign](),
	"Lists":      of[Lists](),
	"Copy":       of[Copy](),
	"Reflected":  of[Reflected](),
	"Skipping":   of[Skipping](),
	"Blank":      of[Blank](),
	"Empty":      of[Empty](),
	"Nothing":    of[Nothing](),
	"Grid":       of[Grid](),
	"Table":      of[Table](),
	"Matrix":     of[Matrix](),
	"Title":      of[Title](),
	"ID":         of[ID](),
	"Mask":       of[Mask](),
	"Pair":       of[Pair](),
	"Holder":     of[Holder](),
	"Aliased":    of[Aliased](),
	"When":       of[When](),
	"Hits":       of[Hits](),
	"Counted":    of[Counted](),
	"Later":      of[Later](),
	"Woods":      of[Woods](),
	"Groves":     of[Groves](),
	"Box":        of[Box[Base]](),
	"Box of any": of[Box[any]](),
	"Series":     of[Series[Label, float64, bool]](),
	"List":       of[List[Particle]](),
	"Boxes":      of[Boxes](),
}

func TestRoundTrips(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, kind.roundTrip)
	}
}

func TestChecks(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, kind.check)
	}
}

// overValues draws values of T and tests each, and all of them in a slice, where no element may take the bytes of the
// next.
func overValues[T any](test func(t rapid.TB, v any)) func(*testing.T) {
	return rapid.MakeCheck(func(rt *rapid.T) {
		list := make([]T, rapid.IntRange(1, 4).Draw(rt, "values"))
		for i := range list {
			fill(rt, reflect.ValueOf(&list[i]).Elem(), 3)
			test(rt, &list[i])
		}
		test(rt, &list)
	})
}

// expect compares what comes back with what was saved.
func expect(t rapid.TB, want any) {
	t.Helper()
	data, err := pup.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	found := reflect.New(reflect.TypeOf(want).Elem()).Interface()
	if err := pup.Unmarshal(data, found); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, found, same); d != "" {
		t.Fatalf("saved, restored:\n%s", d)
	}
	for _, dirt := range []byte{0xa5, 0} {
		soil(reflect.ValueOf(want).Elem(), dirt)
		if n, err := pup.Size(want); err != nil || n != uint64(len(data)) {
			t.Fatalf("padding of %#x: Size %d, %v; %d bytes", dirt, n, err, len(data))
		}
		if again, err := pup.Marshal(want); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("padding of %#x gives % x, %v, want % x", dirt, again, err, data)
		}
	}
}

// soil fills the bytes of a variable that belong to no field, and those of what its slices and pointers lead to.
func soil(v reflect.Value, dirt byte) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			soil(v.Elem(), dirt)
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			soil(v.Index(i), dirt)
		}
	case reflect.Struct:
		if path := v.Type().PkgPath(); path != "" && !strings.Contains(path, "/gentest") {
			return
		}
		memory := unsafe.Slice((*byte)(v.Addr().UnsafePointer()), v.Type().Size())
		end := uintptr(0)
		for i := range v.NumField() {
			f, at := v.Type().Field(i), v.Field(i).Addr().UnsafePointer()
			fillWith(memory[end:f.Offset], dirt)
			end = f.Offset + f.Type.Size()
			soil(reflect.NewAt(f.Type, at).Elem(), dirt)
		}
		fillWith(memory[end:], dirt)
	}
}

func fillWith(memory []byte, dirt byte) {
	for i := range memory {
		memory[i] = dirt
	}
}

// check asks package pup whether every variable is visited once.
func check(t rapid.TB, v any) {
	t.Helper()
	if err := pup.Check(v); err != nil {
		t.Fatal(err)
	}
}

// same compares everything, but values of some types by what they mean.
var same = cmp.Options{
	cmp.Exporter(func(reflect.Type) bool { return true }),
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) && a.String() == b.String() }),
	cmp.Comparer(func(a, b When) bool { return time.Time(a).Equal(time.Time(b)) }),
	cmp.Comparer(func(a, b big.Int) bool { return a.Cmp(&b) == 0 }),
	cmp.Comparer(func(a, b big.Rat) bool { return a.Cmp(&b) == 0 }),
	cmp.Comparer(func(a, b big.Float) bool { return a.Cmp(&b) == 0 && a.Prec() == b.Prec() }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// made draws values of the types whose fields cannot be set.
var made = map[reflect.Type]func(*rapid.T) any{
	reflect.TypeFor[time.Time](): func(t *rapid.T) any { return moment(t) },
	reflect.TypeFor[When]():      func(t *rapid.T) any { return When(moment(t)) },
	reflect.TypeFor[big.Int]():   func(t *rapid.T) any { return *big.NewInt(rapid.Int64().Draw(t, "big")) },
	reflect.TypeFor[big.Rat]():   func(t *rapid.T) any { return *big.NewRat(rapid.Int64().Draw(t, "rat"), 7) },
	reflect.TypeFor[big.Float](): func(t *rapid.T) any { return *big.NewFloat(rapid.Float64().Draw(t, "float")) },
	reflect.TypeFor[netip.Addr](): func(t *rapid.T) any {
		return netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "addr")})
	},
	reflect.TypeFor[netip.AddrPort](): func(t *rapid.T) any {
		return netip.AddrPortFrom(netip.IPv6Loopback(), rapid.Uint16().Draw(t, "port"))
	},
	reflect.TypeFor[netip.Prefix](): func(t *rapid.T) any {
		return netip.PrefixFrom(netip.IPv6Loopback(), rapid.IntRange(0, 128).Draw(t, "bits"))
	},
	reflect.TypeFor[url.URL](): func(t *rapid.T) any {
		path := rapid.StringMatching("[a-z]*").Draw(t, "path")
		return url.URL{Scheme: "https", Host: "example.org", Path: "/" + path}
	},
	reflect.TypeFor[other.Stamp](): func(t *rapid.T) any { return other.NewStamp(rapid.String().Draw(t, "stamp")) },
	reflect.TypeFor[other.List]():  func(t *rapid.T) any { return list(t) },
	reflect.TypeFor[locals]():      func(t *rapid.T) any { return locals(list(t)) },
	reflect.TypeFor[Lists]():       func(t *rapid.T) any { return Lists(list(t)) },
	reflect.TypeFor[Shape](): func(t *rapid.T) any {
		side := rapid.Float64().Draw(t, "side")
		return rapid.SampledFrom([]Shape{nil, Circle{side}, &Square{side, "note"}, &Circle{side}}).Draw(t, "shape")
	},
	reflect.TypeFor[any](): func(t *rapid.T) any {
		n := rapid.Int().Draw(t, "any")
		return rapid.SampledFrom([]any{nil, n, "text", []any{n, nil, 1.5}, Circle{1}}).Draw(t, "any")
	},
}

func moment(t *rapid.T) time.Time {
	seconds, nanoseconds := rapid.Int64Range(-1e10, 1e11), rapid.Int64Range(0, 999999999)
	return time.Unix(seconds.Draw(t, "seconds"), nanoseconds.Draw(t, "nanoseconds")).UTC()
}

func list(t *rapid.T) other.List {
	return other.NewList(rapid.SliceOf(rapid.String()).Draw(t, "list")...)
}

// fill draws a value; at depth 0 there are no more elements.
func fill(t *rapid.T, v reflect.Value, depth int) {
	if draw := made[v.Type()]; draw != nil {
		if x := draw(t); x != nil {
			v.Set(reflect.ValueOf(x))
		}
		return
	}
	switch k := v.Kind(); k {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(rapid.Float32().Draw(t, "float")))
	case reflect.Complex64, reflect.Complex128:
		v.SetComplex(complex(float64(rapid.Float32().Draw(t, "real")), 1))
	case reflect.Array, reflect.Slice, reflect.Map, reflect.Pointer:
		fillElements(t, v, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("pup") == "" {
				fill(t, v.Field(i), depth)
			}
		}
	default:
		if v.CanInt() {
			v.SetInt(rapid.Int64().Draw(t, "int"))
		} else {
			v.SetUint(rapid.Uint64().Draw(t, "uint"))
		}
	}
}

func fillElements(t *rapid.T, v reflect.Value, depth int) {
	n := rapid.IntRange(-1, 3).Draw(t, "length")
	switch {
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), depth)
		}
	case depth == 0 || n < 0:
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i), depth-1)
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), depth-1)
	default:
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, depth-1)
			fill(t, val, depth-1)
			v.SetMapIndex(key, val)
		}
	}
}

// TestPadding: what lies between and behind the fields in memory is not packed.
func TestPadding(t *testing.T) {
	value := func(dirt byte) *Tails {
		v := &Tails{Many: make([]Tail, 3)}
		for _, at := range []struct {
			p unsafe.Pointer
			n uintptr
		}{{unsafe.Pointer(v), unsafe.Offsetof(v.Many)}, {unsafe.Pointer(&v.Many[0]), 3 * unsafe.Sizeof(Tail{})}} {
			memory := unsafe.Slice((*byte)(at.p), at.n)
			for i := range memory {
				memory[i] = dirt
			}
		}
		for i, tail := range []*Tail{&v.Pair[0], &v.Pair[1], &v.One, &v.Many[0], &v.Many[1], &v.Many[2]} {
			tail.A = uint64(i)
		}
		v.Last = 7
		return v
	}
	a, err := pup.Marshal(value(0))
	if err != nil {
		t.Fatal(err)
	}
	b, err := pup.Marshal(value(0xa5))
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("found % x and % x, %v", a, b, err)
	}
	if n, err := pup.Size(value(0xa5)); err != nil || n != uint64(len(a)) {
		t.Errorf("Size %d, %v; %d bytes", n, err, len(a))
	}
}

// TestUnexported saves what no other package can fill.
func TestUnexported(t *testing.T) {
	m := manual{3, 6}
	expect(t, &unexported{m, []manual{m, {}}, map[string]manual{"a": m}, 4, "text"})
}

// TestSkipped asks that what is skipped stays as it is where a value is unpacked.
func TestSkipped(t *testing.T) {
	from := []Particle{{ID: 1, cache: map[string]int{"a": 1}}, {ID: 2}}
	data, err := pup.Marshal(&from)
	if err != nil {
		t.Fatal(err)
	}
	var to []Particle
	if err := pup.Unmarshal(data, &to); err != nil {
		t.Fatal(err)
	}
	from[0].cache = nil
	if d := cmp.Diff(from, to, same); d != "" {
		t.Errorf("saved, restored:\n%s", d)
	}
}

// TestClasses asks that package pup knows generated code from what a person wrote.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		name        string
		found, want pup.Class
	}{
		{"Vec3", pup.ClassOf[Vec3](), pup.PlainClass},
		{"Matrix", pup.ClassOf[Matrix](), pup.PlainClass},
		{"Particle", pup.ClassOf[Particle](), pup.GeneratedClass},
		{"Grid", pup.ClassOf[Grid](), pup.GeneratedClass},
		{"Box", pup.ClassOf[Box[string]](), pup.GeneratedClass},
		{"When", pup.ClassOf[When](), pup.HandwrittenClass},
		{"manual", pup.ClassOf[manual](), pup.HandwrittenClass},
		{"Inner", pup.ClassOf[Inner](), pup.ReflectedClass},
	} {
		if c.found != c.want {
			t.Errorf("%s: found %v, want %v", c.name, c.found, c.want)
		}
	}
}
