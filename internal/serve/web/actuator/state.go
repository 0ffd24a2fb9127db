package actuator

import (
	"cmp"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// shownClients is the greatest number of clients of a rate limit that become series.
const shownClients = 50

// state adds the state of the gateway to a scrape.
func (a *API) state(to *metrics.State) {
	now := time.Now()
	a.ledgerState(to)
	a.budgetsState(to)
	a.sharedState(to)
	a.clusterState(to)
	a.configState(to)
	a.monitoringState(to)
	if a.options.Models != nil {
		for _, m := range a.options.Models(now) {
			modelState(to, &m)
		}
	}
	if a.options.State != nil {
		a.options.State(to, now)
	}
	var trust *float64 // how far the gateway believes the figures of engines
	table := a.options.Current.Load()
	for _, serviceType := range schema.ServiceTypes() {
		s := table.Service(serviceType)
		if s == nil {
			continue
		}
		serviceState(to, s, now)
		for _, pool := range s.Pools {
			for _, i := range pool.Instances {
				view := instanceView(i)
				if engine := i.Engine(); engine != nil {
					picture := engine.Picture(now)
					use := engine.Fleet().Use([]*fleet.Uses{i.Uses()}, now)
					view.Engine, trust = engineView(&picture, use), &picture.Trust
				}
				to.Instances = append(to.Instances, view)
			}
		}
	}
	if trust != nil {
		to.Value("model_router_fleet_trust", *trust)
	}
}

func (a *API) monitoringState(to *metrics.State) {
	var panics, dropped int64
	if a.options.Panics != nil {
		panics = a.options.Panics()
	}
	if a.options.LinesDropped != nil {
		dropped = a.options.LinesDropped()
	}
	to.Count("model_router_panics_total", panics)
	to.Count("model_router_log_lines_dropped_total", dropped)
	a.options.Recorder.State(to)
}

// modelState adds a model that is kept in the memory of its host.
func modelState(to *metrics.State, m *residency.State) {
	to.Flag("model_router_model_resident", m.State == "loaded", m.Host, m.Model)
	to.Count("model_router_model_waiting_requests", int64(m.Waiting), m.Host, m.Model)
	to.Value("model_router_model_waited_seconds_total", m.Waited.Seconds(), m.Host, m.Model)
	to.Count("model_router_model_loads_total", m.Counts.Loads, m.Host, m.Model)
	to.Count("model_router_model_load_failures_total", m.Failures, m.Host, m.Model)
	to.Count("model_router_model_load_refusals_total", m.Refusals, m.Host, m.Model)
	to.Count("model_router_model_evictions_total", m.Evictions, m.Host, m.Model)
	to.Count("model_router_model_sleeps_total", m.Sleeps, m.Host, m.Model)
}

func (a *API) ledgerState(to *metrics.State) {
	s := statsOf(a.options.Ledger)
	to.Flag("model_router_quota_enabled", s.Enabled)
	to.Count("model_router_quota_admitted_requests_total", s.Admitted)
	to.Count("model_router_quota_refused_requests_total", s.Refused)
	to.Count("model_router_quota_unsettled_total", s.Unsettled)
	to.Count("model_router_quota_degradations_total", s.Degradations)
	to.Count("model_router_quota_keys", s.Keys)
	to.Count("model_router_quota_cells", s.Cells)
	to.Count("model_router_quota_overflowed_total", s.Overflowed)
	to.Count("model_router_quota_uncounted_total", s.Uncounted)
	to.Count("model_router_quota_journal_bytes", s.JournalBytes)
	to.Value("model_router_quota_last_flush_seconds", s.LastFlushDuration.Seconds())
	storesState(to, "model_router_quota_store", "counter", &s)
}

// storesState adds the stores of a ledger; shared is the name of the shared one.
func storesState(to *metrics.State, name, shared string, s *quota.Stats) {
	to.Store(name, s.JournalFailure == nil, s.JournalFailures, "journal")
	to.Store(name, s.StoreFailure == nil, s.StoreFailures, "database")
	to.Store(name, s.CounterFailure == nil, s.CounterFailures, shared)
}

// sharedState adds the rate limits and the fleet that gateways share.
func (a *API) sharedState(to *metrics.State) {
	var limits tally.Stats
	if a.options.Shared != nil {
		limits = a.options.Shared()
	}
	to.Store("model_router_shared_limits", limits.Failure == nil || limits.Limits == 0, limits.Failures)
	to.Count("model_router_shared_limits_exchanges_total", limits.Exchanges)
	to.Count("model_router_shared_limits_divided_requests_total", limits.Divided)
	var told fleet.ExchangeStats
	if a.options.Exchange != nil {
		told = a.options.Exchange()
	}
	to.Store("model_router_fleet_exchange", told.Failure == nil || !told.IsOn, told.Failures)
	to.Count("model_router_fleet_exchange_gateways", int64(told.Others))
	to.Count("model_router_fleet_exchange_sent_messages_total", told.Sent)
	to.Count("model_router_fleet_exchange_received_messages_total", told.Received)
	to.Count("model_router_fleet_exchange_ignored_messages_total", told.Foreign, "secret")
	to.Count("model_router_fleet_exchange_ignored_messages_total", told.Malformed, "form")
	to.Count("model_router_fleet_exchange_dropped_prompts_total", told.Dropped)
}

// shownBudgets bounds the keys and tenants with budgets that become series.
const shownBudgets = 100

// budgetsState adds the budgets of the keys and tenants that have used the greatest part of
// theirs, because the gateway is about to refuse these.
func (a *API) budgetsState(to *metrics.State) {
	s := statsOf(a.options.BudgetLedger)
	storesState(to, "model_router_budget_store", "redis", &s)
	to.Count("model_router_budget_refused_totals_total", s.RefusedTotals)
	type account struct {
		fullest float64
		budgets []budget.Use
	}
	accounts := []*account{}
	last := ""
	for _, use := range a.allBudgets() { // in the order of the accounts
		use.Account = access.GroupOf(use.Account)
		if use.Account != last {
			accounts, last = append(accounts, new(account)), use.Account
		}
		one := accounts[len(accounts)-1]
		one.fullest = max(one.fullest, float64(use.Used)/float64(use.Limit))
		one.budgets = addUse(one.budgets, use)
	}
	to.Count("model_router_budget_accounts", int64(len(accounts)))
	if len(accounts) > shownBudgets {
		slices.SortStableFunc(accounts, func(a, b *account) int { return cmp.Compare(b.fullest, a.fullest) })
		accounts = accounts[:shownBudgets]
	}
	for _, one := range accounts {
		for i := range one.budgets {
			budgetState(to, &one.budgets[i])
		}
	}
}

// addUse adds a budget to the ones of its account, or of the subjects of tokens that are counted
// together.
func addUse(budgets []budget.Use, use budget.Use) []budget.Use {
	at := slices.IndexFunc(budgets, func(b budget.Use) bool { return b.Window == use.Window && b.Unit == use.Unit })
	if at < 0 {
		return append(budgets, use)
	}
	sum := &budgets[at]
	sum.Limit, sum.Used, sum.Reserved = sum.Limit+use.Limit, sum.Used+use.Used, sum.Reserved+use.Reserved
	sum.Refused, sum.Deferred = sum.Refused+use.Refused, sum.Deferred+use.Deferred
	return budgets
}

func (a *API) allBudgets() []budget.Use {
	if a.options.Budgets == nil {
		return nil
	}
	return a.options.Budgets()
}

func budgetState(to *metrics.State, use *budget.Use) {
	unit := 1.0
	if use.Unit == budget.Cost {
		unit = 1e12
	}
	labels := []string{use.Account, use.WindowName(), use.UnitName()}
	to.Value("model_router_budget_limit", float64(use.Limit)/unit, labels...)
	to.Value("model_router_budget_used", float64(use.Used)/unit, labels...)
	to.Value("model_router_budget_reserved", float64(use.Reserved)/unit, labels...)
	to.Count("model_router_budget_refused_requests_total", use.Refused, labels...)
	to.Count("model_router_budget_deferred_requests_total", use.Deferred, labels...)
}

// clusterState adds how many gateways there are in each state.
func (a *API) clusterState(to *metrics.State) {
	isHealthy, counts := true, map[cluster.State]int{cluster.Up: 1}
	if a.options.Cluster != nil {
		known := a.options.Cluster()
		isHealthy, counts = known.Failure == nil, countStates(known)
	}
	to.Flag("model_router_cluster_healthy", isHealthy)
	for _, state := range cluster.States() {
		to.Count("model_router_cluster_members", int64(counts[state]), string(state))
	}
}

func countStates(known cluster.View) map[cluster.State]int {
	counts := map[cluster.State]int{}
	for i := range known.Members {
		counts[known.Members[i].State]++
	}
	return counts
}

// serviceState adds the queue and the rate limit of a configured service type.
func serviceState(to *metrics.State, s *routing.Service, now time.Time) {
	name := s.Type.String()
	waiting, byClass := 0, [schema.ClassCount]int{}
	for _, pool := range s.Pools {
		waiting += pool.Queue.Len()
		for class, n := range pool.Queue.Lengths() {
			byClass[class] += n
		}
	}
	to.Count("model_router_queue_length", int64(waiting), name)
	for _, class := range schema.Classes() {
		to.Count("model_router_queue_class_length", int64(byClass[class]), name, class.String())
	}
	limit := s.LimitSnapshot(now, shownClients)
	if !limit.Enabled || !limit.PerClient {
		to.Count("model_router_rate_limit_remaining", int64(limit.Remaining), name)
	}
	for _, c := range limit.Clients {
		to.Count("model_router_rate_limit_remaining", int64(c.Remaining), name, ratelimit.ClientName(c.Client))
	}
}

func instanceView(i *backend.Instance) metrics.InstanceView {
	slots := 0
	if learned := i.Pace(); learned != nil {
		slots = learned.Limit()
	}
	return metrics.InstanceView{
		Service: i.Service, Slots: slots, Label: i.Label(), Series: i.Series, InFlight: i.InFlight(),
		Breaker: breakerNumber(i.Breaker.Snapshot().State), Weight: i.Settings.Weight, Tier: i.Settings.Tier,
		Healthy: isUp(i),
	}
}

// engineView returns the fleet's knowledge of an instance.
func engineView(p *fleet.Picture, use fleet.Use) *metrics.EngineView {
	return &metrics.EngineView{
		Queue: p.Queue, Waiting: use.Waiting, Decoding: use.Decoding, Others: p.Others, Cached: p.Cached,
		Calls: use.Calls, HitRate: use.HitRate, Saved: use.SavedShare(), PerToken: p.PerToken, PerOutput: p.PerOutput,
	}
}

// isUp reports whether an instance is enabled and healthy.
func isUp(i *backend.Instance) bool { return i.Settings.Enabled && i.Healthy() }

// breakerNumber returns the state of a breaker as a metric has it.
func breakerNumber(s breaker.State) int {
	switch s {
	case breaker.Open:
		return 1
	case breaker.HalfOpen:
		return 2
	}
	return 0
}
