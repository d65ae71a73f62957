package pup_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/testdata/odd"
)

// Values and types that were made to break a roundtrip or Check.

type (
	selfPointer *selfPointer
	selfSlice   []selfSlice
	selfMap     map[string]selfMap
	selfEmbed   struct {
		*selfEmbed
		N int
	}
	twoN struct {
		firstN
		*secondN
		N int
	}
	firstN  struct{ N int }
	secondN struct{ N int }
	noField struct{}
	zeros   struct {
		F  [0]func()
		C  [0]chan int
		P  *noField
		A  [3]noField
		M  map[noField]noField
		K  map[[0]int]string
		S  []noField
		PP ***int
		Z  [0]*zeros
		E  noField
	}
	localAlias = frontFunc
	atomics    struct {
		A atomic.Int64
		B atomic.Bool
		C atomic.Uint32
		_ noCopy
		N int
	}
)

// writes has code that writes to its value whatever the direction is.
type writes struct{ N, Sum int }

func (x *writes) PUP(p *pup.Stream) {
	pup.Number(p, &x.N)
	x.Sum = x.N + 1
	pup.Number(p, &x.Sum)
}

type wrapsWrites struct{ W [1]writes }

var _ = pup.Register[wrapsWrites]("test.wrapsWrites")

// area is implemented by types that interfaces hold themselves.
type area interface{ Area() int }

func (x frontFunc) Area() int    { return x.Head.ID }
func (x *frontNoCopy) Area() int { return x.Head.ID }
func (x link) Area() int         { return x.ID }

type areas struct {
	A, B, C area
	L       []area
}

type areasByHand struct{ areas }

func (x *areasByHand) PUP(p *pup.Stream) {
	pup.Interface(p, &x.A)
	pup.Interface(p, &x.B)
	pup.Interface(p, &x.C)
	pup.Slice(p, &x.L, pup.Interface)
}

// handDirect has code of its own and is one pointer.
type handDirect struct {
	_    [0]func()
	Head *link
}

func (x *handDirect) PUP(p *pup.Stream) { pup.Ptr(p, &x.Head, pup.Value) }

// list has code of its own and is no structure.
type list []int

func (l *list) PUP(p *pup.Stream) { pup.Slice(p, (*[]int)(l), pup.Number) }

type word string

func (w *word) PUP(p *pup.Stream) { pup.String(p, w) }

type tree[K comparable, V any] struct {
	Left, Right *tree[K, V]
	Key         K
	Val         V
	cache       map[K]*V
}

var (
	_ = pup.Register[writes]("test.writes")
	_ = pup.Register[handDirect]("test.handDirect")
	_ = pup.Register[list]("test.list")
	_ = pup.Register[word]("test.word")
	_ = pup.Register[tree[string, any]]("test.tree")
)

func oddValues() map[string]any {
	self := selfPointer(new(selfPointer))
	two, three := 2, three()
	n := &two
	var t tree[string, any]
	t.Left, t.cache = &tree[string, any]{Key: "l", Val: tree[string, any]{Key: "in"}}, map[string]*any{"x": new(any)}
	return map[string]any{
		"pointer to itself":      &self,
		"slice of itself":        &selfSlice{nil, {}, {{}, nil}},
		"map of itself":          &selfMap{"a": nil, "b": {}, "c": {"d": nil}},
		"embeds itself":          &selfEmbed{&selfEmbed{nil, 1}, 2},
		"same names":             &twoN{firstN{1}, &secondN{2}, 3},
		"same names, nil":        &twoN{N: 3},
		"nothing":                &zeros{},
		"nearly nothing":         &zeros{P: &noField{}, M: map[noField]noField{{}: {}}, K: map[[0]int]string{{}: "x"}, S: make([]noField, 9), PP: ptr(ptr(n))},
		"nil inside":             &zeros{PP: ptr((**int)(nil)), M: map[noField]noField{}, S: []noField{}},
		"alias":                  &[]any{localAlias{Head: three}},
		"typed nils":             &[]any{(*link)(nil), []byte(nil), []byte{}, map[string]any(nil), map[string]any{}, (*[]byte)(nil), []any(nil), frontFunc{}, (*frontFunc)(nil)},
		"pointers to anything":   &[]any{ptr(1), ptr("x"), ptr([]byte{1}), &time.Time{}, ptr(map[string]any{"a": 1})},
		"methods":                &areas{frontFunc{Head: three}, &frontNoCopy{Head: three}, link{ID: 1}, []area{&link{ID: 2}, nil, frontFunc{Head: three}}},
		"methods by hand":        &areasByHand{areas{frontFunc{Head: three}, &frontNoCopy{Head: three}, link{ID: 1}, []area{&link{ID: 2}, nil, frontFunc{Head: three}}}},
		"constants with code":    &[]any{writes{1, 2}, handDirect{Head: three}, handDirect{}, list{1, 2}, list(nil), word("w"), word("")},
		"constants with code in": &[]any{wrapsWrites{[1]writes{{1, 2}}}, wrapsWrites{[1]writes{{0, 1}}}, ptr(wrapsWrites{[1]writes{{4, 5}}})},
		"by hand, no structures": &map[word]list{"a": {1}, "b": nil, "c": {}},
		"generic":                &t,
		"interface keys": &map[any]int{1: 1, int8(1): 2, "1": 3, 1.0: 4, true: 5, nil: 6, [1]any{}[0]: 7, netip.MustParseAddr("::1"): 8,
			time.Unix(1, 0).UTC(): 9, word("x"): 10, 'x': 11},
		"times as keys": &map[time.Time]string{time.Unix(1, 0).UTC(): "a", time.Unix(1, 0): "b", {}: "c"},
		"numbers": &[]any{math.Copysign(0, -1), float32(math.Inf(1)), complex(math.Inf(1), -0.5), big.NewInt(-1),
			uintptr(1), int8(-128), uint64(math.MaxUint64), '\U0010FFFF'},
		"strings": &[]string{"", "\x00", "\xff\xfe", strings.Repeat("é", 5000)},
		"arrays":  &[2][1]map[[2]string][1][]any{{{{"a", "b"}: {{1, nil}}}}, {}},
	}
}

// TestOddValues brings them back, trees and graphs, and asks Check and the sizes.
func TestOddValues(t *testing.T) {
	for name, v := range oddValues() {
		t.Run(name, func(t *testing.T) {
			for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
				roundTrip(t, fmt.Sprint(len(opts)), v, opts...)
			}
		})
	}
	a := &atomics{N: 1}
	a.A.Store(1 << 40)
	a.B.Store(true)
	a.C.Store(7)
	roundTrip(t, "atomics", a)
}

// TestKeysStoredAlike refuses maps whose keys differ here but not in the data.
func TestKeysStoredAlike(t *testing.T) {
	now := time.Now()
	for name, v := range map[string]any{
		"monotonic":        &map[time.Time]int{now: 1, now.Round(0): 2},
		"places":           &map[time.Time]int{now.In(time.FixedZone("X", 60)): 1, now.In(time.FixedZone("X", 60)): 2},
		"locations":        &map[*time.Location]int{time.FixedZone("X", 60): 1, time.FixedZone("X", 60): 2},
		"in interfaces":    &map[any]int{now: 1, now.Round(0): 2},
		"by code":          &odd.LossyKeys{M: map[int16]int{1: 1, 257: 2}},
		"generic, by code": &struct{ M map[odd.LossyKey]int }{map[odd.LossyKey]int{1: 1, 257: 2}},
	} {
		for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
			if _, err := pup.Marshal(v, opts...); !errors.Is(err, pup.ErrType) || !strings.Contains(err.Error(), "alike") {
				t.Errorf("%s: found %v", name, err)
			}
		}
		if err := pup.Check(v); err == nil {
			t.Errorf("%s: Check found nothing", name)
		}
	}
	l := &link{ID: 1}
	mixed := &struct {
		L []*link
		M map[any]int
	}{[]*link{l}, map[any]int{l: 7, link{ID: 1}: 7, (*link)(nil): 7, nil: 7}}
	roundTripKeys(t, mixed)
}

// roundTripKeys packs often: the order must not depend on chance.
func roundTripKeys(t *testing.T, v any) {
	t.Helper()
	first, err := pup.Marshal(v, pup.Graph())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := pup.Marshal(v, pup.Graph()); err != nil || string(again) != string(first) {
			t.Fatalf("other bytes (%v)", err)
		}
	}
	got := reflect.New(reflect.TypeOf(v).Elem())
	if err := pup.Unmarshal(first, got.Interface()); err != nil || got.Elem().Field(1).Len() != reflect.ValueOf(v).Elem().Field(1).Len() {
		t.Errorf("found %v, %v", got.Elem(), err)
	}
}
