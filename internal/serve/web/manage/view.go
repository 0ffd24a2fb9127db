package manage

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
)

// serviceView is the configuration of a service type as JSON.
type serviceView struct {
	config.Service
	Instances []instanceView `json:"instances"`
}

// instanceView is the configuration of an instance as JSON.
type instanceView struct {
	InstanceID string   `json:"instanceId" readOnly:"true"`
	References []string `json:"references,omitzero" readOnly:"true"`
	backend.Settings
}

// Docs says more about some members than a tag has room for.
func (instanceView) Docs() map[string]string {
	return map[string]string{
		"references": "The secrets that the configuration file gave as references, such as ${KEY}; they are " +
			"shown as written there.",
	}
}

// instanceInfo is an instance with its health.
type instanceInfo struct {
	instanceView
	HealthStatus    backend.Status `json:"healthStatus"`
	HealthReason    string         `json:"healthReason,omitzero" doc:"Why the instance gets no traffic."`
	Said            []say.Sentence `json:"said,omitzero" doc:"The reason as codes and values."`
	LastHealthCheck *time.Time     `json:"lastHealthCheck" doc:"Null before the first check."`
	Found           *explain.Found `json:"found,omitzero" doc:"What an instance that discovers models has found."`
}

// readOnly returns the members that only reads have. A write may send them back; they
// are ignored.
func readOnly() []string {
	return []string{"instanceId", "references", "healthStatus", "healthReason", "said", "lastHealthCheck", "found"}
}

func viewService(service config.Service, who access.Identity) serviceView {
	view := serviceView{Service: service, Instances: viewInstances(service, who)}
	if view.Aliases == nil {
		view.Aliases = naming.Aliases{}
	}
	if view.Fallbacks == nil {
		view.Fallbacks = naming.Fallbacks{}
	}
	return view
}

func viewServices(services control.Services, who access.Identity) map[schema.ServiceType]serviceView {
	views := make(map[schema.ServiceType]serviceView, len(services))
	for serviceType, service := range services {
		views[serviceType] = viewService(service, who)
	}
	return views
}

func viewInstances(service config.Service, who access.Identity) []instanceView {
	views := make([]instanceView, len(service.Instances))
	for i := range service.Instances {
		views[i] = viewInstance(service.Instances[i], service.Adapter, who)
	}
	return views
}

// viewInstance returns the view of an instance, with its secrets masked for callers who may
// not see them. An instance without an adapter is shown with the adapter of its service
// type, which is in force.
func viewInstance(of backend.Settings, adapter string, who access.Identity) instanceView {
	s := settings.Clone(of)
	s.Adapter = cmp.Or(s.Adapter, adapter)
	if s.Headers == nil {
		s.Headers = map[string]backend.Secret{}
	}
	if !who.SeesSecrets {
		s.Proxy = transport.MaskedProxy(s.Proxy)
	}
	view := instanceView{InstanceID: s.ID()}
	show := func(field string, secret backend.Secret) backend.Secret {
		if secret.IsReference() {
			view.References = append(view.References, field)
		}
		if who.SeesSecrets {
			return backend.Literal(secret.Reveal()) // JSON shows both as a string
		}
		return backend.Literal(secret.Masked())
	}
	s.APIKey = show("apiKey", s.APIKey)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		s.Headers[name] = show(headerField(name), s.Headers[name])
	}
	view.Settings = s
	return view
}

func headerField(name string) string { return "headers[" + strconv.Quote(name) + "]" }

// keepSecrets restores the stored secrets of an instance where a write does not change
// them: where apiKey or headers are absent or null, or have the mask or the reference
// that a read shows. Any other text is a literal, even one that looks like a reference.
// A caller who may not see a secret may not have it sent to a host of their choice
// either. A doubt about the instance ends where all of its secrets are given anew. path is
// the prefix of the instance's fields in the body.
func keepSecrets(next, stored *backend.Settings, given config.Given, path string, who access.Identity) error {
	var before backend.Settings
	if stored != nil {
		before = *stored
	}
	isKept := transport.IsMaskedProxy(next.Proxy)
	if err := keepProxy(next, before, path); err != nil {
		return err
	}
	if next.TLS != before.TLS && !who.Role.Holds(access.ManageKeys) {
		return web.BadInput(path+"tls", "field.tls_admin")
	}
	// Another proxy sees the request with its secret, just as another host does.
	moved := stored != nil && (!sameHost(before.BaseURL, next.BaseURL) || next.Proxy != before.Proxy)
	keep := func(field string, secret backend.Secret) (backend.Secret, error) {
		switch {
		case secret.IsEmpty():
			return secret, web.BadInput(field, "field.secret_mask")
		case moved && !who.SeesSecrets:
			return secret, web.BadInput(field, "field.secret_again")
		}
		isKept = true
		return secret, nil
	}
	var err error
	if hasKey := given.Has(path + "apiKey"); hasKey && wasShown(next.APIKey, before.APIKey) || !hasKey &&
		!before.APIKey.IsEmpty() {
		if next.APIKey, err = keep(path+"apiKey", before.APIKey); err != nil {
			return err
		}
	}
	hasHeaders := given.Has(path + "headers")
	if !hasHeaders {
		next.Headers = maps.Clone(before.Headers)
	}
	for _, name := range slices.Sorted(maps.Keys(next.Headers)) {
		secret := header(before.Headers, name)
		if hasHeaders && !wasShown(next.Headers[name], secret) || !hasHeaders && secret.IsEmpty() {
			continue
		}
		if next.Headers[name], err = keep(path+headerField(name), secret); err != nil {
			return err
		}
	}
	if next.ForwardAuthorization && (moved || !before.ForwardAuthorization) && !who.Role.Holds(access.ManageKeys) {
		return web.BadInput(path+"forwardAuthorization", "field.forward_admin")
	}
	isKept = isKept || next.ForwardAuthorization && !given.Has(path+"forwardAuthorization")
	next.Doubt = before.Doubt
	if next.HasSecrets() && !isKept {
		next.Doubt = ""
	}
	return nil
}

// keepAdapter lets an instance keep inheriting the adapter of its service type where a
// write sends back the adapter that a read showed.
func keepAdapter(next, stored *backend.Settings, inherited string) {
	if stored != nil && stored.Adapter == "" && next.Adapter == inherited {
		next.Adapter = ""
	}
}

// wasShown reports whether the text of a write is the text that a read shows for a stored
// secret: its mask, or its reference.
func wasShown(given, stored backend.Secret) bool {
	return access.IsMask(given.Reveal()) || stored.IsReference() && given.Reveal() == stored.Reveal()
}

// keepProxy restores the stored credentials of a proxy where a write has their mask.
func keepProxy(next *backend.Settings, before backend.Settings, path string) error {
	if !transport.IsMaskedProxy(next.Proxy) {
		return nil
	}
	if transport.MaskedProxy(before.Proxy) != next.Proxy {
		return web.BadInput(path+"proxy", "field.proxy_mask")
	}
	next.Proxy = before.Proxy
	return nil
}

// header returns the value of a header. The case of the name does not matter.
func header(headers map[string]backend.Secret, name string) backend.Secret {
	for known, value := range headers {
		if strings.EqualFold(known, name) {
			return value
		}
	}
	return backend.Secret{}
}

// sameHost reports whether the new address b has the same scheme, host and port as the
// stored address a. It does not object to an invalid b, which validation refuses.
func sameHost(a, b string) bool {
	from, _ := transport.ParseOrigin(a) // it was validated when it was stored
	to, err := transport.ParseOrigin(b)
	return err != nil || from == to
}
