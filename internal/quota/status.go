package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
)

// Names of what counts.
const (
	BackendLocal = "local"
	BackendRedis = "redis"
)

// Backend returns the name of what counts by these settings.
func (s Settings) Backend() string {
	if s.Distributed.Enabled {
		return BackendRedis
	}
	return BackendLocal
}

// Status is how the ledger is.
type Status struct {
	Settings Settings // in force
	// Reason says why the ledger is degraded; empty where it is not.
	Reason string
	// Probe is how the shared counter answered; nil where counting is local.
	Probe *Probe
	// Degradations is how often the shared counter was not there for a request.
	Degradations int64
}

// Probe is the answer of the shared counter to a question asked just now.
type Probe struct {
	Reachable bool
	Status    string // one of the constants below
	Reason    string
}

// What a Probe can say: all is well, the counter answers but requests are not
// sent to it yet, or it does not answer.
const (
	ProbeHealthy  = "healthy"
	ProbeDegraded = "degraded"
	ProbeError    = "error"
)

// Status tells how the ledger is. While it is on and counting is shared, the
// counter is asked; nothing is while it is off.
func (l *Ledger) Status(ctx context.Context) Status {
	l.mu.Lock()
	status := Status{Settings: l.settings.Clone(), Degradations: l.stats.degradations.Load()}
	s := l.session
	l.mu.Unlock()
	if l.on.Load() == nil || s == nil {
		if status.Settings.Distributed.Enabled {
			status.Probe = &Probe{Status: ProbeDegraded, Reason: "quota-ledger-disabled: the store was not asked"}
		}
		return status
	}
	var reasons []string
	if s.shared != nil {
		status.Probe = s.shared.ask(ctx)
		if status.Probe.Reason != "" {
			reasons = append(reasons, status.Probe.Reason)
		}
	}
	reasons = append(reasons, s.disk.reason(), s.stored.reason(), s.book.reason())
	if damaged := s.damaged.Load(); damaged != nil {
		reasons = append(reasons, *damaged)
	}
	status.Reason = joinReasons(reasons)
	return status
}

func joinReasons(reasons []string) string {
	given := reasons[:0]
	for _, reason := range reasons {
		if reason != "" {
			given = append(given, reason)
		}
	}
	return strings.Join(given, "; ")
}

// ask asks the counter whether it is there, for as long as a request would.
func (h *shared) ask(ctx context.Context) *Probe {
	err := errAway
	if counter := h.counter.Load(); counter != nil {
		err = h.call(ctx, nil, func(ctx context.Context) error {
			_, err := (*counter).Mark(ctx, rand.Text())
			return err
		})
		if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			err = errTimeout
		}
	}
	known := h.state.reason()
	switch {
	case err == nil && known == "":
		return &Probe{Reachable: true, Status: ProbeHealthy}
	case err == nil:
		return &Probe{Reachable: true, Status: ProbeDegraded, Reason: known}
	case known == "":
		known = redisUnavailable + ": " + err.Error()
	}
	return &Probe{Status: ProbeError, Reason: known}
}
