package amt

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/byssus-hpc/byssus/amt"
)

// TestStorm: elements that migrate at any moment handle each message once, and hear each broadcast, on every transport, though ranks
// remember next to nothing of where they are, and an epoch fails between.
func TestStorm(t *testing.T) {
	messages, long := 25_000, os.Getenv("BYSSUS_TEST_LONG") != ""
	if long {
		messages = 500_000
	}
	t.Logf("seed %d", *seed)
	program := build(t, t.TempDir(), "./testdata/storm")
	var ways []start
	for _, s := range starts() {
		if s.argv == nil {
			ways = append(ways, s, s, s, s)
		} else if ways = append(ways, s); s.argv[2] == "4" && long { // 8 ranks take both processors from all other tests
			ways = append(ways, start{strings.Replace(s.name, "4", "8", 1), append([]string{s.argv[0], "-n", "8"}, s.argv[3:]...)})
		}
	}
	digest := ""
	for i, s := range ways {
		env := []string{amt.PlacesVariable + "=4"}
		if s.argv == nil {
			env = append(env, fmt.Sprintf("%s=%d", amt.RanksVariable, []int{2, 3, 5, 8}[i]))
		}
		argv := []string{program, "-fails", "-seed", fmt.Sprint(*seed), "-messages", fmt.Sprint(messages), "-rounds", "2"}
		if *lasting > 0 {
			argv = append(argv, "-for", (*lasting / time.Duration(len(ways))).String())
		}
		out, err := s.run(t, env, argv...)
		t.Logf("%s, %v: %s", s.name, env, out)
		if err != nil || !strings.Contains(out, "each was handled once") {
			t.Errorf("%s, %v: %v\n%s", s.name, env, err, out)
		}
		if digest == "" {
			digest = out
		}
		if *lasting == 0 && !strings.HasSuffix(out, digest) { // a library may say something before
			t.Errorf("%s: %s, on goroutines %s", s.name, out, digest)
		}
	}
}

// TestOrdered: ordered messages are heard in their turn, and broadcasts to sections once each, on every transport, though senders and receivers
// migrate at any moment, and an epoch fails between.
func TestOrdered(t *testing.T) {
	steps := 30
	if os.Getenv("BYSSUS_TEST_LONG") != "" {
		steps = 3000
	}
	t.Logf("seed %d", *seed)
	program := build(t, t.TempDir(), "./testdata/ordered")
	for _, s := range starts() {
		env := []string{amt.PlacesVariable + "=4"}
		out, err := s.run(t, env, program, "-seed", fmt.Sprint(*seed), "-steps", fmt.Sprint(steps))
		if err != nil || !strings.Contains(out, "each was heard in its turn") {
			t.Errorf("%s: %v\n%s", s.name, err, out)
		}
	}
}
