package locate

import "iter"

// A queue is the messages that are held for one element: the first and last of a list.
type queue struct{ first, last int32 }

// A held message.
type held[M any] struct {
	message M
	stamp   Stamp
	next    int32 // of its list, or of those that are free; -1: none
}

// waiting is all messages that are held on a rank. Their memory is used again.
type waiting[M any] struct {
	queues map[uint64]queue
	all    []held[M]
	free   int32
}

// hold adds a message to those of an element.
func (w *waiting[M]) hold(s *entry, stamp Stamp, message M) {
	if w.queues == nil {
		w.queues, w.free = map[uint64]queue{}, -1
	}
	at := w.free
	if at < 0 {
		at = int32(len(w.all))
		w.all = append(w.all, held[M]{})
	} else {
		w.free = w.all[at].next
	}
	w.all[at] = held[M]{message, stamp, -1}
	q := queue{at, at}
	if s.held {
		q.first = w.queues[s.key].first
		w.all[w.queues[s.key].last].next = at
	}
	w.queues[s.key] = q
	s.held = true
}

// take gives up the messages of an element, in the order in which they came.
func (w *waiting[M]) take(s *entry) iter.Seq[held[M]] {
	return func(yield func(held[M]) bool) {
		if !s.held {
			return
		}
		q := w.queues[s.key]
		delete(w.queues, s.key)
		s.held = false
		for at := q.first; at >= 0; {
			h := w.all[at]
			w.all[at] = held[M]{next: w.free}
			w.free, at = at, h.next
			yield(h)
		}
	}
}
