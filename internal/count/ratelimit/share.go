package ratelimit

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// share is the part of a limit that one gateway may use while the central store does
// not answer. It begins with the permits that the gateway has, and grows after the
// others have noticed that the gateway is cut off and keep its share for it. So all
// gateways together never use more than the limit.
type share struct {
	outage  int64     // it holds for this outage; 0 means that there is none
	level   float64   // permits; permits of a sliding window are of use before at only
	at      time.Time // from when on it grows
	members float64
	// most is how many permits of a sliding window this gateway may have used within
	// the window, after at and before mostTill. It is as many as it had used at the time
	// at: the others may have used all others since then.
	most     int
	hasMost  bool
	mostTill time.Time
}

// beginShare begins the share of the present outage.
func (l *Lease) beginShare(now time.Time) {
	outage := l.pool.Outage()
	if l.share.outage == outage {
		return
	}
	if !now.Before(l.valid) {
		l.permits = 0
	}
	at := l.pool.SilentFrom()
	if !l.pool.IsHeard() {
		at = now.Add(tally.ShareDelay)
	}
	if at.Before(l.grown) {
		at = l.grown
	}
	l.share = share{outage: outage, level: float64(l.permits - l.debt), at: at, members: float64(l.pool.Members())}
	l.share.mostTill = at.Add(time.Duration(l.window))
	l.permits, l.debt = 0, 0
}

// endShare turns the rest of the share into permits.
func (l *Lease) endShare(now time.Time, members int) {
	if l.share.outage == 0 {
		return
	}
	if l.window == 0 {
		level := int64(l.growShare(now))
		l.permits, l.debt = min(max(0, level), max(1, int64(l.capacity)/int64(leaseParts*members))), max(0, -level)
		l.valid = now.Add(tally.LeaseValid)
	}
	l.share = share{}
}

// growShare returns the permits of the share at a time.
func (l *Lease) growShare(now time.Time) float64 {
	s := &l.share
	if from := l.pool.SilentFrom(); s.at.Before(from) {
		s.at = from // an exchange in the outage was not answered
	}
	if elapsed := now.Sub(s.at); elapsed > 0 {
		s.level += elapsed.Seconds() * l.rate / s.members
		s.at, l.grown = now, now
	}
	s.level = min(s.level, max(1, l.capacity/s.members))
	return s.level
}

// shareLeft returns how many permits the share has now.
func (l *Lease) shareLeft(now time.Time) float64 {
	if l.window == 0 {
		return l.growShare(now)
	}
	if now.Before(l.share.at) {
		return l.share.level
	}
	return float64(l.windowShare(now) - l.own.total)
}

// windowShare returns how many permits this gateway may have used within a window, once
// the others keep its share for it.
func (l *Lease) windowShare(now time.Time) int {
	l.own.forget(&l.ownRules, now.UnixNano())
	s := &l.share
	whole := max(1, l.settings.Capacity/int(s.members))
	if !now.Before(s.mostTill) {
		return whole
	}
	if !s.hasMost {
		s.hasMost = true
		s.most = min(whole, l.own.since(s.at.UnixNano()-l.window+l.window/64))
	}
	return s.most
}

// hasShare reports whether the share has so many permits. A level that grew in many
// steps may be a little below its true whole number.
func (l *Lease) hasShare(n int64, now time.Time) bool {
	const rounding = 1e-6
	return l.shareLeft(now) >= float64(n)-rounding
}

// takeShare takes permits of the share.
func (l *Lease) takeShare(n int64, now time.Time) Decision {
	l.beginShare(now)
	isAllowed := l.hasShare(n, now)
	if isAllowed {
		l.share.level -= float64(n)
		l.spend(n, now)
	}
	return l.shareDecision(isAllowed, n, now)
}

// shareDecision describes the share.
func (l *Lease) shareDecision(isAllowed bool, n int64, now time.Time) Decision {
	left := l.shareLeft(now)
	d := Decision{Limited: true, Allowed: isAllowed, Limit: l.settings.Capacity, Remaining: max(0, int(left))}
	if !isAllowed {
		d.Remaining = 0
	}
	if l.window > 0 {
		d.ResetAfter = time.Duration(l.window)
		if d.Remaining == 0 {
			d.RetryAfter = l.windowRetry(now)
		}
		return d
	}
	perSecond := max(0.001, l.rate/l.share.members)
	until := func(permits float64) time.Duration {
		if permits <= left {
			return 0
		}
		return max(0, l.share.at.Sub(now)) + time.Duration((permits-left)/perSecond*float64(time.Second)) + 1
	}
	d.ResetAfter = until(l.capacity / l.share.members)
	if d.Remaining == 0 {
		d.RetryAfter = until(float64(n))
	}
	return d
}

// windowRetry returns when this gateway's share of a sliding window has room again.
func (l *Lease) windowRetry(now time.Time) time.Duration {
	if now.Before(l.share.at) {
		return max(minPace, l.share.at.Sub(now))
	}
	if most := l.windowShare(now); most > 0 {
		return max(minPace, l.own.untilBelow(&l.ownRules, now.UnixNano(), most))
	}
	return max(minPace, l.share.mostTill.Sub(now))
}
