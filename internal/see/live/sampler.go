package live

import (
	"context"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

const (
	// maxInstances is how many instances have a history. One takes about 210 KiB
	// from its first request on.
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
	total     series
	services  [schema.ServiceTypeCount]series
	instances map[InstanceKey]*instanceSeries
	tenants   map[string]*track
}

// series is the history of a service type, or of all.
type series struct {
	track
	sum  counts // since the start
	last metrics.ServiceTotals
}

// InstanceKey names an instance.
type InstanceKey struct {
	Service schema.ServiceType
	ID      string
}

type instanceSeries struct {
	// track is nil while the instance has no history: it had no request yet, or
	// too many others have one.
	track *track
	model string
	// read holds the counts at the last sample, and from is the instance that they belong
	// to.
	read metrics.InstanceTotals
	from *metrics.Instance
}

// NewSampler returns a sampler of the counts of a registry and of the instances
// in the table in force.
func NewSampler(registry *metrics.Registry, current *routing.Current) *Sampler {
	return &Sampler{registry: registry, current: current, started: registry.Started(),
		instances: map[InstanceKey]*instanceSeries{}, tenants: map[string]*track{}}
}

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
	inTable := make(map[InstanceKey]struct{}, len(s.instances))
	var all counts
	for _, service := range schema.ServiceTypes() {
		c := s.sampleService(service)
		if configured := table.Service(service); configured != nil {
			for _, pool := range configured.Pools {
				for _, i := range pool.Instances {
					inTable[InstanceKey{service, i.ID}] = struct{}{}
					more := s.sampleInstance(i, second)
					c.add(&more)
				}
			}
		}
		own := &s.services[service]
		own.add(second, &c)
		own.sum.add(&c)
		all.add(&c)
	}
	s.total.add(second, &all)
	s.total.sum.add(&all)
	for key := range s.instances {
		if _, there := inTable[key]; !there {
			delete(s.instances, key)
		}
	}
}

// sampleService returns the counts of a service type beside its instances.
func (s *Sampler) sampleService(service schema.ServiceType) counts {
	own, now := &s.services[service], s.registry.Totals(service)
	c := difference(&now.None, &own.last.None)
	c.outcomes.Limited += now.Limited - own.last.Limited
	c.outcomes.Rejected += now.Rejected - own.last.Rejected
	c.overhead = now.Overhead.Sub(&own.last.Overhead)
	own.last = now
	return c
}

func (s *Sampler) sampleInstance(i *backend.Instance, second int64) counts {
	key := InstanceKey{i.Service, i.ID}
	own := s.instances[key]
	if own == nil {
		own = &instanceSeries{model: i.Settings.Name}
		s.instances[key] = own
	}
	if own.from != i.Series { // it was removed and added again
		own.from, own.read = i.Series, metrics.InstanceTotals{}
	}
	now := i.Series.Totals()
	c := difference(&now, &own.read)
	own.read = now
	if c.isZero() {
		return c
	}
	if own.track == nil && s.makeRoom(second) {
		own.track = new(track)
	}
	if own.track != nil {
		own.track.add(second, &c)
	}
	return c
}

// makeRoom reports whether one more instance may have a history. If all places are
// taken, an instance that had no request for long gives up its own.
func (s *Sampler) makeRoom(second int64) bool {
	taken := 0
	var idlest *instanceSeries
	for _, other := range s.instances {
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
