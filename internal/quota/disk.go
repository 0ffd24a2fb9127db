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

// disk is where the segments of the journal are; a test has one that breaks.
type disk interface {
	open() error
	create(name string) (segment, error)
	names() ([]string, error)
	read(name string) ([]byte, error)
	remove(name string) error
	rename(from, to string) error
}

// segment is an open file of the journal.
type segment interface {
	io.WriteCloser
	Sync() error
}

// folder is a disk: a directory that only its owner may read.
type folder struct{ path string }

func (f folder) open() error { return os.MkdirAll(f.path, 0o700) }

func (f folder) create(name string) (segment, error) {
	file, err := os.OpenFile(filepath.Join(f.path, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.sync(); err != nil {
		return nil, errors.Join(err, file.Close(), f.remove(name))
	}
	return file, nil
}

// sync brings the names in the folder to the disk.
func (f folder) sync() error {
	dir, err := os.Open(f.path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f folder) names() ([]string, error) {
	entries, err := os.ReadDir(f.path)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

func (f folder) read(name string) ([]byte, error) { return os.ReadFile(filepath.Join(f.path, name)) }

func (f folder) remove(name string) error { return os.Remove(filepath.Join(f.path, name)) }

func (f folder) rename(from, to string) error {
	return os.Rename(filepath.Join(f.path, from), filepath.Join(f.path, to))
}

const (
	segmentPrefix = "journal-"
	segmentSuffix = ".log"
	// asideSuffix is what a corrupt segment has in place of its own suffix when
	// what could be read of it is safe elsewhere.
	asideSuffix = ".corrupt"
)

func segmentName(sequence uint64) string {
	return fmt.Sprintf("%s%012d%s", segmentPrefix, sequence, segmentSuffix)
}

// segments returns the sequence numbers of the segments on the disk, in order,
// and the last number that was ever given: those that were put aside keep theirs.
func segments(d disk) (found []uint64, last uint64, err error) {
	names, err := d.names()
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		var n uint64
		segment, aside := strings.CutSuffix(name, asideSuffix)
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
