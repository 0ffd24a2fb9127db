package manage

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// named is an instance that a request names: one that is written in the configuration, or one
// in force whose model was discovered, or that a LoRA adapter makes of another one.
type named struct {
	settings backend.Settings
	index    int               // among the written instances of its service type, -1 if it is not written
	live     *backend.Instance // nil if its models are discovered, each of which is an instance
	field    string            // has the name
}

// named returns the instance with an identifier.
func (a *API) named(serviceType schema.ServiceType, service config.Service, field, id string) (named, error) {
	n := named{index: indexOf(service.Instances, id), live: a.table().Service(serviceType).Instance(id), field: field}
	switch {
	case n.index >= 0:
		n.settings = service.Instances[n.index]
	case n.live != nil:
		n.settings = n.live.Settings
	default:
		return n, web.NotFound(say.New("manage.no_instance", "instance", web.Shorten(id)).About(field))
	}
	return n, nil
}

// written returns an error unless the instance is written in the configuration, where it can be
// changed.
func (n *named) written() error {
	id := web.Shorten(n.settings.ID())
	switch lora := n.settings.LoRA; {
	case n.index >= 0:
		return nil
	case lora != nil:
		return web.BadInput(n.field, "manage.instance_adapter", "instance", id, "adapter", lora.Name)
	}
	return web.BadInput(n.field, "manage.instance_discovered", "instance", id)
}

// living returns the instance in force that a request names.
func (a *API) living(c *web.Call, id string) (*backend.Instance, error) {
	serviceType, err := serviceOf(c)
	if err != nil {
		return nil, err
	}
	n, err := a.named(serviceType, a.document(c).Services[serviceType], "instanceId", id)
	if err == nil && n.live == nil {
		err = web.BadInput(n.field, "manage.instance_discovers", "instance", web.Shorten(id))
	}
	return n.live, err
}

// indexOf returns the index of the instance with an identifier, or -1. It compares whole
// identifiers, because names and addresses may contain any character.
func indexOf(instances []backend.Settings, id string) int {
	return slices.IndexFunc(instances, func(s backend.Settings) bool { return s.ID() == id })
}
