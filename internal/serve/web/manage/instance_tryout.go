package manage

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/tryout"
)

// testRequest is the body of the test of an instance: a stored one, one as it is
// typed, or a stored one with changes that were typed.
type testRequest struct {
	InstanceID string          `json:"instanceId" requiredWithout:"instance"`
	Instance   instanceChanges `json:"instance"`
}

// testInstance makes one real, small call. Nothing is stored, and the instance's own
// breaker, health and counts do not see the call. It waits for a model that sleeps as a
// request does, and keeps it until the call is over. It ends when the caller leaves.
func (a *API) testInstance(c *web.Call) (tryout.Result, error) {
	serviceType, err := serviceOf(c)
	if err != nil {
		return tryout.Result{}, err
	}
	settings, service, err := a.tryoutSettings(c, serviceType)
	if err != nil {
		return tryout.Result{}, err
	}
	result, err := a.tryOut(c.Context(), serviceType, service, settings)
	if errors.Is(err, tryout.ErrModel) {
		err = web.Invalid("instance.name", say.From(err))
	}
	if !result.OK {
		c.Say("The test failed.")
	}
	c.Done("tested an instance of %s: ok=%t", serviceType, result.OK)
	return result, err
}

// tryOut makes a call to an instance alone.
func (a *API) tryOut(ctx context.Context, serviceType schema.ServiceType, service config.Service,
	settings backend.Settings) (tryout.Result, error) {
	if _, err := a.compileOne(serviceType, service, settings, "instance."); err != nil {
		return tryout.Result{}, err // before anything is woken up for it
	}
	var held time.Duration
	if kept := a.keptLike(serviceType, settings); kept != nil {
		model, began := kept.Resident(), time.Now()
		err := model.Enter(ctx, model.Patience(service.Residency))
		held = time.Since(began)
		if err != nil {
			return tryout.NotLoaded(ctx, proxy.Unloaded(err, kept, settings.Name), held)
		}
		defer model.Leave()
	}
	table, err := a.compileOne(serviceType, service, settings, "instance.") // a process may listen elsewhere by now
	if err != nil {
		return tryout.Result{}, err
	}
	result, err := tryout.Call(ctx, proxy.New(table, a.options.Client), serviceType, settings.Name)
	result.SetHeld(held)
	return result, err
}

// keptLike returns the instance in force with the same model at the same server as these
// settings, if the gateway runs the server or keeps the model; else nil.
func (a *API) keptLike(serviceType schema.ServiceType, settings backend.Settings) *backend.Instance {
	upstream := cmp.Or(settings.UpstreamModel, settings.Name)
	for _, i := range a.table().Instances() {
		isSame := i.Service == serviceType && i.ID == settings.ID() && i.UpstreamModel() == upstream
		if settings.Process != "" {
			isSame = i.Settings.Process == settings.Process
		}
		if isSame && i.Resident() != nil {
			return i
		}
	}
	return nil
}

// compileOne returns a table with one instance alone, without limits and breakers.
// Errors name the settings of the instance with a prefix.
func (a *API) compileOne(serviceType schema.ServiceType, service config.Service, settings backend.Settings,
	prefix string) (*routing.Current, error) {
	settings.Enabled, settings.Weight, settings.MaxConcurrency = true, 1, 0
	if settings.Models.Given() {
		return nil, web.BadInput(prefix+"models", "field.models_test")
	}
	service.Aliases, service.Fallbacks = nil, nil // they may name other models
	service.RateLimit.Enabled, service.CircuitBreaker.Enabled, service.HealthCheck.Enabled = false, false, false
	doc, _ := a.options.Control.Document()
	doc = doc.Alone(serviceType, service, settings)
	if problems := doc.ValidateServices(kinds.Check); len(problems) > 0 {
		return nil, inBody(problems, serviceType, func(path string) string {
			return prefix + strings.TrimPrefix(path, "instances[0].")
		})
	}
	table, err := routing.Compile(doc.Routed(), nil, nil)
	if err != nil {
		return nil, web.Invalid(prefix+"baseUrl", say.From(err))
	}
	if fault := table.Service(serviceType).Instance(settings.ID()).Fault; fault.Is() {
		return nil, web.Invalid(prefix+"apiKey", fault)
	}
	current := new(routing.Current)
	current.Store(table)
	return current, nil
}

// tryoutSettings returns the instance that the body describes, and its service. A stored
// secret is sent to the address that it was stored for, and to no other one, for every
// caller.
func (a *API) tryoutSettings(c *web.Call, serviceType schema.ServiceType) (backend.Settings, config.Service, error) {
	var body update
	given, err := config.DecodeJSON(c.Content, &body, readOnly()...)
	if err != nil {
		return backend.Settings{}, config.Service{}, err
	}
	doc, _ := a.options.Control.Document()
	service, configured := doc.Services[serviceType]
	if !configured {
		service = config.DefaultService()
	}
	next := update{Instance: backend.DefaultSettings()}
	var stored *backend.Settings
	switch {
	case body.InstanceID != "":
		found, err := a.named(serviceType, service, "instanceId", body.InstanceID)
		if err != nil {
			return backend.Settings{}, config.Service{}, err
		}
		stored, next.Instance = &found.settings, settings.Clone(found.settings)
	case !given.Has("instance"):
		return backend.Settings{}, config.Service{}, web.BadInput("instanceId, instance", "field.one_required")
	}
	given.Overlay(&body, &next)
	who := c.Who
	who.SeesSecrets = false
	if err := keepSecrets(&next.Instance, stored, given, "instance.", who); err != nil {
		return backend.Settings{}, config.Service{}, err
	}
	if stored != nil {
		keepAdapter(&next.Instance, stored, service.Adapter)
	}
	return next.Instance, service, nil
}
