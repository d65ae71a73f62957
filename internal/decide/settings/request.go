package settings

import (
	"fmt"
	"path"
	"strings"
)

// Request is what a program tells of its settings, or asks of them (docs/format/client.md).
type Request struct {
	Dir          string // its working directory
	Environ, App []string
	Question     string // for Query; empty: none
}

// ParseRequest takes the text of a message of a program apart: its working directory, E NAME=value of its environment, C NAME=value of what
// it has given to SCR_Config, at last what it asks for.
func ParseRequest(text []string) (Request, error) {
	if len(text) == 0 || !path.IsAbs(text[0]) {
		return Request{}, fmt.Errorf("settings: request: no working directory in %d strings", len(text))
	}
	q := Request{Dir: text[0]}
	for i, s := range text[1:] {
		switch kind, setting, ok := strings.Cut(s, " "); {
		case ok && kind == "E":
			q.Environ = append(q.Environ, setting)
		case ok && kind == "C":
			q.App = append(q.App, setting)
		case i == len(text)-2:
			q.Question = s
		default:
			return Request{}, fmt.Errorf("settings: request: string %d is %.60q, wanted E NAME=value or C NAME=value", i+1, s)
		}
	}
	return q, nil
}
