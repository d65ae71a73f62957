// Package mpi has some signatures of the real package mpi and nothing behind them.
package mpi

type Comm struct{ n int }

func (c *Comm) Rank() int      { return 0 }
func (c *Comm) Barrier() error { return nil }
