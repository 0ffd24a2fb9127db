// Package callfile keeps the records of calls on disk, for searches that reach further back
// than the memory of calls. It writes them once a second, apart from the requests, into
// segments (see segment.go) that are deleted by age and size. Captured texts of
// clients and models are kept as well, in segments of their own, and only if there is a
// master key to seal them with.
package callfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/journal"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

const (
	// folder is the folder of the segments, below the data directory.
	folder = "calls"
	// flushInterval is how long a record may wait to be written.
	flushInterval = time.Second
	// maxWaiting is how many records may wait; the oldest of more are not written. A quarter of
	// them is written without waiting for more.
	maxWaiting = 8192
	// blockLines is the length that the lines of a block grow to.
	blockLines = 512 << 10
	// segmentSize and segmentAge are when the next segment begins.
	segmentSize, segmentAge = 8 << 20, time.Hour
)

// Options are the parts that a File depends on.
type Options struct {
	// Dir is the data directory.
	Dir string
	// Settings are those of the start.
	Settings Settings
	// Keys seal the segments, nil for plain ones; then no contents are kept.
	Keys *seal.Keys
	// IsFull reports whether the rest of the disk is reserved for more important writes;
	// nil means that it never is.
	IsFull func() bool
	// Recorder has the records.
	Recorder *calls.Recorder
	// Fault receives failures to read or write.
	Fault func(operation, text string)
	// Log receives a line where a crash has cut a segment off.
	Log *slog.Logger
}

// File keeps calls on disk.
type File struct {
	options Options
	form    form
	dir     *durable.Dir

	// changed has a token when the file was turned on or off.
	changed chan struct{}
	// searching bounds how many searches read at a time.
	searching chan struct{}

	writing sync.Mutex // for the fields below
	// settings are in force. waiting reads the records that are not written yet; it is nil while
	// the file is off.
	settings Settings
	waiting  *calls.Cursor
	most     metrics.Capture
	logs     [kinds]log
}

// kind tells records from contents.
type kind int

const (
	ofRecords kind = iota
	ofContents
	kinds
)

// series name the segments by the number of their first call.
var series = [kinds]journal.Series{{Prefix: "calls-", Digits: 20}, {Prefix: "contents-", Digits: 20}}

// log is the segments of one kind, the oldest first. The last is the one that is written, if
// there is a file.
type log struct {
	series   journal.Series
	segments []stored
	file     *journal.Writer
	box      *seal.Box
	level    metrics.Capture
	began    time.Time
	blocks   uint64
}

// stored is a segment on disk.
type stored struct {
	name  string
	first uint64 // its calls have this number or later ones
	size  int64
	// written is when it was written last.
	written time.Time
}

// Open opens the file. Calls are numbered from the last one that it has. Where its settings
// have it on, it becomes the archive of the recorder.
func Open(options Options) (*File, error) {
	f := &File{
		options: options, form: newForm(), dir: durable.At(filepath.Join(options.Dir, folder)),
		changed: make(chan struct{}, 1), searching: make(chan struct{}, 2),
	}
	entries, err := os.ReadDir(f.dir.Path("."))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("monitoring.calls-file: %w", err)
	}
	for k := range f.logs {
		f.logs[k].series = series[k]
		f.logs[k].find(entries)
	}
	options.Recorder.NumberFrom(f.last() + 1)
	return f, f.Set(options.Settings)
}

// Set changes the settings: it turns the file on or off, and removes the calls beyond the new
// bounds. While the file is off, the calls that it has are left alone and not searched.
func (f *File) Set(to Settings) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	wasOn := f.waiting != nil
	switch {
	case to.Enabled && !wasOn:
		if err := f.dir.Make(); err != nil {
			return fmt.Errorf("monitoring.calls-file: %w", err)
		}
		var most metrics.Capture
		f.waiting, most = f.options.Recorder.ArchiveTo(f, maxWaiting)
		f.forget(most)
	case !to.Enabled && wasOn:
		f.options.Recorder.EndArchive(f.waiting)
		f.waiting = nil
		for k := range f.logs {
			f.endSegment(&f.logs[k])
		}
	}
	f.settings = to
	if to.Enabled {
		f.expire(time.Now())
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
	return nil
}

// find finds the segments among the files of the folder.
func (l *log) find(entries []os.DirEntry) {
	for _, entry := range entries {
		first, isSegment := l.series.Number(entry.Name())
		if info, err := entry.Info(); isSegment && err == nil && info.Mode().IsRegular() {
			l.segments = append(l.segments, stored{entry.Name(), first, info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(l.segments, func(a, b stored) int { return cmp.Compare(a.first, b.first) })
}

// last returns the number of the last call, or a larger one where the last segment cannot be
// read.
func (f *File) last() (number uint64) {
	for _, one := range f.logs[ofRecords].segments {
		number = max(number, one.first)
	}
	all := f.logs[ofRecords].segments
	if len(all) == 0 {
		return number
	}
	one := all[len(all)-1]
	newest, err := f.read(one, maxSegment)
	if err == nil && newest.cut > 0 {
		f.options.Log.Warn("calls: a file ends within a block, which is left out", "file", one.name,
			"bytes", newest.cut)
	}
	if err != nil || len(newest.blocks) == 0 {
		return number + maxWaiting<<10 // more than a segment has
	}
	return max(number, newest.blocks[len(newest.blocks)-1].last)
}

// headOnly is enough bytes of a segment to read which parts of calls it has captured.
const headOnly = 16

// read reads a segment, or its first bytes.
func (f *File) read(one stored, most int64) (*segment, error) {
	return readSegment(f.dir.Path(one.name), most, f.options.Keys)
}

var _ calls.Archive = (*File)(nil)

// Forget removes the contents that were captured beyond a level. Where less is to be kept than
// before, it removes all of them.
func (f *File) Forget(most metrics.Capture) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.forget(most)
}

func (f *File) forget(most metrics.Capture) {
	isLess := most < f.most
	f.most = most
	kept := &f.logs[ofContents]
	if isLess {
		f.endSegment(kept)
	}
	kept.segments = slices.DeleteFunc(kept.segments, func(one stored) bool {
		if !isLess {
			if head, err := f.read(one, headOnly); err == nil && head.level <= most {
				return false
			}
		}
		return f.remove(one)
	})
}

// Run writes waiting records until ctx ends.
func (f *File) Run(ctx context.Context) {
	ticker := time.NewTicker(flushInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-f.changed:
		case <-f.ready():
		}
		f.flush(time.Now())
	}
}

// ready returns a channel that has a token when many records wait, nil while the file is off.
func (f *File) ready() <-chan struct{} {
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.waiting == nil {
		return nil
	}
	return f.waiting.Ready()
}

// Days returns for how many days calls are kept.
func (f *File) Days() int {
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.settings.Days
}

// Close writes the waiting records and closes the file. Later ones are not kept.
func (f *File) Close() {
	if f == nil {
		return
	}
	f.flush(time.Now())
	f.writing.Lock()
	defer f.writing.Unlock()
	for k := range f.logs {
		f.endSegment(&f.logs[k])
	}
}

// flush writes the records that wait. A record that cannot be written waits on.
func (f *File) flush(now time.Time) {
	f.options.Recorder.Flush() // it moves records on less often
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.waiting == nil {
		return
	}
	unfit, err := f.write(now)
	if err != nil {
		f.fault("write", err)
	}
	if missed := f.waiting.Missed(); missed > 0 {
		f.fault("store", fmt.Errorf("%d calls were not kept, because they came faster than they could be written",
			missed))
	}
	if unfit.number > 0 {
		f.fault("encode", fmt.Errorf("%d calls were not kept, because they cannot be written: %w", unfit.number,
			unfit.last))
	}
	f.expire(now)
}

var errReserved = errors.New("the disk has no space left but what is reserved (files.reserve)")

// fault tells about an error, without the path, which is nobody's business.
func (f *File) fault(operation string, err error) {
	var path *os.PathError
	if errors.As(err, &path) {
		err = fmt.Errorf("%s: %w", path.Op, path.Err)
	}
	f.options.Fault(operation, err.Error())
}

// write writes the waiting records in blocks, and returns how many of them it left out because
// they cannot be written.
func (f *File) write(now time.Time) (unfit unwritable, _ error) {
	for {
		b, err := f.portion()
		if b.last == 0 {
			return unfit, err
		}
		for k := kinds - 1; k >= 0; k-- { // contents before their records
			if err = f.add(k, b.of, b.lines[k], now); err != nil {
				return unfit, err
			}
		}
		f.waiting.Done(b.last)
		unfit.number += b.unfit.number
		unfit.last = cmp.Or(b.unfit.last, unfit.last)
	}
}

// portion returns the waiting records that make the next block, none if the disk is full.
func (f *File) portion() (b portion, err error) {
	for c := range f.waiting.Waiting() {
		if b.last == 0 && f.options.IsFull != nil && f.options.IsFull() {
			return b, errReserved
		}
		if f.options.Keys != nil {
			c.Captured = f.options.Recorder.Captured(c)
		}
		if b.add(f.form, c); max(len(b.lines[ofRecords]), len(b.lines[ofContents])) >= blockLines {
			break
		}
	}
	return b, nil
}

// unwritable counts the records, or contents of them, that cannot be written, and has the
// fault of the last one.
type unwritable struct {
	number int
	last   error
}

// portion is the records that are written as one block.
type portion struct {
	last  uint64 // the number of the last record, which may be unwritable; 0 where there is none
	of    span
	lines [kinds][]byte
	unfit unwritable
}

// add adds a record. It leaves out a record that cannot be written: it would not get
// better, and the ones behind it would wait for ever.
func (b *portion) add(form form, c *calls.Record) {
	b.last = c.Sequence
	lines, err := form.appendRecord(b.lines[ofRecords], c)
	if err != nil {
		b.unfit = unwritable{b.unfit.number + 1, err}
		return
	}
	contents, err := form.appendContents(b.lines[ofContents], c)
	if err != nil {
		b.unfit = unwritable{b.unfit.number + 1, err}
	}
	at := c.Started.UnixMicro()
	if len(b.lines[ofRecords]) == 0 {
		b.of = span{first: c.Sequence, earliest: at, latest: at}
	}
	b.lines = [kinds][]byte{lines, contents}
	b.of.earliest, b.of.latest = min(b.of.earliest, at), max(b.of.latest, at)
	b.of.last = c.Sequence
}

// add adds a block to a log, if it has lines. After one that could not be written the segment
// ends.
func (f *File) add(k kind, of span, lines []byte, now time.Time) error {
	l := &f.logs[k]
	if len(lines) == 0 {
		return nil
	}
	if l.file != nil && now.Sub(l.began) >= segmentAge {
		f.endSegment(l)
	}
	if l.file == nil {
		if err := f.beginSegment(l, k == ofContents, of.first, now); err != nil {
			return err
		}
	}
	encoded, err := encodeBlock(l.box, l.blocks, of, lines)
	if err != nil {
		return err
	}
	if err = l.file.Write(encoded); err == nil {
		err = l.file.Sync(l.file.Size())
	}
	if err != nil {
		f.endSegment(l)
		return err
	}
	one := &l.segments[len(l.segments)-1]
	one.size, one.written = l.file.Size(), now
	l.blocks++
	if one.size >= f.sizeOfSegments() {
		f.endSegment(l)
	}
	return nil
}

// sizeOfSegments is the size that begins the next segment. Removing segments keeps the
// limit, which takes at least eight of them.
func (f *File) sizeOfSegments() int64 { return min(segmentSize, int64(f.settings.MaxBytes)/8) }

func (f *File) beginSegment(l *log, isOfContents bool, first uint64, now time.Time) error {
	l.level = metrics.CaptureNone
	if isOfContents {
		l.level = f.most
	}
	name := l.series.Name(first)
	// One of this name has no whole block: its calls would have been written.
	if err := os.Remove(f.dir.Path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l.segments = slices.DeleteFunc(l.segments, func(one stored) bool { return one.name == name })
	out, err := f.dir.Append(name)
	if err != nil {
		return err
	}
	head, box := journal.Calls.Head(f.options.Keys, purpose, byte(l.level))
	file, err := journal.NewWriter(out, head)
	if err != nil {
		return err
	}
	l.segments = append(l.segments, stored{name, first, file.Size(), now})
	l.file, l.box, l.began, l.blocks = file, box, now, 0
	return nil
}

func (f *File) endSegment(l *log) {
	if l.file == nil {
		return
	}
	if err := l.file.Close(); err != nil {
		f.fault("close", err)
	}
	l.file, l.box = nil, nil
}

// expire removes segments that are too old, and the oldest where there are too many bytes.
// Contents may have half of them.
func (f *File) expire(now time.Time) {
	most := int64(f.settings.MaxBytes)
	oldest := now.AddDate(0, 0, -f.settings.Days)
	contents := f.logs[ofContents].expire(f, now, oldest, most/2)
	f.logs[ofRecords].expire(f, now, oldest, most-contents)
}

// expire returns how many bytes are left.
func (l *log) expire(f *File, now, oldest time.Time, most int64) (total int64) {
	if l.file != nil && now.Sub(l.began) >= segmentAge {
		f.endSegment(l)
	}
	for _, one := range l.segments {
		total += one.size
	}
	for len(l.segments) > 0 {
		one := l.segments[0]
		isWritten := l.file != nil && len(l.segments) == 1
		if isWritten || !one.written.Before(oldest) && total <= most || !f.remove(one) {
			break
		}
		total -= one.size
		l.segments = l.segments[1:]
	}
	return total
}

// remove deletes a segment.
func (f *File) remove(one stored) bool {
	err := os.Remove(f.dir.Path(one.name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.fault("delete", err)
		return false
	}
	return true
}
