package pup

import (
	"fmt"
	"reflect"
	"slices"
)

// A Codec packs values of one type for a carrier whose two ends have agreed on the type beforehand, such as the ranks of one
// program: without header, schema and checksums, which a short message would mostly consist of. Unmarshal takes such data as
// carefully as any other, but cannot know that it was another type's: compare Schema before.
//
// A Codec may be used by several goroutines at a time. Its zero value is not one: see CodecOf.
type Codec[T any] struct {
	info *typeInfo
	h    header
}

// CodecOf makes the codec of a type; the error says why its zero value cannot be packed.
func CodecOf[T any]() (*Codec[T], error) {
	c := known.call(optionsOf(nil))
	defer known.over(c)
	c.o.unchecked = true
	if err := c.prepare(new(T)); err != nil {
		return nil, err
	}
	k := &Codec[T]{c.info, c.h}
	if err := c.count(); err != nil {
		return nil, err
	}
	return k, nil
}

func errNil[T any]() error {
	return fmt.Errorf("nil %v: want a pointer to a value", reflect.TypeFor[*T]())
}

// Schema is what the ends have to agree on: it is the same for types that are packed alike.
func (k *Codec[T]) Schema() []byte { return slices.Clone(k.h.schema) }

// Append packs v behind what b holds already and returns the longer slice; b's array is used if it has room. After an
// error, b is as it was.
func (k *Codec[T]) Append(b []byte, v *T) ([]byte, error) {
	c := known.call(optionsOf(nil))
	defer known.over(c)
	if v == nil {
		return b, &Error{Op: "pack", Err: errNil[T]()}
	}
	c.target, c.h = target{k.info, reflect.ValueOf(v)}, k.h
	if cap(b)-len(b) < someRoom {
		if err := c.count(); err != nil {
			return b, err
		}
		if c.h.body > uint64(maxInt-len(b)) {
			return b, &Error{Op: "pack", Err: fmt.Errorf("%d bytes do not fit into memory", c.h.body)}
		}
		b = grow(b, int(c.h.body))
	}
	p, m := c.stream(packing), &c.memory
	m.beginBare(p, b)
	if c.traverse(p); p.err != nil {
		return b, p.err
	}
	return m.finishBare(p), nil
}

// AppendSized is Append behind what room returns when it is told how many bytes v takes: with room for so many, nothing is packed
// twice or moved. An error of room ends it.
func (k *Codec[T]) AppendSized(v *T, room func(size int) ([]byte, error)) ([]byte, error) {
	c := known.call(optionsOf(nil))
	defer known.over(c)
	if v == nil {
		return nil, &Error{Op: "pack", Err: errNil[T]()}
	}
	c.target, c.h = target{k.info, reflect.ValueOf(v)}, k.h
	if err := c.count(); err != nil {
		return nil, err
	}
	if c.h.body > uint64(maxInt) {
		return nil, &Error{Op: "pack", Err: fmt.Errorf("%d bytes do not fit into memory", c.h.body)}
	}
	b, err := room(int(c.h.body))
	if err != nil {
		return nil, err
	}
	p, m := c.stream(packing), &c.memory
	m.beginBare(p, b)
	if c.traverse(p); p.err != nil {
		return nil, p.err
	}
	return m.finishBare(p), nil
}

// Unmarshal unpacks data, which must be one value and nothing more, into v. After an error, v may be filled in part.
func (k *Codec[T]) Unmarshal(data []byte, v *T) error { return k.unmarshal(data, v, false) }

// UnmarshalOwned is Unmarshal of data that nobody else uses, now or later: slices of plain elements that are 4 KiB and longer are not
// copied out of it, but lie in it afterwards. Who keeps one of them keeps all of data.
func (k *Codec[T]) UnmarshalOwned(data []byte, v *T) error { return k.unmarshal(data, v, true) }

func (k *Codec[T]) unmarshal(data []byte, v *T, owned bool) error {
	c := known.call(optionsOf(nil))
	defer known.over(c)
	if v == nil {
		return &Error{Op: "unpack", Err: errNil[T]()}
	}
	c.h = k.h
	c.h.body = uint64(len(data))
	_, err := c.unpack(v, func(c *call) error {
		c.p.owned = owned
		return c.body.begin(&c.p, &c.h, data)
	})
	return err
}
