package calls

import "sync/atomic"

// buffer is a bounded queue with many writers, which never wait, and one reader.
// It is a ring of slots. The ticket of a slot says what it is ready for: the
// writer whose position equals the ticket, or the reader whose position is one
// less. It is counted from the first position of the slot, so that a new slot needs
// no writing: memory that no record was in is not taken from the system.
type buffer struct {
	slots []slot
	mask  uint64
	head  atomic.Uint64 // the next position to write
	tail  atomic.Uint64 // the next position to read
}

type slot struct {
	ticket atomic.Uint64
	call   Call
}

// newBuffer returns a buffer for a number of calls that is a power of two.
func newBuffer(size int) *buffer {
	return &buffer{slots: make([]slot, size), mask: uint64(size - 1)}
}

// push copies a call into the buffer; false means that there is no room.
func (b *buffer) push(c *Call) bool {
	for {
		at := b.head.Load()
		first := at & b.mask
		s := &b.slots[first]
		switch ticket := s.ticket.Load() + first; {
		case ticket == at:
			if b.head.CompareAndSwap(at, at+1) {
				s.call = *c
				s.ticket.Store(at + 1 - first)
				return true
			}
		case ticket < at:
			return false // the reader is a whole round behind
		}
	}
}

// pop takes the oldest call out. Only one goroutine may call it at a time.
func (b *buffer) pop(c *Call) bool {
	at := b.tail.Load()
	first := at & b.mask
	s := &b.slots[first]
	if s.ticket.Load()+first != at+1 {
		return false
	}
	*c = s.call
	s.call.Reset() // an idle buffer must not keep strings in memory
	b.tail.Store(at + 1)
	s.ticket.Store(at + uint64(len(b.slots)) - first)
	return true
}

// len returns about how many calls wait.
func (b *buffer) len() int {
	tail := b.tail.Load() // first: head never falls behind it
	return int(b.head.Load() - tail)
}
