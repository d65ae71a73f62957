package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strconv"
)

// A Part is what a rank has to write.
type Part struct {
	Log     *Log
	Rank    int
	Process string // what the rank is called
	Node    string // ranks of one node have one clock
	Wall    int64  // nanoseconds that the time of day is ahead of that clock
	Element func(collection int, number uint64) string
}

// Tracks of a rank: its own goroutine, and tasks beside each other.
const (
	ownTrack  = 1
	firstTask = 2
)

// The words of the Trace Event Format (Google, "Trace Event Format", 2016 and later): X a duration, b and e the ends of one that may overlap
// others, s and f those of an arrow, i a moment, C a counter, M what things are called. Times are in microseconds.
var category = [...]string{Main: "main", Body: "body", Wait: "wait", Idle: "idle", Handler: "handler", Method: "method", Find: "find", Skip: "failed", After: "after",
	Operation: "operation", Arrives: "element", Task: "task", TaskWait: "wait", Leaves: "element", Epoch: "epoch", Phase: "phase", Sent: "message", Taken: "message", Waiting: "waiting"}

// A writer writes the events of a part.
type writer struct {
	to    *bufio.Writer
	p     *Part
	shift int64 // from the clock of the part to that of the file
	begun bool
	names []string // by Name, as JSON
	b     []byte
	err   error
}

// write writes a part as events of JSON, with commas between them; begun says whether some are before.
func (w *writer) write() error {
	for _, t := range w.p.Log.names {
		text, err := json.Marshal(t.Text)
		if err != nil {
			return err
		}
		w.names = append(w.names, string(text))
	}
	w.meta("process_name", 0, "name", w.p.Process)
	w.raw(fmt.Sprintf(`{"ph":"M","pid":%d,"tid":0,"name":"process_sort_index","args":{"sort_index":%d}}`, w.p.Rank, w.p.Rank))
	if n := w.p.Log.dropped; n > 0 {
		w.meta("process_labels", 0, "labels", fmt.Sprintf("%d older events are not here", n))
	}
	w.meta("thread_name", ownTrack, "name", "main function, handlers")
	tasks := 0
	w.p.Log.Each(func(e *Event) {
		for ; e.Kind == Task && int(e.B) >= tasks; tasks++ {
			w.meta("thread_name", firstTask+tasks, "name", fmt.Sprintf("tasks %d", tasks))
		}
		w.event(e)
	})
	return w.err
}

func (w *writer) meta(what string, track int, key, value string) {
	text, _ := json.Marshal(value) // a string
	w.raw(fmt.Sprintf(`{"ph":"M","pid":%d,"tid":%d,"name":%q,"args":{%q:%s}}`, w.p.Rank, track, what, key, text))
}

func (w *writer) raw(s string) { w.put(append(w.b[:0], s...)) }

func (w *writer) put(b []byte) {
	if w.b = b; w.err != nil {
		return
	}
	if w.begun {
		_, w.err = w.to.WriteString(",\n")
	}
	w.begun = true
	if w.err == nil {
		_, w.err = w.to.Write(b)
	}
}

// event writes an event as one or two of the format.
func (w *writer) event(e *Event) {
	name := w.names[e.Name]
	switch e.Kind {
	case Epoch, Phase:
		id := append(strconv.AppendUint([]byte(`,"id2":{"local":"0x`), e.A, 16), `"}`...)
		w.put(append(append(w.head('b', e.At, e, name), id...), '}'))
		w.put(append(append(w.head('e', e.At+e.Took, e, name), id...), '}'))
	case Sent:
		w.put(append(w.flow(w.head('s', e.At, e, `"message"`), e.A), '}'))
	case Taken:
		w.put(append(w.flow(w.head('f', e.At, e, `"message"`), e.A), `,"bp":"e"}`...))
	case Waiting:
		b := append(w.head('C', e.At, e, `"waiting"`), `,"args":{"batches and messages":`...)
		w.put(append(strconv.AppendUint(b, e.A, 10), `}}`...))
		b = append(w.head('C', e.At, e, `"memory"`), `,"args":{"bytes of batches":`...)
		w.put(append(strconv.AppendInt(b, e.Took, 10), `}}`...))
	case Leaves:
		w.put(append(w.args(append(w.head('i', e.At, e, name), `,"s":"t"`...), e), '}'))
	default:
		b := appendMicros(append(w.head('X', e.At, e, name), `,"dur":`...), e.Took)
		w.put(append(w.args(b, e), '}'))
	}
}

// head begins an event.
func (w *writer) head(phase byte, at int64, e *Event, name string) []byte {
	track := ownTrack
	if e.Kind == Task || e.Kind == TaskWait {
		track = firstTask + int(e.B)
	}
	b := append(append(w.b[:0], `{"ph":"`...), phase)
	b = strconv.AppendInt(append(b, `","pid":`...), int64(w.p.Rank), 10)
	b = strconv.AppendInt(append(b, `,"tid":`...), int64(track), 10)
	b = appendMicros(append(b, `,"ts":`...), at+w.shift)
	b = append(append(b, `,"cat":"`...), category[e.Kind]...)
	return append(append(b, `","name":`...), name...)
}

func (w *writer) flow(b []byte, id uint64) []byte {
	return append(strconv.AppendUint(append(b, `,"id":"0x`...), id, 16), '"')
}

// args says of which element and rank an event is.
func (w *writer) args(b []byte, e *Event) []byte {
	element, rank := "", ""
	switch e.Kind {
	case Handler:
		rank = "from"
	case Method, Find, Arrives:
		element, rank = "element", "from"
	case Leaves:
		element, rank = "element", "to"
	default:
		return b
	}
	b = append(b, `,"args":{`...)
	if element != "" {
		text, _ := json.Marshal(w.p.Element(w.p.Log.names[e.Name].Collection, e.A)) // a string
		b = append(append(b, `"element":`...), text...)
		b = append(b, ',')
	}
	b = append(append(append(b, '"'), rank...), `":`...)
	return append(strconv.AppendInt(b, int64(e.B), 10), '}')
}

// appendMicros writes nanoseconds as microseconds.
func appendMicros(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1000, 10)
	rest := ns % 1000
	return append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
}
