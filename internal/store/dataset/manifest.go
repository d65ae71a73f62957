package dataset

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

const (
	manifestName   = "manifest.json"
	manifestFormat = 1
)

// Manifest says what a committed checkpoint consists of.
type Manifest struct {
	Format     int       `json:"format"`
	Job        string    `json:"job"`
	ID         string    `json:"id"`
	Checkpoint uint64    `json:"checkpoint"`
	Ranks      int       `json:"ranks"`
	Time       time.Time `json:"time"`
	MPI        string    `json:"mpi"`
	App        string    `json:"app"`
	Bytes      int64     `json:"bytes"`
	Node       string    `json:"node,omitempty"`   // whose cache this is the part of; empty: it is the whole
	Start      uint64    `json:"start,omitempty"`  // of the ranks, that wrote it: in a cache
	Epoch      uint64    `json:"epoch,omitempty"`  // of the attempt that wrote it: in a cache
	Parity     []string  `json:"parity,omitempty"` // what lies here for other nodes; see package parity
	Files      []File    `json:"files"`
	Meta       Meta      `json:"meta"`
}

// Held lists the ranks whose images the manifest has: all, or those of a node.
func (m *Manifest) Held() []int {
	var ranks []int
	if m.Node == "" {
		for rank := range m.Ranks {
			ranks = append(ranks, rank)
		}
		return ranks
	}
	for _, f := range m.Files {
		ranks = append(ranks, f.Rank())
	}
	return slices.Compact(ranks)
}

// File is one image file.
type File struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	HeaderCRC string `json:"header_crc32c"`
}

// Rank is the rank whose image the file is a part of.
func (f File) Rank() int {
	var rank int
	if _, err := fmt.Sscanf(f.Name, "rank-%d.", &rank); err != nil {
		return -1
	}
	return rank
}

var (
	imageName  = regexp.MustCompile(`^rank-[0-9]{5,}\.[0-9]+\.img$`)
	parityName = regexp.MustCompile(`^parity\.[0-9]+\.[0-9]+$`)
)

// checkNames wants of a manifest names that are those of images, and of what is kept for other nodes: what else could they lead to?
func (m *Manifest) checkNames() error {
	for _, f := range m.Files {
		if !imageName.MatchString(f.Name) {
			return fmt.Errorf("found %.40q, wanted the name of an image", f.Name)
		}
	}
	for _, name := range m.Parity {
		if !parityName.MatchString(name) {
			return fmt.Errorf("found %.40q, wanted parity.SET.MEMBER", name)
		}
	}
	return nil
}

// fileName is the name of an image file in its checkpoint's directory.
func fileName(rank, part int) string { return fmt.Sprintf("rank-%05d.%d.img", rank, part) }

// Part is what one node has of a checkpoint.
type Part struct {
	Files []File `json:"files"` // by rank, and by part of its image
	MPI   string `json:"mpi"`   // of rank 0, if that is among them
	App   string `json:"app"`
}

// Seal looks whether the images of these ranks are whole, and syncs them where the job wants that. It is done on the machine
// that has written them: a sync from elsewhere does nothing on some file systems.
func (j *Job) Seal(n uint64, ranks []int) (*Part, error) {
	dir, p := j.Path(n)+".tmp", &Part{}
	for _, rank := range ranks {
		if err := p.addRank(dir, rank, j, n); err != nil {
			return nil, fmt.Errorf("dataset: checkpoint %d: %w", n, err)
		}
	}
	if j.Meta.Fsync {
		if err := j.syncPart(dir, p); err != nil {
			return nil, fmt.Errorf("dataset: checkpoint %d: %w", n, err)
		}
	}
	j.Faults.Hit(faults.CommitSynced)
	return p, nil
}

func (j *Job) syncPart(dir string, p *Part) error {
	for _, f := range p.Files {
		if err := j.sync(filepath.Join(dir, f.Name)); err != nil {
			return err
		}
	}
	return j.syncNames(dir)
}

// Record is the manifest of a checkpoint that consists of these, in the order of their ranks.
func (j *Job) Record(n uint64, parts ...*Part) *Manifest {
	m := &Manifest{Format: manifestFormat, Job: j.Meta.Name, ID: j.Meta.ID, Checkpoint: n, Ranks: j.Meta.Ranks, Time: time.Now().UTC(), Meta: j.Meta}
	for _, p := range parts {
		if p.MPI != "" {
			m.MPI, m.App = p.MPI, p.App
		}
		m.Files = append(m.Files, p.Files...)
		for _, f := range p.Files {
			m.Bytes += f.Size
		}
	}
	slices.SortStableFunc(m.Files, func(a, b File) int { return cmp.Compare(a.Rank(), b.Rank()) })
	return m
}

// Commit makes a checkpoint count: it writes the manifest and gives the directory its final name. In a cache that has a part of
// it already, what was written is added to that.
func (j *Job) Commit(n uint64, m *Manifest) error {
	dir := j.Path(n) + ".tmp"
	err := m.checkNames()
	if err == nil && m.Node != "" && j.has(n) {
		return j.add(n, m)
	}
	if err == nil {
		err = j.writeManifest(dir, m)
	}
	if err == nil {
		j.Faults.Hit(faults.CommitManifest)
		err = j.rename(dir, n)
	}
	if err != nil {
		return fmt.Errorf("dataset: commit checkpoint %d: %w", n, err)
	}
	j.Faults.Hit(faults.CommitRenamed)
	return nil
}

// rename gives a checkpoint its final name, for good or not at all.
func (j *Job) rename(dir string, n uint64) error {
	err := j.disk().Rename(dir, j.Path(n))
	if err != nil {
		return err
	}
	if err = j.syncNames(j.Dir); err != nil {
		_ = j.disk().Rename(j.Path(n), dir) // what is reported as failed does not count
	}
	return err
}

// Heal makes damaged manifests again, where all headers of the checkpoint are good, and returns a note about each. Its
// directory has its final name, so it was committed; what the headers say about the rest is checked as ever.
func (j *Job) Heal() ([]string, error) {
	all, err := j.Checkpoints()
	var notes []string
	for _, n := range all {
		dir := j.Path(n)
		_, damage := ReadManifest(dir)
		if damage == nil || ownDir(dir) != nil || errors.Is(damage, ErrForeign) || errors.Is(damage, errFuture) {
			continue
		}
		err := j.recordAgain(dir, n)
		if err != nil {
			continue // it is left out, with the damage as the reason
		}
		notes = append(notes, fmt.Sprintf("checkpoint %d: %v; the manifest has been made again from the images", n, damage))
	}
	return notes, err
}

// recordAgain makes the manifest of a committed checkpoint from its images' headers.
func (j *Job) recordAgain(dir string, n uint64) error {
	p := &Part{}
	for rank := range j.Meta.Ranks {
		if err := p.addRank(dir, rank, j, n); err != nil {
			return err
		}
	}
	return j.writeManifest(dir, j.Record(n, p))
}

func (j *Job) writeManifest(dir string, m *Manifest) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return j.writeAtomic(filepath.Join(dir, manifestName), seal(append(b, '\n')))
}

// addRank finds the files of a rank and checks that they are complete and belong here.
func (p *Part) addRank(dir string, rank int, j *Job, n uint64) error {
	for part, nparts := 0, 1; part < nparts; part++ {
		name := fileName(rank, part)
		h, size, err := readHeader(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := j.Record(n).belongs(h, rank, part); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if nparts = int(h.NParts); rank == 0 && part == 0 {
			p.MPI, p.App = abi.Text(h.MPI[:]), abi.Text(h.App[:])
		}
		p.Files = append(p.Files, File{name, size, fmt.Sprintf("%08x", h.HeaderCRC)})
	}
	return nil
}

func (m *Manifest) belongs(h *abi.ImageHeader, rank, part int) error {
	id := hex.EncodeToString(h.JobID[:])
	switch {
	case int(h.Rank) != rank || int(h.Part) != part || int(h.NRanks) != m.Ranks:
		return fmt.Errorf("found rank %d of %d, part %d, wanted rank %d of %d, part %d", h.Rank, h.NRanks, h.Part, rank, m.Ranks, part)
	case id != m.ID || h.Checkpoint != m.Checkpoint:
		return fmt.Errorf("found job %s, checkpoint %d, wanted job %s, checkpoint %d", id, h.Checkpoint, m.ID, m.Checkpoint)
	}
	return nil
}

func readHeader(path string) (*abi.ImageHeader, int64, error) {
	f, st, err := OpenOwn(path, os.O_RDONLY)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	h, err := format.ReadHeader(f, st.Size())
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return h, st.Size(), nil
}

// errFuture marks a manifest that a later byssus has written.
var errFuture = errors.New("written by a later byssus")

// ReadManifest reads and checks the manifest in a checkpoint's directory.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestName)
	err := ownDir(dir)
	if err != nil {
		return nil, err
	}
	b, err := readOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dataset: %s: %w", path, ErrNoManifest)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	m := new(Manifest)
	if b, err = unseal(b); err == nil {
		err = json.Unmarshal(b, m)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", path, err)
	}
	n, _, _ := parseDir(filepath.Base(dir))
	switch {
	case m.Format > manifestFormat:
		return nil, fmt.Errorf("dataset: %s: format version %d, this byssus reads up to %d: %w", path, m.Format, manifestFormat, errFuture)
	case m.Checkpoint != n || m.Ranks < 1:
		return nil, fmt.Errorf("dataset: %s: found checkpoint %d of %d ranks, wanted checkpoint %d", path, m.Checkpoint, m.Ranks, n)
	}
	if err := m.checkNames(); err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", path, err)
	}
	return m, nil
}

// Check compares a checkpoint's files with its manifest by name, size and header: what must hold before a restart,
// which itself checks all data while it reads.
func Check(dir string) (*Manifest, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	at := 0
	for _, rank := range m.Held() {
		for part, nparts := 0, 1; part < nparts; part, at = part+1, at+1 {
			if nparts, err = m.checkFile(dir, rank, part, at); err != nil {
				return nil, fmt.Errorf("dataset: %s: %w", filepath.Base(dir), err)
			}
		}
	}
	if at != len(m.Files) {
		return nil, fmt.Errorf("dataset: %s: the manifest has %d files, wanted %d", filepath.Base(dir), len(m.Files), at)
	}
	return m, nil
}

// checkFile compares a file with its line in the manifest and returns the number of the rank's parts.
func (m *Manifest) checkFile(dir string, rank, part, at int) (int, error) {
	name := fileName(rank, part)
	if at >= len(m.Files) || m.Files[at].Name != name {
		return 0, fmt.Errorf("%s: is not in the manifest", name)
	}
	h, size, err := readHeader(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	if err := m.belongs(h, rank, part); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	want := m.Files[at]
	if crc := fmt.Sprintf("%08x", h.HeaderCRC); crc != want.HeaderCRC || size != want.Size {
		return 0, fmt.Errorf("%s: %d bytes, header crc32c %s, the manifest wants %d, %q", name, size, crc, want.Size, want.HeaderCRC)
	}
	return int(h.NParts), nil
}

// Verify reads everything and compares it with its checksums. progress is told the bytes done since the last call.
func Verify(dir string, progress func(bytes int64)) (*Manifest, error) {
	m, err := Check(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if err := verifyFile(filepath.Join(dir, f.Name), progress); err != nil {
			return nil, fmt.Errorf("dataset: %s/%s: %w", filepath.Base(dir), f.Name, err)
		}
	}
	return m, nil
}

func verifyFile(path string, progress func(int64)) error {
	f, st, err := OpenOwn(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	im, err := format.Read(f, st.Size())
	if err != nil {
		return err
	}
	return im.VerifyData(f, progress)
}

// Verify looks at what a job has beside its checkpoints, and returns what is damaged there.
func (j *Job) Verify() []error {
	var found []error
	for _, err := range []error{j.Damage, j.checkLock()} {
		if err != nil {
			found = append(found, err)
		}
	}
	return found
}

// OpenImage reads one image file's tables.
func OpenImage(dir string, rank, part int) (*format.Image, error) {
	f, st, err := OpenOwn(filepath.Join(dir, fileName(rank, part)), os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	defer f.Close()
	im, err := format.Read(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", f.Name(), err)
	}
	return im, nil
}
