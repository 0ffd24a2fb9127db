package routing

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Current is the table in force. Requests load it once; one writer stores it.
type Current struct {
	table     atomic.Pointer[Table]
	observers atomic.Pointer[[]func(*Table)]
	// fleet is the fleet for the strategy of least time; nil means that the strategy
	// knows nothing of any instance.
	fleet *fleet.Fleet
	// keeper loads models for requests and puts them to sleep, and sleepers finds the sleeper
	// of an instance; nil means that no model is kept.
	keeper   *residency.Keeper
	sleepers Sleepers
	// shared holds the limits that this gateway shares with others; nil means that it
	// shares none.
	shared *tally.Pool
}

// Share makes rate limits common to all gateways of a pool where their settings say
// so. It is called before the first table is stored.
func (c *Current) Share(pool *tally.Pool) { c.shared = pool }

// Follow gives the instances of services that are balanced by least time their places in a
// fleet. It is called before the first table is stored.
func (c *Current) Follow(f *fleet.Fleet) { c.fleet = f }

// Sleepers returns the sleeper that loads and unloads the model of an instance, nil where its
// engine has no commands for that. The settings come from its service.
type Sleepers func(i *backend.Instance, how residency.Settings) residency.Sleeper

// Keep gives a keeper the models of services with residency on. It is called before the
// first table is stored, and after Follow.
func (c *Current) Keep(k *residency.Keeper, sleepers Sleepers) { c.keeper, c.sleepers = k, sleepers }

// Load returns the table in force.
func (c *Current) Load() *Table { return c.table.Load() }

// Store puts a table into force for the requests that come from now on.
func (c *Current) Store(t *Table) {
	before := c.table.Load()
	t.shareLimits(c.shared)
	left := before.engines()
	c.joinFleet(t)
	c.keepModels(t)
	c.table.Store(t)
	t.activate(time.Now())
	before.withdrawLimits(t)
	for engine := range t.engines() {
		delete(left, engine)
	}
	for engine := range left {
		if c.keeper == nil || !c.keeper.Keeps(engine) { // a process may run without instances
			engine.Remove()
		}
	}
	if observers := c.observers.Load(); observers != nil {
		for _, observe := range *observers {
			observe(t)
		}
	}
}

// Observe registers f to be called with every table that comes into force from now
// on. It runs in the writer's goroutine and must not wait. Observe must not be
// called concurrently.
func (c *Current) Observe(f func(*Table)) {
	var all []func(*Table)
	if before := c.observers.Load(); before != nil {
		all = append(all, *before...)
	}
	all = append(all, f)
	c.observers.Store(&all)
}

// limiters returns all rate limiters of the table by the names under which gateways share them. A
// nil table has none.
func (t *Table) limiters() map[string]*ratelimit.Limiter {
	all := map[string]*ratelimit.Limiter{}
	if t == nil {
		return all
	}
	for _, s := range t.configured {
		service := s.Type.String()
		all[service] = s.Limiter
		for _, pool := range s.Pools {
			all[service+"/model/"+pool.Model] = pool.Limiter
			for _, i := range pool.Instances {
				all[service+"/instance/"+i.ID] = i.Limiter
			}
		}
	}
	return all
}

// shareLimits connects the limiters with those of other gateways.
func (t *Table) shareLimits(pool *tally.Pool) {
	if pool == nil {
		return
	}
	for name, limiter := range t.limiters() {
		limiter.Share(pool, name)
	}
}

// withdrawLimits ends this gateway's part in limits of the table that its successor
// does not have.
func (t *Table) withdrawLimits(next *Table) {
	kept := map[*ratelimit.Limiter]bool{}
	for _, limiter := range next.limiters() {
		kept[limiter] = true
	}
	for _, limiter := range t.limiters() {
		if !kept[limiter] {
			limiter.Withdraw()
		}
	}
}

// keepModels tells the keeper which models of a table it keeps. An instance that shares its
// model with a kept one is kept as well: no use of the model goes unseen.
func (c *Current) keepModels(t *Table) {
	if c.keeper == nil {
		return
	}
	adapted := map[*fleet.Host]bool{}
	for _, i := range t.Instances() {
		if i.Settings.LoRA != nil && i.Engine() != nil {
			adapted[i.Engine().Host()] = true
		}
	}
	var all []residency.Kept
	for _, pool := range t.Pools() {
		for _, i := range pool.Instances {
			if one, ok := c.kept(pool, i, adapted); ok {
				all = append(all, one)
			}
		}
	}
	c.keeper.Follow(all)
	for _, pool := range t.Pools() {
		pool.Kept = false
		for _, i := range pool.Instances {
			var model *residency.Model
			if engine := i.Engine(); engine != nil {
				model = c.keeper.Model(engine)
			}
			i.Reside(model)
			pool.Kept = pool.Kept || model != nil
		}
	}
}

// kept returns how the model of an instance is kept, false where it is not. An instance with
// a process of the gateway as its server is kept wherever requests may start it, and so is a LoRA
// adapter. The model of an engine with adapters stays awake for them, under all of its names.
func (c *Current) kept(pool *Pool, i *backend.Instance, adapted map[*fleet.Host]bool) (residency.Kept, bool) {
	settings := pool.Service.Policy.Residency
	if i.Engine() == nil || i.Barred() != backend.NoObstacle {
		return residency.Kept{}, false
	}
	var rules residency.Rules
	if p := i.Process(); p != nil {
		rules = p.Rules()
		if settings.Enabled {
			rules.SleepAfter = cmp.Or(rules.SleepAfter, settings.SleepAfter.Std())
		}
		rules.IsPinned = i.Settings.Pinned
		return residency.Kept{Place: i.Engine(), Sleeper: p, Rules: rules}, true
	}
	lora := i.Settings.LoRA
	if lora == nil && (!settings.Enabled || adapted[i.Engine().Host()]) {
		return residency.Kept{}, false
	}
	sleeper := c.sleepers(i, settings)
	if sleeper == nil {
		return residency.Kept{}, false
	}
	if lora != nil {
		rules.Space, rules.Capacity, rules.Size = i.Engine().Host().AdapterSpace(), float64(lora.Room), 1
		rules.IsAdapter, rules.IsPinned = true, lora.IsPinned
		return residency.Kept{Place: i.Engine(), Sleeper: sleeper, Rules: rules}, true
	}
	rules.SleepAfter, rules.IsPinned = settings.SleepAfter.Std(), i.Settings.Pinned
	rules.IsNear, rules.IsWhole = i.Kind.Lever.IsNear, i.Kind.Lever.IsWhole
	if group := i.Settings.Residency.Group; group != "" {
		rules.Space, rules.Capacity, rules.Size = residency.GroupSpace(group), float64(max(settings.Room, 1)), 1
	} else {
		rules.Room = settings.Room
	}
	return residency.Kept{Place: i.Engine(), Sleeper: sleeper, Rules: rules}, true
}

// joinFleet gives the instances of services that are balanced by least time their places in
// a fleet, and takes the places of the others away. Where models are kept in memory, every
// instance that could be kept has a place.
func (c *Current) joinFleet(t *Table) {
	keeps := c.keeper != nil && slices.ContainsFunc(t.configured, func(s *Service) bool {
		return s.Policy.Residency.Enabled && len(s.Pools) > 0
	})
	for _, pool := range t.Pools() {
		for _, i := range pool.Instances {
			joins := pool.Soonest != nil || c.keeper != nil && (i.Process() != nil || i.Settings.LoRA != nil) ||
				keeps && c.sleepers(i, pool.Service.Policy.Residency) != nil
			if joins {
				i.Join(c.fleet)
			} else {
				i.Join(nil)
			}
		}
	}
}

// engines returns the places in the fleet that instances of the table have; a nil table has
// none. Instances may share a place: one server gives a model two names.
func (t *Table) engines() map[*fleet.Instance]bool {
	all := map[*fleet.Instance]bool{}
	if t == nil {
		return all
	}
	for _, i := range t.Instances() {
		if engine := i.Engine(); engine != nil {
			all[engine] = true
		}
	}
	return all
}
