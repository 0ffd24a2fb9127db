package manage

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// providers lists the services and servers whose addresses are known.
func (a *API) providers(*web.Call) ([]providers.Provider, error) { return providers.All(), nil }

// maxDiscoverTime bounds the time for asking a backend which models it has.
const maxDiscoverTime = 20 * time.Second

// discoverRequest says which backend is asked for its models.
type discoverRequest struct {
	BaseURL string         `json:"baseUrl" required:"true" minLength:"1" example:"http://127.0.0.1:11434"`
	APIKey  backend.Secret `json:"apiKey" doc:"Sent to this address and kept nowhere. Stored keys are never sent."`
	Adapter string         `json:"adapter" doc:"Found out if left out."`
}

// Discovery is the answer of a backend.
type Discovery struct {
	Adapter string            `json:"adapter" doc:"Empty where no list of models was found."`
	Models  []discoveredModel `json:"models"`
	Errors  []string          `json:"errors" doc:"What was tried without success, in words for people."`
	Said    []say.Sentence    `json:"said,omitzero" doc:"The errors as codes and values."`
	Loads   bool              `json:"loads" doc:"It loads a model for a request, and gives one up when it is told to."`
}

type discoveredModel struct {
	ID          string             `json:"id" doc:"Its name at the backend."`
	Name        string             `json:"name,omitzero" doc:"A shorter name; id is upstreamModel then."`
	ServiceType schema.ServiceType `json:"serviceType" doc:"A guess by the name, unless the backend says it."`
	Exists      bool               `json:"exists" doc:"There is an instance for it at this address already."`
}

// discover asks a backend which models it has. It sends only the values that the caller
// typed, and only to the address that the caller typed.
func (a *API) discover(c *web.Call, wanted *discoverRequest) (Discovery, error) {
	ctx, cancel := context.WithTimeout(c.Context(), maxDiscoverTime)
	defer cancel()
	found, err := discover.Ask(ctx, a.sendDiscovery,
		discover.Backend{BaseURL: wanted.BaseURL, APIKey: wanted.APIKey, Adapter: wanted.Adapter})
	var field *discover.BackendError
	if errors.As(err, &field) {
		err = web.Invalid(field.Field, say.From(field.Err))
	}
	c.Say("The backend has %s.", say.Counted(len(found.Models), "model"))
	if found.Adapter == "" {
		c.Say("No list of models was found at this address.")
	}
	c.Done("asked a backend for its models")
	return a.discoveryOf(wanted, found), err
}

// sendDiscovery asks a backend as an instance with these settings would.
func (a *API) sendDiscovery(ctx context.Context, serviceType schema.ServiceType, settings backend.Settings,
	post string) (status int, body []byte, err error) {
	current, err := a.compileOne(serviceType, config.DefaultService(), settings, "")
	if err != nil {
		if statusOf(err) == http.StatusBadRequest {
			err = refusal{err}
		}
		return 0, nil, err
	}
	return discover.SendTo(ctx, a.options.Client, current.Load().Instances()[0], post)
}

// refusal ends the search for models with an error of the management API.
type refusal struct{ error }

func (r refusal) Unwrap() []error { return []error{r.error, discover.ErrRefused} }

// discoveryOf shows the models that were found, and which of them are configured already.
func (a *API) discoveryOf(wanted *discoverRequest, found discover.Found) Discovery {
	shown := Discovery{Adapter: found.Adapter, Models: []discoveredModel{}, Errors: []string{}}
	for _, m := range found.Models {
		exists := slices.ContainsFunc(a.table().Instances(), func(i *backend.Instance) bool {
			return i.Service == m.ServiceType && i.UpstreamModel() == m.ID &&
				strings.TrimRight(i.Settings.BaseURL, "/") == strings.TrimRight(wanted.BaseURL, "/")
		})
		shown.Models = append(shown.Models, discoveredModel{web.CutText(m.ID, 256), m.Name, m.ServiceType, exists})
	}
	if kind, err := kinds.Lookup(found.Adapter); err == nil && found.Adapter != "" {
		shown.Loads = kind.Lever.Load != nil && kind.Lever.IsImplicit
	}
	for _, said := range found.Errors {
		shown.Errors = append(shown.Errors, said.String())
	}
	shown.Said = say.All(found.Errors...)
	return shown
}
