package pup_test

import (
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

type number int32

type inner struct {
	A int8
	B float64
	C [3]uint16
}

type everything struct {
	Bool   bool
	I      int
	I8     int8
	I16    int16
	I32    int32
	I64    int64
	U      uint
	U8     uint8
	U16    uint16
	U32    uint32
	U64    uint64
	Ptr    uintptr
	F32    float32
	F64    float64
	C64    complex64
	C128   complex128
	Named  number
	S      string
	Bytes  []byte
	Nil    []byte
	Empty  []byte
	Floats []float64
	Names  []string
	Deep   [][]inner
	Arr    [4]string
	In     inner
	M      map[string]int
	MM     map[number]map[string][]float64
	MF     map[float64]string
	MS     map[inner]*inner
	NilM   map[string]int
	P      *inner
	NilP   *inner
	PP     **int
	T      time.Time
	TL     time.Time
	TZ     time.Time
	D      time.Duration
	Big    big.Int
	BigP   *big.Int
	BF     big.Float
	BR     *big.Rat
	Addr   netip.Addr
	AP     netip.AddrPort
	Pre    netip.Prefix
	Any    any
	Anys   []any
	hidden string
	skip   chan int `pup:"-,belongs to the goroutines"`
	anon   struct {
		X, Y int
		S    []string
	}
}

func full() *everything {
	seven, pseven := 7, new(int)
	*pseven = seven
	zone := time.FixedZone("XYZ", 3600)
	r := big.NewRat(22, 7)
	e := &everything{Bool: true, I: -1, I8: -8, I16: -16, I32: -32, I64: math.MinInt64, U: 1, U8: 8, U16: 16, U32: 32,
		U64: math.MaxUint64, Ptr: 99, F32: 1.5, F64: math.Inf(-1), C64: complex(1, 2), C128: complex(3, -4), Named: 12,
		S: "héllo\x00", Bytes: []byte{1, 2}, Empty: []byte{}, Floats: []float64{1, 2, 3}, Names: []string{"", "a", string(make([]byte, 200))},
		Deep: [][]inner{nil, {}, {{1, 2, [3]uint16{3, 4, 5}}, {}}}, Arr: [4]string{"x", "", "y", "z"},
		In: inner{A: 3, B: 4}, M: map[string]int{"a": 1, "b": 2, "": 3},
		MM: map[number]map[string][]float64{-1: {"q": {1}}, 5: nil, 6: {}},
		MF: map[float64]string{1: "one", -2: "two"}, MS: map[inner]*inner{{A: 1}: nil, {A: 2}: {A: 5}},
		P: &inner{B: 2}, PP: &pseven, T: time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC),
		TL: time.Date(2026, 11, 21, 1, 2, 3, 4, time.Local), TZ: time.Date(2026, 11, 21, 1, 2, 3, 4, zone),
		D: time.Hour, BigP: big.NewInt(-1234567), BR: r, Addr: netip.MustParseAddr("fe80::1%eth0"),
		AP: netip.MustParseAddrPort("10.0.0.1:80"), Pre: netip.MustParsePrefix("10.0.0.0/8"),
		Any: map[string]any{"k": []any{1, "two", 3.0, nil, true, []byte("x")}}, Anys: []any{nil, int8(1), time.Second, big.NewInt(5)},
		hidden: "seen", skip: nil}
	e.Big.Exp(big.NewInt(3), big.NewInt(200), nil)
	e.BF.SetPrec(200).SetString("3.14159265358979323846264338327950288")
	e.anon.X, e.anon.S = 5, []string{"s"}
	return e
}

func TestRoundTrip(t *testing.T) {
	want := full()
	data, err := pup.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got everything
	if err := pup.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if !got.TZ.Equal(want.TZ) || got.TZ.Format(time.RFC3339Nano) != want.TZ.Format(time.RFC3339Nano) {
		t.Errorf("time in a fixed zone: found %v, want %v", got.TZ, want.TZ)
	}
	got.TZ = want.TZ
	if !reflect.DeepEqual(want, &got) {
		a, b := reflect.ValueOf(want).Elem(), reflect.ValueOf(&got).Elem()
		for i := range a.NumField() {
			if !reflect.DeepEqual(a.Field(i).String(), b.Field(i).String()) || a.Type().Field(i).IsExported() && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				t.Errorf("%s: found %v, want %v", a.Type().Field(i).Name, b.Field(i), a.Field(i))
			}
		}
		t.Error("not equal")
	}
	if n, err := pup.Size(want); err != nil || n != uint64(len(data)) {
		t.Errorf("Size: found %d, %v, want %d", n, err, len(data))
	}
}
