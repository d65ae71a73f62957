// Package imagetest writes small valid image files for tests, by its own reading of the format.
package imagetest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/byssus-hpc/byssus/internal/wire/abi"
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
	pad := func(b []byte, to int) []byte { return append(b, make([]byte, (to-len(b)%to)%to)...) }
	const base = 0x400000000000
	file := make([]byte, abi.PageBytes)
	var chunks []abi.Chunk
	memory := pad(append([]byte{}, s.Memory...), abi.PageBytes)
	for at := 0; at < len(memory); at += abi.MaxChunk {
		part := memory[at:min(at+abi.MaxChunk, len(memory))]
		chunks = append(chunks, abi.Chunk{Addr: base + uint64(at), Offset: uint64(len(file)), Length: uint32(len(part)), CRC32C: crc(part)})
		file = append(file, part...)
	}
	h := abi.ImageHeader{Version: abi.ImageVersion, HeaderSize: abi.PageBytes, Rank: uint32(s.Rank), NRanks: uint32(s.NRanks),
		Part: uint32(s.Part), NParts: uint32(max(s.NParts, 1)), JobID: s.JobID, Checkpoint: s.Checkpoint, PageSize: 4096,
		ChunkSize: abi.MaxChunk, DataOff: abi.PageBytes, DataLen: uint64(len(file) - abi.PageBytes)}
	copy(h.Magic[:], abi.ImageMagic)
	h.SectionsOff = uint64(len(file))
	var vmas []byte
	if s.Part == 0 {
		names := []byte("\x00" + s.Name + "\x00")
		for kind := uint32(1); kind < abi.SecEnd; kind++ {
			body := []byte(nil)
			if kind == abi.SecStrings {
				body = names
			}
			file = append(file, Section(kind, body)...)
			h.NSections++
		}
		vmas = abi.Encode([]abi.VMA{{Start: base, End: base + 1<<30, Prot: 3, Kind: abi.VMAAnon, Name: 1}}, "")
		h.NVMAs = 1
	}
	h.SectionsLen = uint64(len(file)) - h.SectionsOff
	table := abi.Encode(chunks, "")
	h.VMAsOff = uint64(len(file))
	h.ChunksOff, h.NChunks = h.VMAsOff+uint64(len(vmas)), uint64(len(chunks))
	h.TablesCRC = crc(append(append([]byte{}, vmas...), table...))
	file = append(append(file, vmas...), table...)
	h.FileSize = uint64(len(file))
	copy(file, abi.Encode(h, ""))
	Seal(file)
	return file
}

func crc(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Section returns a section with its head and padding.
func Section(kind uint32, body []byte) []byte {
	b := abi.Encode(abi.Section{Type: kind, Length: uint64(len(body))}, string(body))
	b = append(b, make([]byte, (8-len(b)%8)%8)...)
	covered := append(append([]byte{}, b[:4]...), b[8:]...)
	binary.LittleEndian.PutUint32(b[4:], crc(covered))
	return b
}

// Seal gives a file's header the checksum of what it says now.
func Seal(file []byte) {
	binary.LittleEndian.PutUint32(file[abi.HeaderCRCOff:], crc(file[:abi.HeaderCRCOff]))
}

// Write writes a file into a checkpoint's directory, under the name that it has there.
func Write(dir string, s Spec) error {
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank-%05d.%d.img", s.Rank, s.Part)), Bytes(s), 0o600)
}
