package callfile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/journal"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// A segment is a file of package journal. Each of its records is a block: lines of calls,
// compressed and perhaps sealed. The clear part of a block is its span. The byte behind the
// mark of the file names the captured parts of the calls.
const (
	// maxSegment bounds the segments that are read; written ones are smaller.
	maxSegment = 64 << 20
	// maxBlock bounds the lines of a block before they are compressed. A line has at most
	// the kept texts of two bodies, twice as long where they are escaped.
	maxBlock = 4 << 20
	// purpose is the purpose in the derivation of the keys of sealed segments.
	purpose = "calls"
)

// errSegment means that a file is not a segment, or cannot be read with these keys.
var errSegment = errors.New("this is not a file of calls that can be read")

// block is one block of a segment that was read.
type block struct {
	span
	sealed []byte
}

// span is which calls a block has: their numbers, and when they began in microseconds.
type span struct {
	first, last      uint64
	earliest, latest int64
}

// encodeBlock returns a block, which has a number in its segment.
func encodeBlock(box *seal.Box, number uint64, of span, lines []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := writer.Write(lines); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	var clear []byte
	for _, n := range [...]uint64{of.first, of.last, uint64(of.earliest), uint64(of.latest)} {
		clear = binary.LittleEndian.AppendUint64(clear, n)
	}
	return journal.Calls.End(append(journal.Calls.Begin(nil, clear...), packed.Bytes()...), 0, box, number), nil
}

// segment is a segment that was read.
type segment struct {
	box    *seal.Box
	level  metrics.Capture
	blocks []block
	cut    int64 // bytes at its end that are no block
}

// readSegment reads the first bytes of a file, as far as they are complete.
func readSegment(path string, most int64, keys *seal.Keys) (*segment, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return nil, err
	}
	return parseSegment(data, keys)
}

// rekey seals all segments with the current key.
func rekey(r *store.Rekeying) error {
	paths, err := filepath.Glob(filepath.Join(r.Path(folder), "*"))
	for _, path := range paths {
		r.Done(path, journal.Calls.Reseal(path, r.Keys, purpose, r.IsFirst))
	}
	return err
}

// parseSegment reads the complete part of a segment's content.
func parseSegment(data []byte, keys *seal.Keys) (*segment, error) {
	r, err := journal.Calls.Parse(data, keys, purpose)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSegment, err)
	}
	if !r.Damage().HasMark || len(r.Extra) == 0 {
		return nil, errSegment
	}
	s := &segment{box: r.Box(), level: metrics.Capture(r.Extra[0])}
	for r.Next() {
		number := func(n int) uint64 { return binary.LittleEndian.Uint64(r.Clear[8*n:]) }
		of := span{number(0), number(1), int64(number(2)), int64(number(3))}
		if of.last < of.first {
			break
		}
		s.blocks = append(s.blocks, block{of, r.Body})
	}
	s.cut = r.Damage().Cut
	if keys != nil && s.box == nil && len(s.blocks) > 0 {
		return nil, fmt.Errorf("%w: it is not sealed, and there is a master key", errSegment)
	}
	return s, nil
}

// lines returns the lines of a block, the oldest first.
func (s *segment) lines(n int) ([][]byte, error) {
	packed, err := s.box.Open(nil, uint64(n), s.blocks[n].sealed)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxBlock))
	if err != nil {
		return nil, err
	}
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")), nil
}
