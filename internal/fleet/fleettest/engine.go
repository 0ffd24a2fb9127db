package fleettest

import "container/list"

// Engines are the instances of a simulated fleet, all alike but for what is said here.
// Times are seconds of virtual time.
type Engines struct {
	Number  int
	Block   int     // tokens of a block of the cache
	Cache   int     // tokens that the cache of a model holds
	Token   float64 // prefill of a token that is not cached
	Request float64 // prefill of a request, whatever its length
	Decode  float64 // between two tokens of an answer
	Width   int     // how many prefills share the engine
	// Drag is by how much each answer that is being written makes prefills slower.
	Drag float64
	// Slow makes engines slower by a factor.
	Slow map[int]float64
	// Room is how many models fit in an engine; 0 is all, without loading.
	Room int
	// Models are those that gateways are configured with; others are added when they are
	// asked for.
	Models []string
	Load   float64 // to load a model
	// Secretive says that engines do not tell how large their caches are.
	Secretive bool
	// Outages are when engines are gone. They come back with nothing in memory.
	Outages []Outage
}

// Outage is a time in which an engine is gone.
type Outage struct {
	Engine     int
	From, Till float64
}

// Standard returns eight engines whose seconds are those of the yardstick.
func Standard() Engines {
	return Engines{Number: 8, Block: 512, Cache: 1_228_800, Token: 0.00016, Request: 0.04, Decode: 0.02, Width: 1, Load: 20}
}

// Faster returns the engines with another prefill of a token.
func (e Engines) Faster(token float64) Engines {
	e.Token = token
	return e
}

// engine is one instance: requests are taken in the order in which they came.
type engine struct {
	spec     *Engines
	slow     float64
	up       bool
	epoch    int
	queue    []*Request
	running  []*prefill
	decoding map[*Request]bool
	caches   map[string]*cache
	models   []string // in memory, the one used last at the end
	clock    float64
	alarm    int // the number of the event that is to be the next first token; 0 is none
	loads    int
	cut      int
	busy     float64
}

// prefill is a request that is being read by an engine.
type prefill struct {
	request *Request
	left    float64 // seconds, if it had the engine for itself
}

func newEngine(spec *Engines, number int) *engine {
	e := &engine{spec: spec, slow: 1, up: true}
	if factor, differs := spec.Slow[number]; differs {
		e.slow = factor
	}
	e.empty()
	return e
}

// empty takes everything out of the engine.
func (e *engine) empty() {
	e.queue, e.running, e.models, e.alarm = nil, nil, nil, 0
	e.decoding, e.caches = map[*Request]bool{}, map[string]*cache{}
}

// advance lets the running prefills share the time until now.
func (e *engine) advance(now float64) {
	for _, p := range e.running {
		p.left -= (now - e.clock) / float64(len(e.running))
	}
	e.clock = now
}

// next returns the prefill that ends first, and when.
func (e *engine) next() (first *prefill, at float64) {
	for _, p := range e.running {
		if first == nil || p.left < first.left {
			first = p
		}
	}
	return first, e.clock + max(first.left, 0)*float64(len(e.running))
}

// start takes the next request out of the queue.
func (e *engine) start() {
	r := e.queue[0]
	e.queue = e.queue[1:]
	load := e.load(r.Model)
	c := e.cache(r.Model)
	n := c.match(r.Blocks)
	c.use(r.Blocks[:n])
	r.Cached = min(n*e.spec.Block, r.Tokens-1)
	took := (e.spec.Request + float64(r.Tokens-r.Cached)*e.spec.Token) * e.slow
	took = took*(1+e.spec.Drag*float64(len(e.decoding))) + load
	e.busy += took
	e.running = append(e.running, &prefill{r, took})
}

// load brings a model into memory and returns how long that takes.
func (e *engine) load(model string) (seconds float64) {
	for n, name := range e.models {
		if name == model {
			e.models = append(append(e.models[:n:n], e.models[n+1:]...), model)
			return 0
		}
	}
	e.models = append(e.models, model)
	if e.spec.Room == 0 {
		return 0
	}
	if len(e.models) > e.spec.Room {
		delete(e.caches, e.models[0])
		e.models = e.models[1:]
	}
	e.loads++
	return e.spec.Load
}

func (e *engine) cache(model string) *cache {
	if e.caches[model] == nil {
		e.caches[model] = newCache(e.spec.Cache / e.spec.Block)
	}
	return e.caches[model]
}

// cache keeps the blocks that were used last, the start of a prompt longer than its end.
type cache struct {
	most  int
	order *list.List // the newest in front
	at    map[uint64]*list.Element
}

func newCache(most int) *cache {
	return &cache{most: most, order: list.New(), at: map[uint64]*list.Element{}}
}

// match returns how many of the blocks are there from the first on.
func (c *cache) match(blocks []uint64) (n int) {
	for n < len(blocks) && c.at[blocks[n]] != nil {
		n++
	}
	return n
}

func (c *cache) use(blocks []uint64) {
	for n := len(blocks) - 1; n >= 0; n-- {
		if at := c.at[blocks[n]]; at != nil {
			c.order.MoveToFront(at)
		} else {
			c.at[blocks[n]] = c.order.PushFront(blocks[n])
		}
	}
	for c.order.Len() > c.most {
		delete(c.at, c.order.Remove(c.order.Back()).(uint64))
	}
}
