package amt

// A fifo is a queue whose memory is that of what is in it, also if it is never empty.
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

// pop takes the oldest; there is one.
func (q *fifo[T]) pop() T {
	var none T
	v := q.list[q.first]
	q.list[q.first] = none
	if q.first++; q.first == len(q.list) {
		q.list, q.first = q.list[:0], 0
	}
	return v
}
