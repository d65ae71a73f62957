// Package imagetest writes small valid image files for tests, by its own reading of the format.
package imagetest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/abi"
)

// Spec says what the image is of.
type Spec struct {
	Rank, NRanks int
	Part, NParts int
	JobID        [16]byte
	Checkpoint   uint64
	Memory       []byte // saved as chunks from address 0x400000000000 on
	Name         string // of the one mapping
}

// Bytes returns a file.
func Bytes(s Spec) []byte {
	crc := func(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
	pad := func(b []byte, to int) []byte { return append(b, make([]byte, (to-len(b)%to)%to)...) }
	const base = 0x400000000000
	file := make([]byte, abi.PageBytes)
	var chunks []abi.Chunk
	for at := 0; at < len(s.Memory); at += abi.MaxChunk {
		part := s.Memory[at:min(at+abi.MaxChunk, len(s.Memory))]
		chunks = append(chunks, abi.Chunk{Addr: base + uint64(at), Offset: uint64(len(file)), Length: uint32(len(part)), CRC32C: crc(part)})
		file = pad(append(file, part...), abi.PageBytes)
	}
	h := abi.ImageHeader{Version: abi.ImageVersion, HeaderSize: abi.PageBytes, Rank: uint32(s.Rank), NRanks: uint32(s.NRanks),
		Part: uint32(s.Part), NParts: uint32(max(s.NParts, 1)), JobID: s.JobID, Checkpoint: s.Checkpoint, PageSize: 4096,
		ChunkSize: abi.MaxChunk, DataOff: abi.PageBytes, DataLen: uint64(len(file) - abi.PageBytes)}
	copy(h.Magic[:], abi.ImageMagic)
	vmas := abi.Encode([]abi.VMA{{Start: base, End: base + 1<<30, Prot: 3, Kind: abi.VMAAnon, Name: 1}}, "")
	table := abi.Encode(chunks, "")
	h.VMAsOff, h.NVMAs = uint64(len(file)), 1
	h.ChunksOff, h.NChunks = h.VMAsOff+uint64(len(vmas)), uint64(len(chunks))
	h.TablesCRC = crc(append(append([]byte{}, vmas...), table...))
	file = append(append(file, vmas...), table...)
	strings := []byte("\x00" + s.Name + "\x00")
	h.SectionsOff, h.NSections = uint64(len(file)), 1
	file = append(file, abi.Encode(abi.Section{Type: abi.SecStrings, CRC32C: crc(strings), Length: uint64(len(strings))}, "")...)
	file = append(file, pad(strings, 8)...)
	h.SectionsLen, h.FileSize = uint64(len(file))-h.SectionsOff, uint64(len(file))
	head := abi.Encode(h, "")
	binary.LittleEndian.PutUint32(head[abi.HeaderCRCOff:], crc(head[:abi.HeaderCRCOff]))
	copy(file, head)
	return file
}

// Write writes a file into a checkpoint's directory, under the name that it has there.
func Write(dir string, s Spec) error {
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank-%05d.%d.img", s.Rank, s.Part)), Bytes(s), 0o600)
}
