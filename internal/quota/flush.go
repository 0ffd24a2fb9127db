package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// flushTime bounds one flush, and readTime one read.
	flushTime = 30 * time.Second
	readTime  = 5 * time.Second
	// retryAfter is the time after which a flush that failed is tried again, if
	// the next one is not due before.
	retryAfter = 3 * time.Second
	// compactAt is the size of the journal, or the number of its segments, at
	// which it is written anew while the database is away.
	compactAt       = 16 << 20
	compactSegments = 32
	// maxJournal is the size at which that is done also between two flushes.
	maxJournal = 64 << 20
)

// keepStore writes snapshots until the session is not needed any more.
func (s *session) keepStore(ctx context.Context) {
	defer s.finish() //nolint:contextcheck // the context is over, and the last flush is still to do
	interval := time.Duration(s.settings.FlushIntervalSeconds) * time.Second
	// At once, or nearly: whether the database is there should be known early,
	// and what was recovered need not wait.
	next := rand.N(time.Second / 4) //nolint:gosec // nobody gains by guessing it
	for {
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.kick:
			timer.Stop()
		}
		next = interval
		if s.flush(ctx) != nil {
			next = min(interval, jitter(retryAfter))
			continue
		}
		if s.ledger.on.Load() != nil {
			continue
		}
		// Who is still in flight settles first; then one more flush.
		if s.shared.idle() && s.ledger.retire(s) {
			return
		}
		next = min(interval, jitter(time.Second))
	}
}

// jitter spreads what many gateways do at the same time.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2) //nolint:gosec // nobody gains by guessing it
}

// finish closes what the session opened. Nobody is left in it.
func (s *session) finish() {
	s.cancel()
	s.wait.Wait()
	if err := s.flushWithin(context.Background(), readTime); err != nil {
		s.stored.note(err)
	}
	s.ledger.stats.keep(s)
	if err := s.close(); err != nil {
		s.ledger.options.Log.Warn("quota: closing the ledger", "error", err)
	}
}

// end is the end of the session at the end of the program.
func (s *session) end(ctx context.Context) error {
	if s.cancel != nil {
		s.cancel()
		s.ledger.done.Wait()
		return nil
	}
	return errors.Join(s.flush(ctx), s.close()) //nolint:contextcheck // closing has a time of its own
}

func (s *session) close() error {
	if s.shared != nil {
		s.shared.close()
	}
	err := s.journal.close()
	s.storeLock <- struct{}{}
	defer func() { <-s.storeLock }()
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
		s.store = nil
	}
	return err
}

// snapshots returns the store, opened if need be.
func (s *session) snapshots(ctx context.Context) (Snapshots, error) {
	select {
	case s.storeLock <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.storeLock }()
	if s.store == nil {
		opened, err := s.ledger.options.OpenSnapshots(ctx)
		if err != nil {
			return nil, err
		}
		s.store = opened
	}
	return s.store, nil
}

// forget lets go of a store that failed: who opens it anew makes the tables that
// are missing, and looks up the address again.
func (s *session) forget() {
	s.storeLock <- struct{}{}
	defer func() { <-s.storeLock }()
	if s.store != nil {
		_ = s.store.Close() // it failed already
		s.store = nil
	}
}

// flush writes all that the database does not have, and then lets go of the
// segments and cells that are not needed any more.
func (s *session) flush(ctx context.Context) error { return s.flushWithin(ctx, flushTime) }

func (s *session) flushWithin(ctx context.Context, longest time.Duration) error {
	s.storing.Lock()
	defer s.storing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	began := time.Now()
	f := s.beginFlush()
	if err := s.write(ctx, f.rows); err != nil {
		s.stored.note(err)
		s.forget()
		s.flushing.Lock()
		defer s.flushing.Unlock()
		s.compact()
		return err
	}
	s.stored.note(nil)
	stats := &s.ledger.stats
	stats.flushes.Add(1)
	stats.rowsWritten.Add(int64(len(f.rows)))
	stats.flushNanos.Store(int64(time.Since(began)))
	stats.flushedAt.Store(s.now().UnixNano())
	s.endFlush(f)
	s.expire(ctx)
	return nil
}

// flush is one on its way: what it writes, and the first segment of the journal
// that may hold more than that.
type flush struct {
	rows     []Row
	cells    []*cell
	boundary uint64
	uncut    error // why the journal could not be cut
	failed   bool  // it had failed before; who repairs it says so
}

func (s *session) beginFlush() *flush {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	f := &flush{failed: s.journal.err() != nil}
	// What the segments before the cut hold, memory holds too: totals are added
	// before they are appended.
	f.boundary, f.uncut = s.journal.cut()
	f.rows, f.cells = s.unsaved()
	return f
}

// endFlush lets go of what the database has now.
func (s *session) endFlush(f *flush) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	for i, c := range f.cells {
		c.savedRequests, c.savedTokens = f.rows[i].Requests, f.rows[i].Tokens
	}
	err := f.uncut
	if err == nil {
		err = s.journal.drop(f.boundary)
	}
	if !f.failed && (err != nil || s.journal.err() == nil) {
		s.disk.note(err)
	}
	s.prune()
}

func (s *session) write(ctx context.Context, rows []Row) error {
	store, err := s.snapshots(ctx)
	if err != nil {
		return err
	}
	if len(rows) == 0 && s.stored.reason() == "" {
		return nil
	}
	return store.Write(ctx, rows)
}

// unsaved returns the totals that the database does not have, in order, and the
// cells that they are of.
func (s *session) unsaved() ([]Row, []*cell) {
	type pair struct {
		row Row
		of  *cell
	}
	var pairs []pair
	s.book.each(func(c *cell) {
		if !c.saved() {
			pairs = append(pairs, pair{c.row(), c})
		}
	})
	slices.SortFunc(pairs, func(a, b pair) int { return a.row.compare(&b.row) })
	rows, cells := make([]Row, len(pairs)), make([]*cell, len(pairs))
	for i := range pairs {
		rows[i], cells[i] = pairs[i].row, pairs[i].of
	}
	return rows, cells
}

// compact keeps the journal small while the database is away: what is not safe
// is written once, and what was written before is dropped.
func (s *session) compact() {
	size, segments := s.journal.held()
	if size < compactAt && segments < compactSegments {
		return
	}
	boundary, err := s.journal.cut()
	if err == nil {
		err = s.rewrite()
	}
	if err == nil {
		err = s.journal.flushAll()
	}
	if err == nil {
		err = s.journal.drop(boundary)
	}
	if err != nil {
		s.disk.note(err)
	}
}

// prune lets go of the cells whose totals are safe and which nobody will count
// in again: their windows are over, or their writers.
func (s *session) prune() {
	now := s.now().Unix()
	s.book.prune(func(c *cell) bool {
		if !c.saved() || s.shared.needs(c, now) {
			return false
		}
		return c.line.retired || c.window.endOf(c.start) <= now
	})
}

func (s *session) now() time.Time { return s.ledger.options.Now() }
