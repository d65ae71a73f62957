package imagetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"

	"github.com/byssus-hpc/byssus/internal/wire/abi"
)

// Image is part 0 of a real image, whose header and memory a test changes; Bytes makes its checksums right again.
type Image struct {
	Header abi.ImageHeader
	file   []byte
	chunks []abi.Chunk
	frame  uint64 // address of the first thread's extended state
}

// Open reads a file.
func Open(file []byte) (*Image, error) {
	im := &Image{file: file}
	if err := binary.Read(bytes.NewReader(file), binary.LittleEndian, &im.Header); err != nil {
		return nil, err
	}
	im.chunks = make([]abi.Chunk, im.Header.NChunks)
	if err := binary.Read(bytes.NewReader(file[im.Header.ChunksOff:]), binary.LittleEndian, im.chunks); err != nil {
		return nil, err
	}
	threads := im.section(abi.SecThreads)
	if len(threads) < 48 {
		return nil, errors.New("imagetest: open: no thread")
	}
	context := binary.LittleEndian.Uint64(threads[16+24:]) // of the first record: uc
	extended := im.memory(context+224, 8)                  // uc_mcontext.fpregs
	if extended == nil {
		return nil, errors.New("imagetest: open: the first thread's frame is not in this part")
	}
	im.frame = binary.LittleEndian.Uint64(extended)
	return im, nil
}

func (im *Image) section(kind uint32) []byte {
	at := im.Header.SectionsOff
	for range im.Header.NSections {
		length := binary.LittleEndian.Uint64(im.file[at+8:])
		if binary.LittleEndian.Uint32(im.file[at:]) == kind {
			return im.file[at+16 : at+16+length]
		}
		at += 16 + (length+7)/8*8
	}
	return nil
}

// memory is n bytes of saved memory as they lie in the file, nil when they are not there.
func (im *Image) memory(addr uint64, n int) []byte {
	i := slices.IndexFunc(im.chunks, func(c abi.Chunk) bool { return c.Addr <= addr && addr+uint64(n) <= c.Addr+uint64(c.Length) })
	if i < 0 {
		return nil
	}
	from := im.chunks[i].Offset + addr - im.chunks[i].Addr
	return im.file[from : from+uint64(n)]
}

// PatchFrame writes into the extended state of the first thread's signal frame.
func (im *Image) PatchFrame(offset uint64, b []byte) { copy(im.memory(im.frame+offset, len(b)), b) }

// GrowFrame lets that state be n bytes longer, with its end where it then is.
func (im *Image) GrowFrame(n uint32) {
	const allSize, size, end = 468, 480, 0x46505845
	was := binary.LittleEndian.Uint32(im.memory(im.frame+size, 4))
	im.PatchFrame(size, binary.LittleEndian.AppendUint32(nil, was+n))
	im.PatchFrame(allSize, binary.LittleEndian.AppendUint32(nil, was+n+4))
	im.PatchFrame(uint64(was+n), binary.LittleEndian.AppendUint32(nil, end))
}

// Bytes returns the file with checksums of what it is now.
func (im *Image) Bytes() []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	for i, c := range im.chunks {
		im.chunks[i].CRC32C = crc32.Checksum(im.file[c.Offset:c.Offset+uint64(c.Length)], table)
	}
	h := &im.Header
	copy(im.file[h.ChunksOff:], abi.Encode(im.chunks, ""))
	vmas := im.file[h.VMAsOff : h.VMAsOff+h.NVMAs*uint64(binary.Size(abi.VMA{}))]
	h.TablesCRC = crc32.Update(crc32.Checksum(vmas, table), table, im.file[h.ChunksOff:h.ChunksOff+h.NChunks*uint64(binary.Size(abi.Chunk{}))])
	head := abi.Encode(*h, "")
	binary.LittleEndian.PutUint32(head[abi.HeaderCRCOff:], crc32.Checksum(head[:abi.HeaderCRCOff], table))
	copy(im.file, head)
	return im.file
}
