package fleet

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// price is the weight in the rule of a second of avoidable work, beside the second by which it
// delays the caller: it also delays everybody behind the caller, and its blocks push other
// blocks out of the cache.
const price = 2

const (
	// requestTokens is the cost of any request whatever its length, in tokens.
	requestTokens = 256
	// leastShare is the share of work that is left for a prompt that is cached whole.
	leastShare = 0.02
)

// Estimate is the expectation for one request at an instance, in seconds.
type Estimate struct {
	Instance *Instance
	// Matched is the share of the prompt that is believed to be in its cache.
	Matched float64
	// Queue is the prefill in front of the request, Prefill its own, and Load the time
	// until the model is in memory.
	Queue, Prefill, Load float64
	// Expected is the time to the first token: the sum of the three.
	Expected float64
	// Answer is the time from there to the end of the answer, 0 where nobody asks for it.
	Answer float64
	// Avoidable is the part of the work that the best of the others would save.
	Avoidable float64
	// Cost is the number that the rule compares.
	Cost float64
	// Blind and BlindMatched are the means of Expected and Matched over all instances that
	// could be chosen, by their weights: the result of a choice that does not look.
	Blind, BlindMatched float64
}

// weighed is an instance with its values for the rule.
type weighed struct {
	instance *Instance
	weight   float64
	cost     float64
	need     float64 // tokens of prefill
	matched  float64 // share of the prompt
	queue    float64 // seconds
	load     float64
	answer   float64 // seconds to write the answer, if these count
	again    float64 // seconds to load the models again that this one would push out
	depth    int     // blocks that are believed to be cached
}

func (w *weighed) estimate(least work) Estimate {
	prefill := w.need * w.instance.perToken
	return Estimate{
		Instance: w.instance, Matched: w.matched, Queue: w.queue, Prefill: prefill, Load: w.load,
		Expected: w.queue + prefill + w.load, Answer: w.answer, Avoidable: w.avoidable(least),
		Cost:  w.cost,
		Blind: least.blind, BlindMatched: least.blindMatched,
	}
}

// avoidable returns the seconds of work that the best of the others would save. Only
// tokens count as avoidable, not the seconds of a slower instance.
func (w *weighed) avoidable(least work) float64 {
	return (w.need-least.need)*w.instance.perToken + w.load + w.again - least.load
}

// work is the least that any instance has to do: tokens of prefill, and seconds to load. It
// also has the mean expectation.
type work struct{ need, load, blind, blindMatched float64 }

// Choose chooses one of the given instances, which can all take the request, and returns
// it as a call that has begun; nil where there is none to choose from. It takes the one
// with the least
//
//	queue x mean weight / own weight + prefill + load + 2 x avoidable
//
// and, with ToAnswer, the seconds to write an answer of the expected length.
// Queues are thus in proportion to weights, and equal weights change nothing. Instances
// with the same cost have their turns in proportion to their weights. The ask is not
// kept.
func (f *Fleet) Choose(from []*Instance, ask *Ask, now time.Time) *Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(from) == 0 {
		return nil
	}
	at := f.clock(now)
	all, least := f.weigh(from, ask, at)
	return f.begin(inTurn(whereItComes(all, at)), least, ask, at)
}

// whereItComes leaves only the instances that are loading the model, where some do and none
// has it. The caller has asked Preferred for these before, but others may have chosen since
// then, and a model that many ask for at once would be loaded on every host.
func whereItComes(all []weighed, now float64) []weighed {
	coming := false
	for n := range all {
		i := all[n].instance
		if i.kept == nil || i.state == loaded && !i.isLeaving(now) {
			return all
		}
		coming = coming || i.isExpected(now)
	}
	if !coming {
		return all
	}
	return slices.DeleteFunc(all, func(w weighed) bool { return !w.instance.isExpected(now) })
}

// Explain returns the estimate of each instance, the one that would be chosen first, and
// changes nothing.
func (f *Fleet) Explain(from []*Instance, ask *Ask, now time.Time) []Estimate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(from) == 0 {
		return nil
	}
	all, least := f.weigh(from, ask, f.clock(now))
	next := nextInTurn(all)
	var shown []Estimate
	for n := range all {
		shown = append(shown, all[n].estimate(least))
	}
	slices.SortStableFunc(shown, func(a, b Estimate) int {
		switch {
		case a.Instance == b.Instance: // it was given twice
			return 0
		case a.Instance == next:
			return -1
		case b.Instance == next:
			return 1
		}
		return cmp.Compare(a.Cost, b.Cost)
	})
	return shown
}

// weigh finds the cost of each instance. The list is valid until it is called again.
func (f *Fleet) weigh(from []*Instance, ask *Ask, now float64) ([]weighed, work) {
	all := slices.Grow(f.weighed[:0], len(from))[:len(from)]
	f.weighed = all
	least, weights := work{need: math.Inf(1), load: math.Inf(1)}, 0.0
	m, tokens := matcher{prompt: ask.Prompt}, ask.tokens()
	for n, i := range from {
		w := &all[n]
		m.match(i)
		w.instance, w.depth, w.matched = i, m.depth, m.share
		w.need = requestTokens + tokens*max(1-m.share, leastShare)
		w.queue = i.host.wait(now)
		w.load, w.again = i.loadTime(now)
		if w.answer = 0; ask.ToAnswer {
			w.answer = i.model.lengths.expect(ask.Caller) * i.perOutput
		}
		least.need, least.load = min(least.need, w.need), min(least.load, w.load+w.again)
		w.weight = ask.weight(n)
		weights += w.weight
	}
	mean, blind, matched := weights/float64(len(from)), 0.0, 0.0
	for n := range all {
		w := &all[n]
		own := w.need*w.instance.perToken + w.load
		w.cost = own + price*w.avoidable(least) + w.answer
		blind += w.weight * (w.queue + own)
		matched += w.weight * w.matched
		if w.queue > 0 {
			w.cost += w.queue * mean / w.weight
		}
	}
	least.blind, least.blindMatched = blind/weights, matched/weights
	return all, least
}

// tokens returns how many tokens the prompt has, by the caller's guess if that can be true.
func (a *Ask) tokens() float64 {
	if tokens := sane(a.Tokens, mostTokens); tokens >= 0 {
		return tokens
	}
	return float64(a.Prompt.size) / bytesPerToken
}
