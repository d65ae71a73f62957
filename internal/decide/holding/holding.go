// Package holding describes what the nodes of redundancy sets hold of a dataset, and decides what of it can be made again when some
// of them are lost.
//
// It guarantees: a description that Check lets pass names nothing but files in one directory, each once, and nodes, each once; what
// is said to be recoverable is, by the redundancy that the members have.
package holding

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/byssus-hpc/byssus/internal/decide/redset"
)

// Limits.
const (
	MaxSets = 1 << 20
	MaxName = 255 // bytes
	MaxRank = 1<<31 - 1
)

// Kind is what the parts of ranks are. Its numbers are stored.
type Kind uint16

// The kinds.
const (
	Image Kind = 0 // of a rank's process: files that bring their own checksums (package format)
	Files Kind = 1 // that a rank has written: an index of them, and what they contain (package files)
)

func (k Kind) String() string {
	switch k {
	case Image:
		return "image"
	case Files:
		return "files"
	}
	return fmt.Sprintf("kind %d", uint16(k))
}

// Stream is one of the sequences of datasets that a job has: each has numbers, redundancy and retention of its own. Its numbers are
// stored. Stream 0 are the checkpoints.
type Stream uint16

// Label is what a program calls a dataset that it writes itself.
type Label struct {
	Name       string `json:"name"`
	Checkpoint bool   `json:"checkpoint,omitempty"` // it can restart from it
	Output     bool   `json:"output,omitempty"`     // a result
	Ranks      int    `json:"ranks"`                // that have written it
	InPlace    bool   `json:"in_place,omitempty"`   // its files are in the prefix, where they were written
}

// Group is the group of which a dataset is a snapshot, by its name, which is GROUP.N, N its number; empty: of none.
func (l Label) Group(n uint64) string {
	group, number, ok := strings.Cut(l.Name, ".")
	if !ok || l.InPlace || !l.Checkpoint || number != strconv.FormatUint(n, 10) || strings.ContainsAny(group, " \t\n/") {
		return ""
	}
	return group
}

// Path stands for the path of a file that a rank has written.
type Path struct {
	Rank int
	Hash uint64 // of the path: FNV-1a
}

// Twice are the first two ranks that have written a file of the same path; false: there are none.
func Twice(paths []Path) (a, b Path, twice bool) {
	first := make(map[uint64]int, len(paths))
	for _, p := range paths {
		if rank, there := first[p.Hash]; there && rank != p.Rank {
			return Path{rank, p.Hash}, p, true
		}
		first[p.Hash] = p.Rank
	}
	return Path{}, Path{}, false
}

// File is one of the files of a rank's part: what has no name of its own on the node, as the contents of many files, has one here.
type File struct {
	Name   string
	Size   int64
	Digest uint64 // of what has the checksums of everything in it: an image's header, an index
	Rank   int
	Kind   Kind
}

// Member is a member of a set, with the files of its part in their order.
type Member struct {
	Node, Group string
	Files       []File
}

// Ranks are those of which the member has something, in the order of their files.
func (m Member) Ranks() []int {
	var ranks []int
	for _, f := range m.Files {
		if !slices.Contains(ranks, f.Rank) {
			ranks = append(ranks, f.Rank)
		}
	}
	return ranks
}

// Bytes is how long the member's part is.
func (m Member) Bytes() int64 {
	var sum int64
	for _, f := range m.Files {
		sum += f.Size
	}
	return sum
}

// ID says which dataset of which job it is. Start and epoch are the fence of the start that wrote it.
type ID struct {
	Job                   [16]byte
	Start, Epoch, Dataset uint64
	Stream                Stream
}

func (id ID) String() string {
	if id.Stream != 0 {
		return fmt.Sprintf("job %x, epoch %d, start %d, stream %d, dataset %d", id.Job, id.Epoch, id.Start, id.Stream, id.Dataset)
	}
	return fmt.Sprintf("job %x, epoch %d, start %d, dataset %d", id.Job, id.Epoch, id.Start, id.Dataset)
}

// Header describes a set, and which member's file it was found in. But for that, the headers of all members are equal.
type Header struct {
	ID
	Scheme    redset.Scheme
	Set, Sets int // the number of this set, from 0, among those of the dataset
	Own       int
	Members   []Member // in the order of the ring
}

// Layout is how the set's redundancy lies.
func (h *Header) Layout() (redset.Layout, error) {
	lengths := make([]int64, len(h.Members))
	for i, m := range h.Members {
		lengths[i] = m.Bytes()
	}
	return redset.NewLayout(h.Scheme, lengths)
}

// Check says whether a header makes sense, and names nothing but files in one directory; and returns the set's layout.
func (h *Header) Check() (redset.Layout, error) {
	files, nodes := map[string]bool{}, map[string]bool{}
	for i, m := range h.Members {
		if err := checkName(m.Node); err != nil {
			return redset.Layout{}, fmt.Errorf("holding: member %d: node: %w", i, err)
		}
		if err := checkName(m.Group); m.Group != "" && err != nil {
			return redset.Layout{}, fmt.Errorf("holding: member %d: failure group: %w", i, err)
		}
		if nodes[m.Node] {
			return redset.Layout{}, fmt.Errorf("holding: member %d: node %s is there twice", i, m.Node)
		}
		nodes[m.Node] = true
		if err := m.checkFiles(files); err != nil {
			return redset.Layout{}, fmt.Errorf("holding: member %d: %w", i, err)
		}
	}
	if h.Set < 0 || h.Set >= h.Sets || h.Sets > MaxSets || h.Own < 0 || h.Own >= len(h.Members) {
		return redset.Layout{}, fmt.Errorf("holding: header: set %d of %d, member %d of %d, at most %d sets",
			h.Set, h.Sets, h.Own, len(h.Members), MaxSets)
	}
	l, err := h.Layout()
	if err != nil {
		return l, fmt.Errorf("holding: header: %w", err)
	}
	return l, nil
}

// checkFiles wants names that no other file of the set has: copies lie beside the own files.
func (m Member) checkFiles(seen map[string]bool) error {
	var sum int64
	for i, f := range m.Files {
		if err := checkName(f.Name); err != nil {
			return fmt.Errorf("file %d: %w", i, err)
		}
		if seen[f.Name] {
			return fmt.Errorf("file %d: %s is there twice", i, f.Name)
		}
		seen[f.Name] = true
		if f.Rank < 0 || f.Rank > MaxRank || f.Kind > Files {
			return fmt.Errorf("file %d: %s: %v of rank %d, wanted a kind that this byssus knows, and a rank up to %d", i, f.Name, f.Kind, f.Rank, MaxRank)
		}
		if f.Size < 0 || f.Size > redset.MaxPart-sum {
			return fmt.Errorf("file %d: %d bytes behind %d, wanted at most %d for a part", i, f.Size, sum, int64(redset.MaxPart))
		}
		sum += f.Size
	}
	return nil
}

// SameShape says whether both are of the same member of the same set, whose parts have files of the same names and lengths: the redundancy
// of one can be made as an increment of the other's.
func (h *Header) SameShape(o *Header) bool {
	same := func(a, b File) bool { a.Digest = b.Digest; return a == b }
	return h.Scheme == o.Scheme && h.Set == o.Set && h.Own == o.Own && slices.EqualFunc(h.Members, o.Members, func(a, b Member) bool {
		return a.Node == b.Node && slices.EqualFunc(a.Files, b.Files, same)
	})
}

var errName = errors.New("not a name")

// checkName wants what can be a file in a directory and one word of a message.
func checkName(s string) error {
	bad := func(r rune) bool { return r < 0x20 || r == 0x7f || r == '/' }
	if s == "" || len(s) > MaxName || s == "." || s == ".." || strings.ContainsFunc(s, bad) {
		return fmt.Errorf("%.40q: %w: wanted 1 to %d bytes without control characters and '/'", s, errName, MaxName)
	}
	return nil
}
