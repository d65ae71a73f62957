package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"github.com/byssus-hpc/byssus/internal/store/format"
)

// mostText is how long a JSON file of the store may be: 100,000 ranks need a fifth of it.
const mostText = 64 << 20

// seal appends the line with the checksum of all before it.
func seal(b []byte) []byte { return fmt.Appendf(b, "crc32c %08x\n", format.Checksum(b)) }

// unseal checks and removes that line.
func unseal(b []byte) ([]byte, error) {
	end := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n') + 1
	var crc uint32
	if _, err := fmt.Sscanf(string(b[end:]), "crc32c %08x", &crc); err != nil {
		return nil, fmt.Errorf("last line %.40q, wanted its checksum: truncated or damaged", b[end:])
	}
	if found := format.Checksum(b[:end]); found != crc {
		return nil, fmt.Errorf("crc32c %08x, wanted %08x", found, crc)
	}
	if !bytes.Equal(seal(b[:end:end]), b) {
		return nil, fmt.Errorf("last line %.40q: damaged", b[end:])
	}
	return b[:end], nil
}

// full says whether an error means that there is no room.
func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// sealedStore says whether an error means that nothing can be written where it came from.
func sealedStore(err error) bool {
	return full(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}
