package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/byssus-hpc/byssus/internal/act/coordsrv"
	"github.com/byssus-hpc/byssus/internal/decide/haltrule"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/files"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/ui"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// shown is what show prints.
type shown struct {
	Meta       dataset.Meta         `json:"job"`
	State      string               `json:"state"`
	Dir        string               `json:"dir"`
	Running    *coordsrv.Status     `json:"running,omitempty"`
	Checkpoint *dataset.Manifest    `json:"checkpoint,omitempty"`
	Err        string               `json:"error,omitempty"`
	JobErr     string               `json:"job_error,omitempty"`
	Earlier    []uint64             `json:"of_an_earlier_job,omitempty"`
	Scavenged  []string             `json:"scavenged,omitempty"`
	Images     []shownImage         `json:"images,omitempty"`
	Dataset    *outputs.Entry       `json:"dataset,omitempty"` // of files
	Parts      []shownPart          `json:"parts,omitempty"`   // of it
	Halt       *haltrule.Conditions `json:"halt,omitempty"`
}

// shownPart describes what a rank has of a dataset of files.
type shownPart struct {
	Rank  int   `json:"rank"`
	Files int   `json:"files"`
	Size  int64 `json:"size"`
}

// shownImage describes one image file.
type shownImage struct {
	Rank     int    `json:"rank"`
	Part     int    `json:"part"`
	Size     int64  `json:"size"`
	Memory   int64  `json:"memory"` // bytes saved
	Chunks   int    `json:"chunks"`
	Mappings int    `json:"mappings"`
	Kernel   string `json:"kernel"`
	Libc     string `json:"libc"`
	MPI      string `json:"mpi"`
	Byssus   string `json:"byssus"`
}

func (e *env) show() *cobra.Command {
	var text string
	var log bool
	cmd := &cobra.Command{
		Use:   "show [flags] JOB",
		Short: "Show a job and one of its checkpoints in detail",
		Long: withJSON(`Show a job and the newest of its checkpoints, or the one given, in detail. The exit code is 122 when something of it is
damaged.

With --timeline: what happened to the job so far, over all its restarts, an event in each line: the time of day, the
seconds since this byssus began to run it, the event's name. With --checkpoint: what happened to that checkpoint, also
when it is gone.`, "an object", jsonShown) + jsonTimeline,
		Example:           "  byssus show melt\n  byssus show melt --checkpoint 3 --json\n  byssus show melt --timeline",
		Args:              jobArg,
		ValidArgsFunction: e.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			which, err := parseChosen("show", text)
			switch {
			case err != nil:
				return err
			case log:
				return e.showTimeline(args[0], which)
			}
			return e.showJob(cmd, args[0], which)
		},
	}
	cmd.Flags().StringVar(&text, "checkpoint", "", "number of the checkpoint, or number or name of the dataset (default: the newest)")
	cmd.Flags().BoolVar(&log, "timeline", false, "show what happened to the job")
	e.addJSON(cmd)
	return cmd
}

func (e *env) showJob(cmd *cobra.Command, name string, which chosen) error {
	job, err := e.job(name)
	if err != nil {
		return err
	}
	number, err := which.in(job)
	if err != nil {
		return err
	}
	images, earlier, err := pickOwn(job, number)
	if err != nil {
		return err
	}
	s := shown{Meta: job.Meta, State: stateOf(job), Dir: job.Dir, Earlier: earlier}
	s.Meta.Reason = ui.Plain(s.Meta.Reason)
	scavenged, err := job.Scavenged().Parts()
	if err != nil {
		s.Err = words(err)
	}
	for _, from := range scavenged {
		s.Scavenged = append(s.Scavenged, filepath.Base(from.Dir))
	}
	if st, err := dial(job).Status(cmd.Context()); err == nil {
		s.Running = &st
	}
	if len(images) > 0 {
		if err := s.about(job, images[len(images)-1]); err != nil {
			s.Err = words(err)
		}
	}
	if c, err := job.Halt(); err != nil {
		s.JobErr = words(err)
	} else if !c.None() {
		s.Halt = &c
	}
	if job.Damage != nil {
		s.JobErr = words(job.Damage)
	}
	if e.json {
		err = e.printJSON(s)
	} else {
		e.printShown(s)
		err = nil
	}
	if err == nil && (s.Err != "" || s.JobErr != "") {
		err = exitError{ExitNot, fmt.Errorf("cli: show %s: there is damage", name)}
	}
	return err
}

// about adds what there is of a checkpoint, or of a dataset of files.
func (s *shown) about(job *dataset.Job, n uint64) error {
	dir := mainStream(job).Path(n)
	var err error
	if s.Checkpoint, err = dataset.ReadManifest(dir); err != nil {
		return err
	}
	if !job.Meta.Plain {
		s.Images, err = imagesOf(dir, s.Checkpoint)
		return err
	}
	list, err := datasetsOf(job)
	for _, d := range list {
		if d.Dataset == n {
			s.Dataset = &d
		}
	}
	for rank := range s.Checkpoint.Ranks {
		if err == nil {
			var x *files.Index
			if x, err = files.Open(dir, rank); err == nil {
				s.Parts = append(s.Parts, shownPart{rank, len(x.Files), x.Size})
			}
		}
	}
	return err
}

func imagesOf(dir string, m *dataset.Manifest) ([]shownImage, error) {
	var out []shownImage
	for _, f := range m.Files {
		var rank, part int
		if _, err := fmt.Sscanf(f.Name, "rank-%d.%d.img", &rank, &part); err != nil {
			return out, fmt.Errorf("cli: show: file %q in the manifest: %w", f.Name, err)
		}
		im, err := dataset.OpenImage(dir, rank, part)
		if err != nil {
			return out, err
		}
		out = append(out, describe(im, f.Size))
	}
	return out, nil
}

func describe(im *format.Image, size int64) shownImage {
	h := &im.Header
	s := shownImage{Rank: int(h.Rank), Part: int(h.Part), Size: size, Chunks: len(im.Chunks), Mappings: len(im.VMAs),
		Kernel: abi.Text(h.Kernel[:]), Libc: abi.Text(h.Libc[:]), MPI: abi.Text(h.MPI[:]), Byssus: abi.Text(h.Byssus[:])}
	for _, c := range im.Chunks {
		s.Memory += int64(c.Length)
	}
	return s
}

func (e *env) printShown(s shown) {
	rows := [][]string{
		{"job", s.Meta.Name}, {"state", s.State}, {"directory", s.Dir}, {"program", strings.Join(s.Meta.App, " ")},
		{"ran in", s.Meta.Dir}, {"ranks", fmt.Sprint(s.Meta.Ranks)}, {"mpi", s.Meta.MPI}, {"built for", builtFor(s.Meta)},
		{"started", s.Meta.Started.Local().Format(time.DateTime)},
	}
	if r := s.Running; r != nil {
		rows = append(rows, []string{"running", fmt.Sprintf("%s, %s, pid %d", ui.Duration(r.Running), r.Phase, r.PID)})
	}
	if s.Running != nil {
		rows = append(rows, nodeRows(s.Running.Nodes)...)
	}
	if s.Meta.Reason != "" {
		rows = append(rows, []string{"ended because", s.Meta.Reason})
	}
	if s.Halt != nil {
		for _, line := range haltLines(*s.Halt) {
			rows = append(rows, []string{"halts", line})
		}
	}
	if d := s.Dataset; d != nil && s.Checkpoint != nil {
		rows = append(rows, []string{"dataset", fmt.Sprintf("%d, %s, %s, %d files, %s, %s", d.Dataset, d.Name, kindWords(*d), d.Files, ui.Bytes(int64(d.Bytes)),
			s.Checkpoint.Time.Local().Format(time.DateTime))}, []string{"where", whereWords(*d)})
	} else if m := s.Checkpoint; m != nil {
		rows = append(rows, []string{"checkpoint", fmt.Sprintf("%d, %s, %s", m.Checkpoint, ui.Bytes(m.Bytes), m.Time.Local().Format(time.DateTime))})
	}
	if n := s.Meta.Cached; n > 0 && s.State != dataset.StateFinished && (s.Checkpoint == nil || s.Checkpoint.Checkpoint < n) {
		what := "checkpoint"
		if s.Meta.Plain {
			what = "dataset"
		}
		rows = append(rows, []string{"in caches", fmt.Sprintf("%s %d, of its nodes", what, n)})
	}
	if len(s.Earlier) > 0 {
		rows = append(rows, []string{"of an earlier job", "checkpoint " + numberList(s.Earlier) + ": until this one has its own"})
	}
	if len(s.Scavenged) > 0 {
		rows = append(rows, []string{"scavenged", "the caches of " + strings.Join(s.Scavenged, ", ") + ": restart puts them together"})
	}
	if s.JobErr != "" {
		rows = append(rows, []string{"job damaged", s.JobErr})
	}
	if s.Err != "" {
		rows = append(rows, []string{"damage", s.Err})
	}
	ui.Table(e.out, rows)
	if len(s.Parts) > 0 {
		rows = [][]string{{"RANK", "FILES", "SIZE"}}
		for _, p := range s.Parts {
			rows = append(rows, []string{fmt.Sprint(p.Rank), fmt.Sprint(p.Files), ui.Bytes(p.Size)})
		}
		fmt.Fprintln(e.out)
		ui.Table(e.out, rows)
	}
	if len(s.Images) == 0 {
		return
	}
	rows = [][]string{{"RANK", "PART", "SIZE", "MEMORY", "CHUNKS", "MAPPINGS", "KERNEL", "LIBC", "MPI"}}
	for _, i := range s.Images {
		rows = append(rows, []string{fmt.Sprint(i.Rank), fmt.Sprint(i.Part), ui.Bytes(i.Size), ui.Bytes(i.Memory),
			fmt.Sprint(i.Chunks), fmt.Sprint(i.Mappings), i.Kernel, i.Libc, mpiVersion(i.MPI)})
	}
	fmt.Fprintln(e.out)
	ui.Table(e.out, rows)
}

func builtFor(m dataset.Meta) string {
	if m.Plain {
		return "its own MPI: it is started as it is"
	}
	return orNone(m.Face)
}

func orNone(s string) string {
	if s == "" {
		return "no MPI that it names"
	}
	return s
}
