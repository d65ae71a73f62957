package main

import (
	"bytes"
	"fmt"
)

// writer collects the text of a file.
type writer struct{ bytes.Buffer }

// f writes a formatted line.
func (w *writer) f(format string, args ...any) {
	fmt.Fprintf(w, format, args...)
	w.WriteByte('\n')
}

// file starts a generated C file with its purpose.
func file(purpose string) *writer {
	w := &writer{}
	w.WriteString(header)
	w.f("/* %s */", purpose)
	return w
}
