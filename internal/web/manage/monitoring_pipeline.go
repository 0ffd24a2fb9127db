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
	details := map[string]string{"metricsCollector": "UP", "prometheusRegistry": "UP", "configUpdater": "UP"}
	guard := m.recorder.Breaker()
	switch {
	case !m.recorder.Settings().Enabled:
		details["metricsCollector"] = "DISABLED"
	case m.recorder.Degradation().Level == calls.LevelDisabled:
		details["metricsCollector"] = "DOWN"
	case m.recorder.Degradation().Level != calls.LevelNormal || guard.State != calls.BreakerClosed:
		details["metricsCollector"] = "DEGRADED"
	}
	for _, fault := range m.recorder.Faults().Faults {
		if fault.Component == "prometheusRegistry" {
			details["prometheusRegistry"] = "DEGRADED"
		}
	}
	status, healthy := "UP", m.healthy()
	if !healthy {
		status = "DOWN"
	}
	answer(w, struct {
		Status  string            `json:"status"`
		Healthy bool              `json:"healthy"`
		Details map[string]string `json:"details"`
	}{status, healthy, details})
}

// healthy tells whether records are made at all, as far as they are wanted.
func (m *Monitoring) healthy() bool { return m.recorder.Degradation().Level != calls.LevelDisabled }

// Overview answers GET /api/monitoring/overview.
func (m *Monitoring) Overview(w http.ResponseWriter, _ *http.Request) {
	type degradation struct {
		Level           string  `json:"level"`
		SamplingRate    float64 `json:"samplingRate"`
		AutoModeEnabled bool    `json:"autoModeEnabled"`
	}
	type cache struct {
		UsageRatio    float64 `json:"usageRatio"`
		ActiveRetries int     `json:"activeRetries"`
	}
	type breaker struct {
		State       string  `json:"state"`
		FailureRate float64 `json:"failureRate"`
	}
	settings, level, waiting, guard := m.recorder.Settings(), m.recorder.Degradation(), m.recorder.Cache(), m.recorder.Breaker()
	answer(w, struct {
		Enabled             bool               `json:"enabled"`
		Prefix              string             `json:"prefix"`
		EnabledCategories   []metrics.Category `json:"enabledCategories"`
		Healthy             bool               `json:"healthy"`
		ErrorStats          errorCounts        `json:"errorStats"`
		DegradationStatus   degradation        `json:"degradationStatus"`
		CacheStats          cache              `json:"cacheStats"`
		CircuitBreakerStats breaker            `json:"circuitBreakerStats"`
	}{
		settings.Enabled, settings.Prefix, settings.EnabledCategories, m.healthy(), countsOf(m.recorder.Faults()),
		degradation{level.Level.String(), level.Level.Share(), level.Auto},
		cache{waiting.Usage(), waiting.ActiveRetries},
		breaker{guard.State.String(), guard.FailureRate},
	})
}

// Errors answers GET /api/monitoring/errors/stats.
func (m *Monitoring) Errors(w http.ResponseWriter, _ *http.Request) {
	type component struct {
		Component    string `json:"component"`
		Operation    string `json:"operation"`
		Count        int64  `json:"count"`
		LastError    string `json:"lastError"`
		LastOccurred string `json:"lastOccurred"`
	}
	stats := m.recorder.Faults()
	components := make([]component, 0, len(stats.Faults))
	for _, f := range stats.Faults {
		components = append(components, component{f.Component, f.Operation, f.Count, f.LastError, instant(f.LastOccurred)})
	}
	answer(w, struct {
		errorCounts `json:",inline"`
		Components  []component `json:"components"`
	}{countsOf(stats), components})
}

// ResetErrors answers POST /api/monitoring/errors/reset.
func (m *Monitoring) ResetErrors(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Component string `json:"component"`
		Operation string `json:"operation"`
	}
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

// Degradation answers GET /api/monitoring/degradation/status.
func (m *Monitoring) Degradation(w http.ResponseWriter, _ *http.Request) {
	status := m.recorder.Degradation()
	answer(w, struct {
		Level               string  `json:"level"`
		LevelDescription    string  `json:"levelDescription"`
		SamplingRate        float64 `json:"samplingRate"`
		AutoModeEnabled     bool    `json:"autoModeEnabled"`
		TimeSinceLastChange int64   `json:"timeSinceLastChange"`
		ErrorComponentCount int     `json:"errorComponentCount"`
	}{
		status.Level.String(), status.Level.Description(), status.Level.Share(), status.Auto,
		time.Since(status.Changed).Milliseconds(), m.recorder.Faults().Active,
	})
}

// SetLevel answers POST /api/monitoring/degradation/level.
func (m *Monitoring) SetLevel(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Level *string `json:"level"`
	}
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
	var body struct {
		Enabled *bool `json:"enabled"`
	}
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

// Cache answers GET /api/monitoring/cache/stats.
func (m *Monitoring) Cache(w http.ResponseWriter, _ *http.Request) {
	s := m.recorder.Cache()
	answer(w, struct {
		CurrentSize   int     `json:"currentSize"`
		MaxSize       int     `json:"maxSize"`
		UsageRatio    float64 `json:"usageRatio"`
		ActiveRetries int     `json:"activeRetries"`
		QueuedRetries int     `json:"queuedRetries"`
	}{s.Current, s.Max, s.Usage(), s.ActiveRetries, s.QueuedRetries})
}

// ClearCache answers POST /api/monitoring/cache/clear.
func (m *Monitoring) ClearCache(w http.ResponseWriter, r *http.Request) {
	if isReal(w, r) {
		m.recorder.ClearCache()
		m.Cache(w, r)
	}
}

// BreakerStats answers GET /api/monitoring/circuit-breaker/stats.
func (m *Monitoring) BreakerStats(w http.ResponseWriter, _ *http.Request) {
	s := m.recorder.Breaker()
	answer(w, struct {
		State        string  `json:"state"`
		FailureCount int     `json:"failureCount"`
		SuccessCount int     `json:"successCount"`
		RequestCount int     `json:"requestCount"`
		FailureRate  float64 `json:"failureRate"`
	}{s.State.String(), s.Failures, s.Successes, s.Requests, s.FailureRate})
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
