package main

import (
	"fmt"
	"maps"

	"github.com/fxamacker/cbor/v2"
	"google.golang.org/protobuf/proto"

	"github.com/byssus-hpc/byssus/bench/pup/internal/pb"
	"github.com/byssus-hpc/byssus/pup"
)

// perRow is how many entries each inner map of a Catalog has.
const perRow = 100

// catalog makes maps with n entries in all: nine of ten numbers in inner maps, the others structures.
func catalog(n int) *Catalog {
	bodies := n / 10
	c := &Catalog{map[string]map[int64]float64{}, map[string]Body{}}
	for i := range bodies {
		x := float64(i)
		c.Bodies[fmt.Sprintf("body-%06d", i)] = Body{x + 0.5, [3]float64{x, x / 7, -x}, int32(i % 5)}
	}
	for i := range n - bodies {
		name := fmt.Sprintf("row-%05d", i/perRow)
		if c.Cells[name] == nil {
			c.Cells[name] = map[int64]float64{}
		}
		c.Cells[name][int64(i%perRow)*int64(i%perRow)] = float64(i) / 3
	}
	return c
}

// catalogSize is how many bytes the keys and values have.
func catalogSize(c *Catalog) int {
	size := 0
	for name, row := range c.Cells {
		size += len(name) + 16*len(row)
	}
	for name := range c.Bodies {
		size += len(name) + 36
	}
	return size
}

// maps measures a model that is made of maps. Package pup and json store entries in the order of their keys, so that equal
// maps have equal bytes; protobuf and cbor do when asked (*-ordered); gob and msgp never do, and msgpack only for some maps
// whose keys are strings.
func (b *bench) maps() error {
	value := catalog(b.entries)
	equal := func(a, b *Catalog) error {
		if !maps.EqualFunc(a.Cells, b.Cells, maps.Equal) || !maps.Equal(a.Bodies, b.Bodies) {
			return errDiffers
		}
		return nil
	}
	ordered, err := cbor.EncOptions{Sort: cbor.SortBytewiseLexical}.UserBufferEncMode()
	if err != nil {
		return fmt.Errorf("bench: maps: cbor: %w", err)
	}
	message := catalogMessage(value)
	return b.sideBySide("Maps", b.entries, catalogSize(value), []codec{
		pupCodec("pup-checksums", value, equal),
		pupCodec("pup-unchecked", value, equal, pup.Unchecked()),
		gobCodec(value, equal),
		jsonCodec(value, equal),
		protoCodec("protobuf", message, &pb.Catalog{}, proto.MarshalOptions{}),
		protoCodec("protobuf-ordered", message, &pb.Catalog{}, proto.MarshalOptions{Deterministic: true}),
		msgpackCodec(value, equal),
		cborCodec(value, equal),
		newCodec("cbor-ordered", value, equal, packCBORBy[Catalog](ordered), unpackCBOR[Catalog]),
		msgpCodec(value, equal),
	})
}

// catalogMessage is a Catalog as protobuf holds it.
func catalogMessage(c *Catalog) *pb.Catalog {
	m := &pb.Catalog{Cells: map[string]*pb.Row{}, Bodies: map[string]*pb.Body{}}
	for name, row := range c.Cells {
		m.Cells[name] = &pb.Row{Cells: maps.Clone(row)}
	}
	for name, body := range c.Bodies {
		m.Bodies[name] = &pb.Body{Mass: body.Mass, Pos: append([]float64{}, body.Pos[:]...), Kind: body.Kind}
	}
	return m
}
