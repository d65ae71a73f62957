package main

import (
	"encoding/gob"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"
	"google.golang.org/protobuf/proto"

	"github.com/byssus-hpc/byssus/bench/pup/internal/pb"
	"github.com/byssus-hpc/byssus/pup"
)

// newDrawing makes n shapes, the four kinds by turns.
func newDrawing(n int) *Drawing {
	d := &Drawing{make([]Shape, n)}
	for i := range d.Shapes {
		at := Point{float64(i), float64(i) / 3}
		switch i % 4 {
		case 0:
			d.Shapes[i] = Circle{at, 0.25}
		case 1:
			d.Shapes[i] = Box{at, Point{at.X + 2, at.Y + 1}}
		case 2:
			d.Shapes[i] = &Polygon{true, []Point{at, {at.X + 1, at.Y}, {at.X, at.Y + 1}}}
		case 3:
			d.Shapes[i] = &Label{at, fmt.Sprintf("label %d", i)}
		}
	}
	return d
}

// drawingSize is how many bytes the numbers and texts have.
func drawingSize(d *Drawing) int {
	size := 0
	for _, s := range d.Shapes {
		switch s := s.(type) {
		case Circle:
			size += 24
		case Box:
			size += 32
		case *Polygon:
			size += 1 + 16*len(s.Corners)
		case *Label:
			size += 16 + len(s.Text)
		}
	}
	return size
}

// drawing measures a model that is made of interfaces. gob and cbor find the types of the values that these hold by a name or
// a number, protobuf has a message of its own; json, msgpack and msgp go through Tagged.
func (b *bench) drawing() error {
	for _, kind := range []Shape{Circle{}, Box{}, &Polygon{}, &Label{}} {
		gob.Register(kind)
	}
	encMode, decMode, err := cborShapes()
	if err != nil {
		return fmt.Errorf("bench: shapes: cbor: %w", err)
	}
	value := newDrawing(b.shapes)
	equal := func(a, b *Drawing) error {
		if !reflect.DeepEqual(a, b) {
			return errDiffers
		}
		return nil
	}
	return b.sideBySide("Shapes", b.shapes, drawingSize(value), []codec{
		pupCodec("pup-checksums", value, equal),
		pupCodec("pup-unchecked", value, equal, pup.Unchecked()),
		gobCodec(value, equal),
		newCodec("json", value, equal, throughTags(packJSON[TaggedList]), fromTags(unpackJSON[TaggedList])),
		protoCodec("protobuf", drawingMessage(value), &pb.Drawing{}, proto.MarshalOptions{}),
		newCodec("msgpack", value, equal, throughTags(packMsgpack[TaggedList]), fromTags(unpackMsgpack[TaggedList])),
		newCodec("cbor", value, equal, packCBORBy[Drawing](encMode), thenValues(unpackCBORBy[Drawing](decMode))),
		newCodec("msgp", value, equal, throughTags(packMsgp[TaggedList]), fromTags(unpackMsgp[TaggedList])),
	})
}

// throughTags lets a packing that knows no interfaces pack a Drawing. The conversion is a part of the work.
func throughTags(pack func([]byte, *TaggedList) ([]byte, error)) func([]byte, *Drawing) ([]byte, error) {
	return func(b []byte, d *Drawing) ([]byte, error) {
		list := make(TaggedList, len(d.Shapes))
		for i, s := range d.Shapes {
			switch s := s.(type) {
			case Circle:
				list[i].Circle = &s
			case Box:
				list[i].Box = &s
			case *Polygon:
				list[i].Polygon = s
			case *Label:
				list[i].Label = s
			default:
				return b, fmt.Errorf("a shape of type %T", s)
			}
		}
		return pack(b, &list)
	}
}

// fromTags is the way back.
func fromTags(unpack func([]byte, *TaggedList, bool) error) func([]byte, *Drawing, bool) error {
	return func(data []byte, d *Drawing, _ bool) error {
		var list TaggedList
		if err := unpack(data, &list, false); err != nil {
			return err
		}
		d.Shapes = make([]Shape, len(list))
		for i, t := range list {
			switch {
			case t.Circle != nil:
				d.Shapes[i] = *t.Circle
			case t.Box != nil:
				d.Shapes[i] = *t.Box
			case t.Polygon != nil:
				d.Shapes[i] = t.Polygon
			case t.Label != nil:
				d.Shapes[i] = t.Label
			default:
				return fmt.Errorf("shape %d is of no kind", i)
			}
		}
		return nil
	}
}

// cborShapes gives each kind of shape a number beyond those that cbor knows: it then unpacks it into an interface.
func cborShapes() (cbor.UserBufferEncMode, cbor.DecMode, error) {
	tags := cbor.NewTagSet()
	need := cbor.TagOptions{EncTag: cbor.EncTagRequired, DecTag: cbor.DecTagRequired}
	for i, kind := range []any{Circle{}, Box{}, Polygon{}, Label{}} {
		if err := tags.Add(need, reflect.TypeOf(kind), 70_001+uint64(i)); err != nil {
			return nil, nil, err
		}
	}
	encMode, err := cbor.EncOptions{}.UserBufferEncModeWithTags(tags)
	if err != nil {
		return nil, nil, err
	}
	decMode, err := cbor.DecOptions{}.DecModeWithTags(tags)
	return encMode, decMode, err
}

// thenValues lets an unpacking with cbor, which puts a pointer into every interface, bring back the kinds that are held by
// value.
func thenValues(unpack func([]byte, *Drawing, bool) error) func([]byte, *Drawing, bool) error {
	return func(data []byte, d *Drawing, filled bool) error {
		err := unpack(data, d, filled)
		for i, s := range d.Shapes {
			switch s := s.(type) {
			case *Circle:
				d.Shapes[i] = *s
			case *Box:
				d.Shapes[i] = *s
			}
		}
		return err
	}
}

// drawingMessage is a Drawing as protobuf holds it.
func drawingMessage(d *Drawing) *pb.Drawing {
	m := &pb.Drawing{}
	point := func(p Point) *pb.Point { return &pb.Point{X: p.X, Y: p.Y} }
	for _, s := range d.Shapes {
		x := &pb.Shape{}
		switch s := s.(type) {
		case Circle:
			x.Kind = &pb.Shape_Circle{Circle: &pb.Circle{Center: point(s.Center), R: s.R}}
		case Box:
			x.Kind = &pb.Shape_Box{Box: &pb.Box{Low: point(s.Low), High: point(s.High)}}
		case *Polygon:
			polygon := &pb.Polygon{Closed: s.Closed}
			for _, c := range s.Corners {
				polygon.Corners = append(polygon.Corners, point(c))
			}
			x.Kind = &pb.Shape_Polygon{Polygon: polygon}
		case *Label:
			x.Kind = &pb.Shape_Label{Label: &pb.Label{At: point(s.At), Text: s.Text}}
		}
		m.Shapes = append(m.Shapes, x)
	}
	return m
}
