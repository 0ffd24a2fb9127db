package quota

import (
	"context"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// The kinds of counters.
const (
	CounterLocal = "local"
	CounterRedis = "redis"
)

// CounterKind returns the kind of counter that these settings choose.
func (s Settings) CounterKind() string {
	if s.Distributed.Enabled {
		return CounterRedis
	}
	return CounterLocal
}

// Status is the condition of the ledger.
type Status struct {
	Settings Settings // in force
	// Reason is why the ledger is degraded, or empty, and Said the same as sentences.
	Reason string
	Said   []say.Sentence
	// Probe is the result of probing the shared counter; nil where counting is local.
	Probe *Probe
	// Degradations is how many requests found the shared counter unavailable, and how often
	// Status found the ledger degraded when none had. So it is never 0 where there is a Reason.
	Degradations int64
}

// Probe is the result of probing the shared counter.
type Probe struct {
	Reachable bool
	Status    string // one of the constants below
	Reason    say.Sentence
}

// The statuses of a Probe: the counter is in use, it was not asked, or it does not answer.
const (
	ProbeHealthy  = "healthy"
	ProbeDegraded = "degraded"
	ProbeError    = "error"
)

// Status returns the condition of the ledger. It probes the shared counter if the
// ledger is on and uses one.
func (l *Ledger) Status(ctx context.Context) Status {
	l.mu.Lock()
	status := Status{Settings: l.settings.Clone(), Degradations: l.stats.degradations.Load()}
	s := l.session
	l.mu.Unlock()
	if l.active.Load() == nil || s == nil {
		if status.Settings.Distributed.Enabled {
			status.Probe = &Probe{Status: ProbeDegraded, Reason: say.New("quota.off")}
		}
		return status
	}
	var reasons []say.Sentence
	if s.shared != nil {
		status.Probe = s.shared.probeNow(ctx)
		reasons = append(reasons, status.Probe.Reason)
	}
	reasons = append(reasons, s.journalState.reason(), s.storeState.reason(), s.cells.reason())
	if damaged := s.corruptReason.Load(); damaged != nil {
		reasons = append(reasons, *damaged)
	}
	status.Reason, status.Said = say.Join(say.All(reasons...)), say.All(reasons...)
	status.Degradations = l.countOutage(status.Reason != "")
	return status
}

// countOutage counts an outage that no request has met since the ledger was last found well,
// and returns the count of degradations.
func (l *Ledger) countOutage(isDegraded bool) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := &l.stats.degradations
	if !isDegraded {
		l.whenWell = count.Load()
	} else if count.Load() == l.whenWell {
		count.Add(1)
	}
	return count.Load()
}

// probeNow asks the counter and waits as long as a request would.
func (h *shared) probeNow(ctx context.Context) *Probe {
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	defer context.AfterFunc(h.ending, cancel)()
	err := h.ask(ctx)
	if err == nil {
		return &Probe{Reachable: true, Status: ProbeHealthy}
	}
	reason := h.reason()
	if !reason.Is() {
		reason = say.New("quota.redis", "why", err.Error())
	}
	return &Probe{Status: ProbeError, Reason: reason}
}
