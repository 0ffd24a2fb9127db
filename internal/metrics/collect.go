package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// collector walks the living state at every scrape.
type collector struct {
	recorder *Recorder
	world    func() World
	build    Build
	system   *system
	descs    [familyCount]*prometheus.Desc
}

func newCollector(r *Recorder, world func() World, build Build) *collector {
	c := &collector{recorder: r, world: world, build: build, system: newSystem(r.Started())}
	for i, f := range families {
		c.descs[i] = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	return c
}

// Describe says nothing: which series there are changes with the configuration.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends every series as it is now.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := &scrape{collector: c, to: to}
	world := c.world()
	for _, service := range world.Services {
		s.service(&service)
	}
	instances := merged(world.Instances)
	for i := range instances {
		s.instance(&instances[i])
	}
	s.ledger(&world.Ledger)
	s.pipeline()
	s.http()
	s.runtime()
}

// scrape is one walk.
type scrape struct {
	*collector
	to chan<- prometheus.Metric
}

func (s *scrape) send(m prometheus.Metric, err error) {
	if err != nil {
		// Labels are made valid before; what is left is a defect, and the rest of
		// the scrape is worth more than a complaint about it.
		s.recorder.NoteFault("prometheusRegistry", "collect", "a series could not be made")
		return
	}
	s.to <- m
}

// value sends a counter or a gauge.
func (s *scrape) value(family int, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if families[family].kind == counter {
		kind = prometheus.CounterValue
	}
	s.send(prometheus.NewConstMetric(s.descs[family], kind, v, labels...))
}

func (s *scrape) timer(family int, count uint64, sum float64, labels ...string) {
	s.send(prometheus.NewConstSummary(s.descs[family], count, sum, nil, labels...))
}

func (s *scrape) histogram(family int, h *HistogramSnapshot, labels ...string) {
	buckets := make(map[float64]uint64, maxBuckets)
	var below uint64
	for i, bound := range h.bounds {
		below += h.counts[i]
		buckets[bound.Seconds()] = below
	}
	m, err := prometheus.NewConstHistogram(s.descs[family], h.Count, h.Sum.Seconds(), buckets, labels...)
	var examples []prometheus.Exemplar
	for _, e := range h.exemplars {
		if e != nil {
			examples = append(examples, prometheus.Exemplar{Value: e.took.Seconds(), Labels: prometheus.Labels{"trace_id": e.trace}, Timestamp: e.at})
		}
	}
	if err == nil && len(examples) > 0 {
		m, err = prometheus.NewMetricWithExemplars(m, examples...)
	}
	s.send(m, err)
}

// none is the instance of requests that no instance answered.
const none = "none"

func (s *scrape) service(view *ServiceView) {
	name := view.Service.String()
	series := &s.recorder.services[view.Service]
	for _, status := range [...]Status{Failed, BreakerOpen} {
		s.value(famRequests, float64(series.none.Requests(status)), name, none, status.String())
	}
	duration := series.none.duration.Snapshot()
	s.histogram(famDuration, &duration, name, none)
	s.value(famDurationMax, duration.Max.Seconds(), name, none)
	s.value(famCancelled, float64(series.none.cancelled.Value()), name, none)
	for reason := InvalidRequest; reason < Overloaded; reason++ {
		s.value(famRejected, float64(series.rejected[reason].Value()), name, reason.String())
	}
	for how, label := range shedNames {
		s.value(famShed, float64(series.shed[how].Value()), name, label)
	}
	wait, overhead := series.queueWait.Snapshot(), series.overhead.Snapshot()
	s.histogram(famQueueWait, &wait, name)
	s.histogram(famOverhead, &overhead, name)
	s.value(famQueueLength, float64(view.Waiting), name)
	if !view.PerClient {
		s.send(prometheus.NewConstMetric(s.unlabelled(famRemaining), prometheus.GaugeValue, float64(view.Remaining), name))
	}
	for _, client := range view.Clients {
		s.value(famRemaining, float64(client.Remaining), name, client.Client)
	}
}

// unlabelled describes a family by its first label alone.
func (c *collector) unlabelled(family int) *prometheus.Desc {
	f := families[family]
	return prometheus.NewDesc(f.Name, f.Help, f.Labels[:1], nil)
}

// streams tells whether answers of a service type can be streams.
func streams(t schema.ServiceType) bool { return t == schema.Chat || t == schema.TTS }

func (s *scrape) instance(m *mergedInstance) {
	service, label := m.Service.String(), strings.ToValidUTF8(m.Label, "\uFFFD")
	for status, n := range m.requests {
		s.value(famRequests, float64(n), service, label, statusNames[status])
	}
	s.histogram(famDuration, &m.duration, service, label)
	s.value(famDurationMax, m.duration.Max.Seconds(), service, label)
	if streams(m.Service) {
		s.histogram(famFirstToken, &m.firstToken, service, label)
		s.value(famFirstTokenMax, m.firstToken.Max.Seconds(), service, label)
	}
	s.value(famTokens, float64(m.tokensIn), service, label, "input")
	s.value(famTokens, float64(m.tokensOut), service, label, "output")
	s.value(famInFlight, float64(m.InFlight), service, label)
	s.value(famFailovers, float64(m.failovers), service, label)
	s.value(famCancelled, float64(m.cancelled), service, label)
	s.value(famBreaker, float64(m.Breaker), service, label)
	s.value(famWeight, m.Weight, service, label)
	s.value(famHealthy, oneIf(m.Healthy), service, label)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *scrape) ledger(l *LedgerView) {
	s.value(famQuotaEnabled, oneIf(l.Enabled))
	s.value(famQuotaAdmitted, float64(l.Admitted))
	s.value(famQuotaRefused, float64(l.Refused))
	s.value(famQuotaUnsettled, float64(l.Unsettled))
	s.value(famQuotaDegradations, float64(l.Degradations))
	s.value(famQuotaKeys, float64(l.Keys))
	s.value(famQuotaJournal, float64(l.JournalBytes))
	s.value(famQuotaFlush, l.LastFlush.Seconds())
	for _, store := range [...]struct {
		name string
		StoreView
	}{{"journal", l.Journal}, {"database", l.Database}, {"counter", l.Counter}} {
		s.value(famQuotaHealthy, oneIf(store.Healthy), store.name)
		s.value(famQuotaFailures, float64(store.Failures), store.name)
	}
}

func (s *scrape) pipeline() {
	r := s.recorder
	s.value(famRecordsDropped, float64(r.pipe.dropped.Load()))
	s.value(famRecordsWaiting, float64(r.Cache().Current))
	s.value(famSamplingRate, r.SamplingRate())
	s.value(famErrors, float64(r.Faults().Active))
	s.value(famBuildInfo, 1, s.build.Version, s.build.Commit, s.build.GoVersion)
}

func (s *scrape) http() {
	for surface := range s.recorder.http {
		for class := range s.recorder.http[surface] {
			t := &s.recorder.http[surface][class]
			count := t.count.Load()
			if count == 0 && outcomeNames[class] != "SUCCESS" {
				continue // most combinations never happen
			}
			s.timer(famHTTP, uint64(count), time.Duration(t.sum.Load()).Seconds(), surfaceNames[surface], outcomeNames[class])
			s.value(famHTTPMax, time.Duration(t.longest.Load()).Seconds(), surfaceNames[surface], outcomeNames[class])
		}
	}
}

func (s *scrape) runtime() {
	now := s.system.look(s.recorder.Settings().CollectionInterval.Std())
	s.value(famMemoryUsed, now.heapUsed, "heap")
	s.value(famMemoryUsed, now.otherUsed, "nonheap")
	s.value(famMemoryCommitted, now.heapHeld, "heap")
	s.value(famMemoryCommitted, now.otherUsed, "nonheap")
	s.value(famMemoryMax, now.limit, "heap")
	s.value(famMemoryMax, -1, "nonheap")
	s.timer(famGCPause, now.pauses, now.paused)
	s.value(famThreadsLive, now.goroutines)
	s.value(famThreadsDaemon, now.goroutines)
	s.value(famThreadsPeak, now.peak)
	s.value(famUptime, now.uptime)
	s.value(famProcessCPU, now.processCPU)
	s.value(famSystemCPU, now.systemCPU)
	s.value(famSystemCPUs, now.cpus)
}
