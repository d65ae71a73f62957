package amt

// A fifo is a queue whose memory is in proportion to what is in it, also if it is never empty and after a peak.
type fifo[T any] struct {
	list  []T
	first int
}

func (q *fifo[T]) len() int { return len(q.list) - q.first }

// all is what is in it, the oldest first.
func (q *fifo[T]) all() []T { return q.list[q.first:] }

func (q *fifo[T]) push(v T) {
	if len(q.list) == cap(q.list) && q.first > len(q.list)/2 { // what was taken is more than what is left
		n := copy(q.list, q.list[q.first:])
		clear(q.list[n:])
		q.list, q.first = q.list[:n], 0
	}
	q.list = append(q.list, v)
}

// What is small is kept; memory of which less than a part is used is given back.
const smallFifo, usedPart = 256, 8

// pop takes the oldest; there is one.
func (q *fifo[T]) pop() T {
	var none T
	v := q.list[q.first]
	q.list[q.first] = none
	q.first++
	switch size := cap(q.list); {
	case size > smallFifo && q.len() < size/usedPart:
		q.list, q.first = append(make([]T, 0, 2*q.len()), q.all()...), 0
	case q.first == len(q.list):
		q.list, q.first = q.list[:0], 0
	}
	return v
}
