package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A Budget is what the tests of a package may cost, and what each of them is said to, in seconds of the whole machine: a test with a
// share of half of it costs half of the time that it takes (see Share).
type Budget struct {
	Package string // within this module
	Seconds float64
	Tests   []Cost
}

// A Cost is that of a test.
type Cost struct {
	Test    string
	Seconds float64
}

// ReadBudgets reads a file of budgets: a line "package seconds", and below it, indented, a line "test seconds" for each test.
func ReadBudgets(file string) ([]Budget, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("harness: budgets: %w", err)
	}
	var all []Budget
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("harness: budgets: %s:%d: found %d words, wanted a name and seconds", file, n, len(words))
		}
		seconds, err := strconv.ParseFloat(words[1], 64)
		if err != nil {
			return nil, fmt.Errorf("harness: budgets: %s:%d: %w", file, n, err)
		}
		switch {
		case line[0] != ' ' && line[0] != '\t':
			all = append(all, Budget{Package: words[0], Seconds: seconds})
		case len(all) == 0:
			return nil, fmt.Errorf("harness: budgets: %s:%d: found a test, wanted a package first", file, n)
		default:
			b := &all[len(all)-1]
			b.Tests = append(b.Tests, Cost{words[0], seconds})
		}
	}
	return all, nil
}
