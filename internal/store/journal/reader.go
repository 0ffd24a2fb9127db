package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// windowSize is how much of a file is read at a time. A longer record takes more.
const windowSize = 256 << 10

// Record is a record as a file has it. Its parts are valid until the next one is read.
type Record struct {
	// Number is the record's number in its seal, and At the offset of its body in the
	// file.
	Number      uint64
	At          int64
	Clear, Body []byte
}

// Damage describes a file that is not as it was written.
type Damage struct {
	// Cut is the number of bytes at the end that are no record, as after a crash.
	Cut int64
	// IsCorrupt says that more than the end is damaged: the mark, or bytes before an
	// intact record.
	IsCorrupt bool
	// HasMark says that the file begins as one of its kind.
	HasMark bool
}

// IsTorn reports whether nothing is damaged but the end of the file.
func (d Damage) IsTorn() bool { return !d.IsCorrupt && (d.Cut > 0 || !d.HasMark) }

// Reader reads the records of a file.
//
//	for r.Next() {
//		body, err := r.Open(nil)
//		...
//	}
//	if cut := r.Damage().Cut; cut > 0 {
//		...
//	}
type Reader struct {
	Record
	// Extra holds the bytes that the writer of the file put behind its mark.
	Extra []byte

	layout layout
	box    *seal.Box
	in     io.Reader // of the bytes behind the window; nil where the window is the whole file
	size   int64     // of the file
	at     int64     // of the window in the file
	window []byte    // bytes of the file that were read and not used
	buffer []byte    // the memory of the window
	length int       // of the current record, with its head
	number uint64    // of the next record
	lost   int64     // bytes that were skipped since the latest record
	damage Damage
	isOver bool
	err    error
}

// Parse returns a reader of a file that is in memory. The parts of its records stay valid.
func (f Format) Parse(data []byte, keys *seal.Keys, purpose string) (*Reader, error) {
	r := &Reader{layout: layouts[f], size: int64(len(data)), window: data}
	return r, r.readHead(keys, purpose)
}

// NewReader returns a reader of a file of a size. It does not read bytes that are added
// later.
func (f Format) NewReader(in io.Reader, size int64, keys *seal.Keys, purpose string) (*Reader, error) {
	r := &Reader{layout: layouts[f], in: in, size: size}
	return r, r.readHead(keys, purpose)
}

// readHead reads the bytes before the records. It returns an error if the file cannot be
// read, or not with these keys. A damaged mark is part of the damage.
func (r *Reader) readHead(keys *seal.Keys, purpose string) error {
	l := &r.layout
	r.peek(len(l.plain) + l.extra)
	mark := string(r.window[:min(len(l.plain), len(r.window))])
	isSealed := l.sealed != "" && mark == l.sealed
	r.damage.HasMark = isSealed || mark == l.plain
	switch {
	case !r.damage.HasMark && (strings.HasPrefix(l.plain, mark) || strings.HasPrefix(l.sealed, mark)):
		return r.end() // it ends within its mark
	case !r.damage.HasMark && l.kinds != "":
		r.damage.IsCorrupt = len(bytes.Trim(r.window, "\x00")) > 0
		return r.err // the records are looked for
	case len(r.window) < len(mark)+l.extra:
		return r.end()
	}
	r.damage.IsCorrupt = !r.damage.HasMark
	r.skip(len(mark))
	r.Extra = bytes.Clone(r.window[:l.extra])
	r.skip(l.extra)
	if !isSealed {
		return r.err
	}
	if !r.peek(seal.BoxHead) {
		return r.end()
	}
	box, err := keys.OpenBox(purpose, r.window[:seal.BoxHead])
	r.box = box
	r.skip(seal.BoxHead)
	return errors.Join(r.err, err)
}

// Next reads the next record, and reports whether there is one.
func (r *Reader) Next() bool {
	r.skip(r.length)
	r.length = 0
	for !r.isOver {
		if r.isRecord() {
			r.damage.IsCorrupt = r.damage.IsCorrupt || r.lost > 0
			r.lost = 0
			return true
		}
		if r.layout.kinds == "" || len(r.window) == 0 {
			_ = r.end() // Err returns it
			break
		}
		r.skip(1)
		r.lost++
	}
	return false
}

// isRecord reports whether an intact record is next, and makes it the current one.
func (r *Reader) isRecord() bool {
	l := &r.layout
	least := headBytes + l.clear
	if !r.peek(least + 1) {
		return false
	}
	if l.kinds != "" && strings.IndexByte(l.kinds, r.window[least]) < 0 {
		return false
	}
	length := int(binary.LittleEndian.Uint32(r.window))
	if length < 1 || length > l.longest || !r.peek(least+length) {
		return false
	}
	if checksum(r.window[headBytes:least+length]) != binary.LittleEndian.Uint32(r.window[lengthBytes:]) {
		return false
	}
	r.length = least + length
	r.Record = Record{r.number, r.at + int64(least), r.window[headBytes:least], r.window[least:r.length]}
	if l.isNumbered {
		r.Number = binary.LittleEndian.Uint64(r.Clear)
	}
	r.number++
	return true
}

// Reject makes the current record count as damaged: its checksum is right, and its content is not.
func (r *Reader) Reject() { r.lost += int64(r.length) }

// Open appends the body of the current record to a text, as it was before it was sealed.
func (r *Reader) Open(to []byte) ([]byte, error) { return r.box.Open(to, r.Number, r.Body) }

// Reseal seals a file with the current one of the keys, unless it is. A plain file is an error, unless
// takesPlain is true.
func (f Format) Reseal(path string, keys *seal.Keys, purpose string, takesPlain bool) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	r, err := f.NewReader(in, info.Size(), keys, purpose)
	if err != nil || r.box.IsCurrent() || !r.damage.HasMark {
		return err
	}
	if r.box == nil && !takesPlain {
		return errPlain
	}
	return durable.At(filepath.Dir(path)).Fill(filepath.Base(path), func(out io.Writer) error {
		head, box := f.Head(keys, purpose, r.Extra...)
		_, err := out.Write(head)
		var text, body []byte
		for err == nil && r.Next() {
			if body, err = r.Open(body[:0]); err == nil {
				text = f.End(append(f.Begin(text[:0], r.Clear...), body...), 0, box, r.Number)
				_, err = out.Write(text)
			}
		}
		return errors.Join(err, r.Err())
	})
}

var errPlain = errors.New("it is not sealed")

// Box returns the box that sealed the file, nil where it is not sealed.
func (r *Reader) Box() *seal.Box { return r.box }

// Start returns the offset behind the head of the file, before Next is called.
func (r *Reader) Start() int64 { return r.at }

// Damage returns how the file differs from one that was written whole, as far as it was read.
func (r *Reader) Damage() Damage { return r.damage }

// Err returns why the file could not be read further, nil where it ended.
func (r *Reader) Err() error { return r.err }

// end notes the remaining bytes as cut off.
func (r *Reader) end() error {
	r.isOver = true
	if r.err == nil {
		r.damage.Cut = r.lost + r.size - r.at
	}
	return r.err
}

// peek reads on until the window has n bytes, and reports whether the file has so many.
func (r *Reader) peek(n int) bool {
	left := r.size - r.at
	want := min(left, windowSize)
	if int64(n) <= left {
		want = max(want, int64(n))
	}
	if n <= len(r.window) || want <= int64(len(r.window)) || r.in == nil || r.err != nil {
		return n <= len(r.window)
	}
	to := r.buffer
	if int64(cap(to)) < want {
		to = make([]byte, want)
	}
	to = to[:want]
	used := copy(to, r.window)
	got, err := io.ReadFull(r.in, to[used:])
	r.buffer, r.window = to, to[:used+got]
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		r.err = err
	}
	return n <= len(r.window)
}

func (r *Reader) skip(n int) {
	r.window = r.window[n:]
	r.at += int64(n)
}
