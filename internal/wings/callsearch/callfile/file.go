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
	"log/slog"
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
	logs     [kinds]journal.Log // of segments
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

// Open opens the file. Calls are numbered from the last one that it has. Where its settings
// have it on, it becomes the archive of the recorder.
func Open(options Options) (*File, error) {
	f := &File{
		options: options, form: newForm(), dir: durable.At(filepath.Join(options.Dir, folder)),
		changed: make(chan struct{}, 1), searching: make(chan struct{}, 2),
	}
	for k := range f.logs {
		f.logs[k] = journal.Log{Dir: f.dir, Format: journal.Calls, Series: series[k], Keys: options.Keys,
			Purpose: purpose, Age: segmentAge, Fault: f.fault}
		if err := f.logs[k].Find(); err != nil {
			return nil, fmt.Errorf("monitoring.calls-file: %w", err)
		}
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
			f.logs[k].End()
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

// last returns the number of the last call, or a larger one where the last segment cannot be
// read.
func (f *File) last() (number uint64) {
	all := f.logs[ofRecords].Files
	if len(all) == 0 {
		return 0
	}
	one := all[len(all)-1]
	number = one.First
	newest, err := f.read(one, maxSegment)
	if err == nil && newest.cut > 0 {
		f.options.Log.Warn("calls: a file ends within a block, which is left out", "file", one.Name,
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
func (f *File) read(one journal.Part, most int64) (*segment, error) {
	return readSegment(f.dir.Path(one.Name), most, f.options.Keys)
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
		kept.End()
	}
	kept.Files = slices.DeleteFunc(kept.Files, func(one journal.Part) bool {
		if !isLess {
			if head, err := f.read(one, headOnly); err == nil && head.level <= most {
				return false
			}
		}
		return kept.Remove(one)
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
		f.logs[k].End()
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

func (f *File) fault(operation string, err error) {
	f.options.Fault(operation, durable.WithoutPath(err).Error())
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

// add adds a block to a log, if it has lines.
func (f *File) add(k kind, of span, lines []byte, now time.Time) error {
	if len(lines) == 0 {
		return nil
	}
	level := metrics.CaptureNone
	if k == ofContents {
		level = f.most
	}
	return f.logs[k].Add(now, of.first, f.sizeOfSegments(), []byte{byte(level)},
		func(box *seal.Box, place uint64) ([]byte, error) { return encodeBlock(box, place, of, lines) })
}

// sizeOfSegments is the size that begins the next segment. Removing segments keeps the
// limit, which takes at least eight of them.
func (f *File) sizeOfSegments() int64 { return min(segmentSize, int64(f.settings.MaxBytes)/8) }

// expire removes segments that are too old, and the oldest if there are too many bytes.
// Contents may have half of them.
func (f *File) expire(now time.Time) {
	most := int64(f.settings.MaxBytes)
	oldest := now.AddDate(0, 0, -f.settings.Days)
	contents := f.logs[ofContents].Expire(now, oldest, most/2)
	f.logs[ofRecords].Expire(now, oldest, most-contents)
}
