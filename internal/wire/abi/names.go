package abi

import "fmt"

// PhaseName is the word for a Phase.
func PhaseName(phase uint64) string {
	return name(phase, "starting", "running", "pending", "stopping", "draining", "writing", "reading", "restoring", "ended")
}

// WhereName is the word for a Where.
func WhereName(where uint64) string {
	return name(where, "computing", "collective", "waiting", "holding", "initializing")
}

func name(i uint64, names ...string) string {
	if i < uint64(len(names)) {
		return names[i]
	}
	return fmt.Sprintf("unknown (%d)", i)
}
