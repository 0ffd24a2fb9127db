// Package journal keeps records in files that only ever grow. A crash costs at most the
// records that were not yet reported as kept. The package frames, checksums and seals
// records (Format), writes them and shares syncs (Writer), names the files of a folder
// (Series), and reads the rest of a file after a crash or on a damaged disk (Reader). Its
// callers decide the content of a record, when the next file begins and when an old one
// goes.
package journal

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Format says how the files of one kind look. A file is a mark that also says whether it
// is sealed, some bytes for its writer, and the head of the box if it is sealed. A record
// is the length of its body, a checksum, a part that is never sealed, and the body. Files
// with another mark are damaged.
type Format uint8

// The formats.
const (
	// Ledger is the journal of the ledger and of budgets. It is never sealed, and readers look for
	// the next record behind a damaged one.
	Ledger Format = iota
	// Answers are the answers of a batch. The clear part of a record is its number.
	Answers
	// Calls are blocks of call records. The byte behind the mark says which parts of the
	// calls were captured, and the clear part of a block says which calls it has.
	Calls
	// Contents are files of clients. They have a head and no records: any part of them can be
	// read alone.
	Contents
)

// LongestHead is enough of a file to read its head.
const LongestHead = 64

// layout is a format in numbers.
type layout struct {
	plain, sealed string // the marks
	extra         int    // bytes behind the mark
	order         binary.ByteOrder
	lengthBytes   int
	polynomial    uint32
	// clear is the size of the part that is not sealed, and isCounted says that the length
	// includes it.
	clear     int
	isCounted bool
	// isNumbered says that the clear part is the number of the record.
	isNumbered bool
	longest    int
	// kinds are the first bytes that a body may have where readers look for the next record;
	// empty where they do not.
	kinds string
}

var layouts = [...]layout{
	Ledger: {
		plain: "patchbay quota 1\n", order: binary.LittleEndian, lengthBytes: 2, polynomial: crc32.Castagnoli,
		longest: 8 << 10, kinds: "DT",
	},
	Answers: {
		plain: "pbj1", sealed: "pbk1", order: binary.BigEndian, lengthBytes: 4, polynomial: crc32.Castagnoli,
		clear: 8, isNumbered: true, longest: 1 << 30,
	},
	Calls: {
		plain: "PBCALLS1\x00", sealed: "PBCALLS1\x01", extra: 1, order: binary.LittleEndian, lengthBytes: 4,
		polynomial: crc32.IEEE, clear: 4 * 8, isCounted: true, longest: 64 << 20,
	},
	Contents: {plain: "pbp1", sealed: "pbs2"},
}

// checksumBytes is the size of a CRC-32.
const checksumBytes = 4

// head returns the size of the fields before the clear part.
func (l *layout) head() int { return l.lengthBytes + checksumBytes }

// Head returns the beginning of a new file, and the box that seals its records. Without keys the
// file is not sealed, and the box is nil.
func (f Format) Head(keys *seal.Keys, purpose string, extra ...byte) ([]byte, *seal.Box) {
	l := layouts[f]
	mark := l.plain
	more, box := keys.NewBox(purpose)
	if box != nil {
		mark = l.sealed
	}
	return append(append([]byte(mark), extra...), more...), box
}

// Begin appends the beginning of a record, with its clear part. The caller appends the body and
// calls End.
func (f Format) Begin(to []byte, clear ...byte) []byte {
	l := layouts[f]
	var empty [16]byte
	to = append(to, empty[:l.head()]...)
	if l.isNumbered {
		return append(to, empty[:l.clear]...)
	}
	return append(to, clear...)
}

// End seals the body of the record that begins at an offset of a text, and fills in its head. No
// two records of a file have the same number.
func (f Format) End(text []byte, at int, box *seal.Box, number uint64) []byte {
	l := layouts[f]
	clear := at + l.head()
	body := clear + l.clear
	if l.isNumbered {
		l.order.PutUint64(text[clear:], number)
	}
	if box != nil {
		text = box.Seal(text[:body], number, text[body:])
	}
	length := len(text) - body
	if l.isCounted {
		length += l.clear
	}
	l.putLength(text[at:], length)
	l.order.PutUint32(text[at+l.lengthBytes:], l.checksum(text[clear:]))
	return text
}

// Overhead returns the size of a stored record without its body.
func (f Format) Overhead() int {
	l := layouts[f]
	return l.head() + l.clear
}

func (l *layout) checksum(data []byte) uint32 {
	return crc32.Checksum(data, crc32.MakeTable(l.polynomial))
}

func (l *layout) putLength(to []byte, length int) {
	if l.lengthBytes == 2 {
		l.order.PutUint16(to, uint16(length)) // written records have a bound
		return
	}
	l.order.PutUint32(to, uint32(length))
}

func (l *layout) length(from []byte) int {
	if l.lengthBytes == 2 {
		return int(l.order.Uint16(from))
	}
	return int(l.order.Uint32(from))
}
