package calls

import (
	"iter"
	"slices"
	"sync"
)

const (
	// bufferSize is how many records may wait to be moved on.
	bufferSize = 2048
	// chunkSize is the number of records that a tail makes room for at a time, and spareRoom
	// bounds the room behind the last record that it keeps.
	chunkSize, spareRoom = 64, 256
)

// tail is the memory of calls. It has the records of the latest ones, numbered in the order in
// which they ended. A request adds its record at the end, where it waits until the pipeline has
// noted it and moved it on. From then on readers see it: the list of the latest calls, and
// cursors, each of which reads one record after the other at its own pace. The tail forgets a
// record that is too old for the list once every cursor has read it or is too far behind.
//
// Records are copied in and out under the lock, and nobody holds it for longer. Only the
// pipeline reads them in place.
type tail struct {
	shown uint64 // how many records the list has

	mu     sync.Mutex
	chunks []*chunk // the oldest first
	base   uint64   // the number of the record that the first chunk begins with
	// The records from first on can be read, those from moved on wait, and next is the number
	// of the next one.
	first, moved, next uint64
	told               uint64 // cursors were woken for the records before
	cursors            []*Cursor
	isClosed           bool // there are no more feeds
}

type chunk [chunkSize]Record

func newTail(shown int) *tail {
	t := &tail{shown: uint64(shown)}
	t.begin(1)
	return t
}

// begin sets the number of the first record. Nothing may have been added before.
func (t *tail) begin(number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.base, t.first, t.moved, t.next = number, number, number, number
}

// at returns the place of a record. The lock is held.
func (t *tail) at(number uint64) *Record {
	n := number - t.base
	return &t.chunks[n/chunkSize][n%chunkSize]
}

// push copies a record to the end and returns how many records wait, 0 if there is no room for
// another.
func (t *tail) push(c *Record) (waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next-t.moved == bufferSize {
		return 0
	}
	if t.room() == 0 {
		t.chunks = append(t.chunks, new(chunk))
	}
	record := t.at(t.next)
	*record = *c
	record.Sequence, record.Running = t.next, nil // Running ends with the request
	t.next++
	return int(t.next - t.moved)
}

// room returns how many records can be added without another chunk. The lock is held.
func (t *tail) room() uint64 { return t.base + uint64(len(t.chunks))*chunkSize - t.next }

// waiting returns how many records wait.
func (t *tail) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.next - t.moved)
}

// run returns the oldest waiting records, in place, at most so many of them; some must wait.
// They belong to the caller until move, and nobody changes them afterwards until release.
func (t *tail) run(most int) []Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.moved - t.base
	rest := t.chunks[n/chunkSize][n%chunkSize:]
	return rest[:min(uint64(most), uint64(len(rest)), t.next-t.moved)]
}

// move lets readers see so many more records.
func (t *tail) move(count int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved += uint64(count)
}

// drop forgets the records that wait. It passes on each of them before.
func (t *tail) drop(of func(*Record)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.next > t.moved {
		t.next--
		record := t.at(t.next)
		of(record)
		*record = Record{}
	}
}

// release wakes the cursors after records were moved on, ends those that are too slow, and
// forgets the records that nobody reads any more. It returns the number of the oldest one that
// is left, and how many cursors it ended.
func (t *tail) release() (oldest uint64, ended int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest = less(t.moved, t.shown)
	t.cursors = slices.DeleteFunc(t.cursors, func(c *Cursor) bool {
		behind := t.moved - c.next
		if c.isStrict && behind > c.room {
			c.stop(c.next + c.room)
			ended++
			return true
		}
		if behind >= c.wakeAt && t.moved > t.told {
			c.wake()
		}
		oldest = min(oldest, max(c.next, less(t.moved, c.room)))
		return false
	})
	t.first, t.told = max(t.first, oldest), t.moved
	for t.first-t.base >= chunkSize {
		free := t.chunks[0]
		t.chunks = slices.Delete(t.chunks, 0, 1)
		t.base += chunkSize
		if t.room() >= spareRoom {
			continue
		}
		t.mu.Unlock() // nobody has the chunk, and requests need not wait
		clear(free[:])
		t.mu.Lock()
		t.chunks = append(t.chunks, free)
	}
	return t.first, ended
}

// less returns a-b, or 0 if b is greater.
func less(a, b uint64) uint64 { return a - min(a, b) }

// read copies the record with a number, and reports whether it is there.
func (t *tail) read(number uint64, to *Record) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number < t.first || number >= t.moved {
		return false
	}
	*to = *t.at(number)
	return true
}

// latest passes on records before a number, the newest first: those of the list, or with all also
// the older ones that a cursor has not read. The loop must not keep the values that it is given.
func (t *tail) latest(before uint64, all bool) iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		t.mu.Lock()
		number, oldest := max(min(before, t.moved), 1)-1, t.first
		if !all {
			oldest = max(oldest, less(t.moved, t.shown))
		}
		t.mu.Unlock()
		for record := new(Record); number >= oldest && t.read(number, record) && yield(record); number-- {
		}
	}
}
