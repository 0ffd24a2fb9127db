package manage

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// residence says whether a model is in memory.
type residence string

// Names returns every state.
func (residence) Names() []string { return append(fleet.States(), residency.Failed) }

// ResidentView is a model that is loaded for requests and put to sleep.
type ResidentView struct {
	Host      string         `json:"host" doc:"The address of its server."`
	Model     string         `json:"model" doc:"Its name there."`
	Group     string         `json:"group,omitzero"`
	State     residence      `json:"state" doc:"Whether it is in memory; failed is that of a process."`
	Since     *string        `json:"since,omitzero" format:"date-time" doc:"When that began, if it is known."`
	LastUsed  *string        `json:"lastUsed,omitzero" format:"date-time" doc:"By any gateway, as far as known."`
	InUse     bool           `json:"inUse" doc:"Whether requests are there."`
	Pinned    bool           `json:"pinned" doc:"Whether it stays in memory: pinned of an instance."`
	Waiting   int            `json:"waiting" doc:"Requests that wait for it to be loaded."`
	LoadMs    int64          `json:"loadMs" doc:"How long loading takes, by what was seen last."`
	LeftMs    int64          `json:"leftMs,omitzero" doc:"How much of that is left while it is being loaded."`
	Bytes     int64          `json:"bytes,omitzero" doc:"How much memory it takes, where its server tells."`
	SleepMs   int64          `json:"sleepAfterMs,omitzero" doc:"The idle time before it is put to sleep, if ever."`
	Loads     int64          `json:"loads" doc:"How often it was loaded since the start, as are the next ones."`
	Failures  int64          `json:"failures" doc:"How often that failed."`
	Refusals  int64          `json:"refusals" doc:"How often it was not loaded because others are pinned."`
	Evictions int64          `json:"evictions" doc:"How often it left the memory for another model."`
	Sleeps    int64          `json:"sleeps" doc:"How often it was put to sleep because nobody used it."`
	WaitedMs  int64          `json:"waitedMs" doc:"How long requests have waited for it, all together."`
	Failure   string         `json:"failure,omitzero" doc:"Why it could not be loaded the last time."`
	Said      []say.Sentence `json:"said,omitzero" doc:"The same as codes and values."`
	Line      string         `json:"lastLine,omitzero" doc:"Of a process that failed, for administrators only."`
	Instances []residentUser `json:"instances" doc:"Those that use it; each can pin it, load it or put it to sleep."`
}

// Docs says more about some members than a tag has room for.
func (ResidentView) Docs() map[string]string {
	return map[string]string{
		"group": "Which models it shares memory with beyond its server: those of the same group, " +
			"residency.group of instances or group of processes.",
	}
}

// residentUser is an instance of a model that is kept.
type residentUser struct {
	ServiceType schema.ServiceType `json:"serviceType"`
	InstanceID  string             `json:"instanceId"`
	Pinned      bool               `json:"pinned"`
}

// residents returns the models that are kept, each with its instances.
func (a *API) residents(c *web.Call) ([]ResidentView, error) {
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
	views := []ResidentView{}
	for _, s := range a.options.Residency.States(time.Now()) {
		view := viewOfResident(&s, c.Words())
		if c.Who.Role.Holds(access.ManageContents) {
			view.Line = s.Line
		}
		view.Instances = append([]residentUser{}, users[place{s.Host, s.Model}]...)
		views = append(views, view)
	}
	return views, nil
}

func viewOfResident(s *residency.State, words web.Wording) ResidentView {
	failure, said := words(s.Failure.Cut(500))
	return ResidentView{
		Host: s.Host, Model: s.Model, Group: s.Group, State: residence(s.State), Since: web.TimeOrNil(s.Since),
		LastUsed: web.TimeOrNil(s.Used),
		InUse:    s.IsInUse, Pinned: s.IsPinned, Waiting: s.Waiting, LoadMs: s.Residence.Loads.Milliseconds(),
		LeftMs: s.Left.Milliseconds(), Bytes: s.Bytes,
		SleepMs: s.SleepAfter.Milliseconds(), Loads: s.Counts.Loads, Failures: s.Failures, Refusals: s.Refusals,
		Evictions: s.Evictions, Sleeps: s.Sleeps,
		WaitedMs: s.Waited.Milliseconds(), Failure: failure, Said: said,
	}
}

// residentRequest names the instance with the model to load or unload.
type residentRequest struct {
	InstanceID string `json:"instanceId" required:"true" minLength:"1"`
}

// loadModel answers when the model is in memory.
func (a *API) loadModel(c *web.Call, wanted *residentRequest) (ResidentView, error) {
	return a.move(c, wanted, "load", func(i *backend.Instance, host, model string) error {
		return a.options.Residency.Load(c.Context(), host, model, a.table().Service(i.Service).Policy.Residency)
	})
}

// sleepModel answers when the model is not in memory any more.
func (a *API) sleepModel(c *web.Call, wanted *residentRequest) (ResidentView, error) {
	return a.move(c, wanted, "sleep", func(_ *backend.Instance, host, model string) error {
		return a.options.Residency.Sleep(c.Context(), host, model)
	})
}

// move loads the model of an instance or puts it to sleep, and says where it is then.
func (a *API) move(c *web.Call, wanted *residentRequest, what string,
	do func(i *backend.Instance, host, model string) error) (ResidentView, error) {
	instance, err := a.living(c, wanted.InstanceID)
	if err != nil {
		return ResidentView{}, err
	}
	engine := instance.Engine()
	if engine == nil || a.options.Residency.Model(engine) == nil {
		return ResidentView{}, web.BadInput("", "model.not_kept", "instance", web.Shorten(instance.ID))
	}
	host, model := engine.Host().Name(), engine.Model()
	if c.DryRun {
		c.Say("Dry run: nothing was changed.")
	} else if err := do(instance, host, model); err != nil {
		return ResidentView{}, unmoved(err)
	}
	views, err := a.residents(c)
	at := slices.IndexFunc(views, func(v ResidentView) bool { return v.Host == host && v.Model == model })
	if at < 0 {
		return ResidentView{}, unmoved(residency.ErrRemoved)
	}
	c.Done("%s %s", what, instance.Handle)
	return views[at], err
}

// unmoved says why a model could not be loaded or put to sleep. The status is that of a
// refused request if somebody can remove the obstacle, else that of a backend that did not
// do it.
func unmoved(cause error) error {
	status := http.StatusBadGateway
	if errors.Is(cause, residency.ErrTimeout) {
		status = http.StatusGatewayTimeout
	}
	for _, obstacle := range []error{
		residency.ErrInUse, residency.ErrPinned, residency.ErrFull, residency.ErrUnknown, residency.ErrRemoved,
		residency.ErrUnable,
	} {
		if errors.Is(cause, obstacle) {
			status = http.StatusBadRequest
		}
	}
	return &web.RequestError{Status: status, Why: say.From(cause)}
}
