package tally

import (
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

// Request makes the goroutine of the pool exchange for a holder.
func (p *Pool) Request(h Holder) {
	p.mu.Lock()
	p.pending = append(p.pending, h)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Note makes the next beat report a holder.
func (p *Pool) Note(h Holder) {
	p.mu.Lock()
	p.busy[h] = struct{}{}
	delete(p.resting, h)
	p.mu.Unlock()
}

// Rest makes the next beats leave out a holder that has nothing to report until a time
// unless the store loses its data.
func (p *Pool) Rest(h Holder, until time.Time) {
	const sweepEvery = time.Minute
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, h)
	p.resting[h] = until
	now := time.Now()
	if now.Sub(p.swept) < sweepEvery {
		return
	}
	p.swept = now
	for one, until := range p.resting {
		if !now.Before(until) {
			delete(p.resting, one)
		}
	}
}

// rouse makes resting holders report at once.
func (p *Pool) rouse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for h := range p.resting {
		p.pending = append(p.pending, h)
	}
	clear(p.resting)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Forget makes the next beats leave out a holder.
func (p *Pool) Forget(h Holder) {
	p.mu.Lock()
	delete(p.busy, h)
	p.mu.Unlock()
}

// Timeout returns how long a request waits for the store at most.
func (p *Pool) Timeout() time.Duration { return p.options.Timeout }

// IsAway reports whether the store does not answer, and Outage how often that has begun.
func (p *Pool) IsAway() bool { return p.away.Load() }

// Outage returns the number of the present outage, or of the last one.
func (p *Pool) Outage() int64 { return p.outage.Load() }

// IsHeard reports whether the store has answered once.
func (p *Pool) IsHeard() bool { return p.isHeard.Load() }

// Err returns why the store does not answer; nil means that it does.
func (p *Pool) Err() error {
	if err := p.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// IsSettled reports whether the store has been there long enough for all gateways to
// tell their totals again.
func (p *Pool) IsSettled() bool {
	return !p.away.Load() && p.options.Now().UnixNano() >= p.settled.Load()
}

// CountDivided counts a request that was decided by the share of this gateway.
func (p *Pool) CountDivided() { p.divided.Add(1) }

// Changes returns a text that changes when the store has lost its data, or when a
// gateway has told news. It comes from the last exchange, and is empty if that failed.
func (p *Pool) Changes() string {
	changes := p.changes.Load()
	if changes == nil || p.away.Load() {
		return ""
	}
	return *changes
}

// Life returns a text that changes when the store may have lost totals, because it was away
// or has lost its data. It is empty while the store does not answer.
func (p *Pool) Life() string {
	epoch, _, _ := strings.Cut(p.Changes(), " ")
	if epoch == "" {
		return ""
	}
	return epoch + " " + strconv.FormatInt(p.Outage(), 10)
}

// Members returns among how many gateways a limit is divided.
func (p *Pool) Members() int {
	known := int(p.members.Load())
	if p.options.Members != nil {
		known = max(known, p.options.Members())
	}
	return max(1, known)
}

// SilentFrom returns from when on the others count this gateway as cut off.
func (p *Pool) SilentFrom() time.Time {
	sent := p.sent.Load()
	if sent == nil {
		return time.Time{}
	}
	return sent.Add(max(ShareDelay, SilentAfter+p.options.Timeout))
}

// Stats are counts of a Pool.
type Stats struct {
	// Limits is how many limits are shared; the rest means nothing if none is.
	Limits int64
	// Gateways is how many take part.
	Gateways int
	// Exchanges counts the round trips to the store, and Divided the requests that were
	// decided without it, by this gateway's share.
	Exchanges, Divided int64
	// Failure is why the store cannot be used; nil means that it can.
	Failure  *condition.Failure
	Failures int64
}

// Stats returns the counts.
func (p *Pool) Stats() Stats {
	return Stats{
		Limits: p.joined.Load(), Gateways: p.Members(), Exchanges: p.exchanges.Load(), Divided: p.divided.Load(),
		Failure: p.state.Failure(), Failures: p.state.Failures(),
	}
}
