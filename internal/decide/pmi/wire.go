package pmi

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLine is the longest line that is taken, without its end. MPICH writes at most 1,023 bytes up to 4.0, and later what a
// key, a value and a little more need.
const MaxLine = 16 << 10

// What get_maxes says, with the byte that C's strings need at their end: hydra's figures. MPICH up to 4.0 lowers the value's to
// 674 by itself, for its line of 1,024 bytes.
const (
	maxName  = 256
	maxKey   = 64
	maxValue = 1024
)

// multiLine is the whole first line of the only command that has more: they follow, up to endcmd.
const multiLine = "mcmd=spawn"

// command is what a rank says in a line: cmd=NAME and further words KEY=VALUE.
type command struct {
	name string
	args map[string]string
}

// parse splits a line. The argument message, that of abort, is whatever follows: MPICH 4.1 and 4.2 do not quote it. A command
// with a word that is no KEY=VALUE (a service's name with a space) has no name, so that it counts as unknown.
func parse(line string) (command, error) {
	line, message, told := strings.Cut(line, " message=")
	if !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl) {
		return command{}, errors.New("bytes that are no text")
	}
	if line == multiLine {
		return command{name: multiLine}, nil
	}
	first, rest, _ := strings.Cut(line, " ")
	name, ok := strings.CutPrefix(first, "cmd=")
	if !ok {
		return command{}, fmt.Errorf("line that begins with %.20q, want cmd=", first)
	}
	c := command{name: name, args: map[string]string{}}
	if told {
		c.args["message"] = printable(message)
	}
	for word := range strings.SplitSeq(rest, " ") {
		key, value, ok := strings.Cut(word, "=")
		if ok {
			c.args[key] = value
		} else if word != "" {
			c.name = ""
		}
	}
	return c, nil
}

// printable replaces what could not be written to a terminal.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(s, "?"))
}
