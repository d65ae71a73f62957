package script

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func bigEndian(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }

// resealed is a manifest with the right checksum in its last line.
func resealed(text []byte) []byte {
	body := text[:bytes.LastIndex(bytes.TrimRight(text, "\n"), []byte("\n"))+1]
	return fmt.Appendf(body[:len(body):len(body)], "crc32c %08x\n", checksum(body))
}
