package job

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// An Output collects what a program prints and lets others wait for a text in it. Its zero value is ready for use.
type Output struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed and renewed at each write; nil while nobody waits
}

// Write appends b and wakes those who wait.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.text.Write(b)
}

// String returns what was printed so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// WaitFor waits until ok accepts what was printed; it gives up when the program or the context ends.
func (o *Output) WaitFor(ctx context.Context, p *Proc, what string, ok func(text string) bool) error {
	for {
		o.mu.Lock()
		if o.changed == nil {
			o.changed = make(chan struct{})
		}
		text, changed := o.text.String(), o.changed
		o.mu.Unlock()
		if ok(text) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("job: waiting for %s: %w", what, ctx.Err())
		case <-p.Done():
			if ok(o.String()) {
				return nil
			}
			_, err := p.Wait()
			return fmt.Errorf("job: the program ended before %s: %w", what, err)
		}
	}
}
