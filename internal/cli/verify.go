package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/agent"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/input"
	"github.com/byssus-hpc/byssus/internal/ui"
)

func (e *env) verify() *cobra.Command {
	var only uint64
	cmd := &cobra.Command{
		Use:   "verify [flags] JOB",
		Short: "Read all of a job's checkpoints and compare every checksum",
		Long: withJSON(`Read every byte of a job's checkpoints (or of the one given), of the files beside them, and of what was copied from the
caches of its nodes when byssus was gone, and compare it with its checksums. Damage is named: the checkpoint, the file, the chunk, the checksum found and the one wanted; the exit code is
122 then. A checkpoint that the running job drops meanwhile is no damage.`, "a list of objects", jsonVerified),
		Example:           "  byssus verify melt\n  byssus verify melt --checkpoint 3",
		Args:              jobArg,
		ValidArgsFunction: e.completeJobs,
		RunE:              func(_ *cobra.Command, args []string) error { return e.verifyJob(args[0], only) },
	}
	cmd.Flags().Uint64Var(&only, "checkpoint", 0, "number of the checkpoint (default: all)")
	e.addJSON(cmd)
	return cmd
}

// verified is the result for one checkpoint.
type verified struct {
	Checkpoint uint64 `json:"checkpoint,omitempty"`
	Node       string `json:"scavenged,omitempty"` // from whose cache it was copied
	Bytes      int64  `json:"bytes"`
	Err        string `json:"error,omitempty"`
}

func (e *env) verifyJob(name string, only uint64) error {
	job, err := e.job(name)
	if err != nil {
		return err
	}
	images, err := pick(job, only)
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
	for _, p := range append(ownParts(job, images), parts...) {
		v := p.verify()
		if v.Err != "" && p.gone() {
			e.say(fmt.Sprintf("%s: has been dropped meanwhile", p.name()))
			continue
		}
		results = append(results, v)
		switch {
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
		return exitError{ExitNot, fmt.Errorf("cli: verify %s: its checkpoints are good, what is beside them is damaged", name)}
	}
	if damaged > 0 {
		return exitError{ExitNot, fmt.Errorf("cli: verify %s: %d of %d checkpoints are damaged", name, damaged, len(images)+len(parts))}
	}
	return nil
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

func ownParts(job *dataset.Job, checkpoints []uint64) []part {
	var list []part
	for _, n := range checkpoints {
		list = append(list, part{job.Checkpoints(), n, ""})
	}
	return list
}

// copiedParts are those of all checkpoints, or of the one asked for.
func copiedParts(job *dataset.Job, only uint64) ([]part, error) {
	nodes, err := job.Scavenged().Parts()
	var list []part
	for _, from := range nodes {
		checkpoints := from.Checkpoints()
		all, cerr := checkpoints.List()
		err = errors.Join(err, cerr)
		for _, n := range all {
			if only == 0 || n == only {
				list = append(list, part{checkpoints, n, filepath.Base(from.Dir)})
			}
		}
	}
	return list, err
}

func (p part) gone() bool { return p.of.Gone(p.checkpoint) }

func (p part) name() string {
	if p.node != "" {
		return fmt.Sprintf("checkpoint %d, from the cache of %s", p.checkpoint, p.node)
	}
	return fmt.Sprintf("checkpoint %d", p.checkpoint)
}

func (p part) verify() verified {
	var read atomic.Int64
	progress := ui.Start(os.Stderr, func() string { return fmt.Sprintf("verifying %s: %s", p.name(), ui.Bytes(read.Load())) })
	defer progress.Stop()
	dir, count := p.of.Path(p.checkpoint), func(b int64) { read.Add(b) }
	var err error
	if p.node != "" {
		err = agent.Inspect(context.Background(), dir, count)
	} else {
		_, err = dataset.Verify(dir, count)
	}
	v := verified{Checkpoint: p.checkpoint, Node: p.node, Bytes: read.Load()}
	if err != nil {
		v.Err = words(err)
	}
	return v
}
