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

// Assumptions are the names of all that is assumed about the runtime.
func Assumptions() []string {
	var names []string
	for f := range reflect.TypeFor[assumptions]().Fields() {
		names = append(names, f.Name)
	}
	return names
}

// Holds tells whether an assumption holds.
func Holds(name string) bool { return named(name).holds() }

// Deny lets an assumption be false until the function that it returns is called.
func Deny(name string) (allow func()) {
	a := named(name)
	was := *a
	a.holds = func() bool { return false }
	known.forget()
	return func() {
		*a = was
		known.forget()
	}
}

func named(name string) *assumption {
	return reflect.NewAt(reflect.TypeFor[*assumption](), reflect.ValueOf(&runtimeHas).Elem().FieldByName(name).Addr().UnsafePointer()).Elem().Interface().(*assumption)
}

// forget drops all that was worked out about types.
func (k *registry) forget() {
	k.begin()
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.probes)
	k.infos.Clear()
}
