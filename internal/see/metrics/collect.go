package metrics

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// collector reads the counts and the living state at every scrape.
type collector struct {
	registry *Registry
	state    func() State
	build    Build
	system   *system
}

// collect returns every family that has series, with each of them as it is now.
func (c *collector) collect() *gathered {
	s := &scrape{collector: c, gathered: newGathered()}
	state := c.state()
	for _, service := range schema.ServiceTypes() {
		s.service(service)
	}
	for _, door := range schema.Doors() {
		s.door(door)
	}
	for i := range state.Services {
		s.limits(&state.Services[i])
	}
	instances := merged(state.Instances)
	for i := range instances {
		s.instance(&instances[i])
	}
	if state.Trust != nil {
		s.value(famFleetTrust, *state.Trust)
	}
	for i := range state.Models {
		s.model(&state.Models[i])
	}
	s.value(famSockets, float64(state.Sockets))
	if state.Batches != nil {
		s.batches(state.Batches)
	}
	for i := range state.Processes {
		s.process(&state.Processes[i])
	}
	s.ledger(&state.Ledger)
	s.budgets(&state.Budgets)
	s.shared(&state.Shared)
	s.exchange(&state.Exchange)
	s.cluster(&state.Cluster)
	s.configuration(&state.Config)
	s.monitoring(&state.Monitoring)
	s.value(famBuildInfo, 1, s.build.Version, s.build.Commit, s.build.GoVersion)
	s.http()
	s.runtime()
	return s.gathered
}

// scrape is one reading.
type scrape struct {
	*collector
	*gathered
}

// none is the label of requests that no instance answered.
const none = "none"

// service adds the counts of a service type, whether or not it is configured:
// requests for one that is not are counted too.
func (s *scrape) service(service schema.ServiceType) {
	name := service.String()
	series := &s.registry.services[service]
	for _, result := range [...]schema.Result{schema.ResultFailed, schema.ResultBreakerOpen} {
		s.value(famRequests, float64(series.none.Requests(result)), name, none, result.String())
	}
	if n := series.none.Requests(schema.ResultSuccess); n > 0 { // answered without an instance
		s.value(famRequests, float64(n), name, none, schema.ResultSuccess.String())
	}
	duration := series.none.duration.Snapshot()
	s.histogram(famDuration, &duration, name, none)
	s.value(famDurationMax, duration.Max.Seconds(), name, none)
	s.value(famCancelled, float64(series.none.cancelledRequests()), name, none)
	for reason := schema.ResultInvalid; reason < schema.ResultOverloaded; reason++ {
		s.value(famRejected, float64(series.rejected[reason].Value()), name, reason.String())
	}
	for how, label := range shedNames {
		s.value(famShed, float64(series.shed[how].Value()), name, label)
	}
	for _, why := range naming.Reasons() {
		s.value(famFallbacks, float64(series.fallbacks[why].Value()), name, why.String())
	}
	s.value(famSplit, float64(series.split.Value()), name)
	s.value(famPieces, float64(series.pieces.Value()), name)
	for how, label := range resumedNames {
		if service == schema.Chat {
			s.value(famResumed, float64(series.resumed[how].Value()), name, label)
		}
	}
	for how := HedgeWon; int(how) < HedgedCount; how++ {
		s.value(famHedges, float64(series.hedges[how].Value()), name, how.String())
	}
	for _, what := range [...]Cached{CacheHit, CacheMiss, CacheBypass, CacheShared} {
		if service == schema.Chat || service == schema.Embedding || service == schema.Rerank {
			s.value(famCached, float64(series.cached[what].Value()), name, what.String())
		}
	}
	wait, overhead := series.queueWait.Snapshot(), series.overhead.Snapshot()
	s.histogram(famQueueWait, &wait, name)
	s.value(famQueueWaitMax, wait.Max.Seconds(), name)
	for _, class := range schema.Classes() {
		if wait := series.classWait[class].Snapshot(); wait.Count > 0 || class == schema.Normal {
			s.histogram(famClassWait, &wait, name, class.String())
		}
	}
	s.histogram(famOverhead, &overhead, name)
	s.value(famOverheadMax, overhead.Max.Seconds(), name)
}

// door adds the counts of an endpoint. Successes and errors are always there; the
// other results are many, and only those that occurred are.
func (s *scrape) door(door schema.Door) {
	for result := range schema.Result(schema.ResultCount) {
		n := s.registry.doors[door][result].Value()
		if n > 0 || result <= schema.ResultFailed {
			s.value(famDoors, float64(n), door.Service().String(), door.String(), result.String())
		}
	}
}

// limits adds the queue and the rate limit of a configured service type.
func (s *scrape) limits(view *ServiceView) {
	name := view.Service.String()
	s.value(famQueueLength, float64(view.Waiting), name)
	for _, class := range schema.Classes() {
		s.value(famClassLength, float64(view.ByClass[class]), name, class.String())
	}
	if !view.PerClient {
		s.value(famRemaining, float64(view.Remaining), name)
	}
	for _, client := range view.Clients {
		s.value(famRemaining, float64(client.Remaining), name, client.Client)
	}
}

// streams tells whether answers of a service type can be streams.
func streams(t schema.ServiceType) bool { return t == schema.Chat || t == schema.TTS }

func (s *scrape) instance(m *mergedInstance) {
	service, label := m.Service.String(), m.Label
	for result, n := range m.requests {
		s.value(famRequests, float64(n), service, label, schema.Result(result).String())
	}
	s.histogram(famDuration, &m.duration, service, label)
	s.value(famDurationMax, m.duration.Max.Seconds(), service, label)
	if streams(m.Service) {
		s.histogram(famFirstToken, &m.firstToken, service, label)
		s.value(famFirstTokenMax, m.firstToken.Max.Seconds(), service, label)
		s.histogram(famPerToken, &m.perToken, service, label)
	}
	s.value(famTokens, float64(m.tokensIn), service, label, "input")
	s.value(famTokens, float64(m.tokensOut), service, label, "output")
	s.value(famCachedTokens, float64(m.tokensCached), service, label)
	s.value(famCost, float64(m.cost)/1e12, service, label)
	s.value(famInFlight, float64(m.InFlight), service, label)
	s.value(famFailovers, float64(m.failovers), service, label)
	s.value(famCancelled, float64(m.cancelled), service, label)
	s.value(famBreaker, float64(m.Breaker), service, label)
	s.value(famWeight, m.Weight, service, label)
	s.value(famTier, float64(m.Tier), service, label)
	s.value(famHealthy, boolValue(m.Healthy), service, label)
	if m.Slots > 0 {
		s.value(famSlots, float64(m.Slots), service, label)
	}
	if m.Engine != nil {
		s.histogram(famEstimate, &m.estimate, service, label)
		s.engine(m.Engine, service, label)
	}
}

// engine adds what the fleet knows of an instance.
func (s *scrape) engine(e *EngineView, service, label string) {
	s.value(famFleetQueue, e.Queue, service, label)
	s.value(famFleetCalls, float64(e.Waiting), service, label, "waiting")
	s.value(famFleetCalls, float64(e.Decoding), service, label, "decoding")
	s.value(famFleetCalls, float64(e.Others), service, label, "others")
	s.value(famFleetCached, float64(e.Cached), service, label)
	if e.Calls > 0 {
		s.value(famFleetHits, e.HitRate, service, label)
	}
	s.value(famFleetPerToken, e.PerToken, service, label)
}

// budgets adds the budgets of keys and tenants.
func (s *scrape) budgets(view *BudgetsView) {
	s.value(famBudgetAccounts, float64(view.Accounts))
	s.value(famBudgetDisbelieved, float64(view.RefusedTotals))
	for _, store := range [...]struct {
		name string
		StoreView
	}{{"journal", view.Journal}, {"database", view.Database}, {"redis", view.Redis}} {
		s.value(famBudgetHealthy, boolValue(store.Healthy), store.name)
		s.value(famBudgetFailures, float64(store.Failures), store.name)
	}
	for _, b := range view.Budgets {
		s.value(famBudgetLimit, b.Limit, b.Of, b.Window, b.Unit)
		s.value(famBudgetUsed, b.Used, b.Of, b.Window, b.Unit)
		s.value(famBudgetReserved, b.Reserved, b.Of, b.Window, b.Unit)
		s.value(famBudgetRefused, float64(b.Refused), b.Of, b.Window, b.Unit)
		s.value(famBudgetDeferred, float64(b.Deferred), b.Of, b.Window, b.Unit)
	}
}

// shared adds the rate limits that gateways share.
func (s *scrape) shared(view *SharedView) {
	s.value(famSharedHealthy, boolValue(view.Store.Healthy))
	s.value(famSharedFailures, float64(view.Store.Failures))
	s.value(famSharedExchanges, float64(view.Exchanges))
	s.value(famSharedDivided, float64(view.Divided))
}

// model adds a model that is kept.
func (s *scrape) model(m *ModelView) {
	s.value(famModelResident, boolValue(m.IsResident), m.Host, m.Model)
	s.value(famModelWaiting, float64(m.Waiting), m.Host, m.Model)
	s.value(famModelWaited, m.Waited.Seconds(), m.Host, m.Model)
	s.value(famModelLoads, float64(m.Loads), m.Host, m.Model)
	s.value(famModelFailures, float64(m.Failures), m.Host, m.Model)
	s.value(famModelRefusals, float64(m.Refusals), m.Host, m.Model)
	s.value(famModelEvictions, float64(m.Evictions), m.Host, m.Model)
	s.value(famModelSleeps, float64(m.Sleeps), m.Host, m.Model)
}

// batches adds what the gateway does for batches.
func (s *scrape) batches(view *BatchesView) {
	s.value(famBatches, float64(view.Open))
	s.value(famBatchRunning, float64(view.Running))
	s.value(famBatchLines, float64(view.Completed), "completed")
	s.value(famBatchLines, float64(view.Failed), "failed")
	s.value(famBatchStalled, view.Stalled.Seconds())
	s.value(famFilesHealthy, boolValue(!view.IsFull))
}

// process adds a process that the gateway runs.
func (s *scrape) process(p *ProcessView) {
	for _, state := range p.States {
		s.value(famProcessState, boolValue(state == p.State), p.Name, state)
	}
	s.value(famProcessStarts, float64(p.Starts), p.Name)
	s.value(famProcessRestarts, float64(p.Restarts), p.Name)
}

// exchange adds what gateways tell each other about the fleet.
func (s *scrape) exchange(view *ExchangeView) {
	s.value(famExchangeHealthy, boolValue(view.Store.Healthy))
	s.value(famExchangeFailures, float64(view.Store.Failures))
	s.value(famExchangeOthers, float64(view.Others))
	s.value(famExchangeSent, float64(view.Sent))
	s.value(famExchangeReceived, float64(view.Received))
	s.value(famExchangeIgnored, float64(view.Foreign), "secret")
	s.value(famExchangeIgnored, float64(view.Malformed), "form")
	s.value(famExchangeDropped, float64(view.Dropped))
}

// cluster adds the gateways that know each other.
func (s *scrape) cluster(view *ClusterView) {
	s.value(famMembersHealthy, boolValue(view.Healthy))
	for _, members := range view.States {
		s.value(famMembers, float64(members.Count), members.State)
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *scrape) ledger(l *LedgerView) {
	s.value(famQuotaEnabled, boolValue(l.Enabled))
	s.value(famQuotaAdmitted, float64(l.Admitted))
	s.value(famQuotaRefused, float64(l.Refused))
	s.value(famQuotaUnsettled, float64(l.Unsettled))
	s.value(famQuotaDegradations, float64(l.Degradations))
	s.value(famQuotaKeys, float64(l.Keys))
	s.value(famQuotaCells, float64(l.Cells))
	s.value(famQuotaOverflowed, float64(l.Overflowed))
	s.value(famQuotaUncounted, float64(l.Uncounted))
	s.value(famQuotaJournal, float64(l.JournalBytes))
	s.value(famQuotaFlush, l.LastFlush.Seconds())
	for _, store := range [...]struct {
		name string
		StoreView
	}{{"journal", l.Journal}, {"database", l.Database}, {"counter", l.Counter}} {
		s.value(famQuotaHealthy, boolValue(store.Healthy), store.name)
		s.value(famQuotaFailures, float64(store.Failures), store.name)
	}
}

func (s *scrape) configuration(c *ConfigView) {
	for _, source := range [...]struct {
		name string
		StoreView
	}{{"file", c.File}, {"database", c.Database}} {
		s.value(famConfigHealthy, boolValue(source.Healthy), source.name)
		s.value(famConfigFailures, float64(source.Failures), source.name)
	}
}

func (s *scrape) monitoring(m *MonitoringView) {
	s.value(famRecordsDropped, float64(m.Dropped))
	s.value(famRecordsWaiting, float64(m.Waiting))
	s.value(famSamplingRate, m.SamplingRate)
	s.value(famErrors, float64(m.ErrorComponents))
	s.value(famLogDropped, float64(m.LinesDropped))
	s.value(famPanics, float64(m.Panics))
}

func (s *scrape) http() {
	for surface := range s.registry.http {
		for class := range s.registry.http[surface] {
			t := &s.registry.http[surface][class]
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
	now := s.system.read(s.registry.Settings().CollectionInterval.Std())
	s.value(famMemoryUsed, now.heapUsed, "heap")
	s.value(famMemoryUsed, now.otherUsed, "nonheap")
	s.value(famMemoryCommitted, now.heapHeld, "heap")
	s.value(famMemoryCommitted, now.otherUsed, "nonheap")
	s.value(famMemoryMax, now.limit, "heap")
	s.value(famMemoryMax, -1, "nonheap")
	s.timer(famGCPause, now.pauses, now.paused)
	s.value(famGCPauseMax, now.longestPause)
	s.value(famThreadsLive, now.goroutines)
	s.value(famThreadsDaemon, now.goroutines)
	s.value(famThreadsPeak, now.peak)
	s.value(famUptime, now.uptime)
	s.value(famProcessCPU, now.processCPU)
	s.value(famSystemCPU, now.systemCPU)
	s.value(famSystemCPUs, now.cpus)
}
