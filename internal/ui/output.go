package ui

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Output is a stream of text for a terminal or a file. Control characters other than line feed and tab are written as
// \x1b or \u202e: what others say (names of programs, hosts, files, errors) must not steer the terminal. The first
// error of the stream is kept, since most who print do not look.
type Output struct {
	w   io.Writer
	err error
}

// NewOutput returns the text stream over w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

// Err is the first error of writing.
func (o *Output) Err() error { return o.err }

// Write writes text; the runes of one Write are whole.
func (o *Output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	if _, err := io.WriteString(o.w, escape(string(p), "\n\t", plainEscape)); err != nil {
		o.err = err
		return 0, err
	}
	return len(p), nil
}

// Line makes one line of a text: line feeds and tabs are written as \n and \t, other control characters as above.
func Line(s string) string {
	return escape(s, "", plainEscape)
}

// JSON writes the control characters in a JSON text, other than line feeds, as JSON does: the values stay the same.
func JSON(b []byte) string {
	return escape(string(b), "\n", func(r rune, _ byte) string {
		if r > 0xffff {
			r -= 0x10000
			return fmt.Sprintf(`\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

func plainEscape(r rune, b byte) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\t':
		return `\t`
	case r == utf8.RuneError || r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, b)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// escape replaces what cannot be printed, but for the bytes in keep. The replacement is told the rune and its first byte.
func escape(s, keep string, replacement func(rune, byte) string) string {
	var out strings.Builder
	for i, n := 0, 0; i < len(s); i += n {
		var r rune
		r, n = utf8.DecodeRuneInString(s[i:])
		broken := r == utf8.RuneError && n == 1
		if !broken && unicode.IsPrint(r) || strings.IndexByte(keep, s[i]) >= 0 {
			out.WriteString(s[i : i+n])
		} else {
			out.WriteString(replacement(r, s[i]))
		}
	}
	return out.String()
}
