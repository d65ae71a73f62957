package amt

import "encoding/binary"

// A batch is records, one after the other, all numbers little-endian:
//
//	0  4  bytes of the payload
//	4  2  number of the handler, or what else it is
//	6  2  zero
//	8  8  epoch
//	16 n  payload, filled up to a multiple of 8
const headerSize = 16

// What a record is that is for no handler of the program.
const (
	recordDetector  uint16 = iota // a term.Message, of no epoch's account
	recordAgreement               // an agree.Message, of no epoch
	recordNothing                 // a message that could not be packed: it is counted only
	recordFailure                 // a text: the epoch has failed
	recordWatch                   // a notice of a watch, of no epoch, whose kind is in its place: alone in its batch
	recordSpread                  // a root and a record: for all ranks, to be passed on down a tree
	firstHandler
)

const maxHandlers = 1<<16 - int(firstHandler)

// A record is one that has been read.
type record struct {
	id      uint16
	epoch   uint64
	payload []byte
}

// openRecord leaves room for a header at the end of a batch, and returns where the record begins.
func openRecord(b []byte) ([]byte, int) {
	at := len(b)
	if cap(b)-at >= headerSize {
		return b[:at+headerSize], at
	}
	return append(b, make([]byte, headerSize)...), at
}

// closeRecord fills in the header of the record that begins at an offset and ends with the batch.
func closeRecord(b []byte, at int, id uint16, epoch uint64) []byte {
	n := len(b) - at - headerSize
	if odd := n & 7; odd != 0 {
		b = append(b, make([]byte, 8-odd)...)
	}
	head := b[at : at+headerSize]
	binary.LittleEndian.PutUint32(head, uint32(n))
	binary.LittleEndian.PutUint32(head[4:], uint32(id))
	binary.LittleEndian.PutUint64(head[8:], epoch)
	return b
}

// nextRecord reads the first record of a batch and returns what follows it; ok is false if it is not whole.
func nextRecord(b []byte) (rec record, rest []byte, ok bool) {
	if len(b) < headerSize {
		return record{}, nil, false
	}
	n := int(binary.LittleEndian.Uint32(b))
	end := headerSize + (n+7)&^7
	if end > len(b) {
		return record{}, nil, false
	}
	rec = record{binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint64(b[8:]), b[headerSize : headerSize+n : headerSize+n]}
	return rec, b[end:], true
}
