package quota

import (
	"encoding/binary"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	records "github.com/patchbay-ai/patchbay/internal/store/journal"
)

// A segment of the journal is a file of records. The first byte of a record says its type: a
// definition gives a cell a number, an update gives the totals of numbered cells. Every segment
// can be read without the others.
const (
	isDefinition = 'D'
	isUpdate     = 'T'
)

// appendDefinition appends the record that gives a cell its number.
func appendDefinition(buf []byte, c *cell) []byte {
	at := len(buf)
	buf = append(records.Ledger.Begin(buf), isDefinition)
	buf = binary.AppendUvarint(buf, uint64(c.id))
	buf = binary.AppendVarint(buf, c.start)
	key := &c.owner.key
	for _, text := range [...]string{
		c.window.String(), c.writer, key.Tenant, key.APIKey, key.User, key.Service.String(), key.Model,
	} {
		buf = binary.AppendUvarint(buf, uint64(len(text)))
		buf = append(buf, text...)
	}
	return records.Ledger.End(buf, at, nil, 0)
}

// appendTotals adds the totals of a cell to an update.
func appendTotals(buf []byte, id uint32, t Totals) []byte {
	buf = binary.AppendUvarint(buf, uint64(id))
	for _, total := range [...]int64{t.Requests, t.Tokens, t.Prompt, t.Completion, t.Cost} {
		buf = binary.AppendUvarint(buf, uint64(total))
	}
	return buf
}

// readSegment calls visit with each row of a segment, once for every update.
// After damaged data it continues with the next intact record, if there is one.
func readSegment(data []byte, visit func(Row)) records.Damage {
	defined := map[uint64]Row{}
	r, _ := records.Ledger.Parse(data, nil, "") // which fails for sealed files only
	for r.Next() {
		if !readRecord(r.Body, defined, visit) {
			r.Reject()
		}
	}
	return r.Damage()
}

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
	case isUpdate:
		for len(r.rest) > 0 {
			row, known := defined[r.unsigned()]
			row.Totals = Totals{r.total(), r.total(), r.total(), r.total(), r.total()}
			if r.failed {
				return false
			}
			if known { // its definition was not lost
				visit(row)
			}
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
