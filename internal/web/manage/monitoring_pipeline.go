package manage

import (
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/metrics"
)

type errorCounts struct {
	ActiveErrorComponents int   `json:"activeErrorComponents"`
	DegradedComponents    int   `json:"degradedComponents"`
	TotalErrors           int64 `json:"totalErrors"`
}

func countsOf(s calls.FaultStats) errorCounts { return errorCounts{s.Active, s.Degraded, s.Total} }

// MonitoringHealth answers GET /api/monitoring/health.
func (m *Monitoring) MonitoringHealth(w http.ResponseWriter, _ *http.Request) {
	details := monitoringHealthDetails{MetricsCollector: "UP", PrometheusRegistry: "UP", ConfigUpdater: "UP"}
	guard := m.recorder.Breaker()
	switch {
	case !m.recorder.Settings().Enabled:
		details.MetricsCollector = "DISABLED"
	case m.recorder.Degradation().Level == calls.LevelDisabled:
		details.MetricsCollector = "DOWN"
	case m.recorder.Degradation().Level != calls.LevelNormal || guard.State != calls.BreakerClosed:
		details.MetricsCollector = "DEGRADED"
	}
	for _, fault := range m.recorder.Faults().Faults {
		if fault.Component == "prometheusRegistry" {
			details.PrometheusRegistry = "DEGRADED"
		}
	}
	status, healthy := "UP", m.healthy()
	if !healthy {
		status = "DOWN"
	}
	answer(w, monitoringHealth{status, healthy, details})
}

// monitoringHealth is how well monitoring itself is.
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

// healthy tells whether records are made at all, as far as they are wanted.
func (m *Monitoring) healthy() bool { return m.recorder.Degradation().Level != calls.LevelDisabled }

// overview is everything about monitoring at a glance.
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

// Overview answers GET /api/monitoring/overview.
func (m *Monitoring) Overview(w http.ResponseWriter, _ *http.Request) {
	settings, level, waiting, guard := m.recorder.Settings(), m.recorder.Degradation(), m.recorder.Cache(), m.recorder.Breaker()
	answer(w, overview{
		settings.Enabled, settings.Prefix, settings.EnabledCategories, m.healthy(), countsOf(m.recorder.Faults()),
		degradationSummary{level.Level.String(), level.Level.Share(), level.Auto},
		cacheSummary{waiting.Usage(), waiting.ActiveRetries},
		guardSummary{guard.State.String(), guard.FailureRate},
	})
}

// Errors answers GET /api/monitoring/errors/stats.
func (m *Monitoring) Errors(w http.ResponseWriter, _ *http.Request) {
	stats := m.recorder.Faults()
	components := make([]errorComponent, 0, len(stats.Faults))
	for _, f := range stats.Faults {
		components = append(components, errorComponent{f.Component, f.Operation, f.Count, f.LastError, instant(f.LastOccurred)})
	}
	answer(w, errorStats{countsOf(stats), components})
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

// resetRequest names the errors that are forgotten.
type resetRequest struct {
	Component string `json:"component" required:"true" minLength:"1"`
	Operation string `json:"operation" required:"true" minLength:"1"`
}

// ResetErrors answers POST /api/monitoring/errors/reset.
func (m *Monitoring) ResetErrors(w http.ResponseWriter, r *http.Request) {
	var body resetRequest
	if !take(w, r, &body) {
		return
	}
	switch {
	case body.Component == "":
		missing(w, "component")
		return
	case body.Operation == "":
		missing(w, "operation")
		return
	}
	m.recorder.ResetFault(body.Component, body.Operation)
	m.Errors(w, r)
}

// degradation is how much is recorded.
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

// Degradation answers GET /api/monitoring/degradation/status.
func (m *Monitoring) Degradation(w http.ResponseWriter, _ *http.Request) {
	status := m.recorder.Degradation()
	answer(w, degradation{
		status.Level.String(), status.Level.Description(), status.Level.Share(), status.Auto,
		time.Since(status.Changed).Milliseconds(), m.recorder.Faults().Active,
	})
}

// SetLevel answers POST /api/monitoring/degradation/level.
func (m *Monitoring) SetLevel(w http.ResponseWriter, r *http.Request) {
	var body degradationRequest
	if !take(w, r, &body) {
		return
	}
	if body.Level == nil {
		missing(w, "level")
		return
	}
	level, err := calls.ParseLevel(*body.Level)
	if err != nil {
		complain(w, http.StatusBadRequest, err.Error())
		return
	}
	m.recorder.SetLevel(level)
	m.Degradation(w, r)
}

// SetAutoMode answers POST /api/monitoring/degradation/auto-mode.
func (m *Monitoring) SetAutoMode(w http.ResponseWriter, r *http.Request) {
	var body enabledRequest
	if !take(w, r, &body) {
		return
	}
	if body.Enabled == nil {
		missing(w, "enabled")
		return
	}
	m.recorder.SetAutoMode(*body.Enabled)
	m.Degradation(w, r)
}

// ForceRecovery answers POST /api/monitoring/degradation/force-recovery.
func (m *Monitoring) ForceRecovery(w http.ResponseWriter, r *http.Request) {
	if isReal(w, r) {
		m.recorder.Recover()
		m.Degradation(w, r)
	}
}

// cacheStats are the records that wait for their delivery.
type cacheStats struct {
	CurrentSize   int     `json:"currentSize"`
	MaxSize       int     `json:"maxSize"`
	UsageRatio    float64 `json:"usageRatio" minimum:"0" maximum:"1"`
	ActiveRetries int     `json:"activeRetries"`
	QueuedRetries int     `json:"queuedRetries"`
}

// Cache answers GET /api/monitoring/cache/stats.
func (m *Monitoring) Cache(w http.ResponseWriter, _ *http.Request) {
	s := m.recorder.Cache()
	answer(w, cacheStats{s.Current, s.Max, s.Usage(), s.ActiveRetries, s.QueuedRetries})
}

// ClearCache answers POST /api/monitoring/cache/clear.
func (m *Monitoring) ClearCache(w http.ResponseWriter, r *http.Request) {
	if isReal(w, r) {
		m.recorder.ClearCache()
		m.Cache(w, r)
	}
}

// guardStats are the circuit breaker of the recording.
type guardStats struct {
	State        string  `json:"state" enum:"CLOSED,OPEN,HALF_OPEN"`
	FailureCount int     `json:"failureCount"`
	SuccessCount int     `json:"successCount"`
	RequestCount int     `json:"requestCount"`
	FailureRate  float64 `json:"failureRate" minimum:"0" maximum:"1"`
}

// BreakerStats answers GET /api/monitoring/circuit-breaker/stats.
func (m *Monitoring) BreakerStats(w http.ResponseWriter, _ *http.Request) {
	s := m.recorder.Breaker()
	answer(w, guardStats{s.State.String(), s.Failures, s.Successes, s.Requests, s.FailureRate})
}

// ForceOpen answers POST /api/monitoring/circuit-breaker/force-open.
func (m *Monitoring) ForceOpen(w http.ResponseWriter, r *http.Request) {
	if isReal(w, r) {
		m.recorder.ForceOpen()
		m.BreakerStats(w, r)
	}
}

// ForceClose answers POST /api/monitoring/circuit-breaker/force-close.
func (m *Monitoring) ForceClose(w http.ResponseWriter, r *http.Request) {
	if isReal(w, r) {
		m.recorder.ForceClose()
		m.BreakerStats(w, r)
	}
}
