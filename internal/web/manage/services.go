package manage

import (
	"fmt"
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// Services answers GET /api/config/type.
func (a *API) Services(w http.ResponseWriter, r *http.Request) {
	doc, version := a.options.Control.Document()
	tag(w, version)
	web.Succeed(w, http.StatusOK, "The service types and their configuration.", viewServices(doc.Services, web.IdentityOf(r)))
}

// tag names the version that a read shows, for a later If-Match.
func tag(w http.ResponseWriter, version int) {
	w.Header().Set("Etag", fmt.Sprintf(`"%d"`, version))
}

// ServiceNames answers GET /api/config/type/services.
func (a *API) ServiceNames(w http.ResponseWriter, r *http.Request) {
	doc, _ := a.options.Control.Document()
	var names []string
	for _, serviceType := range schema.ServiceTypes() {
		if _, configured := doc.Services[serviceType]; configured {
			names = append(names, serviceType.String())
		}
	}
	a.list(w, r, "The configured service types.", names)
}

// list answers with a list of names.
func (a *API) list(w http.ResponseWriter, r *http.Request, message string, names []string) {
	data, err := list(r, names)
	if err != nil {
		a.fail(w, err)
		return
	}
	web.Succeed(w, http.StatusOK, message, data)
}

// Service answers GET /api/config/type/services/{serviceType}.
func (a *API) Service(w http.ResponseWriter, r *http.Request) {
	doc, version := a.options.Control.Document()
	_, service, err := configured(r, doc)
	if err != nil {
		a.fail(w, err)
		return
	}
	tag(w, version)
	web.Succeed(w, http.StatusOK, "The configuration of the service type.", viewService(service, web.IdentityOf(r)))
}

// configured returns the service type in the path and its configuration.
func configured(r *http.Request, doc *config.Document) (schema.ServiceType, config.Service, error) {
	serviceType, err := serviceOf(r)
	if err != nil {
		return 0, config.Service{}, err
	}
	service, ok := doc.Services[serviceType]
	if !ok {
		return 0, service, fmt.Errorf("serviceType: %w: %s is not configured", errNotFound, serviceType)
	}
	return serviceType, service, nil
}

// ServiceModels answers GET /api/config/type/{serviceType}/models.
func (a *API) ServiceModels(w http.ResponseWriter, r *http.Request) {
	doc, _ := a.options.Control.Document()
	_, service, err := configured(r, doc)
	if err != nil {
		a.fail(w, err)
		return
	}
	var names []string
	seen := make(map[string]bool)
	for _, instance := range service.Instances {
		if !seen[instance.Name] {
			seen[instance.Name] = true
			names = append(names, instance.Name)
		}
	}
	a.list(w, r, "The models of the service type.", names)
}

// PutService answers POST /api/config/type/services/{serviceType}: it creates
// the type, or replaces its policy and keeps its instances.
func (a *API) PutService(w http.ResponseWriter, r *http.Request) {
	a.writeService(w, r, func(config.Service, bool) (config.Service, error) { return config.DefaultService(), nil })
}

// MergeService answers PUT /api/config/type/services/{serviceType}: what is
// given changes, the rest stays.
func (a *API) MergeService(w http.ResponseWriter, r *http.Request) {
	a.writeService(w, r, func(existing config.Service, exists bool) (config.Service, error) {
		if !exists {
			return existing, fmt.Errorf("serviceType: %w: it is not configured", errNotFound)
		}
		return existing, nil
	})
}

// writeService changes a service type: on top of what the function makes of the
// existing one comes what the body gives. The instances stay unless it gives
// them.
func (a *API) writeService(w http.ResponseWriter, r *http.Request, start func(existing config.Service, exists bool) (config.Service, error)) {
	serviceType, err := serviceOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
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
	created := false
	result, err := a.options.Control.Change(change, func(doc *config.Document) error {
		existing, exists := doc.Services[serviceType]
		created = !exists
		next, err := start(existing, exists)
		if err != nil {
			return err
		}
		next.Instances = existing.Instances
		given, err := config.DecodeJSON(body, &next, readOnly()...)
		if err != nil {
			return err
		}
		if given.Has("instances") {
			if err := keepAll(next.Instances, existing.Instances, given); err != nil {
				return err
			}
		}
		doc.Services[serviceType] = next
		return check(serviceType, next, func(path string) string { return path })
	})
	if err != nil {
		a.fail(w, err)
		return
	}
	if created {
		a.changed(w, http.StatusCreated, "The service type was created.", viewOf(result, change))
		return
	}
	a.changed(w, http.StatusOK, "The service type was changed.", viewOf(result, change))
}

// keepAll puts the stored secrets back into a list of instances.
func keepAll(next, stored []backend.Settings, given config.Given) error {
	byID := make(map[string]*backend.Settings, len(stored))
	for i := range stored {
		byID[stored[i].ID()] = &stored[i]
	}
	for i := range next {
		if err := keepSecrets(&next[i], byID[next[i].ID()], given, fmt.Sprintf("instances[%d].", i)); err != nil {
			return err
		}
	}
	return nil
}

// DeleteService answers DELETE /api/config/type/services/{serviceType}.
func (a *API) DeleteService(w http.ResponseWriter, r *http.Request) {
	change, err := changeOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	result, err := a.options.Control.Change(change, func(doc *config.Document) error {
		serviceType, _, err := configured(r, doc)
		if err == nil {
			delete(doc.Services, serviceType)
		}
		return err
	})
	if err != nil {
		a.fail(w, err)
		return
	}
	a.changed(w, http.StatusOK, "The service type and all its configuration were deleted.", viewOf(result, change))
}

// Reset answers POST /api/config/type/reset.
func (a *API) Reset(w http.ResponseWriter, r *http.Request) {
	change, err := changeOf(r)
	if err != nil {
		a.fail(w, err)
		return
	}
	change.Origin = control.FromReset
	result, err := a.options.Control.Reset(change)
	if err != nil {
		a.fail(w, err)
		return
	}
	a.changed(w, http.StatusOK, "The static configuration is in force again.", viewOf(result, change))
}
