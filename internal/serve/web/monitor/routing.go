package monitor

import (
	"math"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// byService returns the view of every service type of the table in force.
func byService[T any](a *API, view func(*routing.Service) T) map[schema.ServiceType]T {
	services := map[schema.ServiceType]T{}
	table := a.Current.Load()
	for _, serviceType := range schema.ServiceTypes() {
		if s := table.Service(serviceType); s != nil {
			services[serviceType] = view(s)
		}
	}
	return services
}

func instancesOf(s *routing.Service) []*backend.Instance {
	var all []*backend.Instance
	for _, pool := range s.Pools {
		all = append(all, pool.Instances...)
	}
	return all
}

// inMilliseconds returns milliseconds, in steps of a microsecond.
func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

type instanceStatus struct {
	ID              string         `json:"id"`
	Handle          string         `json:"handle" doc:"As in X-Router-Instance."`
	URL             string         `json:"url"`
	Adapter         string         `json:"adapter"`
	Status          string         `json:"status" enum:"HEALTHY,UNHEALTHY"`
	LastHealthCheck *string        `json:"lastHealthCheck" format:"date-time" doc:"Null before the first check."`
	ResponseTime    *float64       `json:"responseTime,omitzero"`
	SuccessRate     *float64       `json:"successRate,omitzero"`
	RequestCount    *int64         `json:"requestCount,omitzero"`
	ErrorCount      *int64         `json:"errorCount,omitzero"`
	BreakerState    breaker.State  `json:"circuitBreakerState"`
	Weight          float64        `json:"weight"`
	Tier            int            `json:"tier"`
	Enabled         bool           `json:"enabled"`
	InFlight        int64          `json:"inFlight"`
	Slots           *slotsStatus   `json:"slots,omitzero" doc:"What was learned where max-concurrency is auto."`
	Error           string         `json:"error,omitzero"`
	Said            []say.Sentence `json:"said,omitzero" doc:"The error as codes and values."`
}

// slotsStatus is the number of requests that an instance gets at a time, if the gateway
// learned it.
type slotsStatus struct {
	Now        int            `json:"now" doc:"How many requests it gets at a time now."`
	PerTokenMs float64        `json:"perTokenMs" doc:"The last measured time per token, with the wait for the first."`
	Why        string         `json:"why" doc:"Why there are so many, in a sentence."`
	Said       []say.Sentence `json:"said,omitzero" doc:"The same as codes and values."`
}

// slotsOf returns the slots that the gateway learned for an instance, nil where they are
// fixed.
func slotsOf(i *backend.Instance) *slotsStatus {
	learned := i.Pace()
	if learned == nil {
		return nil
	}
	s := learned.State()
	return &slotsStatus{Now: s.Slots, PerTokenMs: inMilliseconds(s.PerToken), Why: s.Why.String(), Said: say.All(s.Why)}
}

// These replies have a member for each configured service type.
type (
	instanceStatuses struct {
		Services map[schema.ServiceType]instanceList `json:"services"`
	}
	instanceList struct {
		Instances []instanceStatus `json:"instances"`
	}
	distributions struct {
		Services map[schema.ServiceType]distribution `json:"services"`
	}
	limitStatuses struct {
		Services map[schema.ServiceType]limitStatus `json:"services"`
	}
)

// instances answers GET /api/monitoring/instances.
func (a *API) instances(*web.Call) (instanceStatuses, error) {
	return instanceStatuses{byService(a, func(s *routing.Service) instanceList {
		list := []instanceStatus{}
		for _, i := range instancesOf(s) {
			list = append(list, statusOfInstance(i))
		}
		return instanceList{list}
	})}, nil
}

// statusOfInstance returns the counters of a healthy instance, and the reason why any
// other one is not healthy.
func statusOfInstance(i *backend.Instance) instanceStatus {
	health := i.Health.Snapshot()
	view := instanceStatus{
		ID: i.ID, Handle: i.Handle, URL: i.Settings.BaseURL, Adapter: upperSnake(i.Kind.Name), Status: "HEALTHY",
		LastHealthCheck: web.TimeOrNil(health.LastCheck), BreakerState: i.Breaker.Snapshot().State,
		Weight: i.Settings.Weight, Tier: i.Settings.Tier, Enabled: i.Settings.Enabled, InFlight: i.InFlight(),
		Slots: slotsOf(i),
	}
	switch {
	case !i.Settings.Enabled:
		view.Said = say.All(say.New("instance.off"))
	case !i.Healthy():
		view.Said = i.HealthReason()
	}
	if view.Error = say.Join(view.Said); view.Error != "" {
		view.Status = "UNHEALTHY"
		return view
	}
	// The latest health check shows how fast the backend answers now. Before the first
	// check, the calls do.
	took := health.ResponseTime
	if took == 0 {
		took = i.MeanTime()
	}
	responseTime, successRate := inMilliseconds(took), 1.0
	good, bad := i.Series.Outcomes()
	if good+bad > 0 {
		successRate = float64(good) / float64(good+bad)
	}
	requests := i.Calls()
	view.ResponseTime, view.SuccessRate, view.RequestCount, view.ErrorCount = &responseTime, &successRate, &requests,
		&bad
	return view
}

type distribution struct {
	Strategy      string               `json:"strategy"`
	TotalRequests int64                `json:"totalRequests"`
	Distribution  map[string]loadShare `json:"distribution"`
}

type loadShare struct {
	Requests        int64   `json:"requests"`
	Percentage      float64 `json:"percentage" minimum:"0" maximum:"100"`
	AvgResponseTime float64 `json:"avgResponseTime"`
}

// loadBalancer answers GET /api/monitoring/load-balancer. It counts calls, not requests: a
// second attempt counts for the instance that got it.
func (a *API) loadBalancer(*web.Call) (distributions, error) {
	return distributions{byService(a, func(s *routing.Service) distribution {
		instances := instancesOf(s)
		counts := make([]int64, len(instances))
		view := distribution{Strategy: upperSnake(s.Policy.LoadBalancer.String()), Distribution: map[string]loadShare{}}
		for n, i := range instances {
			counts[n] = i.Calls()
			view.TotalRequests += counts[n]
		}
		percentages := percent(counts, view.TotalRequests)
		for n, i := range instances {
			view.Distribution[i.ID] = loadShare{counts[n], percentages[n], inMilliseconds(i.MeanTime())}
		}
		return view
	})}, nil
}

// percent returns counts as percentages with two decimals that add up to 100. It rounds
// down and gives the remainder to the counts that lost most by that (largest remainder).
func percent(counts []int64, total int64) []float64 {
	out := make([]float64, len(counts))
	if total == 0 {
		return out
	}
	const whole = 100 * 100 // hundredths of a percent
	parts, lost := make([]int64, len(counts)), make([]float64, len(counts))
	left := int64(whole)
	for n, count := range counts {
		exact := float64(count) * whole / float64(total)
		parts[n] = int64(math.Floor(exact))
		lost[n] = exact - math.Floor(exact)
		left -= parts[n]
	}
	for ; left > 0; left-- {
		most := 0
		for n := range lost {
			if lost[n] > lost[most] {
				most = n
			}
		}
		parts[most]++
		lost[most] = -1
	}
	for n := range parts {
		out[n] = float64(parts[n]) / 100
	}
	return out
}

type limitStatus struct {
	Enabled   bool   `json:"enabled"`
	Algorithm string `json:"algorithm"`
	// Shared says that several gateways share the limit; remaining is then the figure that
	// this gateway heard last.
	Shared       bool          `json:"shared"`
	GlobalLimit  globalLimit   `json:"globalLimit"`
	ClientLimits []clientLimit `json:"clientLimits"`
}

type globalLimit struct {
	Capacity   int    `json:"capacity"`
	Remaining  int    `json:"remaining"`
	RefillRate int    `json:"refillRate"`
	NextRefill string `json:"nextRefill" format:"date-time"`
}

type clientLimit struct {
	ClientIP    string `json:"clientIp"`
	Remaining   int    `json:"remaining"`
	Capacity    int    `json:"capacity"`
	LastRequest string `json:"lastRequest" format:"date-time"`
}

// rateLimit answers GET /api/monitoring/rate-limit.
func (a *API) rateLimit(*web.Call) (limitStatuses, error) {
	const clients = 100
	now := time.Now()
	return limitStatuses{byService(a, func(s *routing.Service) limitStatus {
		limit := s.LimitSnapshot(now, clients)
		view := limitStatus{
			Enabled: limit.Enabled, Algorithm: upperSnake(limit.Algorithm.String()), ClientLimits: []clientLimit{},
			Shared:      limit.Shared,
			GlobalLimit: globalLimit{limit.Capacity, limit.Remaining, limit.RefillRate, web.Time(limit.NextRefill)},
		}
		for _, c := range limit.Clients {
			view.ClientLimits = append(view.ClientLimits,
				clientLimit{ratelimit.ClientName(c.Client), c.Remaining, c.Capacity, web.Time(c.LastRequest)})
		}
		return view
	})}, nil
}

type breakerStatus struct {
	ID               string             `json:"id"`
	Service          schema.ServiceType `json:"service"`
	State            breaker.State      `json:"state"`
	Forced           bool               `json:"forced"`
	HeldBy           string             `json:"heldBy,omitzero"`
	HeldSince        *string            `json:"heldSince,omitzero" format:"date-time"`
	FailureCount     int                `json:"failureCount"`
	HeldReason       string             `json:"heldReason,omitzero"`
	FailureThreshold int                `json:"failureThreshold"`
	SuccessCount     int                `json:"successCount" doc:"Successful trials since the breaker is half open."`
	SuccessThreshold int                `json:"successThreshold"`
	Timeout          int64              `json:"timeout" doc:"Milliseconds."`
	StateSince       string             `json:"stateSince" format:"date-time"`
	LastFailure      *string            `json:"lastFailure" format:"date-time"`
	FailingSince     *string            `json:"failingSince,omitzero" format:"date-time"`
	LastError        *lastError         `json:"lastError,omitzero" doc:"Why the last call that failed did."`
	NextRetry        *string            `json:"nextRetry" format:"date-time"`
}

// Docs says more about some members than a tag has room for.
func (breakerStatus) Docs() map[string]string {
	return map[string]string{
		"failingSince": "Since when calls or health checks of the instance fail, without a success in between; " +
			"left out where they do not.",
	}
}

// breakers answers GET /api/monitoring/circuit-breaker.
func (a *API) breakers(c *web.Call) (breakerList, error) {
	list := []breakerStatus{}
	for _, i := range a.Current.Load().Instances() {
		list = append(list, breakerOf(i, c.Words()))
	}
	return breakerList{list}, nil
}

func breakerOf(i *backend.Instance, words web.Wording) breakerStatus {
	s := i.Breaker.Snapshot()
	view := breakerStatus{
		ID: i.ID, Service: i.Service, State: s.State, Forced: s.Forced != breaker.Auto,
		HeldBy: s.Hold.By, HeldSince: web.TimeOrNil(s.Hold.Since), HeldReason: s.Hold.Reason,
		FailureCount: s.FailureCount, FailureThreshold: s.FailureThreshold, SuccessCount: s.SuccessCount,
		SuccessThreshold: s.SuccessThreshold,
		Timeout:          s.Timeout.Milliseconds(), StateSince: web.Time(s.Since),
		LastFailure: web.TimeOrNil(s.LastFailure),
		NextRetry:   web.TimeOrNil(s.NextRetry),
	}
	view.FailingSince = web.TimeOrNil(i.FailingSince())
	if failure := i.LastFailure(); failure != nil {
		text, said := words(failure.Said)
		view.LastError = &lastError{failure.Code, text, said, web.Time(failure.At)}
	}
	return view
}

type lastError struct {
	Code string         `json:"code"`
	Text string         `json:"text"`
	Said []say.Sentence `json:"said,omitzero" doc:"The text as codes and values."`
	Time string         `json:"time" format:"date-time"`
}

type breakerList struct {
	Instances []breakerStatus `json:"instances"`
}

// upperSnake writes a name such as round-robin as ROUND_ROBIN.
func upperSnake(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
