package ratelimit

import "time"

// spending is the spending of one party: a window for the algorithm that slides, a
// bucket for the others.
type spending struct {
	began  int64
	bucket bucket
	window window
}

func (t *spending) begin(r *rules, now int64) {
	t.began = now
	t.bucket.fill(r, now)
	t.window.clear()
}

// decide answers one request, into a decision that is zero. Without spend it only
// previews the answer.
func (t *spending) decide(r *rules, now int64, spend bool, d *Decision) {
	if r.algorithm == SlidingWindow {
		t.window.decide(r, now, spend, d)
	} else {
		t.bucket.decide(r, now, spend, d)
	}
}

// hold and use begin and end the wait of a request that was counted at a time,
// and giveBack takes it out of the count. A window needs no more than the last: it
// forgets requests by when they came, however long they wait.
func (t *spending) hold(r *rules, _, now int64) {
	if r.algorithm != SlidingWindow {
		t.bucket.hold(r, now)
	}
}

func (t *spending) use(r *rules, _, now int64) {
	if r.algorithm != SlidingWindow {
		t.bucket.use(r, now)
	}
}

func (t *spending) giveBack(r *rules, at, now int64) {
	if r.algorithm == SlidingWindow {
		t.window.giveBack(r, at, now, 1)
	} else {
		t.bucket.giveBack(r, now)
	}
}

func (t *spending) peek(r *rules, now int64) Decision {
	var d Decision
	t.decide(r, now, false, &d)
	return d
}

func (t *spending) untilNext(r *rules, now int64) time.Duration {
	if r.algorithm == SlidingWindow {
		return t.window.untilNext(r, now)
	}
	return t.bucket.untilNext(r, now)
}

// adapt follows new rules of the same algorithm. A window needs nothing: it remembers
// requests, not their cost.
func (t *spending) adapt(old, new *rules, now int64) {
	if new.algorithm != SlidingWindow {
		t.bucket.adapt(old, new, now)
	}
}
