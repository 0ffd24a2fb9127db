package manage

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

// Services answers GET /api/config/type.
func (a *API) Services(q *Request) (Reply, error) {
	doc, version := a.options.Control.Document()
	return Reply{message: "The service types and their configuration.", data: viewServices(doc.Services, q.who), version: version}, nil
}

// ServiceNames answers GET /api/config/type/services.
func (a *API) ServiceNames(q *Request) (Reply, error) {
	doc, _ := a.options.Control.Document()
	var names []string
	for _, serviceType := range schema.ServiceTypes() {
		if _, configured := doc.Services[serviceType]; configured {
			names = append(names, serviceType.String())
		}
	}
	data, err := list(q, names)
	return Reply{message: "The configured service types.", data: data}, err
}

// Service answers GET /api/config/type/services/{serviceType}.
func (a *API) Service(q *Request) (Reply, error) {
	doc, version := a.options.Control.Document()
	serviceType, service, err := configured(q, doc)
	if err == nil && wantsYAML(q.Request) {
		file, err := asFile(map[schema.ServiceType]config.Service{serviceType: service}, q.who)
		return Reply{document: file, version: version}, err
	}
	return Reply{message: "The configuration of the service type.", data: viewService(service, q.who), version: version}, err
}

// configured returns the service type in the path and its configuration, or an error if
// it is not configured.
func configured(q *Request, doc *config.Document) (schema.ServiceType, config.Service, error) {
	serviceType, err := serviceOf(q)
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
func (a *API) ServiceModels(q *Request) (Reply, error) {
	doc, _ := a.options.Control.Document()
	serviceType, service, err := configured(q, doc)
	if err != nil {
		return Reply{}, err
	}
	var names []string
	for _, instance := range service.Instances {
		if instance.Name != "" && !slices.Contains(names, instance.Name) {
			names = append(names, instance.Name)
		}
	}
	for _, found := range a.table().Service(serviceType).Found() {
		if !slices.Contains(names, found) {
			names = append(names, found)
		}
	}
	data, err := list(q, names)
	return Reply{message: "The models of the service type.", data: data}, err
}

// PutService answers POST /api/config/type/services/{serviceType}: it creates the
// service type, or replaces its policy and keeps its instances.
func (a *API) PutService(q *Request) (Reply, error) {
	return a.writeService(q, func(config.Service, bool) (config.Service, error) { return config.DefaultService(), nil })
}

// MergeService answers PUT /api/config/type/services/{serviceType}: it changes what the
// body gives and keeps the rest.
func (a *API) MergeService(q *Request) (Reply, error) {
	return a.writeService(q, func(existing config.Service, exists bool) (config.Service, error) {
		if !exists {
			return existing, fmt.Errorf("serviceType: %w: it is not configured", errNotFound)
		}
		return existing, nil
	})
}

// writeService changes a service type: it lays the body over the configuration that
// start returns. The instances stay unless the body has some.
func (a *API) writeService(q *Request, start func(existing config.Service, exists bool) (config.Service, error)) (Reply, error) {
	serviceType, err := serviceOf(q)
	if err != nil {
		return Reply{}, err
	}
	var body config.Service
	given, err := config.DecodeJSON(q.body, &body, readOnly()...)
	if err != nil {
		return Reply{}, err
	}
	status, message := http.StatusOK, "The service type was changed."
	result, err := a.edit(q, func(doc *config.Document) error {
		existing, exists := doc.Services[serviceType]
		if !exists {
			status, message = http.StatusCreated, "The service type was created."
		}
		next, err := start(existing, exists)
		if err != nil {
			return err
		}
		next.Instances = existing.Instances
		given.Overlay(&body, &next)
		if given.Has("instances") {
			if err := keepAll(next.Instances, existing, given, q.who); err != nil {
				return err
			}
		}
		doc.Services[serviceType] = next
		return nil
	})
	return changed(status, message, viewOf(result, q.change)), inBody(err, serviceType, func(path string) string { return path })
}

// inBody changes the paths of the problems of a change from those of the configuration
// to those of the request's body.
func inBody(err error, serviceType schema.ServiceType, name func(path string) string) error {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return err
	}
	named := slices.Clone(problems)
	for i, problem := range named {
		if path, ok := problem.InService(serviceType); ok {
			named[i].Path = name(path)
		}
	}
	return named
}

// keepAll applies keepAdapter and keepSecrets to a list of instances, each with the
// stored instance of the same name and address.
func keepAll(next []backend.Settings, stored config.Service, given config.Given, who access.Identity) error {
	for i := range next {
		var before *backend.Settings
		if n := indexOf(stored.Instances, next[i].ID()); n >= 0 {
			before = &stored.Instances[n]
		}
		keepAdapter(&next[i], before, stored.Adapter)
		if err := keepSecrets(&next[i], before, given, fmt.Sprintf("instances[%d].", i), who); err != nil {
			return err
		}
	}
	return nil
}

// DeleteService answers DELETE /api/config/type/services/{serviceType}.
func (a *API) DeleteService(q *Request) (Reply, error) {
	result, err := a.edit(q, func(doc *config.Document) error {
		serviceType, _, err := configured(q, doc)
		if err == nil {
			delete(doc.Services, serviceType)
		}
		return err
	})
	return changed(http.StatusOK, "The service type and all its configuration were deleted.", viewOf(result, q.change)), err
}

// Reset answers POST /api/config/type/reset.
func (a *API) Reset(q *Request) (Reply, error) {
	q.change.Origin = control.FromReset
	result, err := q.write(a.options.Control.Reset)
	return changed(http.StatusOK, "The static configuration is in force again.", viewOf(result, q.change)), err
}
