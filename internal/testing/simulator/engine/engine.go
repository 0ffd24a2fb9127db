// Package engine models an inference engine: a queue, prefills that take their time by
// the tokens that are not cached, a cache of blocks of prompts, answers that are written
// at a steady pace, slots, and models that must be loaded. The user of an Engine counts
// its time, and a simulation can run ahead; Live is an engine in real time.
package engine

import "slices"

// Spec describes an engine. Times are seconds.
type Spec struct {
	Block   int     // tokens of a block of the cache
	Cache   int     // tokens that the cache of a model holds
	Token   float64 // prefill of a token that is not cached
	Attend  float64 // prefill of such a token for each token before it
	Request float64 // prefill of a request, whatever its length
	Decode  float64 // between two tokens of an answer
	Width   int     // how many prefills share the engine
	// Slots is how many requests are being read and answered at a time; 0 is any number.
	Slots int
	// Drag is by how much each answer that is being written makes prefills slower.
	Drag float64
	// Crowd is by how much each other answer that is being written makes answers slower.
	Crowd float64
	// Room is how many models fit in the engine; 0 is all, without loading.
	Room int
	Load float64 // to load a model
	Wake float64 // to wake up from sleep
	// Keep is how long an unused model stays; 0 is for ever.
	Keep float64
	// Size is the reported size of a model in bytes.
	Size int
	// Insists says that a load goes on after its last request has left.
	Insists bool
}

// Job is one request.
type Job struct {
	Model  string
	Tokens int
	Blocks []uint64 // its full blocks; equal numbers are equal text with equal text before it
	// Cached is how many tokens came from the cache, Prefill how many seconds the others
	// take an engine that does nothing else, and Loading how many the model took before.
	// They are known when the prefill begins.
	Cached           int
	Prefill, Loading float64
	// Outputs is how many tokens the answer will have, for those who foresee; 0 is not known.
	Outputs int
	// LoadOnly says that the request only brings its model into memory. It ends by itself.
	LoadOnly bool
	// Keep is how long the model stays afterwards; 0 is as long as the engine keeps models,
	// below 0 for ever.
	Keep float64
	// Failed says that the model could not be loaded.
	Failed bool

	fault Fault
	wakes int     // how deeply the engine slept that the request wakes up
	due   float64 // when its model is loaded
	left  float64 // seconds of prefill, if it had the engine for itself
	stage stage
	first float64       // when its first token came
	ends  float64       // when its answer is complete, by Outputs and the pace at its first token
	ready chan struct{} // closed at its first token, in a Live engine
}

type stage uint8

const (
	waits stage = iota
	isLoading
	isRead
	isAnswered
	gone
)

// Totals count the work of an engine since it was made.
type Totals struct {
	Requests  int     // with a prefill that began
	Tokens    int     // of their prompts
	Cached    int     // of these, from the cache
	Outputs   int     // tokens that were written
	Prefill   float64 // seconds, if each had the engine for itself
	Loads     int     // models that were loaded, or began to be
	Evictions int     // models that were thrown out for another one
	Wakes     int     // how often it was woken up
}

// Engine takes requests in their order of arrival. It does nothing by itself: its user
// asks Next when the next first token comes, and calls First then.
type Engine struct {
	Totals

	spec      Spec
	slow      float64
	queue     []*Job
	loading   []*Job // waiting for their models, which are being loaded while others are read
	running   []*Job
	decoding  []*Job
	caches    map[string]*cache
	residents []*resident // the one used last at the end
	asleep    int         // how deeply: see Sleep
	fault     Fault
	clock     float64
	next      *Job // with the prefill or load that ends first
	due       float64
}

// New returns an engine with nothing in memory.
func New(spec Spec) *Engine {
	e := &Engine{spec: spec, slow: 1}
	e.Empty()
	return e
}

// Slow makes the engine slower by a factor, from the next prefill on.
func (e *Engine) Slow(factor float64) { e.slow = factor }

// Empty takes everything out of the engine: caches, models and requests. It returns the
// requests without a first token and the requests with an answer that is cut off.
func (e *Engine) Empty() (waiting, cut []*Job) {
	waiting, cut = slices.Concat(e.loading, e.running, e.queue), e.decoding
	for _, j := range slices.Concat(waiting, cut) {
		j.stage = gone
	}
	e.queue, e.loading, e.running, e.decoding, e.residents, e.next, e.asleep = nil, nil, nil, nil, nil, nil, 0
	e.caches = map[string]*cache{}
	return waiting, cut
}

// Waiting returns how many requests have no first token yet.
func (e *Engine) Waiting() int { return len(e.queue) + len(e.loading) + len(e.running) }

// Decoding returns how many answers are being written.
func (e *Engine) Decoding() int { return len(e.decoding) }

// Pace returns the seconds between two tokens of an answer.
func (e *Engine) Pace() float64 { return e.pace(len(e.decoding)) }

// pace returns the same while so many answers are being written.
func (e *Engine) pace(answers int) float64 {
	return e.spec.Decode * e.slow * (1 + e.spec.Crowd*float64(max(answers-1, 0)))
}

// prefill returns the seconds of a prefill while so many answers are being written.
func (e *Engine) prefill(tokens, cached, answers int) float64 {
	n, c := float64(tokens), float64(cached)
	seconds := e.spec.Request + (n-c)*e.spec.Token + (n*n-c*c)/2*e.spec.Attend
	return seconds * e.slow * (1 + e.spec.Drag*float64(answers))
}

// Used returns the share of the cache that is in use.
func (e *Engine) Used() float64 {
	used := 0
	for _, c := range e.caches {
		used += c.order.Len()
	}
	return float64(used) / float64(max(e.spec.Cache/e.spec.Block, 1)*max(len(e.caches), 1))
}

// Add gives the engine a request.
func (e *Engine) Add(j *Job, now float64) {
	e.advance(now)
	e.queue = append(e.queue, j)
	e.fill(false)
}

// Next returns the next event and its time: the first token of a request, or the end of a
// load that it waits for; nil if there is none.
func (e *Engine) Next() (j *Job, at float64) { return e.next, e.due }

// First lets the event of Next happen, at its time. It returns a request after its first
// token, which is being answered from then on, or one that has ended because it only
// loads or because its model could not be loaded. It returns nil if a load has ended and
// the prefill is still to come.
func (e *Engine) First() *Job {
	j := e.next
	e.advance(e.due)
	if j.stage == isLoading {
		return e.endLoad(j)
	}
	e.running = without(e.running, j)
	e.cache(j.Model).use(j.Blocks)
	j.stage, j.first = isAnswered, e.due
	e.decoding = append(e.decoding, j)
	j.ends = j.first + float64(j.Outputs)*e.Pace()
	e.fill(true)
	return j
}

// End says that an answer with so many tokens is complete, or that the client of the
// request has left. It does nothing for a request that the engine has lost.
func (e *Engine) End(j *Job, outputs int, now float64) {
	e.advance(now)
	changed := true
	switch j.stage {
	case waits:
		e.queue, changed = without(e.queue, j), false
	case isLoading:
		if e.spec.Insists {
			j.LoadOnly = true
			return
		}
		e.giveUpLoad(j)
	case isRead:
		e.running = without(e.running, j)
	case isAnswered:
		e.decoding, changed = without(e.decoding, j), false
		e.Outputs += outputs
		e.touch(j.Model)
	}
	j.stage = gone
	e.fill(changed)
}

// advance lets the running prefills share the time until now.
func (e *Engine) advance(now float64) {
	for _, j := range e.running {
		j.left -= (now - e.clock) / float64(len(e.running))
	}
	e.clock = now
}

// fill starts loads and prefills while there is room, and then finds the next event.
func (e *Engine) fill(changed bool) {
	for n := 0; n < len(e.queue); {
		j := e.queue[n]
		switch e.place(j) {
		case skip:
			n++
			continue
		case block:
			n = len(e.queue)
			continue
		case load:
			e.startLoad(j)
		case read:
			e.start(j)
		}
		e.queue, changed = slices.Delete(e.queue, n, n+1), true
	}
	if !changed {
		return
	}
	e.next = nil
	for _, j := range e.running {
		if e.next == nil || j.left < e.next.left {
			e.next = j
		}
	}
	if e.next != nil {
		e.due = e.clock + max(e.next.left, 0)*float64(len(e.running))
	}
	for _, j := range e.loading {
		if e.next == nil || j.due < e.due {
			e.next, e.due = j, max(j.due, e.clock)
		}
	}
}

// place is the next step for a request of the queue.
type place int

const (
	skip  place = iota // it waits, and later requests may start
	block              // it waits, and later requests too
	load
	read
)

// place returns the next step for a request of the queue.
func (e *Engine) place(j *Job) place {
	isLoading, isThere := e.has(j.Model)
	switch {
	case e.asleep != 0 && !j.LoadOnly, isLoading:
		return skip
	case e.asleep != 0, isThere && j.LoadOnly:
		return load
	case !isThere && !e.hasRoom():
		return block
	case !isThere && e.spec.Room > 0:
		return load
	case len(e.running) >= max(e.spec.Width, 1), e.spec.Slots > 0 && len(e.running)+len(e.decoding) >= e.spec.Slots:
		return block
	}
	return read
}

// start begins the prefill of a request.
func (e *Engine) start(j *Job) {
	e.bring(j)
	c := e.cache(j.Model)
	n := c.match(j.Blocks)
	c.use(j.Blocks[:n])
	j.Cached = e.cached(j, n)
	j.Prefill = e.prefill(j.Tokens, j.Cached, len(e.decoding))
	j.left, j.stage = j.Prefill, isRead
	e.running = append(e.running, j)
	e.Requests++
	e.Tokens += j.Tokens
	e.Cached += j.Cached
	e.Prefill += j.left
}

// cached returns how many tokens of a request so many blocks of the cache save.
func (e *Engine) cached(j *Job, blocks int) int { return max(min(blocks*e.spec.Block, j.Tokens-1), 0) }

func (e *Engine) cache(model string) *cache {
	if e.caches[model] == nil {
		e.caches[model] = newCache(e.spec.Cache / e.spec.Block)
	}
	return e.caches[model]
}

func without(all []*Job, j *Job) []*Job {
	return slices.DeleteFunc(all, func(other *Job) bool { return other == j })
}
