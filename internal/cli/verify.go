package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/input"
	storepart "github.com/byssus-hpc/byssus/internal/store/part"
	"github.com/byssus-hpc/byssus/internal/ui"
)

func (e *env) verify() *cobra.Command {
	var only string
	cmd := &cobra.Command{
		Use:   "verify [flags] JOB",
		Short: "Read all of a job's checkpoints and compare every checksum",
		Long: withJSON(`Read every byte of a job's checkpoints (or of the one given), of the files beside them, and of what was copied from the
caches of its nodes when byssus was gone, and compare it with its checksums. Damage is named: the checkpoint, the file, the chunk, the checksum found and the one wanted; the exit code is
122 then. A checkpoint that the running job drops meanwhile is no damage. Of datasets of files that a program writes itself
(byssus run --plain) every file is compared, also where it lies in the prefix, and all that are damaged are named.`, "a list of objects", jsonVerified),
		Example:           "  byssus verify melt\n  byssus verify melt --checkpoint 3",
		Args:              jobArg,
		ValidArgsFunction: e.completeJobs,
		RunE: func(_ *cobra.Command, args []string) error {
			which, err := parseChosen("verify", only)
			if err != nil {
				return err
			}
			return e.verifyJob(args[0], which)
		},
	}
	cmd.Flags().StringVar(&only, "checkpoint", "", "number of the checkpoint, or number or name of the dataset (default: all)")
	e.addJSON(cmd)
	return cmd
}

// verified is the result for one checkpoint.
type verified struct {
	Checkpoint uint64   `json:"checkpoint,omitempty"`
	Node       string   `json:"scavenged,omitempty"` // from whose cache it was copied
	Name       string   `json:"name,omitempty"`      // of a dataset of files
	Bytes      int64    `json:"bytes"`
	Err        string   `json:"error,omitempty"`
	Damaged    []string `json:"damaged,omitempty"` // of a dataset of files: all that is
}

func (e *env) verifyJob(name string, which chosen) error {
	job, err := e.job(name)
	if err != nil {
		return err
	}
	only, err := which.in(job)
	if err != nil {
		return err
	}
	all, err := storedParts(job, only)
	if err != nil {
		return err
	}
	results, damaged := []verified{}, 0
	others := job.Verify()
	if err := verifyInput(job); err != nil {
		others = append(others, err)
	}
	for _, err := range others {
		results = append(results, verified{Err: words(err)})
		e.say(err.Error())
	}
	parts, err := copiedParts(job, only)
	if err != nil {
		others = append(others, err)
	}
	for _, p := range append(all, parts...) {
		v := p.verify()
		if v.Err != "" && p.gone() {
			e.say(fmt.Sprintf("%s: has been dropped meanwhile", p.name()))
			continue
		}
		results = append(results, v)
		switch {
		case len(v.Damaged) > 0:
			damaged++
			for _, why := range v.Damaged {
				e.say(fmt.Sprintf("%s: %s", p.name(), why))
			}
		case v.Err != "":
			damaged++
			e.say(fmt.Sprintf("%s: %s", p.name(), v.Err))
		case !e.json:
			fmt.Fprintf(e.out, "%s: %s, good\n", p.name(), ui.Bytes(v.Bytes))
		}
	}
	if e.json {
		if err := e.printJSON(results); err != nil {
			return err
		}
	}
	if len(others) > 0 && damaged == 0 {
		return exitError{ExitNot, fmt.Errorf("cli: verify %s: its %s are good, what is beside them is damaged", name, plural(job))}
	}
	if damaged > 0 {
		return exitError{ExitNot, fmt.Errorf("cli: verify %s: %d of %d %s are damaged", name, damaged, len(all)+len(parts), plural(job))}
	}
	return nil
}

// plural is how those are called from which a job goes on.
func plural(job *dataset.Job) string {
	if job.Meta.Plain {
		return "datasets"
	}
	return "checkpoints"
}

// storedParts are those of the store, or the one that was asked for.
func storedParts(job *dataset.Job, only uint64) ([]part, error) {
	images, err := pick(job, only)
	if err != nil {
		return nil, err
	}
	all := ownParts(mainStream(job), images)
	if of := job.Of(agent.Written); !job.Meta.Plain && only == 0 {
		var written []uint64
		written, err = of.List()
		all = append(all, ownParts(of, written)...)
	}
	return all, err
}

// verifyInput reads what the job keeps of its standard input.
func verifyInput(job *dataset.Job) error {
	var id [16]byte
	if b, err := hex.DecodeString(job.Meta.ID); err != nil || copy(id[:], b) != len(id) {
		return nil // that is said of job.json
	}
	return input.Check(job.Dir, id)
}

// part is a checkpoint, or what was copied of one from the cache of a node.
type part struct {
	of         *dataset.Datasets // among which it is
	checkpoint uint64
	node       string // from whose cache it was copied, empty: it is the store's own
}

func ownParts(of *dataset.Datasets, checkpoints []uint64) []part {
	var list []part
	for _, n := range checkpoints {
		list = append(list, part{of, n, ""})
	}
	return list
}

// copiedParts are those of all checkpoints, or of the one asked for.
func copiedParts(job *dataset.Job, only uint64) ([]part, error) {
	nodes, err := job.Scavenged().Parts()
	var list []part
	for _, from := range nodes {
		streams, serr := from.Streams()
		err = errors.Join(err, serr)
		for _, s := range streams {
			of := from.Of(s)
			all, cerr := of.List()
			err = errors.Join(err, cerr)
			for _, n := range all {
				if only == 0 || n == only && s == mainStream(job).Stream {
					list = append(list, part{of, n, filepath.Base(from.Dir)})
				}
			}
		}
	}
	return list, err
}

func (p part) gone() bool { return p.of.Gone(p.checkpoint) }

func (p part) name() string {
	name := fmt.Sprintf("checkpoint %d", p.checkpoint)
	if p.of.Stream != 0 {
		name = strings.TrimRight(fmt.Sprintf("dataset %d %s", p.checkpoint, p.label()), " ")
	}
	if p.node != "" {
		name += ", from the cache of " + p.node
	}
	return name
}

func (p part) verify() verified {
	var read atomic.Int64
	progress := ui.Start(os.Stderr, func() string { return fmt.Sprintf("verifying %s: %s", p.name(), ui.Bytes(read.Load())) })
	defer progress.Stop()
	dir, count := p.of.Path(p.checkpoint), func(b int64) { read.Add(b) }
	v := verified{Checkpoint: p.checkpoint, Node: p.node, Name: p.label()}
	var err error
	switch {
	case p.node != "":
		err = agent.Inspect(context.Background(), dir, count)
	case p.of.Stream != 0:
		v.Damaged, err = damagedIn(dir, count)
	default:
		_, err = dataset.Verify(dir, count)
	}
	if err == nil && len(v.Damaged) > 0 {
		err = errors.New(v.Damaged[0])
	}
	if v.Bytes = read.Load(); err != nil {
		v.Err = words(err)
	}
	return v
}

// label is what the program calls a dataset of files; empty: it is none, or nobody can tell.
func (p part) label() string {
	if p.of.Stream == 0 {
		return ""
	}
	m, err := dataset.ReadManifest(p.of.Path(p.checkpoint))
	if err != nil || m.Label == nil {
		return ""
	}
	return m.Label.Name
}

// damagedIn reads all files of a dataset, wherever they lie, and says of each place that is not as it was written what is wrong there.
func damagedIn(dir string, progress func(int64)) ([]string, error) {
	m, err := dataset.Check(dir)
	if err != nil {
		return nil, err
	}
	list, err := m.Parts()
	if err != nil {
		return nil, err
	}
	found, err := storepart.Verify(context.Background(), dir, list, progress)
	var all []string
	for _, d := range found {
		all = append(all, words(errors.New(d.Why)))
	}
	return all, err
}
