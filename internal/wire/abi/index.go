package abi

// Indexes of the files that a rank has written.
const (
	IndexMagic   = "BYSSIDX\n"
	IndexVersion = 1
	IndexChunk   = 1 << 20 // bytes of a file for which there is one checksum
)

// IndexHeader opens an index. The records of its files follow, and zeros up to a multiple of 8 before the last 4 bytes, which are the
// checksum of all before them.
type IndexHeader struct {
	Magic     [8]byte
	Version   uint32
	Rank      uint32
	Compat    uint64 // features that a reader may ignore
	Incompat  uint64 // features that a reader must know
	NFiles    uint64
	Bytes     uint64 // of all files
	IndexSize uint64 // of the index
	ChunkSize uint32
	Pad       uint32
}

// IndexFile is a file. Its path follows, padded to a multiple of 8, then the checksum (crc32c) of each chunk of it, 4 bytes each, padded
// to a multiple of 8.
type IndexFile struct {
	Size    uint64
	MTime   int64  // nanoseconds since 1970
	Mode    uint32 // permissions
	PathLen uint32
}
