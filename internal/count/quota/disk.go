package quota

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// disk stores the segments of the journal. Tests replace it by one that fails.
type disk interface {
	open() error
	create(name string) (segment, error)
	names() ([]string, error)
	read(name string) ([]byte, error)
	remove(name string) error
	rename(from, to string) error
	size(name string) (int64, error)
}

// segment is an open file of the journal. What was written to it has reached the
// kernel, so that a crash of the process does not lose it.
type segment interface {
	io.WriteCloser
	Sync() error
}

// dirDisk is a disk in a directory that only its owner may read.
type dirDisk struct{ path string }

func (d dirDisk) open() error { return os.MkdirAll(d.path, 0o700) }

// create opens the file so that every write is appended. After something else has
// truncated it, writes at the old offset would restore its size and leave zeros
// before it, which journal.verify could not tell from what was written.
func (d dirDisk) create(name string) (segment, error) {
	file, err := os.OpenFile(filepath.Join(d.path, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := d.sync(); err != nil {
		return nil, errors.Join(err, file.Close(), d.remove(name))
	}
	return file, nil
}

// sync makes the directory's entries durable.
func (d dirDisk) sync() error {
	dir, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (d dirDisk) names() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

func (d dirDisk) read(name string) ([]byte, error) { return os.ReadFile(filepath.Join(d.path, name)) }

func (d dirDisk) remove(name string) error { return os.Remove(filepath.Join(d.path, name)) }

func (d dirDisk) rename(from, to string) error {
	return os.Rename(filepath.Join(d.path, from), filepath.Join(d.path, to))
}

func (d dirDisk) size(name string) (int64, error) {
	info, err := os.Stat(filepath.Join(d.path, name))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

const (
	segmentPrefix = "journal-"
	segmentSuffix = ".log"
	// corruptSuffix is appended to the name of a corrupt segment when the database
	// has everything that could be read of it.
	corruptSuffix = ".corrupt"
)

func segmentName(sequence uint64) string {
	return fmt.Sprintf("%s%012d%s", segmentPrefix, sequence, segmentSuffix)
}

// segments returns the sequence numbers of the segments on the disk, in order,
// and the highest number in use, which may be that of a corrupt segment.
func segments(d disk) (found []uint64, last uint64, err error) {
	names, err := d.names()
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		var n uint64
		segment, aside := strings.CutSuffix(name, corruptSuffix)
		middle, isSegment := strings.CutSuffix(segment, segmentSuffix)
		if _, err := fmt.Sscanf(middle, segmentPrefix+"%d", &n); !isSegment || err != nil || segment != segmentName(n) {
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
