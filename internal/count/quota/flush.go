package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// batchTime bounds the writing of one batch of a flush, and readTime one read.
	batchTime = 30 * time.Second
	readTime  = 5 * time.Second
	// flushBatch is how many rows are written in one transaction. Each batch is done
	// with when it is committed: a backlog of any size makes progress.
	flushBatch = 4000
	// retryAfter is the time after which a flush that failed is tried again, if
	// the next one is not due before.
	retryAfter = 3 * time.Second
	// checkEvery is the time between two checks of the database when no flush is due.
	checkEvery = 10 * time.Second
	// compactAt is the size below which the journal is never compacted.
	compactAt = 16 << 20
)

// flushLoop flushes periodically until the context ends, or until the ledger is
// off and nothing is left to write; in that case it also finishes the session.
func (s *session) flushLoop(ctx context.Context) {
	interval := time.Duration(s.settings.FlushIntervalSeconds) * time.Second
	// The first flush comes almost at once: a database that is unavailable should
	// be known early, and recovered totals need not wait for the interval.
	left := rand.N(time.Second / 4) //nolint:gosec // nobody gains by guessing it
	for {
		pause := min(left, checkEvery)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			left -= pause
		case <-s.flushNow:
			timer.Stop()
			left = 0
		}
		if left > 0 {
			if s.check(ctx) != nil {
				left = min(left, jitter(retryAfter))
			}
			continue
		}
		left = interval
		if s.flush(ctx) != nil {
			left = min(interval, jitter(retryAfter))
			continue
		}
		if s.ledger.active.Load() != nil {
			continue
		}
		// Requests in flight settle first; then finish flushes once more.
		if s.shared.idle() && s.ledger.retire(s) {
			if err := s.finish(s.ledger.ending); err != nil {
				s.ledger.options.Log.Warn("quota: closing the ledger", "error", err)
			}
			return
		}
		left = min(interval, jitter(time.Second))
	}
}

// check tests between two flushes whether the database is available.
func (s *session) check(ctx context.Context) error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	store, err := s.openStore(ctx)
	if err == nil {
		err = writeBatch(ctx, store, nil)
	}
	if err != nil {
		s.noteStoreError(ctx, err)
	}
	return err
}

// noteStoreError notes that the database failed. A call that ended because the session
// stops says nothing about the database, and finish will write its rows.
func (s *session) noteStoreError(ctx context.Context, err error) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		s.storeState.setError(err)
	}
	s.closeFailedStore()
	if errors.Is(err, ErrReplaced) {
		s.unsaveAll()
	}
}

// unsaveAll marks all totals in memory as missing from the database, and writes them to
// the journal, which removed its segments when the database had them.
func (s *session) unsaveAll() {
	s.savedMu.Lock()
	defer s.savedMu.Unlock()
	s.cells.each(func(c *cell) { c.stored = Totals{} })
	if _, err := s.rewrite(); err != nil {
		s.journalState.setError(err)
	}
}

// jitter varies a duration by a quarter. Many gateways then do not act at the same
// moment.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2) //nolint:gosec // nobody gains by guessing it
}

// finish writes the unwritten totals, and closes the files and stores that the session
// opened. It writes for readTime at most, and for no more than three quarters of the
// time that the context gives: closing has the rest. Totals that it does not write stay
// in the journal. No request uses the session any more, and flushLoop has ended.
func (s *session) finish(ctx context.Context) error {
	s.stop()
	if err := s.goroutines.wait(ctx); err != nil {
		return err
	}
	limit := readTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)*3/4)
	}
	writing, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := s.flush(writing)
	return errors.Join(err, s.close(ctx))
}

// stop ends the goroutines of the session.
func (s *session) stop() {
	if s.cancel != nil {
		s.cancel()
	}
}

func (s *session) close(ctx context.Context) error {
	err := s.journal.close()
	if s.shared != nil {
		s.shared.close(ctx)
	}
	s.storeLock <- struct{}{}
	defer func() { <-s.storeLock }()
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
		s.store = nil
	}
	return err
}

// snapshots returns the store, and opens it if necessary.
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

// closeFailedStore closes the store after an error. Opening it again creates
// missing tables and resolves the address again.
func (s *session) closeFailedStore() {
	s.storeLock <- struct{}{}
	defer func() { <-s.storeLock }()
	if s.store != nil {
		_ = s.store.Close() // it failed already
		s.store = nil
	}
}

// flush writes all totals that the database does not have, and then removes the
// segments and cells that are not needed any more.
func (s *session) flush(ctx context.Context) error {
	s.flushMu.Lock()
	defer s.flushMu.Unlock()
	began := time.Now()
	if err := s.writeUnsaved(ctx); err != nil {
		s.noteStoreError(ctx, err)
		return err
	}
	s.storeState.setError(nil)
	stats := &s.ledger.stats
	stats.flushes.Add(1)
	stats.flushNanos.Store(int64(time.Since(began)))
	stats.flushedAt.Store(s.now().UnixNano())
	if err := s.enforceBound(ctx); err != nil {
		s.storeState.setError(err)
	}
	s.expire(ctx)
	return nil
}

func (s *session) writeUnsaved(ctx context.Context) error {
	store, err := s.openStore(ctx)
	if err == nil && s.storeState.Failure() != nil {
		// After a failure an empty write tests the database before a large one.
		err = writeBatch(ctx, store, nil)
	}
	if err != nil {
		return err
	}
	f := s.beginFlush()
	if len(f.cells) == 0 {
		err = writeBatch(ctx, store, nil) // tests the database, as there is nothing to write
	}
	if err == nil {
		err = s.write(ctx, store, f)
	}
	s.endFlush(f, err == nil)
	return err
}

// flush is a flush in progress: the cells that it writes, and the first segment
// of the journal that may hold later totals than these cells.
type flush struct {
	cells         []*cell
	boundary      uint64
	cutErr        error // why the journal could not be cut
	journalFailed bool  // it had failed before; then session.repair sets its state
}

func (s *session) beginFlush() *flush {
	s.savedMu.Lock()
	defer s.savedMu.Unlock()
	f := &flush{journalFailed: s.journal.err() != nil}
	// Totals are added in memory before they are appended, so the cells contain
	// everything that the segments before the cut contain.
	f.boundary, f.cutErr = s.journal.cut()
	f.cells = s.unsaved()
	return f
}

// endFlush removes the cells that the database has now and, if it has all of a flush, the segments.
func (s *session) endFlush(f *flush, isWhole bool) {
	s.savedMu.Lock()
	defer s.savedMu.Unlock()
	defer s.prune()
	if !isWhole {
		return
	}
	err := f.cutErr
	if err == nil {
		err = s.journal.dropBefore(f.boundary)
		s.compactedSize = 0
	}
	if !f.journalFailed && (err != nil || s.journal.err() == nil) {
		s.journalState.setError(err)
	}
}

// write writes the cells of a flush, batch by batch.
func (s *session) write(ctx context.Context, store Snapshots, f *flush) error {
	rows := make([]Row, 0, min(len(f.cells), s.flushBatch))
	for batch := range slices.Chunk(f.cells, s.flushBatch) {
		rows = rows[:0]
		for _, c := range batch {
			rows = append(rows, c.row())
		}
		if err := writeBatch(ctx, store, rows); err != nil {
			return err
		}
		s.markSaved(batch, rows)
		s.room -= len(rows)
		s.ledger.stats.rowsWritten.Add(int64(len(rows)))
	}
	return nil
}

func (s *session) openStore(ctx context.Context) (Snapshots, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	return s.snapshots(ctx)
}

func writeBatch(ctx context.Context, store Snapshots, rows []Row) error {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	return store.Write(ctx, rows)
}

// markSaved stores in cells the totals that the database has of them.
func (s *session) markSaved(cells []*cell, rows []Row) {
	s.savedMu.Lock()
	defer s.savedMu.Unlock()
	for i, c := range cells {
		c.stored = rows[i].Totals
	}
}

// unsaved returns the cells with totals that the database does not have, in the order
// of a database's rows. One order for all writers keeps transactions that write the
// same rows from deadlocking.
func (s *session) unsaved() []*cell {
	var cells []*cell
	s.cells.each(func(c *cell) {
		if !c.saved() {
			cells = append(cells, c)
		}
	})
	slices.SortFunc(cells, (*cell).compare)
	return cells
}

// compact rewrites the journal when it has doubled since the last time: unsaved
// totals are written once to a new segment, and older segments are dropped. So
// while the database is unavailable, the size of the journal depends on the number
// of unsaved cells and not on how long the outage lasts.
func (s *session) compact() {
	s.savedMu.Lock()
	defer s.savedMu.Unlock()
	if s.journal.totalSize() < max(s.compactAt, 2*s.compactedSize) {
		return
	}
	boundary, err := s.journal.cut()
	if err == nil {
		_, err = s.rewrite()
	}
	if err == nil {
		err = s.journal.syncAll()
	}
	if err == nil {
		err = s.journal.dropBefore(boundary)
	}
	if err != nil {
		s.journalState.setError(err)
		return
	}
	s.compactedSize = s.journal.totalSize()
}

// prune removes the cells with saved totals that will not change any more, because
// their windows are over or their writers are earlier processes. Runs are over when the bound does not
// keep them; if there are too many, their totals need not be saved.
func (s *session) prune() {
	now, bound, isFull := s.now().Unix(), s.ledger.options.Bound, s.cells.isFull()
	s.cells.prune(func(c *cell) bool {
		if (c.owner.recovered || !isFull) && !c.saved() || s.shared.needs(c, now) {
			return false
		}
		if bound != nil && !c.owner.recovered {
			return !bound.Keeps(&c.owner.key, time.Unix(c.start, 0))
		}
		return c.owner.recovered || c.window.endOf(c.start) <= now
	})
}

func (s *session) now() time.Time { return s.ledger.options.Now() }
