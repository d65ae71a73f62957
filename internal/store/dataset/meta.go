package dataset

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/outputs"
	"github.com/byssus-hpc/byssus/internal/host/elfcheck"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/store/part"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// State of a job that does not run.
const (
	StateRunning  = "running" // or its byssus died
	StateStopped  = "stopped" // left after a checkpoint
	StateFinished = "finished"
	StateFailed   = "failed"
	StateDamaged  = "damaged" // nobody can tell: job.json is damaged, and there is nothing to make it again from
)

// Meta is job.json: what is needed to go on with a job. Every manifest has a copy.
type Meta struct {
	Format   int            `json:"format"`
	Name     string         `json:"name"`
	ID       string         `json:"id"` // 32 hexadecimal digits, in every image
	App      []string       `json:"app"`
	Dir      string         `json:"dir"`
	Ranks    int            `json:"ranks"`
	MPI      string         `json:"mpi"`  // last used
	Face     string         `json:"face"` // ABI that the application was linked against; empty: none
	MPIArgs  []string       `json:"mpi_args,omitempty"`
	Every    time.Duration  `json:"every_ns,omitempty"`
	Keep     int            `json:"keep"`
	Retries  int            `json:"retries"`
	Restarts *int           `json:"max_restarts,omitempty"` // nil: the default
	NotAnew  bool           `json:"no_restart_from_start,omitempty"`
	Patience time.Duration  `json:"silent_after_ns,omitempty"`   // of nodes
	Wait     *time.Duration `json:"wait_for_nodes_ns,omitempty"` // nil: the default
	Fsync    bool           `json:"fsync"`
	Lazy     bool           `json:"lazy,omitempty"`
	Policy   string         `json:"policy"`
	Files    string         `json:"save_files,omitempty"` // as given to run; empty: the default
	Refused  string         `json:"refused,omitempty"`    // calls of refused functions: end, or error; empty: end
	Writers  int            `json:"writers,omitempty"`
	Grace    time.Duration  `json:"grace_ns,omitempty"`
	Caches   *Caches        `json:"caches,omitempty"`           // of the nodes, when the job writes there
	Cached   uint64         `json:"newest_in_caches,omitempty"` // of its checkpoints
	Home     string         `json:"home,omitempty"`             // in a cache: the job's directory in its store
	Auto     bool           `json:"auto_named,omitempty"`
	State    string         `json:"state"`
	Exit     int            `json:"exit,omitempty"`
	Reason   string         `json:"ending_because,omitempty"` // what a rank said before it ended the job
	Known
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
}

// Known is what is known of a job's datasets beside themselves.
type Known struct {
	Plain     bool           `json:"plain,omitempty"`      // ranks are not led: they write their datasets themselves
	Outputs   outputs.Memory `json:"outputs,omitzero"`     // what is known of these
	Aside     []uint64       `json:"left_aside,omitempty"` // checkpoints that it has gone back behind
	Survivors Survivors      `json:"survivors,omitempty"`  // what they do when a rank has died
	Route     *Route         `json:"files,omitempty"`      // which of a plain program's files are its datasets; nil: it says so itself
}

// Survivors are what the ranks of a plain job do when one has died.
type Survivors string

// They end, by default; or they go on, with a process that is started in its place, or with one that has waited for that.
const (
	SurvivorsEnd    Survivors = ""
	SurvivorsRejoin Survivors = "processes"
	SurvivorsSpares Survivors = "spares"
)

// Route says which files of a program that is run as it is are its checkpoints, and how it goes on from one.
type Route struct {
	Prefix  string        `json:"prefix"`            // below which they have their names
	Files   string        `json:"pattern"`           // of these names (package routed)
	Marker  string        `json:"marker,omitempty"`  // of names of files that say that a checkpoint is complete
	Quiet   time.Duration `json:"quiet_ns"`          // for so long nothing must happen to one that is
	Restart string        `json:"restart,omitempty"` // the command that goes on from one, for a shell; empty: the job's own
}

// DefaultRestarts is what a job that dies at random, and comes further each time, may need in some days. One that does not come
// further is given up after Retries.
const DefaultRestarts = 100

// MostRestarts is how often the job is started again in all, 0: any number.
func (m *Meta) MostRestarts() int {
	if m.Restarts == nil {
		return DefaultRestarts
	}
	return *m.Restarts
}

// Caches is how a job uses the caches of its nodes; the words are those of run's options.
type Caches struct {
	Dir        string `json:"dir"`
	Redundancy string `json:"redundancy"`
	SetSize    int    `json:"set_size,omitempty"`
	Flush      int    `json:"flush"`
	Transport  string `json:"transport"`
	// Scavenge is how long the caches wait for somebody who goes on with the job when its byssus is gone; then what they have is
	// copied to the store. 0: it never is.
	Scavenge time.Duration `json:"scavenge_ns,omitempty"`
}

// metaFormat is the version of job.json; version 1 had no checksum.
const metaFormat = 2

// readMeta reads job.json.
func readMeta(dir string) (Meta, error) {
	var meta Meta
	path := filepath.Join(dir, "job.json")
	b, err := own.Read(path, mostText)
	if err != nil {
		return meta, fmt.Errorf("dataset: %w", err)
	}
	old := json.Unmarshal(b, &meta) == nil && meta.Format == 1
	if !old {
		meta = Meta{}
		if b, err = unseal(b); err == nil {
			err = json.Unmarshal(b, &meta)
		}
	}
	if err != nil {
		return meta, fmt.Errorf("dataset: %s: %w", path, err)
	}
	if meta.Format > metaFormat {
		return meta, fmt.Errorf("dataset: %s: format %d, this byssus reads up to %d", path, meta.Format, metaFormat)
	}
	meta.Name = filepath.Base(dir) // who moves a job renames it
	return meta, nil
}

// Record is the record of a job: job.json in its directory. A copy of it may be saved by another goroutine.
type Record struct {
	Dir    string
	Meta   Meta
	Damage error // what is wrong with job.json, and what Meta comes from
	ground
}

// of are the datasets of one of the job's streams.
func (r *Record) of(s holding.Stream) *Datasets {
	return &Datasets{Meta: r.Meta, Stream: s, dir: r.Dir, ground: r.ground}
}

// Save writes job.json, atomically. While a job runs it keeps room for that, so that its end can be written in a store that is full.
func (r *Record) Save() error {
	r.Meta.Format = metaFormat
	b, err := json.MarshalIndent(r.Meta, "", "  ")
	if err != nil {
		return fmt.Errorf("dataset: job %s: %w", r.Meta.Name, err)
	}
	b = seal(append(b, '\n'))
	path, reserve := filepath.Join(r.Dir, "job.json"), filepath.Join(r.Dir, reserveName)
	err = r.writeAtomic(path, b)
	if full(err) && r.disk().Remove(reserve) == nil {
		err = r.writeAtomic(path, b)
	}
	if err != nil {
		return fmt.Errorf("dataset: job %s: %w", r.Meta.Name, err)
	}
	if r.Meta.State == StateRunning && r.Meta.Home == "" {
		r.keepRoom(reserve, max(reserveBytes, 2*len(b)))
	} else {
		_ = r.disk().Remove(reserve) // mostly there is none
	}
	return nil
}

const (
	reserveName  = "reserve"
	reserveBytes = 16 << 10
)

// keepRoom makes a file that can be removed for something else. Where it cannot be made, or is taken by others meanwhile, the job does
// without.
func (g ground) keepRoom(path string, bytes int) {
	if _, err := os.Lstat(path); err == nil {
		return
	}
	f, err := g.disk().Create(path)
	if err != nil {
		return
	}
	_, err = f.Write(make([]byte, bytes))
	if cerr := f.Close(); err != nil || cerr != nil {
		_ = g.disk().Remove(path) // a part of it serves nothing
	}
}

// load fills Meta. What job.json does not tell is taken from the newest checkpoint that does; Damage says so then.
func (r *Record) load() error {
	var err error
	if r.Meta, err = readMeta(r.Dir); err == nil || errors.Is(err, own.ErrForeign) {
		return err
	}
	all, lerr := r.of(0).List()
	if lerr != nil {
		return lerr
	}
	if meta, from, ok := fromFiles(r); ok && len(all) == 0 {
		r.Meta, r.Damage = meta, fmt.Errorf("%w; what it said is taken from %s", err, from)
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) && len(all) == 0 {
		return fmt.Errorf("dataset: job %s in %s: %w", filepath.Base(r.Dir), filepath.Dir(r.Dir), ErrNoJob)
	}
	for _, from := range []func(string) (Meta, error){fromManifest, fromHeader} {
		for _, n := range slices.Backward(all) {
			if meta, merr := from(r.of(0).Path(n)); merr == nil {
				meta.Name = filepath.Base(r.Dir)
				r.Meta, r.Damage = meta, fmt.Errorf("%w; what it said is taken from checkpoint %d", err, n)
				return nil
			}
		}
	}
	r.Meta = Meta{Name: filepath.Base(r.Dir), State: StateDamaged}
	r.Damage = fmt.Errorf("%w; there is no checkpoint that tells what it said", err)
	return nil
}

// fromFiles tells what a job is from the newest dataset of another stream than that of checkpoints, and how that is called.
func fromFiles(r *Record) (meta Meta, from string, ok bool) {
	streams, _ := r.Streams() // none, if they cannot be listed
	for _, s := range streams {
		of := r.of(s)
		all, _ := of.List()
		for _, n := range slices.Backward(all) {
			if meta, err := fromManifest(of.Path(n)); err == nil && s != 0 {
				meta.Name = filepath.Base(r.Dir)
				return meta, of.Called(n), true
			}
		}
	}
	return Meta{}, "", false
}

func fromManifest(dir string) (Meta, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return Meta{}, err
	}
	if m.Meta.ID == "" {
		return Meta{}, fmt.Errorf("dataset: %s: its manifest has no copy of job.json", dir)
	}
	return m.Meta, nil
}

// fromHeader tells what can be told from an image alone. The rest is what run takes when it is not told.
func fromHeader(dir string) (Meta, error) {
	if err := own.Dir(dir); err != nil {
		return Meta{}, err
	}
	h, _, err := part.ReadImageHeader(filepath.Join(dir, part.ImageName(0, 0)))
	if err != nil {
		return Meta{}, err
	}
	meta := Meta{ID: hex.EncodeToString(h.JobID[:]), App: []string{abi.Text(h.App[:])}, Ranks: int(h.NRanks), MPI: "mpich",
		Keep: 2, Retries: 3, Fsync: true, Policy: "refuse", State: StateRunning, Started: time.Unix(0, int64(h.CreatedUnixNS))}
	if strings.Contains(abi.Text(h.MPI[:]), "Open MPI") {
		meta.MPI = "openmpi"
	}
	if report, err := elfcheck.Check(meta.App[0], ""); err == nil {
		meta.Face = report.Face
	}
	return meta, nil
}
