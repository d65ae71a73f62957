// Package trace keeps what a rank of the task runtime has done, and writes it for ui.perfetto.dev.
//
// It guarantees: what is kept takes no more memory than was said, the newest is kept, and what is not is counted; recording allocates
// nothing but that memory. What has durations on one track is well nested if its beginnings and ends are, of what is left too. A file
// has the parts of all ranks that have written theirs, and is whole JSON after each. It reads no clock.
package trace

// A Kind says what an event is of. Its comment says what A and B of the event are.
type Kind uint8

const (
	Main      Kind = iota // the main function
	Body                  // of an epoch
	Wait                  // for an epoch
	Idle                  // the rank has nothing to do
	Handler               // B: the rank that has sent the message
	Method                // A: the element, B: the rank that has sent the message first
	Find                  // a message to an element that is not here; A: the element, B: the rank that it comes from
	Skip                  // a message whose epoch has failed
	After                 // what follows an epoch
	Operation             // of a scope
	Arrives               // an element; A: its number, B: the rank that it comes from
	Task                  // B: the task's track
	TaskWait              // for an epoch; B: the task's track
	Leaves                // an element, no duration; A: its number, B: the rank that it goes to
	Epoch                 // A: its number
	Phase                 // A: its number
	Sent                  // a message; A: its number
	Taken                 // a message; A: its number
	Waiting               // batches and messages that have come, no duration: A, and the bytes of batches that are here: Took
)

// An Event is what a rank has done, in nanoseconds of a clock that never goes back.
type Event struct {
	At, Took int64
	A        uint64
	B        int32
	Name     Name
	Kind     Kind
}

// A Name stands for a text of a Log.
type Name uint16

// A Log is the events of a rank: the newest, which say how a program has come to where it is.
type Log struct {
	chunks  [][]Event // in the order in which they were begun, from first on
	first   int
	most    int // chunks
	dropped uint64

	names   []Text
	numbers map[Text]Name
}

// A Text is what events are called, and the collection whose elements their A are numbers of; -1: none.
type Text struct {
	Text       string
	Collection int
}

// An Event has 32 bytes; a chunk some 64 KiB.
const (
	eventSize = 32
	chunkSize = 2048
	mostNames = 1<<16 - 1
)

// Other is the name of what comes after the first 65,535 of a Log.
const Other = Name(0)

// NewLog is a Log that takes so many bytes, as far as that is two chunks.
func NewLog(bytes int) *Log {
	l := &Log{most: max(2, bytes/(chunkSize*eventSize)), numbers: map[Text]Name{}}
	l.Name("others", -1)
	return l
}

// Name is that of a text, which it notes.
func (l *Log) Name(text string, collection int) Name {
	t := Text{text, collection}
	if n, ok := l.numbers[t]; ok || len(l.names) > mostNames {
		return n
	}
	n := Name(len(l.names))
	l.names = append(l.names, t)
	l.numbers[t] = n
	return n
}

// Add notes an event. If there is no room, a chunk of the oldest is dropped.
func (l *Log) Add(e Event) {
	if n := len(l.chunks); n > 0 {
		last := &l.chunks[(l.first+n-1)%n]
		if len(*last) < chunkSize {
			*last = append(*last, e)
			return
		}
	}
	l.begin(e)
}

// begin begins a chunk.
func (l *Log) begin(e Event) {
	if len(l.chunks) < l.most {
		l.chunks = append(l.chunks, append(make([]Event, 0, chunkSize), e))
		return
	}
	oldest := &l.chunks[l.first]
	l.dropped += uint64(len(*oldest))
	*oldest = append((*oldest)[:0], e)
	l.first = (l.first + 1) % len(l.chunks)
}

// Dropped is how many events were.
func (l *Log) Dropped() uint64 { return l.dropped }

// Each calls a function for each event that is left, in the order in which they were added.
func (l *Log) Each(do func(*Event)) {
	for n := range l.chunks {
		chunk := l.chunks[(l.first+n)%len(l.chunks)]
		for i := range chunk {
			do(&chunk[i])
		}
	}
}

// Text is what a name stands for.
func (l *Log) Text(n Name) Text { return l.names[n] }
