package metrics

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// State is the living state of the gateway at one moment, as far as a scrape
// shows it.
type State struct {
	Services  []ServiceView
	Instances []InstanceView
	// Trust is how far what engines tell is believed, from 0 to 1; nil without a fleet.
	Trust *float64
	// Models are those that are kept in memory and put to sleep.
	Models []ModelView
	// Batches is what the gateway does for batches, nil where they are off.
	Batches *BatchesView
	// Sockets is how many WebSockets of clients are open.
	Sockets int
	// Processes are those that the gateway runs.
	Processes  []ProcessView
	Ledger     LedgerView
	Budgets    BudgetsView
	Shared     SharedView
	Exchange   ExchangeView
	Cluster    ClusterView
	Config     ConfigView
	Monitoring MonitoringView
}

// BatchesView is what the gateway does for batches.
type BatchesView struct {
	Open, Running     int
	Completed, Failed int64         // lines that ended
	Stalled           time.Duration // since a batch moved that could
	IsFull            bool          // there is no space for files
}

// ProcessView is a process that the gateway runs.
type ProcessView struct {
	Name             string
	State            string   // one of States
	States           []string // all that there are
	Starts, Restarts int64
}

// ModelView is a model that is kept in the memory of its host.
type ModelView struct {
	Host, Model string
	IsResident  bool
	Waiting     int           // requests that wait for it
	Waited      time.Duration // all requests together

	Loads, Failures, Refusals, Evictions, Sleeps int64
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
	// Panics counts the panics that were caught.
	Panics int64
}

// BudgetsView is how much of the budgets of keys and tenants is used.
type BudgetsView struct {
	// Accounts counts the keys and tenants that have budgets; Budgets may be those of
	// some of them.
	Accounts int
	Budgets  []BudgetView
	// The stores of budgets; those that are not in use are well.
	Journal, Database, Redis StoreView
	// RefusedTotals counts what was read in Redis and not believed.
	RefusedTotals int64
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
	// Waiting counts the requests in its queues, and ByClass those of each class.
	Waiting int
	ByClass [schema.ClassCount]int
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
	// Slots is how many requests it gets at a time where that is learned, else 0.
	Slots int
	// Engine is what the fleet knows of it; nil where its strategy needs none.
	Engine *EngineView
}

// EngineView is what the fleet knows of an instance.
type EngineView struct {
	// Queue is how many seconds of prefill a new request would find there.
	Queue float64
	// Waiting and Decoding are calls before and after their first token, Others those of
	// other gateways before it.
	Waiting, Decoding, Others int
	// Cached is how many bytes of prompts it is believed to have cached.
	Cached int64
	// Calls counts those that were answered lately, and HitRate is the part of the tokens of
	// their prompts that came from its cache.
	Calls   int
	HitRate float64
	// PerToken is the seconds for a token of a prompt.
	PerToken float64
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
	tokensCached         int64
	cost                 int64
	duration, firstToken HistogramSnapshot
	perToken             HistogramSnapshot
	estimate             HistogramSnapshot
}

func newMerged(i InstanceView) mergedInstance {
	m := mergedInstance{InstanceView: i}
	m.duration, m.firstToken, m.perToken = i.Series.duration.Snapshot(), i.Series.firstToken.Snapshot(), i.Series.perToken.Snapshot()
	m.estimate = i.Series.estimate.Snapshot()
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
	m.tokensCached += s.tokensCached.Value()
	m.cost += min(s.cost.Value(), math.MaxInt64-m.cost)
}

func (m *mergedInstance) add(i InstanceView) {
	m.addCounts(i.Series)
	duration, firstToken, perToken := i.Series.duration.Snapshot(), i.Series.firstToken.Snapshot(), i.Series.perToken.Snapshot()
	m.duration.merge(&duration)
	m.firstToken.merge(&firstToken)
	m.perToken.merge(&perToken)
	estimate := i.Series.estimate.Snapshot()
	m.estimate.merge(&estimate)
	m.Slots += i.Slots
	m.InFlight += i.InFlight
	m.Weight += i.Weight
	m.Tier = min(m.Tier, i.Tier)
	m.Healthy = m.Healthy || i.Healthy
	m.Engine = m.Engine.with(i.Engine)
	if i.Breaker == 1 || m.Breaker == 0 { // an open one says most
		m.Breaker = i.Breaker
	}
}

// with returns what is known of two instances together. Either may be nil.
func (e *EngineView) with(other *EngineView) *EngineView {
	if e == nil || other == nil {
		return cmp.Or(e, other)
	}
	sum := EngineView{
		Queue: max(e.Queue, other.Queue), PerToken: max(e.PerToken, other.PerToken),
		Waiting: e.Waiting + other.Waiting, Decoding: e.Decoding + other.Decoding, Others: e.Others + other.Others,
		Cached: e.Cached + other.Cached, Calls: e.Calls + other.Calls,
	}
	if sum.Calls > 0 {
		sum.HitRate = (e.HitRate*float64(e.Calls) + other.HitRate*float64(other.Calls)) / float64(sum.Calls)
	}
	return &sum
}
