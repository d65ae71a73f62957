package pup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
)

// An Option changes how a value is packed or unpacked.
type Option func(*options)

type options struct {
	graph     bool
	inPlace   bool
	unchecked bool
	maxDepth  int
	maxMemory uint64
}

// Graph keeps what is shared shared: pointers, slices, maps and interfaces that lead to the same memory do so again after
// unpacking, cycles, pointers into other values and slices of their arrays included. It is needed for packing only: data says
// whether it is a graph. What lies in another value is stored by the visit to that, and so must be visited there.
//
// Of a slice's capacity that part is kept in which elements of others lie. A slice without elements shares nothing and has no
// capacity afterwards, whatever array it was a part of: only whether it is nil is kept.
//
// PUP methods must then hand pointers and slices themselves to the helpers: elements that are visited by a loop of one's own
// are not known as parts of their slice, and a pointer or a slice in a local variable may be set after PUP is done. Check finds both.
func Graph() Option { return func(o *options) { o.graph = true } }

// InPlace unpacks into the memory that the value has already: slices with room, pointers that are not nil, maps.
// Others who see that memory see the new content. Where two variables of the value share memory and the data says
// otherwise, Unmarshal makes new memory after all; from a reader that is an error.
func InPlace() Option { return func(o *options) { o.inPlace = true } }

// MaxDepth limits how deep values may be nested, by default 10,000. In a graph, pointers add at most 200 levels to what is
// nested otherwise.
func MaxDepth(levels int) Option { return func(o *options) { o.maxDepth = levels } }

// MaxMemory limits the memory that unpacking makes ahead of its content: 64 bytes for each byte of data that is left, and so
// many more, by default 16 MiB. Only slices and maps of elements that hold much and store little, such as large arrays that
// are skipped, need more; packing refuses them as well.
func MaxMemory(bytes uint64) Option { return func(o *options) { o.maxMemory = bytes } }

// Unchecked packs the body without checksums, for data whose carrier checks it, such as a message inside a process.
// Unpacking follows what the data says.
func Unchecked() Option { return func(o *options) { o.unchecked = true } }

const defaultDepth = 10000

func optionsOf(list []Option) options {
	if len(list) == 0 { // and nothing is allocated for them
		return options{maxDepth: defaultDepth, maxMemory: defaultExtra}
	}
	o := options{maxDepth: defaultDepth, maxMemory: defaultExtra}
	for _, set := range list {
		set(&o)
	}
	return o
}

// depth is how many levels a traversal may go down. In a graph it goes down deferDepth pointers before it begins anew.
func (o options) depth(graph bool) int {
	if graph {
		return o.maxDepth + deferDepth
	}
	return o.maxDepth
}

// target is the variable that a traversal starts from.
type target struct {
	info *typeInfo
	v    reflect.Value // a pointer to it
}

// source finds the variable to pack: what v points to, or a copy of v.
func source(v any) (target, error) {
	r := reflect.ValueOf(v)
	if err := runtimeHas.fault(); err != nil {
		return target{}, &Error{Op: "pack", Err: err}
	}
	switch {
	case !r.IsValid():
		return target{}, &Error{Op: "pack", Err: errors.New("nil: want a value or a pointer to one")}
	case r.Kind() == reflect.Pointer && r.IsNil():
		return target{}, &Error{Op: "pack", Err: fmt.Errorf("nil %v: want a pointer to a value", r.Type())}
	case r.Kind() != reflect.Pointer:
		c := reflect.New(r.Type())
		c.Elem().Set(r)
		r = c
	}
	return target{known.info(r.Type().Elem()), r}, nil
}

// A call is all that one call of this package needs. Its memory serves again.
type call struct {
	job
	p   Stream
	age uint32 // of the registry that p has infos of
}

// job is what a call begins anew.
type job struct {
	target
	o      options
	graph  *graph
	h      header
	memory memory
	body   bodyMemory
	root   [1]frame
}

// call returns a call.
func (k *registry) call(o options) *call {
	c, ok := k.calls.Get().(*call)
	if !ok {
		c = &call{}
	}
	if age := k.age.Load(); c.age != age {
		c.age, c.p.infos = age, [lines]cachedInfo{}
	}
	c.o = o
	return c
}

// over takes a call back. It keeps nothing of its value alive.
func (k *registry) over(c *call) {
	c.clear()
	c.job = job{}
	k.calls.Put(c)
}

// clear ends a traversal.
func (c *call) clear() {
	if c.p.dynamic.numbers != nil {
		c.p.infos = [lines]cachedInfo{}
	}
	c.p.state = state{}
}

// prepare makes ready for packing.
func (c *call) prepare(v any) (err error) {
	if c.target, err = source(v); err != nil {
		return err
	}
	if c.info.fault != nil {
		return &Error{Op: "pack", Err: c.info.fault}
	}
	schema, err := c.info.schemaOf()
	if err != nil {
		return &Error{Op: "pack", Err: err}
	}
	c.h = header{schema: schema.bytes, hash: schema.hash, own: schema}
	if len(c.h.schema) > maxSchema {
		return &Error{Op: "pack", Err: fmt.Errorf("schema of %d bytes, at most %d", len(c.h.schema), maxSchema)}
	}
	if c.o.unchecked {
		c.h.flags |= flagUnchecked
	}
	if c.o.graph {
		c.h.flags |= flagGraph
	}
	return nil
}

// count finds the size of the body, and in a graph its regions.
func (c *call) count() error {
	if c.o.graph {
		return c.discover()
	}
	p := c.stream(sizing)
	if c.traverse(p); errors.Is(p.err, ErrMemory) { // it may depend on the order of maps, which that of packing decides
		p = c.stream(sizing)
		p.inOrder = true
		c.traverse(p)
	}
	c.h.body = p.size
	return p.err
}

// stream begins a traversal, and ends the one before.
func (c *call) stream(m mode) *Stream {
	p := &c.p
	if p.frames != nil {
		c.clear()
	}
	p.mode, p.maxDepth, p.budget, p.graph, p.direct = m, c.o.depth(c.graph != nil), newBudget(c.o), c.graph, c.graph == nil
	c.root[0] = frame{t: c.info.t, val: c.v.UnsafePointer()}
	p.frames = c.root[:1]
	return p
}

func (c *call) traverse(p *Stream) {
	p.value(c.info, c.v.UnsafePointer())
	if p.graph != nil {
		p.finish()
	}
	if p.graph == nil || p.graph.sealed {
		p.balance()
	}
}

// newGraph makes a graph that knows the packed variable itself.
func (c *call) newGraph() *graph {
	g := &graph{}
	if g.rooted = c.info.t.Size() > 0; g.rooted {
		g.regions.add(c.v.UnsafePointer(), c.info, 1)
		g.root()
	}
	return g
}

// discover finds the regions of a graph and how they lie in each other. Only when some do is the size another than it
// seemed, and counted again.
func (c *call) discover() error {
	c.graph = c.newGraph()
	p := c.stream(sizing)
	if c.traverse(p); p.err != nil {
		return p.err
	}
	if err := c.graph.seal(); err != nil {
		return err
	}
	c.graph.restart()
	if c.graph.nesting.inner {
		p = c.stream(sizing)
		c.traverse(p)
		c.graph.restart()
	} else {
		p.balance()
	}
	c.h.body = p.size
	return p.err
}

// Marshal packs v, or what v points to.
func Marshal(v any, opts ...Option) ([]byte, error) { return Append(nil, v, opts...) }

// Append packs v behind what b holds already and returns the longer slice; b's array is used if it has room. After an
// error, b is as it was.
func Append(b []byte, v any, opts ...Option) ([]byte, error) {
	c := known.call(optionsOf(opts))
	defer known.over(c)
	if err := c.prepare(v); err != nil {
		return b, err
	}
	if c.o.graph {
		return c.appendGraph(b)
	}
	if cap(b)-len(b) < someRoom {
		if err := c.count(); err != nil {
			return b, err
		}
		if c.h.encodedSize() > uint64(maxInt-len(b)) {
			return b, &Error{Op: "pack", Err: fmt.Errorf("%d bytes do not fit into memory", c.h.encodedSize())}
		}
		b = grow(b, int(c.h.encodedSize()))
	}
	return c.appendTo(b)
}

// someRoom is what the caller has left on purpose: a value that fits need not be counted before.
const someRoom = 4 << 10

// appendTo packs behind b.
func (c *call) appendTo(b []byte) ([]byte, error) {
	p, m := c.stream(packing), &c.memory
	m.begin(p, &c.h, b)
	if c.traverse(p); p.err != nil {
		return b, p.err
	}
	return m.finish(p, &c.h), nil
}

// appendGraph packs a graph while it discovers its regions. Mostly none lies in another, and that was all; else it packs
// again.
func (c *call) appendGraph(b []byte) ([]byte, error) {
	c.graph = c.newGraph()
	p, m := c.stream(packing), &c.memory
	m.begin(p, &c.h, b)
	if c.traverse(p); p.err != nil {
		return b, p.err
	}
	if err := c.graph.seal(); err != nil {
		return b, err
	}
	if !c.graph.nesting.inner {
		if p.balance(); p.err != nil {
			return b, p.err
		}
		return m.finish(p, &c.h), nil
	}
	c.graph.restart()
	return c.appendTo(b)
}

// grow returns b with room for exactly n more bytes, if it has less.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	if len(b)+n < large {
		return append(make([]byte, 0, len(b)+n), b...)
	}
	return append(unzeroed(len(b) + n)[:0], b...)
}

const maxInt = int(^uint(0) >> 1)

// Size returns how many bytes Marshal makes of v.
func Size(v any, opts ...Option) (uint64, error) {
	c := known.call(optionsOf(opts))
	defer known.over(c)
	if err := c.prepare(v); err != nil {
		return 0, err
	}
	if err := c.count(); err != nil {
		return 0, err
	}
	return c.h.encodedSize(), nil
}

// ToWriter packs v and writes it, with the memory of a few chunks beside the value's own.
func ToWriter(w io.Writer, v any, opts ...Option) error {
	c := known.call(optionsOf(opts))
	defer known.over(c)
	if err := c.prepare(v); err != nil {
		return err
	}
	if err := c.count(); err != nil {
		return err
	}
	if _, err := w.Write(c.h.appendTo(nil)); err != nil {
		return &Error{Op: "write", Err: err}
	}
	p := c.stream(packing)
	out := packTo(p, &c.h, w)
	if c.traverse(p); p.err != nil {
		return p.err
	}
	return out.finish(p)
}

// ToFile packs v into a file. The file is there whole or not at all: it is written under another name beside it, synced
// and renamed. Only its owner may read it.
func ToFile(name string, v any, opts ...Option) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return &Error{Op: "write", Err: err}
	}
	done := false
	defer func() {
		if !done { // also when a PUP method panics
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	if err := ToWriter(f, v, opts...); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return &Error{Op: "write", Err: err}
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return &Error{Op: "write", Err: err}
	}
	done = true
	if err := errors.Join(f.Close(), syncFolder(filepath.Dir(name))); err != nil {
		return &Error{Op: "write", Err: err}
	}
	return nil
}

// syncFolder makes a rename durable.
func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Unmarshal unpacks data, which must be one value and nothing more, into what v points to. After an error, what v points
// to may be filled in part.
func Unmarshal(data []byte, v any, opts ...Option) error {
	h, body, err := headerOf(data, known.schemaOf(v))
	if err != nil {
		return &Error{Op: "unpack", Err: err}
	}
	c := known.call(optionsOf(opts))
	defer known.over(c)
	c.h = h
	again, err := c.unpack(v, func(c *call) error { return c.body.begin(&c.p, &c.h, body) })
	if again {
		c.o.inPlace = false
		_, err = c.unpack(v, func(c *call) error { return c.body.begin(&c.p, &c.h, body) })
	}
	return err
}

// FromReader unpacks the value that comes next from a reader and reads no further. A tree needs the memory of one chunk
// beside the value's own and, because a reader does not prove how long its data is, reads up to a 64th of a large slice
// ahead before it makes that. A graph is read whole first.
func FromReader(r io.Reader, v any, opts ...Option) error {
	h, err := readHeader(r)
	if err != nil {
		return &Error{Op: "unpack", Err: err}
	}
	return unpackFrom(r, h, v, opts)
}

// FromFile unpacks a file that ToFile wrote.
func FromFile(name string, v any, opts ...Option) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return &Error{Op: "unpack", Err: err}
	}
	defer f.Close()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return &Error{Op: "unpack", Err: err}
	}
	h, err := readHeader(f)
	if err != nil {
		return &Error{Op: "unpack", Err: err}
	}
	if info.Mode().IsRegular() && uint64(info.Size()) != h.encodedSize() {
		return &Error{Op: "unpack", Err: fmt.Errorf("%w: the file has %d bytes, want %d", ErrData, info.Size(), h.encodedSize())}
	}
	return unpackFrom(f, h, v, opts)
}

// unpackFrom unpacks the body that comes next from a reader. It cannot be had again.
func unpackFrom(r io.Reader, h header, v any, opts []Option) error {
	c := known.call(optionsOf(opts))
	defer known.over(c)
	c.h = h
	twice, err := c.unpack(v, func(c *call) error {
		if h.flags&flagGraph == 0 {
			return unpackReader(&c.p, &c.h, r)
		}
		body, err := readUpTo(r, int(h.framed()))
		if err != nil {
			return truncated(err, "body", len(body), int(h.framed()))
		}
		return c.body.begin(&c.p, &c.h, body)
	})
	if twice {
		err = &Error{"unpack", typeWord(c.info.t), errors.New("InPlace: two of its variables share memory, and the data does not: unpack without InPlace")}
	}
	return err
}

// unpack fills what v points to from the windows that begin sets up. twice: memory of v was filled in place for two variables
// and holds only one of them.
func (c *call) unpack(v any, begin func(c *call) error) (twice bool, err error) {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Pointer || r.IsNil() {
		return false, &Error{Op: "unpack", Err: fmt.Errorf("%T: want a pointer to a variable", v)}
	}
	if err := runtimeHas.fault(); err != nil {
		return false, &Error{Op: "unpack", Err: err}
	}
	c.target = target{known.info(r.Type().Elem()), r}
	if c.info.fault != nil {
		return false, &Error{Op: "unpack", Err: c.info.fault}
	}
	p := c.stream(unpacking)
	p.maxDepth = c.o.depth(c.h.flags&flagGraph != 0)
	defer func() {
		if x := recover(); x != nil {
			err = &Error{"unpack", typeWord(c.info.t), panicked(x)}
		}
	}()
	if c.h.own == nil {
		if err := p.compareRoot(c.info, &c.h); err != nil {
			return false, &Error{Op: "unpack", Err: err}
		}
	}
	if err := begin(c); err != nil {
		return false, &Error{Op: "unpack", Err: err}
	}
	if c.o.inPlace {
		p.claims = &claims{}
		p.claims.claim(uintptr(r.UnsafePointer()), c.info.t.Size())
	}
	if err := c.fill(p); err != nil {
		return false, err
	}
	return p.claims != nil && p.claims.twice(), nil
}

// panicked is the error that a panic was, if it was one.
func panicked(x any) error {
	if err, ok := x.(error); ok {
		return fmt.Errorf("a PUP method panicked: %w", err)
	}
	return fmt.Errorf("a PUP method panicked: %v", x)
}

// fill unpacks all of the body.
func (c *call) fill(p *Stream) error {
	if c.h.flags&flagGraph != 0 && (c.o.graph || c.info.leads() || p.evolving) {
		p.graph = &graph{sealed: true}
		if c.info.t.Size() > 0 {
			p.graph.objects.add(object{c.v.UnsafePointer(), c.info, 1})
		}
	}
	p.direct = p.graph == nil && !p.evolving
	p.value(c.info, c.v.UnsafePointer())
	if p.graph != nil && p.mode != failed {
		p.finish()
	}
	if p.err != nil {
		return p.err
	}
	if p.left() > 0 {
		return &Error{Op: "unpack", Err: fmt.Errorf("%w: %d bytes are left after the value", ErrData, p.left())}
	}
	return nil
}
