package tally

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

// Holder is one that takes permits of a number in batches, before requests need them.
type Holder interface {
	// Prepare returns the report and the request for the store.
	Prepare(now time.Time, members int) Ask
	// Granted takes over the answer.
	Granted(ask *Ask, grant *Grant, sent time.Time)
	// Unanswered says that the fate of an ask is unknown.
	Unanswered(ask *Ask)
	// Wake wakes requests that wait for an answer.
	Wake()
	// GiveUp returns the last ask, which gives everything back.
	GiveUp() Ask
}

// Pool is this gateway's side of the state that gateways share. One goroutine talks to the
// store. Requests wait for it only if they find no permit here and the store may have one.
//
// While the store does not answer, each limit is divided: this gateway takes the share
// that one of the known gateways is due.
type Pool struct {
	options Options

	mu      sync.Mutex
	busy    map[Holder]struct{} // have something that the store must hear of
	pending []Holder            // ask at once
	// resting have nothing to report until these times, unless the store loses its data.
	resting map[Holder]time.Time
	swept   time.Time
	wake    chan struct{}

	// exchanging is held during an exchange. Callers of Tell use the store as well; opened
	// is nil while there is none.
	exchanging sync.Mutex
	opened     atomic.Pointer[Store]
	telling    sync.WaitGroup // begun with mu

	// away says that the store does not answer. It and outage, which counts how often
	// that began, are changed with mu.
	away   atomic.Bool
	outage atomic.Int64
	// sent is when the last exchange was sent that the store may have heard, even if it did
	// not answer.
	sent    atomic.Pointer[time.Time]
	isHeard atomic.Bool // it has answered once
	epoch   string      // of the last answer; for the exchanging goroutine
	members atomic.Int64
	changes atomic.Pointer[string]
	// settled is the time when all gateways have told their totals again, after the store
	// was away or had lost its data, in nanoseconds.
	settled atomic.Int64
	failure atomic.Pointer[error] // why the store is away
	state   condition.Condition

	joined    atomic.Int64 // limits that are shared
	exchanges atomic.Int64
	divided   atomic.Int64 // requests that were decided by this gateway's share
}

// Options are the parts and settings of a Pool.
type Options struct {
	// Open connects to the store, which connects again by itself later.
	Open func(ctx context.Context) (Store, error)
	// Timeout bounds how long a request waits for the store.
	Timeout time.Duration
	// Members, if it is set, returns the number of gateways that are known in another
	// way.
	Members func() int
	// SharesMore, if it is set, reports whether gateways share something else than limits.
	SharesMore func() bool
	Log        *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const (
	// beatEvery is how often the store hears of permits that this gateway has.
	beatEvery = 250 * time.Millisecond
	// idleEvery is how often it hears of a gateway that has none.
	idleEvery = 500 * time.Millisecond
	// LeaseValid is how long permits may be spent here. It is shorter than LeaseTime,
	// because clocks differ.
	LeaseValid = LeaseTime * 4 / 5
	// ShareDelay is the time from the last sent exchange until this gateway's share
	// grows: the others count it as cut off by then.
	ShareDelay = SilentAfter + beatEvery
	// openTime bounds connecting, and probeTime how long a probe waits for the answer.
	openTime  = time.Second
	probeTime = time.Second / 2
	// toldTime is how long gateways have after the store was away, or lost its data, to find
	// it again and to tell their totals; membersTime is how long their number does not fall
	// then.
	toldTime    = 2 * SettleTime
	membersTime = 10 * time.Second
)

// NewPool returns a pool that does nothing before something is shared.
func NewPool(options Options) *Pool {
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Pool{
		options: options, busy: map[Holder]struct{}{}, resting: map[Holder]time.Time{},
		wake: make(chan struct{}, 1),
	}
}

// Join says that a limit is shared, and Part that it is not any more.
func (p *Pool) Join() { p.joined.Add(1) }

// Part undoes one Join.
func (p *Pool) Part() { p.joined.Add(-1) }

// shares reports whether gateways share anything.
func (p *Pool) shares() bool {
	return p.joined.Load() > 0 || p.options.SharesMore != nil && p.options.SharesMore()
}

// Run exchanges permits until the context ends, and then gives back the rest.
func (p *Pool) Run(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		isBeat := false
		select {
		case <-ctx.Done():
			p.Close()
			return
		case <-p.wake:
		case <-tick.C:
			isBeat = true
		}
		switch {
		case !p.shares():
			if isBeat {
				p.Close() // nothing is shared any more
			}
		case !isBeat || !p.mayRest(time.Now()):
			p.round(ctx, isBeat)
		}
	}
}

// mayRest reports whether the store need not hear of this gateway with the present beat.
func (p *Pool) mayRest(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent.Load()
	return sent != nil && len(p.busy) == 0 && len(p.pending) == 0 && now.Sub(*sent) < idleEvery-beatEvery/5
}

// Begin makes the first contact, if something is shared; the first requests need not
// wait for it.
func (p *Pool) Begin(ctx context.Context) {
	if p.shares() {
		p.round(ctx, true)
	}
}

// round makes one exchange: of the limits that need permits now or, with a beat, of
// all that have something to report.
func (p *Pool) round(ctx context.Context, isBeat bool) {
	p.exchanging.Lock()
	defer p.exchanging.Unlock()
	if p.away.Load() && !isBeat {
		return // it is probed with the beats
	}
	_ = p.contact(ctx, isBeat) // it is noted
}

// contact makes one exchange; exchanging is held.
func (p *Pool) contact(ctx context.Context, isBeat bool) error {
	err := p.connect(ctx)
	if err == nil && p.away.Load() {
		probe, cancel := context.WithTimeout(ctx, max(p.options.Timeout, probeTime))
		err = (*p.opened.Load()).Ping(probe)
		cancel()
	}
	if err == nil {
		err = p.exchange(ctx, p.collect(isBeat), isBeat)
	}
	if err != nil && ctx.Err() == nil {
		p.fail(err)
	}
	return err
}

// connect opens the store if it is not open.
func (p *Pool) connect(ctx context.Context) error {
	if p.opened.Load() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	store, err := p.options.Open(ctx)
	if err == nil {
		p.opened.Store(&store)
	}
	return err
}

// collect returns the holders that take part in an exchange.
func (p *Pool) collect(isBeat bool) []Holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	holders := p.pending
	p.pending = nil
	for _, h := range holders {
		p.busy[h] = struct{}{}
	}
	if isBeat {
		holders = make([]Holder, 0, len(p.busy))
		for h := range p.busy {
			holders = append(holders, h)
		}
	}
	return holders
}

// exchange reports and takes permits.
func (p *Pool) exchange(ctx context.Context, holders []Holder, isBeat bool) error {
	if len(holders) == 0 && !isBeat {
		return nil
	}
	asks := make([]Ask, len(holders))
	sent := time.Now()
	members := p.Members()
	for i, h := range holders {
		asks[i] = h.Prepare(sent, members)
	}
	bounded, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	p.exchanges.Add(1)
	before := p.sent.Swap(&sent)
	presence, grants, err := (*p.opened.Load()).Exchange(bounded, members, asks)
	if errors.Is(err, ErrRefused) {
		p.sent.Store(before) // nobody heard it
	}
	if err != nil {
		for i, h := range holders {
			h.Unanswered(&asks[i])
		}
		return err
	}
	p.isHeard.Store(true)
	p.noteStore(&presence)
	p.mu.Lock()
	p.away.Store(false)
	p.mu.Unlock()
	for i, h := range holders {
		h.Granted(&asks[i], &grants[i], sent)
	}
	return nil
}

// noteStore takes over the answer's facts about the store and the gateways.
func (p *Pool) noteStore(presence *Presence) {
	now := p.options.Now()
	hasLost := p.epoch != "" && p.epoch != presence.Epoch
	if hasLost {
		p.rouse()
	}
	p.epoch = presence.Epoch
	changes := presence.Epoch + " " + strconv.FormatInt(presence.Changes, 10)
	p.changes.Store(&changes)
	if hasLost || p.away.Load() {
		p.settled.Store(now.Add(toldTime).UnixNano())
	}
	// A store that was away or lost its data knows the others again when they have met it.
	mayFall := now.Sub(time.Unix(0, p.settled.Load())) >= membersTime-toldTime
	if known := p.members.Load(); int64(presence.Members) >= known || mayFall {
		p.members.Store(int64(presence.Members))
		if int64(presence.Members) != known {
			p.options.Log.Info("the number of gateways that share Redis has changed", "gateways", presence.Members)
		}
	}
	p.failure.Store(nil)
	p.note(nil)
}

// note notes whether the store can be used.
func (p *Pool) note(err error) {
	p.state.Note(p.options.Log, err,
		"what gateways share cannot be reached; this gateway takes its part of what is left",
		"what gateways share is exact again", "gateways", p.Members())
}

// fail divides the shared numbers among gateways until the store answers again.
func (p *Pool) fail(err error) {
	p.failure.Store(&err)
	p.note(err)
	p.mu.Lock()
	if !p.away.Load() {
		p.outage.Add(1)
		p.away.Store(true)
	}
	waiting := p.pending
	p.pending = nil
	for _, h := range waiting {
		p.busy[h] = struct{}{}
	}
	p.mu.Unlock()
	for _, h := range waiting {
		h.Wake()
	}
}

// Close gives back all permits and says good-bye. Run does it when it ends.
func (p *Pool) Close() {
	p.exchanging.Lock()
	defer p.exchanging.Unlock()
	store := p.opened.Load()
	if store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(p.options.Timeout, probeTime))
	defer cancel()
	if !p.away.Load() {
		holders := p.collect(true)
		asks := make([]Ask, len(holders))
		for i, h := range holders {
			asks[i] = h.GiveUp()
		}
		if _, _, err := (*store).Exchange(ctx, p.Members(), asks); err == nil {
			_ = (*store).Leave(ctx) // the others forget this gateway by themselves
		}
	}
	p.mu.Lock()
	p.opened.Store(nil)
	p.mu.Unlock()
	(*store).Close()
	p.telling.Wait()
}
