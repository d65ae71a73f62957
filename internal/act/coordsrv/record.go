package coordsrv

import (
	"sync"

	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// record keeps job.json as the job is, without holding the loop up. It belongs to the loop's goroutine, but for write.
type record struct {
	*loop
	job    *dataset.Job
	failed func(error)
	orders uint64 // to save it

	writing sync.Mutex
	written uint64 // the newest order that was carried out; writing protects it
}

// save writes job.json as it is now. An older state never takes the place of a newer one.
func (r *record) save() {
	state, number := r.job.Record, r.next()
	r.wg.Go(func() {
		if err := r.write(state, number); err != nil {
			r.failed(err)
		}
	})
}

// next is the number of an order to save it.
func (r *record) next() uint64 {
	r.orders++
	return r.orders
}

// write writes a state of job.json, one writer at a time, unless a newer one has been written.
func (r *record) write(state dataset.Record, number uint64) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if number < r.written {
		return nil
	}
	r.written = number
	return state.Save()
}
