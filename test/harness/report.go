package harness

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Reproduce is the command that carries out a plan again.
func (p Plan) Reproduce() string {
	return fmt.Sprintf("go test ./test/matrix -v -seed %d -cycles %d -iters %d -run 'TestMatrix/%s$'", p.Seed, p.Cycles, p.Iters, p.Name())
}

// Name is the plan's name as a subtest.
func (p Plan) Name() string {
	return fmt.Sprintf("%s/face=%s/driver=%s/restart=%s/n=%d", p.Program.Name, p.Face, p.Driver, p.Restart, p.Ranks)
}

// Table sums up reports: a line for each program, and for each failure its seed and command.
func Table(reports []Report) string {
	type row struct {
		jobs, cycles, failed int
		took                 time.Duration
	}
	rows, order, total := map[string]*row{}, []string{}, row{}
	var failures strings.Builder
	for _, r := range reports {
		x, ok := rows[r.Plan.Program.Name]
		if !ok {
			x = &row{}
			rows[r.Plan.Program.Name], order = x, append(order, r.Plan.Program.Name)
		}
		for _, y := range []*row{x, &total} {
			y.jobs, y.cycles, y.took = y.jobs+1, y.cycles+r.Cycles, y.took+r.Took
			if r.Err != nil {
				y.failed++
			}
		}
		if r.Err != nil {
			first, _, _ := strings.Cut(r.Err.Error(), "\n")
			fmt.Fprintf(&failures, "failed: %s\n        %s\n", first, r.Plan.Reproduce())
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "program\tjobs\tcycles\tfailed\ttook\t")
	line := func(name string, x *row) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f s\t\n", name, x.jobs, x.cycles, x.failed, x.took.Seconds())
	}
	for _, name := range order {
		line(name, rows[name])
	}
	line("all", &total)
	w.Flush() // to memory
	return b.String() + failures.String()
}
