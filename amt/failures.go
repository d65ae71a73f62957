package amt

import (
	"errors"
	"sync"
)

// failures are the errors of ranks that are goroutines of one process, by their texts, which are what travels: who is told of one has
// the error itself. Between processes, where there are none of these (nil), it is the text alone.
type failures struct {
	mu  sync.Mutex
	all map[string]error
}

// keep remembers the error that is told with a text.
func (f *failures) keep(text string, err error) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all[text] == nil {
		f.all[text] = err
	}
}

// told is the error of a text.
func (f *failures) told(text string) error {
	if f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err := f.all[text]; err != nil {
			return err
		}
	}
	return errors.New(text)
}
