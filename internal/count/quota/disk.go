package quota

import (
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	records "github.com/patchbay-ai/patchbay/internal/store/journal"
)

// disk stores the segments of the journal. Tests replace the directory by one that fails.
type disk interface {
	Make() error
	Append(name string) (durable.File, error)
	Names() ([]string, error)
	Read(name string) ([]byte, error)
	Remove(names ...string) error
	Move(from, to string) error
	Size(name string) (int64, error)
}

var segmentNames = records.Series{Prefix: "journal-", Digits: 12}

// corruptSuffix is appended to the name of a corrupt segment when the database
// has everything that could be read of it.
const corruptSuffix = ".corrupt"

func segmentName(sequence uint64) string { return segmentNames.Name(sequence) }

// segments returns the sequence numbers of the segments on the disk, in order, and the
// highest number in use, which may belong to a corrupt segment.
func segments(d disk) (found []uint64, last uint64, err error) {
	names, err := d.Names()
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		segment, aside := strings.CutSuffix(name, corruptSuffix)
		n, isSegment := segmentNames.Number(segment)
		if !isSegment {
			continue
		}
		last = max(last, n)
		if !aside {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return found, last, nil
}
