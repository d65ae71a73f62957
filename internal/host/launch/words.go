package launch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// words are what a launcher says by itself, which is kept apart from what ranks print: hydra says it on its standard output (see
// output), Open MPI's mpirun where a variable of its environment tells, which ranks do not get. It is handed on to standard error
// at once, but for the words at the end of a job, in which a rank has "terminated badly": those are held, since Byssus may have ended
// the ranks itself, or go on from a checkpoint.
//
// Where a user has set that variable, or hydra's pattern, and on several nodes, all is as the launcher says it.
type words struct {
	done chan struct{}
	held []byte // valid after done
}

// ownWords is the variable of Open MPI, ownFile the descriptor that it names.
const (
	ownWords = "OPAL_OUTPUT_STDERR_FD"
	ownFile  = "3"
)

// ends are in the words of Open MPI's mpirun at the end of a job, between lines of dashes.
func ends(block string) bool {
	return slices.ContainsFunc([]string{"Primary job  terminated normally", " noticed that process rank ",
		" detected that one or more processes exited with non-zero status"}, func(s string) bool { return strings.Contains(block, s) })
}

// endsHydra says whether a line is of the words of hydra at the end of a job.
func endsHydra(line string) bool {
	return slices.ContainsFunc([]string{"=====", "=   ", "YOUR APPLICATION TERMINATED WITH THE EXIT STRING",
		"This typically refers to a problem with your application.", "Please see the FAQ page for debugging suggestions"},
		func(s string) bool { return strings.HasPrefix(line, s) })
}

// listen returns words that are written into a file. The caller closes that when the launcher has it.
func listen(to io.Writer) (*words, *os.File, error) {
	from, into, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("launch: words of the launcher: %w", err)
	}
	w := &words{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer from.Close()
		w.sort(from, to)
	}()
	return w, into, nil
}

// sort hands on what is not held. Nothing depends on whether somebody reads it.
func (w *words) sort(from io.Reader, to io.Writer) {
	lines := bufio.NewReader(from)
	var block []byte // of lines of which it is not known yet
	inside := false  // from one line of dashes to the next
	for {
		line, err := lines.ReadBytes('\n')
		text := strings.TrimRight(string(line), "\n")
		dashes := len(text) >= 70 && strings.Trim(text, "-") == ""
		block = append(block, line...)
		switch {
		case err != nil:
			_, _ = to.Write(block)
			return
		case dashes && !inside:
			_, _ = to.Write(block[:len(block)-len(line)])
			block, inside = line, true
		case inside && !dashes, !inside && text == "": // hydra's begin with an empty line
		case inside && ends(string(block)), !inside && endsHydra(text):
			w.held, block, inside = append(w.held, block...), nil, false
		default:
			_, _ = to.Write(block)
			block, inside = nil, false
		}
	}
}

// close waits until everything is sorted that the launcher, which has ended, has said.
func (w *words) close() {
	if w != nil {
		<-w.done
	}
}
