package ratelimit

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Lease is a limit that this gateway shares with others, and the permits that it has
// of it. All methods may be called at the same time.
type Lease struct {
	pool *tally.Pool
	name string

	mu       sync.Mutex
	settings Settings
	window   int64         // length of a sliding window, 0 for the other algorithms
	fixed    time.Duration // that length, where it does not follow from the settings

	permits int64     // can be spent without asking
	valid   time.Time // until when
	held    int64     // taken by requests that wait
	debt    int64     // taken beyond the permits
	// epoch and granted come from the last answer of the central store, and number
	// counts the asks.
	epoch   string
	granted int64
	number  int64
	answers int64 // exchanges that changed the state
	// left, capacity and rate are the values of the central store at a time.
	left, capacity, rate float64
	at                   time.Time
	isShort              bool      // the store did not have all that was wanted
	deniedUntil          time.Time // it makes no sense to ask before
	retryAt              time.Time // the central store expects to have a permit then

	asked    bool           // an exchange is due
	waiting  int64          // permits that requests wait for
	done     waiting.Signal // an exchange has ended
	demand   demand
	own      window // the spending of this gateway, for sliding windows
	ownRules rules
	spent    int64 // the part of it that the store has not heard of
	// unheard holds the times of that spending, the latest last. The first told of it
	// are in an exchange that is under way.
	unheard   []mark
	told      int
	share     share
	grown     time.Time // until when the share has grown, in any outage
	isNoted   bool
	isRemoved bool
}

const (
	// leaseParts is which part of its share of the capacity a gateway takes in advance:
	// the others can use the rest.
	leaseParts = 2
	// shortParts divides that once more while a sliding window is used up, because permits
	// that wait here cannot be used elsewhere.
	shortParts = 4
	// aheadTime is the time that the permits taken in advance should last: nobody
	// notices a store that does not answer before the share grows.
	aheadTime = tally.SilentAfter
	// idleTime is when a limit that is not used gives its permits back.
	idleTime = time.Second
	// The time between two asks of a limit that is used up is an eighth of the time that
	// fills a bucket, or a fiftieth of a window, within these bounds.
	minPace = time.Millisecond
	maxPace = 100 * time.Millisecond
	// maxDenial is how long an answer that there is nothing is believed: others may
	// give something back.
	maxDenial = 100 * time.Millisecond
)

// NewLease returns this gateway's part in the limit with this name, for settings that
// passed Check. Gateways that use the same name share the limit.
func NewLease(p *tally.Pool, name string, settings Settings) *Lease {
	return newLease(p, name, settings, 0)
}

// NewWindowLease is NewLease for a limit of a capacity in any window of this length.
func NewWindowLease(p *tally.Pool, name string, capacity int64, window time.Duration) *Lease {
	return newLease(p, name, windowSettings(capacity), window)
}

func newLease(p *tally.Pool, name string, settings Settings, fixed time.Duration) *Lease {
	l := &Lease{pool: p, name: name, fixed: fixed}
	l.set(settings)
	p.Join()
	return l
}

func windowSettings(capacity int64) Settings {
	return Settings{Enabled: true, Shared: true, Algorithm: SlidingWindow, Capacity: int(capacity), RefillRate: 1}
}

// Resize changes the capacity of a lease that NewWindowLease returned.
func (l *Lease) Resize(capacity int64) { l.Update(windowSettings(capacity)) }

// Capacity returns the capacity of the limit.
func (l *Lease) Capacity() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settings.Capacity
}

// Remove says that the limit is not used any more. Permits that are left are given back
// with the next beat.
func (l *Lease) Remove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isRemoved {
		l.isRemoved = true
		l.pool.Part()
	}
}

// Update replaces the settings.
func (l *Lease) Update(settings Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if settings != l.settings {
		l.set(settings)
		l.deniedUntil = time.Time{}
	}
}

func (l *Lease) set(settings Settings) {
	const ownMarks = 128
	l.settings = settings
	l.window = int64(l.fixed)
	if l.fixed == 0 && settings.Algorithm == SlidingWindow {
		l.window = newRules(settings, 0, ownMarks).window
	}
	if l.window == 0 {
		l.own, l.spent, l.unheard, l.told = window{}, 0, nil, 0 // of a window that the limit had before
	}
	l.ownRules = windowRules(l.window, ownMarks)
	l.capacity, l.rate = float64(settings.Capacity), float64(settings.RefillRate)
	if settings.Algorithm == WarmUp {
		l.capacity, l.rate = max(1, l.capacity/coldFactor), l.rate/coldFactor
	}
}

// Take takes as many permits as a request costs, or none. It waits for the central
// store if this gateway has not enough and others may have left some.
func (l *Lease) Take(permits int, now time.Time) (Decision, Receipt) {
	n := int64(permits)
	var timer *time.Timer
	isLate := false
	for {
		l.mu.Lock()
		l.demand.count(n, now)
		if d, isDecided := l.decide(n, now, isLate); isDecided {
			receipt := Receipt{}
			if d.Allowed {
				receipt = Receipt{lease: l, permits: n, answers: l.answers}
			}
			l.mu.Unlock()
			if timer != nil {
				timer.Stop()
			}
			return d, receipt
		}
		done := l.done.Changed()
		l.waiting += n
		l.ensureAsked()
		l.mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(l.pool.Timeout() + minPace)
		}
		select {
		case <-done:
		case <-timer.C:
			isLate = true
		}
		l.mu.Lock()
		l.waiting -= n
		l.demand.uncount(n)
		l.mu.Unlock()
		now = time.Now()
	}
}

// decide answers a request, unless the central store must be asked for it.
func (l *Lease) decide(n int64, now time.Time, isLate bool) (d Decision, isDecided bool) {
	switch {
	case l.pool.IsAway():
		l.pool.CountDivided()
		return l.takeShare(n, now), true
	case l.take(n, now):
		return l.decision(true, now), true
	case now.Before(l.deniedUntil) || isLate:
		return l.decision(false, now), true
	}
	return d, false
}

// take spends permits that are here.
func (l *Lease) take(n int64, now time.Time) bool {
	if l.permits < n || !now.Before(l.valid) {
		return false
	}
	l.permits -= n
	l.spend(n, now)
	if 2*l.permits < l.target(l.pool.Members(), now) && !now.Before(l.deniedUntil) {
		l.ensureAsked()
	}
	return true
}

// spend counts permits that were taken.
func (l *Lease) spend(n int64, now time.Time) {
	if l.window > 0 {
		at := l.own.forget(&l.ownRules, now.UnixNano())
		l.own.add(&l.ownRules, at, int(n))
		l.spent += n
		l.noteTime(at, int(n))
	}
	l.noteOnce()
}

// noteTime notes when permits were spent. Permits of one grain of time share its end:
// nothing is forgotten too early.
func (l *Lease) noteTime(at int64, n int) {
	last := len(l.unheard) - 1
	if last >= l.told && (at-l.unheard[last].latest <= l.ownRules.grain || last+1 >= l.ownRules.marks) {
		l.unheard[last].latest = at
		l.unheard[last].count += n
		return
	}
	l.unheard = append(l.unheard, mark{at, n})
}

// times returns when the permits were spent that the store has not heard of. Permits that
// were taken back meanwhile are taken from the oldest.
func (l *Lease) times(now int64) (times []tally.Time) {
	left := l.spent
	for i := len(l.unheard) - 1; i >= 0 && left > 0; i-- {
		permits := min(left, int64(l.unheard[i].count))
		left -= permits
		times = append(times, tally.Time{Ago: time.Duration(max(0, now-l.unheard[i].latest)), Permits: permits})
	}
	return times
}

func (l *Lease) noteOnce() {
	if !l.isNoted {
		l.isNoted = true
		l.pool.Note(l)
	}
}

func (l *Lease) ensureAsked() {
	if !l.asked {
		l.asked = true
		l.pool.Request(l)
	}
}

// Wake makes requests that wait for the store look again.
func (l *Lease) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake()
}

func (l *Lease) wake() {
	l.asked = false
	l.done.Tell()
}

// target is how many permits this gateway wants to have in advance.
func (l *Lease) target(members int, now time.Time) int64 {
	parts := leaseParts * members
	if l.window > 0 && l.isShort {
		parts *= shortParts
	}
	most := max(1, int64(l.capacity)/int64(parts))
	return min(most, max(1, int64(math.Ceil(l.demand.perSecond(now)*aheadTime.Seconds()))))
}

// Prepare returns the report and the request for the store. The pool calls it, and the
// methods Granted, Unanswered, Wake and GiveUp.
func (l *Lease) Prepare(now time.Time, members int) tally.Ask {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.demand.next(now)
	l.endShare(now, members)
	if !now.Before(l.valid) {
		l.permits = 0
	}
	l.payDebt()
	l.number++
	s := l.settings
	a := tally.Ask{
		Name: l.name, Capacity: s.Capacity, Rate: s.RefillRate, Window: time.Duration(l.window),
		Epoch: l.epoch, Granted: l.granted, Number: l.number, Spent: l.spent,
	}
	if s.Algorithm == WarmUp {
		a.WarmUp = s.WarmUpPeriod.Std()
	}
	l.own.forget(&l.ownRules, now.UnixNano())
	a.Own, a.Times = int64(l.own.total), l.times(now.UnixNano())
	l.told = len(l.unheard)
	target := l.target(members, now)
	if l.isRemoved || now.Sub(l.demand.last) >= idleTime {
		target = 0
	}
	if l.permits > 2*target || target == 0 {
		a.Returned = l.permits - target
		l.permits = target
	}
	a.Returned -= l.debt
	a.Need = max(0, l.waiting-l.permits)
	a.Want = max(a.Need, target-l.permits)
	a.Outstanding = l.permits + l.held
	return a
}

// payDebt takes a debt from the permits that are here, as far as they suffice. Only the
// rest is reported: nothing is both kept and returned.
func (l *Lease) payDebt() {
	paid := min(l.permits, l.debt)
	l.permits -= paid
	l.debt -= paid
}

// Unanswered notes that the fate of an ask is unknown. The permits it returned or took
// back are lost, because they must not be returned twice.
func (l *Lease) Unanswered(a *tally.Ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	l.told = 0
	l.spent -= min(0, a.Spent)
	l.wake()
}

// Granted takes over the answer to an ask. A limit that has nothing more to report takes
// no part in the next beats.
func (l *Lease) Granted(a *tally.Ask, g *tally.Grant, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Epoch != "" && g.Epoch != a.Epoch {
		// The store has lost its data, and with them the source of these permits.
		l.permits = 0
	}
	l.permits += g.Permits
	l.valid = sent.Add(tally.LeaseValid)
	l.epoch, l.granted = g.Epoch, g.Granted
	l.spent -= a.Spent
	l.unheard, l.told = slices.Delete(l.unheard, 0, l.told), 0
	l.debt = max(0, l.debt+min(0, a.Returned))
	l.left, l.at, l.capacity, l.rate = max(0, g.Left), sent, max(1, g.Capacity), g.Rate
	l.deniedUntil, l.retryAt = time.Time{}, time.Time{}
	l.isShort = g.Permits < a.Want || l.isShort && l.left < l.capacity/8
	if g.Permits < a.Need || g.Permits < a.Want && g.Retry > 0 {
		now, wait := time.Now(), max(g.Retry, l.pace())
		l.deniedUntil, l.retryAt = now.Add(min(wait, maxDenial)), now.Add(wait)
	}
	l.answers++
	l.wake()
	l.isNoted = l.permits > 0 || l.held > 0 || l.spent != 0 || l.debt > 0
	if l.isNoted {
		return
	}
	// Under l.mu a note that comes now is not lost.
	if l.own.total > 0 {
		l.pool.Rest(l, sent.Add(time.Duration(l.window)))
	} else {
		l.pool.Forget(l)
	}
}

// GiveUp prepares the last exchange.
func (l *Lease) GiveUp() tally.Ask {
	a := l.Prepare(time.Now(), 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	a.Returned += l.permits
	a.Outstanding, a.Want, a.Need, l.permits = 0, 0, 0, 0
	return a
}

// pace is the time between two asks of a limit that is used up.
func (l *Lease) pace() time.Duration {
	pace := time.Duration(l.window) / 50
	if l.window == 0 {
		pace = time.Duration(l.capacity / max(0.001, l.rate) * float64(time.Second) / 8)
	}
	return min(maxPace, max(minPace, pace))
}

// Peek returns the state of the limit, as far as this gateway knows.
func (l *Lease) Peek(now time.Time) Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pool.IsAway() {
		l.beginShare(now)
		return l.shareDecision(l.hasShare(1, now), 1, now)
	}
	return l.decision(l.permits > 0 || l.left >= 1 || !now.Before(l.deniedUntil), now)
}

// decision describes the limit as the central store saw it last.
func (l *Lease) decision(isAllowed bool, now time.Time) Decision {
	capacity := float64(l.settings.Capacity)
	left := l.left
	if l.window == 0 {
		left += now.Sub(l.at).Seconds() * l.rate
	}
	if l.epoch == "" {
		left = l.capacity
	}
	left = min(capacity, left+float64(l.permits))
	d := Decision{Limited: true, Allowed: isAllowed, Limit: l.settings.Capacity, Remaining: int(left)}
	if !isAllowed {
		d.Remaining = 0
	}
	d.ResetAfter = time.Duration(l.window)
	if l.window == 0 {
		d.ResetAfter = time.Duration((capacity - float64(d.Remaining)) / max(0.001, l.rate) * float64(time.Second))
	}
	if d.Remaining == 0 {
		d.RetryAfter = max(l.retryAt.Sub(now), l.pace())
	}
	return d
}

// Settle corrects the permits that a request took, when its cost is known: it takes
// more, or fewer if more is below 0. More is taken even if the limit is used up; it is
// missing later.
func (l *Lease) Settle(more int, now time.Time) {
	if more == 0 {
		return
	}
	n := int64(more)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteOnce()
	if l.window > 0 && n < 0 {
		l.unspend(-n, now)
		return
	}
	if l.pool.IsAway() {
		l.beginShare(now)
		l.share.level -= float64(n)
		l.spend(n, now)
		return
	}
	fromPermits := min(n, l.permits)
	l.permits -= fromPermits
	if l.window > 0 {
		l.spend(n, now)
	} else {
		l.debt += n - fromPermits
	}
}

// unspend takes back permits that were spent in a sliding window. It takes the oldest
// ones: nothing is forgotten too early.
func (l *Lease) unspend(n int64, now time.Time) {
	l.own.forget(&l.ownRules, now.UnixNano())
	l.own.dropOldest(int(n))
	l.spent -= n
}
