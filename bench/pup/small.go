package main

import (
	"google.golang.org/protobuf/proto"

	"github.com/byssus-hpc/byssus/bench/pup/internal/pb"
	"github.com/byssus-hpc/byssus/pup"
)

// small measures one call for one short value, as a message needs it: what a call costs besides the bytes. Objects are calls.
func (b *bench) small() error {
	value := &Small{ID: 1 << 40, Name: "particle", X: 0.5, Y: -1.0 / 3, Z: 1e9}
	bare, err := bareCodec(value, equalValues)
	if err != nil {
		return err
	}
	codecs := append(smallCodecs(value), bare)
	for _, memory := range []string{"reused", "fresh"} {
		reused := memory == "reused"
		unpack, err := unpacking(reused, codecs)
		if err != nil {
			return err
		}
		size := 4*8 + len(value.Name)
		for _, c := range []comparison{
			{"Small/pack/" + memory, b.calls, b.calls * size, repeated(b.calls, packing(reused, codecs))},
			{"Small/unpack/" + memory, b.calls, b.calls * size, repeated(b.calls, unpack)},
		} {
			if err := b.compare(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// smallCodecs are the ways to store a Small. gob's encoders and decoders are made for each call: two messages need not
// have one reader.
func smallCodecs(value *Small) []codec {
	hand, bare := HandSmall(*value), BareSmall(*value)
	message := &pb.Small{Id: value.ID, Name: value.Name, X: value.X, Y: value.Y, Z: value.Z}
	return []codec{
		pupCodec("pupgen-checksums", value, equalValues),
		pupCodec("pupgen-unchecked", value, equalValues, pup.Unchecked()),
		pupCodec("method-checksums", &hand, equalValues),
		pupCodec("method-unchecked", &hand, equalValues, pup.Unchecked()),
		pupCodec("reflected-checksums", &bare, equalValues),
		pupCodec("reflected-unchecked", &bare, equalValues, pup.Unchecked()),
		gobCodec(value, equalValues),
		jsonCodec(value, equalValues),
		protoCodec("protobuf", message, &pb.Small{}, proto.MarshalOptions{}),
		msgpackCodec(value, equalValues),
		cborCodec(value, equalValues),
		msgpCodec(value, equalValues),
	}
}

func equalValues[T comparable](a, b *T) error {
	if *a != *b {
		return errDiffers
	}
	return nil
}

// repeated lets variants do their work n times in one repetition, which a clock can measure. Garbage is collected before
// each, so that what a call leaves behind costs no new pages.
func repeated(n int, list []variant) []variant {
	for i, once := range list {
		v := &list[i]
		v.fresh = true
		v.run = func() error {
			for range n {
				if err := once.run(); err != nil {
					return err
				}
			}
			return nil
		}
		v.check = func() (int, error) {
			size, err := once.check()
			return n * size, err
		}
	}
	return list
}
