package actuator

import (
	"net/http"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/disk"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// health is a status, and the components that determine it.
type health struct {
	Status     string            `json:"status" enum:"UP,DOWN,OUT_OF_SERVICE,DEGRADED"`
	Components map[string]health `json:"components,omitzero"`
	Details    any               `json:"details,omitzero"`
	Groups     []string          `json:"groups,omitzero"`
}

const (
	up           = "UP"
	down         = "DOWN"
	outOfService = "OUT_OF_SERVICE"
)

// severity orders statuses, the worst last.
func severity(status string) int {
	switch status {
	case down:
		return 2
	case outOfService:
		return 1
	}
	return 0
}

// shown returns a health, with the status that it has as a reply.
func (h health) shown(c *web.Call) (health, error) {
	if severity(h.Status) > 0 {
		c.Status = http.StatusServiceUnavailable
	}
	return h, nil
}

// showHealth shows callers who may not see details only the status.
func (a *API) showHealth(c *web.Call) (health, error) {
	h := a.health(false)
	if !c.Who.Role.Holds(access.ReadActuator) {
		h.Components = nil
	}
	return h.shown(c)
}

func (a *API) detailedHealth(c *web.Call) (health, error) { return a.health(true).shown(c) }

func (a *API) healthComponent(c *web.Call) (health, error) {
	component, known := a.components(false)[c.PathValue("component")]
	if !known {
		return component, refuse(http.StatusNotFound, "")
	}
	return component.shown(c)
}

// liveness says that the process runs.
func (a *API) liveness(*web.Call) (health, error) { return health{Status: up}, nil }

// showReadiness says whether the gateway takes requests.
func (a *API) showReadiness(c *web.Call) (health, error) {
	return health{Status: a.readiness()}.shown(c)
}

func (a *API) readiness() string {
	if a.draining.Load() || a.options.Ready != nil && !a.options.Ready() {
		return outOfService
	}
	return up
}

// health is the worst of readiness and all components.
func (a *API) health(detailed bool) health {
	h := health{Status: a.readiness(), Components: a.components(detailed), Groups: []string{"liveness", "readiness"}}
	for _, component := range h.Components {
		if severity(component.Status) > severity(h.Status) {
			h.Status = component.Status
		}
	}
	return h
}

func (a *API) components(detailed bool) map[string]health {
	all := map[string]health{
		"ping":        {Status: up},
		"diskSpace":   a.disk.health(),
		"modelRouter": a.routerHealth(detailed),
	}
	if open, isOpen := a.securityHealth(); isOpen {
		all["security"] = open
	}
	a.addDependencies(all)
	return all
}

type routerDetails struct {
	ActiveInstances      int    `json:"activeInstances"`
	TotalInstances       int    `json:"totalInstances"`
	CircuitBreakerStatus string `json:"circuitBreakerStatus"`
	// Services is only in the detailed health.
	Services map[string]*serviceHealth `json:"services,omitzero"`
}

type serviceHealth struct {
	TotalInstances   int              `json:"totalInstances"`
	HealthyInstances int              `json:"healthyInstances"`
	Instances        []instanceHealth `json:"instances"`
}

type instanceHealth struct {
	ID     string `json:"id"`
	URL    string `json:"url"`
	Status string `json:"status" enum:"UP,DOWN"`
	// LastCheck is null before the first check.
	LastCheck    *string `json:"lastCheck"`
	ResponseTime float64 `json:"responseTime"`
	Error        string  `json:"error,omitzero"`
	// Cause is the documented word for the error, where a check or a call found one.
	Cause string `json:"cause,omitzero"`
}

// routerHealth is down if there are enabled instances and none of them is healthy.
func (a *API) routerHealth(detailed bool) health {
	table := a.options.Current.Load()
	details := routerDetails{CircuitBreakerStatus: breaker.Closed.String()}
	if detailed {
		details.Services = map[string]*serviceHealth{}
	}
	enabled := 0
	for _, serviceType := range schema.ServiceTypes() {
		s := table.Service(serviceType)
		if s == nil {
			continue
		}
		service := &serviceHealth{Instances: []instanceHealth{}}
		for _, pool := range s.Pools {
			for _, i := range pool.Instances {
				details.TotalInstances++
				service.TotalInstances++
				if i.Settings.Enabled {
					enabled++
					details.CircuitBreakerStatus = worseBreaker(details.CircuitBreakerStatus,
						i.Breaker.Snapshot().State)
				}
				if isUp(i) {
					details.ActiveInstances++
					service.HealthyInstances++
				}
				if detailed {
					service.Instances = append(service.Instances, describe(i))
				}
			}
		}
		if detailed {
			details.Services[serviceType.String()] = service
		}
	}
	h := health{Status: up, Details: details}
	if enabled > 0 && details.ActiveInstances == 0 {
		h.Status = down
	}
	return h
}

func worseBreaker(shown string, state breaker.State) string {
	if state == breaker.Open || state == breaker.HalfOpen && shown == breaker.Closed.String() {
		return state.String()
	}
	return shown
}

func describe(i *backend.Instance) instanceHealth {
	checked := i.Health.Snapshot()
	view := instanceHealth{
		ID: i.ID, URL: i.Settings.BaseURL, Status: up, LastCheck: web.TimeOrNil(checked.LastCheck),
		ResponseTime: float64(checked.ResponseTime.Microseconds()) / 1000,
	}
	switch {
	case !i.Settings.Enabled:
		view.Status, view.Error = down, "disabled"
	case !i.Healthy():
		view.Status, view.Error, view.Cause = down, say.Join(i.HealthReason()), string(checked.Cause)
	}
	return view
}

// diskWatch checks the disk of the data directory, at most every ten seconds. Probes
// therefore seldom wait for the disk.
type diskWatch struct {
	path string

	mu     sync.Mutex
	looked time.Time
	last   diskDetails
}

type diskDetails struct {
	Total     uint64 `json:"total"`
	Free      uint64 `json:"free"`
	Threshold uint64 `json:"threshold"`
	Exists    bool   `json:"exists"`
}

// diskThreshold is the free space below which the disk counts as full.
const diskThreshold = 10 << 20

func (d *diskWatch) health() health {
	details := d.look(time.Now())
	h := health{Status: up, Details: details}
	if details.Free < details.Threshold { // Free is 0 if the directory does not exist
		h.Status = down
	}
	return h
}

func (d *diskWatch) look(now time.Time) diskDetails {
	const often = 10 * time.Second
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.looked.IsZero() || now.Sub(d.looked) >= often {
		d.looked = now
		d.last = diskDetails{Threshold: diskThreshold}
		if usage, err := disk.Usage(d.path); err == nil {
			d.last.Total, d.last.Free, d.last.Exists = usage.Total, usage.Free, true
		}
	}
	return d.last
}
