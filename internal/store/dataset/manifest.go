package dataset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/store/files"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/own"
	"github.com/byssus-hpc/byssus/internal/store/part"
	"github.com/byssus-hpc/byssus/internal/wire/faults"
)

const (
	manifestName   = "manifest.json"
	manifestFormat = 1 // of images
	formatOfKinds  = 2 // of other kinds
)

// Manifest says what a committed checkpoint consists of.
type Manifest struct {
	Format     int            `json:"format"`
	Job        string         `json:"job"`
	ID         string         `json:"id"`
	Checkpoint uint64         `json:"checkpoint"`
	Ranks      int            `json:"ranks"`
	Time       time.Time      `json:"time"`
	MPI        string         `json:"mpi"`
	App        string         `json:"app"`
	Bytes      int64          `json:"bytes"`
	Label      *holding.Label `json:"label,omitempty"` // of what a program has written itself
	InCache
	Files []File `json:"files"`
	Meta  Meta   `json:"meta"`
}

// InCache is what the manifest of a node's part has.
type InCache struct {
	Node   string   `json:"node,omitempty"`   // whose cache this is the part of; empty: it is the whole
	Start  uint64   `json:"start,omitempty"`  // of the ranks, that wrote it: in a cache
	Epoch  uint64   `json:"epoch,omitempty"`  // of the attempt that wrote it: in a cache
	Parity []string `json:"parity,omitempty"` // what lies here for other nodes; see package parity
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
		ranks = append(ranks, f.Rank)
	}
	return slices.Compact(ranks)
}

// File is one of the files of a rank's part: of its image; or their index, and what they contain, of files that it has written.
type File struct {
	Name      string       `json:"name"`
	Size      int64        `json:"size"`
	HeaderCRC string       `json:"header_crc32c"` // of the image's header, or of the index: it has all other checksums
	Rank      int          `json:"rank"`
	Kind      holding.Kind `json:"kind,omitempty"`
}

// fileOf is the manifest's form of a file.
func fileOf(f holding.File) File {
	return File{f.Name, f.Size, fmt.Sprintf("%08x", f.Digest), f.Rank, f.Kind}
}

// Part is the file as the agents know it.
func (f File) part() (holding.File, error) {
	crc, err := strconv.ParseUint(f.HeaderCRC, 16, 32)
	if err != nil {
		return holding.File{}, fmt.Errorf("%s: checksum %.40q, wanted eight hexadecimal digits", f.Name, f.HeaderCRC)
	}
	return holding.File{Name: f.Name, Size: f.Size, Digest: crc, Rank: f.Rank, Kind: f.Kind}, nil
}

// Parts are the files as the agents know them.
func (m *Manifest) Parts() ([]holding.File, error) {
	var all []holding.File
	for _, f := range m.Files {
		file, err := f.part()
		if err != nil {
			return nil, fmt.Errorf("dataset: checkpoint %d: manifest: %w", m.Checkpoint, err)
		}
		all = append(all, file)
	}
	return all, nil
}

// of is what the parts of the manifest must belong to.
func (m *Manifest) of() part.Of { return part.Of{Job: m.ID, Ranks: m.Ranks, Dataset: m.Checkpoint} }

var (
	imageName  = regexp.MustCompile(`^rank-([0-9]{5,})\.[0-9]+\.img$`)
	filesName  = regexp.MustCompile(`^rank-([0-9]{5,})\.(index|files)$`)
	parityName = regexp.MustCompile(`^parity\.[0-9]+\.[0-9]+$`)
)

// rankIn is the rank in a name of that form; ok is false when it has another form.
func rankIn(form *regexp.Regexp, name string) (rank int, ok bool) {
	found := form.FindStringSubmatch(name)
	if found == nil {
		return 0, false
	}
	rank, err := strconv.Atoi(found[1])
	return rank, err == nil
}

// checkNames wants of a manifest names that are those of parts of its ranks, and of what is kept for other nodes: what else could they
// lead to? Manifests that older writers have made have ranks in the names alone.
func (m *Manifest) checkNames() error {
	for i := range m.Files {
		f := &m.Files[i]
		form, what := imageName, "the name of an image"
		if f.Kind != holding.Image {
			form, what = filesName, "the name of an index or of its files"
		}
		rank, ok := rankIn(form, f.Name)
		if f.Rank == 0 {
			f.Rank = rank
		}
		if !ok || f.Rank != rank {
			return fmt.Errorf("found %.40q of rank %d, wanted %s", f.Name, f.Rank, what)
		}
	}
	for _, name := range m.Parity {
		if !parityName.MatchString(name) {
			return fmt.Errorf("found %.40q, wanted parity.SET.MEMBER", name)
		}
	}
	return nil
}

// Part is what one node has of a checkpoint.
type Part struct {
	Files []holding.File `json:"files"` // by rank
	MPI   string         `json:"mpi"`   // of rank 0, if that is among them
	App   string         `json:"app"`
	Paths []holding.Path `json:"paths,omitempty"` // of what ranks have written
}

// FilesPart is a part that consists of the files that ranks have written.
func FilesPart(indexes ...*files.Index) *Part {
	p := &Part{}
	for _, x := range indexes {
		p.Files = append(p.Files, part.OfIndex(x)...)
	}
	return p
}

// Seal looks whether the parts of these ranks are whole, and syncs them where the job wants that. It is done on the machine
// that has written them: a sync from elsewhere does nothing on some file systems.
func (d *Datasets) Seal(ctx context.Context, n uint64, kind holding.Kind, ranks []int) (*Part, error) {
	p := &Part{}
	durable := d.Meta.Fsync && kind != holding.Image // images are synced below
	for _, rank := range ranks {
		if err := p.addRank(ctx, d.Path(n)+".tmp", kind, rank, d.of(n), durable); err != nil {
			return nil, fmt.Errorf("dataset: %s: %w", d.Called(n), err)
		}
	}
	return p, d.SyncPart(n, p)
}

// SyncPart makes sure that the files of a part that is not committed yet, which are whole, are on stable storage where the job wants that.
func (d *Datasets) SyncPart(n uint64, p *Part) error {
	dir := d.Path(n) + ".tmp"
	var err error
	for i := 0; i < len(p.Files) && d.Meta.Fsync && err == nil; i++ {
		if p.Files[i].Kind == holding.Image { // other kinds have been synced file by file
			err = d.sync(filepath.Join(dir, p.Files[i].Name))
		}
	}
	if err == nil && d.Meta.Fsync {
		err = d.syncNames(dir)
	}
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", d.Called(n), err)
	}
	d.faults.Hit(faults.CommitSynced)
	return nil
}

// CheckPart compares a part that is not committed yet, but for its data, with what it should be.
func (d *Datasets) CheckPart(n uint64, p *Part) error {
	err := part.Split(p.Files, func(k part.Kind, files []holding.File) error {
		return k.Check(d.Path(n)+".tmp", files[0].Rank, d.of(n), files)
	})
	if err != nil {
		return fmt.Errorf("dataset: %s: %w", d.Called(n), err)
	}
	return nil
}

// of is what the parts of a dataset of the job must belong to.
func (d *Datasets) of(n uint64) part.Of {
	return part.Of{Job: d.Meta.ID, Ranks: d.Meta.Ranks, Dataset: n}
}

// Manifest is that of a dataset that consists of these, in the order of their ranks.
func (d *Datasets) Manifest(n uint64, parts ...*Part) *Manifest {
	m := &Manifest{Format: manifestFormat, Job: d.Meta.Name, ID: d.Meta.ID, Checkpoint: n, Ranks: d.Meta.Ranks, Time: time.Now().UTC(), Meta: d.Meta}
	for _, p := range parts {
		if p.MPI != "" {
			m.MPI, m.App = p.MPI, p.App
		}
		for _, f := range p.Files {
			m.Files, m.Bytes = append(m.Files, fileOf(f)), m.Bytes+f.Size
			if f.Kind != holding.Image {
				m.Format = formatOfKinds
			}
		}
	}
	slices.SortStableFunc(m.Files, func(a, b File) int { return cmp.Compare(a.Rank, b.Rank) })
	return m
}

// Labelled is the manifest of a dataset that a program has written itself, of so many ranks as the label says.
func (m *Manifest) Labelled(l holding.Label) *Manifest {
	if l.Name != "" {
		m.Label, m.Ranks = &l, l.Ranks
	}
	return m
}

// Commit makes a checkpoint count: it writes the manifest and gives the directory its final name. In a cache that has a part of
// it already, what was written is added to that.
func (d *Datasets) Commit(n uint64, m *Manifest) error {
	dir := d.Path(n) + ".tmp"
	err := m.checkNames()
	if _, there := os.Lstat(d.Path(n)); err == nil && m.Node != "" && there == nil {
		return d.add(n, m)
	}
	if err == nil {
		err = d.writeManifest(dir, m)
	}
	if err == nil {
		d.faults.Hit(faults.CommitManifest)
		err = d.rename(dir, n)
	}
	if err != nil {
		return fmt.Errorf("dataset: commit %s: %w", d.Called(n), err)
	}
	d.faults.Hit(faults.CommitRenamed)
	return nil
}

// add puts what was made again to what is there. The manifest, which comes last, makes it count.
func (d *Datasets) add(n uint64, m *Manifest) error {
	from, to := d.Path(n)+".tmp", d.Path(n)
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		made, old := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if err == nil && e.IsDir() { // a directory does not take the place of another by itself
			err = d.disk().RemoveAll(old)
		}
		if err == nil {
			err = d.disk().Rename(made, old)
		}
	}
	if err == nil && len(entries) > 0 {
		err = d.syncNames(to) // before a manifest says that they are there
	}
	if err == nil {
		err = d.writeManifest(to, m)
	}
	if err == nil {
		err = d.disk().Remove(from)
	}
	if err != nil {
		return fmt.Errorf("dataset: commit %s: %w", d.Called(n), err)
	}
	return nil
}

// rename gives a checkpoint its final name, for good or not at all.
func (d *Datasets) rename(dir string, n uint64) error {
	err := d.disk().Rename(dir, d.Path(n))
	if err != nil {
		return err
	}
	if err = d.syncNames(d.dir); err != nil {
		_ = d.disk().Rename(d.Path(n), dir) // what is reported as failed does not count
	}
	return err
}

// Heal makes damaged manifests again, where all headers of the checkpoint are good, and returns a note about each. Its
// directory has its final name, so it was committed; what the headers say about the rest is checked as ever.
func (d *Datasets) Heal() ([]string, error) {
	all, err := d.List()
	var notes []string
	for _, n := range all {
		dir := d.Path(n)
		_, damage := ReadManifest(dir)
		if damage == nil || own.Dir(dir) != nil || errors.Is(damage, own.ErrForeign) || errors.Is(damage, errFuture) {
			continue
		}
		err := d.recordAgain(dir, n)
		if err != nil {
			continue // it is left out, with the damage as the reason
		}
		notes = append(notes, fmt.Sprintf("checkpoint %d: %v; the manifest has been made again from the images", n, damage))
	}
	return notes, err
}

// recordAgain makes the manifest of a committed checkpoint from its images' headers.
func (d *Datasets) recordAgain(dir string, n uint64) error {
	p := &Part{}
	for rank := range d.Meta.Ranks {
		if err := p.addRank(context.Background(), dir, holding.Image, rank, d.of(n), false); err != nil {
			return err
		}
	}
	return d.writeManifest(dir, d.Manifest(n, p))
}

func (g ground) writeManifest(dir string, m *Manifest) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return g.writeAtomic(filepath.Join(dir, manifestName), seal(append(b, '\n')))
}

// addRank adds the part of a rank, which must be whole and belong here.
func (p *Part) addRank(ctx context.Context, dir string, kind holding.Kind, rank int, of part.Of, durable bool) error {
	k, err := part.OfKind(kind)
	if err != nil {
		return err
	}
	sealed, err := k.Seal(ctx, dir, rank, of, durable)
	if err != nil {
		return err
	}
	if sealed.MPI != "" {
		p.MPI, p.App = sealed.MPI, sealed.App
	}
	p.Files, p.Paths = append(p.Files, sealed.Files...), append(p.Paths, sealed.Paths...)
	return nil
}

// errFuture marks a manifest that a later byssus has written.
var errFuture = errors.New("written by a later byssus")

// ReadManifest reads and checks the manifest in a checkpoint's directory.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestName)
	err := own.Dir(dir)
	if err != nil {
		return nil, err
	}
	b, err := own.Read(path, mostText)
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
	p, _ := parseDir(filepath.Base(dir))
	switch {
	case m.Format > formatOfKinds:
		return nil, fmt.Errorf("dataset: %s: format version %d, this byssus reads up to %d: %w", path, m.Format, formatOfKinds, errFuture)
	case m.Checkpoint != p.n || m.Ranks < 1:
		return nil, fmt.Errorf("dataset: %s: found checkpoint %d of %d ranks, wanted checkpoint %d", path, m.Checkpoint, m.Ranks, p.n)
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
	files, err := m.Parts()
	if err != nil {
		return nil, err
	}
	there := map[int]bool{}
	err = part.Split(files, func(k part.Kind, files []holding.File) error {
		there[files[0].Rank] = true
		return k.Check(dir, files[0].Rank, m.of(), files)
	})
	for _, rank := range m.Held() {
		if err == nil && !there[rank] {
			err = fmt.Errorf("rank %d of %d is not in the manifest", rank, m.Ranks)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", filepath.Base(dir), err)
	}
	return m, nil
}

// Verify reads everything and compares it with its checksums. progress is told the bytes done since the last call.
func Verify(dir string, progress func(bytes int64)) (*Manifest, error) {
	m, err := Check(dir)
	if err != nil {
		return nil, err
	}
	files, err := m.Parts()
	if err != nil {
		return nil, err
	}
	found, err := part.Verify(context.Background(), dir, files, progress)
	if err == nil && len(found) > 0 {
		err = errors.New(found[0].Why)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: %s/%w", filepath.Base(dir), err)
	}
	return m, nil
}

// OpenImage reads one image file's tables.
func OpenImage(dir string, rank, number int) (*format.Image, error) {
	f, st, err := own.Open(filepath.Join(dir, part.ImageName(rank, number)), os.O_RDONLY)
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
