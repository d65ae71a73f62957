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
// unpacking, cycles and pointers into other values included. It is needed for packing only: data says whether it is a graph.
//
// Of a slice's capacity that part is kept in which elements of others lie. A slice without elements shares nothing and has no
// capacity afterwards, whatever array it was a part of: only whether it is nil is kept.
//
// PUP methods must then hand pointers and slices themselves to the helpers: elements that are visited by a loop of one's own
// are not known as parts of their slice, and a pointer in a local variable may be set after PUP is done. Check finds both.
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
		return target{}, fmt.Errorf("pup: pack: %w", err)
	}
	switch {
	case !r.IsValid():
		return target{}, fmt.Errorf("pup: pack: nil: want a value or a pointer to one")
	case r.Kind() == reflect.Pointer && r.IsNil():
		return target{}, fmt.Errorf("pup: pack: nil %v: want a pointer to a value", r.Type())
	case r.Kind() != reflect.Pointer:
		c := reflect.New(r.Type())
		c.Elem().Set(r)
		r = c
	}
	return target{known.info(r.Type().Elem()), r}, nil
}

// job is all that packing a value needs: two traversals and what they share.
type job struct {
	target
	o      options
	graph  *graph
	schema *table
	h      header
}

// prepare makes ready for packing.
func prepare(v any, o options) (*job, error) {
	t, err := source(v)
	if err != nil {
		return nil, err
	}
	j := &job{target: t, o: o}
	if j.info.fault != nil {
		return nil, fmt.Errorf("pup: pack: %w", j.info.fault)
	}
	if j.schema, err = j.info.schemaOf(); err != nil {
		return nil, fmt.Errorf("pup: pack: %w", err)
	}
	j.h = header{schema: j.schema.text, hash: j.schema.hash}
	if len(j.h.schema) > maxSchema {
		return nil, fmt.Errorf("pup: pack: schema of %d bytes, at most %d", len(j.h.schema), maxSchema)
	}
	if o.unchecked {
		j.h.flags |= flagUnchecked
	}
	if o.graph {
		j.h.flags |= flagGraph
	}
	return j, nil
}

// count finds the size of the body, and in a graph its regions.
func (j *job) count() error {
	if j.o.graph {
		return j.discover()
	}
	p := j.stream(sizing)
	if j.traverse(p); errors.Is(p.err, ErrMemory) { // it may depend on the order of maps, which that of packing decides
		p = j.stream(sizing)
		p.inOrder = true
		j.traverse(p)
	}
	j.h.body = p.size
	return p.err
}

func (j *job) stream(m mode) *Stream {
	p := &Stream{mode: m, maxDepth: j.o.depth(j.graph != nil), budget: newBudget(j.o), graph: j.graph}
	p.direct = p.graph == nil
	p.push(frame{t: j.info.t, val: j.v.UnsafePointer()})
	return p
}

func (j *job) traverse(p *Stream) {
	p.value(j.info, j.v.UnsafePointer())
	if p.graph != nil {
		p.finish()
	}
	if p.graph == nil || p.graph.sealed {
		p.balance()
	}
}

// newGraph makes a graph that knows the packed variable itself.
func (j *job) newGraph() *graph {
	g := &graph{}
	if j.info.t.Size() > 0 {
		g.add(j.v.UnsafePointer(), j.info, 1)
		g.root()
	}
	return g
}

// discover finds the regions of a graph and how they lie in each other. Only when some do is the size another than it
// seemed, and counted again.
func (j *job) discover() error {
	j.graph = j.newGraph()
	p := j.stream(sizing)
	if j.traverse(p); p.err != nil {
		return p.err
	}
	if err := j.graph.seal(); err != nil {
		return err
	}
	j.graph.restart()
	if j.graph.inner {
		p = j.stream(sizing)
		j.traverse(p)
		j.graph.restart()
	} else {
		p.balance()
	}
	j.h.body = p.size
	return p.err
}

// Marshal packs v, or what v points to.
func Marshal(v any, opts ...Option) ([]byte, error) { return Append(nil, v, opts...) }

// Append packs v behind what b holds already and returns the longer slice; b's array is used if it has room. After an
// error, b is as it was.
func Append(b []byte, v any, opts ...Option) ([]byte, error) {
	j, err := prepare(v, optionsOf(opts))
	if err != nil {
		return b, err
	}
	if j.o.graph {
		return j.appendGraph(b)
	}
	const some = 4 << 10 // room that the caller left on purpose: a value that fits need not be counted before
	if cap(b)-len(b) < some {
		if err := j.count(); err != nil {
			return b, err
		}
		if j.h.encodedSize() > uint64(maxInt-len(b)) {
			return b, fmt.Errorf("pup: pack: %d bytes do not fit into memory", j.h.encodedSize())
		}
		b = grow(b, int(j.h.encodedSize()))
	}
	return j.appendTo(b)
}

// appendTo packs behind b.
func (j *job) appendTo(b []byte) ([]byte, error) {
	p, m := j.stream(packing), memory{b: b}
	m.begin(p, &j.h)
	if j.traverse(p); p.err != nil {
		return b, p.err
	}
	return m.finish(p, &j.h), nil
}

// appendGraph packs a graph while it discovers its regions. Mostly none lies in another, and that was all; else it packs
// again.
func (j *job) appendGraph(b []byte) ([]byte, error) {
	j.graph = j.newGraph()
	p, m := j.stream(packing), memory{b: b}
	m.begin(p, &j.h)
	if j.traverse(p); p.err != nil {
		return b, p.err
	}
	if err := j.graph.seal(); err != nil {
		return b, err
	}
	if !j.graph.inner {
		if p.balance(); p.err != nil {
			return b, p.err
		}
		return m.finish(p, &j.h), nil
	}
	j.graph.restart()
	return j.appendTo(b)
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
	j, err := prepare(v, optionsOf(opts))
	if err != nil {
		return 0, err
	}
	if err := j.count(); err != nil {
		return 0, err
	}
	return j.h.encodedSize(), nil
}

// ToWriter packs v and writes it, with the memory of a few chunks beside the value's own.
func ToWriter(w io.Writer, v any, opts ...Option) error {
	j, err := prepare(v, optionsOf(opts))
	if err != nil {
		return err
	}
	if err := j.count(); err != nil {
		return err
	}
	if _, err := w.Write(j.h.appendTo(nil)); err != nil {
		return fmt.Errorf("pup: write: %w", err)
	}
	p := j.stream(packing)
	finish := packTo(p, &j.h, w)
	if j.traverse(p); p.err != nil {
		return p.err
	}
	return finish()
}

// ToFile packs v into a file. The file is there whole or not at all: it is written under another name beside it, synced
// and renamed. Only its owner may read it.
func ToFile(name string, v any, opts ...Option) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("pup: %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("pup: %s: %w", name, errors.Join(err, f.Close(), os.Remove(f.Name())))
		}
	}()
	if err = ToWriter(f, v, opts...); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("pup: %s: %w", name, err)
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes a rename durable.
func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("pup: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("pup: %s: %w", name, err)
	}
	return nil
}

// Unmarshal unpacks data, which must be one value and nothing more, into what v points to. After an error, what v points
// to may be filled in part.
func Unmarshal(data []byte, v any, opts ...Option) error {
	h, body, err := headerOf(data)
	if err != nil {
		return fmt.Errorf("pup: unpack: %w", err)
	}
	return unpack(h, v, optionsOf(opts), true, func(p *Stream) error { return unpackFrom(p, h, body) })
}

// FromReader unpacks the value that comes next from a reader and reads no further. A tree needs the memory of one chunk
// beside the value's own and, because a reader does not prove how long its data is, reads up to a 64th of a large slice
// ahead before it makes that. A graph is read whole first.
func FromReader(r io.Reader, v any, opts ...Option) error {
	h, err := readHeader(r)
	if err != nil {
		return fmt.Errorf("pup: unpack: %w", err)
	}
	return unpack(h, v, optionsOf(opts), false, func(p *Stream) error {
		if h.flags&flagGraph == 0 {
			return unpackReader(p, h, r)
		}
		body, err := readUpTo(r, int(h.framed()))
		if err != nil {
			return truncated(err, "body", len(body), int(h.framed()))
		}
		return unpackFrom(p, h, body)
	})
}

// FromFile unpacks a file that ToFile wrote.
func FromFile(name string, v any, opts ...Option) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("pup: %w", err)
	}
	defer f.Close()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h, err := readHeader(f)
	if err != nil {
		return fmt.Errorf("pup: unpack: %w", err)
	}
	if info.Mode().IsRegular() && uint64(info.Size()) != h.encodedSize() {
		return fmt.Errorf("pup: unpack: %w: the file has %d bytes, want %d", ErrData, info.Size(), h.encodedSize())
	}
	return unpack(h, v, optionsOf(opts), false, func(p *Stream) error { return unpackReader(p, h, f) })
}

// unpack fills what v points to from the windows that begin sets up. begin may be called again if the data can be had
// again.
func unpack(h *header, v any, o options, again bool, begin func(p *Stream) error) (err error) {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Pointer || r.IsNil() {
		return fmt.Errorf("pup: unpack: %T: want a pointer to a variable", v)
	}
	if err := runtimeHas.fault(); err != nil {
		return fmt.Errorf("pup: unpack: %w", err)
	}
	t := target{known.info(r.Type().Elem()), r}
	if t.info.fault != nil {
		return fmt.Errorf("pup: unpack: %w", t.info.fault)
	}
	p := &Stream{mode: unpacking, maxDepth: o.depth(h.flags&flagGraph != 0), budget: newBudget(o)}
	p.push(frame{t: t.info.t, val: r.UnsafePointer()})
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("pup: unpack: %s: a PUP method panicked: %v", typeWord(t.info.t), x)
		}
	}()
	if err := p.compareRoot(t.info, h); err != nil {
		return fmt.Errorf("pup: unpack: %w", err)
	}
	if err := begin(p); err != nil {
		return fmt.Errorf("pup: unpack: %w", err)
	}
	if o.inPlace {
		p.claims = &claims{}
		p.claims.claim(uintptr(r.UnsafePointer()), t.info.t.Size())
	}
	if err := t.fill(p, h, o); err != nil || p.claims == nil || !p.claims.twice() {
		return err
	}
	if !again {
		return fmt.Errorf("pup: unpack: %s: InPlace: two of its variables share memory, and the data does not: unpack without InPlace", typeWord(t.info.t))
	}
	o.inPlace = false
	return unpack(h, v, o, false, begin)
}

// fill unpacks all of the body.
func (t target) fill(p *Stream, h *header, o options) error {
	if h.flags&flagGraph != 0 && (o.graph || t.info.leads() || p.evolving) {
		p.graph = &graph{sealed: true}
		if t.info.t.Size() > 0 {
			p.graph.objects.add(object{t.v.UnsafePointer(), t.info, 1})
		}
	}
	p.direct = p.graph == nil && !p.evolving
	p.value(t.info, t.v.UnsafePointer())
	if p.graph != nil && p.mode != failed {
		p.finish()
	}
	if p.err != nil {
		return p.err
	}
	if p.left() > 0 {
		return fmt.Errorf("pup: unpack: %w: %d bytes are left after the value", ErrData, p.left())
	}
	return nil
}
