// Package gentest holds types of many kinds with the PUP methods that pupgen wrote for them. Its test guarantees that
// the methods are current and that every value comes back as it was saved.
package gentest

import (
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/byssus-hpc/byssus/pup"
	"github.com/byssus-hpc/byssus/pup/internal/gentest/other"
)

//go:generate go run github.com/byssus-hpc/byssus/cmd/pupgen

// Vec3 is plain as a whole.
//
//pup:generate
type Vec3 struct{ X, Y, Z float64 }

// Particle is a mixture of blocks and single fields.
//
//pup:generate
type Particle struct {
	ID       uint64
	Pos, Vel Vec3
	Mass     float64
	Name     string
	Samples  []float64
	Children []Particle
	cache    map[string]int //pup:skip made again on demand
}

// Tail ends in a field of no size, behind which there is padding.
//
//pup:generate
type Tail struct {
	A uint64
	Z struct{}
}

// Tails has such padding in arrays, in a slice, and between its fields.
//
//pup:generate
type Tails struct {
	Pair [2]Tail
	One  Tail
	Last uint8
	Many []Tail
	None [0]uint64
}

// Padded has padding inside, so its fields lie in two blocks.
//
//pup:generate
type Padded struct {
	A, B  uint8
	C     uint16
	Flag  bool
	N     int
	Small [3]int16
	Last  uint16
}

// PaddedOnce is plain with padding before a single field.
//
//pup:generate
type PaddedOnce struct {
	Flag bool
	N    int64
}

// Numbers has a field of every kind of number.
//
//pup:generate
type Numbers struct {
	I    int
	I8   int8
	Text string
	I16  int16
	I32  int32
	I64  int64
	U    uint
	U8   byte
	B    bool
	U16  uint16
	U32  uint32
	U64  uint64
	F32  float32
	Rune rune
	F64  float64
	C64  complex64
	C128 complex128
	Wait time.Duration
}

// Measure is packed at once while it is short.
//
//pup:generate
type Measure struct {
	Place  Vec3
	Label  Label
	Temps  []Celsius
	ID     uint16
	Phases [2]complex64
	Counts Mask
	Notes  string
	cache  *int //pup:skip made again
	Raw    []byte
	Pos    []Vec3
	Rank   int
}

// Celsius, Label and Switch are named basic types without methods.
type (
	Celsius float32
	Label   string
	Switch  bool
)

// Named holds them alone and in containers.
//
//pup:generate
type Named struct {
	Temp   Celsius
	Label  Label
	On     Switch
	Temps  []Celsius
	Labels []Label
	ByName map[Label]Celsius
	Fixed  [2]Label
	State  *Switch
}

// Containers nests slices, maps, arrays and pointers.
//
//pup:generate
type Containers struct {
	Rows     [][]float64
	Deep     [][][]string
	Sets     map[string]map[int32][]Label
	Cells    map[Vec3]*Particle
	Dims     [3]int
	Names    [2][2]string
	Ragged   [2][]int
	Pointer  **int
	Optional *[]byte
	Table    *map[string]string
	Points   []other.Point
	Bytes    []byte
	Bools    []bool
	Vecs     []Vec3
	Mixed    []Padded
	Flags    []PaddedOnce
}

// Node is a tree.
//
//pup:generate
type Node struct {
	Value       int
	Left, Right *Node
	Kids        []*Node
	Index       map[string]*Node
}

// Shape is implemented by Circle and Square.
type Shape interface{ Area() float64 }

// Circle is a Shape.
//
//pup:generate
type Circle struct{ Radius float64 }

// Area implements Shape.
func (c Circle) Area() float64 { return 3 * c.Radius * c.Radius }

// Square is a Shape behind a pointer.
//
//pup:generate
type Square struct {
	Side float64
	Note string
}

// Area implements Shape.
func (s *Square) Area() float64 { return s.Side * s.Side }

// Drawing holds interfaces.
//
//pup:generate
type Drawing struct {
	Main   Shape
	Others []Shape
	ByName map[string]Shape
	Extra  any
}

var (
	_ = pup.Register[Circle]("gentest.Circle")
	_ = pup.Register[Square]("gentest.Square")
)

// Base is embedded in others.
//
//pup:generate
type Base struct {
	Serial int
	Title  string
}

// Derived embeds a type with PUP, a plain type and a pointer; its own PUP is not the promoted one.
//
//pup:generate
type Derived struct {
	Base
	Vec3
	*Node
	other.Config
	Extra string
}

// Special has the types that package pup knows.
//
//pup:generate
type Special struct {
	At      time.Time
	History []time.Time
	Big     big.Int
	Pointer *big.Int
	Ratio   *big.Rat
	Float   *big.Float
	Addr    netip.Addr
	Port    netip.AddrPort
	Routes  map[netip.Prefix]netip.Addr
	URL     url.URL
	Link    *url.URL
}

// Foreign has types of another package.
//
//pup:generate
type Foreign struct {
	Point   other.Point
	Padded  other.Padded
	Config  other.Config
	Configs map[string]other.Config
	Own     other.Own
	Owns    []other.Own
	Stamp   other.Stamp
	Stamps  []other.Stamp
	List    other.List
	Header  http.Header
	IP      net.IP
	Locals  locals
}

// locals is declared from a type whose parts only the other package can name.
type locals other.List

// Lists is too, and generated.
//
//pup:generate
type Lists locals

// Copy is declared from a structure of another package.
//
//pup:generate
type Copy other.Config

// Inner has no PUP.
type Inner struct {
	Name string
	Vec  Vec3
}

// Reflected has types that are left to reflection.
//
//pup:generate
type Reflected struct {
	Inner  Inner
	Inners []Inner
	Nobody struct {
		A int
		B []string
	}
	Plain struct{ A, B int32 }
}

// Skipping leaves fields out in every way.
//
//pup:generate
type Skipping struct {
	// The lock is free whenever the value is saved.
	//pup:skip free when saved
	mu sync.Mutex
	A  int
	B  int
	// C is between two blocks.
	C  func()   `pup:"-,set by the caller"`
	D  int      `json:"d"`
	ch chan int //pup:skip "opened" on demand
	E  int
}

// Blank has fields without name.
//
//pup:generate
type Blank struct {
	_ [0]int
	A int32
	B int32
	_ [8]byte
	C int64
	D int64
	_ int64
}

// Empty has no fields.
//
//pup:generate
type Empty struct{}

// Nothing has a field without size.
//
//pup:generate
type Nothing struct {
	Done  struct{}
	Names []struct{}
}

// Grid, Table, Matrix, Title, ID and Mask are named types that are no structures.
//
//pup:generate
type (
	Grid   [][]Particle
	Table  map[Title]ID
	Matrix [4][4]float64
	Title  string
	ID     uint32
	Mask   []uint64
	Pair   [2]Base
)

// Holder has fields of them.
//
//pup:generate
type Holder struct {
	Grid   Grid
	Table  Table
	Matrix Matrix
	Title  Title
	ID     ID
	Mask   Mask
	Pair   Pair
	Tables []Table
	IDs    map[ID]Mask
}

// PointerTo is a named pointer type; it can have no methods.
type PointerTo *Base

// Alias is another name of Base.
type Alias = Base

// Aliased uses both.
//
//pup:generate
type Aliased struct {
	One    Alias
	Many   []Alias
	To     PointerTo
	ToMany []PointerTo
}

// When is declared from a type whose fields are hidden.
//
//pup:generate
type When time.Time

// Hits is declared from a plain type whose fields are hidden.
//
//pup:generate
type Hits atomic.Int64

// Counted has fields of such types.
//
//pup:generate
type Counted struct {
	A, B  int
	Hits  Hits
	Total atomic.Uint64
	Last  When
}

// Later is declared from a structure of this package.
//
//pup:generate
type Later Base

// manual has a PUP that a person wrote.
type manual struct{ secret, twice int }

// PUP visits what is needed.
func (m *manual) PUP(p *pup.Stream) {
	pup.Number(p, &m.secret)
	if m.twice = 2 * m.secret; p.Unpacking() {
		m.twice = 2 * m.secret
	}
}

// Forest holds itself and has no PUP.
type Forest map[string][]Forest

// Woods has a type that holds itself, and is one.
//
//pup:generate
type Woods struct {
	Forest Forest
	Many   []*Forest
	Groves Groves
}

// Groves holds itself.
//
//pup:generate
type Groves []Groves

// unexported has fields that other packages cannot see.
//
//pup:generate
type unexported struct {
	manual  manual
	manuals []manual
	byKey   map[string]manual
	count   int
	text    string
}

// Number is a constraint without strings.
type Number interface {
	~int | ~int64 | ~float64
}

// Box is generic.
//
//pup:generate
type Box[T any] struct {
	Label string
	Item  T
	Items []T
	Next  *Box[T]
	ByKey map[string]T
	Deep  [][]T
}

// Series has type parameters of which more is known.
//
//pup:generate
type Series[K ~string, N Number, B ~bool] struct {
	Key    K
	Sum    N
	Valid  B
	Values []N
	Rows   [][]N
	Fixed  [2]N
	Named  map[K]N
	Count  int
	Start  int
}

// List is a generic slice.
//
//pup:generate
type List[T any] []T

// Boxes holds instances.
//
//pup:generate
type Boxes struct {
	Ints    Box[int]
	Strings []Box[string]
	Series  Series[Label, float64, bool]
	Bases   List[Base]
}
