package metrics

import (
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// State is the living state of the gateway at one moment, as far as a scrape
// shows it.
type State struct {
	Services   []ServiceView
	Instances  []InstanceView
	Ledger     LedgerView
	Budgets    BudgetsView
	Shared     SharedView
	Exchange   ExchangeView
	Cluster    ClusterView
	Config     ConfigView
	Monitoring MonitoringView
}

// MonitoringView is the state of the recording of calls.
type MonitoringView struct {
	// Dropped counts the records for which there was no room, Waiting those that
	// wait to be moved on.
	Dropped int64
	Waiting int
	// SamplingRate is the part of the calls that is recorded, from 0 to 1.
	SamplingRate float64
	// ErrorComponents counts the parts of monitoring that failed lately.
	ErrorComponents int
	// LinesDropped counts the lines of the log that were dropped.
	LinesDropped int64
}

// BudgetsView is how much of the budgets of keys and tenants is used.
type BudgetsView struct {
	// Accounts counts the keys and tenants that have budgets; Budgets may be those of
	// some of them.
	Accounts int
	Budgets  []BudgetView
	// The stores of budgets; those that are not in use are well.
	Journal, Database, Redis StoreView
}

// BudgetView is one budget.
type BudgetView struct {
	Of, Window, Unit      string
	Limit, Used, Reserved float64
	Refused, Deferred     int64
}

// SharedView is the state of the rate limits that gateways share.
type SharedView struct {
	Store              StoreView
	Exchanges, Divided int64
}

// ExchangeView is the state of what gateways tell each other about the fleet.
type ExchangeView struct {
	Store          StoreView
	Others         int
	Sent, Received int64
	// Foreign and Malformed count messages that were ignored, and Dropped prompts that
	// others were not told of.
	Foreign, Malformed, Dropped int64
}

// ClusterView is how many gateways there are in each state.
type ClusterView struct {
	Healthy bool
	States  []MembersView
}

// MembersView counts the gateways in one state.
type MembersView struct {
	State string
	Count int
}

// ConfigView is the state of the sources of the configuration: the file, and the
// database where it is shared. A source that is not in use is healthy.
type ConfigView struct{ File, Database StoreView }

// LedgerView is the state of the quota ledger.
type LedgerView struct {
	Enabled                                    bool
	Admitted, Refused, Unsettled, Degradations int64
	Keys, Cells, Overflowed, Uncounted         int64
	JournalBytes                               int64
	LastFlush                                  time.Duration
	Journal, Database, Counter                 StoreView
}

// StoreView is something that may fail, such as a store of the ledger.
type StoreView struct {
	Healthy  bool
	Failures int64
}

// ServiceView is the state of a configured service type.
type ServiceView struct {
	Service schema.ServiceType
	// Waiting counts the requests in its queues.
	Waiting int
	// Remaining is what its rate limit leaves, where it is not by client.
	Remaining int
	// Clients are what each client has left, where every client has its own
	// limit; there are few.
	Clients   []ClientView
	PerClient bool
}

// ClientView is what a client has left of its limit.
type ClientView struct {
	Client    string
	Remaining int
}

// InstanceView is the state of a configured instance.
type InstanceView struct {
	Service schema.ServiceType
	// Label names the instance without scheme, path and credentials.
	Label    string
	Series   *Instance
	InFlight int64
	// Breaker is 0 for closed, 1 for open, 2 for half open.
	Breaker int
	Weight  float64
	Tier    int
	Healthy bool
}

// merged adds up the instances that have the same label. Two paths of one server
// have different identifiers, but labels do not show paths.
func merged(instances []InstanceView) []mergedInstance {
	type key struct {
		service schema.ServiceType
		label   string
	}
	index := make(map[key]int, len(instances))
	all := make([]mergedInstance, 0, len(instances))
	for _, i := range instances {
		i.Label = strings.ToValidUTF8(i.Label, "\uFFFD") // before they are compared
		k := key{i.Service, i.Label}
		n, there := index[k]
		if !there {
			index[k] = len(all)
			all = append(all, newMerged(i))
			continue
		}
		all[n].add(i)
	}
	return all
}

// mergedInstance is what a scrape shows of the instances with one label.
type mergedInstance struct {
	InstanceView
	requests             [statusCount]int64
	cancelled, failovers int64
	tokensIn, tokensOut  int64
	cost                 int64
	duration, firstToken HistogramSnapshot
	perToken             HistogramSnapshot
}

func newMerged(i InstanceView) mergedInstance {
	m := mergedInstance{InstanceView: i}
	m.duration, m.firstToken, m.perToken = i.Series.duration.Snapshot(), i.Series.firstToken.Snapshot(), i.Series.perToken.Snapshot()
	m.addCounts(i.Series)
	return m
}

func (m *mergedInstance) addCounts(s *Instance) {
	for n := range s.requests {
		m.requests[n] += s.requests[n].Value()
	}
	m.cancelled += s.cancelledRequests()
	m.failovers += s.Failovers.Value()
	m.tokensIn += s.tokensIn.Value()
	m.tokensOut += s.tokensOut.Value()
	m.cost += s.cost.Value()
}

func (m *mergedInstance) add(i InstanceView) {
	m.addCounts(i.Series)
	duration, firstToken, perToken := i.Series.duration.Snapshot(), i.Series.firstToken.Snapshot(), i.Series.perToken.Snapshot()
	m.duration.merge(&duration)
	m.firstToken.merge(&firstToken)
	m.perToken.merge(&perToken)
	m.InFlight += i.InFlight
	m.Weight += i.Weight
	m.Tier = min(m.Tier, i.Tier)
	m.Healthy = m.Healthy || i.Healthy
	if i.Breaker == 1 || m.Breaker == 0 { // an open one says most
		m.Breaker = i.Breaker
	}
}
