package quota

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"

	records "github.com/patchbay-ai/patchbay/internal/store/journal"
)

// journal keeps the totals counted since the last flush. A crash of the process does
// not lose them: every append is handed to the kernel before it returns. Its records
// are totals, so reading a record twice does no harm.
type journal struct {
	disk disk
	sync Sync

	mu       sync.Mutex
	file     *records.Writer // the segment that is written; it says why nothing can be
	sequence uint64          // of that segment
	removed  uint64          // the segment that discard removed last
	damaged  uint64          // the segment that verify found damaged last
	ids      uint32          // cells defined in that segment
	buf      []byte
	position uint64 // appends so far

	// maintenance serialises operations on whole segments; it is locked before mu.
	maintenance sync.Mutex
	recovered   bool // the records on the disk at the start are known
	oldSegments []oldSegment
}

// oldSegment is a segment on the disk that is not written any more. A corrupt
// one is renamed rather than removed.
type oldSegment struct {
	number  uint64
	size    int64
	damage  records.Damage
	damaged bool // verify has reported it
}

// maxKeptBuffer is the largest buffer that is kept for the next append.
const maxKeptBuffer = 64 << 10

// newJournal returns a journal that is not open yet.
func newJournal(d disk, s Sync) *journal {
	return &journal{disk: d, sync: s, file: records.Failed(records.ErrClosed)}
}

// open makes the journal writable: it reads the segments on the disk, unless that was
// done before, and begins a new segment. It returns the records it has read.
func (j *journal) open() (*recovery, error) {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	found, err := j.recover()
	if err == nil {
		err = j.rotate()
	}
	if err != nil {
		j.current().Fail(err)
	}
	return found, named(err)
}

// recover reads the segments on the disk, once.
func (j *journal) recover() (*recovery, error) {
	if err := j.disk.Make(); err != nil || j.recovered { // open again, as the directory may have been removed
		return nil, err
	}
	found, err := recoverSegments(j.disk)
	if err != nil {
		return nil, err
	}
	j.recovered = true
	j.oldSegments = found.segments
	j.sequence = found.last
	return found, nil
}

// rotate begins a new segment and closes the current one.
func (j *journal) rotate() error {
	sequence, file, err := j.createSegment()
	if err != nil {
		return err
	}
	j.mu.Lock()
	old := j.file
	if old.Size() > 0 && j.sequence != j.removed {
		j.oldSegments = append(j.oldSegments,
			oldSegment{number: j.sequence, size: old.Size(), damaged: j.sequence == j.damaged})
	}
	j.file, j.sequence, j.ids = file, sequence, 0
	j.mu.Unlock()
	if old.Err() != nil {
		return nil // it was closed when it failed
	}
	if j.sync != SyncOff {
		err = old.Sync(math.MaxInt64) // whatever was synced before: a disk that fails is to be known
	}
	return errors.Join(err, old.Close())
}

// createSegment creates an empty segment with the next free number. If it cannot write
// the head, it removes the file: the next attempt can use the number.
func (j *journal) createSegment() (sequence uint64, _ *records.Writer, err error) {
	sequence = j.sequence + 1
	out, err := j.disk.Append(segmentName(sequence))
	for errors.Is(err, fs.ErrExist) {
		sequence++
		out, err = j.disk.Append(segmentName(sequence))
	}
	if err != nil {
		return 0, nil, err
	}
	head, _ := records.Ledger.Head(nil, "") // it is never sealed
	file, err := records.NewWriter(out, head)
	if err != nil {
		return 0, nil, errors.Join(err, j.disk.Remove(segmentName(sequence)))
	}
	return sequence, file, nil
}

// append writes the totals of cells, and returns when the kernel has them. With
// admit it writes one more request for each cell, and adds it to the cells only
// after the write succeeded.
func (j *journal) append(cells []*cell, admit bool) error {
	j.mu.Lock()
	file := j.file
	if err := file.Err(); err != nil {
		j.mu.Unlock()
		return named(err)
	}
	j.encode(cells, admit)
	if len(j.buf) == 0 {
		j.mu.Unlock()
		return nil
	}
	if err := file.Write(j.buf); err != nil {
		j.mu.Unlock()
		return named(err)
	}
	if admit {
		for _, c := range cells {
			if c != nil {
				c.counts.requests.Add(1)
			}
		}
	}
	j.position++
	if cap(j.buf) > maxKeptBuffer {
		j.buf = nil
	}
	size := file.Size()
	j.mu.Unlock()
	if j.sync == SyncAlways {
		// The request is counted even if the sync fails; later appends fail then.
		_ = file.Sync(size)
	}
	return nil
}

// encode fills the buffer with definitions of the cells that are new to this
// segment, and one update.
func (j *journal) encode(cells []*cell, admit bool) {
	j.buf = j.buf[:0]
	known := 0
	for _, c := range cells {
		if c == nil {
			continue
		}
		known++
		if c.segment != j.sequence {
			j.ids++
			c.segment, c.id = j.sequence, j.ids
			j.buf = appendDefinition(j.buf, c)
		}
	}
	if known == 0 {
		return
	}
	at := len(j.buf)
	j.buf = append(records.Ledger.Begin(j.buf), isUpdate)
	for _, c := range cells {
		if c == nil {
			continue
		}
		totals := c.counts.load()
		if admit {
			totals.Requests++
		}
		j.buf = appendTotals(j.buf, c.id, totals)
	}
	j.buf = records.Ledger.End(j.buf, at, nil, 0)
}

// current returns the segment that is written.
func (j *journal) current() *records.Writer {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file
}

// err returns why nothing can be written, or nil.
func (j *journal) err() error { return named(j.current().Err()) }

// named says of an error that it is the journal's.
func named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("journal: %w", err)
}

// syncAll ensures that everything written so far is on the disk, unless syncing
// is off.
func (j *journal) syncAll() error {
	if j.sync == SyncOff {
		return nil
	}
	file := j.current()
	return named(file.Sync(file.Size()))
}

// cut begins a new segment, unless nothing was written to the current one. It
// returns the number of the current segment: all earlier segments contain only
// totals that memory has. It does not reopen a journal that has failed, because
// the totals that could not be written would be missing; see session.repair.
func (j *journal) cut() (uint64, error) {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	if err := j.err(); err != nil {
		return 0, err
	}
	file, sequence := j.current(), j.sequence
	if head, _ := records.Ledger.Head(nil, ""); file.Size() == int64(len(head)) {
		return sequence, nil
	}
	if err := j.rotate(); err != nil {
		if j.sequence > sequence {
			j.current().Fail(err) // the old segment may have lost records
		}
		return 0, named(err)
	}
	return j.sequence, nil
}

// dropBefore removes the segments before a sequence number; their content is saved
// elsewhere. It renames corrupt ones instead, for a person to examine them.
func (j *journal) dropBefore(before uint64) error {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	var failed error
	var kept []oldSegment
	for _, old := range j.oldSegments {
		if old.number >= before {
			kept = append(kept, old)
			continue
		}
		var err error
		if name := segmentName(old.number); old.damage.IsCorrupt {
			err = j.disk.Move(name, name+corruptSuffix)
		} else {
			err = j.disk.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that is gone need not be removed
			kept = append(kept, old)
			failed = errors.Join(failed, err)
		}
	}
	j.oldSegments = kept
	return failed
}

// verify returns an error if a segment is not on the disk with the size that was
// written, once for each. Memory has everything that was in it: session.repair makes up
// for the loss.
func (j *journal) verify() error {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	var found error
	for i := range j.oldSegments {
		if old := &j.oldSegments[i]; !old.damaged {
			err := j.checkSize(old.number, old.size)
			old.damaged = err != nil
			found = errors.Join(found, err)
		}
	}
	if j.file.Err() == nil && j.damaged != j.sequence {
		if err := j.checkSize(j.sequence, j.file.Size()); err != nil {
			j.damaged = j.sequence
			found = errors.Join(found, err)
		}
	}
	return found
}

func (j *journal) checkSize(number uint64, want int64) error {
	name := segmentName(number)
	got, err := j.disk.Size(name)
	if err == nil && got != want {
		err = fmt.Errorf("%s has %d bytes and should have %d: something other than the gateway has changed it",
			name, got, want)
	}
	return err
}

// appends returns how many appends there were.
func (j *journal) appends() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.position
}

// discard removes the segment that was begun last, of a journal that has failed since.
// Segments that a full disk cuts short would otherwise accumulate there.
func (j *journal) discard() error {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file.Err() == nil {
		return nil
	}
	j.removed = j.sequence
	return j.disk.Remove(segmentName(j.sequence))
}

// totalSize returns the size of all segments on the disk.
func (j *journal) totalSize() int64 {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	size := j.file.Size()
	for _, old := range j.oldSegments {
		size += old.size
	}
	return size
}

// close closes the journal, and removes its current segment if that is empty.
func (j *journal) close() error {
	err := j.syncAll()
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file.Err() != nil {
		return err
	}
	err = errors.Join(err, j.file.Close())
	if head, _ := records.Ledger.Head(nil, ""); j.file.Size() > int64(len(head)) {
		return err
	}
	if gone := j.disk.Remove(segmentName(j.sequence)); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
