package main

import (
	"bytes"

	"github.com/fxamacker/cbor/v2"
	"github.com/tinylib/msgp/msgp"
	"github.com/vmihailenco/msgpack/v5"
)

// This file stores with libraries for MessagePack and CBOR, as they come: structures are maps of the fields' names, and
// nothing has a checksum. What they cannot hold:
//
//   - msgpack: pointers that share something or lead in a circle; which type an interface holds, but for types whose bytes
//     are made by hand; the order of most maps.
//   - cbor: the same pointers. It knows the type in an interface by a number, brings a pointer back whether it held a
//     value or a pointer, and can order maps.
//   - msgp: the same pointers; interfaces with methods; values of a type without a name; the order of maps; keys other than
//     strings, unless msgp:maps binkeys is said, as in models.go.

func msgpackCodec[T any](value *T, equal func(a, b *T) error) codec {
	return newCodec("msgpack", value, equal, packMsgpack[T], unpackMsgpack[T])
}

// packMsgpack does what msgpack.Marshal does, with a buffer that may be there already.
func packMsgpack[T any](b []byte, v *T) ([]byte, error) {
	w := bytes.NewBuffer(b)
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(w)
	err := enc.Encode(v)
	return w.Bytes(), err
}

func unpackMsgpack[T any](data []byte, v *T, _ bool) error { return msgpack.Unmarshal(data, v) }

func cborCodec[T any](value *T, equal func(a, b *T) error) codec {
	return newCodec("cbor", value, equal, packCBOR[T], unpackCBOR[T])
}

func packCBOR[T any](b []byte, v *T) ([]byte, error) {
	w := bytes.NewBuffer(b)
	err := cbor.MarshalToBuffer(v, w)
	return w.Bytes(), err
}

func unpackCBOR[T any](data []byte, v *T, _ bool) error { return cbor.Unmarshal(data, v) }

// packCBORBy packs in a mode, such as one with ordered maps.
func packCBORBy[T any](mode cbor.UserBufferEncMode) func([]byte, *T) ([]byte, error) {
	return func(b []byte, v *T) ([]byte, error) {
		w := bytes.NewBuffer(b)
		err := mode.MarshalToBuffer(v, w)
		return w.Bytes(), err
	}
}

func unpackCBORBy[T any](mode cbor.DecMode) func([]byte, *T, bool) error {
	return func(data []byte, v *T, _ bool) error { return mode.Unmarshal(data, v) }
}

// methods are what msgp has generated for a type.
type methods[T any] interface {
	*T
	msgp.Marshaler
	msgp.Unmarshaler
}

func msgpCodec[T any, P methods[T]](value *T, equal func(a, b *T) error) codec {
	return newCodec("msgp", value, equal, packMsgp[T, P], unpackMsgp[T, P])
}

func packMsgp[T any, P methods[T]](b []byte, v *T) ([]byte, error) { return P(v).MarshalMsg(b) }

func unpackMsgp[T any, P methods[T]](data []byte, v *T, _ bool) error {
	_, err := P(v).UnmarshalMsg(data)
	return err
}
