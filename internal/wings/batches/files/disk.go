package files

import (
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// The defaults where the settings say 0: parts of the disk, within bounds.
const (
	mostBytes      = 20 * schema.GiB
	mostBytesOfOne = 2 * schema.GiB
)

// disk is the disk with the folder; without a Total nothing is known of it.
type disk struct{ durable.Space }

// bounds returns the settings with defaults that follow from the size of the disk.
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
		s.Reserve = schema.Bytes(d.Space.Reserve())
	}
	return s
}

// look looks at the disk.
func (s *Store) look() disk { return look(s.o.Space, s.dir.Path(".")) }

func look(space func(path string) (durable.Space, error), path string) disk {
	found, err := space(path)
	if err != nil {
		return disk{}
	}
	return disk{found}
}

// Disk is the disk with a folder. Without a Total nothing is known of it.
type Disk struct {
	Total, Free int64
	// Reserve is how much of it is kept free for the gateway's own files.
	Reserve int64
	// Refused counts the files that found no room on it, or none beside the files of
	// others. Since and Reason tell of the last one, if it was not long ago.
	Refused int64
	Since   time.Time
	Reason  string
}

// IsFull reports whether all free space is reserved, or was lately.
func (d *Disk) IsFull() bool {
	return durable.Space{Total: d.Total, Free: d.Free}.IsShort(d.Reserve) || !d.Since.IsZero()
}

// FolderOf returns the folder that settings name.
func FolderOf(s Settings) string { return s.Folder }

// Reserved returns files.reserve.
func Reserved(s Settings) int64 { return int64(s.Reserve) }

func (d disk) view(s Settings) Disk {
	return Disk{Total: d.Total, Free: d.Free, Reserve: int64(d.bounds(s).Reserve)}
}

// remembered is how long a refusal counts as a sign that the disk is full.
const remembered = time.Minute

// refusals count refused wishes for room that others than the owner are to blame for.
type refusals struct {
	number int64
	last   time.Time
	reason string
}

// note counts a refusal of room.
func (s *Store) note(err error) {
	if !errors.Is(err, ErrDiskFull) && !errors.Is(err, ErrAllFull) && !errors.Is(err, ErrAllTooMany) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals.number++
	s.refusals.last, s.refusals.reason = time.Now(), err.Error()
}

// Disk returns how much space the disk has, and whether somebody found too little lately.
func (s *Store) Disk() Disk {
	d := s.look().view(s.o.Settings())
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Refused = s.refusals.number
	if !s.refusals.last.IsZero() && time.Since(s.refusals.last) < remembered {
		d.Since, d.Reason = s.refusals.last, s.refusals.reason
	}
	return d
}
