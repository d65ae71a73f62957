package elfcheck

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// What is looked at when a command's words are: a guess is not worth more.
const (
	mostWords   = 200
	mostText    = 64 << 10 // of a script
	deepScripts = 3        // scripts in scripts
)

// FaceOf guesses the ABI of the MPI program that a command starts in the end, when its own program is linked to none: the first
// word that names a program which is. Words are arguments, what a shell would see in them, and in the scripts among them.
// Empty: none was found.
func FaceOf(command []string) string {
	w := words{seen: map[string]bool{}}
	for _, arg := range command {
		if face := w.look(arg, 0); face != "" {
			return face
		}
	}
	return ""
}

// words are those that have been looked at.
type words struct{ seen map[string]bool }

func (w *words) look(text string, depth int) string {
	for _, word := range append([]string{text}, strings.FieldsFunc(text, ofShell)...) {
		if w.seen[word] || len(w.seen) >= mostWords {
			continue
		}
		w.seen[word] = true
		if face := w.program(word, depth); face != "" {
			return face
		}
	}
	return ""
}

// ofShell says whether a character separates words for a shell.
func ofShell(c rune) bool { return strings.ContainsRune(" \t\n;&|()<>{}'\"`=", c) }

// program is the face of a program; of a script, that of a program which it names.
func (w *words) program(name string, depth int) string {
	path, err := find(name)
	if err != nil {
		return ""
	}
	if text := scriptText(path); text != "" {
		if depth == deepScripts {
			return ""
		}
		return w.look(text, depth+1)
	}
	f, err := open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	r := new(Report)
	objects, err := r.load(f, path, "")
	for _, o := range objects[min(1, len(objects)):] {
		o.file.Close()
	}
	if err != nil {
		return ""
	}
	return r.Face
}

// scriptText is the beginning of a script, empty for anything else.
func scriptText(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostText))
	if err != nil || !bytes.HasPrefix(text, []byte("#!")) {
		return ""
	}
	return string(text)
}
