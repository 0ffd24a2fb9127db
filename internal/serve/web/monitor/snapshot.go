package monitor

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/serve/live"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
)

// liveSnapshot is the state of the gateway at one moment.
type liveSnapshot struct {
	Time          string         `json:"time" format:"date-time"`
	StartedAt     string         `json:"startedAt" format:"date-time" doc:"When counting began: at the start."`
	ConfigVersion int            `json:"configVersion"`
	Degradation   string         `json:"degradation" enum:"NORMAL,PARTIAL,MINIMAL,DISABLED"`
	SamplingRate  float64        `json:"samplingRate" minimum:"0" maximum:"1" doc:"The part of calls that is recorded."`
	Total         live.Activity  `json:"total"`
	Services      []liveService  `json:"services"`
	Models        []liveModel    `json:"models"`
	Instances     []liveInstance `json:"instances"`
}

type liveService struct {
	Service schema.ServiceType `json:"service"`
	live.Activity
	InFlight           int64                `json:"inFlight"`
	QueueLength        int                  `json:"queueLength"`
	Queue              explain.ClassLengths `json:"queue" doc:"How many of these wait, by their priority."`
	RateLimitRemaining *int                 `json:"rateLimitRemaining" doc:"Null without a limit for all clients."`
}

type liveModel struct {
	Service schema.ServiceType `json:"service"`
	Model   string             `json:"model"`
	live.Activity
	InFlight    int64                `json:"inFlight"`
	QueueLength int                  `json:"queueLength"`
	Queue       explain.ClassLengths `json:"queue" doc:"How many of these wait, by their priority."`
	// ExpectedWaitMs is left out while no request waits: a new request may find a slot.
	ExpectedWaitMs *classWaits `json:"expectedWaitMs,omitzero"`
}

// Docs says more about some members than a tag has room for.
func (liveModel) Docs() map[string]string {
	return map[string]string{
		"expectedWaitMs": "How long a new request would wait, by its priority; only while others do. 0 where " +
			"that is not known.",
	}
}

type classWaits struct {
	Interactive int64 `json:"interactive" minimum:"0"`
	Normal      int64 `json:"normal" minimum:"0"`
	Batch       int64 `json:"batch" minimum:"0"`
}

// expectedWaits returns how long new requests would wait, nil while no request waits.
func expectedWaits(pool *routing.Pool) *classWaits {
	if pool.Waiting() == 0 {
		return nil
	}
	of := func(class schema.Class) int64 { return pool.Outlook("", class).Wait.Milliseconds() }
	return &classWaits{of(schema.Interactive), of(schema.Normal), of(schema.Batch)}
}

type liveInstance struct {
	Service schema.ServiceType `json:"service"`
	Model   string             `json:"model"`
	ID      string             `json:"id"`
	Handle  string             `json:"handle" doc:"As in X-Router-Instance."`
	URL     string             `json:"url"`
	Adapter string             `json:"adapter"`
	live.Activity
	Health      backend.Status `json:"health"`
	HealthError string         `json:"healthError,omitzero" doc:"Why the instance is not healthy."`
	HealthSaid  []say.Sentence `json:"healthSaid,omitzero" doc:"That as codes and values."`
	Enabled     bool           `json:"enabled"`
	Weight      float64        `json:"weight"`
	Tier        int            `json:"tier"`
	InFlight    int64          `json:"inFlight"`
	Slots       *slotsStatus   `json:"slots,omitzero" doc:"What was learned where max-concurrency is auto."`
	Breaker     breakerStatus  `json:"breaker"`
	Engine      *engineView    `json:"engine,omitzero" doc:"What is known about its engine; only with least_time."`
}

// renderSnapshot makes the snapshot of the live feed, with the error messages of backends
// or without. It runs once a second while somebody reads.
func (a *API) renderSnapshot(now time.Time, words bool) []byte {
	role := access.Viewer
	if words {
		role = access.Operator
	}
	data, err := web.Encode(a.liveSnapshot(now, web.WordingFor(role)))
	if err != nil {
		return []byte("{}") // every view can be encoded; a failure is a defect
	}
	return data
}

func (a *API) liveSnapshot(now time.Time, words web.Wording) liveSnapshot {
	counted := a.sampler.Activities()
	s := liveSnapshot{
		Time: web.Time(now), StartedAt: web.Time(a.sampler.StartedAt()), ConfigVersion: a.Version(),
		Degradation: a.Recorder.Degradation().Level.String(), SamplingRate: a.Recorder.SamplingRate(),
		Total: counted.Total, Services: []liveService{}, Models: []liveModel{}, Instances: []liveInstance{},
	}
	table := a.Current.Load()
	for _, serviceType := range schema.ServiceTypes() {
		service := table.Service(serviceType)
		if service == nil {
			continue
		}
		view := liveService{Service: serviceType, Activity: counted.Services[serviceType],
			RateLimitRemaining: remaining(service, now)}
		for _, pool := range service.Pools {
			model := liveModel{Service: serviceType, Model: pool.Model,
				Activity:    counted.Models[live.ModelKey{Service: serviceType, Model: pool.Model}],
				QueueLength: pool.Queue.Len(), Queue: explain.ViewLengths(pool.Queue.Lengths()),
				ExpectedWaitMs: expectedWaits(pool)}
			for _, i := range pool.Instances {
				instance := liveInstanceOf(i, now, words)
				instance.Activity = counted.Instances[live.InstanceKey{Service: serviceType, ID: i.ID}]
				model.InFlight += instance.InFlight
				s.Instances = append(s.Instances, instance)
			}
			view.InFlight += model.InFlight
			view.QueueLength += model.QueueLength
			view.Queue.Interactive += model.Queue.Interactive
			view.Queue.Normal += model.Queue.Normal
			view.Queue.Batch += model.Queue.Batch
			s.Models = append(s.Models, model)
		}
		s.Services = append(s.Services, view)
	}
	s.Instances = slices.Clip(s.Instances)
	return s
}

// remaining returns the number of requests that the rate limit of a service type leaves to
// all callers.
func remaining(s *routing.Service, now time.Time) *int {
	limit := s.LimitSnapshot(now, 0)
	if !limit.Enabled || limit.PerClient {
		return nil
	}
	return &limit.Remaining
}

func liveInstanceOf(i *backend.Instance, now time.Time, words web.Wording) liveInstance {
	return liveInstance{
		Service: i.Service, Model: i.Settings.Name, ID: i.ID, Handle: i.Handle, URL: i.Settings.BaseURL,
		Adapter: upperSnake(i.Kind.Name),
		Health:  i.HealthStatus(), HealthError: say.Join(i.HealthReason()), HealthSaid: i.HealthReason(),
		Enabled: i.Settings.Enabled, Weight: i.Settings.Weight, Tier: i.Settings.Tier,
		InFlight: i.InFlight(), Slots: slotsOf(i), Breaker: breakerOf(i, words), Engine: engineOf(i, now),
	}
}
