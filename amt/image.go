package amt

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
)

// A span is a range of addresses.
type span struct{ from, to uintptr }

// An image is the file, of the program or a library, that holds this package.
type image struct {
	file  string
	spans []span // where it was mapped to, and what follows directly: variables without a first value
}

var program = sync.OnceValue(func() image {
	file, err := os.Open("/proc/self/maps")
	if err != nil {
		return image{}
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
	return image{name, spans}
})

// inProgram tells whether an address lies in the program, as that of everything does that was there before it ran. Where
// that cannot be known, it does.
func inProgram(p uintptr) bool {
	for _, s := range program().spans {
		if s.from <= p && p < s.to {
			return true
		}
	}
	return len(program().spans) == 0
}

// buildID is what the Go linker calls the build of the program by: it follows from all of its code. Empty if it has none.
func buildID() string {
	file, err := elf.Open(program().file)
	if err != nil {
		return ""
	}
	defer file.Close()
	note := file.Section(".note.go.buildid")
	if note == nil {
		return ""
	}
	b, err := note.Data()
	const head = 16 // of a note: three lengths and kinds, and the name "Go"
	if err != nil || len(b) < head {
		return ""
	}
	return strings.TrimRight(string(b[head:]), "\x00")
}
