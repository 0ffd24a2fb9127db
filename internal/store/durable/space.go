package durable

import "github.com/shirou/gopsutil/v4/disk"

// Space is how many bytes a disk has, and how many of them are free for this user.
type Space struct{ Total, Free int64 }

// SpaceOf returns the space of the disk with a directory.
func SpaceOf(path string) (Space, error) {
	usage, err := disk.Usage(path)
	if err != nil {
		return Space{}, err
	}
	return Space{Total: int64(usage.Total), Free: int64(usage.Free)}, nil
}

// Reserve returns the part of a disk that stays free for the gateway's own writes, where
// nothing else is configured.
func (s Space) Reserve() int64 {
	const least, most = 16 << 20, 1 << 30
	if s.Total == 0 {
		return most // nothing is known of the disk
	}
	return min(max(s.Total/20, least), most, s.Total/2)
}

// IsShort reports whether a disk has no space but the reserved one.
func (s Space) IsShort(reserve int64) bool {
	const margin = 1 << 20 // so much may be written between two looks
	return s.Total > 0 && s.Free-margin < reserve
}
