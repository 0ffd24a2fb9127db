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
