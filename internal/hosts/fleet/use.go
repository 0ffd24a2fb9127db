package fleet

import (
	"math"
	"time"
)

const (
	// spanCount spans of spanSeconds are how far back Use looks.
	spanCount   = 10
	spanSeconds = 30.0
	// ratioSteps is the number of steps between a ratio and its double. Ratios beyond
	// mostDoubled doublings or halvings are not distinguished.
	ratioSteps  = 4
	mostDoubled = 5
	ratioCount  = 2*mostDoubled*ratioSteps + 1
)

// UseTime is how far back Use looks.
const UseTime = spanCount * spanSeconds * time.Second

// Use sums up the calls of the last minutes that came to their end. Numbers are zero
// where nothing is known.
type Use struct {
	// Waiting and Decoding are calls that have not come to their end, before and after their
	// first token.
	Waiting, Decoding int
	// Calls counts complete answers, and Streams the answers with an observed first
	// token.
	Calls, Streams int
	// HitRate is the share of the tokens of prompts that came from a cache: by the engines
	// where IsTold, else by the index.
	HitRate float64
	IsTold  bool
	// BlindHitRate is the same for a choice that does not look: an estimate by the index,
	// corrected by the reports of engines.
	BlindHitRate float64
	// Prefill is how many seconds the prefills would have taken without caches, and Saved
	// how many of them caches saved: an estimate.
	Prefill, Saved float64
	// FirstToken is the mean time to the first token of the streams, Expected the mean
	// estimate before they were sent, and Blind the mean for a choice that does not look.
	// Blind is an estimate, corrected by the ratio of the other two, and a low one: it
	// takes caches and queues as a choice that looks has left them.
	FirstToken, Expected, Blind float64
	// Ratio is the median of the true time to the first token divided by the expected
	// one.
	Ratio float64
}

// SavedShare returns the share of the work on prompts that caches saved, 0 without calls.
func (u *Use) SavedShare() float64 {
	if u.Prefill <= 0 {
		return 0
	}
	return min(u.Saved/u.Prefill, 1)
}

// tally holds the counts of calls.
type tally struct {
	calls, streams         int32
	truth, expected, blind float64 // seconds to the first token, of the streams
	tokens                 float64 // of prompts, as the caller guessed them
	matched, blindMatched  float64 // those of them that were believed to be cached
	told, cached           float64 // tokens of prompts by the reports of engines, and the cached ones
	prefill, saved         float64 // seconds
	ratios                 [ratioCount]int32
}

func (t *tally) add(other *tally) {
	t.calls += other.calls
	t.streams += other.streams
	t.truth += other.truth
	t.expected += other.expected
	t.blind += other.blind
	t.tokens += other.tokens
	t.matched += other.matched
	t.blindMatched += other.blindMatched
	t.told += other.told
	t.cached += other.cached
	t.prefill += other.prefill
	t.saved += other.saved
	for n, count := range other.ratios {
		t.ratios[n] += count
	}
}

// Uses count calls that have something in common, such as the name by which the model of an
// instance was asked for: an instance may have several. The zero value has counted none.
//
// Recent counts are kept by spans of time. Each place has the number of its span, and is
// used again when its span is too long ago.
type Uses struct {
	numbers           [spanCount]int64
	spans             [spanCount]tally
	waiting, decoding int32 // calls that have not come to their end
}

// at returns the tally of now.
func (r *Uses) at(now float64) *tally {
	number := int64(max(now, 0)/spanSeconds) + 1 // 0 is a place that was never used
	n := number % spanCount
	if r.numbers[n] != number {
		r.numbers[n], r.spans[n] = number, tally{}
	}
	return &r.spans[n]
}

// sum adds the counts within UseTime to a tally.
func (r *Uses) sum(to *tally, now float64) {
	oldest := int64(max(now, 0)/spanSeconds) + 1 - spanCount
	for n, number := range r.numbers {
		if number > max(oldest, 0) {
			to.add(&r.spans[n])
		}
	}
}

// note counts a call that came to its end.
func (r *Uses) note(c *Call, answer Answer, now float64) {
	t := r.at(now)
	t.calls++
	hit := c.Estimate.Matched
	t.tokens += c.tokens
	t.matched += c.tokens * hit
	t.blindMatched += c.tokens * c.Estimate.BlindMatched
	if prompt, cached := float64(answer.PromptTokens),
		float64(answer.CachedTokens); prompt > 0 && cached >= 0 && cached <= prompt {
		hit = cached / prompt
		t.told += prompt
		t.cached += cached
	}
	perToken := c.takes / c.need
	t.prefill += (requestTokens + c.tokens) * perToken
	t.saved += c.tokens * hit * perToken
	truth := c.first - c.sent
	if !c.isSeen || truth <= 0 || c.Estimate.Expected <= 0 {
		return
	}
	t.streams++
	t.truth += truth
	t.expected += c.Estimate.Expected
	t.blind += c.Estimate.Blind
	t.ratios[ratioStep(truth/c.Estimate.Expected)]++
}

// ratioStep returns the place of a ratio among the counts of ratios.
func ratioStep(ratio float64) int {
	step := math.Round(math.Log2(ratio)*ratioSteps) + mostDoubled*ratioSteps
	return int(min(max(step, 0), ratioCount-1))
}

// median returns the median of the ratios.
func (t *tally) median() float64 {
	left := (t.streams + 1) / 2
	for n, count := range t.ratios {
		if left -= count; left <= 0 {
			return math.Exp2(float64(n-mostDoubled*ratioSteps) / ratioSteps)
		}
	}
	return 0
}

// use returns the counts in a form for people.
func (t *tally) use() Use {
	u := Use{Calls: int(t.calls), Streams: int(t.streams), Prefill: t.prefill, Saved: t.saved}
	if t.tokens > 0 {
		u.HitRate, u.BlindHitRate = t.matched/t.tokens, t.blindMatched/t.tokens
	}
	if t.told > 0 {
		u.HitRate, u.IsTold = t.cached/t.told, true
		if t.matched > 0 {
			// The index overestimates all instances alike.
			u.BlindHitRate = min(u.HitRate*t.blindMatched/t.matched, 1)
		}
	}
	if t.streams > 0 {
		n := float64(t.streams)
		u.FirstToken, u.Expected, u.Ratio = t.truth/n, t.expected/n, t.median()
		u.Blind = u.FirstToken * t.blind / t.expected
	}
	return u
}

// Use sums up the calls that several Uses have counted. Each Uses counts once, and nil has
// counted none.
func (f *Fleet) Use(of []*Uses, now time.Time) Use {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all tally
	waiting, decoding := 0, 0
	seen := make(map[*Uses]bool, len(of))
	for _, r := range of {
		if r != nil && !seen[r] {
			seen[r] = true
			r.sum(&all, f.clock(now))
			waiting += int(r.waiting)
			decoding += int(r.decoding)
		}
	}
	use := all.use()
	use.Waiting, use.Decoding = waiting, decoding
	return use
}
