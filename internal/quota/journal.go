package quota

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
)

// journal keeps what was counted since the last snapshot where a crash of the
// process cannot reach it: every append is handed to the kernel before it
// returns. Its records are totals, so that reading too much of it, or the same
// twice, does no harm.
type journal struct {
	disk disk
	sync Sync

	mu       sync.Mutex
	file     segment
	sequence uint64 // of the segment that is written
	ids      uint32 // numbers given in it
	size     int64
	buf      []byte
	position uint64 // appends so far

	// failure is why nothing can be written; nil while all is well.
	failure atomic.Pointer[error]

	// maintenance serialises what is done to whole segments; it is taken before mu.
	maintenance sync.Mutex
	read        bool   // what was on the disk at the start is known
	synced      uint64 // position up to which all is on the disk
	older       []oldSegment
}

// oldSegment is a segment on the disk that is not written any more. A corrupt
// one is put aside rather than removed.
type oldSegment struct {
	number  uint64
	size    int64
	corrupt bool
}

// keepBuffer is the largest buffer that an append leaves behind.
const keepBuffer = 64 << 10

var errJournalClosed = errors.New("the journal is closed")

// newJournal returns a journal that is not open yet.
func newJournal(d disk, s Sync) *journal {
	j := &journal{disk: d, sync: s}
	closed := errJournalClosed
	j.failure.Store(&closed)
	return j
}

// open makes a journal that cannot be written fit for it: what is on the disk
// is read, unless that was done before, and a new segment begun. It returns
// what was read now.
func (j *journal) open() (*recovery, error) {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	found, err := j.recover()
	if err == nil {
		err = j.next()
	}
	if err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		err = j.fail(err)
	}
	return found, err
}

// recover reads what is on the disk, once.
func (j *journal) recover() (*recovery, error) {
	if err := j.disk.open(); err != nil || j.read { // somebody may have removed it since
		return nil, err
	}
	found, err := recoverSegments(j.disk)
	if err != nil {
		return nil, err
	}
	j.read = true
	j.older = found.segments
	j.sequence = found.last
	return found, nil
}

// next puts a new segment in the place of the one that is written.
func (j *journal) next() error {
	sequence, file, err := j.begin()
	if err != nil {
		return err
	}
	j.mu.Lock()
	old, position := j.file, j.position
	if j.sequence > 0 && (len(j.older) == 0 || j.older[len(j.older)-1].number < j.sequence) {
		j.older = append(j.older, oldSegment{number: j.sequence, size: j.size})
	}
	j.file, j.sequence, j.ids, j.size = file, sequence, 0, 0
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

// begin makes an empty segment with the next number that is free. One whose
// beginning could not be written is no segment, and must not be in the way of
// the next try.
func (j *journal) begin() (sequence uint64, file segment, err error) {
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
// admit they are written with one more request, which is added to the cells
// when it is written and not before.
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
		// What follows half a record could not be read.
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
	if cap(j.buf) > keepBuffer {
		j.buf = nil
	}
	j.mu.Unlock()
	if j.sync == SyncAlways {
		// The count stands whatever comes of it; a failure is for those who follow.
		_ = j.flush(position)
	}
	return nil
}

// encode fills the buffer: definitions of cells that this segment does not know
// yet, and one update.
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
	j.buf = beginRecord(j.buf, isUpdate)
	more := int64(0)
	if admit {
		more = 1
	}
	for _, c := range cells {
		if c != nil {
			j.buf = appendTotals(j.buf, c.id, c.requests.Load()+more, c.tokens.Load())
		}
	}
	j.buf = endRecord(j.buf, at)
}

// fail gives the segment up; mu is held.
func (j *journal) fail(err error) error {
	err = fmt.Errorf("journal: %w", err)
	j.failure.Store(&err)
	if j.file != nil {
		_ = j.file.Close() // it is broken
		j.file = nil
	}
	return err
}

// err returns why nothing can be written.
func (j *journal) err() error {
	if failure := j.failure.Load(); failure != nil {
		return *failure
	}
	return nil
}

// flush sees to it that everything up to a position is on the disk. Many who
// wait share one sync. After a failed sync the segment is given up: a second
// one would succeed without the data.
func (j *journal) flush(position uint64) error {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	return j.flushLocked(position)
}

func (j *journal) flushLocked(position uint64) error {
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
			return j.err() // it was given up meanwhile
		}
		return j.fail(err)
	}
	j.synced = reached
	return nil
}

// flushAll is flush for the ticker.
func (j *journal) flushAll() error {
	if j.sync == SyncOff {
		return nil
	}
	j.mu.Lock()
	position := j.position
	j.mu.Unlock()
	return j.flush(position)
}

// cut begins a new segment, unless nothing was written to the current one. It
// returns the first segment that may hold more than memory held at its return.
// A journal that has failed is not revived by it: what it could not take would
// be missing.
func (j *journal) cut() (uint64, error) {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	if err := j.err(); err != nil {
		return 0, err
	}
	j.mu.Lock()
	sequence, unused := j.sequence, j.size == 0 && j.file != nil
	j.mu.Unlock()
	if unused {
		return sequence, nil
	}
	if err := j.next(); err != nil {
		return 0, err
	}
	return j.sequence, nil
}

// drop removes the segments before a sequence number: what they hold is safe
// elsewhere. Corrupt ones are put aside for people to look at.
func (j *journal) drop(before uint64) error {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	var failed error
	var kept []oldSegment
	for _, old := range j.older {
		if old.number >= before {
			kept = append(kept, old)
			continue
		}
		var err error
		if name := segmentName(old.number); old.corrupt {
			err = j.disk.rename(name, name+asideSuffix)
		} else {
			err = j.disk.remove(name)
		}
		if err != nil {
			kept = append(kept, old)
			failed = errors.Join(failed, err)
		}
	}
	j.older = kept
	return failed
}

// held returns the size of the segments on the disk.
func (j *journal) held() int64 {
	j.maintenance.Lock()
	defer j.maintenance.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	size := j.size
	for _, old := range j.older {
		size += old.size
	}
	return size
}

// close ends the journal. An empty segment is removed, so that nothing is left
// where there is nothing to keep.
func (j *journal) close() error {
	err := j.flushAll()
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
	if j.size == 0 {
		err = errors.Join(err, j.disk.remove(segmentName(j.sequence)))
	}
	return err
}
