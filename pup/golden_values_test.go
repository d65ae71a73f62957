package pup_test

import (
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/pup"
)

// The types of the golden files. All have names of their own: the files must not depend on where this package lies.
// Numbers fit into 32 bits where their type may have no more.

type goldenNumbers struct {
	Bool, False bool
	I           int
	I8          int8
	I16         int16
	I32         int32
	I64         int64
	U           uint
	U8          uint8
	U16         uint16
	U32         uint32
	U64         uint64
	Uptr        uintptr
	F32         float32
	F64         float64
	NaN         float64
	C64         complex64
	C128        complex128
	Named       time.Duration
}

type goldenStrings struct {
	Empty, Short, NotUTF8, Long string
	Named                       goldenName
}

type goldenName string

type goldenPoint struct {
	X int16 // 6 bytes of padding follow in memory, on some machines 2
	Y float64
	Z uint8
}

type goldenSlices struct {
	Nil, Empty, Bytes []byte
	Bools             []bool
	Ints              []int
	Floats            []float64
	Points            []goldenPoint
	Strings           []string
	Deep              [][]int32
	Nothing           []struct{}
	Named             goldenList
}

type goldenList []goldenList

type goldenArrays struct {
	Plain  [3]uint16
	Bools  [2][2]bool
	Texts  [2]string
	Slices [2][]byte
	Empty  [0]string
}

type goldenMaps struct {
	Nil, Empty map[string]int
	Texts      map[string]int
	Ints       map[int32]string
	Shorts     map[int16]bool
	Floats     map[float64]uint8
	Bools      map[bool]uint8
	Points     map[goldenPoint]string
	Deep       map[goldenName]map[uint][]string
	Any        map[any]uint8
}

type goldenPointers struct {
	Nil, Number *int32
	Twice       **int32
	Text        *string
	Next        *goldenPointers
	Slice       *[]int8
	Nothing     *struct{}
}

type goldenStructs struct {
	goldenPoint
	Inner   struct{ A, B int32 }
	Unnamed struct {
		S string
		P goldenPoint
	}
	_       int64
	skipped chan int `pup:"-,not part of the value"`
	hidden  uint8
}

type goldenTimes struct {
	Zero, UTC, Local, Fixed time.Time
	Times                   []time.Time
}

type goldenBig struct {
	Zero, Plus, Minus big.Int
	Pointer           *big.Int
	Ratio             big.Rat
	Float             big.Float
}

type goldenAddrs struct {
	None, Four, Six netip.Addr
	Port            netip.AddrPort
	Net             netip.Prefix
	Link            url.URL
}

type goldenBox[T any] struct {
	Value T
	Rest  []goldenBox[T]
}

type goldenShape interface{ Area() float64 }

type goldenSquare struct{ Side float64 }

func (s goldenSquare) Area() float64 { return s.Side * s.Side }

type goldenInterfaces struct {
	Nil, Value, Pointer, Again goldenShape
	All                        []any
}

// goldenHand has code of its own, in version 2 of it.
type goldenHand struct {
	ID      uint32
	Offsets []int // stored as small distances
	Link    url.URL
	Label   string
	cache   []int
}

func (h *goldenHand) PUP(p *pup.Stream) {
	pup.Number(p, &h.ID)
	n := len(h.Offsets)
	if pup.Length(p, &n); p.Unpacking() {
		h.Offsets = make([]int, n)
	}
	last := 0
	for i := range h.Offsets {
		step := uint8(h.Offsets[i] - last)
		pup.Number(p, &step)
		h.Offsets[i] = last + int(step)
		last = h.Offsets[i]
	}
	pup.Binary(p, &h.Link)
	if pup.Version[goldenHand](p) >= 2 {
		pup.String(p, &h.Label)
	}
	pup.Skip(p, &h.cache, "made again on demand")
}

type goldenCell struct {
	Value float64
	Near  []*goldenCell
	Pos   [2]float64
}

type goldenGraph struct {
	Self   *goldenGraph
	First  *goldenCell // points into Cells, which comes later
	Cells  []goldenCell
	Halo   []goldenCell // a part of Cells
	Whole  []goldenCell
	Number *float64
	Byte   *uint8
	Same   *uint8
	Bytes  []byte
	Table  map[string]*goldenCell
	Again  map[string]*goldenCell
	Ring   *goldenRing
	Any    any
	Keys   map[*goldenCell]uint8
}

type goldenRing struct{ Next *goldenRing }

type goldenSmall struct {
	N int32
	S string
	L []uint16
	M map[string]bool
	P *goldenPoint
	I any
}

var (
	_ = pup.Register[goldenNumbers]("golden.Numbers")
	_ = pup.Register[goldenStrings]("golden.Strings")
	_ = pup.Register[goldenPoint]("golden.Point")
	_ = pup.Register[goldenSlices]("golden.Slices")
	_ = pup.Register[goldenList]("golden.List")
	_ = pup.Register[goldenArrays]("golden.Arrays")
	_ = pup.Register[goldenMaps]("golden.Maps")
	_ = pup.Register[goldenPointers]("golden.Pointers")
	_ = pup.Register[goldenStructs]("golden.Structs")
	_ = pup.Register[goldenTimes]("golden.Times")
	_ = pup.Register[goldenBig]("golden.Big")
	_ = pup.Register[goldenAddrs]("golden.Addrs")
	_ = pup.Register[goldenBox[string]]("golden.Box[string]")
	_ = pup.Register[goldenBox[goldenBox[int]]]("golden.Box[golden.Box[int]]")
	_ = pup.Register[goldenBox[int]]("golden.Box[int]")
	_ = pup.Register[goldenSquare]("golden.Square")
	_ = pup.Register[goldenInterfaces]("golden.Interfaces")
	_ = pup.Register[goldenHand]("golden.Hand", pup.SchemaVersion(2))
	_ = pup.Register[goldenCell]("golden.Cell")
	_ = pup.Register[goldenGraph]("golden.Graph")
	_ = pup.Register[goldenRing]("golden.Ring")
	_ = pup.Register[goldenSmall]("golden.Small")
)

func newGoldenNumbers() *goldenNumbers {
	return &goldenNumbers{true, false, -1, -8, -16, -32, math.MinInt64, 1, 8, 16, 32, math.MaxUint64, 99, 1.5,
		math.Inf(-1), math.Float64frombits(0x7ff8_0000_0000_0123), complex(1, -2), complex(3, -4), time.Second}
}

func newGoldenSlices() *goldenSlices {
	return &goldenSlices{nil, []byte{}, []byte("bytes"), []bool{true, false}, []int{-1, 1 << 30},
		[]float64{0.5, math.Copysign(0, -1)}, []goldenPoint{{1, 2, 3}, {-1, -2, 255}}, []string{"", "a"},
		[][]int32{nil, {}, {1, 2}}, make([]struct{}, 5), goldenList{nil, {}, {nil}}}
}

func newGoldenMaps() *goldenMaps {
	return &goldenMaps{nil, map[string]int{}, map[string]int{"b": 2, "a": 1, "": 0},
		map[int32]string{256: "c", 1: "b", -1: "a"}, map[int16]bool{256: true, 1: false, -1: true},
		map[float64]uint8{2: 1, -2: 2, 0.5: 3}, map[bool]uint8{true: 1, false: 0},
		map[goldenPoint]string{{1, 2, 3}: "x", {1, 1, 1}: "y"},
		map[goldenName]map[uint][]string{"n": {7: {"s"}, 8: nil}, "m": nil},
		map[any]uint8{"text": 1, int8(3): 2, nil: 3, true: 4}}
}

func newGoldenPointers() *goldenPointers {
	n, m, text, slice := int32(5), int32(6), "text", []int8{1, -1}
	pm := &m
	return &goldenPointers{nil, &n, &pm, &text, &goldenPointers{}, &slice, &struct{}{}}
}

func newGoldenStructs() *goldenStructs {
	s := &goldenStructs{goldenPoint: goldenPoint{1, 2, 3}, skipped: nil, hidden: 4}
	s.Inner.B, s.Unnamed.S, s.Unnamed.P = 5, "in", goldenPoint{Z: 6}
	return s
}

func newGoldenBig() *goldenBig {
	b := &goldenBig{Pointer: big.NewInt(258)}
	b.Plus.Exp(big.NewInt(3), big.NewInt(100), nil)
	b.Minus.SetInt64(-255)
	b.Ratio.SetFrac64(-22, 7)
	b.Float.SetPrec(128).Quo(big.NewFloat(1), big.NewFloat(3))
	return b
}

func newGoldenAddrs() *goldenAddrs {
	return &goldenAddrs{Four: netip.MustParseAddr("10.0.0.1"), Six: netip.MustParseAddr("fe80::1%eth0"),
		Port: netip.MustParseAddrPort("10.0.0.1:80"), Net: netip.MustParsePrefix("10.0.0.0/8"),
		Link: url.URL{Scheme: "https", Host: "example.org"}}
}

func newGoldenInterfaces() *goldenInterfaces {
	square := &goldenSquare{3}
	return &goldenInterfaces{nil, goldenSquare{2}, square, goldenSquare{4}, []any{nil, true, "text", int(1), int8(2),
		uint16(3), float32(4), complex64(5), []byte("b"), []string{"s"}, []int{6}, []float64{7}, []any{nil},
		map[string]any{"k": 8.5}, map[string]string{"a": "b"}, time.Second, time.Unix(1, 2).UTC(), *big.NewInt(9),
		(*goldenSquare)(nil), goldenSquare{5}, netip.MustParseAddr("::1")}}
}

func newGoldenGraph() *goldenGraph {
	g := &goldenGraph{Cells: make([]goldenCell, 4), Bytes: []byte("shared"), Ring: &goldenRing{&goldenRing{}}}
	for i := range g.Cells {
		c := &g.Cells[i]
		c.Value, c.Pos, c.Near = float64(i), [2]float64{float64(i), 1}, []*goldenCell{&g.Cells[(i+1)%4], nil}
	}
	g.Self, g.First, g.Halo, g.Whole = g, &g.Cells[2], g.Cells[2:3:3], g.Cells
	g.Number, g.Byte, g.Any = &g.Cells[1].Pos[1], new(uint8), &g.Cells[3]
	g.Same = g.Byte
	g.Table = map[string]*goldenCell{"one": &g.Cells[1], "none": nil, "alone": {Value: 9}}
	g.Again, g.Ring.Next.Next = g.Table, g.Ring
	g.Keys = map[*goldenCell]uint8{&g.Cells[0]: 1}
	return g
}

// newGoldenChunks has a body of more than two chunks.
func newGoldenChunks() *goldenBox[string] {
	return &goldenBox[string]{strings.Repeat("0123456789abcdef", 8200), []goldenBox[string]{{Value: "end"}}}
}

func newGoldenSmall() *goldenSmall {
	return &goldenSmall{-2, "pup", []uint16{1, 515}, map[string]bool{"yes": true, "no": false},
		&goldenPoint{1, 0.5, 7}, goldenSquare{1}}
}

// goldenLinks is a graph that is small enough to be drawn.
type goldenLinks struct {
	First *uint16 // an element of List, which comes later
	List  []uint16
	Part  []uint16
	A, B  *uint8 // the same
	Map   map[uint8]uint8
	Same  map[uint8]uint8
	Self  *goldenLinks
}

var _ = pup.Register[goldenLinks]("golden.Links")

func newGoldenLinks() *goldenLinks {
	n := uint8(9)
	g := &goldenLinks{List: []uint16{10, 11, 12}, A: &n, B: &n, Map: map[uint8]uint8{5: 6}}
	g.First, g.Part, g.Same, g.Self = &g.List[1], g.List[1:2], g.Map, g
	return g
}

// goldenParts has slices of arrays that lie in other objects, and an array that lies in a slice.
type goldenParts struct {
	Early []uint16 // of an array in what Of points to, which comes later
	Of    *goldenPart
	Late  []uint16
	List  []uint8
	Pair  *[2]uint8 // of List
}

type goldenPart struct{ Rows [2][3]uint16 }

var (
	_ = pup.Register[goldenParts]("golden.Parts")
	_ = pup.Register[goldenPart]("golden.Part")
)

func newGoldenParts() *goldenParts {
	g := &goldenParts{Of: &goldenPart{[2][3]uint16{{1, 2, 3}, {4, 5, 6}}}, List: []uint8{7, 8, 9}}
	g.Early, g.Late, g.Pair = g.Of.Rows[1][1:], g.Of.Rows[0][:1:2], (*[2]uint8)(g.List[1:])
	return g
}
