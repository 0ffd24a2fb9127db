// Package cachestep is the step that answers requests from the cache of answers, and fills
// it.
package cachestep

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache/flight"
)

// Cache is the cache of answers.
type Cache struct {
	store   answercache.Store
	policy  atomic.Pointer[policy]
	writers sync.Pool // of *keyWriter
	// failed receives failures of the store; nil for nobody.
	failed  func(error)
	flights *flight.Table
	counts  [schema.ServiceTypeCount][metrics.CachedCount]metrics.Counter
}

// policy is the settings, compiled.
type policy struct {
	answercache.Settings
	services [schema.ServiceTypeCount]bool
	keys     map[string]bool
}

// New returns a cache in front of a store. The function failed, which may be nil, receives
// each failure of the store; requests go on without it.
func New(store answercache.Store, settings answercache.Settings, failed func(error)) *Cache {
	if failed == nil {
		failed = func(error) {}
	}
	c := &Cache{store: store, failed: failed, writers: sync.Pool{New: newKeyWriter},
		flights: flight.NewTable(flight.Limits{})}
	c.Set(settings)
	return c
}

// Set changes the settings: the requests with kept answers, and their time.
func (c *Cache) Set(settings answercache.Settings) {
	p := &policy{Settings: settings, keys: make(map[string]bool, len(settings.Keys))}
	for _, service := range settings.Services {
		p.services[service] = true
	}
	for _, key := range settings.Keys {
		p.keys[key] = true
	}
	c.flights.Set(flight.Limits{Answer: int(settings.MaxAnswer), All: int64(settings.MaxBytes)})
	c.policy.Store(p)
	if memory := c.memory(); memory != nil {
		memory.Set(settings)
	}
}

// memory returns the store if it is the memory of this process, otherwise nil.
func (c *Cache) memory() *answercache.Memory {
	memory, _ := c.store.(*answercache.Memory)
	return memory
}

// Settings returns the settings in force.
func (c *Cache) Settings() answercache.Settings { return c.policy.Load().Settings }

// IsOn reports whether answers of a service type are kept for all callers.
func (c *Cache) IsOn(service schema.ServiceType) bool { return c.policy.Load().services[service] }

// IsSingleFlight reports whether equal requests of a service type that are in flight share
// one call.
func (c *Cache) IsSingleFlight(service schema.ServiceType) bool {
	return c.policy.Load().SingleFlight && answercache.Cacheable(service)
}

// Status counts the kept answers. The numbers of answers are 0 for a shared store.
type Status struct {
	Enabled bool  `json:"enabled"`
	Shared  bool  `json:"shared" doc:"Whether the answers are in Redis; the numbers are 0 then."`
	Answers int   `json:"answers" doc:"How many are kept."`
	Bytes   int64 `json:"bytes"`
	Evicted int64 `json:"evicted" doc:"How many gave way to others since the start."`

	SingleFlight bool `json:"singleFlight" doc:"Whether equal requests in flight share one call."`
	Flights      int  `json:"flights" doc:"How many calls others may share now."`
	Followers    int  `json:"followers" doc:"How many requests share the call of another one now."`
}

// Status returns how much is kept.
func (c *Cache) Status() Status {
	p := c.policy.Load()
	s := Status{Enabled: p.Keeps(), Shared: c.memory() == nil}
	if memory := c.memory(); memory != nil {
		s.Answers, s.Bytes, s.Evicted = memory.Size()
	}
	inFlight := c.flights.Status()
	s.SingleFlight, s.Flights, s.Followers = p.SingleFlight, inFlight.Flights, inFlight.Followers
	return s
}

// Clear removes all answers.
func (c *Cache) Clear(ctx context.Context) error { return c.store.Clear(ctx) }

// Keep removes the answers of pools that a new table does not have, or that have other
// settings in it. A shared store keeps these answers until they expire, but nobody finds
// them.
func (c *Cache) Keep(table *routing.Table) {
	memory := c.memory()
	if memory == nil || !c.policy.Load().Keeps() {
		return
	}
	pools := map[answercache.Key]bool{}
	for _, pool := range table.Pools() {
		if answercache.Cacheable(pool.Service.Type) {
			pools[pool.Fingerprint()] = true
		}
	}
	memory.KeepOnly(pools)
}

// note records what the cache did with a request.
func (c *Cache) note(r *account.Account, what metrics.Cached) {
	r.Record.Cache, r.Record.Also = what, &c.counts[r.Asks.Service][what]
}

// State adds the counts of requests to a scrape.
func (c *Cache) State(to *metrics.State) {
	for service := range c.counts {
		if !answercache.Cacheable(schema.ServiceType(service)) {
			continue
		}
		for what := metrics.CacheHit; int(what) < metrics.CachedCount; what++ {
			to.Count("model_router_answer_cache_requests_total", c.counts[service][what].Value(),
				schema.ServiceType(service).String(), what.String())
		}
	}
}

// Step answers a request with the kept answer to the same request, or with the answer that
// the same request is getting, or keeps its answer.
func (c *Cache) Step(ctx context.Context, r *account.Account) (account.Answer, error) {
	p := c.policy.Load()
	service := r.Asks.Service
	keeps := p.services[service] || p.keys[r.Caller.KeyID] && answercache.Cacheable(service)
	shares := p.SingleFlight && answercache.Cacheable(service)
	// Its answers depend on the whole conversation.
	if !keeps && !shares || r.IsUnpaid() && p.ChargeHits || r.Asks.Uncounted || r.Asks.Door == schema.DoorRealtime {
		return r.Next(ctx)
	}
	if r.NoStore || !isDeterministic(r) || !isSelfContained(r) {
		c.note(r, metrics.CacheBypass)
		return r.Next(ctx)
	}
	a := asked{cache: c, policy: p, request: r, key: c.keyOf(r), keeps: keeps}
	if keeps {
		kept, err := c.store.Get(ctx, a.key)
		if err != nil && ctx.Err() == nil {
			c.failed(err)
		}
		if kept != nil {
			c.note(r, metrics.CacheHit)
			a.price()
			return &hit{Answer: kept, usage: a.asHit(kept.Usage)}, nil
		}
	}
	if shares {
		return a.share(ctx)
	}
	return a.ask(ctx)
}

// asked is a request without a kept answer.
type asked struct {
	cache   *Cache
	policy  *policy
	request *account.Account
	key     answercache.Key
	keeps   bool
}

// price sets the cost of an answer that took no call.
func (a *asked) price() {
	if a.policy.ChargeHits {
		a.request.ServeBy(a.request.Pool)
	}
}

// asHit returns how such an answer counts: all tokens of its prompt as cached ones, unless it
// costs as much as any other.
func (a *asked) asHit(usage schema.Usage) schema.Usage {
	if !a.policy.ChargeHits {
		usage.Cached = usage.Prompt
	}
	return usage
}

// ask makes a call of its own.
func (a *asked) ask(ctx context.Context) (account.Answer, error) {
	a.cache.note(a.request, metrics.CacheMiss)
	answer, err := a.request.Next(ctx)
	if err != nil {
		return nil, err
	}
	return a.record(ctx, answer), nil
}

// share joins the call of an equal request if there is one in flight. Otherwise it makes a
// call that others may follow.
func (a *asked) share(ctx context.Context) (account.Answer, error) {
	f, isFirst := a.cache.flights.Board(ctx, a.key, a.request.Class)
	if !isFirst {
		a.cache.note(a.request, metrics.CacheShared)
		answer, err := f.Follow(ctx, a.asHit, a.request.Notify)
		switch {
		case errors.Is(err, flight.ErrNotShared):
			return a.ask(ctx)
		case err == nil:
			a.price()
		}
		return answer, err
	}
	a.cache.note(a.request, metrics.CacheMiss)
	hasFallbacks := a.request.Pool.HasFallbacks
	a.request.Notify = f.Notified(a.request.Notify)
	return f.Lead(flight.Call{
		RequestID: a.request.Caller.RequestID,
		Next:      a.request.Next,
		IsOwn: func(err error) bool {
			// The rights of the caller decide which models may take over, and thereby the answer.
			return a.request.Record.Fallbacks > 0 || err != nil && (hasFallbacks || !isSameForAll(err))
		},
		Wrap: a.record,
	})
}

// isSameForAll reports whether an error is about the model or its backends: every caller
// would get it. A place in the queue is the caller's own.
func isSameForAll(err error) bool {
	var known *schema.Error
	if !errors.As(err, &known) {
		return false
	}
	switch known.Code {
	case schema.CodeUpstreamError, schema.CodeUpstreamTimeout, schema.CodeUpstreamTruncated,
		schema.CodeUpstreamRateLimit, schema.CodeUpstreamAuth,
		schema.CodeServiceUnavailable, schema.CodeCircuitBreakerOpen, schema.CodeInvalidValue:
		return true
	}
	return false
}

// record returns the answer as one that is kept when it is complete, if answers are.
func (a *asked) record(ctx context.Context, answer account.Answer) account.Answer {
	switch {
	case a.request.Record.Fallbacks > 0:
		a.cache.note(a.request, metrics.CacheBypass)
		return answer
	case !a.keeps:
		return answer
	}
	form := answer.Form()
	return &recording{Answer: answer, cache: a.cache, ctx: ctx, key: a.key, most: int(a.policy.MaxAnswer),
		of: a.request.Record, kept: &answercache.Answer{
			ContentType: form.ContentType, Events: form.Events, Framed: form.Framed, Pool: a.request.Pool.Fingerprint(),
		}}
}

// hit is an answer from the cache.
type hit struct {
	*answercache.Answer
	usage schema.Usage
	at    int // how many parts were read
}

// Form implements account.Answer.
func (h *hit) Form() account.Form {
	form := account.Form{ContentType: h.ContentType, Length: len(h.Data), Events: h.Events, Framed: h.Framed}
	if h.Events {
		form.Length = -1
	}
	return form
}

// Next implements account.Answer.
func (h *hit) Next() ([]byte, error) {
	if h.at == len(h.Ends) {
		return nil, io.EOF
	}
	from := 0
	if h.at > 0 {
		from = h.Ends[h.at-1]
	}
	h.at++
	return h.Data[from:h.Ends[h.at-1]:h.Ends[h.at-1]], nil
}

// IsComplete implements account.Answer.
func (h *hit) IsComplete() bool { return h.at == len(h.Ends) }

// Usage implements account.Answer.
func (h *hit) Usage() schema.Usage { return h.usage }

// recording is an answer that is kept when it is complete.
type recording struct {
	account.Answer
	cache *Cache
	ctx   context.Context //nolint:containedctx // it lives as long as the request
	key   answercache.Key
	most  int
	of    *calls.Record
	kept  *answercache.Answer // nil if it is not kept
}

// Next implements account.Answer.
func (r *recording) Next() ([]byte, error) {
	part, err := r.Answer.Next()
	switch {
	case r.kept == nil:
	case errors.Is(err, io.EOF):
		r.keep()
	case err != nil, len(r.kept.Data)+len(part) > r.most:
		r.kept = nil
	default:
		r.kept.Data = append(r.kept.Data, part...)
		r.kept.Ends = append(r.kept.Ends, len(r.kept.Data))
	}
	return part, err
}

func (r *recording) keep() {
	kept := r.kept
	r.kept = nil
	if r.of.Fallbacks > 0 {
		return // another model went on with it
	}
	kept.Data, kept.Ends, kept.Usage = slices.Clone(kept.Data), slices.Clone(kept.Ends), r.Usage()
	if err := r.cache.store.Put(r.ctx, r.key, kept); err != nil && r.ctx.Err() == nil {
		r.cache.failed(err)
	}
}
