package quota

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
)

// journal keeps what was counted since the last flush, so that a crash of the
// process does not lose it: every append is handed to the kernel before it
// returns. Its records are totals, so reading a record twice does no harm.
type journal struct {
	disk disk
	sync Sync

	mu       sync.Mutex
	file     segment
	sequence uint64 // of the segment that is written
	removed  uint64 // the segment that discard removed last
	damaged  uint64 // the segment that verify found damaged last
	ids      uint32 // cells defined in that segment
	size     int64  // of that segment, including its magic text
	buf      []byte
	position uint64 // appends so far

	// failure is why nothing can be written, or nil.
	failure atomic.Pointer[error]

	// maintenance serialises operations on whole segments; it is locked before mu.
	maintenance sync.Mutex
	recovered   bool   // what was on the disk at the start is known
	synced      uint64 // position up to which all is on the disk
	oldSegments []oldSegment
}

// oldSegment is a segment on the disk that is not written any more. A corrupt
// one is renamed rather than removed.
type oldSegment struct {
	number  uint64
	size    int64
	corrupt bool
	damaged bool // verify has reported it
}

// maxKeptBuffer is the largest buffer that is kept for the next append.
const maxKeptBuffer = 64 << 10

var errJournalClosed = errors.New("the journal is closed")

// newJournal returns a journal that is not open yet.
func newJournal(d disk, s Sync) *journal {
	j := &journal{disk: d, sync: s}
	closed := errJournalClosed
	j.failure.Store(&closed)
	return j
}

// open makes the journal writable: it reads the segments on the disk, unless that
// was done before, and begins a new segment. It returns what it has read.
func (j *journal) open() (*recovery, error) {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	found, err := j.recover()
	if err == nil {
		err = j.rotate()
	}
	if err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		err = j.fail(err)
	}
	return found, err
}

// recover reads the segments on the disk, once.
func (j *journal) recover() (*recovery, error) {
	if err := j.disk.open(); err != nil || j.recovered { // open again, as the directory may have been removed
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
	old, position := j.file, j.position
	if j.sequence > 0 && j.sequence != j.removed && (len(j.oldSegments) == 0 || j.oldSegments[len(j.oldSegments)-1].number < j.sequence) {
		j.oldSegments = append(j.oldSegments, oldSegment{number: j.sequence, size: j.size, damaged: j.sequence == j.damaged})
	}
	j.file, j.sequence, j.ids, j.size = file, sequence, 0, int64(len(segmentMagic))
	j.failure.Store(nil)
	j.mu.Unlock()
	if old == nil {
		return nil
	}
	if j.sync != SyncOff {
		err = old.Sync()
	}
	if err == nil {
		j.synced = max(j.synced, position)
	}
	return errors.Join(err, old.Close())
}

// createSegment creates an empty segment with the next free number. If its magic
// text cannot be written, it removes the file, so that the next attempt can use
// the number.
func (j *journal) createSegment() (sequence uint64, file segment, err error) {
	sequence = j.sequence + 1
	file, err = j.disk.create(segmentName(sequence))
	for errors.Is(err, fs.ErrExist) {
		sequence++
		file, err = j.disk.create(segmentName(sequence))
	}
	if err != nil {
		return 0, nil, err
	}
	if _, err = file.Write([]byte(segmentMagic)); err != nil {
		return 0, nil, errors.Join(err, file.Close(), j.disk.remove(segmentName(sequence)))
	}
	return sequence, file, nil
}

// append writes the totals of cells, and returns when the kernel has them. With
// admit it writes one more request for each cell, and adds it to the cells only
// after the write succeeded.
func (j *journal) append(cells []*cell, admit bool) error {
	j.mu.Lock()
	if failure := j.failure.Load(); failure != nil {
		j.mu.Unlock()
		return *failure
	}
	j.encode(cells, admit)
	if len(j.buf) == 0 {
		j.mu.Unlock()
		return nil
	}
	n, err := j.file.Write(j.buf)
	j.size += int64(n)
	if err != nil {
		// Records after a partial one could not be read.
		err = j.fail(err)
		j.mu.Unlock()
		return err
	}
	if admit {
		for _, c := range cells {
			if c != nil {
				c.requests.Add(1)
			}
		}
	}
	j.position++
	position := j.position
	if cap(j.buf) > maxKeptBuffer {
		j.buf = nil
	}
	j.mu.Unlock()
	if j.sync == SyncAlways {
		// The request is counted even if the sync fails; fail stops later appends.
		_ = j.syncTo(position)
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
	j.buf = beginRecord(j.buf, isDetailed)
	more := int64(0)
	if admit {
		more = 1
	}
	for _, c := range cells {
		if c != nil {
			j.buf = appendTotals(j.buf, c.id, c.requests.Load()+more, c.tokens.Load(), c.detail.load())
		}
	}
	j.buf = endRecord(j.buf, at)
}

// fail closes the segment and records why; mu is held.
func (j *journal) fail(err error) error {
	err = fmt.Errorf("journal: %w", err)
	j.failure.Store(&err)
	if j.file != nil {
		_ = j.file.Close() // it is broken
		j.file = nil
	}
	return err
}

// err returns why nothing can be written, or nil.
func (j *journal) err() error {
	if failure := j.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// syncTo ensures that everything up to a position is on the disk. Concurrent
// callers share one sync. After a failed sync the segment is closed, because a
// second sync would succeed although the kernel has dropped the data.
func (j *journal) syncTo(position uint64) error {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	return j.syncToLocked(position)
}

func (j *journal) syncToLocked(position uint64) error {
	if j.synced >= position {
		return nil
	}
	j.mu.Lock()
	file, reached := j.file, j.position
	j.mu.Unlock()
	if file == nil {
		return j.err()
	}
	if err := file.Sync(); err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.file != file {
			return j.err() // it was closed meanwhile
		}
		return j.fail(err)
	}
	j.synced = reached
	return nil
}

// syncAll ensures that everything written so far is on the disk, unless syncing
// is off.
func (j *journal) syncAll() error {
	if j.sync == SyncOff {
		return nil
	}
	j.mu.Lock()
	position := j.position
	j.mu.Unlock()
	return j.syncTo(position)
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
	j.mu.Lock()
	sequence, unused := j.sequence, j.size == int64(len(segmentMagic)) && j.file != nil
	j.mu.Unlock()
	if unused {
		return sequence, nil
	}
	if err := j.rotate(); err != nil {
		if j.sequence > sequence {
			j.mu.Lock()
			defer j.mu.Unlock()
			err = j.fail(err) // the old segment may have lost what was written to it
		}
		return 0, err
	}
	return j.sequence, nil
}

// dropBefore removes the segments before a sequence number, whose content is
// saved elsewhere. Corrupt ones are renamed, so that they can be examined.
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
		if name := segmentName(old.number); old.corrupt {
			err = j.disk.rename(name, name+corruptSuffix)
		} else {
			err = j.disk.remove(name)
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
// written, once for each. Memory has everything that was in it, so that session.repair
// makes up for the loss.
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
	if j.file != nil && j.damaged != j.sequence {
		if err := j.checkSize(j.sequence, j.size); err != nil {
			j.damaged = j.sequence
			found = errors.Join(found, err)
		}
	}
	return found
}

func (j *journal) checkSize(number uint64, want int64) error {
	name := segmentName(number)
	got, err := j.disk.size(name)
	if err == nil && got != want {
		err = fmt.Errorf("%s has %d bytes and should have %d: something other than the gateway has changed it", name, got, want)
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
	if j.file != nil {
		return nil
	}
	j.removed = j.sequence
	return j.disk.remove(segmentName(j.sequence))
}

// totalSize returns the size of all segments on the disk.
func (j *journal) totalSize() int64 {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	size := j.size
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
	if j.file == nil {
		return err
	}
	err = errors.Join(err, j.file.Close())
	j.file = nil
	closed := errJournalClosed
	j.failure.Store(&closed)
	if j.size > int64(len(segmentMagic)) {
		return err
	}
	if gone := j.disk.remove(segmentName(j.sequence)); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
