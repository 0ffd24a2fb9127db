package quota

import (
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/condition"
)

// counters count what the ledger itself does. They live as long as the process.
type counters struct {
	admitted, refused, unsettled, uncounted      atomic.Int64
	degradations                                 atomic.Int64
	flushes, rowsWritten, rowsExpired            atomic.Int64
	flushNanos, flushedAt                        atomic.Int64
	tornSegments, corruptSegments                atomic.Int64
	journalFailures, storeFailures, redisFailure atomic.Int64 // of sessions that ended
}

// Stats is what the ledger did since the start, for metrics. Numbers only grow
// unless said otherwise.
type Stats struct {
	Enabled bool
	// Admitted requests were counted, refused ones turned away because they
	// could not be; of the unsettled ones no backend said what they cost.
	Admitted, Refused, Unsettled int64
	// Uncounted requests passed although memory had no room to count them in every
	// window.
	Uncounted int64
	// Degradations is how often the shared counter was not there for a request,
	// which was then counted without it, or refused.
	Degradations int64
	// InFlight requests have not settled yet; Keys, Cells and JournalBytes are
	// held now.
	InFlight, Keys, Cells, JournalBytes int64
	// Overflowed is how many requests were counted under Overflow, because there are
	// too many keys, or too many counts that the database did not take yet.
	Overflowed int64
	// Flushes that succeeded, the rows they wrote, how long the last took and
	// when it was.
	Flushes, RowsWritten, RowsExpired int64
	LastFlushDuration                 time.Duration
	LastFlush                         time.Time
	// Failures of the journal, the database and the shared counter, and segments
	// of the journal that were found cut off or corrupt.
	JournalFailures, StoreFailures, CounterFailures int64
	TornSegments, CorruptSegments                   int64
	// Why each is not well now; nil for what is, or is not in use.
	JournalFailure, StoreFailure, CounterFailure *condition.Failure
	// Distributed says that the shared counter is in use.
	Distributed bool
	// CounterPushes is how often the shared counter was called to store totals.
	CounterPushes int64
}

// Stats returns what the ledger did so far. It touches no store.
func (l *Ledger) Stats() Stats {
	c := &l.stats
	stats := Stats{
		Enabled:  l.on.Load() != nil,
		Admitted: c.admitted.Load(), Refused: c.refused.Load(), Unsettled: c.unsettled.Load(), Uncounted: c.uncounted.Load(), Degradations: c.degradations.Load(),
		Flushes: c.flushes.Load(), RowsWritten: c.rowsWritten.Load(), RowsExpired: c.rowsExpired.Load(),
		LastFlushDuration: time.Duration(c.flushNanos.Load()),
		JournalFailures:   c.journalFailures.Load(), StoreFailures: c.storeFailures.Load(), CounterFailures: c.redisFailure.Load(),
		TornSegments: c.tornSegments.Load(), CorruptSegments: c.corruptSegments.Load(),
	}
	if at := c.flushedAt.Load(); at != 0 {
		stats.LastFlush = time.Unix(0, at).UTC()
	}
	s := l.current()
	if s == nil {
		return stats
	}
	stats.InFlight = max(s.inFlight.Load(), 0)
	stats.Keys, stats.Cells, stats.Overflowed = s.book.lines.Load(), s.book.cells.Load(), s.book.overflowed.Load()
	stats.JournalBytes = s.journal.held()
	stats.JournalFailures += s.disk.Failures()
	stats.StoreFailures += s.stored.Failures()
	stats.JournalFailure, stats.StoreFailure = s.disk.Failure(), s.stored.Failure()
	if s.shared != nil {
		stats.Distributed = true
		stats.CounterFailures += s.shared.state.Failures()
		stats.CounterFailure = s.shared.state.Failure()
		stats.CounterPushes = s.shared.pushes.Load()
	}
	return stats
}

// keep adds the failures of a session that ended.
func (c *counters) keep(s *session) {
	c.journalFailures.Add(s.disk.Failures())
	c.storeFailures.Add(s.stored.Failures())
	if s.shared != nil {
		c.redisFailure.Add(s.shared.state.Failures())
	}
}
