package backend

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/pace"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// Instance is one backend as one configuration describes it. It never changes. Its
// State does, and outlives edits of the configuration.
type Instance struct {
	Settings Settings
	Service  schema.ServiceType
	// ID names the instance to people who may know its address, Handle to others.
	ID, Handle string
	// HandleHeader is the handle as the values of a header, which must not be changed.
	HandleHeader []string
	Kind         *dialect.Kind
	Target       *dialect.Target
	// NamedTarget is Target for a request that asks for the model by another name: it
	// gives the backend the name of the instance's model.
	NamedTarget *dialect.Target
	Origin      transport.Origin
	Timeouts    Timeouts
	// Fault says why this gateway cannot use the secrets that the instance refers to.
	// The instance gets no traffic here then. Only managers of the instance may see it.
	// It is empty if the secrets can be used.
	Fault say.Sentence
	// Position is the index of the instance in its pool, and Share its weight in
	// thousandths: whole numbers add up exactly.
	Position int
	Share    int64
	// Listed are the sizes of the model in the list of prices.
	Listed engines.Sizes
	// Hash is made from the ID, the same in every process.
	Hash uint64

	policy  Policy
	process Process // nil where the gateway does not run the server
	// key and headers are the secrets as they are sent.
	key     string
	headers map[string]string
	*State
}

// Policy holds the settings that an instance takes over from its service.
type Policy struct {
	Adapter  string
	Breaker  breaker.Settings
	Limit    ratelimit.Settings // in force only if its scope is the instance
	Timeouts Timeouts
	// MendToolArguments mends the tool calls in requests to all instances.
	MendToolArguments bool
	// Changes counts the changes of all instances of the service; nil counts none.
	Changes *Changes
	// Resolve finds the texts that secrets refer to.
	Resolve Resolver
	// Proxies are the ones that the environment names.
	Proxies transport.Proxies
	// Processes finds the processes of the gateway; nil means that there are none.
	Processes Processes
}

// State is the part of an instance that changes and outlives edits of the
// configuration.
type State struct {
	Breaker *breaker.Breaker
	// Limiter limits this instance alone; it exists whether or not it is on.
	Limiter *ratelimit.Limiter
	Health  Health
	// Series are the metrics of this instance.
	Series *metrics.Instance

	engine   atomic.Pointer[fleet.Instance]
	uses     atomic.Pointer[fleet.Uses]
	resident atomic.Pointer[residency.Model]
	since    time.Time
	troubled atomic.Bool // the last call that said anything about the backend failed
	// failing is when the first of the failed calls in a row ended, counted from since; 0 where
	// the last one did not fail.
	failing  atomic.Int64
	inFlight atomic.Int64
	spare    atomic.Int64    // calls in flight of the class Spare
	demand   demand          // of others than Spare
	outcomes [3]atomic.Int64 // by breaker.Outcome, every failure as breaker.Failure
	busy     atomic.Int64    // time that calls took, all together
	overload atomic.Int64    // until when it has too much to do, counted from since
	failures failures
	observer atomic.Pointer[Observer]
	changes  *Changes
	failure  atomic.Pointer[Failure]
	pace     atomic.Pointer[pace.Controller] // nil where the slots are fixed
	// window and output are the sizes that the engine reports, 0 if it reports none.
	window, output atomic.Int64
}

// New prepares an instance. The state is its earlier state, or nil for a new
// instance.
func New(settings Settings, service schema.ServiceType, policy Policy, state *State, now time.Time) (*Instance, error) {
	name := settings.Adapter
	if name == "" {
		name = policy.Adapter
	}
	if err := kinds.Check(name, service); err != nil {
		return nil, err
	}
	kind, err := kinds.Lookup(name)
	if err != nil {
		return nil, err
	}
	key, headers, fault := secretsOf(settings, policy.Resolve)
	process, dialled, away := settings.process(policy.Processes)
	if !fault.Is() {
		fault = away
	}
	target, err := kind.Target(service, endpointOf(dialled, key, headers))
	if err != nil {
		return nil, err
	}
	origin, err := dialled.origin(kind, policy.Proxies)
	if err != nil {
		return nil, err
	}
	if policy.Limit.Scope != ratelimit.PerInstance {
		policy.Limit.Enabled = false
	}
	if state == nil {
		state = &State{
			Limiter: ratelimit.New(policy.Limit, now),
			Series:  metrics.NewInstance(),
			since:   now,
			changes: policy.Changes,
		}
		state.Health.changes = policy.Changes
		state.Breaker = breaker.New(policy.Breaker, now, state.breakerChanged)
	}
	handle := Handle(settings.ID())
	return &Instance{
		Settings:     settings,
		Service:      service,
		ID:           settings.ID(),
		Handle:       handle,
		HandleHeader: []string{handle},
		Kind:         kind,
		Target:       target,
		NamedTarget:  target.ForModel(cmp.Or(settings.UpstreamModel, settings.Name)),
		Origin:       origin,
		Timeouts:     settings.Timeouts.Or(policy.Timeouts),
		Share:        share(settings.Weight),
		Hash:         idHash(settings.ID()),
		Fault:        fault,
		policy:       policy,
		key:          key,
		headers:      headers,
		process:      process,
		State:        state,
	}, nil
}

// secretsOf returns the secrets of an instance in their form for sending, or why
// they cannot be sent. A reference may be missing on one of several gateways, or
// lead to a text that is no header. That must not keep other gateways or other
// instances from working.
func secretsOf(settings Settings, resolve Resolver) (key string, headers map[string]string, fault say.Sentence) {
	if settings.Doubt != "" && settings.HasSecrets() {
		return "", nil, say.New("instance.restored")
	}
	resolved, err := settings.Resolved(resolve)
	if err != nil {
		return "", nil, say.From(err)
	}
	if unsent := valueFault(resolved.APIKey); unsent.Is() {
		return "", nil, unsent.About("api-key")
	}
	for name, value := range resolved.Headers {
		if unsent := valueFault(value); unsent.Is() {
			return "", nil, unsent.About("headers[" + strconv.Quote(name) + "]")
		}
	}
	return resolved.APIKey.Reveal(), revealed(resolved.Headers), fault
}

// SameSecrets reports whether two instances send the same secrets, or lack them for
// the same reason.
func (i *Instance) SameSecrets(other *Instance) bool {
	return i.key == other.key && i.Fault.String() == other.Fault.String() && maps.Equal(i.headers, other.headers)
}

// Activate makes the living state follow the settings. It is called when the
// instance's configuration comes into force, not before.
func (i *Instance) Activate(now time.Time) {
	i.Breaker.Update(i.policy.Breaker, now)
	i.Limiter.Update(i.policy.Limit, now)
	i.learnSlots()
}

// idHash spreads identifiers over all numbers.
func idHash(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:8])
}

// Handle makes an opaque name of an identifier, which stays the same as long as
// the instance does.
func Handle(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "i-" + hex.EncodeToString(sum[:5])
}

// share turns a weight into thousandths; any weight above zero gets a share.
func share(weight float64) int64 {
	if weight <= 0 {
		return 0
	}
	return max(1, int64(math.Round(weight*1000)))
}

// Healthy reports whether the instance is healthy by its checks and its secrets can
// be used on this gateway.
func (i *Instance) Healthy() bool { return !i.Fault.Is() && i.Health.Healthy() }

// HealthStatus is the result of the checks. An instance that cannot be called is
// unhealthy, and is not checked.
func (i *Instance) HealthStatus() Status {
	if i.Fault.Is() {
		return StatusUnhealthy
	}
	return i.Health.Snapshot().Status
}

// FailingSince returns the time since which calls or health checks of the instance fail
// without a success; zero where they do not. It does not need a breaker that is on.
func (i *Instance) FailingSince() time.Time {
	var first time.Time
	byBreaker, byChecks := i.Breaker.Snapshot().FailingSince, i.Health.Snapshot().FailingSince
	for _, at := range []time.Time{byBreaker, i.callsFailSince(), byChecks} {
		if first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// HealthReason says why the instance is not healthy, for people who may manage it.
func (i *Instance) HealthReason() []say.Sentence {
	if i.Fault.Is() {
		return say.All(i.Fault)
	}
	checked := i.Health.Snapshot()
	if status, isStatus := strings.CutPrefix(string(checked.Cause), transport.CauseStatus); isStatus &&
		checked.Status == StatusUnhealthy {
		return say.All(say.New("instance.unhealthy_path", "status", status, "path", healthPath(i)))
	}
	return say.All(i.Health.Reason())
}

// Engine returns the place of the instance in the fleet, nil if it has none because the
// strategy of its service type needs none.
func (s *State) Engine() *fleet.Instance { return s.engine.Load() }

// MendsArguments reports whether arguments of earlier tool calls that are no objects are replaced.
func (i *Instance) MendsArguments() bool {
	return i.Settings.MendToolArguments || i.policy.MendToolArguments
}

// Uses returns the counters of calls to the instance where it has a place in the fleet, else
// nil. Instances may share a place.
func (s *State) Uses() *fleet.Uses { return s.uses.Load() }

// URL returns where a call of a path of the instance goes, without the query.
func (i *Instance) URL(path string) string {
	scheme, address, _ := strings.Cut(i.Settings.BaseURL, "://")
	host, _, _ := strings.Cut(address, "/")
	path, _, _ = strings.Cut(path, "?")
	return scheme + "://" + host + path
}

// Resident returns the model of the instance where it is loaded for requests and put to
// sleep, nil where it is not.
func (s *State) Resident() *residency.Model { return s.resident.Load() }

// Reside sets the model that Resident returns.
func (s *State) Reside(m *residency.Model) { s.resident.Store(m) }

// UpstreamModel returns the name by which the backend knows the model.
func (i *Instance) UpstreamModel() string { return cmp.Or(i.Settings.UpstreamModel, i.Settings.Name) }

// Join gives the instance its place in a fleet, from which its strategy chooses; nil takes
// it away. An instance keeps its place for as long as its address and its model stay the
// same.
func (i *Instance) Join(f *fleet.Fleet) {
	if f == nil {
		i.engine.Store(nil)
		i.uses.Store(nil)
		return
	}
	i.uses.CompareAndSwap(nil, new(fleet.Uses))
	if i.process != nil {
		i.engine.Store(ProcessPlace(f, i.Settings.Process))
		return
	}
	i.engine.Store(f.Instance(strings.TrimRight(i.Settings.BaseURL, "/"), i.UpstreamModel()))
}

// Permit is the right to make one call to an instance.
type Permit struct {
	breaker breaker.Permit
	spent   ratelimit.Spent // of the instance's own limit
	isSpare bool            // the call is one of the class Spare
	began   time.Duration   // when such a call began, counted from State.since
}

// For notes the API key that makes the call, empty for none.
func (p *Permit) For(key string) { p.breaker.Key = key }

// Acquire takes the instance for one call; false means that it is no longer
// ready and another one must be picked. Every Acquire that succeeds is followed
// by one Release or Return with its permit.
func (i *Instance) Acquire(now time.Time) (Permit, bool) {
	permit, ok := i.acquire(now)
	if ok && i.demand.isWatched.Load() {
		i.demand.began(int(i.inFlight.Load()-i.spare.Load()), now)
	}
	return permit, ok
}

func (i *Instance) acquire(now time.Time) (Permit, bool) {
	running := i.inFlight.Add(1)
	if limit := int64(i.Slots()); limit > 0 && running >= limit {
		i.changes.note()
		if running > limit {
			i.inFlight.Add(-1)
			return Permit{}, false
		}
	}
	var permit Permit
	var ok bool
	if permit.breaker, ok = i.Breaker.Acquire(now); !ok {
		i.inFlight.Add(-1)
		return Permit{}, false
	}
	if i.policy.Limit.Enabled {
		var decision ratelimit.Decision
		if decision, permit.spent = i.Limiter.Take(netip.Addr{}, now); !decision.Allowed {
			i.Breaker.Done(permit.breaker, breaker.Cancelled, now)
			i.inFlight.Add(-1)
			return Permit{}, false
		}
	}
	return permit, true
}

// Limit returns the state of the rate limit of this instance alone, if it has one. The time
// is zero where it is not known.
func (i *Instance) Limit(now time.Time) ratelimit.Decision {
	if !i.policy.Limit.Enabled {
		return ratelimit.Decision{}
	}
	if now.IsZero() {
		now = time.Now()
	}
	return i.Limiter.Peek(netip.Addr{}, now)
}

// Return gives back a permit without a call.
func (i *Instance) Return(permit Permit, now time.Time) {
	permit.spent.Return(now)
	i.Breaker.Done(permit.breaker, breaker.Cancelled, now)
	i.endCall(permit, breaker.Cancelled, now)
}

// endCall gives back the slot of a call.
func (i *Instance) endCall(permit Permit, outcome breaker.Outcome, now time.Time) {
	if permit.isSpare {
		i.endSpare(permit, outcome, now)
	}
	i.inFlight.Add(-1)
}

// Unsent says that a call did not reach the instance and must not count for its rate
// limit. It returns the permit to release the call with.
func (i *Instance) Unsent(permit Permit, now time.Time) Permit {
	permit.spent.Return(now)
	return permit
}

// Answered says that the answer to a call has begun, and returns the permit for
// the rest of it.
func (i *Instance) Answered(permit Permit, now time.Time) Permit {
	permit.breaker = i.Breaker.Answered(permit.breaker, now)
	return permit
}

// Release ends a call.
func (i *Instance) Release(permit Permit, outcome breaker.Outcome, now time.Time) {
	i.endCall(permit, outcome, now)
	counted := outcome
	if outcome.Failed() {
		counted = breaker.Failure
	}
	i.outcomes[counted].Add(1)
	if outcome != breaker.Cancelled {
		i.setTroubled(outcome.Failed())
		i.setFailing(outcome.Failed(), now)
	}
	i.Breaker.Done(permit.breaker, outcome, now)
	if (outcome == breaker.Refused || outcome == breaker.Reset) && i.Breaker.AwaitsCheck() {
		i.Health.expectSoon(now)
	}
}

// Troubled records that the instance could not take a call, although that does not
// count as a failure.
func (s *State) Troubled() { s.setTroubled(true) }

// setTroubled writes only a changed value, because most calls do not change it.
func (s *State) setTroubled(now bool) {
	if s.troubled.Load() != now {
		s.troubled.Store(now)
	}
}

// setFailing counts a call to those that fail in a row, or ends the row.
func (s *State) setFailing(failed bool, now time.Time) {
	switch began := s.failing.Load(); {
	case failed && began == 0:
		s.failing.CompareAndSwap(0, max(1, int64(now.Sub(s.since))))
	case !failed && began != 0:
		s.failing.Store(0)
	}
}

// callsFailSince returns when the first of the failed calls in a row ended, the zero time where
// the last call did not fail.
func (s *State) callsFailSince() time.Time {
	began := s.failing.Load()
	if began == 0 {
		return time.Time{}
	}
	return s.since.Add(time.Duration(began))
}

// Well reports whether the instance is healthy, its breaker is closed, and it has
// not failed since its last success.
func (s *State) Well() bool {
	return !s.troubled.Load() && s.Health.Healthy() && s.Breaker.Closed()
}

// Label names the instance in metrics: without scheme, path and credentials.
func (i *Instance) Label() string {
	if i.process != nil {
		return i.Settings.Name + "@" + i.Settings.Process + processHost // its port changes
	}
	return i.Settings.Name + "@" + i.Origin.Addr()
}

// Took adds the time that an ended call took.
func (s *State) Took(d time.Duration) { s.busy.Add(int64(d)) }

// Calls returns how many calls were begun.
func (s *State) Calls() int64 {
	return s.inFlight.Load() + s.ended()
}

// ended returns how many calls have ended.
func (s *State) ended() int64 {
	var n int64
	for i := range s.outcomes {
		n += s.outcomes[i].Load()
	}
	return n
}

// MeanTime returns how long calls took on average, 0 before the first has ended.
func (s *State) MeanTime() time.Duration {
	n := s.ended()
	if n == 0 {
		return 0
	}
	return time.Duration(s.busy.Load() / n)
}

// Since returns when the instance was added.
func (s *State) Since() time.Time { return s.since }

// InFlight returns the number of calls that have not ended.
func (s *State) InFlight() int64 { return s.inFlight.Load() }

// Ended returns the number of calls that ended with the given outcome.
func (s *State) Ended(outcome breaker.Outcome) int64 { return s.outcomes[outcome].Load() }

// Overloaded records that the instance reports overload, and is to be avoided until
// a time.
func (s *State) Overloaded(until time.Time) {
	s.overload.Store(int64(until.Sub(s.since)))
	s.pace.Load().Overloaded(time.Now())
	s.changes.note()
}

// overloadedFor returns how long the instance is still to be avoided.
func (s *State) overloadedFor(now time.Time) time.Duration {
	until := s.overload.Load()
	if until == 0 {
		return 0
	}
	return max(0, time.Duration(until)-now.Sub(s.since))
}

// Avoided reports whether the instance is used only if no other one is available: a
// call could not connect to it, or it said that it is too busy.
func (s *State) Avoided(now time.Time) bool {
	return s.Health.Marked() || s.overloadedFor(now) > 0
}
