package abi

// The records of a parity file, which ranks know nothing of: only package parity writes and reads them.

// Constants of a parity file.
const (
	ParityMagic       = "BYSSPAR\n"
	ParityVersion     = 1
	ParityChunk       = 1 << 20 // bytes for which there is one checksum
	ParityTableCRCOff = 112     // offset of table_crc
)

// Features of parity files.
const (
	ParityRanks = 1 << 0 // compat: files have their ranks
	ParityKinds = 1 << 0 // incompat: there are streams beside 0, and kinds beside image
)

// ParityHeader opens a parity file. It is written last, with all records up to the data: a file without it is incomplete.
type ParityHeader struct {
	Magic      [8]byte
	Version    uint32
	Scheme     uint16
	Stream     uint16 // of datasets: 0 are the checkpoints
	Compat     uint64 // features that a reader may ignore: ParityRanks
	Incompat   uint64 // features that a reader must know: ParityKinds
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
	NameLen uint16
	Kind    uint16 // of the part that the file belongs to: 0 image, 1 files
	Rank    uint32 // whose part it is; without ParityRanks the name of the file says it
}
