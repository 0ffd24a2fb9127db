package quota

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	records "github.com/patchbay-ai/patchbay/internal/store/journal"
)

// segmentMagic begins each segment.
const segmentMagic = "patchbay quota 2\n"

// damage is what is wrong with a segment.
type damage uint8

const (
	intact damage = iota
	torn
	corrupt
)

func damageOf(found records.Damage) damage {
	switch {
	case found.IsCorrupt:
		return corrupt
	case found.IsTorn():
		return torn
	}
	return intact
}

// written is a segment with a definition and what follows it.
func written(records ...[]byte) []byte {
	c := &cell{owner: &keyCells{key: Key{User: "u", Model: "m"}}, writer: "w", window: Day, start: 86_400, id: 1}
	return append(appendDefinition([]byte(segmentMagic), c), slices.Concat(records...)...)
}

// record is one with a right checksum.
func record(kind byte, numbers ...uint64) []byte {
	buf := append(records.Ledger.Begin(nil), kind)
	for _, n := range numbers {
		buf = binary.AppendUvarint(buf, n)
	}
	return records.Ledger.End(buf, 0, nil, 0)
}

// TestRecordsAreReadAsTheyWereWritten: what stands in a segment, between damage, and up to the
// greatest total.
func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	const most = math.MaxInt64
	damaged := []byte{1, 0, 9, 9, 9, 9, 'x'} // a wrong checksum
	for _, c := range []struct {
		name   string
		data   []byte
		rows   string
		damage damage
	}{
		{"nothing", nil, "", torn},
		{"a part of the beginning", []byte(segmentMagic)[:5], "", torn},
		{"zeros", make([]byte, 100), "", torn},
		{"something else", []byte("#!/bin/sh and more of it"), "", corrupt},
		{"a definition", written(), "", intact},
		{"an update", written(record(isUpdate, 1, 3, 40, 30, 10, 5)), "3/40 30+10 5;", intact},
		{"two in one", written(record(isUpdate, 1, 3, 40, 0, 0, 0, 1, 4, 50, 0, 0, 0)), "3/40 0+0 0;4/50 0+0 0;", intact},
		{"without definition", written(record(isUpdate, 2, 3, 40, 0, 0, 0, 1, 4, 50, 0, 0, 0)), "4/50 0+0 0;", intact},
		{"without beginning", written(record(isUpdate, 1, 3, 40, 0, 0, 0))[1:], "3/40 0+0 0;", corrupt},
		{"damage before an update", written(damaged, record(isUpdate, 1, 3, 40, 30, 10, 5)), "3/40 30+10 5;", corrupt},
		{"damage at the end", written(record(isUpdate, 1, 3, 40, 0, 0, 0), damaged), "3/40 0+0 0;", torn},
		{"an end within a head", written(record(isUpdate, 1, 3, 40, 0, 0, 0), []byte{9, 0, 1, 2, 3}), "3/40 0+0 0;", torn},
		{"a head without anything", written(record(isUpdate, 1, 3, 40, 0, 0, 0), []byte{9, 0, 1, 2, 3, 4}), "3/40 0+0 0;", torn},
		{"of an unknown kind", written(record('X', 1, 3, 40)), "", torn},
		{"an update without totals", written(record(isUpdate, 1)), "", torn},
		{"an update with half of its totals", written(record(isUpdate, 1, 3, 40, 30)), "", torn},
		{"the greatest total", written(record(isUpdate, 1, most, most, 0, 0, 0)), fmt.Sprintf("%d/%d 0+0 0;", most, most), intact},
		{"more than the greatest total", written(record(isUpdate, 1, most+1, 1, 0, 0, 0)), "", torn},
		{"many more", written(record(isUpdate, 1, 1, math.MaxUint64, 0, 0, 0)), "", torn},
		{"a definition without a window", written(record(isDefinition, 1)), "", torn},
		{"a definition without a number", written(record(isDefinition)), "", torn},
	} {
		rows := ""
		found := damageOf(readSegment(c.data, func(r Row) {
			if r.Writer != "w" || r.Key.User != "u" || r.Window != Day || r.Start.Unix() != 86_400 {
				t.Errorf("%s: %+v", c.name, r)
			}
			rows += fmt.Sprintf("%d/%d %d+%d %d;", r.Requests, r.Tokens, r.Prompt, r.Completion, r.Cost)
		}))
		if rows != c.rows || found != c.damage {
			t.Errorf("%s: %q with damage %d, want %q with %d", c.name, rows, found, c.rows, c.damage)
		}
	}
}
