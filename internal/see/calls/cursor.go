package calls

import (
	"errors"
	"iter"
	"math"
	"slices"
)

const (
	// maxFeeds is how many feeds there are at a time.
	maxFeeds = 32
	// feedRoom is how many records a feed may fall behind.
	feedRoom = 512
)

// The reasons to refuse a feed.
var (
	ErrSubscribers = errors.New("too many subscribers")
	ErrClosed      = errors.New("the gateway is shutting down")
)

// Cursor reads records in the order in which they were recorded. Nobody waits for a slow one.
type Cursor struct {
	tail *tail
	// room is the number of records that are kept for it. If it falls further behind it misses
	// some, or ends if it is strict.
	room     uint64
	isStrict bool
	// wakeAt is how many records wake it.
	wakeAt uint64
	isFeed bool
	wakes  chan struct{}

	// These are under the lock of the tail.
	next, end uint64 // the record to read next, and the first one that it does not read
	missed    int64
}

// open adds a cursor, which reads the records that are moved on from now on.
func (t *tail) open(c *Cursor) (*Cursor, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.isFeed && t.isClosed:
		return nil, ErrClosed
	case c.isFeed && t.feeds() >= maxFeeds:
		return nil, ErrSubscribers
	}
	c.tail, c.wakes, c.next, c.end = t, make(chan struct{}, 1), t.moved, math.MaxUint64
	t.cursors = append(t.cursors, c)
	return c, nil
}

// feeds returns how many cursors are feeds. The lock is held.
func (t *tail) feeds() (count int) {
	for _, c := range t.cursors {
		if c.isFeed {
			count++
		}
	}
	return count
}

// isWatched reports whether there are feeds.
func (t *tail) isWatched() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.feeds() > 0
}

// endFeeds ends every feed and allows no more.
func (t *tail) endFeeds() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isClosed = true
	t.cursors = slices.DeleteFunc(t.cursors, func(c *Cursor) bool {
		if c.isFeed {
			c.stop(t.moved)
		}
		return c.isFeed
	})
}

// stop ends a cursor before a record. The lock is held.
func (c *Cursor) stop(before uint64) {
	c.end = min(c.end, before)
	c.wake()
}

func (c *Cursor) wake() {
	select {
	case c.wakes <- struct{}{}:
	default:
	}
}

// Ready returns a channel that has a token when there are records to read, or when the cursor
// has ended.
func (c *Cursor) Ready() <-chan struct{} { return c.wakes }

// Close ends the cursor at once.
func (c *Cursor) Close() {
	c.tail.mu.Lock()
	defer c.tail.mu.Unlock()
	c.end = 0
	c.tail.cursors = slices.DeleteFunc(c.tail.cursors, func(other *Cursor) bool { return other == c })
}

// HasEnded reports whether there is nothing more to read: the cursor was closed, the gateway
// stops, or the reader was too slow.
func (c *Cursor) HasEnded() bool {
	c.tail.mu.Lock()
	defer c.tail.mu.Unlock()
	return max(c.next, c.tail.first) >= c.end
}

// Missed returns how many records were left out since it was last asked, because the reader was
// too slow.
func (c *Cursor) Missed() int64 {
	c.tail.mu.Lock()
	defer c.tail.mu.Unlock()
	missed := c.missed
	c.missed = 0
	return missed
}

// Waiting passes on the records that wait to be read, the oldest first. A record waits until
// Done. The loop may change the values that it is given and must not keep them.
func (c *Cursor) Waiting() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		record := new(Record)
		for after := uint64(0); c.read(after, record) && yield(record); after = record.Sequence {
		}
	}
}

// read copies the first record that waits and has a greater number, and reports whether there is
// one. Forgotten records count as missed, but for those that were passed on and are not done.
func (c *Cursor) read(after uint64, to *Record) bool {
	t := c.tail
	t.mu.Lock()
	defer t.mu.Unlock()
	number := max(after+1, c.next)
	if number < t.first {
		if number > c.next {
			return false // the next loop begins behind them
		}
		c.missed += int64(t.first - number)
		number, c.next = t.first, t.first
	}
	if number >= min(t.moved, c.end) {
		return false
	}
	*to = *t.at(number)
	return true
}

// Done says that the record with a number and all before it were read.
func (c *Cursor) Done(number uint64) {
	c.tail.mu.Lock()
	defer c.tail.mu.Unlock()
	c.next = max(c.next, number+1)
}
