package amt

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
)

// A span is a range of addresses.
type span struct{ from, to uintptr }

// program is the memory that the program, or the library, with this package was mapped to, and what follows it directly:
// variables without a first value.
var program = sync.OnceValue(func() []span {
	file, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer file.Close()
	type mapping struct {
		span
		name string
	}
	var all []mapping
	here, name := reflect.ValueOf(declare).Pointer(), ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var m mapping
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &m.from, &m.to); err != nil {
			continue
		}
		if f := strings.Fields(lines.Text()); len(f) > 5 {
			m.name = f[5]
		}
		if m.from <= here && here < m.to {
			name = m.name
		}
		all = append(all, m)
	}
	var spans []span
	for n, m := range all {
		if m.name == name || m.name == "" && n > 0 && len(spans) > 0 && all[n-1].to == m.from && spans[len(spans)-1].to == m.from {
			spans = append(spans, m.span)
		}
	}
	return spans
})

// inProgram tells whether an address lies in the program, as that of everything does that was there before it ran. Where
// that cannot be known, it does.
func inProgram(p uintptr) bool {
	for _, s := range program() {
		if s.from <= p && p < s.to {
			return true
		}
	}
	return len(program()) == 0
}
