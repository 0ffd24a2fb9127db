package actuator

import (
	"cmp"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/breaker"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
)

// shownClients is how many clients of a rate limit become series at most.
const shownClients = 50

// state returns the state of the gateway for a scrape.
func (a *API) state() metrics.State {
	now := time.Now()
	table := a.options.Current.Load()
	state := metrics.State{Ledger: a.ledgerView(), Budgets: a.budgetsView(), Shared: a.sharedView(),
		Exchange: a.exchangeView(), Cluster: a.clusterView(), Config: a.configView(),
		Monitoring: a.options.Recorder.View()}
	if a.options.Panics != nil {
		state.Monitoring.Panics = a.options.Panics()
	}
	if a.options.LinesDropped != nil {
		state.Monitoring.LinesDropped = a.options.LinesDropped()
	}
	if a.options.Models != nil {
		for _, m := range a.options.Models(now) {
			state.Models = append(state.Models, modelView(&m))
		}
	}
	if a.options.State != nil {
		a.options.State(&state, now)
	}
	for _, serviceType := range schema.ServiceTypes() {
		s := table.Service(serviceType)
		if s == nil {
			continue
		}
		state.Services = append(state.Services, serviceView(s, now))
		for _, pool := range s.Pools {
			for _, i := range pool.Instances {
				view := instanceView(i)
				if engine := i.Engine(); engine != nil {
					picture := engine.Picture(now)
					use := engine.Fleet().Use([]*fleet.Uses{i.Uses()}, now)
					view.Engine, state.Trust = engineView(&picture, use), &picture.Trust
				}
				state.Instances = append(state.Instances, view)
			}
		}
	}
	return state
}

func modelView(m *residency.State) metrics.ModelView {
	return metrics.ModelView{
		Host: m.Host, Model: m.Model, IsResident: m.State == "loaded", Waiting: m.Waiting, Waited: m.Waited,
		Loads: m.Counts.Loads, Failures: m.Failures, Refusals: m.Refusals, Evictions: m.Evictions, Sleeps: m.Sleeps,
	}
}

func (a *API) ledgerView() metrics.LedgerView {
	s := statsOf(a.options.Ledger)
	return metrics.LedgerView{
		Enabled: s.Enabled, Admitted: s.Admitted, Refused: s.Refused, Unsettled: s.Unsettled,
		Degradations: s.Degradations,
		Keys:         s.Keys, Cells: s.Cells, Overflowed: s.Overflowed, Uncounted: s.Uncounted,
		JournalBytes: s.JournalBytes,
		LastFlush:    s.LastFlushDuration,
		Journal:      metrics.StoreView{Healthy: s.JournalFailure == nil, Failures: s.JournalFailures},
		Database:     metrics.StoreView{Healthy: s.StoreFailure == nil, Failures: s.StoreFailures},
		Counter:      metrics.StoreView{Healthy: s.CounterFailure == nil, Failures: s.CounterFailures},
	}
}

func (a *API) sharedView() metrics.SharedView {
	if a.options.Shared == nil {
		return metrics.SharedView{Store: metrics.StoreView{Healthy: true}}
	}
	s := a.options.Shared()
	return metrics.SharedView{
		Store:     metrics.StoreView{Healthy: s.Failure == nil || s.Limits == 0, Failures: s.Failures},
		Exchanges: s.Exchanges, Divided: s.Divided,
	}
}

func (a *API) exchangeView() metrics.ExchangeView {
	if a.options.Exchange == nil {
		return metrics.ExchangeView{Store: metrics.StoreView{Healthy: true}}
	}
	s := a.options.Exchange()
	return metrics.ExchangeView{
		Store:  metrics.StoreView{Healthy: s.Failure == nil || !s.IsOn, Failures: s.Failures},
		Others: s.Others, Sent: s.Sent, Received: s.Received, Foreign: s.Foreign, Malformed: s.Malformed,
		Dropped: s.Dropped,
	}
}

// shownBudgets is how many keys and tenants with budgets become series at most.
const shownBudgets = 100

// budgetsView returns the budgets of the keys and tenants that have used the greatest part
// of one, because these are about to be refused.
func (a *API) budgetsView() (view metrics.BudgetsView) {
	s := statsOf(a.options.BudgetLedger)
	view.Journal = metrics.StoreView{Healthy: s.JournalFailure == nil, Failures: s.JournalFailures}
	view.Database = metrics.StoreView{Healthy: s.StoreFailure == nil, Failures: s.StoreFailures}
	view.Redis = metrics.StoreView{Healthy: s.CounterFailure == nil, Failures: s.CounterFailures}
	view.RefusedTotals = s.RefusedTotals
	if a.options.Budgets == nil {
		return view
	}
	type account struct {
		fullest float64
		budgets []metrics.BudgetView
	}
	accounts := []*account{}
	last := ""
	for _, use := range a.options.Budgets() { // in the order of the accounts
		if use.Account != last {
			accounts, last = append(accounts, new(account)), use.Account
		}
		unit := 1.0
		if use.Unit == budget.Cost {
			unit = 1e12
		}
		shown := metrics.BudgetView{
			Of: use.Account, Window: use.WindowName(), Unit: use.UnitName(), Limit: float64(use.Limit) / unit,
			Used:     float64(use.Used) / unit,
			Reserved: float64(use.Reserved) / unit, Refused: use.Refused, Deferred: use.Deferred,
		}
		one := accounts[len(accounts)-1]
		one.fullest, one.budgets = max(one.fullest, shown.Used/shown.Limit), append(one.budgets, shown)
	}
	if view.Accounts = len(accounts); len(accounts) > shownBudgets {
		slices.SortStableFunc(accounts, func(a, b *account) int { return cmp.Compare(b.fullest, a.fullest) })
		accounts = accounts[:shownBudgets]
	}
	for _, one := range accounts {
		view.Budgets = append(view.Budgets, one.budgets...)
	}
	return view
}

func (a *API) clusterView() metrics.ClusterView {
	view := metrics.ClusterView{Healthy: true}
	counts := map[cluster.State]int{cluster.Up: 1}
	if a.options.Cluster != nil {
		known := a.options.Cluster()
		view.Healthy = known.Failure == nil
		counts = countStates(known)
	}
	for _, state := range cluster.States() {
		view.States = append(view.States, metrics.MembersView{State: string(state), Count: counts[state]})
	}
	return view
}

func countStates(known cluster.View) map[cluster.State]int {
	counts := map[cluster.State]int{}
	for i := range known.Members {
		counts[known.Members[i].State]++
	}
	return counts
}

func serviceView(s *routing.Service, now time.Time) metrics.ServiceView {
	view := metrics.ServiceView{Service: s.Type}
	for _, pool := range s.Pools {
		view.Waiting += pool.Queue.Len()
		for class, n := range pool.Queue.Lengths() {
			view.ByClass[class] += n
		}
	}
	limit := s.LimitSnapshot(now, shownClients)
	view.Remaining, view.PerClient = limit.Remaining, limit.Enabled && limit.PerClient
	for _, c := range limit.Clients {
		view.Clients = append(view.Clients,
			metrics.ClientView{Client: ratelimit.ClientName(c.Client), Remaining: c.Remaining})
	}
	return view
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

// engineView returns what the fleet knows of an instance.
func engineView(p *fleet.Picture, use fleet.Use) *metrics.EngineView {
	return &metrics.EngineView{
		Queue: p.Queue, Waiting: use.Waiting, Decoding: use.Decoding, Others: p.Others, Cached: p.Cached,
		Calls: use.Calls, HitRate: use.HitRate, PerToken: p.PerToken,
	}
}

// isUp tells whether an instance is enabled and healthy.
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
