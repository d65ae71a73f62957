// Package shared has variables of one rank in what all ranks of a process share.
package shared

import "github.com/byssus-hpc/byssus/amt"

type state struct{ n int }

var (
	own   amt.Local[state]
	here  *state
	table = map[int]*state{}
)

func program(c amt.Context) error {
	here = own.Of(c)            // want `^here keeps what own.Of is on one rank, and all ranks of a process share here: call Of where it is needed$`
	table[c.Rank()] = own.Of(c) // want `^table\[c.Rank\(\)\] keeps what own.Of is on one rank`
	mine := own.Of(c)
	mine.n++
	return nil
}
