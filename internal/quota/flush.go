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
	// flushBatch is how many rows are written in one transaction. Each batch is
	// safe when it is committed, so that a backlog of any size passes in pieces.
	flushBatch = 4000
	// retryAfter is the time after which a flush that failed is tried again, if
	// the next one is not due before.
	retryAfter = 3 * time.Second
	// checkEvery is the longest time for which the database is not asked whether it
	// is there.
	checkEvery = 10 * time.Second
	// compactAt is the size below which the journal is never written anew.
	compactAt = 16 << 20
)

// keepStore writes snapshots until the context ends, or until the session is not
// needed any more; in that case it also finishes the session.
func (s *session) keepStore(ctx context.Context) {
	interval := time.Duration(s.settings.FlushIntervalSeconds) * time.Second
	// At once, or nearly: whether the database is there should be known early,
	// and what was recovered need not wait.
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
		case <-s.kick:
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
		if s.ledger.on.Load() != nil {
			continue
		}
		// Who is still in flight settles first; then one more flush.
		if s.shared.idle() && s.ledger.retire(s) {
			if err := s.finish(s.ledger.ending); err != nil {
				s.ledger.options.Log.Warn("quota: closing the ledger", "error", err)
			}
			return
		}
		left = min(interval, jitter(time.Second))
	}
}

// check asks the database whether it is there, between two flushes.
func (s *session) check(ctx context.Context) error {
	s.storing.Lock()
	defer s.storing.Unlock()
	store, err := s.openStore(ctx)
	if err == nil {
		err = writeBatch(ctx, store, nil)
	}
	if err != nil {
		s.stored.note(err)
		s.forget()
	}
	return err
}

// jitter spreads what many gateways do at the same time.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2) //nolint:gosec // nobody gains by guessing it
}

// finish writes what is still unwritten, and closes what the session opened. It
// writes for readTime at most, and for no more than three quarters of the time that
// the context gives, so that closing has the rest. What it does not write stays in
// the journal. Nothing counts in the session any more, and keepStore has ended.
func (s *session) finish(ctx context.Context) error {
	s.stop()
	if err := s.keepers.wait(ctx); err != nil {
		return err
	}
	limit := readTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)*3/4)
	}
	writing, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := s.flush(writing)
	s.ledger.stats.keep(s)
	return errors.Join(err, s.close(ctx))
}

// stop ends what runs beside the requests.
func (s *session) stop() {
	if s.cancel != nil {
		s.cancel()
	}
}

func (s *session) close(ctx context.Context) error {
	err := s.journal.close()
	if s.shared != nil {
		err = errors.Join(err, s.shared.close(ctx))
	}
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
func (s *session) flush(ctx context.Context) error {
	s.storing.Lock()
	defer s.storing.Unlock()
	began := time.Now()
	if err := s.writeUnsaved(ctx); err != nil {
		s.stored.note(err)
		s.forget()
		return err
	}
	s.stored.note(nil)
	stats := &s.ledger.stats
	stats.flushes.Add(1)
	stats.flushNanos.Store(int64(time.Since(began)))
	stats.flushedAt.Store(s.now().UnixNano())
	s.expire(ctx)
	return nil
}

func (s *session) writeUnsaved(ctx context.Context) error {
	store, err := s.openStore(ctx)
	if err == nil && s.stored.reason() != "" {
		// Whether the database is back is asked first: there may be a lot to write.
		err = writeBatch(ctx, store, nil)
	}
	for err == nil {
		f := s.beginFlush()
		if len(f.cells) == 0 && !f.resumed {
			err = writeBatch(ctx, store, nil) // the same, where there is nothing to write
		}
		if err == nil {
			err = s.write(ctx, store, f)
		}
		if err != nil {
			s.stopFlush(f)
			break
		}
		s.endFlush(f)
		if !f.resumed {
			break
		}
	}
	return err
}

// flush is one on its way: the cells that it writes, and the first segment of the
// journal that may hold more than they.
type flush struct {
	cells    []*cell
	boundary uint64
	// resumed says that the boundary is that of an earlier flush, which failed.
	// While the database is away every try would otherwise leave a segment behind.
	resumed bool
	saved   int   // how many of the cells are written
	uncut   error // why the journal could not be cut
	failed  bool  // it had failed before; who repairs it says so
}

func (s *session) beginFlush() *flush {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	f := &flush{failed: s.journal.err() != nil, boundary: s.resume, resumed: s.resume != 0}
	// What the segments before the cut hold, memory holds too: totals are added
	// before they are appended.
	if !f.resumed {
		f.boundary, f.uncut = s.journal.cut()
	}
	f.cells = s.unsaved()
	return f
}

// stopFlush is the end of a flush that failed. What was written until then is
// safe, and need not be held any longer.
func (s *session) stopFlush(f *flush) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.resume = f.boundary // 0 if the journal could not be cut
	if f.saved > 0 {
		s.prune()
	}
}

// endFlush lets go of what the database has now.
func (s *session) endFlush(f *flush) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.resume = 0
	err := f.uncut
	if err == nil {
		err = s.journal.drop(f.boundary)
		s.compacted = 0
	}
	if !f.failed && (err != nil || s.journal.err() == nil) {
		s.disk.note(err)
	}
	s.prune()
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
		f.saved += len(rows)
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

// markSaved notes in cells what the database has of them.
func (s *session) markSaved(cells []*cell, rows []Row) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	for i, c := range cells {
		c.savedRequests, c.savedTokens = rows[i].Requests, rows[i].Tokens
	}
}

// unsaved returns the cells whose totals the database does not have, in the order
// in which a database stores them: transactions that write the same rows must not
// wait for each other.
func (s *session) unsaved() []*cell {
	var cells []*cell
	s.book.each(func(c *cell) {
		if !c.saved() {
			cells = append(cells, c)
		}
	})
	slices.SortFunc(cells, (*cell).compare)
	return cells
}

// compact writes the journal anew when it has doubled since that was done last:
// what is not safe is written once, and what was written before is dropped. So a
// long absence of the database costs a multiple of what is counted meanwhile, and
// not one of the time that it lasts.
func (s *session) compact() {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	if s.journal.held() < max(s.compactAt, 2*s.compacted) {
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
		return
	}
	s.compacted = s.journal.held()
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
