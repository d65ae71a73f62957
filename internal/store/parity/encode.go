package parity

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/byssus-hpc/byssus/internal/decide/holding"
	"github.com/byssus-hpc/byssus/internal/decide/redset"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

const (
	crcBytes = 4
	align    = 8 // of records
)

var headerBytes = binary.Size(abi.ParityHeader{})

func roundUp[T int | int64](n, unit T) T { return (n + unit - 1) / unit * unit }

// tableBytes is how long the table is for so much data.
func tableBytes(data int64) int64 {
	return (data + abi.ParityChunk - 1) / abi.ParityChunk * crcBytes
}

// fill brings b to a multiple of unit.
func fill(b []byte, unit int) []byte { return append(b, make([]byte, roundUp(len(b), unit)-len(b))...) }

// dataBytes is how many bytes of data a member's file has: with copies, which are files of their own, none.
func dataBytes(h *holding.Header, l redset.Layout) int64 {
	if h.Scheme == redset.XOR {
		return l.Redundancy(h.Own)
	}
	return 0
}

// encode returns all that stands before the data, for seal to complete.
func encode(h *holding.Header, l redset.Layout) []byte {
	r := abi.ParityHeader{Version: abi.ParityVersion, Scheme: uint16(h.Scheme), Stream: uint16(h.Stream), Compat: abi.ParityRanks, JobID: h.Job, Start: h.Start, Epoch: h.Epoch,
		Dataset: h.Dataset, Set: uint32(h.Set), NSets: uint32(h.Sets), Own: uint32(h.Own), NMembers: uint32(len(h.Members)),
		SegmentLen: uint64(dataBytes(h, l)), ChunkSize: abi.ParityChunk}
	copy(r.Magic[:], abi.ParityMagic)
	if h.Stream != 0 || slices.ContainsFunc(h.Members, func(m holding.Member) bool { return slices.ContainsFunc(m.Files, notImage) }) {
		r.Incompat = abi.ParityKinds
	}
	b := make([]byte, headerBytes)
	for _, m := range h.Members {
		head := abi.ParityMember{NodeLen: uint32(len(m.Node)), GroupLen: uint32(len(m.Group)), NFiles: uint64(len(m.Files))}
		b = fill(append(b, abi.Encode(head, m.Node+m.Group)...), align)
		for _, f := range m.Files {
			head := abi.ParityFile{Size: uint64(f.Size), Digest: f.Digest, NameLen: uint16(len(f.Name)), Kind: uint16(f.Kind), Rank: uint32(f.Rank)}
			b = fill(append(b, abi.Encode(head, f.Name)...), align)
		}
	}
	b = fill(append(b, make([]byte, crcBytes)...), abi.PageBytes)
	r.DataOff = uint64(len(b))
	r.FileSize = r.DataOff + r.SegmentLen + uint64(tableBytes(dataBytes(h, l)))
	copy(b, abi.Encode(r, ""))
	return b
}

func notImage(f holding.File) bool { return f.Kind != holding.Image }

// seal puts the checksums of the table and of the header into what encode has returned.
func seal(b []byte, tableCRC uint32) {
	binary.LittleEndian.PutUint32(b[abi.ParityTableCRCOff:], tableCRC)
	end := len(b) - crcBytes
	binary.LittleEndian.PutUint32(b[end:], format.Checksum(b[:end]))
}

// decode reads what encode and seal have written, whose checksum has been compared.
func decode(b []byte) (*abi.ParityHeader, *holding.Header, error) {
	r := new(abi.ParityHeader)
	rest, err := abi.Decode(b[:len(b)-crcBytes], r)
	switch {
	case err != nil:
		return nil, nil, err
	case r.Incompat&^abi.ParityKinds != 0:
		return nil, nil, fmt.Errorf("parity: header: needs features %#x that this byssus does not know", r.Incompat)
	case r.NMembers > redset.MaxMembers:
		return nil, nil, fmt.Errorf("parity: header: %d members, at most %d", r.NMembers, redset.MaxMembers)
	}
	h := &holding.Header{ID: holding.ID{Job: r.JobID, Start: r.Start, Epoch: r.Epoch, Dataset: r.Dataset, Stream: holding.Stream(r.Stream)}, Scheme: redset.Scheme(r.Scheme),
		Set: int(r.Set), Sets: int(r.NSets), Own: int(r.Own)}
	at := cursor{rest}
	for i := range r.NMembers {
		m, err := at.member(r.Compat&abi.ParityRanks != 0)
		if err != nil {
			return nil, nil, fmt.Errorf("parity: member %d of %d: %w", i, r.NMembers, err)
		}
		h.Members = append(h.Members, m)
	}
	if len(at.left) >= abi.PageBytes {
		return nil, nil, fmt.Errorf("parity: header: %d bytes are left behind %d members, wanted less than a page",
			len(at.left), r.NMembers)
	}
	return r, h, nil
}

// cursor is a place in the records.
type cursor struct{ left []byte }

// member reads a member. Without ranks the names of its files, which are those of images, say whose they are.
func (c *cursor) member(ranks bool) (holding.Member, error) {
	var head abi.ParityMember
	names, err := c.record(&head, func() []int { return []int{int(head.NodeLen), int(head.GroupLen)} })
	if err != nil {
		return holding.Member{}, err
	}
	m := holding.Member{Node: names[0], Group: names[1]}
	for i := range head.NFiles {
		var f abi.ParityFile
		names, err := c.record(&f, func() []int { return []int{int(f.NameLen)} })
		if err != nil {
			return holding.Member{}, fmt.Errorf("file %d of %d: %w", i, head.NFiles, err)
		}
		if !ranks {
			f.Rank, f.Kind = rankOf(names[0]), uint16(holding.Image)
		}
		m.Files = append(m.Files, holding.File{Name: names[0], Size: int64(f.Size), Digest: f.Digest, Rank: int(f.Rank), Kind: holding.Kind(f.Kind)})
	}
	return m, nil
}

// rankOf is the rank whose image has that name; as in files that older writers have made.
func rankOf(name string) uint32 {
	var rank uint32
	_, _ = fmt.Sscanf(name, "rank-%d.", &rank) // a name that has none is not an image's: Check, or who opens it, refuses it
	return rank
}

// record reads a record and the names behind it, whose lengths are fields of the record.
func (c *cursor) record(r any, lengths func() []int) ([]string, error) {
	rest, err := abi.Decode(c.left, r)
	if err != nil {
		return nil, err
	}
	var names []string
	used := 0
	for _, n := range lengths() {
		if n < 0 || n > holding.MaxName || used+n > len(rest) {
			return nil, fmt.Errorf("a name of %d bytes, %d are left, at most %d", n, len(rest)-used, holding.MaxName)
		}
		names = append(names, string(rest[used:used+n]))
		used += n
	}
	c.left = rest[min(len(rest), roundUp(used, align)):]
	return names, nil
}
