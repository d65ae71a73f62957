package pup

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Rule says something about a type where it is registered.
type Rule struct {
	apply func(r *registration)
}

// A Type is the proof that T is registered; it is kept only so that registration can stand in a declaration:
//
//	var _ = pup.Register[Cell]("sim.Cell", pup.SchemaVersion(2), pup.Added("Weights", 2))
type Type[T any] struct{}

// registration is what the program says of a type.
type registration struct {
	t         reflect.Type
	name      string
	version   int
	aliases   []string
	changes   []change
	construct func(v unsafe.Pointer)
	visit     func(p *Stream, v unsafe.Pointer)
	box       func(v unsafe.Pointer) any // the value at v as a T
	boxPtr    func(v unsafe.Pointer) any // v as a *T
	fault     error
}

// changeKind is what happened to a field from one version of a type to the next.
type changeKind uint8

const (
	added changeKind = iota
	removed
	renamed
	widened
)

// change is one declared difference between versions.
type change struct {
	kind  changeKind
	field string // the field's name after the change (before it, if it was removed)
	was   string // renamed: the former name; widened: the former type
	since int    // the first version that has the change
}

// Register gives T a name that stands in stored data for ever, and the rules by which older data is read. A type needs
// it to be held by an interface, to have versions, or to be renamed. Both T and *T may then stand in interfaces.
//
// Types that are not registered have the path of their package and their name in stored data. Those of package main should
// be registered: their path is another one in the package's tests. A type that goes over from fields to a PUP of its
// own, or back, needs a new name, or its old data cannot be read.
//
// Register is called when the program starts. A mistake (a name or type registered twice) is reported by the first
// traversal that meets the type.
func Register[T any](name string, rules ...Rule) Type[T] {
	r := &registration{t: reflect.TypeFor[T](), name: name, version: 1,
		box:    func(v unsafe.Pointer) any { return *(*T)(v) },
		boxPtr: func(v unsafe.Pointer) any { return (*T)(v) }}
	for _, rule := range rules {
		rule.apply(r)
	}
	slices.SortStableFunc(r.changes, func(a, b change) int { return a.since - b.since })
	known.register(r)
	return Type[T]{}
}

// SchemaVersion says which version of its type this is; without it, 1.
func SchemaVersion(version int) Rule {
	return Rule{func(r *registration) {
		r.version = version
		if version < 1 {
			r.fault = fmt.Errorf("schema version %d, want 1 or more", version)
		}
	}}
}

// Alias says under which name the type was stored before it was renamed.
func Alias(name string) Rule {
	return Rule{func(r *registration) { r.aliases = append(r.aliases, name) }}
}

// Added says that a field is new in a version. From older data it keeps what Construct gave it, or zero.
func Added(field string, version int) Rule { return changed(change{added, field, "", version}) }

// Removed says that a version has lost a field. In older data it is read and dropped.
func Removed(field string, version int) Rule { return changed(change{removed, field, "", version}) }

// Renamed says that a field has a new name in a version.
func Renamed(from, to string, version int) Rule { return changed(change{renamed, to, from, version}) }

// Widened says that a field has, in a version, a type that holds every value of the former one: a longer integer, a
// float for a shorter float or integer, an unsigned integer in a longer signed one; or a slice or array of such. The
// former type is named as in Go (float32, []int16). In a graph, fields that share a slice must all be widened.
func Widened(field, from string, version int) Rule {
	return changed(change{widened, field, from, version})
}

func changed(c change) Rule {
	return Rule{func(r *registration) { r.changes = append(r.changes, c) }}
}

// Construct is for a type whose zero value is of no use: what unpacking makes begins as a result of new.
func Construct[T any](new func() T) Rule {
	return Rule{func(r *registration) {
		if r.t != reflect.TypeFor[T]() {
			r.fault = fmt.Errorf("Construct makes a %v", reflect.TypeFor[T]())
			return
		}
		r.construct = func(v unsafe.Pointer) { *(*T)(v) = new() }
	}}
}

// Visit gives a type of another package the traversal that it lacks.
func Visit[T any](visit func(p *Stream, v *T)) Rule {
	return Rule{func(r *registration) {
		if r.t != reflect.TypeFor[T]() {
			r.fault = fmt.Errorf("Visit is for a %v", reflect.TypeFor[T]())
			return
		}
		r.visit = func(p *Stream, v unsafe.Pointer) { visit(p, (*T)(v)) }
	}}
}

// registry holds what is known of types. Registration is the program's text, not its state: it happens while packages
// initialise, as with gob or database/sql, which is why this one table belongs to the process.
type registry struct {
	once   sync.Once
	mu     sync.Mutex
	byName map[string]*registration // names and aliases
	byType map[reflect.Type]*registration
	infos  sync.Map // reflect.Type to *typeInfo, complete ones
	probes map[reflect.Type]*probing
	shorts map[reflect.Type]*shortCode
	making map[reflect.Type]*typeInfo
	count  uint32        // of infos ever made
	calls  sync.Pool     // of *call
	age    atomic.Uint32 // how often infos were dropped
}

var known = &registry{}

// begin enters the predeclared types before anything else.
func (k *registry) begin() {
	k.once.Do(func() {
		k.byName, k.byType = map[string]*registration{}, map[reflect.Type]*registration{}
		k.probes, k.shorts = map[reflect.Type]*probing{}, map[reflect.Type]*shortCode{}
		for _, r := range predeclared() {
			k.add(r)
		}
	})
}

// register enters a type of the program. What was worked out about types before may be wrong now and is dropped.
func (k *registry) register(r *registration) {
	k.begin()
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.name == "" {
		r.fault = errors.Join(r.fault, errors.New("registered without a name"))
	}
	for _, name := range append([]string{r.name}, r.aliases...) {
		if !goodName(name) {
			r.fault = errors.Join(r.fault, fmt.Errorf("registered as %q, which cannot be told from the words of a schema", name))
		}
	}
	k.add(r)
	k.infos.Clear()
	k.age.Add(1)
}

// addShort enters short code of a type.
func (k *registry) addShort(t reflect.Type, code *shortCode) {
	k.begin()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shorts[t] = code
	k.infos.Clear()
	k.age.Add(1)
}

// goodName tells whether a name can stand in a schema: it is none of its words, and its brackets are those of type arguments.
func goodName(name string) bool {
	if _, number := kindOf(name); number || strings.ContainsAny(name, " \n\t;{}") || strings.HasPrefix(name, "[") ||
		strings.HasPrefix(name, "*") || strings.HasPrefix(name, "map[") || strings.Count(name, "[") != strings.Count(name, "]") {
		return false
	}
	for _, s := range standards() {
		if name == s.word {
			return false
		}
	}
	return name != "string" && name != "interface" && name != "refused" && name != "binary"
}

// add enters a registration, unless its type or names are taken.
func (k *registry) add(r *registration) {
	if other := k.byType[r.t]; other != nil {
		other.fault = errors.Join(other.fault, fmt.Errorf("registered as %q and as %q", other.name, r.name))
		return
	}
	k.byType[r.t] = r
	for _, name := range append([]string{r.name}, r.aliases...) {
		if other := k.byName[name]; other != nil && other != r {
			fault := fmt.Errorf("the name %q is registered for %v and for %v", name, other.t, r.t)
			r.fault, other.fault = errors.Join(r.fault, fault), errors.Join(other.fault, fault)
			continue
		}
		k.byName[name] = r
	}
}

// named returns the registration that has a name or alias.
func (k *registry) named(name string) *registration {
	k.begin()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byName[name]
}

// implementing is a value of each registered type that an interface may hold, and a pointer to one.
func (k *registry) implementing(i reflect.Type) (list []reflect.Value) {
	k.begin()
	k.mu.Lock()
	defer k.mu.Unlock()
	for t := range k.byType {
		if t.Implements(i) {
			list = append(list, reflect.Zero(t))
		}
		if reflect.PointerTo(t).Implements(i) {
			list = append(list, reflect.New(t))
		}
	}
	return list
}

// predeclared are the types that may stand in interfaces without being registered.
func predeclared() []*registration {
	var list []*registration
	list = append(list, basic[bool]("bool"), basic[string]("string"),
		basic[int]("int"), basic[int8]("int8"), basic[int16]("int16"), basic[int32]("int32"), basic[int64]("int64"),
		basic[uint]("uint"), basic[uint8]("uint8"), basic[uint16]("uint16"), basic[uint32]("uint32"), basic[uint64]("uint64"), basic[uintptr]("uintptr"),
		basic[float32]("float32"), basic[float64]("float64"), basic[complex64]("complex64"), basic[complex128]("complex128"),
		basic[[]byte]("[]byte"), basic[[]string]("[]string"), basic[[]int]("[]int"), basic[[]float64]("[]float64"),
		basic[[]any]("[]any"), basic[map[string]any]("map[string]any"), basic[map[string]string]("map[string]string"))
	return append(list, standardTypes()...)
}

func basic[T any](name string) *registration {
	return &registration{t: reflect.TypeFor[T](), name: name, version: 1,
		box:    func(v unsafe.Pointer) any { return *(*T)(v) },
		boxPtr: func(v unsafe.Pointer) any { return (*T)(v) }}
}
