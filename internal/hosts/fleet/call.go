package fleet

import "time"

// Ask is a request that needs an instance.
type Ask struct {
	Prompt *Prompt
	// Tokens is how many tokens the prompt has by the caller's guess. A guess that is
	// always wrong by the same factor does no harm: speeds are learned in such tokens.
	Tokens float64
	// Whole says that the answer is written token by token and comes in one piece:
	// First is never called. It is false for answers that are not written, such as
	// vectors.
	Whole bool
	// ToAnswer asks for the least time to the end of the answer instead of its first token.
	// Caller names who asks: the lengths of answers are learned by caller.
	ToAnswer bool
	Caller   string
	// Weights are the weights of the instances to choose from, in their order; nil
	// means that all are equal. They belong to the choice: one instance may serve
	// several pools.
	Weights []float64
}

const (
	leastWeight = 0.001
	mostWeight  = 1e6
)

// weight returns the weight of the instance at a position.
func (a *Ask) weight(position int) float64 {
	if a.Weights == nil {
		return 1
	}
	weight := a.Weights[position]
	if !(weight >= leastWeight) { // no comparison holds for NaN
		return leastWeight
	}
	return min(weight, mostWeight)
}

// Call is one request on its way to the instance that was chosen. First and then End, or
// Abort, tell it how the request goes.
type Call struct {
	// Instance is the one that was chosen.
	Instance *Instance
	// Estimate is the expectation when it was chosen.
	Estimate Estimate

	uses    *Uses // that count it, nil if nobody does
	counted stage // as which they do
	stage   stage
	epoch   int32
	whole   bool
	cold    bool    // it found a model that was not loaded: it says nothing about speed
	sent    float64 // when
	first   float64 // when its first token came
	isSeen  bool    // the first token was seen to come
	tokens  float64 // of the prompt
	need    float64 // tokens of prefill
	takes   float64 // seconds for these
	ahead   float64 // the same, with those in front of it
	depth   int     // blocks that were believed to be cached
	size    int64   // bytes of the prompt
	claimed float64 // seconds of work that only the host told of
	caller  string  // whose answers have a length to learn
	counts  bool    // the length of its answer is learned
}

// stage is how far a call has come.
type stage uint8

const (
	waits stage = iota // for its first token
	decodes
	ended
)

// begin makes a call to the chosen instance. It counts at once: the next choice
// sees it.
func (f *Fleet) begin(chosen *weighed, least work, ask *Ask, now float64) *Call {
	i := chosen.instance
	c := &Call{
		Instance: i, Estimate: chosen.estimate(least),
		epoch: i.host.epoch, whole: ask.Whole, sent: now, tokens: ask.tokens(),
		need: chosen.need, takes: chosen.need * i.perToken, depth: chosen.depth, size: ask.Prompt.size,
		ahead:   chosen.queue/i.perToken + chosen.need,
		claimed: i.host.told.work(now),
		cold:    chosen.load > 0 || i.host.cold > 0,
		counts:  ask.ToAnswer, caller: ask.Caller,
	}
	i.askedFor(now)
	i.host.enqueue(c)
	i.pending += c.need
	i.waiting++
	i.typical += (c.need - i.typical) / 16
	f.record(i, ask.Prompt)
	return c
}

// record takes down which blocks the instance will have, here and for other gateways. A
// hint is sent to them where the prompt has no blocks. A prompt that was read with
// another secret is left out: see SetSecret.
func (f *Fleet) record(i *Instance, prompt *Prompt) {
	if *prompt.secret != *f.secret.Load() {
		return
	}
	f.hold(i, prompt.blocks)
	f.news.add(i, prompt.blocks)
	if prompt.hint != 0 {
		hint := [...]Block{prompt.hint}
		f.hold(i, hint[:])
		if len(prompt.blocks) == 0 {
			f.news.add(i, hint[:])
		}
	}
}

// hold puts blocks into the index of an instance, unless it was removed.
func (f *Fleet) hold(i *Instance, blocks []Block) {
	if i.isIndexed() {
		i.model.index.use(int(i.position), blocks, f.maxBlocks(i.model.index.words))
	}
}

// leave takes the call out of the queue.
func (c *Call) leave() {
	i := c.Instance
	i.host.dequeue(c)
	i.pending = max(i.pending-c.need, 0)
	i.waiting--
}

// CountIn makes some Uses count the call, even if its host loses its caches. Calls of
// an instance may be counted apart from each other.
func (c *Call) CountIn(u *Uses) {
	if u == nil {
		return
	}
	f := c.Instance.host.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	c.uses = u
	u.waiting++
}

// count moves the call to a stage in the counters.
func (c *Call) count(to stage) {
	if c.uses == nil || c.counted >= to {
		return
	}
	if c.counted == waits {
		c.uses.waiting--
	} else {
		c.uses.decoding--
	}
	if c.counted = to; to == decodes {
		c.uses.decoding++
	}
}

// decode moves the call from the queue to the calls that are being answered.
func (c *Call) decode() {
	c.leave()
	c.stage = decodes
	c.count(decodes)
	c.Instance.decoding++
}

// First says that the first content of the answer has come: text, reasoning or a call of
// a tool, not an event that says only that the answer begins.
func (c *Call) First(now time.Time) {
	f, at := c.Instance.lock(now)
	defer f.mu.Unlock()
	c.count(decodes)
	if c.stage != waits || c.epoch != c.Instance.host.epoch {
		return
	}
	c.Instance.host.worked(at)
	c.decode()
	c.first, c.isSeen = at, true
	c.learn(at-c.sent, 0, 0)
}

// Answer holds the numbers that an answer has told about itself. A number below
// zero was not told.
type Answer struct {
	// PromptTokens and CachedTokens are the tokens of the prompt and of its cached
	// part, by the backend's count.
	PromptTokens, CachedTokens int
	// OutputTokens is how many tokens were written.
	OutputTokens int
	// Prefill is the time that the backend says it worked on the part that was not
	// cached.
	Prefill time.Duration
}

// End says that the answer is complete.
func (c *Call) End(answer Answer, now time.Time) {
	f, at, isOpen := c.lockAtEnd(now)
	defer f.mu.Unlock()
	if !isOpen {
		return
	}
	i := c.Instance
	outputs := float64(max(answer.OutputTokens, 0))
	if !c.isSeen {
		c.learn(at-c.sent, outputs, answer.Prefill.Seconds())
	} else if outputs > 1 && at > c.first {
		i.speed.decode.learn(at-c.first, outputs-1)
	}
	if c.counts && outputs > 0 {
		i.model.lengths.learn(c.caller, outputs)
		i.model.learnedAnswers()
	}
	i.calibrate(c, answer)
	if c.uses != nil {
		c.uses.note(c, answer, at)
	}
	c.finish(at)
}

// Abort says that the request was not sent, failed or was given up. It teaches nothing. A nil
// Call has nothing to give up.
//
// The prompt stays in the index: an engine that was sent it may have read it, and one that
// was not reads it for the next request that begins alike, because the index sends that one
// there. This costs one prefill at most, and the engine's next report of its cache corrects
// the index.
func (c *Call) Abort(now time.Time) {
	if c == nil {
		return
	}
	f, at, isOpen := c.lockAtEnd(now)
	defer f.mu.Unlock()
	if !isOpen {
		return
	}
	c.finish(at)
	if i := c.Instance; c.cold && i.state == loading && i.waiting == 0 && !i.isOrdered() {
		i.state = absent
	}
}

// GiveUp says that the call was given up because another instance answered sooner. How long
// it would have taken is not known. A call that took longer than expected counts as half
// done. Otherwise a slow instance would look faster than it is for as long as others answer
// in its place. A nil Call has nothing to give up.
func (c *Call) GiveUp(now time.Time) {
	if c == nil {
		return
	}
	f, at, isOpen := c.lockAtEnd(now)
	defer f.mu.Unlock()
	if !isOpen {
		return
	}
	if took := at - c.sent; c.stage == waits && !c.whole && took > c.Estimate.Expected {
		c.learn(2*took, 0, 0)
	}
	c.finish(at)
}

// lockAtEnd locks the fleet for the end of the call, which the counters see. isOpen is false if the
// call has ended already, or its host has lost it.
func (c *Call) lockAtEnd(now time.Time) (f *Fleet, at float64, isOpen bool) {
	f, at = c.Instance.lock(now)
	c.count(ended)
	return f, at, c.stage != ended && c.epoch == c.Instance.host.epoch
}

// finish ends the call in the books.
func (c *Call) finish(now float64) {
	if c.stage == waits {
		if c.Instance.host.queue[0] == c {
			c.Instance.host.worked(now)
		}
		c.leave()
	} else {
		c.Instance.decoding--
		if !c.isSeen {
			c.Instance.host.unsettle(c)
		}
	}
	c.stage = ended
}

// learn takes the time that the call took: until its first token, or for all of its
// answer where that came whole. The backend's own word on its prefill counts for more.
func (c *Call) learn(seconds, outputs, prefill float64) {
	i := c.Instance
	i.host.fleet.judge(c, seconds)
	i.answered(seconds-(c.Estimate.Expected-c.Estimate.Load)-outputs*i.speed.decode.value(), c.Estimate.Load > 0)
	switch {
	case prefill > 0:
		i.speed.learnFirst(prefill, c.need)
	case c.cold || seconds <= 0:
		return
	default:
		i.speed.learnWhole(seconds, c.ahead, outputs, i.perToken)
	}
	i.model.learned()
}
