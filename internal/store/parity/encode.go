package parity

import (
	"encoding/binary"
	"fmt"

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
	r := abi.ParityHeader{Version: abi.ParityVersion, Scheme: uint32(h.Scheme), JobID: h.Job, Start: h.Start, Epoch: h.Epoch,
		Dataset: h.Dataset, Set: uint32(h.Set), NSets: uint32(h.Sets), Own: uint32(h.Own), NMembers: uint32(len(h.Members)),
		SegmentLen: uint64(dataBytes(h, l)), ChunkSize: abi.ParityChunk}
	copy(r.Magic[:], abi.ParityMagic)
	b := make([]byte, headerBytes)
	for _, m := range h.Members {
		head := abi.ParityMember{NodeLen: uint32(len(m.Node)), GroupLen: uint32(len(m.Group)), NFiles: uint64(len(m.Files))}
		b = fill(append(b, abi.Encode(head, m.Node+m.Group)...), align)
		for _, f := range m.Files {
			head := abi.ParityFile{Size: uint64(f.Size), Digest: f.Digest, NameLen: uint32(len(f.Name))}
			b = fill(append(b, abi.Encode(head, f.Name)...), align)
		}
	}
	b = fill(append(b, make([]byte, crcBytes)...), abi.PageBytes)
	r.DataOff = uint64(len(b))
	r.FileSize = r.DataOff + r.SegmentLen + uint64(tableBytes(dataBytes(h, l)))
	copy(b, abi.Encode(r, ""))
	return b
}

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
	case r.Incompat != 0:
		return nil, nil, fmt.Errorf("parity: header: needs features %#x that this byssus does not know", r.Incompat)
	case r.NMembers > redset.MaxMembers:
		return nil, nil, fmt.Errorf("parity: header: %d members, at most %d", r.NMembers, redset.MaxMembers)
	}
	h := &holding.Header{ID: holding.ID{Job: r.JobID, Start: r.Start, Epoch: r.Epoch, Dataset: r.Dataset}, Scheme: redset.Scheme(r.Scheme),
		Set: int(r.Set), Sets: int(r.NSets), Own: int(r.Own)}
	at := cursor{rest}
	for i := range r.NMembers {
		m, err := at.member()
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

func (c *cursor) member() (holding.Member, error) {
	var head abi.ParityMember
	names, err := c.record(&head, &head.NodeLen, &head.GroupLen)
	if err != nil {
		return holding.Member{}, err
	}
	m := holding.Member{Node: names[0], Group: names[1]}
	for i := range head.NFiles {
		var f abi.ParityFile
		names, err := c.record(&f, &f.NameLen)
		if err != nil {
			return holding.Member{}, fmt.Errorf("file %d of %d: %w", i, head.NFiles, err)
		}
		m.Files = append(m.Files, holding.File{Name: names[0], Size: int64(f.Size), Digest: f.Digest})
	}
	return m, nil
}

// record reads a record and the names behind it, whose lengths are fields of the record.
func (c *cursor) record(r any, lengths ...*uint32) ([]string, error) {
	rest, err := abi.Decode(c.left, r)
	if err != nil {
		return nil, err
	}
	names, used := make([]string, len(lengths)), 0
	for i, n := range lengths {
		if *n > holding.MaxName || used+int(*n) > len(rest) {
			return nil, fmt.Errorf("a name of %d bytes, %d are left, at most %d", *n, len(rest)-used, holding.MaxName)
		}
		names[i] = string(rest[used : used+int(*n)])
		used += int(*n)
	}
	c.left = rest[min(len(rest), roundUp(used, align)):]
	return names, nil
}
