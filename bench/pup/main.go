// Command pup measures package pup beside plain copies, code written by hand, encoding/gob, encoding/json, protobuf,
// msgpack (github.com/vmihailenco/msgpack), cbor (github.com/fxamacker/cbor) and msgp (github.com/tinylib/msgp).
//
// It prints Go's benchmark format and a table. The variants of one comparison take turns in rounds of the same minutes,
// and each is held against the first one: the ratio of the best times, and the median of the rounds' ratios, for the
// processor time of the process (user and system, all threads) and for the time on the wall. Garbage is collected
// before each turn, and not while the time is taken: what collecting costs is not in the times, so the lines say how much
// each variant allocates. Every variant must bring the value back before it is timed. It measures;
// it decides nothing: its exit code is 0 unless something could not be measured.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/bench/internal/report"
)

// A bench is one run of the benchmarks.
type bench struct {
	sizes
	rounds int
	turn   time.Duration // a turn repeats its work until about this much time has gone
	gib    int           // of the large value
	dir    string        // of the large file
	out    io.Writer
	rows   [][]string // of the table
}

// sizes are how many objects the models have.
type sizes struct {
	particles, nodes, entries, shapes int
	calls                             int // for the small value, in one repetition
	numbers                           int // in the large slice
}

// usual are the sizes that the documentation speaks of.
var usual = sizes{particles: 100_000, nodes: 1_000_000, entries: 100_000, shapes: 100_000, calls: 1000, numbers: 4 << 20}

func main() {
	b := &bench{sizes: usual, out: os.Stdout}
	flag.IntVar(&b.rounds, "rounds", 9, "rounds of each comparison")
	flag.DurationVar(&b.turn, "turn", 25*time.Millisecond, "least `time` of a variant's turn in a round")
	only := flag.String("only", "plain,records,tree,maps,shapes,small,graph", "models to measure, with commas")
	large := flag.Bool("large", false, "also stream a large value and print the memory that it takes")
	flag.IntVar(&b.gib, "gib", 1, "size of the large value in GiB")
	flag.StringVar(&b.dir, "scratch", os.TempDir(), "`directory` for the large value's file")
	flag.Parse()
	models := strings.Split(*only, ",")
	if *large {
		models = append(models, "large")
	}
	if err := b.measure(models); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measure runs the chosen models and goes on with the next when one fails.
func (b *bench) measure(models []string) error {
	parts := map[string]func() error{"plain": b.plain, "records": b.records, "tree": b.tree, "maps": b.maps,
		"shapes": b.drawing, "small": b.small, "graph": b.graph, "large": b.large}
	report.Header(b.out, "github.com/byssus-hpc/byssus/bench/pup")
	var errs []error
	for _, name := range models {
		part, ok := parts[name]
		if !ok {
			return fmt.Errorf("bench: no model is named %q", name)
		}
		if err := part(); err != nil {
			errs = append(errs, err)
		}
		report.Load(b.out)
	}
	b.table()
	return errors.Join(errs...)
}
