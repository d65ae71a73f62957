package amt

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/byssus-hpc/byssus/pup"
)

// A Handler is a function that messages of type M are sent to, on this rank or another. It is a variable of a package, and
// said what it is in an init function of that package, so that a handler may send to itself:
//
//	var ping amt.Handler[Ping]
//
//	func init() { ping.Is(onPing) }
//
// A handler runs to its end without being interrupted by another of its rank, so what it shares with them needs no lock.
// The message is its own for so long: what of it is kept must be copied, if M holds no pointers.
type Handler[M any] struct {
	entry *entry
	code  codec[M]
}

// entry is a row of the table of handlers.
type entry struct {
	caller   string // who declared it: package and function
	at       string // where: file:line
	function string // its name
	message  reflect.Type
	priority Priority
	ordinal  int // among those of the same caller, place and message
	id       uint16
	what     what // the same, with its priority
	run      func(c Context, payload []byte) error
	handler  any                           // *Handler of some type
	plain    bool                          // its messages lie in batches
	number   func(r *rank, payload []byte) // of an ordered method: numbers a message that has no number yet
	fault    error                         // why it cannot be used
}

func (e *entry) String() string {
	name := fmt.Sprintf("the handler of %v declared in %s (%s)", e.message, e.caller, e.at)
	if e.ordinal > 0 {
		name += fmt.Sprintf(", number %d there", e.ordinal+1)
	}
	return name
}

func (e *entry) compare(o *entry) int {
	return cmp.Or(cmp.Compare(e.caller, o.caller), cmp.Compare(e.at, o.at), cmp.Compare(e.message.String(), o.message.String()),
		cmp.Compare(e.ordinal, o.ordinal))
}

// handlers are those of the program: they are declared before anything runs.
var handlers = &registry{}

// A registry is the handlers that were declared.
type registry struct {
	sync.Mutex
	all    []*entry
	frozen bool
}

// Is says what the handler does, and with which priority if that is not 0. It is called once, from an init function. What is
// wrong with it is told by Run, or by the epoch that the handler is first used in.
func (h *Handler[M]) Is(do func(c Context, m *M), priority ...Priority) {
	fault := faultOf(reflect.ValueOf(do), *(*uintptr)(unsafe.Pointer(&do)))
	if len(priority) > 1 {
		fault = errors.Join(fault, errTwoPriorities)
	}
	h.is(do, fault, priority...)
}

var errTwoPriorities = errors.New("it is given two priorities")

// is declares the handler for who called its caller.
func (h *Handler[M]) is(do func(c Context, m *M), fault error, priority ...Priority) {
	e := newEntry(reflect.TypeFor[M](), reflect.ValueOf(do), fault, priority)
	var unfit error
	if h.code, unfit = codecOf[M](); unfit != nil {
		e.fault = errors.Join(e.fault, fmt.Errorf("its message cannot be sent: %w", unfit))
	}
	if h.entry != nil {
		e.fault = errors.New("it is said twice what it is")
	}
	h.entry, e.handler = e, h
	e.run, e.plain = h.code.runner(do), h.code.size > 0
	declare(e)
}

// newEntry is a row of the table, for who called the caller of its caller.
func newEntry(message reflect.Type, do reflect.Value, fault error, priority []Priority) *entry {
	e := &entry{message: message, fault: fault}
	for _, p := range priority {
		e.priority = p
	}
	pc, file, line, _ := runtime.Caller(3)
	e.caller, e.at = runtime.FuncForPC(pc).Name(), fmt.Sprintf("%s:%d", path.Base(file), line)
	if !do.IsNil() {
		e.function = runtime.FuncForPC(do.Pointer()).Name()
	}
	return e
}

// declare puts a handler into the table.
func declare(e *entry) {
	handlers.Lock()
	defer handlers.Unlock()
	if handlers.frozen {
		e.fault = errors.New("it was declared when the runtime had started: declare it in an init function")
		return
	}
	for _, o := range handlers.all {
		if e.compare(o) == 0 {
			e.ordinal++
		}
	}
	handlers.all = append(handlers.all, e)
}

// table ends the declaring of handlers, and returns them by their numbers, from firstHandler on.
func table() ([]*entry, error) {
	handlers.Lock()
	defer handlers.Unlock()
	if !handlers.frozen {
		handlers.frozen = true
		slices.SortFunc(handlers.all, (*entry).compare)
		for n, e := range handlers.all {
			e.id = firstHandler + uint16(n)
			e.what = whatOf(e.id, e.priority)
		}
	}
	if n := len(handlers.all); n > maxHandlers {
		return nil, fmt.Errorf("amt: %d handlers are declared, at most %d are possible", n, maxHandlers)
	}
	var faults []error
	for _, e := range handlers.all {
		if e.fault != nil {
			faults = append(faults, fmt.Errorf("amt: %v: %w", e, e.fault))
		}
	}
	return handlers.all, errors.Join(faults...)
}

// faultOf tells why a function cannot be a handler: it is nil, or not the same on all ranks, since it captures variables.
// What it captures lies with the function's closure: made at run time if there is anything, else a part of the program.
func faultOf(do reflect.Value, closure uintptr) error {
	if do.IsNil() {
		return errors.New("its function is nil")
	}
	name := runtime.FuncForPC(do.Pointer()).Name()
	if strings.HasSuffix(name, "-fm") {
		return fmt.Errorf("%s is the method of a value, which other ranks do not have: use a function, and the message", strings.TrimSuffix(name, "-fm"))
	}
	if !inProgram(do.Pointer()) {
		return fmt.Errorf("%s is in a plugin, which other ranks need not have", name)
	}
	if !inProgram(closure) {
		return fmt.Errorf("%s captures variables, which other ranks do not have: put them into the message", name)
	}
	return nil
}

// A codec turns messages into payloads and back.
type codec[M any] struct {
	size   int           // of a payload; 0: it depends on the message
	packer *pup.Codec[M] // if so
	graph  bool          // what is shared in it is shared again afterwards
}

// codecOf finds how messages of a type travel: those without pointers as they lie in memory, all others as package pup
// packs them.
func codecOf[M any]() (codec[M], error) {
	t := reflect.TypeFor[M]()
	if pup.ClassOf[M]() == pup.PlainClass && t.Size() > 0 {
		if t.Size() > maxPayload {
			return codec[M]{}, tooLong(int(t.Size()))
		}
		return codec[M]{size: int(t.Size())}, nil
	}
	packer, err := pup.CodecOf[M]()
	if err != nil {
		return codec[M]{}, err
	}
	return codec[M]{packer: packer}, nil
}

// pack appends a message to b.
func (k codec[M]) pack(b []byte, m *M) ([]byte, error) {
	if k.size > 0 {
		return append(b, unsafe.Slice((*byte)(unsafe.Pointer(m)), k.size)...), nil
	}
	return k.sized(m, func(size int) ([]byte, error) { return slices.Grow(b, size), nil })
}

// record packs a message behind room for the header of a record, with room for what fills that up.
func (k codec[M]) record(m *M) ([]byte, error) { return k.packBehind(m, headerSize) }

// packBehind packs a message behind so many bytes, with room for what fills it up.
func (k codec[M]) packBehind(m *M, head int) ([]byte, error) {
	room := func(size int) ([]byte, error) { return make([]byte, head, head+(size+7)&^7+8), nil }
	if k.size == 0 {
		return k.sized(m, room)
	}
	b, _ := room(k.size)
	return k.pack(b, m)
}

// graphBehind is packBehind of a state in which things are shared, with itself too: it is not copied.
func (k codec[M]) graphBehind(m *M, head int) ([]byte, error) {
	packed, err := pup.Marshal(m, pup.Graph())
	b := make([]byte, head, head+(len(packed)+7)&^7+8)
	return append(b, packed...), err
}

// open is the message in a payload: where it lies, if it has no pointers.
func (k codec[M]) open(payload []byte, short int) (*M, error) {
	if k.size > 0 {
		if len(payload) != k.size {
			return nil, fmt.Errorf("%d bytes, want %d", len(payload), k.size)
		}
		return (*M)(unsafe.Pointer(unsafe.SliceData(payload))), nil
	}
	m := new(M)
	return m, k.unpack(payload, m, short)
}

// unpack fills a message. A payload longer than the transport's batches has one of its own, which is not used again.
func (k codec[M]) unpack(payload []byte, m *M, short int) error {
	if k.size > 0 {
		from, err := k.open(payload, short)
		if err == nil {
			*m = *from
		}
		return err
	}
	if k.graph {
		return pup.Unmarshal(payload, m)
	}
	if len(payload) > short {
		return k.packer.UnmarshalOwned(payload, m)
	}
	return k.packer.Unmarshal(payload, m)
}

// sized packs a message whose size depends on it, once, behind what room returns when it is told how much it takes.
func (k codec[M]) sized(m *M, room func(size int) ([]byte, error)) ([]byte, error) {
	v := *m // so that only such messages are allocated
	return k.packer.AppendSized(&v, func(size int) ([]byte, error) {
		if size > maxPayload {
			return nil, tooLong(size)
		}
		return room(size)
	})
}

func tooLong(n int) error { return fmt.Errorf("a message of %d bytes: it may have %d", n, maxPayload) }

// runner is what calls a handler with the message that lies in a payload.
func (k codec[M]) runner(do func(c Context, m *M)) func(c Context, payload []byte) error {
	if k.packer != nil {
		return func(c Context, payload []byte) error {
			m, err := k.open(payload, c.f.r.t.short)
			if err == nil {
				do(c, m)
			}
			return err
		}
	}
	size := k.size
	return func(c Context, payload []byte) error {
		if len(payload) != size {
			return fmt.Errorf("%d bytes, want %d", len(payload), size)
		}
		do(c, (*M)(unsafe.Pointer(unsafe.SliceData(payload))))
		return nil
	}
}
