package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	records "github.com/patchbay-ai/patchbay/internal/store/journal"
)

// session is the state of the ledger from being turned on until it is off and all
// totals are written. Each session is one writer.
type session struct {
	ledger   *Ledger
	settings Settings // only the settings that need a restart are used
	cells    *cellMap
	journal  *journal
	shared   *shared // nil unless counting is distributed

	// inFlight is the number of requests that will still settle, or ended when the
	// session admits no more.
	inFlight atomic.Int64

	journalState, storeState *component
	corruptReason            atomic.Pointer[say.Sentence]

	// flushMu is held during a whole flush, which may wait for the database. savedMu
	// guards which totals are saved and the maintenance of the journal, which must
	// not wait for the database.
	flushMu, savedMu sync.Mutex
	// compactedSize is the size of the journal after the last compaction; savedMu guards it.
	compactedSize int64

	// The constants of the same names; tests set smaller values.
	compactAt                       int64
	flushBatch, maxOpen, maxHistory int

	expiry expirySchedule
	// room is how many rows can be written before the bound must be enforced. flushMu guards it.
	room int

	// storeLock guards store. It is a channel, because waiting for it ends with a
	// context.
	storeLock chan struct{}
	store     Snapshots

	// usageMu is held while usage is collected; see session.usage.
	usageMu sync.Mutex

	cancel     context.CancelFunc
	flushNow   chan struct{}
	goroutines group // the goroutines of the session except flushLoop
}

// ended is the value of inFlight that makes enter fail: however many requests try at
// once, the sum stays negative.
const ended = -1 << 40

func (l *Ledger) newSession(settings *Settings) *session {
	o := &l.options
	s := &session{
		ledger: l, settings: settings.Clone(),
		cells:        newCellMap(rand.Text()[:13]),
		journal:      newJournal(o.disk, settings.JournalSync),
		journalState: &l.journalState, storeState: &l.storeState,
		flushNow:  make(chan struct{}, 1),
		storeLock: make(chan struct{}, 1),
		compactAt: compactAt, flushBatch: flushBatch, maxOpen: maxOpen, maxHistory: maxHistory,
	}
	if o.Bound != nil {
		s.cells.isBounded, s.cells.maxKeys, s.room = true, int64(2*o.Bound.InAll), -1
	}
	if s.settings.Distributed.Enabled && o.Shared != nil {
		s.shared = newShared(s, o.Shared)
	}
	return s
}

// begin opens the journal and the shared counter and starts the goroutines.
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
	log := s.ledger.options.Log
	s.goroutines.start(func() { logs.Persist(ctx, log, "writing the journal", s.journalLoop) })
	if s.shared != nil {
		s.goroutines.start(func() { logs.Persist(ctx, log, "telling what was counted", s.shared.pushLoop) })
	}
	s.ledger.flushLoops.start(func() { logs.Persist(ctx, log, "writing to the database", s.flushLoop) })
}

// enter adds a request that will settle, unless the session has ended.
func (s *session) enter() bool {
	if s.inFlight.Add(1) > 0 {
		return true
	}
	s.inFlight.Add(-1)
	return false
}

func (s *session) leave() { s.inFlight.Add(-1) }

// endIfIdle ends the session if no request is in flight.
func (s *session) endIfIdle() bool { return s.inFlight.CompareAndSwap(0, ended) }

// requestFlush makes flushLoop flush now.
func (s *session) requestFlush() {
	select {
	case s.flushNow <- struct{}{}:
	default:
	}
}

func (r *activeSession) admit(ticket *Ticket, who *Subject, second int64) error {
	s := r.session
	if !s.enter() {
		return nil // the ledger was turned off meanwhile
	}
	all := s.cells.acquire(who, &r.windows, second, &ticket.cells)
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

// count counts a request in its cells. It returns false if the request must be
// refused; then nothing was counted.
func (s *session) count(cells []*cell, failOpen bool) bool {
	// Where a failure of the shared counter refuses the request, the counter is
	// asked first, because a count cannot be reverted.
	mayRefuse := s.shared != nil && !failOpen && !s.settings.Distributed.DegradeToLocal
	if mayRefuse && s.shared.confirm() != nil {
		s.ledger.stats.degradations.Add(1)
		return false
	}
	if err := s.journal.append(cells, true); err != nil {
		s.journalState.setError(err)
		if !failOpen {
			return false
		}
		for _, c := range cells {
			if c != nil {
				c.counts.requests.Add(1)
			}
		}
	}
	if s.shared != nil {
		s.shared.note()
		s.shared.enqueue(cells)
	}
	return true
}

// settle adds the tokens and the cost of a request that was counted.
func (s *session) settle(cells []*cell, usage schema.Usage, cost int64) {
	if !usage.Known {
		s.ledger.stats.unsettled.Add(1)
		usage = schema.Usage{}
	}
	if usage.Total > 0 || cost > 0 {
		more := Totals{Tokens: usage.Total, Prompt: usage.Prompt, Completion: usage.Completion, Cost: cost}
		for _, c := range cells {
			if c != nil {
				c.counts.add(more)
			}
		}
		if err := s.journal.append(cells, false); err != nil && !errors.Is(err, records.ErrClosed) {
			s.journalState.setError(err)
		}
		if s.shared != nil {
			s.shared.enqueue(cells)
		}
	}
	s.release(cells)
}

// release drops the references of a request to its cells and to the session.
func (s *session) release(cells []*cell) {
	for _, c := range cells {
		if c != nil {
			c.release()
		}
	}
	s.leave()
}

// journalLoop maintains the journal once a second.
func (s *session) journalLoop(ctx context.Context) {
	waiting.Every(ctx, time.Second, func(time.Time) { s.maintainJournal() })
}

// maintainJournal checks, repairs, compacts and syncs the journal, and requests a
// flush when there are many cells.
func (s *session) maintainJournal() {
	if err := errors.Join(s.journal.err(), s.journal.verify()); err != nil {
		if s.journalState.Failure() == nil {
			s.journalState.setError(err) // repair may succeed, and the failure is to be known
		}
		s.repair()
		return
	}
	s.compact()
	if err := s.journal.syncAll(); err != nil {
		s.journalState.setError(err)
	}
	switch isFull := s.cells.isFull(); {
	case (isFull || s.cells.cells.Load() > s.cells.maxCells*3/4) && s.storeState.Failure() == nil:
		s.requestFlush()
	case isFull:
		s.savedMu.Lock()
		defer s.savedMu.Unlock()
		s.prune()
	}
}

// repair opens a journal that cannot be written or is damaged, and writes all unsaved
// totals to its new segment, because older segments may lack some of them.
func (s *session) repair() {
	s.savedMu.Lock()
	defer s.savedMu.Unlock()
	found, err := s.journal.open()
	if found != nil {
		s.addRecovered(found)
	}
	if err == nil {
		err = s.rewriteOrDiscard()
	}
	s.journalState.setError(err)
}

// rewriteOrDiscard appends all unsaved totals to the segment that was just begun. If
// that fails, and no request was counted in the segment meanwhile, it removes it: older
// segments have every total that was ever reported as written.
func (s *session) rewriteOrDiscard() error {
	before := s.journal.appends()
	own, err := s.rewrite()
	if err != nil && s.journal.appends() == before+own {
		err = errors.Join(err, s.journal.discard())
	}
	return err
}

// addRecovered adds the totals of earlier processes and reports damaged segments.
func (s *session) addRecovered(found *recovery) {
	log, stats := s.ledger.options.Log, &s.ledger.stats
	s.cells.restore(found.rows)
	for _, old := range found.segments {
		name := segmentName(old.number)
		if old.damage.IsTorn() {
			stats.tornSegments.Add(1)
			log.Warn("quota: the journal was cut off by a crash; all before the cut is used",
				"file", name, "bytes", old.damage.Cut)
		}
		if !old.damage.IsCorrupt {
			continue
		}
		stats.corruptSegments.Add(1)
		reason := say.New("quota.journal_corrupt", "file", name, "kept", name+corruptSuffix)
		s.corruptReason.Store(&reason)
		log.Error("quota: a segment of the journal is corrupt", "file", name)
	}
	if len(found.rows) > 0 {
		log.Info("quota: counts of an earlier process were recovered from the journal", "cells", len(found.rows))
	}
}

// rewriteBatch is how many cells are written at once; requests wait meanwhile.
const rewriteBatch = 32

// rewrite appends all unsaved totals to the current segment, and returns how many
// appends that took.
func (s *session) rewrite() (appends uint64, err error) {
	batch := make([]*cell, 0, rewriteBatch)
	write := func() {
		if len(batch) > 0 && err == nil {
			if err = s.journal.append(batch, false); err == nil {
				appends++
			}
		}
		batch = batch[:0]
	}
	s.cells.each(func(c *cell) {
		if c.saved() {
			return
		}
		if batch = append(batch, c); len(batch) == cap(batch) {
			write()
		}
	})
	write()
	return appends, err
}
