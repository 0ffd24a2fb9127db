package manage

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// Instances answers GET /api/config/instance/type/{serviceType}.
func (a *API) Instances(w http.ResponseWriter, r *http.Request) {
	doc, version := a.options.Control.Document()
	_, service, err := configured(r, doc)
	if err != nil {
		a.fail(w, err)
		return
	}
	data, err := list(r, viewInstances(service.Instances, web.IdentityOf(r)))
	if err != nil {
		a.fail(w, err)
		return
	}
	tag(w, version)
	web.Succeed(w, http.StatusOK, "The instances of the service type.", data)
}

// InstanceInfo answers GET /api/config/instance/info/{serviceType}.
func (a *API) InstanceInfo(w http.ResponseWriter, r *http.Request) {
	doc, version := a.options.Control.Document()
	serviceType, service, err := configured(r, doc)
	if err != nil {
		a.fail(w, err)
		return
	}
	n, err := named(r, service)
	if err != nil {
		a.fail(w, err)
		return
	}
	info := instanceInfo{instanceView: viewInstance(service.Instances[n], web.IdentityOf(r)), HealthStatus: backend.StatusUnknown.String()}
	if live := a.table().Service(serviceType).Instance(info.InstanceID); live != nil {
		health := live.Health.Snapshot()
		info.HealthStatus = health.Status.String()
		if !health.LastCheck.IsZero() {
			at := health.LastCheck.UTC().Truncate(time.Millisecond)
			info.LastHealthCheck = &at
		}
	}
	tag(w, version)
	web.Succeed(w, http.StatusOK, "The instance and its health.", info)
}

// named finds the instance that the query names.
func named(r *http.Request, service config.Service) (int, error) {
	query := r.URL.Query()
	name, baseURL := query.Get("modelName"), query.Get("baseUrl")
	if name == "" {
		return 0, wrong("modelName", "is required")
	}
	if baseURL == "" {
		return 0, wrong("baseUrl", "is required")
	}
	n := slices.IndexFunc(service.Instances, func(s backend.Settings) bool { return s.Name == name && s.BaseURL == baseURL })
	if n < 0 {
		return 0, fmt.Errorf("modelName, baseUrl: %w: no instance has this name and address", errNotFound)
	}
	return n, nil
}

// AddInstance answers POST /api/config/instance/add/{serviceType}.
func (a *API) AddInstance(w http.ResponseWriter, r *http.Request) {
	serviceType, err := serviceOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	var id string
	a.writeInstance(w, r, http.StatusCreated, "The instance was added.", &id, func(doc *config.Document, body []byte) error {
		next := backend.DefaultSettings()
		given, err := config.DecodeJSON(body, &next, readOnly()...)
		if err != nil {
			return err
		}
		if err := keepSecrets(&next, nil, given, ""); err != nil {
			return err
		}
		service, exists := doc.Services[serviceType]
		if !exists {
			service = config.DefaultService()
		}
		id = next.ID()
		if slices.ContainsFunc(service.Instances, func(s backend.Settings) bool { return s.ID() == id }) {
			return wrong("name, baseUrl", "the instance %q exists already", shorten(id))
		}
		service.Instances = append(service.Instances, next)
		doc.Services[serviceType] = service
		return check(serviceType, service, inBody(len(service.Instances)-1, ""))
	})
}

// UpdateInstance answers PUT /api/config/instance/update/{serviceType}.
func (a *API) UpdateInstance(w http.ResponseWriter, r *http.Request) {
	who := web.IdentityOf(r)
	var id string
	a.writeInstance(w, r, http.StatusOK, "The instance was changed.", &id, func(doc *config.Document, body []byte) error {
		serviceType, service, err := configured(r, doc)
		if err != nil {
			return err
		}
		n, err := identified(body, service)
		if err != nil {
			return err
		}
		next, err := updated(body, service.Instances[n], who)
		if err != nil {
			return err
		}
		id = next.ID()
		for other, s := range service.Instances {
			if other != n && s.ID() == id {
				return wrong("instance.name, instance.baseUrl", "the instance %q exists already", shorten(id))
			}
		}
		service.Instances[n] = next
		doc.Services[serviceType] = service
		return check(serviceType, service, inBody(n, "instance."))
	})
}

// update is the body of an update.
type update struct {
	InstanceID string           `json:"instanceId"`
	Instance   backend.Settings `json:"instance"`
}

// identified finds the instance that the body of an update names. The
// identifier is compared whole: names and addresses may hold any character.
func identified(body []byte, service config.Service) (int, error) {
	var u update
	given, err := config.DecodeJSON(body, &u, readOnly()...)
	if err != nil {
		return 0, err
	}
	if u.InstanceID == "" {
		return 0, wrong("instanceId", "is required")
	}
	if !given.Has("instance") {
		return 0, wrong("instance", "is required")
	}
	return find(u.InstanceID, service)
}

func find(id string, service config.Service) (int, error) {
	n := slices.IndexFunc(service.Instances, func(s backend.Settings) bool { return s.ID() == id })
	if n < 0 {
		return 0, fmt.Errorf("instanceId: %w: no instance is called %q", errNotFound, shorten(id))
	}
	return n, nil
}

// updated returns an instance with what the body of an update gives.
func updated(body []byte, stored backend.Settings, who access.Identity) (backend.Settings, error) {
	u := update{Instance: stored.Clone()}
	u.Instance.Headers = nil // given headers replace the stored ones
	given, err := config.DecodeJSON(body, &u, readOnly()...)
	if err != nil {
		return stored, err
	}
	next := u.Instance
	if !given.Has("instance.headers") {
		next.Headers = stored.Clone().Headers
	}
	if err := keepSecrets(&next, &stored, given, "instance."); err != nil {
		return stored, err
	}
	return next, mayMove(next, stored, who)
}

// inBody names a setting of the n-th instance as the body does.
func inBody(n int, prefix string) func(string) string {
	own := fmt.Sprintf("instances[%d].", n)
	return func(path string) string {
		if rest, ok := strings.CutPrefix(path, own); ok {
			return prefix + rest
		}
		return path
	}
}

// DeleteInstance answers DELETE /api/config/instance/del/{serviceType}.
func (a *API) DeleteInstance(w http.ResponseWriter, r *http.Request) {
	change, err := changeOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	result, err := a.options.Control.Change(change, func(doc *config.Document) error {
		serviceType, service, err := configured(r, doc)
		if err != nil {
			return err
		}
		n, err := named(r, service)
		if err != nil {
			return err
		}
		service.Instances = slices.Delete(service.Instances, n, n+1)
		doc.Services[serviceType] = service
		return nil
	})
	if err != nil {
		a.fail(w, err)
		return
	}
	a.changed(w, http.StatusOK, "The instance was deleted; requests that it is answering go on to their end.", viewOf(result, change))
}

// writeInstance changes one instance by its body and answers with its
// identifier, which the edit finds out.
func (a *API) writeInstance(w http.ResponseWriter, r *http.Request, status int, message string, id *string, edit func(*config.Document, []byte) error) {
	change, err := changeOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		a.fail(w, err)
		return
	}
	result, err := a.options.Control.Change(change, func(doc *config.Document) error { return edit(doc, body) })
	if err != nil {
		a.fail(w, err)
		return
	}
	view := viewOf(result, change)
	view.InstanceID = *id
	a.changed(w, status, message, view)
}

// ForceBreaker answers POST /api/config/instance/circuit-breaker/{serviceType}:
// an operator holds the breaker of an instance open or closed, or lets go of
// it. That lasts until the gateway stops and is no version.
func (a *API) ForceBreaker(w http.ResponseWriter, r *http.Request) {
	change, err := changeOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		a.fail(w, err)
		return
	}
	var wanted struct {
		InstanceID string       `json:"instanceId"`
		State      breaker.Mode `json:"state"`
	}
	given, err := config.DecodeJSON(body, &wanted)
	if err == nil && wanted.InstanceID == "" {
		err = wrong("instanceId", "is required")
	}
	if err == nil && !given.Has("state") {
		err = wrong("state", "is required (OPEN, CLOSED or AUTO)")
	}
	if err != nil {
		a.fail(w, err)
		return
	}
	serviceType, err := serviceOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	a.force(w, serviceType, wanted.InstanceID, wanted.State, change.DryRun)
}

func (a *API) force(w http.ResponseWriter, serviceType schema.ServiceType, id string, mode breaker.Mode, dryRun bool) {
	instance := a.table().Service(serviceType).Instance(id)
	if instance == nil {
		a.fail(w, fmt.Errorf("instanceId: %w: no instance is called %q", errNotFound, shorten(id)))
		return
	}
	before := instance.Breaker.Snapshot()
	message := "The circuit breaker was set."
	record := web.RecordOf(w)
	record.Change, record.DryRun = fmt.Sprintf("circuit breaker %s→%s on %s", before.Forced, mode, instance.Handle), dryRun
	if dryRun {
		message = "Dry run: nothing was changed."
	} else {
		instance.Breaker.Force(mode, time.Now())
	}
	now := instance.Breaker.Snapshot()
	web.Succeed(w, http.StatusOK, message, struct {
		InstanceID string        `json:"instanceId"`
		State      breaker.State `json:"state"`
		Forced     breaker.Mode  `json:"forced"`
		Changed    bool          `json:"changed"`
		DryRun     bool          `json:"dryRun,omitzero"`
	}{id, now.State, now.Forced, mode != before.Forced, dryRun})
}
