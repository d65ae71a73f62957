package abi

// The records of a parity file, which ranks know nothing of: only package parity writes and reads them.

// Constants of a parity file.
const (
	ParityMagic       = "BYSSPAR\n"
	ParityVersion     = 1
	ParityChunk       = 1 << 20 // bytes for which there is one checksum
	ParityTableCRCOff = 112     // offset of table_crc
)

// ParityHeader opens a parity file. It is written last, with all records up to the data: a file without it is incomplete.
type ParityHeader struct {
	Magic      [8]byte
	Version    uint32
	Scheme     uint32
	Compat     uint64 // features that a reader may ignore
	Incompat   uint64 // features that a reader must know
	JobID      [16]byte
	Start      uint64
	Epoch      uint64
	Dataset    uint64
	Set        uint32
	NSets      uint32
	Own        uint32 // the member whose file this is
	NMembers   uint32
	SegmentLen uint64
	DataOff    uint64
	FileSize   uint64
	TableCRC   uint32 // crc32c of the table of checksums
	ChunkSize  uint32
}

// ParityMember is a member of the set. Its node's name and its failure group follow, padded to a multiple of 8, then its files.
type ParityMember struct {
	NodeLen  uint32
	GroupLen uint32
	NFiles   uint64
}

// ParityFile is a file of a member's part. Its name follows, padded to a multiple of 8.
type ParityFile struct {
	Size    uint64
	Digest  uint64
	NameLen uint32
	Pad     uint32
}
