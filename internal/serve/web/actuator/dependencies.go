package actuator

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/cluster"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

// degraded is the status of a dependency that the gateway can do without for a while. The
// status of the gateway stays UP, and the gateway stays in rotation.
const degraded = "DEGRADED"

// ConfigSources are the sources of the configuration; nil means that it is not in use.
type ConfigSources struct{ File, Database *ConfigSource }

// ConfigSource is the state of a source of the configuration.
type ConfigSource struct {
	Failure  *condition.Failure // nil while the source works
	Failures int64
	// LastRead is the time of the last reading of the file; it is zero for a database.
	LastRead time.Time
}

// Component is the health of a wing, with details as JSON.
type Component struct {
	IsDegraded bool
	Details    any
}

// Dependency says why and since when a dependency fails, as details of a component.
type Dependency struct {
	Since    string `json:"since,omitzero"`
	Reason   string `json:"reason,omitzero"`
	Failures int64  `json:"failures"`
	LastRead string `json:"lastRead,omitzero"`
}

func dependencyHealth(failure *condition.Failure, failures int64) (string, Dependency) {
	details := Dependency{Failures: failures}
	if failure == nil {
		return up, details
	}
	details.Since, details.Reason = web.Time(failure.Since), Shorten(failure.Reason)
	return degraded, details
}

// Shorten cuts a long reason.
func Shorten(reason string) string {
	const longest = 500
	if runes := []rune(reason); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return reason
}

// addDependencies adds a component for each configured dependency of the gateway, except
// for the backends.
func (a *API) addDependencies(to map[string]health) {
	add := func(name string, failure *condition.Failure, failures int64) {
		status, details := dependencyHealth(failure, failures)
		to[name] = health{Status: status, Details: details}
	}
	addLedger := func(s quota.Stats, journal, database, counter string) {
		if s.Enabled {
			add(journal, s.JournalFailure, s.JournalFailures)
			add(database, s.StoreFailure, s.StoreFailures)
		}
		if s.Enabled && s.Distributed {
			add(counter, s.CounterFailure, s.CounterFailures)
		}
	}
	addLedger(statsOf(a.options.Ledger), "ledgerJournal", "ledgerDatabase", "redis")
	addLedger(statsOf(a.options.BudgetLedger), "budgetJournal", "budgetDatabase", "sharedBudgets")
	if a.options.Shared != nil {
		if s := a.options.Shared(); s.Limits > 0 {
			add("sharedLimits", s.Failure, s.Failures)
		}
	}
	if a.options.Components != nil {
		wings := map[string]Component{}
		a.options.Components(wings)
		for name, c := range wings {
			to[name] = health{Status: up, Details: c.Details}
			if c.IsDegraded {
				to[name] = health{Status: degraded, Details: c.Details}
			}
		}
	}
	if a.options.Exchange != nil {
		if s := a.options.Exchange(); s.IsOn {
			status, details := dependencyHealth(s.Failure, s.Failures)
			to["fleetExchange"] = health{Status: status, Details: exchangeDetails{details, s.Others}}
		}
	}
	if known, isShared := a.clusterHealth(); isShared {
		to["cluster"] = known
	}
	if a.options.Config == nil {
		return
	}
	sources := a.options.Config()
	if database := sources.Database; database != nil {
		add("configDatabase", database.Failure, database.Failures)
	}
	if file := sources.File; file != nil {
		status, details := dependencyHealth(file.Failure, file.Failures)
		if !file.LastRead.IsZero() {
			details.LastRead = web.Time(file.LastRead)
		}
		to["configFile"] = health{Status: status, Details: details}
	}
}

// statsOf returns the counts of a ledger, none where there is no ledger.
func statsOf(ledger func() quota.Stats) (s quota.Stats) {
	if ledger != nil {
		s = ledger()
	}
	return s
}

// exchangeDetails say with how many other gateways this one agrees where requests go; 0
// means that it is alone.
type exchangeDetails struct {
	Dependency

	Others int `json:"others"`
}

// clusterDetails count the gateways that share the configuration, by their states.
type clusterDetails struct {
	Dependency

	Up       int `json:"up"`
	Behind   int `json:"behind"`
	Away     int `json:"away"`
	Draining int `json:"draining"`
}

// clusterHealth is degraded while the list of gateways cannot be reached, or while a
// gateway is away or lacks the latest configuration.
func (a *API) clusterHealth() (h health, isShared bool) {
	if a.options.Cluster == nil {
		return h, false
	}
	known := a.options.Cluster()
	if !known.IsShared {
		return h, false
	}
	status, details := dependencyHealth(known.Failure, known.Failures)
	counts := countStates(known)
	if counts[cluster.Behind]+counts[cluster.Away] > 0 {
		status = degraded
	}
	return health{Status: status,
		Details: clusterDetails{details, counts[cluster.Up], counts[cluster.Behind], counts[cluster.Away],
			counts[cluster.Draining]}}, true
}

// configState adds the sources of the configuration to a scrape. A source that is not in
// use counts as healthy.
func (a *API) configState(to *metrics.State) {
	var sources ConfigSources
	if a.options.Config != nil {
		sources = a.options.Config()
	}
	sources.File.state(to, "file")
	sources.Database.state(to, "database")
}

func (s *ConfigSource) state(to *metrics.State, name string) {
	if s == nil {
		s = new(ConfigSource)
	}
	to.Store("model_router_config_source", s.Failure == nil, s.Failures, name)
}
