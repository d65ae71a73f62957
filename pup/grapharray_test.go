package pup_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/byssus-hpc/byssus/pup"
)

// room is a structure with arrays that others point into.
type (
	room struct {
		Name  string
		Bytes [8]byte
		Grid  [3][4]int32
		Cells [4]roomCell
		Last  int8
	}
	roomCell struct {
		X    float64
		Tag  string
		Room [3]int16
		Next *roomCell
	}
	arraysFirst struct {
		Of    *room
		Views views
	}
	arraysLast struct {
		Views views
		Of    *room
	}
	views struct {
		Byte       *byte
		All, Some  []byte
		Tight      []byte
		Row        []int32
		Rows       [][4]int32
		OneRow     *[4]int32
		Pair       *[2]int32
		Number     *int32
		Cells      []roomCell
		X          *float64
		Cell       *roomCell
		Array      *[4]roomCell
		Shorts     []int16
		Short      *int16
		Any        any
		ByName     map[string][]byte
		Room       *[8]byte
		Half       *[4]byte
		One        []int8
		None, Null []byte
	}
)

var _ = pup.Register[views]("test.views")

func newRoom() *room {
	r := &room{Name: "r", Bytes: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, Last: 9}
	for i := range r.Grid {
		for j := range r.Grid[i] {
			r.Grid[i][j] = int32(10*i + j)
		}
	}
	for i := range r.Cells {
		r.Cells[i] = roomCell{float64(i), strings.Repeat("t", i), [3]int16{int16(i), 1, 2}, &r.Cells[(i+1)%4]}
	}
	return r
}

func viewsOf(r *room) views {
	return views{Byte: &r.Bytes[3], All: r.Bytes[:], Some: r.Bytes[2:5], Tight: r.Bytes[1:4:6], Row: r.Grid[1][1:3], Rows: r.Grid[1:],
		OneRow: &r.Grid[2], Pair: (*[2]int32)(r.Grid[0][1:]), Number: &r.Grid[1][2], Cells: r.Cells[1:3], X: &r.Cells[2].X, Cell: &r.Cells[3],
		Array: &r.Cells, Shorts: r.Cells[1].Room[1:], Short: &r.Cells[1].Room[2], Any: &views{Some: r.Bytes[6:]},
		ByName: map[string][]byte{"a": r.Bytes[4:], "b": r.Bytes[:1:1]}, Room: &r.Bytes, Half: (*[4]byte)(r.Bytes[4:]),
		One: unsafe.Slice(&r.Last, 1), None: r.Bytes[:0], Null: nil}
}

// checkViews asks that every view lies where it lay in the room.
func checkViews(t *testing.T, r *room, got *views) {
	t.Helper()
	want := viewsOf(r)
	for i := range reflect.TypeFor[views]().NumField() {
		name := reflect.TypeFor[views]().Field(i).Name
		a, b := reflect.ValueOf(*got).Field(i), reflect.ValueOf(want).Field(i)
		switch a.Kind() {
		case reflect.Pointer:
			if a.Pointer() != b.Pointer() {
				t.Errorf("%s: found %#x, want %#x in %#x", name, a.Pointer(), b.Pointer(), uintptr(unsafe.Pointer(r)))
			}
		case reflect.Slice:
			if a.Len() != b.Len() || a.IsNil() != b.IsNil() || a.Len() > 0 && (a.Pointer() != b.Pointer() || a.Cap() != b.Cap()) {
				t.Errorf("%s: found %d of %d at %#x, want %d of %d at %#x", name, a.Len(), a.Cap(), a.Pointer(), b.Len(), b.Cap(), b.Pointer())
			}
		}
	}
	if some := got.Any.(*views).Some; len(some) != 2 || &some[0] != &r.Bytes[6] {
		t.Error("Any is elsewhere")
	}
	if a, b := got.ByName["a"], got.ByName["b"]; len(a) != 4 || &a[0] != &r.Bytes[4] || len(b) != 1 || cap(b) != 1 || &b[0] != &r.Bytes[0] {
		t.Error("ByName is elsewhere")
	}
	got.Some[1], got.Row[0], got.Shorts[1], got.Cells[0].Tag = 77, 78, 79, "new"
	if got.All[3] != 77 || *got.Byte != 77 || r.Bytes[3] != 77 || r.Grid[1][1] != 78 || got.Rows[0][1] != 78 || *got.Short != 79 || r.Cells[1].Tag != "new" {
		t.Error("what is written through one is not seen through the others")
	}
}

// TestGraphSlicesOfArrays has pointers and slices into arrays of a structure, seen before it and after it.
func TestGraphSlicesOfArrays(t *testing.T) {
	r := newRoom()
	for name, c := range map[string]struct {
		v     any
		parts func(any) (*room, *views)
	}{
		"first": {&arraysFirst{r, viewsOf(r)}, func(v any) (*room, *views) { x := v.(*arraysFirst); return x.Of, &x.Views }},
		"last":  {&arraysLast{viewsOf(r), r}, func(v any) (*room, *views) { x := v.(*arraysLast); return x.Of, &x.Views }},
		"in a slice": {&[]any{1, &arraysLast{viewsOf(r), r}}, func(v any) (*room, *views) {
			x := (*v.(*[]any))[1].(*arraysLast)
			return x.Of, &x.Views
		}},
	} {
		t.Run(name, func(t *testing.T) {
			back := graphTrip(t, c.v)
			room, views := c.parts(back)
			if !reflect.DeepEqual(room, r) {
				t.Errorf("found %+v, want %+v", room, r)
			}
			checkViews(t, room, views)
		})
	}
}

var _ = pup.Register[arraysLast]("test.arraysLast")

// graphTrip packs a graph in every way, checks it and returns what came back.
func graphTrip(t *testing.T, v any) any {
	t.Helper()
	data, err := pup.Marshal(v, pup.Graph())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := pup.Size(v, pup.Graph()); err != nil || n != uint64(len(data)) {
		t.Errorf("Size: found %d, %v, want %d", n, err, len(data))
	}
	var w bytes.Buffer
	if err := pup.ToWriter(&w, v, pup.Graph()); err != nil || !bytes.Equal(w.Bytes(), data) {
		t.Errorf("ToWriter: other bytes (%v)", err)
	}
	if err := pup.Check(v, pup.Graph()); err != nil {
		t.Error(err)
	}
	back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
	if err := pup.Unmarshal(data, back); err != nil {
		t.Fatal(err)
	}
	if again, err := pup.Marshal(back, pup.Graph()); err != nil || !bytes.Equal(again, data) {
		t.Errorf("packed again: other bytes (%v)", err)
	}
	if err := pup.Unmarshal(data, back, pup.InPlace()); err != nil {
		t.Error(err)
	}
	return back
}

// ownRoom uses a part of its own array, as buffers do; handRoom does with code of its own.
type (
	ownRoom struct {
		Used []int
		Room [5]int
		Next []*ownRoom
	}
	handRoom struct {
		Used []string
		Room [5]string
	}
)

func (h *handRoom) PUP(p *pup.Stream) {
	pup.Slice(p, &h.Used, pup.String)
	pup.Array(p, h.Room[:], pup.String)
}

// TestGraphOwnArray has values with slices of their own arrays: the root itself, elements of a slice, what pointers lead to.
func TestGraphOwnArray(t *testing.T) {
	list := make([]ownRoom, 3)
	for i := range list {
		list[i].Room[i] = 7
		list[i].Used = list[i].Room[i : i+2]
		list[i].Next = []*ownRoom{&list[(i+1)%3]}
	}
	back := *graphTrip(t, &list).(*[]ownRoom)
	for i := range back {
		if x := &back[i]; &x.Used[0] != &x.Room[i] || cap(x.Used) != 5-i || x.Used[0] != 7 || x.Next[0] != &back[(i+1)%3] {
			t.Errorf("element %d: found %v, capacity %d", i, x, cap(x.Used))
		}
	}
	one := graphTrip(t, &list[1]).(*ownRoom)
	if &one.Used[0] != &one.Room[1] || one.Used[0] != 7 {
		t.Errorf("found %v", one)
	}
	h := &handRoom{Room: [5]string{"a", "b", "c"}}
	h.Used = h.Room[:2]
	hand := graphTrip(t, h).(*handRoom)
	if hand.Used[0] = "z"; hand.Room[0] != "z" || cap(hand.Used) != 5 || hand.Room[2] != "c" {
		t.Errorf("found %v", hand)
	}
}

// TestGraphArraysOfSlices converts slices to arrays, which then lie in the slice, or hold it, or lie across its ends.
func TestGraphArraysOfSlices(t *testing.T) {
	type mixed struct {
		A, B  []string
		P, Q  *[3]string
		One   *string
		Pairs [][2]string
	}
	array := strings.Split("abcdefgh", "")
	three := func(from int) *[3]string { return (*[3]string)(array[from:]) }
	for name, v := range map[string]*mixed{
		"in a slice":        {A: array[:6], P: three(1), Q: three(3)},
		"the same":          {A: array[:3], P: three(0), B: array[:2]},
		"before the slice":  {A: array[2:6], P: three(0), One: &array[1]},
		"behind the slice":  {A: array[:4], P: three(3), One: &array[5]},
		"between slices":    {A: array[:2], B: array[4:6], P: three(1), Q: three(3)},
		"across both ends":  {A: array[2:5], P: three(0), Q: three(4), One: &array[6]},
		"pairs":             {A: array[1:], Pairs: unsafe.Slice((*[2]string)(unsafe.Pointer(&array[2])), 2)},
		"pairs of an array": {P: three(0), Pairs: unsafe.Slice((*[2]string)(unsafe.Pointer(&array[1])), 1), One: &array[2]},
	} {
		t.Run(name, func(t *testing.T) {
			got := graphTrip(t, v).(*mixed)
			if !reflect.DeepEqual(got, v) {
				t.Errorf("found %v, want %v", got, v)
			}
			where := func(m *mixed) (list []uintptr) {
				for _, p := range []unsafe.Pointer{unsafe.Pointer(unsafe.SliceData(m.A)), unsafe.Pointer(unsafe.SliceData(m.B)),
					unsafe.Pointer(m.P), unsafe.Pointer(m.Q), unsafe.Pointer(m.One), unsafe.Pointer(unsafe.SliceData(m.Pairs))} {
					if p != nil {
						list = append(list, uintptr(p))
					}
				}
				for i := range list {
					list[len(list)-1-i] -= list[0]
				}
				return list
			}
			if a, b := where(got), where(v); !reflect.DeepEqual(a, b) {
				t.Errorf("found distances %d, want %d", a, b)
			}
		})
	}
}

// TestGraphArraysAtRandom draws slices of and pointers into one array, in any order, some of which nobody has a whole of.
func TestGraphArraysAtRandom(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 1))
	for range 2000 {
		x := newRoom()
		var list []any
		for range 1 + r.IntN(6) {
			from, to := r.IntN(8), r.IntN(8)
			from, to = min(from, to), max(from, to)+1
			list = append(list, []any{x.Bytes[from:to], x.Bytes[from:to:to], &x.Bytes, &x.Bytes[from], x, &x.Cells, x.Cells[from/2 : to/2],
				x.Cells[from/2].Room[from%3:], &x.Cells[from/2].Room[from%3], &x.Grid[from%3][to%4], x.Grid[from%3][to%4:], x.Grid[from%3:]}[r.IntN(12)])
		}
		data, err := pup.Marshal(&list, pup.Graph())
		if errors.Is(err, pup.ErrType) && strings.Contains(err.Error(), "reached only by pointers into it") {
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v", list, err)
		}
		var back []any
		if err := pup.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, list) {
			t.Fatalf("found %v, %v, want %v", back, err, list)
		}
		for i := range list {
			for j := range list {
				a, b := reflect.ValueOf(list[i]), reflect.ValueOf(list[j])
				c, d := reflect.ValueOf(back[i]), reflect.ValueOf(back[j])
				if overlap(a, b) && a.Pointer()-b.Pointer() != c.Pointer()-d.Pointer() {
					t.Fatalf("%T and %T: found a distance of %d, want %d", list[i], list[j], c.Pointer()-d.Pointer(), a.Pointer()-b.Pointer())
				}
			}
		}
	}
}

// overlap tells whether what two pointers or slices lead to overlaps.
func overlap(a, b reflect.Value) bool {
	size := func(v reflect.Value) uintptr {
		if v.Kind() == reflect.Slice {
			return uintptr(v.Len()) * v.Type().Elem().Size()
		}
		return v.Type().Elem().Size()
	}
	return size(a) > 0 && size(b) > 0 && a.Pointer() < b.Pointer()+size(b) && b.Pointer() < a.Pointer()+size(a)
}

func init() {
	pup.Register[[8]byte]("test.bytes8")
	pup.Register[room]("test.room")
	pup.Register[roomCell]("test.roomCell")
	pup.Register[[4]roomCell]("test.cells4")
	pup.Register[[]roomCell]("test.cells")
	pup.Register[[]int16]("test.int16s")
	pup.Register[[]int32]("test.int32s")
	pup.Register[[][4]int32]("test.rows")
}

type skippedRoom struct {
	Room [4]int `pup:"-,Used is saved"`
	Used []int
}

// TestGraphArraysRefused asks for an error that says what shares memory, and how.
func TestGraphArraysRefused(t *testing.T) {
	s := &skippedRoom{}
	s.Used = s.Room[:2]
	grid := [2][3]int{}
	words := make([]uint32, 4)
	for _, c := range []struct {
		v    any
		want string
	}{
		{s, "skippedRoom.Used: type cannot be saved: its array lies in a pup_test.skippedRoom, in the field Room, which is not saved"},
		{&struct {
			P *[2][3]int
			S []int
		}{&grid, unsafe.Slice(&grid[0][1], 4)}, "share memory"},
		{&struct {
			P []uint32
			S []uint16
		}{words, unsafe.Slice((*uint16)(unsafe.Pointer(&words[1])), 2)}, "share memory"},
	} {
		for range 2 {
			if _, err := pup.Marshal(c.v, pup.Graph()); !errors.Is(err, pup.ErrType) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want %s", err, c.want)
			}
		}
	}
}

// TestHostileSlicesOfArrays gives slices of arrays in objects that are not there, or are something else.
func TestHostileSlicesOfArrays(t *testing.T) {
	type small struct {
		S []int16
		A [3]int16
		P *struct{ B [2]int16 }
	}
	six, none := "\x01\x00\x02\x00\x03\x00", "\x00"
	for body, want := range map[string]string{
		"\x02\x00\x00\x00\x05.A[1]\x02\x02" + six + none:             "",
		"\x02\x00\x00\x00\x05.A[1]\x01\x02" + six + none:             "",
		"\x02\x00\x00\x00\x05.A[1]\x02\x03" + six + none:             "has 2 of int16",
		"\x02\x00\x00\x00\x05.A[3]\x01\x01" + six + none:             "has no int16",
		"\x02\x00\x00\x00\x02.A\x01\x01" + six + none:                "has no int16",
		"\x02\x00\x00\x00\x00\x01\x01" + six + none:                  "has no int16",
		"\x02\x00\x00\x01\x05.A[1]\x01\x01" + six + none:             "element 1 of 1",
		"\x02\x00\x00\x00\x05.A[1]\x00\x01" + six + none:             "0 elements of int16",
		"\x02\x00\x00\x00\x05.A[1]\x02\x01" + six + none:             "2 elements of int16, capacity 1",
		"\x02\x00\x02\x00\x05.B[1]\x01\x01" + six + none:             "object 2 of 1",
		"\x02\x00\x01\x00\x05.B[1]\x01\x01" + six + none:             "object 1 never came",
		"\x02\x00\x01\x00\x05.B[1]\x01\x01" + six + "\x04\x01\x02ab": "",
		"\x02\x00\x01\x00\x05.B[1]\x01\x02" + six + "\x04\x01\x02ab": "has 1 of int16",
		"\x02\x00\x01\x00\x05.B[1]\x01" + uvarint(1<<63):             "capacity 9223372036854775808",
	} {
		var v small
		switch err := pup.Unmarshal(pup.Wrap(&v, true, []byte(body)), &v); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: found %v, want %s", body, err, want)
		case want == "" && &v.S[0] != &v.A[1] && &v.S[0] != &v.P.B[1]:
			t.Errorf("%q: S lies elsewhere", body)
		}
	}
}

// inAll leads to the slice, or the structure, that it lies in.
type (
	inAll struct {
		ID  int
		All []inAll
		Of  *holdsIn
	}
	holdsIn struct {
		ID int
		In inAll
	}
)

// TestGraphInWhatItLeadsTo refuses a value that lies in what it leads to, but for a slice of that value alone: it would be there
// twice afterwards.
func TestGraphInWhatItLeadsTo(t *testing.T) {
	holder, list, two, one := &holdsIn{ID: 1}, make([]inAll, 3), make([]inAll, 2), make([]inAll, 1)
	holder.In.Of = holder
	list[0].All, list[1].All, two[1].All, one[0].All = list, list, two, one
	array := (*[2]inAll)(list[1:])
	for name, v := range map[string]any{"3 of pup_test.inAll": &list[0], "2 of pup_test.inAll": &two[1], "a pup_test.holdsIn": &holder.In,
		"of pup_test.inAll": array} {
		for _, f := range []func() error{
			func() error { _, err := pup.Marshal(v, pup.Graph()); return err },
			func() error { _, err := pup.Size(v, pup.Graph()); return err },
		} {
			if err := f(); !errors.Is(err, pup.ErrType) || !strings.Contains(err.Error(), "the value itself lies in ") ||
				!strings.Contains(err.Error(), name+", to which it leads") {
				t.Errorf("%s: found %v", name, err)
			}
		}
	}
	if got := graphTrip(t, &one[0]).(*inAll); &got.All[0] != got {
		t.Error("a slice of the value itself is elsewhere")
	}
	if got := graphTrip(t, holder).(*holdsIn); got.In.Of != got {
		t.Error("the holder is elsewhere")
	}
}

// outside has nothing of its own: its code visits variables that are elsewhere.
type outside struct{}

var _ = pup.Register[outside]("test.outside", pup.Visit(func() func(*pup.Stream, *outside) {
	list := []uint8{1, 2, 3}
	part := list[2:]
	return func(p *pup.Stream, _ *outside) {
		pup.PlainSlice(p, &list)
		pup.PlainSlice(p, &part)
	}
}()))

// TestGraphOfNoSize packs a value that is no object itself.
func TestGraphOfNoSize(t *testing.T) {
	data, err := pup.Marshal(&outside{}, pup.Graph(), pup.Unchecked())
	if want := "\x01\x03\x01\x02\x03\x03\x02\x01\x01"; err != nil || string(pup.Body(data)) != want {
		t.Fatalf("found %q, %v, want %q", pup.Body(data), err, want)
	}
	if err := pup.Unmarshal(data, &outside{}, pup.Graph()); err != nil {
		t.Fatal(err)
	}
	if again, err := pup.Marshal(&outside{}, pup.Graph(), pup.Unchecked()); err != nil || !bytes.Equal(again, data) {
		t.Errorf("packed again: found %q, %v", pup.Body(again), err)
	}
}
