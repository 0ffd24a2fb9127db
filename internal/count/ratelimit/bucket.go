package ratelimit

import "time"

// bucket counts for three of the algorithms. A token bucket that is refilled and a
// leaky meter that drains are one thing seen from two sides: the level of the meter is
// the empty part of the bucket. A warm-up is a bucket that is small and slow at first.
type bucket struct {
	parts int64 // in the bucket
	at    int64 // when they were counted
	held  int64 // parts of requests that wait, which leave no room to refill
}

func (b *bucket) fill(r *rules, now int64) { *b = bucket{parts: r.burstAt(now), at: now} }

// level returns the contents of the bucket at a time that is not before the last count.
// Refused requests do not store it: a level computed in many small steps would lose a
// fraction of a part in each step of a warm-up.
func (b *bucket) level(r *rules, now int64) int64 {
	return min(b.room(r, now), b.parts+r.gain(b.at, now))
}

// room returns how much the bucket can hold beside the permits of waiting requests.
func (b *bucket) room(r *rules, now int64) int64 { return max(0, r.burstAt(now)-b.held) }

// settleAt makes the level at a time the new starting point.
func (b *bucket) settleAt(r *rules, now int64) int64 {
	now = max(now, b.at)
	b.parts, b.at = b.level(r, now), now
	return now
}

func (b *bucket) hold(r *rules, now int64) {
	now = b.settleAt(r, now)
	b.held += partsPerRequest
	b.parts = min(b.parts, b.room(r, now))
}

func (b *bucket) use(r *rules, now int64) {
	b.settleAt(r, now)
	b.held = max(0, b.held-partsPerRequest)
}

func (b *bucket) giveBack(r *rules, now int64) {
	now = b.settleAt(r, now)
	b.parts = min(b.room(r, now), b.parts+partsPerRequest)
}

func (b *bucket) decide(r *rules, now int64, spend bool, d *Decision) {
	now = max(now, b.at)
	level := b.level(r, now)
	d.Limited = true
	d.Limit = r.capacity
	d.Allowed = level >= partsPerRequest
	if spend && d.Allowed {
		level -= partsPerRequest
		b.parts, b.at = level, now
	}
	d.Remaining = int(level / partsPerRequest)
	d.ResetAfter = b.untilFull(r, now, level)
	if d.Remaining == 0 {
		d.RetryAfter = b.until(r, now, partsPerRequest)
	}
}

// untilNext is the time until one more whole request has flowed in; 0 where the
// bucket is full.
func (b *bucket) untilNext(r *rules, now int64) time.Duration {
	now = max(now, b.at)
	level := b.level(r, now)
	if level >= r.burst-b.held {
		return 0
	}
	return b.until(r, now, (level/partsPerRequest+1)*partsPerRequest)
}

// until is the time until the bucket holds as much as is needed.
func (b *bucket) until(r *rules, now, needed int64) time.Duration {
	low, high := int64(0), max(0, r.warmEnd-now)
	if missing := needed - b.level(r, now+high); missing > 0 {
		return time.Duration(high + divideUp(missing, r.rate))
	}
	// The curve of a warm-up is searched, not solved: a retry after exactly this time
	// finds the promised permits, whatever the rounding.
	for low < high {
		middle := low + (high-low)/2
		if b.level(r, now+middle) >= needed {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return time.Duration(low)
}

// untilFull is the time until the bucket holds its whole capacity.
func (b *bucket) untilFull(r *rules, now, level int64) time.Duration {
	warm := max(0, r.warmEnd-now)
	if warm > 0 {
		level = min(r.burst, level+r.gain(now, r.warmEnd))
	}
	return time.Duration(warm + divideUp(r.burst-level, r.rate))
}

// adapt keeps the spent permits when the rules change, up to the new burst.
func (b *bucket) adapt(old, new *rules, now int64) {
	now = max(now, b.at)
	spent := old.burstAt(now) - b.level(old, now)
	b.parts, b.at = min(b.room(new, now), max(0, new.burstAt(now)-spent)), now
}
