// Package demo is the part of the program that only the demo has: operations under
// /api/demo that break an instance and mend it, and gentle traffic. A person sees the
// gateway at work at once.
package demo

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// Demo holds the simulated backends of a gateway.
type Demo struct {
	backends []*simulator.Backend
	// traffic says whether the demo sends requests of its own, and hasKeys whether they have keys.
	traffic atomic.Bool
	hasKeys bool

	mu     sync.Mutex
	faults map[string]*broken // by instance
}

// broken is an instance that misbehaves for a while.
type broken struct {
	fault Fault
	until time.Time
	mend  *time.Timer
}

// Fault is a way for an instance to misbehave.
type Fault string

// The faults.
const (
	Down Fault = "down" // every request fails, and streams that run break off
	Slow Fault = "slow" // every answer is late
	None Fault = "none"
)

// Keywords describes a fault in the OpenAPI document.
func (Fault) Keywords() map[string]any { return map[string]any{"enum": []Fault{Down, Slow, None}} }

const (
	// defaultFault is how long a fault lasts if the request gives no time: long enough to
	// see the breaker open, short enough to see it close within a minute.
	defaultFault = 20 * time.Second
	maxFault     = time.Hour
	// slowness is the delay of a slow instance.
	slowness = 3 * time.Second
)

// New returns the demo of backends, with traffic of its own or without. hasKeys says that the
// gateway has the keys of Settings, which its requests then show.
func New(backends []*simulator.Backend, traffic, hasKeys bool) *Demo {
	d := &Demo{backends: backends, hasKeys: hasKeys, faults: map[string]*broken{}}
	d.traffic.Store(traffic)
	return d
}

// Routes returns the operations, which the management API completes.
func (d *Demo) Routes() []web.Route {
	return web.Group("Demo", access.ReadMonitoring, access.WriteInstances, web.OfGateway, []web.Route{
		{
			Pattern: "GET /api/demo", Does: web.Do(d.show),
			Summary: "What the demo does: its traffic, and the instances that are broken", Says: "What the demo does.",
		},
		{
			Pattern: "POST /api/demo/fault",
			Does:    web.DoBody(d.breakInstance),
			Summary: "Break an instance of the demo for a while, or mend it", Errors: []int{http.StatusNotFound},
			NoDryRun: true,
		},
		{
			Pattern: "POST /api/demo/traffic",
			Does:    web.DoBody(d.setTraffic),
			Summary: "Switch the traffic of the demo on or off", NoDryRun: true,
		},
	})
}

// demoState is the present state of the demo.
type demoState struct {
	Traffic           bool          `json:"traffic"`
	RequestsPerSecond float64       `json:"requestsPerSecond" doc:"About how many, while the traffic is on."`
	Faults            []activeFault `json:"faults"`
}

type activeFault struct {
	InstanceID string `json:"instanceId"`
	Fault      Fault  `json:"fault"`
	Until      string `json:"until" format:"date-time"`
}

type faultRequest struct {
	InstanceID string `json:"instanceId" required:"true" minLength:"1" doc:"One of a simulated backend."`
	Fault      Fault  `json:"fault" required:"true"`
	Seconds    int    `json:"seconds" minimum:"0" maximum:"3600" doc:"How long it lasts; 20 if left out or 0."`
}

type trafficRequest struct {
	Enabled *bool `json:"enabled" required:"true"`
}

func (d *Demo) show(*web.Call) (demoState, error) { return d.state(), nil }

func (d *Demo) state() demoState {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := demoState{Traffic: d.traffic.Load(), RequestsPerSecond: float64(time.Second) / float64(pause),
		Faults: []activeFault{}}
	for id, b := range d.faults {
		state.Faults = append(state.Faults, activeFault{id, b.fault, web.Time(b.until)})
	}
	slices.SortFunc(state.Faults, func(a, b activeFault) int { return strings.Compare(a.InstanceID, b.InstanceID) })
	return state
}

func (d *Demo) setTraffic(c *web.Call, wanted *trafficRequest) (demoState, error) {
	d.traffic.Store(*wanted.Enabled)
	c.Say("The demo sends no requests of its own.")
	if *wanted.Enabled {
		c.Say("The demo sends a few requests each second.")
	}
	return d.show(c)
}

func (d *Demo) breakInstance(c *web.Call, wanted *faultRequest) (demoState, error) {
	lasts := time.Duration(wanted.Seconds) * time.Second
	switch {
	case wanted.Fault != Down && wanted.Fault != Slow && wanted.Fault != None:
		return demoState{}, web.BadInput("fault", "field.want_one_of", "known", "down, slow, none")
	case lasts < 0 || lasts > maxFault:
		return demoState{}, web.BadInput("seconds", "field.from_one", "least", 0, "most", 3600)
	case lasts == 0:
		lasts = defaultFault
	}
	var err error
	c.Message, err = d.set(wanted.InstanceID, wanted.Fault, lasts)
	return d.state(), err
}

// set breaks an instance for a while, or mends it.
func (d *Demo) set(id string, fault Fault, lasts time.Duration) (message string, err error) {
	model, backend := d.find(id)
	if backend == nil {
		return "", web.NotFound(say.New("manage.no_simulated", "instance", web.Shorten(id)).About("instanceId"))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.faults[id]; old != nil {
		old.mend.Stop()
		delete(d.faults, id)
	}
	switch fault {
	case Down:
		backend.SetFault(model, &simulator.Step{
			Running: true, Status: http.StatusInternalServerError,
			Header: http.Header{"Content-Type": {"application/json"}},
			Body: `{"error":{"message":"This instance was broken on purpose, with the button of the demo.",` +
				`"type":"server_error"}}`,
		})
	case Slow:
		backend.SetFault(model, &simulator.Step{HeaderDelay: slowness})
	default:
		backend.SetFault(model, nil)
		return "The instance works again.", nil
	}
	one := &broken{fault: fault, until: time.Now().Add(lasts)}
	one.mend = time.AfterFunc(lasts, func() { d.mend(id, one) })
	d.faults[id] = one
	return fmt.Sprintf("The instance is %s for %s.", fault, lasts), nil
}

// mend ends a fault when its time is over, unless another one took its place.
func (d *Demo) mend(id string, one *broken) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults[id] != one {
		return
	}
	delete(d.faults, id)
	if model, backend := d.find(id); backend != nil {
		backend.SetFault(model, nil)
	}
}

// find returns the model of an instance, and the simulated backend behind it.
func (d *Demo) find(id string) (string, *simulator.Backend) {
	for _, backend := range d.backends {
		if model, ok := strings.CutSuffix(id, "@"+backend.URL()); ok {
			return model, backend
		}
	}
	return "", nil
}

// Close ends the faults.
func (d *Demo) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, one := range d.faults {
		one.mend.Stop()
		delete(d.faults, id)
	}
}
