package ratelimit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/condition"
)

// Pool is this gateway's side of the limits that gateways share. It takes permits from
// the central store in batches, before requests need them, and keeps the store informed
// about those that are left. One goroutine does this, so that requests wait for the
// store only if they find no permit here and the store may have one.
//
// While the store does not answer, each limit is divided: this gateway takes the share
// that one of the known gateways is due.
type Pool struct {
	options PoolOptions

	mu      sync.Mutex
	busy    map[*Lease]struct{} // have something that the central store must hear of
	pending []*Lease            // ask at once
	wake    chan struct{}

	// central is used by the goroutine that exchanges, one at a time.
	exchanging sync.Mutex
	central    Central

	// away says that the central store does not answer. It and outage, which counts how
	// often that began, are changed with mu.
	away   atomic.Bool
	outage atomic.Int64
	// sent is when the last exchange was sent. The central store may have heard it even if
	// it did not answer.
	sent    atomic.Pointer[time.Time]
	isHeard atomic.Bool // it has answered once
	members atomic.Int64
	state   condition.Condition

	joined    atomic.Int64 // limits that are shared
	exchanges atomic.Int64
	divided   atomic.Int64 // requests that were decided by this gateway's share
}

// PoolOptions are what a Pool needs.
type PoolOptions struct {
	// Open connects to the central store, which connects again by itself later.
	Open func(ctx context.Context) (Central, error)
	// Timeout bounds how long a request waits for the central store.
	Timeout time.Duration
	// Members, if it is set, tells how many gateways are known in another way.
	Members func() int
	Log     *slog.Logger
}

const (
	// beatEvery is how often the central store hears of this gateway.
	beatEvery = 250 * time.Millisecond
	// leaseValid is how long permits may be spent here. It is shorter than LeaseTime,
	// because clocks differ.
	leaseValid = LeaseTime * 4 / 5
	// shareDelay is the time after the last exchange was sent from which this gateway's
	// share grows: the others count it as cut off by then.
	shareDelay = SilentAfter + beatEvery
	// openTime bounds connecting, and probeTime how long a probe waits for the answer.
	openTime  = time.Second
	probeTime = time.Second / 2
)

// NewPool returns a pool that does nothing before a limit is shared.
func NewPool(options PoolOptions) *Pool {
	return &Pool{options: options, busy: map[*Lease]struct{}{}, wake: make(chan struct{}, 1)}
}

// Run exchanges permits until the context ends, and gives back what is left then.
func (p *Pool) Run(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		isBeat := false
		select {
		case <-ctx.Done():
			p.leave()
			return
		case <-p.wake:
		case <-tick.C:
			isBeat = true
		}
		if p.joined.Load() > 0 {
			p.round(ctx, isBeat)
		} else if isBeat {
			p.leave() // no limit is shared any more
		}
	}
}

// Begin makes the first contact, if a limit is shared, so that the first requests need
// not wait for it.
func (p *Pool) Begin(ctx context.Context) {
	if p.joined.Load() > 0 {
		p.round(ctx, true)
	}
}

// round makes one exchange: of the limits that need permits now or, with a beat, of
// all that have something to report.
func (p *Pool) round(ctx context.Context, isBeat bool) {
	p.exchanging.Lock()
	defer p.exchanging.Unlock()
	err := p.connect(ctx)
	if err == nil && p.away.Load() {
		if !isBeat {
			return // it is probed with the beats
		}
		probe, cancel := context.WithTimeout(ctx, max(p.options.Timeout, probeTime))
		err = p.central.Ping(probe)
		cancel()
	}
	if err == nil {
		err = p.exchange(ctx, p.collect(isBeat), isBeat)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		p.fail(err)
	}
}

// connect opens the central store if there is none.
func (p *Pool) connect(ctx context.Context) error {
	if p.central != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	central, err := p.options.Open(ctx)
	if err == nil {
		p.central = central
	}
	return err
}

// collect returns the limits that take part in an exchange.
func (p *Pool) collect(isBeat bool) []*Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	leases := p.pending
	p.pending = nil
	for _, l := range leases {
		p.busy[l] = struct{}{}
	}
	if isBeat {
		leases = make([]*Lease, 0, len(p.busy))
		for l := range p.busy {
			leases = append(leases, l)
		}
	}
	return leases
}

// exchange reports and takes permits.
func (p *Pool) exchange(ctx context.Context, leases []*Lease, isBeat bool) error {
	if len(leases) == 0 && !isBeat {
		return nil
	}
	asks := make([]Ask, len(leases))
	sent := time.Now()
	members := p.knownMembers()
	for i, l := range leases {
		asks[i] = l.ask(sent, members)
	}
	bounded, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	p.exchanges.Add(1)
	p.sent.Store(&sent)
	presence, grants, err := p.central.Exchange(bounded, members, asks)
	if err != nil {
		for i, l := range leases {
			l.unanswered(&asks[i])
		}
		return err
	}
	p.members.Store(int64(presence.Members))
	p.isHeard.Store(true)
	if p.state.Recover() {
		p.options.Log.Info("the shared rate limits are exact again", "gateways", presence.Members)
	}
	p.mu.Lock()
	p.away.Store(false)
	p.mu.Unlock()
	for i, l := range leases {
		l.apply(&asks[i], &grants[i], sent)
	}
	return nil
}

// fail divides the limits until the central store answers again.
func (p *Pool) fail(err error) {
	if p.state.Fail(err.Error()) {
		p.options.Log.Warn("the shared rate limits cannot be reached; this gateway takes its share of each", "gateways", p.knownMembers(), "error", err)
	}
	p.mu.Lock()
	if !p.away.Load() {
		p.outage.Add(1)
		p.away.Store(true)
	}
	waiting := p.pending
	p.pending = nil
	for _, l := range waiting {
		p.busy[l] = struct{}{}
	}
	p.mu.Unlock()
	for _, l := range waiting {
		l.wakeWaiters()
	}
}

// leave gives back all permits and says good-bye.
func (p *Pool) leave() {
	p.exchanging.Lock()
	defer p.exchanging.Unlock()
	if p.central == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(p.options.Timeout, probeTime))
	defer cancel()
	if !p.away.Load() {
		leases := p.collect(true)
		asks := make([]Ask, len(leases))
		for i, l := range leases {
			asks[i] = l.giveUp()
		}
		if _, _, err := p.central.Exchange(ctx, p.knownMembers(), asks); err == nil {
			_ = p.central.Leave(ctx) // the others forget this gateway by themselves
		}
	}
	p.central.Close()
	p.central = nil
}

// request makes the goroutine of the pool exchange for a lease.
func (p *Pool) request(l *Lease) {
	p.mu.Lock()
	p.pending = append(p.pending, l)
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// note makes the next beat report a lease.
func (p *Pool) note(l *Lease) {
	p.mu.Lock()
	p.busy[l] = struct{}{}
	p.mu.Unlock()
}

// forget makes the next beats leave out a lease.
func (p *Pool) forget(l *Lease) {
	p.mu.Lock()
	delete(p.busy, l)
	p.mu.Unlock()
}

// knownMembers returns among how many gateways a limit is divided.
func (p *Pool) knownMembers() int {
	known := int(p.members.Load())
	if p.options.Members != nil {
		known = max(known, p.options.Members())
	}
	return max(1, known)
}

// silentFrom returns from when on the others count this gateway as cut off.
func (p *Pool) silentFrom() time.Time {
	sent := p.sent.Load()
	if sent == nil {
		return time.Time{}
	}
	return sent.Add(max(shareDelay, SilentAfter+p.options.Timeout))
}

// PoolStats are counts of a Pool.
type PoolStats struct {
	// Limits is how many limits are shared; the rest means nothing if none is.
	Limits int64
	// Gateways is how many take part.
	Gateways int
	// Exchanges counts the round trips to the central store, and Divided the requests
	// that were decided without it, by this gateway's share.
	Exchanges, Divided int64
	// Failure is why the central store cannot be used; nil means that it can.
	Failure  *condition.Failure
	Failures int64
}

// Stats returns the counts.
func (p *Pool) Stats() PoolStats {
	return PoolStats{
		Limits: p.joined.Load(), Gateways: p.knownMembers(), Exchanges: p.exchanges.Load(), Divided: p.divided.Load(),
		Failure: p.state.Failure(), Failures: p.state.Failures(),
	}
}
