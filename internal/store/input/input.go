// Package input keeps what the standard input of a job has delivered, so that a rank which goes back to a checkpoint reads it
// again from where it was then:
//
//	<store>/<job>/input    a header, and a record for each piece; docs/format/input.md has every byte
//
// It guarantees: what Append has taken is there for who opens the file later, on disk where that is wanted; a piece that could
// not be written whole has not been taken, and one may try again; what is read is what was appended, or an error says at which
// byte it is damaged. What a crash has left of a last record is cut off.
//
// A Spool serves one goroutine.
package input

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"github.com/byssus-hpc/byssus/internal/store/dataset"
	"github.com/byssus-hpc/byssus/internal/store/format"
	"github.com/byssus-hpc/byssus/internal/store/own"
)

// MaxPiece is the longest piece, in bytes.
const MaxPiece = 64 << 10

const (
	fileName    = "input"
	magic       = "BYSSINP\n"
	version     = 1
	headerBytes = 40
	prefixBytes = 12 // of a record: length, checksum of the bytes, checksum of these two
)

// ErrDamaged: the file is not as it was written.
var ErrDamaged = errors.New("damaged")

// Spool is what was delivered so far.
type Spool struct {
	path    string
	f       *os.File // nil: it cannot be made
	sync    bool
	records []record // but the one that says that this is the end
	ended   bool
	size    int64 // bytes of input
	tail    int64 // where the next record goes in the file
	torn    bool  // there may be something behind the tail, which is no record
	damaged error // what follows is not as it was written
}

// record is a piece in the file.
type record struct {
	offset int64 // of its first byte in the input
	at     int64 // of it in the file
	length int
}

// Create makes the spool of a job that begins. One of an earlier job of that name is gone.
func Create(dir string, job [16]byte, sync bool) (*Spool, error) {
	path := filepath.Join(dir, fileName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("input: %w", err)
	}
	f, _, err := own.Open(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	s := &Spool{path: path, f: f, sync: sync, tail: headerBytes}
	err = s.write(header(job), 0)
	if err == nil && sync {
		err = dataset.SyncNames(dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// Open opens that of a job that goes on. A job that has none has got no input yet. In a store that cannot be written to it is
// opened all the same, and Append fails.
func Open(dir string, job [16]byte, sync bool) (*Spool, error) {
	path := filepath.Join(dir, fileName)
	f, _, err := own.Open(path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		s, err := Create(dir, job, sync)
		if err != nil {
			s = &Spool{path: path, damaged: err}
		}
		return s, nil
	}
	if err != nil && !errors.Is(err, own.ErrForeign) { // a store that cannot be written to
		f, _, err = own.Open(path, os.O_RDONLY)
	}
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	s := &Spool{path: path, f: f, sync: sync}
	if err := s.load(job); err != nil {
		f.Close()
		return nil, fmt.Errorf("input: %s: %w", path, err)
	}
	return s, nil
}

// Check reads all that is kept of a job's input, and says what is damaged. That there is nothing is no damage.
func Check(dir string, job [16]byte) error {
	path := filepath.Join(dir, fileName)
	f, _, err := own.Open(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	s := &Spool{path: path, f: f}
	defer s.Close()
	if err := s.load(job); err != nil {
		return fmt.Errorf("input: %s: %w", path, err)
	}
	return s.damaged
}

func header(job [16]byte) []byte {
	b := binary.LittleEndian.AppendUint64([]byte(magic), version)
	b = append(b, job[:]...)
	return binary.LittleEndian.AppendUint64(b, uint64(format.Checksum(b)))
}

// load reads all records.
func (s *Spool) load(job [16]byte) error {
	size, err := s.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	found := make([]byte, headerBytes)
	if _, err := s.f.ReadAt(found, 0); err != nil || string(found) != string(header(job)) {
		return fmt.Errorf("its header is not that of this job: %w", errors.Join(ErrDamaged, err))
	}
	buf := make([]byte, MaxPiece)
	for s.tail = headerBytes; s.tail < size && !s.ended; {
		piece, err := s.readRecord(s.tail, size, buf)
		switch {
		case err == nil:
			s.took(len(piece))
		case errors.Is(err, errTorn):
			s.torn = true
			return nil
		case errors.Is(err, ErrDamaged):
			s.damaged = fmt.Errorf("input: %s: byte %d of the job's input: %w", s.path, s.size, err)
			return nil
		default:
			return err
		}
	}
	return nil
}

// errTorn: the file ends within a record.
var errTorn = errors.New("the file ends within a piece")

// readRecord reads the record at a place in the file into a buffer.
func (s *Spool) readRecord(at, size int64, buf []byte) (piece []byte, err error) {
	var prefix [prefixBytes]byte
	if at+prefixBytes > size {
		return nil, errTorn
	}
	if _, err := s.f.ReadAt(prefix[:], at); err != nil {
		return nil, err
	}
	length, crc := binary.LittleEndian.Uint32(prefix[:]), binary.LittleEndian.Uint32(prefix[4:])
	own := binary.LittleEndian.Uint32(prefix[8:])
	if found := format.Checksum(prefix[:8]); found != own || length > uint32(len(buf)) {
		return nil, fmt.Errorf("a piece of %d bytes, crc32c %08x, wanted %08x: %w", length, found, own, ErrDamaged)
	}
	if at+prefixBytes+int64(length) > size {
		return nil, errTorn
	}
	piece = buf[:length]
	if _, err := s.f.ReadAt(piece, at+prefixBytes); err != nil {
		return nil, err
	}
	if found := format.Checksum(piece); found != crc {
		return nil, fmt.Errorf("crc32c %08x, wanted %08x: %w", found, crc, ErrDamaged)
	}
	return piece, nil
}

// took notes that the record at the tail is there.
func (s *Spool) took(length int) {
	if length == 0 {
		s.ended = true
	} else {
		s.records = append(s.records, record{s.size, s.tail + prefixBytes, length})
	}
	s.size += int64(length)
	s.tail += prefixBytes + int64(length)
}

// Append takes a piece of 1 to MaxPiece bytes.
func (s *Spool) Append(piece []byte) error {
	if len(piece) < 1 || len(piece) > MaxPiece {
		return fmt.Errorf("input: a piece of %d bytes, wanted 1 to %d", len(piece), MaxPiece)
	}
	return s.append(piece)
}

// End says that there will be no more.
func (s *Spool) End() error { return s.append(nil) }

func (s *Spool) append(piece []byte) error {
	switch {
	case s.damaged != nil:
		return s.damaged
	case s.ended:
		return errors.New("input: it has ended")
	}
	if s.torn {
		if err := s.f.Truncate(s.tail); err != nil {
			return fmt.Errorf("input: %w", err)
		}
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, prefixBytes+len(piece)), uint32(len(piece)))
	b = binary.LittleEndian.AppendUint32(b, format.Checksum(piece))
	b = binary.LittleEndian.AppendUint32(b, format.Checksum(b))
	s.torn = true
	if err := s.write(append(b, piece...), s.tail); err != nil {
		return err
	}
	s.torn = false
	s.took(len(piece))
	return nil
}

func (s *Spool) write(b []byte, at int64) error {
	_, err := s.f.WriteAt(b, at)
	if err == nil && s.sync {
		err = s.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("input: %w", err)
	}
	return nil
}

// Size is how many bytes of input there are.
func (s *Spool) Size() uint64 { return uint64(s.size) }

// Ended says whether there will be no more.
func (s *Spool) Ended() bool { return s.ended }

// Read returns what follows at an offset, at most MaxPiece bytes; nothing: that is not there yet. io.EOF: nothing will be.
func (s *Spool) Read(offset uint64) ([]byte, error) {
	switch {
	case offset > s.Size() && s.damaged != nil:
		return nil, s.damaged
	case offset > s.Size():
		return nil, fmt.Errorf("input: %s: found %d bytes of the job's input, %d had been read: %w", s.path, s.size, offset, ErrDamaged)
	case offset < s.Size():
	case s.damaged != nil && s.f != nil:
		return nil, s.damaged
	case s.ended:
		return nil, io.EOF
	default:
		return nil, nil
	}
	i := sort.Search(len(s.records), func(i int) bool { return s.records[i].offset > int64(offset) }) - 1
	r := s.records[i]
	piece, err := s.readRecord(r.at-prefixBytes, s.tail, make([]byte, r.length))
	if err == nil && len(piece) != r.length {
		err = ErrDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("input: %s: byte %d of the job's input: %w", s.path, r.offset, err)
	}
	return piece[int64(offset)-r.offset:], nil
}

// Remove removes the file, of which nobody has read anything.
func (s *Spool) Remove() error {
	if err := os.Remove(s.path); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	return nil
}

// Close closes the file.
func (s *Spool) Close() error {
	if s.f == nil {
		return nil
	}
	if err := s.f.Close(); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	return nil
}
