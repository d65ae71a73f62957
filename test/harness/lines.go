package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Key names one result: who printed it, in which iteration, under which name.
type Key struct {
	Rank, Iter int
	Name       string
}

func (k Key) String() string { return fmt.Sprintf("rank %d, iteration %d, %s", k.Rank, k.Iter, k.Name) }

// Results are the result lines of a program.
type Results map[Key]string

var resultLine = regexp.MustCompile(`R (\d+) (\d+) (\w+) ([0-9a-f]{16}) ([0-9a-f]{8})`)

// Add takes over the result lines of an output. Lines that were torn (their check does not fit) are left out; a line
// whose value differs from one seen before is an error.
func (r Results) Add(stdout string) error {
	for _, m := range resultLine.FindAllStringSubmatch(stdout, -1) {
		body := m[0][:len(m[0])-9]
		if checkOf(body) != m[5] {
			continue
		}
		rank, _ := strconv.Atoi(m[1]) // digits by the expression
		iter, _ := strconv.Atoi(m[2])
		key := Key{rank, iter, m[3]}
		if before, ok := r[key]; ok && before != m[4] {
			return fmt.Errorf("harness: results: %v: found %s and %s", key, before, m[4])
		}
		r[key] = m[4]
	}
	return nil
}

// AddFiles takes over the result lines that the ranks of programs started with TEST_RESULTS=prefix have written. Unlike
// their output, which comes through the launcher, these are never torn.
func (r Results) AddFiles(prefix string) error {
	files, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return fmt.Errorf("harness: results: %w", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("harness: results: %w", err)
		}
		if err := r.Add(string(text)); err != nil {
			return err
		}
	}
	return nil
}

// checkOf is the check that ends a result line: FNV-1a, folded.
func checkOf(body string) string {
	h := uint64(0xcbf29ce484222325)
	for _, b := range []byte(body) {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	return fmt.Sprintf("%08x", uint32(h^h>>32))
}

// Compare says how r differs from want; nil when it does not.
func (r Results) Compare(want Results) error {
	var wrong, missing, extra []string
	for key, value := range want {
		switch found, ok := r[key]; {
		case !ok:
			missing = append(missing, key.String())
		case found != value:
			wrong = append(wrong, fmt.Sprintf("%v: found %s, want %s", key, found, value))
		}
	}
	for key := range r {
		if _, ok := want[key]; !ok {
			extra = append(extra, key.String())
		}
	}
	if len(wrong)+len(missing)+len(extra) == 0 {
		return nil
	}
	return fmt.Errorf("harness: results: %s%s%s", some("wrong", wrong), some("missing", missing), some("never printed natively", extra))
}

func some(what string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	return fmt.Sprintf("%d %s (%s) ", len(list), what, strings.Join(list[:min(3, len(list))], "; "))
}

var progressLine = regexp.MustCompile(`(?m)^iter (\d+)$`)

// progress counts the progress lines of an output.
func progress(stdout string) int {
	return strings.Count(stdout, "\niter ") + strings.Count(stdout[:min(5, len(stdout))], "iter ")
}

// LastIteration is the newest progress of an output, -1 before the first.
func LastIteration(stdout string) int {
	all := progressLine.FindAllStringSubmatch(stdout, -1)
	if len(all) == 0 {
		return -1
	}
	n, _ := strconv.Atoi(all[len(all)-1][1]) // digits by the expression
	return n
}

// Failures are the lines in which a program says that it found something wrong.
func Failures(stderr string) []string {
	var found []string
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "FAIL ") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
