// Package amttest runs programs of package amt in tests, on ranks that are goroutines of the test's process, and tries them harder than
// a plain run does:
//
//   - What comes from other ranks is taken in a random order, within what amt guarantees: a program that relies on more fails here, and
//     not in a year on another machine. The seed is told with a failure, and BYSSUS_AMT_SEED repeats it, as far as Go's scheduler does.
//   - The memory of a message is overwritten when it has been handled: who keeps a pointer to it, or into it, finds 0xdb in each byte.
//   - t.Fatal, t.FailNow, require and the like in a body, a handler or a task end the test with what they have said, and no rank waits.
//   - The error of any rank is the test's, with what it wraps (errors.Is, errors.As).
//
// That Contexts are used where they belong is looked at by every run. The race detector sees what ranks share: use it, too.
package amttest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/byssus-hpc/byssus/amt"
)

// SeedVariable names the seed of the order in which what has come is taken; without it, each run has one of its own.
const SeedVariable = "BYSSUS_AMT_SEED"

// Run runs a program on n ranks, and ends the test if it fails.
func Run(t testing.TB, n int, main func(amt.Context) error) {
	t.Helper()
	if err := Try(t, n, main); err != nil {
		t.Fatal(err)
	}
}

// Try runs a program on n ranks, and returns its error, which tells the seed: for tests of programs that fail. If they have failed the
// test itself (t.Fatal on a rank), it ends here.
func Try(t testing.TB, n int, main func(amt.Context) error) error {
	t.Helper()
	seed := rand.Uint64() | 1
	if text := os.Getenv(SeedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("amttest: %s=%s: a number is wanted", SeedVariable, text)
		}
	}
	before := t.Failed()
	err := amt.Trial{Seed: seed, Poison: true}.RunLocal(n, main)
	if !before && t.Failed() {
		t.Logf("%s=%d", SeedVariable, seed)
		t.FailNow()
	}
	if err != nil {
		err = fmt.Errorf("%w\n(%s=%d)", err, SeedVariable, seed)
	}
	return err
}
