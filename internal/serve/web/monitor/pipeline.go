package monitor

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

type errorCounts struct {
	ActiveErrorComponents int   `json:"activeErrorComponents"`
	DegradedComponents    int   `json:"degradedComponents"`
	TotalErrors           int64 `json:"totalErrors"`
}

func countsOf(s calls.FaultStats) errorCounts { return errorCounts{s.Active, s.Degraded, s.Total} }

// health returns the health of monitoring itself.
func (a *API) health(*web.Call) (monitoringHealth, error) {
	details := monitoringHealthDetails{MetricsCollector: "UP", PrometheusRegistry: "UP", ConfigUpdater: "UP"}
	guard := a.Recorder.Breaker()
	switch {
	case !a.Recorder.Settings().Enabled:
		details.MetricsCollector = "DISABLED"
	case a.Recorder.Degradation().Level == calls.LevelDisabled:
		details.MetricsCollector = "DOWN"
	case a.Recorder.Degradation().Level != calls.LevelNormal || guard.State != calls.BreakerClosed:
		details.MetricsCollector = "DEGRADED"
	}
	for _, fault := range a.Recorder.Faults().Faults {
		if fault.Component == "prometheusRegistry" {
			details.PrometheusRegistry = "DEGRADED"
		}
	}
	status, healthy := "UP", a.healthy()
	if !healthy {
		status = "DOWN"
	}
	return monitoringHealth{status, healthy, details}, nil
}

// monitoringHealth is the health of monitoring itself.
type monitoringHealth struct {
	Status  string                  `json:"status" enum:"UP,DOWN"`
	Healthy bool                    `json:"healthy"`
	Details monitoringHealthDetails `json:"details"`
}

type monitoringHealthDetails struct {
	MetricsCollector   string `json:"metricsCollector" enum:"UP,DEGRADED,DOWN,DISABLED"`
	PrometheusRegistry string `json:"prometheusRegistry" enum:"UP,DEGRADED"`
	ConfigUpdater      string `json:"configUpdater" enum:"UP"`
}

// healthy reports whether recording goes on; degradation can disable it.
func (a *API) healthy() bool { return a.Recorder.Degradation().Level != calls.LevelDisabled }

// overview summarizes the state of monitoring.
type overview struct {
	Enabled             bool               `json:"enabled"`
	Prefix              string             `json:"prefix"`
	EnabledCategories   []metrics.Category `json:"enabledCategories"`
	Healthy             bool               `json:"healthy"`
	ErrorStats          errorCounts        `json:"errorStats"`
	DegradationStatus   degradationSummary `json:"degradationStatus"`
	CacheStats          cacheSummary       `json:"cacheStats"`
	CircuitBreakerStats guardSummary       `json:"circuitBreakerStats"`
}

type degradationSummary struct {
	Level           string  `json:"level" enum:"NORMAL,PARTIAL,MINIMAL,DISABLED"`
	SamplingRate    float64 `json:"samplingRate" minimum:"0" maximum:"1"`
	AutoModeEnabled bool    `json:"autoModeEnabled"`
}

type cacheSummary struct {
	UsageRatio    float64 `json:"usageRatio" minimum:"0" maximum:"1"`
	ActiveRetries int     `json:"activeRetries"`
}

type guardSummary struct {
	State       string  `json:"state" enum:"CLOSED,OPEN,HALF_OPEN"`
	FailureRate float64 `json:"failureRate" minimum:"0" maximum:"1"`
}

func (a *API) overview(*web.Call) (overview, error) {
	settings, level, waiting, guard := a.Recorder.Settings(), a.Recorder.Degradation(), a.Recorder.Cache(),
		a.Recorder.Breaker()
	return overview{
		settings.Enabled, settings.Prefix, settings.EnabledCategories, a.healthy(), countsOf(a.Recorder.Faults()),
		degradationSummary{level.Level.String(), level.Level.Share(), level.Auto},
		cacheSummary{waiting.Usage(), waiting.ActiveRetries},
		guardSummary{guard.State.String(), guard.FailureRate},
	}, nil
}

func (a *API) errors(c *web.Call) (errorStats, error) {
	words := c.Words()
	stats := a.Recorder.Faults()
	components := make([]errorComponent, 0, len(stats.Faults))
	for _, f := range stats.Faults {
		text, _ := words(say.Plain(f.LastError))
		components = append(components,
			errorComponent{f.Component, f.Operation, f.Count, text, web.Time(f.LastOccurred)})
	}
	return errorStats{countsOf(stats), components}, nil
}

// errorStats are the errors of monitoring, by component and operation.
type errorStats struct {
	errorCounts `json:",inline"`
	Components  []errorComponent `json:"components"`
}

type errorComponent struct {
	Component    string `json:"component"`
	Operation    string `json:"operation"`
	Count        int64  `json:"count"`
	LastError    string `json:"lastError"`
	LastOccurred string `json:"lastOccurred" format:"date-time"`
}

// resetRequest names the errors that are reset.
type resetRequest struct {
	Component string `json:"component" required:"true" minLength:"1"`
	Operation string `json:"operation" required:"true" minLength:"1"`
}

func (a *API) resetErrors(c *web.Call, body *resetRequest) (errorStats, error) {
	a.Recorder.ResetFault(body.Component, body.Operation)
	return a.errors(c)
}

// degradation is the present level of recording.
type degradation struct {
	Level               string  `json:"level" enum:"NORMAL,PARTIAL,MINIMAL,DISABLED"`
	LevelDescription    string  `json:"levelDescription"`
	SamplingRate        float64 `json:"samplingRate" minimum:"0" maximum:"1"`
	AutoModeEnabled     bool    `json:"autoModeEnabled"`
	TimeSinceLastChange int64   `json:"timeSinceLastChange" doc:"Milliseconds."`
	ErrorComponentCount int     `json:"errorComponentCount"`
}

type degradationRequest struct {
	Level *string `json:"level" required:"true" enum:"NORMAL,PARTIAL,MINIMAL,DISABLED"`
}

func (a *API) degradation() degradation {
	status := a.Recorder.Degradation()
	return degradation{
		status.Level.String(), status.Level.Description(), status.Level.Share(), status.Auto,
		time.Since(status.Changed).Milliseconds(), a.Recorder.Faults().Active,
	}
}

func (a *API) setLevel(_ *web.Call, body *degradationRequest) (degradation, error) {
	level, err := calls.ParseLevel(*body.Level)
	if err != nil {
		return degradation{}, web.Invalid("", say.From(err))
	}
	a.Recorder.SetLevel(level)
	return a.degradation(), nil
}

func (a *API) setAutoMode(_ *web.Call, body *enabledRequest) (degradation, error) {
	a.Recorder.SetAutoMode(*body.Enabled)
	return a.degradation(), nil
}

func (a *API) recover() degradation {
	a.Recorder.Recover()
	return a.degradation()
}

// cacheStats describe the buffer of records that wait for delivery.
type cacheStats struct {
	CurrentSize   int     `json:"currentSize"`
	MaxSize       int     `json:"maxSize"`
	UsageRatio    float64 `json:"usageRatio" minimum:"0" maximum:"1"`
	ActiveRetries int     `json:"activeRetries"`
	QueuedRetries int     `json:"queuedRetries"`
}

func (a *API) cache() cacheStats {
	s := a.Recorder.Cache()
	return cacheStats{s.Current, s.Max, s.Usage(), s.ActiveRetries, s.QueuedRetries}
}

func (a *API) clearCache() cacheStats {
	a.Recorder.ClearCache()
	return a.cache()
}

// guardStats describe the circuit breaker of recording.
type guardStats struct {
	State        string  `json:"state" enum:"CLOSED,OPEN,HALF_OPEN"`
	FailureCount int     `json:"failureCount"`
	SuccessCount int     `json:"successCount"`
	RequestCount int     `json:"requestCount"`
	FailureRate  float64 `json:"failureRate" minimum:"0" maximum:"1"`
}

func (a *API) guard() guardStats {
	s := a.Recorder.Breaker()
	return guardStats{s.State.String(), s.Failures, s.Successes, s.Requests, s.FailureRate}
}

// openGuard stops the delivery of records until closeGuard. It does not affect traffic.
func (a *API) openGuard() guardStats {
	a.Recorder.ForceOpen()
	return a.guard()
}

func (a *API) closeGuard() guardStats {
	a.Recorder.ForceClose()
	return a.guard()
}
