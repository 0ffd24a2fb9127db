package ratelimit

import "time"

// bucket holds the permits of one party, for all algorithms. They are counted in parts; the rules say
// how many make one permit. A token bucket that is refilled and a leaky meter that drains are one
// thing seen from two sides: the level of the meter is the empty part of the bucket. A warm-up is a
// bucket that is small and slow at first. A sliding window is a bucket into which each permit flows
// back one window after it was taken.
type bucket struct {
	began  int64
	parts  int64 // in the bucket; of a sliding window the marks of taken say it
	at     int64 // when they were counted
	held   int64 // parts of requests that wait, which leave no room to refill
	window window
}

func (b *bucket) begin(r *rules, now int64) {
	b.window.clear()
	b.began, b.parts, b.at, b.held = now, r.burstAt(now), now, 0
}

// level returns the contents of the bucket at a time that is not before the last count.
// Refused requests do not store it: a level computed in many small steps would lose a
// fraction of a part in each step of a warm-up.
func (b *bucket) level(r *rules, now int64) int64 {
	if r.slides() {
		return r.burst - int64(b.window.total)
	}
	return min(b.room(r, now), b.parts+r.gain(b.at, now))
}

// room returns how much the bucket can hold beside the permits of waiting requests.
func (b *bucket) room(r *rules, now int64) int64 { return max(0, r.burstAt(now)-b.held) }

// clock returns a time as the bucket sees it: never earlier than what it has counted.
func (b *bucket) clock(r *rules, now int64) int64 {
	if r.slides() {
		return b.window.forget(r, now)
	}
	return max(now, b.at)
}

// settleAt makes the level at a time the new starting point.
func (b *bucket) settleAt(r *rules, now int64) int64 {
	now = max(now, b.at)
	b.parts, b.at = b.level(r, now), now
	return now
}

// hold and use begin and end the wait of a request that was counted, and giveBack takes it out of
// the count. A sliding window forgets requests by when they came, however long they wait.
func (b *bucket) hold(r *rules, _, now int64) {
	if r.slides() {
		return
	}
	now = b.settleAt(r, now)
	b.held += r.part
	b.parts = min(b.parts, b.room(r, now))
}

func (b *bucket) use(r *rules, _, now int64) {
	if !r.slides() {
		b.settleAt(r, now)
		b.held = max(0, b.held-r.part)
	}
}

func (b *bucket) giveBack(r *rules, at, now int64) {
	if r.slides() {
		b.window.giveBack(r, at, now, 1)
		return
	}
	now = b.settleAt(r, now)
	b.parts = min(b.room(r, now), b.parts+r.part)
}

// decide answers a request for permits, into a decision that is zero. A request for more than the
// capacity is allowed when nothing else counts. Without spend it only previews the answer.
func (b *bucket) decide(r *rules, now int64, permits int, spend bool, d *Decision) {
	now = b.clock(r, now)
	level, needed := b.level(r, now), int64(min(permits, r.capacity))*r.part
	d.Limited, d.Limit, d.Allowed = true, r.capacity, level >= needed
	if spend && d.Allowed {
		level -= int64(permits) * r.part
		if r.slides() {
			b.window.add(r, now, permits)
		} else {
			b.parts, b.at = level, now
		}
	}
	d.Remaining = max(0, r.permits(level))
	d.ResetAfter = b.untilFull(r, now, level)
	if d.Remaining == 0 || !d.Allowed {
		d.RetryAfter = b.until(r, now, needed)
	}
}

// peek returns the answer that a request for one permit would get.
func (b *bucket) peek(r *rules, now int64) (d Decision) {
	b.decide(r, now, 1, false, &d)
	return d
}

// untilNext is the time until one more whole request has flowed in; 0 where the
// bucket is full.
func (b *bucket) untilNext(r *rules, now int64) time.Duration {
	now = b.clock(r, now)
	level := b.level(r, now)
	if level >= r.burst-b.held {
		return 0
	}
	return b.until(r, now, int64(r.permits(level)+1)*r.part)
}

// until is the time until the bucket holds as much as is needed.
func (b *bucket) until(r *rules, now, needed int64) time.Duration {
	if r.slides() {
		return b.window.untilBelow(r, now, int(r.burst-needed)+1)
	}
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
	if r.slides() {
		return b.window.untilEmpty(r, now)
	}
	warm := max(0, r.warmEnd-now)
	if warm > 0 {
		level = min(r.burst, level+r.gain(now, r.warmEnd))
	}
	return time.Duration(warm + divideUp(r.burst-level, r.rate))
}

// adapt keeps the spent permits when the rules of the same algorithm change, up to the new burst. A
// sliding window remembers requests, not their cost.
func (b *bucket) adapt(old, new *rules, now int64) {
	if new.slides() {
		return
	}
	now = max(now, b.at)
	spent := old.burstAt(now) - b.level(old, now)
	b.parts, b.at = min(b.room(new, now), max(0, new.burstAt(now)-spent)), now
}
