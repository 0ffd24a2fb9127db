package callfile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// A segment is a file that consists of a head and blocks, which are only ever added. The head
// is a magic, a byte that says whether the blocks are sealed, a byte that says what was
// captured in them, and the head of the box where they are sealed. A block is the length and
// the checksum of the rest, the first and the last number of the calls in it, the
// earliest and the latest time at which one began, and its lines, compressed and perhaps sealed. What was not written to
// its end, because the gateway died, has a wrong checksum or none, and is not read.
const (
	magic       = "PBCALLS1"
	segmentHead = len(magic) + 2
	blockHead   = 4 + 4 + 4*8
	// maxSegment is how large a segment may be that is read; those that are written are
	// smaller.
	maxSegment = 64 << 20
	// maxBlock bounds the lines of a block before they are compressed. A line has at most
	// what is kept of the texts of two bodies, twice as long where it is escaped.
	maxBlock = 4 << 20
	// purpose is what the keys of sealed segments are derived for.
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

// newHead returns the head of a new segment, and the box that seals its blocks, if any.
func newHead(keys *seal.Keys, level metrics.Capture) ([]byte, *seal.Box) {
	boxHead, box := keys.NewBox(purpose)
	head := append([]byte(magic), 0, byte(level))
	if box != nil {
		head[len(magic)] = 1
	}
	return append(head, boxHead...), box
}

// encodeBlock appends a block to a text. Its place is its number in the segment.
func encodeBlock(to []byte, box *seal.Box, place uint64, of span, lines []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		return to, err
	}
	if _, err := writer.Write(lines); err != nil {
		return to, err
	}
	if err := writer.Close(); err != nil {
		return to, err
	}
	begin := len(to)
	to = append(to, make([]byte, 8)...)
	to = binary.LittleEndian.AppendUint64(to, of.first)
	to = binary.LittleEndian.AppendUint64(to, of.last)
	to = binary.LittleEndian.AppendUint64(to, uint64(of.earliest))
	to = binary.LittleEndian.AppendUint64(to, uint64(of.latest))
	to = box.Seal(to, place, packed.Bytes())
	rest := to[begin+8:]
	if len(rest) > math.MaxInt32 {
		return to[:begin], errors.New("a block is too large")
	}
	binary.LittleEndian.PutUint32(to[begin:], uint32(len(rest)))
	binary.LittleEndian.PutUint32(to[begin+4:], crc32.ChecksumIEEE(rest))
	return to, nil
}

// segment is a segment that was read.
type segment struct {
	box    *seal.Box
	level  metrics.Capture
	blocks []block
}

// readSegment reads a file as far as it is complete.
func readSegment(path string, keys *seal.Keys) (*segment, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxSegment))
	if err != nil {
		return nil, err
	}
	return parseSegment(data, keys)
}

// levelOf returns what was captured in the calls of a segment, by its head.
func levelOf(path string) (metrics.Capture, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // it was only read
	var head [segmentHead]byte
	if _, err := io.ReadFull(file, head[:]); err != nil {
		return 0, err
	}
	return metrics.Capture(head[len(magic)+1]), nil
}

// parseSegment reads the content of a segment as far as it is complete.
func parseSegment(data []byte, keys *seal.Keys) (*segment, error) {
	if len(data) < segmentHead || string(data[:len(magic)]) != magic {
		return nil, errSegment
	}
	s := &segment{level: metrics.Capture(data[len(magic)+1])}
	isSealed := data[len(magic)] != 0
	data = data[segmentHead:]
	if isSealed {
		if len(data) < seal.BoxHead {
			return nil, errSegment
		}
		box, err := keys.OpenBox(purpose, data[:seal.BoxHead])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errSegment, err)
		}
		s.box, data = box, data[seal.BoxHead:]
	}
	for len(data) >= blockHead {
		length := int(binary.LittleEndian.Uint32(data))
		if length < blockHead-8 || length > len(data)-8 {
			break
		}
		rest := data[8 : 8+length]
		if crc32.ChecksumIEEE(rest) != binary.LittleEndian.Uint32(data[4:]) {
			break
		}
		b := block{span{
			first: binary.LittleEndian.Uint64(rest), last: binary.LittleEndian.Uint64(rest[8:]),
			earliest: int64(binary.LittleEndian.Uint64(rest[16:])),
			latest:   int64(binary.LittleEndian.Uint64(rest[24:])),
		}, rest[blockHead-8:]}
		if b.last < b.first {
			break
		}
		s.blocks = append(s.blocks, b)
		data = data[8+length:]
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
