package amt

import "fmt"

// Table is the numbers of the handlers, a line each.
func Table() ([]string, error) {
	all, err := table()
	var lines []string
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("handler %d: %v", e.id, e))
	}
	return lines, err
}
