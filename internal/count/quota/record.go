package quota

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// A segment of the journal is a magic text and records. A record is the length
// of its payload in two bytes, the CRC-32C of the payload in four, the payload.
// The first byte of a payload says what it is: a definition gives a cell a
// number, an update gives the totals of numbered cells: requests and tokens, and in
// detailed updates also the tokens of prompts and completions and the cost. Every segment can be
// read without the others.
const (
	segmentMagic = "patchbay quota 1\n"
	recordHead   = 6
	// maxRecord is above the length of the longest definition or update.
	maxRecord = 8 << 10

	isDefinition = 'D'
	isUpdate     = 'U' // of earlier releases
	isDetailed   = 'T'
)

// damage is what is wrong with a segment.
type damage uint8

const (
	intact damage = iota
	// torn segments end within a record, as after a crash.
	torn
	// corrupt segments have a record that is not what was written.
	corrupt
)

// beginRecord appends an empty record head and the kind of the record.
func beginRecord(buf []byte, kind byte) []byte {
	return append(buf, 0, 0, 0, 0, 0, 0, kind)
}

// endRecord fills in the head of the record that begins at an offset.
func endRecord(buf []byte, at int) []byte {
	payload := buf[at+recordHead:]
	binary.LittleEndian.PutUint16(buf[at:], uint16(len(payload))) // keys are bounded, and so are updates
	binary.LittleEndian.PutUint32(buf[at+2:], crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli)))
	return buf
}

// appendDefinition appends the record that gives a cell its number.
func appendDefinition(buf []byte, c *cell) []byte {
	at := len(buf)
	buf = beginRecord(buf, isDefinition)
	buf = binary.AppendUvarint(buf, uint64(c.id))
	buf = binary.AppendVarint(buf, c.start)
	key := &c.owner.key
	for _, text := range [...]string{c.window.String(), c.writer, key.Tenant, key.APIKey, key.User, key.Service.String(), key.Model} {
		buf = binary.AppendUvarint(buf, uint64(len(text)))
		buf = append(buf, text...)
	}
	return endRecord(buf, at)
}

// appendTotals adds the totals of a cell to an update.
func appendTotals(buf []byte, id uint32, requests, tokens int64, detail Detail) []byte {
	buf = binary.AppendUvarint(buf, uint64(id))
	for _, total := range [...]int64{requests, tokens, detail.Prompt, detail.Completion, detail.Cost} {
		buf = binary.AppendUvarint(buf, uint64(total))
	}
	return buf
}

// readSegment calls visit with each row of a segment, once for every update.
// After damaged data it continues with the next intact record, if there is one.
func readSegment(data []byte, visit func(Row)) damage {
	defined := map[uint64]Row{}
	found := intact
	rest, ok := bytes.CutPrefix(data, []byte(segmentMagic))
	if !ok {
		if rest = nextRecord(data); rest == nil {
			return damageWithoutRecords(data)
		}
		found = corrupt
	}
	for len(rest) > 0 {
		payload, next, whole := cutRecord(rest)
		if whole && readRecord(payload, defined, visit) {
			rest = next
			continue
		}
		if rest = nextRecord(rest[1:]); rest == nil {
			return max(found, torn) // its end did not reach the disk
		}
		found = corrupt
	}
	return found
}

// damageWithoutRecords returns what is wrong with data that neither begin as a segment
// nor have a record.
func damageWithoutRecords(data []byte) damage {
	if bytes.HasPrefix([]byte(segmentMagic), data) || allZero(data) {
		return torn
	}
	return corrupt // it is no segment at all
}

// nextRecord returns the data from the first intact record on, or nil.
func nextRecord(data []byte) []byte {
	for ; len(data) > recordHead; data = data[1:] {
		kind, length := data[recordHead], binary.LittleEndian.Uint16(data)
		if kind != isDefinition && kind != isUpdate && kind != isDetailed || length > maxRecord {
			continue
		}
		if _, _, whole := cutRecord(data); whole {
			return data
		}
	}
	return nil
}

// cutRecord splits a record off. The payload is nil if the data ends within it;
// whole says that its checksum is right.
func cutRecord(data []byte) (payload, rest []byte, whole bool) {
	if len(data) < recordHead {
		return nil, nil, false
	}
	length := int(binary.LittleEndian.Uint16(data))
	if length == 0 || len(data) < recordHead+length {
		return nil, nil, false
	}
	payload = data[recordHead : recordHead+length]
	sum := crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli))
	return payload, data[recordHead+length:], sum == binary.LittleEndian.Uint32(data[2:])
}

// allZero reports whether there are only zeros, which some file systems leave
// when the machine fails during a write.
func allZero(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

func readRecord(payload []byte, defined map[uint64]Row, visit func(Row)) bool {
	r := reader{rest: payload[1:]}
	switch payload[0] {
	case isDefinition:
		id := r.unsigned()
		row, ok := r.definition()
		if !ok {
			return false
		}
		defined[id] = row
	case isUpdate, isDetailed:
		for len(r.rest) > 0 {
			row, known := defined[r.unsigned()]
			requests, tokens := r.total(), r.total()
			if payload[0] == isDetailed {
				row.Detail = Detail{r.total(), r.total(), r.total()}
			}
			if r.failed {
				return false
			}
			if !known {
				continue // its definition was lost
			}
			row.Requests, row.Tokens = requests, tokens
			visit(row)
		}
	default:
		return false
	}
	return true
}

// reader decodes a payload.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) unsigned() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// total reads a count. One that is absurdly large was never written.
func (r *reader) total() int64 {
	n := r.unsigned()
	if n > 1<<63-1 {
		r.failed, r.rest = true, nil
		return 0
	}
	return int64(n)
}

func (r *reader) text() string {
	length := r.unsigned()
	if r.failed || length > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return ""
	}
	text := string(r.rest[:length])
	r.rest = r.rest[length:]
	return text
}

func (r *reader) definition() (Row, bool) {
	start, size := binary.Varint(r.rest)
	if size <= 0 {
		return Row{}, false
	}
	r.rest = r.rest[size:]
	window, err := ParseStoredWindow(r.text())
	if err != nil {
		return Row{}, false
	}
	row := Row{Window: window, Start: time.Unix(start, 0).UTC(), Writer: r.text()}
	row.Key.Tenant, row.Key.APIKey, row.Key.User = r.text(), r.text(), r.text()
	row.Key.Service, err = schema.ParseServiceType(r.text())
	row.Key.Model = r.text()
	return row, err == nil && !r.failed && row.Writer != ""
}
