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

// bounds returns the settings with defaults that follow from the size of the disk. Nothing is known
// of a disk without a total.
func bounds(s Settings, disk durable.Space) Settings {
	total := schema.Bytes(disk.Total)
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
		s.Reserve = schema.Bytes(disk.Reserve())
	}
	return s
}

// space returns the space of the disk with the folder.
func (s *Store) space() durable.Space {
	found, err := s.o.Space(s.dir.Path("."))
	if err != nil {
		return durable.Space{}
	}
	return found
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
	space := s.space()
	d := Disk{Total: space.Total, Free: space.Free, Reserve: int64(bounds(s.o.Settings(), space).Reserve)}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Refused = s.refusals.number
	if !s.refusals.last.IsZero() && time.Since(s.refusals.last) < remembered {
		d.Since, d.Reason = s.refusals.last, s.refusals.reason
	}
	return d
}
