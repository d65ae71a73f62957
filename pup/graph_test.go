package pup_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/byssus-hpc/byssus/pup"
)

// gnode is walked by reflection, hnode by its own code: both must behave alike.
type gnode struct {
	ID   int
	Next *gnode
	Prev *gnode
	Name string
}

type cell struct {
	Value float64
	Pos   [2]float64
	Near  []*cell
	Along *float64
}

type mesh struct {
	First *cell // points into Cells, which comes later
	Cells []cell
	Halo  []cell // a part of Cells
	Tail  []cell // overlaps Halo
	X     *float64
	ByID  map[int]*cell
	Self  *mesh
	Any   any
}

var _ = pup.Register[cell]("test.cell")

func (m *mesh) PUP(p *pup.Stream) {
	pup.Ptr(p, &m.First, pup.Value)
	pup.Slice(p, &m.Cells, pup.Value)
	pup.Slice(p, &m.Halo, pup.Value)
	pup.Slice(p, &m.Tail, pup.Value)
	pup.Ptr(p, &m.X, pup.Number)
	pup.Map(p, &m.ByID, pup.Number, func(p *pup.Stream, c **cell) { pup.Ptr(p, c, pup.Value) })
	pup.Ptr(p, &m.Self, pup.Object)
	pup.Interface(p, &m.Any)
}

func newMesh() *mesh {
	m := &mesh{Cells: make([]cell, 10), ByID: map[int]*cell{}}
	for i := range m.Cells {
		c := &m.Cells[i]
		c.Value = float64(i)
		c.Near = []*cell{&m.Cells[(i+1)%10], &m.Cells[(i+9)%10]}
		c.Along = &m.Cells[(i+5)%10].Pos[1]
		m.ByID[i] = c
	}
	m.First, m.Halo, m.Tail = &m.Cells[0], m.Cells[2:6], m.Cells[5:]
	m.X, m.Self, m.Any = &m.Cells[7].Value, m, &m.Cells[3]
	return m
}

func TestGraphSharesAgain(t *testing.T) {
	for _, opts := range [][]pup.Option{{pup.Graph()}, {pup.Graph(), pup.Unchecked()}} {
		data, err := pup.Marshal(newMesh(), opts...)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := pup.Size(newMesh(), opts...); err != nil || n != uint64(len(data)) {
			t.Errorf("Size: found %d, %v, want %d", n, err, len(data))
		}
		var m mesh
		if err := pup.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		checkMesh(t, &m)
		var r mesh
		if err := pup.FromReader(bytes.NewReader(data), &r); err != nil {
			t.Fatal(err)
		}
		checkMesh(t, &r)
		again, err := pup.Marshal(&m, opts...)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("packed again: other bytes (%v)", err)
		}
	}
}

func checkMesh(t *testing.T, m *mesh) {
	t.Helper()
	if m.First != &m.Cells[0] || m.X != &m.Cells[7].Value || m.Self != m || m.Any != any(&m.Cells[3]) {
		t.Errorf("pointers into Cells are not where they were: %v %v %v %v", m.First == &m.Cells[0], m.X == &m.Cells[7].Value, m.Self == m, m.Any == any(&m.Cells[3]))
	}
	if len(m.Cells) != 10 || len(m.Halo) != 4 || &m.Halo[0] != &m.Cells[2] || &m.Tail[0] != &m.Cells[5] || len(m.Tail) != 5 {
		t.Fatalf("slices do not share their array: %d %d %d", len(m.Cells), len(m.Halo), len(m.Tail))
	}
	if cap(m.Halo) != 8 {
		t.Errorf("capacity of a part: found %d, want 8", cap(m.Halo))
	}
	for i := range m.Cells {
		c := &m.Cells[i]
		if c.Value != float64(i) || c.Near[0] != &m.Cells[(i+1)%10] || c.Near[1] != &m.Cells[(i+9)%10] ||
			c.Along != &m.Cells[(i+5)%10].Pos[1] || m.ByID[i] != c {
			t.Errorf("cell %d is not as it was", i)
		}
	}
}

func TestGraphLongList(t *testing.T) {
	const n = 300000
	list := make([]*gnode, n)
	for i := range list {
		list[i] = &gnode{ID: i}
	}
	for i := range list {
		list[i].Next, list[i].Prev = list[(i+1)%n], list[(i+n-1)%n]
	}
	data, err := pup.Marshal(list[0], pup.Graph())
	if err != nil {
		t.Fatal(err)
	}
	var head gnode
	if err := pup.Unmarshal(data, &head); err != nil {
		t.Fatal(err)
	}
	x := &head
	for i := range n {
		if x.ID != i || x.Next.Prev != x {
			t.Fatalf("node %d: found %d", i, x.ID)
		}
		x = x.Next
	}
	if x != &head {
		t.Error("the ring is not closed")
	}
}

func TestCycleInATree(t *testing.T) {
	a := &gnode{ID: 1}
	a.Next = a
	_, err := pup.Marshal(a)
	if !errors.Is(err, pup.ErrDepth) || !strings.Contains(err.Error(), "Graph") {
		t.Errorf("found %v", err)
	}
}

func TestGraphRefusesByName(t *testing.T) {
	k := &struct{ M map[*gnode]int }{map[*gnode]int{{ID: 1}: 1, {ID: 2}: 2}}
	_, err := pup.Marshal(k, pup.Graph())
	if !errors.Is(err, pup.ErrType) || !strings.Contains(err.Error(), "visit what they point to before the map") {
		t.Errorf("found %v", err)
	}
	kk := &struct {
		L []*gnode
		M map[*gnode]int
	}{L: []*gnode{{ID: 1}, {ID: 2}}}
	kk.M = map[*gnode]int{kk.L[0]: 1, kk.L[1]: 2}
	data, err := pup.Marshal(kk, pup.Graph())
	if err != nil {
		t.Fatal(err)
	}
	got := kk
	got.M, got.L = nil, nil
	if err := pup.Unmarshal(data, got); err != nil || got.M[got.L[1]] != 2 {
		t.Errorf("found %v, %v", got.M, err)
	}
}

// TestGraphCapacity shows what is kept of slices beside their elements: room that another slice's elements lie in, and no
// other; nothing of a slice without elements but whether it is nil.
func TestGraphCapacity(t *testing.T) {
	type slices struct {
		All, Head, Middle, None, Room, Own, Empty, Nil []int
		Sizeless                                       []struct{}
		Names                                          []string
	}
	array := make([]int, 6, 10)
	v := &slices{All: array, Head: array[:2], Middle: array[1:3:4], None: array[:0], Room: array[2:2:5], Own: make([]int, 2, 8),
		Empty: []int{}, Sizeless: make([]struct{}, 3, 9), Names: make([]string, 0, 7)}
	for name, c := range map[string]struct {
		opts []pup.Option
		caps [8]int
	}{
		"graph": {[]pup.Option{pup.Graph()}, [8]int{6, 6, 3, 0, 0, 2, 0, 0}},
		"tree":  {nil, [8]int{6, 2, 2, 0, 0, 2, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := pup.Marshal(v, c.opts...)
			if err != nil {
				t.Fatal(err)
			}
			var got slices
			if err := pup.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			list := [8][]int{got.All, got.Head, got.Middle, got.None, got.Room, got.Own, got.Empty, got.Nil}
			want := [8][]int{v.All, v.Head, v.Middle, v.None, v.Room, v.Own, v.Empty, v.Nil}
			for i, s := range list {
				if cap(s) != c.caps[i] || len(s) != len(want[i]) || (s == nil) != (want[i] == nil) {
					t.Errorf("slice %d: found %d elements of %d, nil %v, want %d of %d, nil %v", i, len(s), cap(s), s == nil, len(want[i]), c.caps[i], want[i] == nil)
				}
			}
			if len(got.Sizeless) != 3 || got.Names == nil || cap(got.Names) != 0 {
				t.Errorf("found %d of no size, %d names", len(got.Sizeless), cap(got.Names))
			}
			if _, got.All[0] = append(got.None, 99), 1; got.All[0] != 1 || &append(got.Room, 99)[0] == &got.All[2] {
				t.Error("a slice without elements shares memory")
			}
			if err := pup.Check(&slices{All: array, None: array[:0], Room: array[2:2:5], Empty: []int{}}, c.opts...); err != nil {
				t.Error(err)
			}
		})
	}
}
