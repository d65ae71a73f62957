package coordsrv

import (
	"sync"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
)

// numbers are those of the datasets that the program writes itself, in the store that all nodes see. It belongs to the loop's goroutine, but
// for what making protects.
type numbers struct {
	*loop
	job    *dataset.Job
	used   uint64     // all up to this count as used there, as far as is known
	making sync.Mutex // held by who makes more of them so: one at a time
}

// use does something in the store, and makes all numbers up to n count as used there.
func (u *numbers) use(n uint64, do func() error, then func(error)) {
	store := u.job.Of(agent.Written)
	u.wg.Go(func() {
		u.making.Lock()
		err := do()
		if err == nil {
			err = store.Use(n)
		}
		u.making.Unlock()
		u.ask(func() {
			if err == nil {
				u.used = max(u.used, n)
			}
			then(err)
		})
	})
}
