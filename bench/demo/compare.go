package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

// thermo returns the complete thermo lines of LAMMPS's output: six numbers, of which the first is the step.
func thermo(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 6 || !strings.HasSuffix(line, "\n") {
			continue
		}
		var numbers [6]float64
		n, _ := fmt.Sscan(line, &numbers[0], &numbers[1], &numbers[2], &numbers[3], &numbers[4], &numbers[5])
		if n == 6 && !strings.Contains(f[0], ".") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

// lastStep is the step of the last complete thermo line.
func lastStep(text string) int {
	lines := thermo(text)
	if len(lines) == 0 {
		return 0
	}
	step, err := strconv.Atoi(strings.Fields(lines[len(lines)-1])[0])
	if err != nil {
		return 0
	}
	return step
}

// loopTime finds "Loop time of SECONDS on ..." in LAMMPS's output.
func loopTime(text string) (float64, error) {
	for line := range strings.Lines(text) {
		var s float64
		if n, _ := fmt.Sscanf(line, "Loop time of %f", &s); n == 1 {
			return s, nil
		}
	}
	return 0, fmt.Errorf("no loop time in LAMMPS's output")
}

// compare holds the thermo lines of the two runs against each other. On the terminal the steps between a checkpoint
// and a kill come twice; in the log file, whose position is part of a checkpoint, they must not.
func (d *demo) compare(native, under record) error {
	want := thermo(native.log)
	if len(want) != d.steps/thermoEvery+1 {
		return fmt.Errorf("the native run printed %d thermo lines, want %d", len(want), d.steps/thermoEvery+1)
	}
	if err := same(thermo(under.log), want); err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	byStep := map[string]string{}
	for _, line := range want {
		byStep[strings.Fields(line)[0]] = line
	}
	seen := map[string]bool{}
	for _, line := range thermo(under.screen) {
		step := strings.Fields(line)[0]
		if byStep[step] != line {
			return fmt.Errorf("terminal: found %q, want %q", line, byStep[step])
		}
		seen[step] = true
	}
	if len(seen) != len(want) {
		return fmt.Errorf("terminal: %d different steps, want %d", len(seen), len(want))
	}
	d.say("all %d thermo lines are the same, on the terminal and in the log file", len(want))
	fmt.Printf("\n  the last line, native and under Byssus:\n  %s\n  %s\n", want[len(want)-1], thermo(under.log)[len(want)-1])
	return nil
}

func same(found, want []string) error {
	for i := range min(len(found), len(want)) {
		if found[i] != want[i] {
			return fmt.Errorf("line %d: found %q, want %q", i, found[i], want[i])
		}
	}
	if len(found) != len(want) {
		return fmt.Errorf("%d thermo lines, want %d", len(found), len(want))
	}
	return nil
}

// table prints what it cost.
func (d *demo) table(native, under record) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w)
	row := func(what, value string) { fmt.Fprintf(w, "%s\t  %s\t\n", what, value) }
	row("wall time, native", fmt.Sprintf("%.1f s", native.wall.Seconds()))
	row("wall time under Byssus, with the lost work", fmt.Sprintf("%.1f s", under.wall.Seconds()))
	for _, c := range under.checkpoints {
		row(fmt.Sprintf("checkpoint %d: application stall", c.Number), fmt.Sprintf("%.0f ms", float64(c.StallNS)/1e6))
		row(fmt.Sprintf("checkpoint %d: images of both ranks", c.Number), fmt.Sprintf("%.1f MB", float64(c.Bytes)/1e6))
	}
	for _, r := range under.restarts {
		row("restart ("+r.how+"), until it computes", fmt.Sprintf("%.2f s", r.took.Seconds()))
	}
	w.Flush()
}
