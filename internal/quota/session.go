package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// session is the ledger between being turned on and being off with everything
// written. It is one writer.
type session struct {
	ledger   *Ledger
	settings Settings // those that need a restart
	book     *book
	journal  *journal
	shared   *shared // nil unless counting is distributed

	// inFlight is the number of requests that will still settle; ended means
	// that the session takes no more.
	inFlight atomic.Int64

	disk, stored *part
	damaged      atomic.Pointer[string]

	// storing is held by a flush, which takes as long as the database does, and
	// flushing by who notes what is safe or writes the journal anew, which must
	// not wait for that.
	storing, flushing sync.Mutex
	// resume is the boundary of the latest flush if that failed, and compacted the
	// size of the journal after it was last written anew. Flushing is held for both.
	resume    uint64
	compacted int64

	// The constants of the same names; tests have smaller ones.
	compactAt                       int64
	flushBatch, maxOpen, maxHistory int

	retain retainer

	// storeLock is held by who opens or closes the store; a channel, because
	// others give up waiting.
	storeLock chan struct{}
	store     Snapshots

	// reading is held by who puts an answer to a question together.
	reading sync.Mutex

	cancel  context.CancelFunc
	kick    chan struct{}
	keepers group // all that runs beside the requests, but keepStore
}

const ended = -1 << 40

func (l *Ledger) newSession(settings *Settings) *session {
	o := &l.options
	s := &session{
		ledger: l, settings: settings.Clone(),
		book:      newBook(rand.Text()[:13]),
		journal:   newJournal(o.disk, settings.JournalSync),
		disk:      &part{log: o.Log, name: "the journal", code: "quota-journal-unavailable"},
		stored:    &part{log: o.Log, name: "the database", code: "quota-store-unavailable"},
		kick:      make(chan struct{}, 1),
		storeLock: make(chan struct{}, 1),
		compactAt: compactAt, flushBatch: flushBatch, maxOpen: maxOpen, maxHistory: maxHistory,
	}
	if s.settings.Distributed.Enabled {
		s.shared = newShared(s)
	}
	return s
}

// begin opens what has to be open before the first request.
func (s *session) begin() {
	s.repair()
	if s.shared != nil {
		s.shared.begin()
	}
	if s.ledger.options.manual {
		return
	}
	ctx, cancel := context.WithCancel(s.ledger.ending)
	s.cancel = cancel
	s.keepers.start(func() { s.keepJournal(ctx) })
	if s.shared != nil {
		s.keepers.start(func() { s.shared.keep(ctx) })
	}
	s.ledger.done.start(func() { s.keepStore(ctx) })
}

// enter notes a request that will settle, unless the session has ended.
func (s *session) enter() bool {
	if s.inFlight.Add(1) > 0 {
		return true
	}
	s.inFlight.Add(-1)
	return false
}

func (s *session) leave() { s.inFlight.Add(-1) }

// shut ends the session if nobody is in it.
func (s *session) shut() bool { return s.inFlight.CompareAndSwap(0, ended) }

// wake brings the next flush forward.
func (s *session) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (r *running) admit(ticket *Ticket, who *Subject, second int64) error {
	s := r.session
	if !s.enter() {
		return nil // turned off between the look and here
	}
	all := s.book.acquire(who, &r.windows, second, &ticket.cells)
	if !all && r.failOpen {
		s.ledger.stats.uncounted.Add(1)
	}
	if !all && !r.failOpen || !s.count(ticket.cells[:], r.failOpen) {
		s.release(ticket.cells[:])
		ticket.cells = [WindowCount]*cell{}
		s.ledger.stats.refused.Add(1)
		return ErrUnavailable
	}
	ticket.session = s
	s.ledger.stats.admitted.Add(1)
	return nil
}

// count counts a request in its cells; false means that it must not pass, and
// was not counted.
func (s *session) count(cells []*cell, failOpen bool) bool {
	// Where the shared counter may refuse a request it is asked first: a count
	// cannot be taken back.
	mayRefuse := s.shared != nil && !failOpen && !s.settings.Distributed.DegradeToLocal
	if mayRefuse && s.shared.push(cells) != nil {
		return false
	}
	if err := s.journal.append(cells, true); err != nil {
		s.disk.note(err)
		if !failOpen {
			return false
		}
		for _, c := range cells {
			if c != nil {
				c.requests.Add(1)
			}
		}
	}
	if s.shared == nil {
		return true
	}
	if mayRefuse {
		s.shared.enqueue(cells)
	} else {
		_ = s.shared.push(cells) // it comes later, and the count stands
	}
	return true
}

// settle adds the tokens of a request that was counted.
func (s *session) settle(cells []*cell, usage schema.Usage) {
	if !usage.Known {
		s.ledger.stats.unsettled.Add(1)
	}
	if usage.Known && usage.Total > 0 {
		for _, c := range cells {
			if c != nil {
				c.tokens.Add(usage.Total)
			}
		}
		if err := s.journal.append(cells, false); err != nil && !errors.Is(err, errJournalClosed) {
			s.disk.note(err)
		}
		if s.shared != nil {
			s.shared.enqueue(cells)
		}
	}
	s.release(cells)
}

// release lets go of the cells of a request, and leaves.
func (s *session) release(cells []*cell) {
	for _, c := range cells {
		if c != nil {
			c.release()
		}
	}
	s.leave()
}

// keepJournal looks after the journal once a second.
func (s *session) keepJournal(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.tend()
		}
	}
}

// tend brings the journal to the disk, or back to life, keeps it small, and asks
// for a flush when memory gets full.
func (s *session) tend() {
	if s.journal.err() != nil {
		s.repair()
		return
	}
	s.compact()
	if err := s.journal.flushAll(); err != nil {
		s.disk.note(err)
	}
	if s.book.cells.Load() > s.book.maxCells*3/4 && s.stored.reason() == "" {
		s.wake()
	}
}

// repair opens a journal that cannot be written. What it could not take is
// written to the new segment, with all else that is not safe yet.
func (s *session) repair() {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	found, err := s.journal.open()
	if found != nil {
		s.take(found)
	}
	if err == nil {
		err = s.rewrite()
	}
	s.disk.note(err)
}

// take adds what earlier processes have left.
func (s *session) take(found *recovery) {
	log, stats := s.ledger.options.Log, &s.ledger.stats
	s.book.restore(found.rows)
	stats.tornSegments.Add(int64(found.torn))
	if found.torn > 0 {
		log.Warn("quota: the journal was cut off by a crash; all before the cut is used", "segments", found.torn)
	}
	for _, old := range found.segments {
		if !old.corrupt {
			continue
		}
		stats.corruptSegments.Add(1)
		name := segmentName(old.number)
		reason := "quota-journal-corrupt: " + name + " has records that are not what was written; the others are used, and the file is kept as " + name + asideSuffix
		s.damaged.Store(&reason)
		log.Error("quota: a segment of the journal is corrupt", "file", name)
	}
	if len(found.rows) > 0 {
		log.Info("quota: counts of an earlier process were recovered from the journal", "cells", len(found.rows))
	}
}

// rewriteBatch is how many cells are written at once: requests wait for that
// long at most.
const rewriteBatch = 32

// rewrite appends everything that is not safe elsewhere to the current segment.
func (s *session) rewrite() error {
	batch := make([]*cell, 0, rewriteBatch)
	var failed error
	write := func() {
		if len(batch) > 0 && failed == nil {
			failed = s.journal.append(batch, false)
		}
		batch = batch[:0]
	}
	s.book.each(func(c *cell) {
		if c.saved() {
			return
		}
		if batch = append(batch, c); len(batch) == cap(batch) {
			write()
		}
	})
	write()
	return failed
}
