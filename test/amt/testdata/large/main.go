// Command large sends a message of so many bytes between two ranks; if that is more than MPI can count, also one that is longer than any
// may be.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/byssus-hpc/byssus/amt"
)

const (
	mostOfMPI = 1<<31 - 1
	tooLong   = 1 << 32
	page      = 4096
)

var (
	texts amt.Handler[[]byte]
	had   amt.Local[int]
)

func init() {
	texts.Is(func(c amt.Context, m *[]byte) {
		for at, n := 0, len(*m); at < n; at += page {
			if (*m)[at] != byte(at/page) {
				c.Fail(fmt.Errorf("byte %d of %d is %d", at, n, (*m)[at]))
				return
			}
		}
		*had.Of(c) += len(*m)
	})
}

func main() {
	amt.Main(func(c amt.Context) error {
		long, err := strconv.Atoi(os.Args[1])
		if err != nil {
			return err
		}
		if err := c.Collective("long", sends(long)).Wait(c); err != nil {
			return err
		}
		if c.Rank() == 1 && *had.Of(c) != long {
			return fmt.Errorf("%d bytes have come", *had.Of(c))
		}
		if long > mostOfMPI {
			err := c.Collective("too long", sends(tooLong)).Wait(c)
			if err == nil || !strings.Contains(err.Error(), " bytes: it may have ") {
				return errors.Join(errors.New("a message that is too long"), err)
			}
		}
		if c.Rank() == 0 {
			fmt.Println("all has come")
		}
		return nil
	})
}

// sends sends a message of n bytes from rank 0 to rank 1.
func sends(n int) func(c amt.Context) error {
	return func(c amt.Context) error {
		if c.Rank() > 0 {
			return nil
		}
		text := make([]byte, n)
		for at := 0; at < n; at += page {
			text[at] = byte(at / page)
		}
		texts.Send(c, 1, &text)
		return nil
	}
}
