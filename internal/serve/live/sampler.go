package live

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

const (
	// maxInstances is how many instances have a history, and how many models. One takes 105 KiB
	// from its first request on, and 4 bytes for each bucket of a step that counts something:
	// about 0.5 MiB with 5 calls a second, and 1 MiB with 50.
	maxInstances = 100
	// idleAfter is the number of seconds without a request after which the history of an
	// instance makes room for another one.
	idleAfter = 3600
	// lateSeconds is how late a sample may be without leaving a hole.
	lateSeconds = 5
)

// Sampler reads the counts once a second and keeps their history. It keeps the history of
// tenants by the records of their requests. Nothing on the way of a request knows about it.
type Sampler struct {
	registry *metrics.Registry
	current  *routing.Current
	started  time.Time

	mu        sync.RWMutex
	second    int64 // that was sampled last
	watched   watched
	services  [schema.ServiceTypeCount]serviceSeries
	models    map[ModelKey]*series
	instances map[InstanceKey]*instanceSeries
	tenants   map[tenantKey]*track
	slow      map[InstanceKey]*slowness
	archive   *Archive // nil if nothing is kept; it is set before the first sample
	// These are used again by each sample: what instances, models and service types add.
	instance, model, service counts
}

// series is the history of a model or an instance.
type series struct {
	// track is nil while there is no history: there was no request yet, or too many others
	// have one.
	track *track
	sum   metrics.Totals // since the start
}

// isOmitted reports whether there were requests and no room for their history.
func (s *series) isOmitted() bool { return s.track == nil && s.sum.Outcomes.Total() > 0 }

// serviceSeries is the history of a service type.
type serviceSeries struct {
	series
	last     metrics.ServiceTotals
	seen     seen
	overhead metrics.Seen
}

// InstanceKey names an instance.
type InstanceKey struct {
	Service schema.ServiceType
	ID      string
}

type instanceSeries struct {
	series
	model string
	// read holds the counts at the last sample, seen the histograms, and from is the instance
	// that they belong to.
	read metrics.Totals
	seen seen
	from *metrics.Instance
}

// seen holds the histograms of an instance at the last sample.
type seen struct{ duration, firstToken, callDuration, callFirst, perToken metrics.Seen }

// NewSampler returns a sampler of the counts of a registry and of the instances
// in the table in force.
func NewSampler(registry *metrics.Registry, current *routing.Current) *Sampler {
	return &Sampler{registry: registry, current: current, started: registry.Started(),
		models: map[ModelKey]*series{}, instances: map[InstanceKey]*instanceSeries{},
		tenants: map[tenantKey]*track{}}
}

// latest returns the last second of the history: before the first sample that of the start.
func (s *Sampler) latest() int64 { return cmp.Or(s.second, s.started.Unix()) }

// everySecond calls f shortly after each full second until ctx ends.
func everySecond(ctx context.Context, f func(now time.Time)) {
	for waiting.Pause(ctx, untilNextSecond(time.Now())) == nil {
		f(time.Now())
	}
}

func untilNextSecond(now time.Time) time.Duration {
	return now.Truncate(time.Second).Add(time.Second).Sub(now)
}

// sample notes the counts since the last sample. While nothing is counted it leaves a hole.
func (s *Sampler) sample(now time.Time) {
	second := now.Unix() - 1 // the one that has just ended
	s.mu.Lock()
	defer s.mu.Unlock()
	if second == s.second {
		return
	}
	if s.registry.On() {
		first := second
		if late := second - s.second; late > 0 && late <= lateSeconds {
			first = s.second + 1
		}
		for at := first; at <= second; at++ {
			s.watched.note(at)
		}
	}
	s.second = second
	table := s.current.Load()
	instances, models := make(map[InstanceKey]struct{}, len(s.instances)), make(map[ModelKey]struct{}, len(s.models))
	for _, service := range schema.ServiceTypes() {
		s.service.clear()
		s.sampleService(service)
		if configured := table.Service(service); configured != nil {
			for _, pool := range configured.Pools {
				key := ModelKey{service, pool.Model}
				models[key] = struct{}{}
				s.model.clear()
				for _, i := range pool.Instances {
					instances[InstanceKey{service, i.ID}] = struct{}{}
					s.sampleInstance(i)
				}
				own := s.models[key]
				if own == nil {
					own = new(series)
					s.models[key] = own
				}
				keep(s, maps.Values(s.models), own, &s.model)
				s.service.add(&s.model)
			}
		}
		keep(s, nil, &s.services[service].series, &s.service)
	}
	maps.DeleteFunc(s.instances, func(key InstanceKey, _ *instanceSeries) bool { return !has(instances, key) })
	maps.DeleteFunc(s.models, func(key ModelKey, _ *series) bool { return !has(models, key) })
	if second%slowEvery == 0 {
		s.findSlow(now)
	}
}

func has[K comparable](set map[K]struct{}, key K) bool {
	_, there := set[key]
	return there
}

// sampleService adds the counts of a service type beside its instances.
func (s *Sampler) sampleService(service schema.ServiceType) {
	own, now, c := &s.services[service], s.registry.Totals(service), &s.service
	c.Totals = now.None.Sub(own.last.None)
	c.Outcomes.Limited += now.Limited - own.last.Limited
	c.Outcomes.Rejected += now.Rejected - own.last.Rejected
	none := s.registry.Unanswered(service).Times()
	c.take(duration, none.Duration, &own.seen.duration)
	c.take(firstToken, none.FirstToken, &own.seen.firstToken)
	c.take(overhead, s.registry.Overhead(service), &own.overhead)
	own.last = now
}

// sampleInstance adds the counts of an instance to its own history and to those of its model.
// A request counts once for a model, from its arrival on, and for each instance that was called,
// from when it was picked.
func (s *Sampler) sampleInstance(i *backend.Instance) {
	key := InstanceKey{i.Service, i.ID}
	own := s.instances[key]
	if own == nil {
		own = &instanceSeries{model: i.Settings.Name}
		s.instances[key] = own
	}
	if own.from != i.Series { // it was removed and added again
		own.from, own.read, own.seen, own.sum = i.Series, metrics.Totals{}, seen{}, metrics.Totals{}
	}
	now, times := i.Series.Totals(), i.Series.Times()
	s.instance.clear()
	s.instance.Totals = now.Sub(own.read)
	own.read = now
	s.instance.take(perToken, times.PerToken, &own.seen.perToken)
	s.model.add(&s.instance)
	s.model.take(duration, times.Duration, &own.seen.duration)
	s.model.take(firstToken, times.FirstToken, &own.seen.firstToken)
	s.instance.take(duration, times.CallDuration, &own.seen.callDuration)
	s.instance.take(firstToken, times.CallFirst, &own.seen.callFirst)
	s.instance.Outcomes.Failed += s.instance.Failovers
	keep(s, instancesOf(s.instances), &own.series, &s.instance)
}

func instancesOf(all map[InstanceKey]*instanceSeries) iter.Seq[*series] {
	return func(yield func(*series) bool) {
		for _, own := range all {
			if !yield(&own.series) {
				return
			}
		}
	}
}

// keep adds the counts of the last second to a history, where there is room for one beside the
// others; nil means that there is.
func keep(s *Sampler, others iter.Seq[*series], own *series, c *counts) {
	if c.isZero() {
		return
	}
	own.sum.Add(c.Totals)
	if own.track == nil && (others == nil || makeRoom(others, s.second)) {
		own.track = new(track)
	}
	if own.track != nil {
		own.track.add(s.second, c)
	}
}

// makeRoom reports whether one more may have a history. If all places are taken, the one that
// had no request for long gives up its own.
func makeRoom(others iter.Seq[*series], second int64) bool {
	taken := 0
	var idlest *series
	for other := range others {
		if other.track == nil {
			continue
		}
		taken++
		if idlest == nil || other.track.last < idlest.track.last {
			idlest = other
		}
	}
	if taken < maxInstances {
		return true
	}
	if second-idlest.track.last < idleAfter {
		return false
	}
	idlest.track = nil
	return true
}
