package files

import (
	"github.com/patchbay-ai/patchbay/internal/durable"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// What holds where the settings say 0: parts of the disk, within bounds.
const (
	mostBytes      = 20 * schema.GiB
	mostBytesOfOne = 2 * schema.GiB
	leastReserve   = 16 * schema.MiB
	mostReserve    = 1 * schema.GiB
)

// disk is the disk with the folder; without a Total nothing is known of it.
type disk struct{ durable.Space }

// bounds returns the settings with those that follow from the size of the disk.
func (d disk) bounds(s Settings) Settings {
	total := schema.Bytes(d.Total)
	if total == 0 {
		total = 1 << 62 // the bounds of large disks hold
	}
	if s.MaxBytes == 0 {
		s.MaxBytes = min(total/2, mostBytes)
	}
	if s.MaxBytesPerKey == 0 {
		s.MaxBytesPerKey = min(total/8, mostBytesOfOne)
	}
	if s.Reserve == 0 {
		s.Reserve = min(max(total/20, leastReserve), mostReserve, total/4)
	}
	return s
}

// look looks at the disk.
func (s *Store) look() disk {
	space, err := s.space(s.dir.Path("."))
	if err != nil {
		return disk{}
	}
	return disk{space}
}

// Disk is the disk on which the files are.
type Disk struct {
	Total, Free, Reserve int64
	// IsKnown is false where the operating system does not tell.
	IsKnown bool
}

// Disk returns how much space the disk has, and how much of it is kept free.
func (s *Store) Disk() Disk {
	d := s.look()
	return Disk{Total: d.Total, Free: d.Free, Reserve: int64(d.bounds(s.settings()).Reserve), IsKnown: d.Total > 0}
}
