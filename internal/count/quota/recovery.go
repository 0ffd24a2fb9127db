package quota

import (
	"errors"
	"io/fs"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// recovery holds the contents of the journal of earlier processes.
type recovery struct {
	rows     []Row
	segments []oldSegment
	last     uint64 // the highest segment number in use
}

type cellID struct {
	writer string
	key    Key
	window Window
	start  int64
}

func idOf(row *Row) cellID { return cellID{row.Writer, row.Key, row.Window, row.Start.Unix()} }

// merge adds a row to totals, keeping the greater values of the same cell.
func merge(totals map[cellID]Row, row *Row) {
	id := idOf(row)
	known, there := totals[id]
	if !there {
		totals[id] = *row
		return
	}
	known.raise(row.Totals)
	totals[id] = known
}

// recoverSegments reads every segment. Only damaged records are lost; damage is
// part of the result and not an error.
func recoverSegments(d disk) (*recovery, error) {
	sequences, last, err := segments(d)
	if err != nil {
		return nil, err
	}
	found := &recovery{last: last}
	totals := map[cellID]Row{}
	for _, n := range sequences {
		data, err := d.Read(segmentName(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a flush has removed it: the database has its totals
		}
		if err != nil {
			return nil, err
		}
		damage := readSegment(data, func(row Row) { merge(totals, &row) })
		found.segments = append(found.segments, oldSegment{number: n, size: int64(len(data)), damage: damage})
	}
	for _, row := range totals {
		found.rows = append(found.rows, row)
	}
	return found, nil
}

// ReadJournal returns the totals in the journal of a folder, also while a gateway writes it.
// Rows that a flush removes meanwhile are in the database: read that afterwards.
func ReadJournal(folder string) ([]Row, error) {
	found, err := recoverSegments(durable.At(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return found.rows, nil
}
