package main

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/byssus-hpc/byssus/pup"
)

// A codec turns one value into bytes and back.
type codec struct {
	name   string
	pack   func(b []byte) ([]byte, error)       // the value, behind b
	unpack func(data []byte, filled bool) error // into the result, which is empty or filled from before
	check  func() error                         // whether the result is the value
	drop   func()                               // empties the result
}

// newCodec makes a codec of functions for the values of a type.
func newCodec[T any](name string, value *T, equal func(a, b *T) error,
	pack func(b []byte, v *T) ([]byte, error), unpack func(data []byte, v *T, filled bool) error) codec {
	result := new(T)
	return codec{
		name:   name,
		pack:   func(b []byte) ([]byte, error) { return pack(b, value) },
		unpack: func(data []byte, filled bool) error { return unpack(data, result, filled) },
		check:  func() error { return equal(value, result) },
		drop:   func() { *result = *new(T) },
	}
}

// pupCodec uses package pup.
func pupCodec[T any](name string, value *T, equal func(a, b *T) error, opts ...pup.Option) codec {
	return newCodec(name, value, equal, packPUP[T](opts...), unpackPUP[T])
}

// bareCodec uses a pup.Codec: no header, as between the ranks of one program.
func bareCodec[T any](value *T, equal func(a, b *T) error) (codec, error) {
	k, err := pup.CodecOf[T]()
	if err != nil {
		return codec{}, err
	}
	return newCodec("pupgen-codec", value, equal, k.Append, func(data []byte, v *T, _ bool) error { return k.Unmarshal(data, v) }), nil
}

func packPUP[T any](opts ...pup.Option) func([]byte, *T) ([]byte, error) {
	return func(b []byte, v *T) ([]byte, error) { return pup.Append(b, v, opts...) }
}

func unpackPUP[T any](data []byte, v *T, filled bool) error {
	if filled {
		return pup.Unmarshal(data, v, pup.InPlace())
	}
	return pup.Unmarshal(data, v)
}

// gobCodec uses encoding/gob: a stream of one value, with its types, as a file or a message has it.
func gobCodec[T any](value *T, equal func(a, b *T) error) codec {
	return newCodec("gob", value, equal, packGob[T], unpackGob[T])
}

func packGob[T any](b []byte, v *T) ([]byte, error) {
	w := bytes.NewBuffer(b)
	err := gob.NewEncoder(w).Encode(v)
	return w.Bytes(), err
}

func unpackGob[T any](data []byte, v *T, _ bool) error {
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}

// jsonCodec uses encoding/json.
func jsonCodec[T any](value *T, equal func(a, b *T) error) codec {
	return newCodec("json", value, equal, packJSON[T], unpackJSON[T])
}

func packJSON[T any](b []byte, v *T) ([]byte, error) {
	w := bytes.NewBuffer(b)
	err := json.NewEncoder(w).Encode(v)
	return w.Bytes(), err
}

func unpackJSON[T any](data []byte, v *T, _ bool) error { return json.Unmarshal(data, v) }

// protoCodec uses protobuf. The value is protobuf's own structure: nothing is converted in the time that is measured,
// which is in its favour where the program has types of its own.
func protoCodec(name string, value, result proto.Message, opts proto.MarshalOptions) codec {
	return codec{
		name:   name,
		pack:   func(b []byte) ([]byte, error) { return opts.MarshalAppend(b, value) },
		unpack: func(data []byte, _ bool) error { return proto.Unmarshal(data, result) },
		check: func() error {
			if !proto.Equal(value, result) {
				return errDiffers
			}
			return nil
		},
		drop: func() { proto.Reset(result) },
	}
}

var errDiffers = errors.New("what was unpacked differs from what was packed")

// packing makes variants of how codecs pack: into a buffer that is used again and again, or into fresh memory.
func packing(reused bool, list []codec) []variant {
	var variants []variant
	for _, c := range list {
		var b []byte
		v := variant{
			name: c.name,
			run: func() (err error) {
				if !reused {
					b = nil
				}
				b, err = c.pack(b[:0])
				return err
			},
			check: func() (int, error) {
				defer c.drop()
				if err := c.unpack(b, false); err != nil {
					return 0, err
				}
				return len(b), c.check()
			},
			drop: func() {},
		}
		if !reused {
			v.fresh, v.drop = true, func() { b = nil }
		}
		variants = append(variants, v)
	}
	return variants
}

// unpacking makes variants of how codecs unpack: into a value that is filled again and again, or into fresh memory.
func unpacking(reused bool, list []codec) ([]variant, error) {
	var variants []variant
	for _, c := range list {
		data, err := c.pack(nil)
		if err != nil {
			return nil, fmt.Errorf("bench: %s: %w", c.name, err)
		}
		filled := false
		v := variant{
			name: c.name,
			run: func() error {
				if !reused {
					c.drop()
				}
				err := c.unpack(data, filled)
				filled = reused
				return err
			},
			check: func() (int, error) { return len(data), c.check() },
			drop:  func() {},
		}
		if !reused {
			v.fresh, v.drop = true, c.drop
		}
		variants = append(variants, v)
	}
	return variants, nil
}

// both compares how codecs pack and unpack a value of objects objects and size bytes.
func (b *bench) both(name string, memory string, objects, size int, list []codec) error {
	reused := memory == "reused"
	c := comparison{name + "/pack/" + memory, objects, size, packing(reused, list)}
	if err := b.compare(c); err != nil {
		return err
	}
	variants, err := unpacking(reused, list)
	if err != nil {
		return err
	}
	return b.compare(comparison{name + "/unpack/" + memory, objects, size, variants})
}

// sideBySide compares ways to pack into a buffer that is used again, and to unpack into fresh memory.
func (b *bench) sideBySide(name string, objects, size int, list []codec) error {
	if err := b.compare(comparison{name + "/pack/reused", objects, size, packing(true, list)}); err != nil {
		return err
	}
	variants, err := unpacking(false, list)
	if err != nil {
		return err
	}
	return b.compare(comparison{name + "/unpack/fresh", objects, size, variants})
}
