package quota

import (
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

// counters count the operations of the ledger since the process started.
type counters struct {
	admitted, refused, unsettled, uncounted atomic.Int64
	degradations                            atomic.Int64
	flushes, rowsWritten, rowsExpired       atomic.Int64
	flushNanos, flushedAt                   atomic.Int64
	tornSegments, corruptSegments           atomic.Int64
}

// Stats are the counts of the ledger's operations since the start, for metrics.
// Numbers only grow unless said otherwise.
type Stats struct {
	Enabled bool
	// Admitted requests were counted. Refused requests could not be counted and
	// were rejected. Of unsettled requests no backend reported the tokens.
	Admitted, Refused, Unsettled int64
	// Uncounted requests passed although there was no room for a cell in every
	// window.
	Uncounted int64
	// Degradations is how often the shared counter was unavailable for a request,
	// which was then counted locally or refused, and how often Status found the ledger
	// degraded when no request had met that.
	Degradations int64
	// InFlight, Keys, Cells and JournalBytes are current values; requests in flight
	// have not settled yet.
	InFlight, Keys, Cells, JournalBytes int64
	// Overflowed is how many requests were counted under Overflow, because there are
	// too many keys, or too many counts that the database did not take yet.
	Overflowed int64
	// Flushes counts the successful ones, RowsWritten the rows they wrote, and
	// RowsExpired the rows removed by retention.
	Flushes, RowsWritten, RowsExpired int64
	LastFlushDuration                 time.Duration
	LastFlush                         time.Time
	// The failures of the journal, the database and the shared counter, and the
	// segments of the journal that were found torn or corrupt.
	JournalFailures, StoreFailures, CounterFailures int64
	TornSegments, CorruptSegments                   int64
	// The current failure of each, or nil.
	JournalFailure, StoreFailure, CounterFailure *condition.Failure
	// Distributed means that the shared counter is in use.
	Distributed bool
	// CounterPushes is how often the shared counter was called to store totals, and
	// RefusedTotals counts totals in it that were not believed.
	CounterPushes, RefusedTotals int64
}

// Stats returns the current counts. It calls no store.
func (l *Ledger) Stats() Stats {
	c := &l.stats
	stats := Stats{
		Enabled:  l.active.Load() != nil,
		Admitted: c.admitted.Load(), Refused: c.refused.Load(), Unsettled: c.unsettled.Load(),
		Uncounted: c.uncounted.Load(), Degradations: c.degradations.Load(),
		Flushes: c.flushes.Load(), RowsWritten: c.rowsWritten.Load(), RowsExpired: c.rowsExpired.Load(),
		LastFlushDuration: time.Duration(c.flushNanos.Load()),
		JournalFailures:   l.journalState.Failures(), StoreFailures: l.storeState.Failures(),
		TornSegments: c.tornSegments.Load(), CorruptSegments: c.corruptSegments.Load(),
	}
	if at := c.flushedAt.Load(); at != 0 {
		stats.LastFlush = time.Unix(0, at).UTC()
	}
	s := l.currentSession()
	if s == nil {
		return stats
	}
	stats.InFlight = max(s.inFlight.Load(), 0)
	stats.Keys, stats.Cells, stats.Overflowed = s.cells.keys.Load(), s.cells.cells.Load(), s.cells.overflowed.Load()
	stats.JournalBytes = s.journal.totalSize()
	stats.JournalFailure, stats.StoreFailure = s.journalState.Failure(), s.storeState.Failure()
	if s.shared != nil {
		stats.Distributed = true
		store := s.shared.store.Stats()
		stats.CounterFailures, stats.CounterFailure = store.Failures, store.Failure
		stats.CounterPushes = s.shared.pushes.Load()
	}
	return stats
}
