package pup_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

type link struct {
	ID   int
	Next *link
}

type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// These are one pointer, or nearly: interfaces of some Go releases hold them themselves, those of others a pointer to them.
type (
	frontSized struct{ Head *link }
	frontFunc  struct {
		_    [0]func()
		Head *link
	}
	frontNoCopy struct {
		_    noCopy
		Head *link
	}
	backEmpty struct {
		Head *link
		_    struct{}
	}
	backArray struct {
		Head *link
		_    [0]int
	}
	bothEnds struct {
		_    [0]func()
		Head *link
		_    noCopy
	}
	nestedEnds struct {
		_  [0]chan int
		In frontFunc
	}
	arrayOfOne  struct{ A [1]frontFunc }
	arraysOfOne [1][1]frontNoCopy
	embedsIt    struct{ frontFunc }
	mapInside   struct {
		_ [0]func()
		M map[string]*link
	}
	skipsPointer struct {
		_    [0]func()
		Head *link `pup:"-,made again"`
	}
	skipsChannel struct {
		C chan int `pup:"-,made again"`
	}
	unnamedWord struct{ _ *int }
	oneWord     struct {
		_ [0]func()
		N uintptr
	}
	nothingAtAll   struct{ _ [0]func() }
	generic[T any] struct {
		_    [0]func(T)
		Head *T
	}
)

var (
	_ = pup.Register[link]("test.link")
	_ = pup.Register[frontSized]("test.frontSized")
	_ = pup.Register[frontFunc]("test.frontFunc")
	_ = pup.Register[frontNoCopy]("test.frontNoCopy")
	_ = pup.Register[backEmpty]("test.backEmpty")
	_ = pup.Register[backArray]("test.backArray")
	_ = pup.Register[bothEnds]("test.bothEnds")
	_ = pup.Register[nestedEnds]("test.nestedEnds")
	_ = pup.Register[arrayOfOne]("test.arrayOfOne")
	_ = pup.Register[arraysOfOne]("test.arraysOfOne")
	_ = pup.Register[embedsIt]("test.embedsIt")
	_ = pup.Register[mapInside]("test.mapInside")
	_ = pup.Register[skipsPointer]("test.skipsPointer")
	_ = pup.Register[skipsChannel]("test.skipsChannel")
	_ = pup.Register[unnamedWord]("test.unnamedWord")
	_ = pup.Register[oneWord]("test.oneWord")
	_ = pup.Register[nothingAtAll]("test.nothingAtAll")
	_ = pup.Register[generic[link]]("test.genericLink")
)

func three() *link { return &link{1, &link{2, &link{3, nil}}} }

// pointerShaped are values of all types above; fresh makes lists of their own for each.
func pointerShaped() []any {
	return []any{
		frontSized{three()}, frontFunc{Head: three()}, frontNoCopy{Head: three()}, backEmpty{Head: three()}, backArray{Head: three()},
		bothEnds{Head: three()}, nestedEnds{In: frontFunc{Head: three()}}, arrayOfOne{[1]frontFunc{{Head: three()}}},
		arraysOfOne{{{Head: three()}}}, embedsIt{frontFunc{Head: three()}}, mapInside{M: map[string]*link{"a": three()}},
		oneWord{N: 1 << 30}, nothingAtAll{}, generic[link]{Head: three()}, skipsPointer{}, skipsChannel{}, unnamedWord{},
		frontFunc{}, frontNoCopy{}, bothEnds{}, nestedEnds{}, arrayOfOne{}, arraysOfOne{}, mapInside{}, generic[link]{}, oneWord{},
	}
}

// TestPointerShaped holds values of one pointer in interfaces of every sort: variables, elements, entries, keys, *T.
func TestPointerShaped(t *testing.T) {
	for _, v := range pointerShaped() {
		t.Run(fmt.Sprintf("%T", v), func(t *testing.T) {
			p := reflect.New(reflect.TypeOf(v))
			p.Elem().Set(reflect.ValueOf(v))
			for name, x := range map[string]any{
				"variable": &struct{ V any }{v}, "elements": &[]any{v, nil, v}, "entries": &map[string]any{"k": v},
				"pointer": &struct{ V any }{p.Interface()}, "value": p.Interface(), "nested": &[]any{[]any{v}},
			} {
				for _, opts := range [][]pup.Option{nil, {pup.Graph()}} {
					roundTrip(t, name, x, opts...)
				}
			}
		})
	}
}

// roundTrip packs, unpacks, compares, and asks Check and Footprint.
func roundTrip(t *testing.T, name string, x any, opts ...pup.Option) {
	t.Helper()
	data, err := pup.Marshal(x, opts...)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	got := reflect.New(reflect.TypeOf(x).Elem())
	if err := pup.Unmarshal(data, got.Interface()); err != nil || !reflect.DeepEqual(got.Interface(), x) {
		t.Errorf("%s: found %v, %v, want %v", name, got.Elem(), err, reflect.ValueOf(x).Elem())
		return
	}
	if again, err := pup.Marshal(got.Interface(), opts...); err != nil || !bytes.Equal(again, data) {
		t.Errorf("%s: packed again: other bytes (%v)", name, err)
	}
	if n, err := pup.Size(x, opts...); err != nil || n != uint64(len(data)) {
		t.Errorf("%s: sized %d, %v, packed %d", name, n, err, len(data))
	}
	if err := pup.Check(x, pup.Graph()); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if _, err := pup.Footprint(x, opts...); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// TestSkippedPointerInInterface: what is skipped stays out also where the value is nothing but that.
func TestSkippedPointerInInterface(t *testing.T) {
	x := []any{skipsPointer{Head: three()}, skipsChannel{make(chan int)}}
	data, err := pup.Marshal(&x)
	if err != nil {
		t.Fatal(err)
	}
	var y []any
	if err := pup.Unmarshal(data, &y); err != nil || !reflect.DeepEqual(y, []any{skipsPointer{}, skipsChannel{}}) {
		t.Errorf("found %v, %v", y, err)
	}
}
