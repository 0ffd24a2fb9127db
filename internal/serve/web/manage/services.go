package manage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// document returns the configuration in force, and notes its version in the reply.
func (a *API) document(c *web.Call) *config.Document {
	doc, version := a.options.Control.Document()
	c.Version = version
	return doc
}

func (a *API) allServices(c *web.Call) (map[schema.ServiceType]serviceView, error) {
	return viewServices(a.document(c).Services, c.Who), nil
}

func (a *API) serviceNames(*web.Call) (names []schema.ServiceType, err error) {
	doc, _ := a.options.Control.Document()
	for _, serviceType := range schema.ServiceTypes() {
		if _, configured := doc.Services[serviceType]; configured {
			names = append(names, serviceType)
		}
	}
	return names, nil
}

func (a *API) service(c *web.Call) (serviceView, error) {
	serviceType, service, err := configured(c, a.document(c))
	if err == nil && wantsYAML(c.Request) {
		err = sendFile(c, map[schema.ServiceType]config.Service{serviceType: service})
	}
	return viewService(service, c.Who), err
}

// configured returns the service type in the path and its configuration, or an error if
// it is not configured.
func configured(c *web.Call, doc *config.Document) (schema.ServiceType, config.Service, error) {
	serviceType, err := serviceOf(c)
	if err != nil {
		return 0, config.Service{}, err
	}
	service, ok := doc.Services[serviceType]
	if !ok {
		return 0, service, web.NotFound(say.New("manage.service_missing", "service", serviceType).About("serviceType"))
	}
	return serviceType, service, nil
}

func (a *API) serviceModels(c *web.Call) (names []string, err error) {
	doc, _ := a.options.Control.Document()
	serviceType, _, err := configured(c, doc)
	if err != nil {
		return nil, err
	}
	for _, pool := range a.table().Service(serviceType).Pools {
		names = append(names, pool.Model)
	}
	return names, nil
}

// putService creates a service type, or replaces its policy and keeps its instances.
func (a *API) putService(c *web.Call) (changeView, error) {
	return a.writeService(c, func(config.Service, bool) (config.Service, error) { return config.DefaultService(), nil })
}

// mergeService changes the members of a service type that the body has, and keeps the rest.
func (a *API) mergeService(c *web.Call) (changeView, error) {
	return a.writeService(c, func(existing config.Service, exists bool) (config.Service, error) {
		if !exists {
			return existing, web.NotFound(say.New("manage.it_missing").About("serviceType"))
		}
		return existing, nil
	})
}

// writeService changes a service type: it lays the body over the configuration that
// start returns. The instances stay unless the body has some.
func (a *API) writeService(c *web.Call,
	start func(existing config.Service, exists bool) (config.Service, error)) (changeView, error) {
	serviceType, err := serviceOf(c)
	if err != nil {
		return changeView{}, err
	}
	var body config.Service
	given, err := config.DecodeJSON(c.Content, &body, readOnly()...)
	if err != nil {
		return changeView{}, err
	}
	view, err := a.edit(c, func(doc *config.Document) error {
		existing, exists := doc.Services[serviceType]
		if exists {
			c.Status, c.Message = http.StatusOK, "The service type was changed."
		}
		next, err := start(existing, exists)
		if err != nil {
			return err
		}
		next.Instances = existing.Instances
		given.Overlay(&body, &next)
		if given.Has("instances") {
			if err := keepAll(next.Instances, existing, given, c.Who); err != nil {
				return err
			}
		}
		doc.Services[serviceType] = next
		return nil
	})
	return view, inBody(err, serviceType, func(path string) string { return path })
}

// inBody changes the paths of the problems of a change from paths of the configuration to
// paths of the request's body.
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

func (a *API) deleteService(c *web.Call) (changeView, error) {
	return a.edit(c, func(doc *config.Document) error {
		serviceType, _, err := configured(c, doc)
		if err == nil {
			delete(doc.Services, serviceType)
		}
		return err
	})
}

func (a *API) reset(c *web.Call) (changeView, error) {
	return write(c, func(ctx context.Context, change control.Change) (control.Result, error) {
		change.Origin, change.Check = control.FromReset, nil // the file may allow what it likes
		return a.options.Control.Reset(ctx, change)
	})
}
