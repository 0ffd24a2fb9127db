// Package routing compiles the written configuration into the table that requests
// are routed by. A table never changes; a new configuration makes a new one and
// keeps the state of instances that still exist.
package routing

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/hedge"
	"github.com/patchbay-ai/patchbay/internal/route/policy"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
)

// Table is a compiled configuration.
type Table struct {
	Limits policy.Limits
	// Currency is the currency of the prices.
	Currency string
	// UnknownModel is the status of requests for a model that no instance serves.
	UnknownModel int

	// services has nil for service types that are not configured.
	services   [schema.ServiceTypeCount]*Service
	configured []*Service
	found      *Found
	sources    []*Source
	entries    []Model // one for each model of each service type
}

// Since says when the instances of each service type were added, by their
// identifiers.
type Since map[schema.ServiceType]map[string]time.Time

// Service is one service type of a table.
type Service struct {
	Type   schema.ServiceType
	Policy policy.Service
	// Limiter covers the whole service type; it exists whether or not it is on.
	Limiter *ratelimit.Limiter
	// Pools are sorted by their models.
	Pools []*Pool
	// Changes counts events that may make an instance unready.
	Changes *backend.Changes

	byModel map[string]*Pool // aliases included, but for patterns
	// unlisted are found models by names that leave out the day, and by their files.
	unlisted map[string]*Pool
	// rewrites are the aliases that are patterns.
	rewrites naming.Rewrites
	// fallbacks are the fallbacks of each model, none where fallsBackOn has no reason
	// for them.
	fallbacks   map[string][]Fallback
	fallsBackOn [naming.ReasonCount]bool
	byID        map[string]*backend.Instance
}

// Pool is the instances that serve one model of a service type.
type Pool struct {
	Service   *Service
	Model     string
	Instances []*backend.Instance
	Balancer  balance.Balancer
	// Soonest is the balancer where it has to learn how calls go, else nil.
	Soonest  *balance.Soonest
	Strategy string // the name of the balancer's strategy, for records
	// Price is the price of the model, nil where it has none.
	Price *prices.Price
	// Limiter covers this model; it exists whether or not it is on.
	Limiter *ratelimit.Limiter
	// Queue is where requests wait while all slots of the pool are taken.
	Queue *queue.Queue
	// Splits means that several instances may share one request.
	Splits bool
	// Watch knows how long calls take, nil where they are not hedged.
	Watch *hedge.Watch

	// latestTag is a tag that callers may write behind the name; empty if there is
	// none. undated are the endings that they may write in place of its day.
	latestTag string
	undated   []string
	files     []string // names that its backends list, where those are files
	// HasFallbacks means that other models may take over from this one.
	HasFallbacks bool
	// Kept means that models of instances are loaded for requests and put to sleep.
	Kept bool
	// Tiered means that the instances are not all of the same tier.
	Tiered bool
	// Eligible are the instances that get traffic while they are well. Barriers has the
	// Obstacle of each of the others, by Instance.Position, as far as the configuration
	// decides it: see Instance.Barred, and Standby where a lower tier has eligible
	// instances. Obstacles that come and go, such as an open breaker, are found when a
	// request is routed (package proxy, survey). Nobody may change these lists.
	Eligible []*backend.Instance
	Barriers []backend.Obstacle
	// Barred counts the instances by their Barriers, NoObstacle included.
	Barred      [backend.Obstacles]uint16
	fingerprint func() [sha256.Size]byte
	// narrowest is the smallest context window that is known of an instance that gets traffic, 0 if
	// none is, and isEven means that all of them have that one.
	narrowest atomic.Int64
	isEven    atomic.Bool
	// readyAt is one more than the count of changes when all eligible instances were
	// found ready; 0 where that is not known.
	readyAt atomic.Uint64
}

// Fingerprint identifies what answers for the pool: service type, model, settings of instances, the
// paths of LoRA adapters and the programs of processes. It is the same in all gateways that have
// the same settings.
func (p *Pool) Fingerprint() [sha256.Size]byte { return p.fingerprint() }

func (p *Pool) makeFingerprint() [sha256.Size]byte {
	list := make([]any, 0, 2*len(p.Instances)+2)
	list = append(list, p.Service.Type.String(), p.Model)
	for _, i := range p.Instances {
		list = append(list, i.Kind.Name, i.Settings)
		if lora := i.Settings.LoRA; lora != nil {
			list = append(list, lora.Base, lora.Path)
		}
		if process := i.Process(); process != nil {
			list = append(list, process.Program())
		}
	}
	text, err := json.Marshal(list, json.Deterministic(true))
	if err != nil {
		text = []byte(rand.Text()) // settings that cannot be written are like no others
	}
	return sha256.Sum256(text)
}

// Pools returns every pool of the table.
func (t *Table) Pools() []*Pool {
	var all []*Pool
	for _, s := range t.configured {
		all = append(all, s.Pools...)
	}
	return all
}

// AllReady reports whether all eligible instances were found ready and nothing has
// changed since.
func (p *Pool) AllReady() bool {
	return p.readyAt.Load() == p.Service.Changes.Count()+1
}

// FoundAllReady notes that all eligible instances were found ready, after the count of
// changes was read and before an uncounted event can make one of them unready.
func (p *Pool) FoundAllReady(changes uint64) { p.readyAt.Store(changes + 1) }

// ForgetAllReady makes the next request look at every instance again.
func (p *Pool) ForgetAllReady() { p.readyAt.Store(0) }

// listEligible lists the instances that get traffic while all are well: of the instances
// that the configuration does not bar, the ones of the lowest tier.
func (p *Pool) listEligible() {
	p.Barriers = make([]backend.Obstacle, len(p.Instances))
	for n, i := range p.Instances {
		p.Tiered = p.Tiered || i.Settings.Tier != p.Instances[0].Settings.Tier
		if p.Barriers[n] = i.Barred(); p.Barriers[n] == backend.NoObstacle {
			p.Eligible = append(p.Eligible, i)
		}
	}
	if p.Tiered {
		var standby []*backend.Instance
		p.Eligible, standby = LowestTier(p.Eligible, nil)
		for _, i := range standby {
			p.Barriers[i.Position] = backend.Standby
		}
	}
	for _, barrier := range p.Barriers {
		p.Barred[barrier]++
	}
}

// LowestTier splits a list of instances into its lowest tier and the others, and appends
// the latter to a list. Both keep their order, and the first takes over the memory of
// the whole.
func LowestTier(all, others []*backend.Instance) (lowest, rest []*backend.Instance) {
	if len(all) == 0 {
		return all, others
	}
	tier := all[0].Settings.Tier
	for _, i := range all[1:] {
		tier = min(tier, i.Settings.Tier)
	}
	lowest = all[:0]
	for _, i := range all {
		if i.Settings.Tier == tier {
			lowest = append(lowest, i)
		} else {
			others = append(others, i)
		}
	}
	return lowest, others
}

// Names returns the names that callers can ask for: of models and aliases.
func (s *Service) Names() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.byModel))
}

// Compile makes the table of a policy. The previous table, which may be nil,
// lends its living state to the instances that are still there. Since, which may
// be nil too, knows instances that are older than the program.
func Compile(from *policy.Policy, previous *Table, since Since) (*Table, error) {
	now := time.Now()
	t := &Table{
		Limits: from.Limits, Currency: from.Prices.Currency, UnknownModel: from.UnknownModel, found: new(Found),
	}
	if previous != nil {
		t.found = previous.found
	}
	list := prices.Compile(from.Prices)
	for _, serviceType := range schema.ServiceTypes() {
		if _, configured := from.Services[serviceType]; !configured {
			continue
		}
		var old *Service
		if previous != nil {
			old = previous.services[serviceType]
		}
		s, err := t.compileService(serviceType, from, old, now)
		if err != nil {
			return nil, fmt.Errorf("services.%s: %w", serviceType, err)
		}
		for _, pool := range s.Pools {
			pool.setPrice(list.Of(append([]string{pool.Model}, pool.files...)...))
		}
		t.services[serviceType], t.configured = s, append(t.configured, s)
	}
	t.entries = t.listEntries(since)
	return t, nil
}

func (t *Table) compileService(
	serviceType schema.ServiceType, from *policy.Policy, old *Service, now time.Time,
) (*Service, error) {
	written := from.Services[serviceType]
	s := &Service{
		Type: serviceType, Policy: written,
		byModel: map[string]*Pool{}, unlisted: map[string]*Pool{},
		byID: make(map[string]*backend.Instance, len(written.Instances)),
	}
	if old != nil {
		s.Limiter, s.Changes = old.Limiter, old.Changes
	} else {
		s.Changes = new(backend.Changes)
		s.Limiter = ratelimit.New(scoped(written.RateLimit, ratelimit.PerService), now)
	}
	shared := backend.Policy{
		Adapter:  written.Adapter,
		Breaker:  written.CircuitBreaker,
		Limit:    written.RateLimit,
		Timeouts: written.Timeouts.Or(from.Limits.Timeouts()),
		Changes:  s.Changes,

		MendToolArguments: written.MendToolArguments,
		Resolve:           from.Resolve,
		Proxies:           transport.EnvironmentProxies(),
		Processes:         from.Processes,
	}
	loras := from.LoRAs
	for n, settings := range written.Instances {
		instances := []backend.Settings{settings}
		var source *Source
		if settings.Models.Given() {
			source = &Source{Settings: settings, Service: s, policy: shared}
			t.sources = append(t.sources, source)
			instances = t.instancesOf(source, loras)
		}
		for _, settings := range instances {
			adapted := s.adapted(settings, loras)
			if err := s.add(settings, shared, old, now); err != nil {
				return nil, fmt.Errorf("instances[%d]: %w", n, err)
			}
			if source != nil {
				s.nameFound(source, settings)
			}
			for _, one := range adapted {
				if err := s.add(one, shared, old, now); err != nil {
					return nil, fmt.Errorf("the adapter %q of instances[%d]: %w", one.Name, n, err)
				}
			}
		}
	}
	slices.SortFunc(s.Pools, func(a, b *Pool) int { return cmp.Compare(a.Model, b.Model) })
	for _, pool := range s.Pools {
		before := old.Find(pool.Model)
		if before != nil && before.Model != pool.Model {
			before = nil // the name was an alias of another model
		}
		pool.inherit(before, now)
		pool.listEligible()
	}
	s.rewrites = written.Aliases.Rewrites()
	s.nameUndated()
	s.listFallbacks()
	aliases := make(map[string]*Pool, len(written.Aliases))
	for alias := range written.Aliases {
		if pool := s.Find(written.Aliases.ModelOf(alias)); pool != nil && !strings.Contains(alias, "*") {
			aliases[alias] = pool
		}
	}
	maps.Copy(s.byModel, aliases)
	return s, nil
}

// add adds an instance to the pool of its model, with its earlier living state.
func (s *Service) add(settings backend.Settings, shared backend.Policy, old *Service, now time.Time) error {
	var state *backend.State
	if before := old.Instance(settings.ID()); before != nil {
		state = before.State
	}
	instance, err := backend.New(settings, s.Type, shared, state, now)
	if err != nil {
		return err
	}
	pool := s.byModel[settings.Name]
	if pool == nil {
		pool = &Pool{Service: s, Model: settings.Name}
		pool.fingerprint = sync.OnceValue(pool.makeFingerprint)
		s.byModel[settings.Name] = pool
		s.Pools = append(s.Pools, pool)
	}
	instance.Position = len(pool.Instances)
	pool.Instances = append(pool.Instances, instance)
	s.byID[instance.ID] = instance
	return nil
}

// hasQueue reports whether requests may wait for a slot of the pool.
func (p *Pool) hasQueue() bool { return p.Service.Policy.Queue.Size > 0 }

// Waiting returns how many requests wait for a slot.
func (p *Pool) Waiting() int {
	if !p.hasQueue() {
		return 0
	}
	return p.Queue.Len()
}

// IsFull reports whether the pool has a queue without room for a request of a caller. It
// asks for the caller's name only where that matters.
func (p *Pool) IsFull(class schema.Class, caller func() string) bool {
	size := p.Service.Policy.Queue.Size
	return size > 0 && p.Queue.Before(class) >= size && !p.Queue.HasPlace(caller(), class, size)
}

// SpareSlots returns how many lines of batches the instances get at a time, all together.
func (p *Pool) SpareSlots() int {
	n := 0
	for _, i := range p.Eligible {
		n += i.SpareSlots()
	}
	return n
}

// IsQuiet reports whether a new request may take a slot without waiting.
func (p *Pool) IsQuiet() bool { return !p.hasQueue() || p.Queue.Quiet() }

// Wake gives a turn to the next waiting request: a slot has become free. Requests in a
// queue that was turned off look for a slot themselves.
func (p *Pool) Wake() {
	if p.hasQueue() || p.Queue.Spare.Load() > 0 {
		p.Queue.Wake()
	}
}

// scoped returns the settings of a limiter, which is on only for its own scope.
func scoped(s ratelimit.Settings, scope ratelimit.Scope) ratelimit.Settings {
	s.Enabled = s.Enabled && s.Scope == scope
	return s
}

// activate applies the settings of the table to its living state.
func (t *Table) activate(now time.Time) {
	for _, s := range t.configured {
		s.Limiter.Update(scoped(s.Policy.RateLimit, ratelimit.PerService), now)
		for _, pool := range s.Pools {
			pool.Limiter.Update(scoped(s.Policy.RateLimit, ratelimit.PerModel), now)
			for _, i := range pool.Instances {
				i.Activate(now)
			}
			pool.Queue.Wake() // there may be more room now
		}
	}
	t.NoteSizes()
}

// Instance finds an instance by its identifier; a nil Service has none.
func (s *Service) Instance(id string) *backend.Instance {
	if s == nil {
		return nil
	}
	return s.byID[id]
}

// Service returns a service type of the table, nil when it is not configured.
func (t *Table) Service(serviceType schema.ServiceType) *Service { return t.services[serviceType] }

// Find returns the pool of a model or of an alias, or nil if no instance serves it. Exact
// names go before patterns.
func (s *Service) Find(model string) *Pool {
	if s == nil {
		return nil
	}
	if pool := s.findExact(model); pool != nil {
		return pool
	}
	return s.findRewritten(model)
}

// findExact returns the pool that has a name without the help of a pattern.
func (s *Service) findExact(model string) *Pool {
	if pool := s.byModel[model]; pool != nil {
		return pool
	}
	return s.findTagged(model)
}

// findRewritten returns the pool of a name after a pattern has rewritten it. The result is
// not looked up in patterns again.
func (s *Service) findRewritten(name string) *Pool {
	if len(s.rewrites) == 0 {
		return nil
	}
	return s.findExact(s.Policy.Aliases.ModelOf(s.rewrites.Apply(s.Policy.Aliases.ModelOf(name))))
}

// IsRewritten reports whether a name leads to a model by a pattern only.
func (s *Service) IsRewritten(name string) bool {
	return s != nil && len(s.rewrites) > 0 && s.findExact(name) == nil && s.findRewritten(name) != nil
}

// FindBytes is Find for a name in the bytes of a request.
func (s *Service) FindBytes(model []byte) *Pool {
	if s == nil {
		return nil
	}
	if pool := s.byModel[string(model)]; pool != nil {
		return pool
	}
	return s.Find(string(model))
}

// LimitSnapshot returns the rate limit of the service type as it is now, with a
// limited number of clients. Where every model or instance has a limit of its own,
// it is the one with the least left.
func (s *Service) LimitSnapshot(now time.Time, clients int) ratelimit.Snapshot {
	least := s.Limiter.Snapshot(now, clients)
	consider := func(l *ratelimit.Limiter) {
		next := l.Snapshot(now, clients)
		if next.Enabled && (!least.Enabled || next.Remaining < least.Remaining) {
			least = next
		}
	}
	switch s.Policy.RateLimit.Scope {
	case ratelimit.PerModel:
		for _, pool := range s.Pools {
			consider(pool.Limiter)
		}
	case ratelimit.PerInstance:
		for _, pool := range s.Pools {
			for _, i := range pool.Instances {
				consider(i.Limiter)
			}
		}
	}
	return least
}

// Instances returns every instance of the table.
func (t *Table) Instances() []*backend.Instance {
	var all []*backend.Instance
	for _, pool := range t.Pools() {
		all = append(all, pool.Instances...)
	}
	return all
}
