package manage

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// errNotKept means that the gateway neither loads a model nor puts it to sleep.
var errNotKept = errors.New("the gateway neither loads its model nor puts it to sleep: set residency.enabled of the service type, and see which adapters can")

// residence says whether a model is in memory.
type residence string

// Names returns every state.
func (residence) Names() []string { return fleet.States() }

// residentView is a model that is loaded for requests and put to sleep.
type residentView struct {
	Host      string         `json:"host" doc:"The address of its server."`
	Model     string         `json:"model" doc:"Its name there."`
	Group     string         `json:"group,omitzero" doc:"Which models it shares memory with beyond its server: those of the same group, residency.group of instances or group of processes."`
	State     residence      `json:"state" doc:"Whether it is in memory."`
	Since     *string        `json:"since,omitzero" format:"date-time" doc:"When that began, if it is known."`
	LastUsed  *string        `json:"lastUsed,omitzero" format:"date-time" doc:"By this gateway or, as far as they tell it, by others."`
	InUse     bool           `json:"inUse" doc:"Whether requests are there."`
	Pinned    bool           `json:"pinned" doc:"Whether it stays in memory: pinned of an instance."`
	Waiting   int            `json:"waiting" doc:"Requests that wait for it to be loaded."`
	LoadMs    int64          `json:"loadMs" doc:"How long loading takes, by what was seen last."`
	LeftMs    int64          `json:"leftMs,omitzero" doc:"How much of that is left while it is being loaded."`
	Bytes     int64          `json:"bytes,omitzero" doc:"How much memory it takes, where its server tells."`
	SleepMs   int64          `json:"sleepAfterMs,omitzero" doc:"After how long without requests it is put to sleep; never if left out."`
	Loads     int64          `json:"loads" doc:"How often it was loaded, since the gateway was started as are the next ones."`
	Failures  int64          `json:"failures" doc:"How often that failed."`
	Refusals  int64          `json:"refusals" doc:"How often it was not loaded because the models in its memory are pinned."`
	Evictions int64          `json:"evictions" doc:"How often it left the memory for another model."`
	Sleeps    int64          `json:"sleeps" doc:"How often it was put to sleep because nobody used it."`
	WaitedMs  int64          `json:"waitedMs" doc:"How long requests have waited for it, all together."`
	Failure   string         `json:"failure,omitzero" doc:"Why it could not be loaded the last time."`
	Said      []say.Sentence `json:"said,omitzero" doc:"The same as codes and values."`
	Instances []residentUser `json:"instances" doc:"Those that use it: their pinned pins it, and they name it to load it and to put it to sleep."`
}

// residentUser is an instance of a model that is kept.
type residentUser struct {
	ServiceType schema.ServiceType `json:"serviceType"`
	InstanceID  string             `json:"instanceId"`
	Pinned      bool               `json:"pinned"`
}

// Residents answers GET /api/models/residency.
func (a *API) Residents(q *Request) (Reply, error) {
	data, err := list(q, a.residents(time.Now(), web.WordingFor(q.who.Role)))
	return Reply{message: "The models that are loaded for requests and put to sleep.", data: data}, err
}

// residents returns the models that are kept, each with its instances.
func (a *API) residents(now time.Time, words web.Wording) []residentView {
	type place struct{ host, model string }
	users := map[place][]residentUser{}
	for _, pool := range a.table().Pools() {
		for _, i := range pool.Instances {
			if engine := i.Engine(); engine != nil {
				at := place{engine.Host().Name(), engine.Model()}
				users[at] = append(users[at], residentUser{i.Service, i.ID, i.Settings.Pinned})
			}
		}
	}
	views := []residentView{}
	for _, s := range a.options.Residency.States(now) {
		view := viewOfResident(&s, words)
		view.Instances = append([]residentUser{}, users[place{s.Host, s.Model}]...)
		views = append(views, view)
	}
	return views
}

func viewOfResident(s *residency.State, words web.Wording) residentView {
	failure := words(web.CutText(s.Failure, 500))
	return residentView{
		Host: s.Host, Model: s.Model, Group: s.Group, State: residence(s.State), Since: web.TimeOrNil(s.Since), LastUsed: web.TimeOrNil(s.Used),
		InUse: s.IsInUse, Pinned: s.IsPinned, Waiting: s.Waiting, LoadMs: s.Residence.Loads.Milliseconds(), LeftMs: s.Left.Milliseconds(), Bytes: s.Bytes,
		SleepMs: s.SleepAfter.Milliseconds(), Loads: s.Counts.Loads, Failures: s.Failures, Refusals: s.Refusals, Evictions: s.Evictions, Sleeps: s.Sleeps,
		WaitedMs: s.Waited.Milliseconds(), Failure: failure, Said: say.Of(failure),
	}
}

// residentRequest names the instance whose model is meant.
type residentRequest struct {
	InstanceID string `json:"instanceId" required:"true" minLength:"1"`
}

// LoadModel answers POST /api/config/instance/load/{serviceType} when the model is in memory.
func (a *API) LoadModel(q *Request) (Reply, error) {
	instance, err := a.resident(q)
	if err != nil {
		return Reply{}, err
	}
	how := a.table().Service(instance.Service).Policy.Residency
	return a.move(q, instance, "load", func(host, model string) error {
		return a.options.Residency.Load(q.Context(), host, model, how)
	})
}

// SleepModel answers POST /api/config/instance/sleep/{serviceType} when the model is not in
// memory any more.
func (a *API) SleepModel(q *Request) (Reply, error) {
	instance, err := a.resident(q)
	if err != nil {
		return Reply{}, err
	}
	return a.move(q, instance, "sleep", func(host, model string) error {
		return a.options.Residency.Sleep(q.Context(), host, model)
	})
}

// resident returns the instance that a request names.
func (a *API) resident(q *Request) (*backend.Instance, error) {
	var wanted residentRequest
	if _, err := config.DecodeJSON(q.body, &wanted); err != nil {
		return nil, err
	}
	if wanted.InstanceID == "" {
		return nil, invalidField("instanceId", "is required")
	}
	serviceType, err := serviceOf(q)
	if err != nil {
		return nil, err
	}
	instance := a.table().Service(serviceType).Instance(wanted.InstanceID)
	if instance == nil {
		return nil, fmt.Errorf("instanceId: %w: no instance is called %q", errNotFound, web.Shorten(wanted.InstanceID))
	}
	return instance, nil
}

// move loads the model of an instance or puts it to sleep, and says where it is then.
func (a *API) move(q *Request, instance *backend.Instance, what string, do func(host, model string) error) (Reply, error) {
	engine := instance.Engine()
	if engine == nil || a.options.Residency.Model(engine) == nil {
		return Reply{}, fmt.Errorf("%s: %w", web.Shorten(instance.ID), errNotKept)
	}
	host, model := engine.Host().Name(), engine.Model()
	message := "Dry run: nothing was changed."
	if !q.change.DryRun {
		if err := do(host, model); err != nil {
			return Reply{}, &moveError{err}
		}
		message = map[string]string{"load": "The model is in memory.", "sleep": "The model is not in memory."}[what]
	}
	for _, view := range a.residents(time.Now(), web.WordingFor(q.who.Role)) {
		if view.Host == host && view.Model == model {
			return Reply{message: message, data: view, change: fmt.Sprintf("%s %s", what, instance.Handle)}, nil
		}
	}
	return Reply{}, &moveError{residency.ErrRemoved}
}

// moveError says why a model could not be loaded or put to sleep.
type moveError struct{ cause error }

func (e *moveError) Error() string { return e.cause.Error() }

func (e *moveError) Unwrap() error { return e.cause }

// status returns the status of the reply: that of a request that is refused where somebody can
// change what stands in the way, else that of a backend that did not do it.
func (e *moveError) status() int {
	for _, obstacle := range []error{residency.ErrInUse, residency.ErrPinned, residency.ErrFull, residency.ErrUnknown, residency.ErrRemoved, residency.ErrUnable} {
		if errors.Is(e.cause, obstacle) {
			return http.StatusBadRequest
		}
	}
	if errors.Is(e.cause, residency.ErrTimeout) {
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
