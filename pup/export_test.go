package pup

import "reflect"

// Wrap puts a body under the header of a value of v's type, without checksums of the body, as hostile data would be.
func Wrap(v any, graph bool, body []byte) []byte {
	schema, err := known.info(reflect.TypeOf(v).Elem()).schemaOf()
	if err != nil {
		panic(err)
	}
	return WrapSchema(schema.text, graph, body)
}

// WrapSchema is Wrap with any schema.
func WrapSchema(schema string, graph bool, body []byte) []byte {
	h := header{flags: flagUnchecked, body: uint64(len(body)), schema: []byte(schema)}
	if graph {
		h.flags |= flagGraph
	}
	return append(h.appendTo(nil), body...)
}

// Body is the body of data that Wrap or Marshal with Unchecked made.
func Body(data []byte) []byte {
	n := int(data[12]) | int(data[13])<<8 | int(data[14])<<16
	return data[headerSize+n+sumSize:]
}

// Schema is the text that stands in the data of a value of v's type.
func Schema(v any) string {
	schema, err := known.info(reflect.TypeOf(v).Elem()).schemaOf()
	if err != nil {
		panic(err)
	}
	return schema.text
}

// HasShort tells whether short code is used for T.
func HasShort[T any]() bool { return known.info(reflect.TypeFor[T]()).short != nil }

// AnyAlignment tells whether short code is used on this machine.
const AnyAlignment = anyAlignment
