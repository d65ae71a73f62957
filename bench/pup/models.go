package main

import "github.com/byssus-hpc/byssus/pup"

//go:generate go run github.com/byssus-hpc/byssus/cmd/pupgen
//go:generate go tool msgp -io=false -tests=false -o msgp_gen.go

// msgp takes all other types of this file.
//
//msgp:ignore regex:^(Hand|Bare) Node Shape Drawing
//msgp:maps binkeys

// Particle takes 72 bytes and is copied as memory.
//
//pup:generate
type Particle struct {
	Pos, Vel     [3]float64
	Mass, Charge float64
	ID           int64
}

// Particles are what msgp asks for: a type with a name, which its methods belong to.
type Particles []Particle

// Record is a particle with a string and a slice.
//
//pup:generate
type Record struct {
	Particle Particle
	Name     string
	Samples  []float64
}

// Cloud has code from pupgen.
//
//pup:generate
type Cloud struct{ List []Record }

// HandRecord is a Record with a method by hand.
type HandRecord struct {
	Particle Particle
	Name     string
	Samples  []float64
}

// PUP visits all fields.
func (r *HandRecord) PUP(p *pup.Stream) {
	pup.Plain(p, &r.Particle)
	pup.String(p, &r.Name)
	pup.PlainSlice(p, &r.Samples)
}

// HandCloud is a Cloud with a method by hand.
type HandCloud struct{ List []HandRecord }

// PUP visits all fields.
func (c *HandCloud) PUP(p *pup.Stream) { pup.Slice(p, &c.List, pup.Object) }

// BareRecord is a Record without any method.
type BareRecord struct {
	Particle BareParticle
	Name     string
	Samples  []float64
}

// BareParticle is a Particle without any method.
type BareParticle struct {
	Pos, Vel     [3]float64
	Mass, Charge float64
	ID           int64
}

// BareCloud is a Cloud without any method: it is walked by reflection.
type BareCloud struct{ List []BareRecord }

// Small takes some 40 bytes, as a message does.
//
//pup:generate
type Small struct {
	ID      int64
	Name    string
	X, Y, Z float64
}

// HandSmall is a Small with a method by hand.
type HandSmall struct {
	ID      int64
	Name    string
	X, Y, Z float64
}

// PUP visits all fields.
func (s *HandSmall) PUP(p *pup.Stream) {
	pup.Number(p, &s.ID)
	pup.String(p, &s.Name)
	pup.Number(p, &s.X)
	pup.Number(p, &s.Y)
	pup.Number(p, &s.Z)
}

// BareSmall is a Small without any method.
type BareSmall struct {
	ID      int64
	Name    string
	X, Y, Z float64
}

// Node is one of a tree that also points up.
//
//pup:generate
type Node struct {
	Key                 int64
	Left, Right, Parent *Node
}

// Branch is a Node whose pointer to its parent is not stored, but set again afterwards. It is what others than a graph
// can store.
//
//pup:generate
type Branch struct {
	Key         int64
	Left, Right *Branch
	parent      *Branch //pup:skip set again when the tree is there
}

// Catalog is made of maps.
//
//pup:generate
type Catalog struct {
	Cells  map[string]map[int64]float64
	Bodies map[string]Body
}

// Body is what one of a catalog's maps holds.
//
//pup:generate
type Body struct {
	Mass float64
	Pos  [3]float64
	Kind int32
}

// Shape is what a drawing holds: one of four kinds, two as values, two as pointers.
type Shape interface{ Area() float64 }

// Drawing is made of interfaces.
//
//pup:generate
type Drawing struct{ Shapes []Shape }

// Point is a place in a drawing.
//
//pup:generate
type Point struct{ X, Y float64 }

// Circle is plain and held by value.
//
//pup:generate
type Circle struct {
	Center Point
	R      float64
}

// Box is plain and held by value.
//
//pup:generate
type Box struct{ Low, High Point }

// Polygon has a slice and is held by a pointer.
//
//pup:generate
type Polygon struct {
	Closed  bool
	Corners []Point
}

// Label has a string and is held by a pointer.
//
//pup:generate
type Label struct {
	At   Point
	Text string
}

// Tagged is a shape for what cannot unpack an interface: which field is there says which kind it is.
type Tagged struct {
	Circle  *Circle  `json:"circle,omitempty" msgpack:"circle,omitempty" msg:"circle,omitempty"`
	Box     *Box     `json:"box,omitempty" msgpack:"box,omitempty" msg:"box,omitempty"`
	Polygon *Polygon `json:"polygon,omitempty" msgpack:"polygon,omitempty" msg:"polygon,omitempty"`
	Label   *Label   `json:"label,omitempty" msgpack:"label,omitempty" msg:"label,omitempty"`
}

// TaggedList stands for a Drawing.
type TaggedList []Tagged

// The names under which package pup knows the kinds of shapes.
var (
	_ = pup.Register[Circle]("bench.Circle")
	_ = pup.Register[Box]("bench.Box")
	_ = pup.Register[Polygon]("bench.Polygon")
	_ = pup.Register[Label]("bench.Label")
)

// Area makes Circle a Shape.
func (c Circle) Area() float64 { return 3.141592653589793 * c.R * c.R }

// Area makes Box a Shape.
func (b Box) Area() float64 { return (b.High.X - b.Low.X) * (b.High.Y - b.Low.Y) }

// Area makes *Polygon a Shape.
func (g *Polygon) Area() float64 {
	sum := 0.0
	for i, c := range g.Corners {
		n := g.Corners[(i+1)%len(g.Corners)]
		sum += c.X*n.Y - n.X*c.Y
	}
	return sum / 2
}

// Area makes *Label a Shape.
func (*Label) Area() float64 { return 0 }
