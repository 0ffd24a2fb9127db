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
	// History is the history for the console. The clear part of a record is its number.
	History
)

// LongestHead is enough of a file to read its head.
const LongestHead = 64

// layout is a format in numbers.
type layout struct {
	plain, sealed string // the marks
	extra         int    // bytes behind the mark
	clear         int    // bytes of a record that are not sealed
	// isNumbered says that the clear part is the number of the record.
	isNumbered bool
	longest    int
	// kinds are the first bytes that a body may have where readers look for the next record;
	// empty where they do not.
	kinds string
}

var layouts = [...]layout{
	Ledger:   {plain: "patchbay quota 2\n", longest: 8 << 10, kinds: "DT"},
	Answers:  {plain: "pbj2", sealed: "pbk2", clear: 8, isNumbered: true, longest: 1 << 30},
	Calls:    {plain: "PBCALLS2\x00", sealed: "PBCALLS2\x01", extra: 1, clear: 4 * 8, longest: 64 << 20},
	Contents: {plain: "pbp1", sealed: "pbs2"},
	History:  {plain: "pbt1", sealed: "pbu1", clear: 8, isNumbered: true, longest: 64 << 20},
}

// A record begins with the length of its body and a checksum of all that follows.
const lengthBytes, headBytes = 4, 8

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
	to = append(to, empty[:headBytes]...)
	if l.isNumbered {
		return append(to, empty[:l.clear]...)
	}
	return append(to, clear...)
}

// End seals the body of the record that begins at an offset of a text, and fills in its head. No
// two records of a file have the same number.
func (f Format) End(text []byte, at int, box *seal.Box, number uint64) []byte {
	l := layouts[f]
	clear := at + headBytes
	body := clear + l.clear
	if l.isNumbered {
		binary.LittleEndian.PutUint64(text[clear:], number)
	}
	if box != nil {
		text = box.Seal(text[:body], number, text[body:])
	}
	binary.LittleEndian.PutUint32(text[at:], uint32(len(text)-body))
	binary.LittleEndian.PutUint32(text[at+lengthBytes:], checksum(text[clear:]))
	return text
}

// Overhead returns the size of a stored record without its body.
func (f Format) Overhead() int { return headBytes + layouts[f].clear }

func checksum(data []byte) uint32 { return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) }
