package dataset

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/byssus-hpc/byssus/internal/abi"
	"github.com/byssus-hpc/byssus/internal/faults"
	"github.com/byssus-hpc/byssus/internal/format"
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
	Files      []File    `json:"files"`
}

// File is one image file.
type File struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	HeaderCRC string `json:"header_crc32c"`
}

// fileName is the name of an image file in its checkpoint's directory.
func fileName(rank, part int) string { return fmt.Sprintf("rank-%05d.%d.img", rank, part) }

// Commit makes a checkpoint count: it looks at every rank's files, writes the manifest and gives the directory its
// final name.
func (j *Job) Commit(n uint64) (*Manifest, error) {
	dir := j.Path(n) + ".tmp"
	m := &Manifest{Format: manifestFormat, Job: j.Meta.Name, ID: j.Meta.ID, Checkpoint: n, Ranks: j.Meta.Ranks, Time: time.Now().UTC()}
	for rank := range j.Meta.Ranks {
		if err := m.addRank(dir, rank); err != nil {
			return nil, fmt.Errorf("dataset: commit checkpoint %d: %w", n, err)
		}
	}
	err := j.seal(dir, m)
	if err == nil {
		err = os.Rename(dir, j.Path(n))
	}
	if err == nil {
		err = syncPath(j.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: commit checkpoint %d: %w", n, err)
	}
	j.Faults.Hit(faults.CommitRenamed)
	return m, nil
}

// seal writes the manifest into a directory whose files are complete.
func (j *Job) seal(dir string, m *Manifest) error {
	if j.Meta.Fsync {
		for _, f := range m.Files {
			if err := syncPath(filepath.Join(dir, f.Name)); err != nil {
				return err
			}
		}
	}
	j.Faults.Hit(faults.CommitSynced)
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	b = fmt.Appendf(b, "crc32c %08x\n", format.Checksum(b))
	if err := writeAtomic(filepath.Join(dir, manifestName), b); err != nil {
		return err
	}
	j.Faults.Hit(faults.CommitManifest)
	return syncPath(dir)
}

// addRank finds the files of a rank and checks that they are complete and belong here.
func (m *Manifest) addRank(dir string, rank int) error {
	for part, nparts := 0, 1; part < nparts; part++ {
		name := fileName(rank, part)
		h, size, err := readHeader(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := m.belongs(h, rank, part); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if nparts = int(h.NParts); rank == 0 && part == 0 {
			m.MPI, m.App = abi.Text(h.MPI[:]), abi.Text(h.App[:])
		}
		m.Files = append(m.Files, File{name, size, fmt.Sprintf("%08x", h.HeaderCRC)})
		m.Bytes += size
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
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	h, err := format.ReadHeader(f, st.Size())
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return h, st.Size(), nil
}

// ReadManifest reads and checks the manifest in a checkpoint's directory.
func ReadManifest(dir string) (*Manifest, error) {
	path := filepath.Join(dir, manifestName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dataset: %s: %w", dir, ErrNoManifest)
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	end := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n') + 1
	var crc uint32
	if _, err := fmt.Sscanf(string(b[end:]), "crc32c %08x", &crc); err != nil {
		return nil, fmt.Errorf("dataset: %s: last line %.40q, wanted its checksum: truncated", path, b[end:])
	}
	if found := format.Checksum(b[:end]); found != crc {
		return nil, fmt.Errorf("dataset: %s: crc32c %08x, wanted %08x", path, found, crc)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b[:end], m); err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", path, err)
	}
	if m.Format > manifestFormat {
		return nil, fmt.Errorf("dataset: %s: format version %d, this byssus reads up to %d", path, m.Format, manifestFormat)
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
	listed := map[string]File{}
	for _, f := range m.Files {
		listed[f.Name] = f
	}
	for rank := range m.Ranks {
		for part, nparts := 0, 1; part < nparts; part++ {
			name := fileName(rank, part)
			h, _, err := readHeader(filepath.Join(dir, name))
			if err == nil {
				err = m.belongs(h, rank, part)
			}
			if err == nil && listed[name].HeaderCRC != fmt.Sprintf("%08x", h.HeaderCRC) {
				err = fmt.Errorf("%s: header crc32c %08x, the manifest wants %q", name, h.HeaderCRC, listed[name].HeaderCRC)
			}
			if err != nil {
				return nil, fmt.Errorf("dataset: %s: %w", filepath.Base(dir), err)
			}
			nparts = int(h.NParts)
		}
	}
	return m, nil
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
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	im, err := format.Read(f, st.Size())
	if err != nil {
		return err
	}
	return im.VerifyData(f, progress)
}

// OpenImage reads one image file's tables.
func OpenImage(dir string, rank, part int) (*format.Image, error) {
	f, err := os.Open(filepath.Join(dir, fileName(rank, part)))
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	im, err := format.Read(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("dataset: %s: %w", f.Name(), err)
	}
	return im, nil
}
