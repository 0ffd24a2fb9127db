package metrics

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Registry holds the counts that belong to the gateway as a whole: the counts of each
// service type and of the HTTP surfaces. The counts of an instance live with the instance.
type Registry struct {
	services services
	doors    [schema.DoorCount][schema.ResultCount]Counter
	http     [surfaceCount][outcomeCount]Histogram
	started  time.Time

	on       atomic.Bool // a copy of settings.Enabled, which is faster to read
	settings atomic.Pointer[Settings]
}

// NewRegistry returns a registry at zero with settings that passed Check.
func NewRegistry(settings *Settings) *Registry {
	r := &Registry{started: time.Now()}
	r.Configure(settings)
	return r
}

// Configure puts settings that passed Check in force. They must not be changed
// afterwards.
func (r *Registry) Configure(settings *Settings) {
	r.settings.Store(settings)
	r.on.Store(settings.Enabled)
}

// Settings returns the configuration in force, which must not be changed.
func (r *Registry) Settings() *Settings { return r.settings.Load() }

// On reports whether anything is counted. A nil Registry counts nothing.
func (r *Registry) On() bool { return r != nil && r.on.Load() }

// Started returns when counting began.
func (r *Registry) Started() time.Time { return r.started }

// Count counts a request that has ended, on the series of the instance that
// answered last (nil for none).
func (r *Registry) Count(i *Instance, request *Request) {
	if r.On() {
		r.services[request.Service].count(i, request)
		r.doors[request.Door][request.Result].Add(1)
	}
}

// Shed counts a request that was refused because the gateway had no room for it.
func (r *Registry) Shed(service schema.ServiceType, how Shed) {
	if r.On() {
		r.services[service].shed[how].Add(1)
	}
}

// FellBack counts a request that another model took over.
func (r *Registry) FellBack(service schema.ServiceType, why naming.Reason) {
	if r.On() {
		r.services[service].fallbacks[why].Add(1)
	}
}

// Split counts a request that was split over so many calls.
func (r *Registry) Split(service schema.ServiceType, calls int) {
	if r.On() {
		r.services[service].split.Add(1)
		r.services[service].pieces.Add(int64(calls))
	}
}

// Charge counts a part of the cost of a request at an instance that does not answer it in the end.
func (r *Registry) Charge(i *Instance, cost int64) {
	if r.On() && cost > 0 {
		i.cost.AddUpTo(cost)
	}
}

// Resumed counts a stream that broke off.
func (r *Registry) Resumed(service schema.ServiceType, how Resumed) {
	if r.On() {
		r.services[service].resumed[how].Add(1)
	}
}

// Hedged counts a second call that was due.
func (r *Registry) Hedged(service schema.ServiceType, how Hedged) {
	if r.On() {
		r.services[service].hedges[how].Add(1)
	}
}

// HTTP counts an HTTP request. Path and status only choose among fixed series.
func (r *Registry) HTTP(path string, status int, took time.Duration) {
	if !r.On() {
		return
	}
	class := status / 100
	if class >= outcomeCount {
		class = 0
	}
	r.http[surfaceOf(path)][class].Observe(took)
}

// surface is a part of the HTTP interface.
type surface uint8

const (
	surfaceV1 surface = iota
	surfaceManage
	surfaceActuator
	surfaceOther

	surfaceCount = int(surfaceOther) + 1
)

var surfaceNames = [surfaceCount]string{"/v1", "/api", "/actuator", "other"}

// outcomeCount counts the classes of HTTP statuses: 1xx to 5xx, and none.
const outcomeCount = 6

var outcomeNames = [outcomeCount]string{"UNKNOWN", "INFORMATIONAL", "SUCCESS", "REDIRECTION", "CLIENT_ERROR",
	"SERVER_ERROR"}

func surfaceOf(path string) surface {
	switch {
	case strings.HasPrefix(path, "/v1/"):
		return surfaceV1
	case strings.HasPrefix(path, "/api/"):
		return surfaceManage
	case strings.HasPrefix(path, "/actuator"):
		return surfaceActuator
	}
	return surfaceOther
}
