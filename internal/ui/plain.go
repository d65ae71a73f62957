package ui

import (
	"fmt"
	"io"
	"strings"
)

// inside are the packages that begin their errors with their names. A test compares them with the folders that there are.
const inside = " abi adopt agent bulk cli client control coord coordsrv dataset elfcheck engine faults files format frames haltrule holding house input keep launch ledger" +
	" localmpi machine mover mpilib mpispec node notify outputs own parity part picture pmi pmifd pupgen reap recovery redset resman routed rundir sandbox settings settingsfile snapshots spawn timeline ui vettool "

// Plain turns what an error says into what a user is told: it begins with the thing, and leaves out the names of our packages,
// with which errors begin ("package: operation: object: found, wanted") and which stand in the middle of wrapped ones. Several
// errors, which are lines, become one sentence.
//
// A name that users choose must therefore not stand by itself before a colon: "program launch: not found".
func Plain(text string) string {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "; ")
	parts := strings.Split(text, ": ")
	kept := parts[:0]
	for i, p := range parts {
		last := i == len(parts)-1
		if at := strings.LastIndex(p, "; ") + len("; "); !last && at > 1 && isPackage(p[at:]) { // a second error begins here
			parts[i+1] = p[:at] + parts[i+1]
			continue
		}
		if last || !isPackage(p) {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, ": ")
}

func isPackage(word string) bool {
	return word != "" && !strings.Contains(word, " ") && strings.Contains(inside, " "+word+" ")
}

// Say writes a line for the user.
func Say(w io.Writer, text string) { fmt.Fprintf(w, "byssus: %s\n", Line(Plain(text))) }
