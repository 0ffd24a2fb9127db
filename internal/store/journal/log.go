package journal

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Log is the files of a series in a folder. Records are added to the last one, and the oldest are
// removed. Its owner makes one call at a time.
type Log struct {
	Dir    *durable.Dir
	Format Format
	Series Series
	// Keys seal the files for a purpose, nil for plain ones.
	Keys    *seal.Keys
	Purpose string
	// Age is when the next file begins.
	Age time.Duration
	// Fault receives failures to close or delete a file.
	Fault func(operation string, err error)

	Files []Part // the oldest first

	// writer writes the last file if it is not nil. records is how many that file has.
	writer  *Writer
	box     *seal.Box
	began   time.Time
	records uint64
}

// Part is a file of a log.
type Part struct {
	Name string
	// First is the number of its first record or an earlier one.
	First uint64
	Size  int64
	// Written is when it was written last.
	Written time.Time
}

// Find finds the files that the folder has.
func (l *Log) Find() error {
	entries, err := os.ReadDir(l.Dir.Path("."))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		first, isPart := l.Series.Number(entry.Name())
		if info, err := entry.Info(); isPart && err == nil && info.Mode().IsRegular() {
			l.Files = append(l.Files, Part{entry.Name(), first, info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(l.Files, func(a, b Part) int { return cmp.Compare(a.First, b.First) })
	return nil
}

// Add writes a record to the disk. The record gets the box and its place in the file. The bytes extra
// are the head of a new file, whose number is first, and the next file begins at a size. After a
// record that could not be written the file ends.
func (l *Log) Add(now time.Time, first uint64, size int64, extra []byte,
	record func(box *seal.Box, place uint64) ([]byte, error)) error {
	if l.writer != nil && now.Sub(l.began) >= l.Age {
		l.End()
	}
	if l.writer == nil {
		if err := l.begin(now, first, extra); err != nil {
			return err
		}
	}
	data, err := record(l.box, l.records)
	if err != nil {
		return err
	}
	if err = l.writer.Write(data); err == nil {
		err = l.writer.Sync(l.writer.Size())
	}
	if err != nil {
		l.End()
		return err
	}
	one := &l.Files[len(l.Files)-1]
	one.Size, one.Written = l.writer.Size(), now
	l.records++
	if one.Size >= size {
		l.End()
	}
	return nil
}

func (l *Log) begin(now time.Time, first uint64, extra []byte) error {
	name := l.Series.Name(first)
	// One of this name has no whole record: it would have a later number.
	if err := os.Remove(l.Dir.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.Files = slices.DeleteFunc(l.Files, func(one Part) bool { return one.Name == name })
	out, err := l.Dir.Append(name)
	if err != nil {
		return err
	}
	head, box := l.Format.Head(l.Keys, l.Purpose, extra...)
	writer, err := NewWriter(out, head)
	if err != nil {
		return err
	}
	l.Files = append(l.Files, Part{name, first, writer.Size(), now})
	l.writer, l.box, l.began, l.records = writer, box, now, 0
	return nil
}

// End ends the last file: the next record begins another one.
func (l *Log) End() {
	if l.writer == nil {
		return
	}
	if err := l.writer.Close(); err != nil {
		l.Fault("close", err)
	}
	l.writer, l.box = nil, nil
}

// Expire removes the files that were written last before a time, and the oldest while there are too
// many bytes. It returns how many bytes are left.
func (l *Log) Expire(now, oldest time.Time, most int64) (total int64) {
	if l.writer != nil && now.Sub(l.began) >= l.Age {
		l.End()
	}
	for _, one := range l.Files {
		total += one.Size
	}
	for len(l.Files) > 0 {
		one := l.Files[0]
		isWritten := l.writer != nil && len(l.Files) == 1
		if isWritten || !one.Written.Before(oldest) && total <= most || !l.Remove(one) {
			break
		}
		total -= one.Size
		l.Files = l.Files[1:]
	}
	return total
}

// Remove deletes a file from the disk, and reports whether it is gone.
func (l *Log) Remove(one Part) bool {
	err := os.Remove(l.Dir.Path(one.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.Fault("delete", err)
		return false
	}
	return true
}
