// Package discover finds out which models a backend has and what kind of backend
// it is, by asking for its list of models. It never loads a model.
package discover

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	// MaxList is how much of a list of models is read.
	MaxList = 4 << 20
	// maxModels is how many models are told.
	maxModels = 1000
)

// Backend is a backend that may be asked.
type Backend struct {
	BaseURL string
	APIKey  backend.Secret
	Adapter string // empty: to be found out
	// Known holds the service types of models by an earlier answer. The backend is not
	// asked about these again.
	Known map[string]schema.ServiceType
}

// Model is a model that a backend has.
type Model struct {
	ID string
	// Name is a shorter name to serve it under, empty if there is none.
	Name string
	// ServiceType is a guess by the name, unless the backend says it.
	ServiceType schema.ServiceType
	// OfGateway says that the backend is a gateway of this kind.
	OfGateway bool
}

// Found is the answer of a backend.
type Found struct {
	Adapter string // empty where no list of models was found
	Models  []Model
	Errors  []say.Sentence // the attempts that failed, in words for people

	// isLlama means that the backend is llama.cpp, and certain that it has told the
	// service type of its model.
	isLlama, certain bool
}

// Send calls the path of the settings and returns status and body of the answer. It posts
// the given JSON, or sends a GET where that is empty. The service type is any service type
// of the adapter.
type Send func(ctx context.Context, serviceType schema.ServiceType, settings backend.Settings,
	post string) (status int, body []byte, err error)

// BackendError is an error that a field of a Backend causes.
type BackendError struct {
	Field string // adapter or baseUrl
	Err   error
}

func (e *BackendError) Error() string { return e.Field + ": " + e.Err.Error() }
func (e *BackendError) Unwrap() error { return e.Err }

// ErrRefused is wrapped by the errors of a Send that end the search: no other way of
// asking would go better.
var ErrRefused = errors.New("the request is refused")

// listing is how a backend is asked for its models.
type listing struct {
	adapter, path string
	// hosts are where this is tried first, because nothing else is there.
	hosts []string
}

// listings returns the requests to try where the adapter is not known, in this
// order.
func listings() []listing {
	var list []listing
	for _, kind := range kinds.All() {
		if kind.Guide.ModelsPath != "" {
			list = append(list, listing{kind.Name, kind.Guide.ModelsPath, kind.Guide.ModelsHosts})
		}
	}
	return list
}

// Ask asks a backend in the ways that are likely, until one succeeds. The error is a
// BackendError, one that wraps ErrRefused, or the context's error.
func Ask(ctx context.Context, send Send, b Backend) (Found, error) {
	ways, err := listingsFor(b)
	if err != nil {
		return Found{}, err
	}
	var found Found
	for _, way := range ways {
		told, err := ask(ctx, send, b, way)
		switch {
		case ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
			return found, ctx.Err()
		case errors.Is(err, ErrRefused):
			return found, err
		case err != nil:
			found.Errors = append(found.Errors, say.New("discover.way", "path", way.path, "adapter", way.adapter,
				"why", err))
			continue
		}
		told.Errors = found.Errors
		return told, nil
	}
	return found, nil
}

// listingsFor returns the ways to ask a backend, the likeliest first.
func listingsFor(b Backend) ([]listing, error) {
	if b.Adapter != "" {
		kind, err := kinds.Lookup(b.Adapter)
		if err != nil {
			return nil, &BackendError{"adapter", err}
		}
		if kind.Deployments != "" {
			return nil, &BackendError{"adapter",
				say.Error("discover.deployments")}
		}
		return []listing{{adapter: kind.Name,
			path: cmp.Or(kind.Guide.ModelsPath, kinds.GuideTo(kinds.Default).ModelsPath)}}, nil
	}
	address, err := url.Parse(b.BaseURL)
	if err != nil {
		return nil, &BackendError{"baseUrl", say.Error("field.url")}
	}
	var general []listing
	for _, way := range listings() {
		if slices.Contains(way.hosts, strings.ToLower(address.Hostname())) {
			return []listing{way}, nil
		}
		if way.hosts == nil {
			general = append(general, way)
		}
	}
	return general, nil
}

// ask asks a backend in one way.
func ask(ctx context.Context, send Send, b Backend, way listing) (Found, error) {
	// A base URL may end in the first segment of the path.
	first, _, _ := strings.Cut(way.path[1:], "/")
	b.BaseURL = strings.TrimSuffix(strings.TrimRight(b.BaseURL, "/"), "/"+first)
	call, err := callerOf(send, b, way.adapter)
	if err != nil {
		return Found{}, err
	}
	status, body, err := call(ctx, way.path, "")
	switch {
	case err != nil:
		return Found{}, err
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if b.APIKey.IsEmpty() {
			return Found{}, say.Error("discover.no_key", "status", status)
		}
		return Found{}, say.Error("discover.key", "status", status)
	case status != http.StatusOK:
		return Found{}, say.Error("discover.status", "status", status)
	}
	found, err := read(body, way.adapter, b.Adapter == "")
	if err == nil && found.isLlama && len(found.Models) == 1 {
		found.askLlama(ctx, call, b.Known)
	}
	return found, err
}

// caller calls a path of one backend, as a Send does.
type caller func(ctx context.Context, path, post string) (status int, body []byte, err error)

// callerOf returns a caller of the backend in the way of an adapter.
func callerOf(send Send, b Backend, adapter string) (caller, error) {
	kind, err := kinds.Lookup(adapter)
	if err != nil {
		return nil, err
	}
	var serviceType schema.ServiceType
	for serviceType = range kind.Routes {
		break // whichever: only address and headers matter
	}
	return func(ctx context.Context, path, post string) (int, []byte, error) {
		settings := backend.DefaultSettings()
		settings.Name, settings.BaseURL, settings.APIKey, settings.Adapter, settings.Path = "discovery", b.BaseURL,
			b.APIKey, adapter, path
		return send(ctx, serviceType, settings, post)
	}, nil
}

// read reads a list of models in any of the dialects. Without a given adapter, the
// list may show a better one.
func read(body []byte, adapter string, mayRefine bool) (Found, error) {
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
		} `json:"data"`
		Models []listedModel `json:"models"`
	}
	if err := json.Unmarshal(body, &list, jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true)); err != nil || list.Data == nil && list.Models == nil {
		return Found{}, say.Error("discover.no_list")
	}
	found := Found{Adapter: adapter}
	add := func(id string, serviceType schema.ServiceType, ofGateway bool) {
		if id != "" && len(found.Models) < maxModels {
			found.Models = append(found.Models, Model{ID: id, ServiceType: serviceType, OfGateway: ofGateway})
		}
	}
	byName := make(map[string]listedModel, len(list.Models))
	for _, model := range list.Models {
		byName[model.Name] = model
	}
	for _, model := range list.Data {
		owner := ownerOf(model.OwnedBy)
		if mayRefine && adapter == kinds.Default && owner.Name != "" {
			found.Adapter = owner.Name
		}
		details := byName[model.ID]
		if owner.Guide.AllListedAsChat {
			found.isLlama = true
			details.Capabilities = nil // it says completion of every model
		}
		add(model.ID, details.serviceType(model.ID), model.OwnedBy == "patchbay")
	}
	for _, model := range list.Models {
		if len(list.Data) > 0 {
			break // llama.cpp lists its models in both ways
		}
		serviceType := model.serviceType(model.Name)
		add(ShortName(model.Name), serviceType, false)
	}
	for i := range found.Models {
		found.serve(&found.Models[i], found.Models[i].ServiceType)
	}
	found.shorten()
	return found, nil
}

// shorten gives models that the backend calls by their files shorter names.
func (f *Found) shorten() {
	if !kinds.GuideTo(f.Adapter).ListsFiles {
		return
	}
	var files []string
	for _, model := range f.Models {
		files = append(files, model.ID)
	}
	for i, name := range naming.OfFiles(files) {
		if name != files[i] {
			f.Models[i].Name = name
		}
	}
}

// ownerOf returns the kind of backend by the owner of its models, an empty one if the
// owner does not show it.
func ownerOf(owner string) dialect.Kind {
	for _, kind := range kinds.All() {
		if owner != "" && kind.Guide.Owner == owner {
			return *kind
		}
	}
	return dialect.Kind{}
}

// serve sets the service type of a model. It is chat where the kind of backend does not
// serve the given one.
func (f *Found) serve(model *Model, serviceType schema.ServiceType) {
	if kinds.Check(f.Adapter, serviceType) != nil {
		serviceType = schema.Chat
	}
	model.ServiceType = serviceType
}

// ShortName returns the name of a model as Ask lists it. Gemini lists models/name, and
// Ollama name:latest; both take the name alone.
func ShortName(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "models/"), ":latest")
}

// listedModel is an entry of the lists of Ollama, Gemini and llama.cpp.
type listedModel struct {
	Name    string   `json:"name"`
	Methods []string `json:"supportedGenerationMethods"`
	// Capabilities are sent by newer releases of Ollama. llama.cpp sends them too, but
	// the same ones for every model.
	Capabilities []string `json:"capabilities"`
	Details      struct {
		Family   string   `json:"family"`
		Families []string `json:"families"`
	} `json:"details"`
}

// serviceType returns the service type of a model: the one that the backend says, or
// else a guess by the name.
func (m listedModel) serviceType(name string) schema.ServiceType {
	says := func(word string) bool { return slices.Contains(m.Capabilities, word) }
	switch {
	case slices.Contains(m.Methods, "embedContent"), says("embedding") && !says("completion"):
		return schema.Embedding
	case slices.Contains(m.Methods, "generateContent"), says("completion"):
		return schema.Chat
	}
	for _, family := range append(m.Details.Families, m.Details.Family) {
		if strings.HasSuffix(family, "bert") { // Ollama: bert, nomic-bert
			return schema.Embedding
		}
	}
	return GuessService(name)
}

// GuessService guesses the service type of a model by its name.
func GuessService(model string) schema.ServiceType {
	name := strings.ToLower(model)
	for _, guess := range []struct {
		serviceType schema.ServiceType
		words       []string
	}{
		{schema.Rerank, []string{"rerank"}},
		{schema.Embedding, []string{"embed", "bge-", "e5-", "gte-", "minilm", "jina-clip"}},
		{schema.STT, []string{"whisper", "transcribe", "-stt", "-asr", "paraformer", "sensevoice"}},
		{schema.TTS, []string{"tts", "-speech", "kokoro", "piper", "cosyvoice"}},
		{schema.ImgEdit, []string{"image-edit"}},
		{schema.ImgGen, []string{"dall-e", "image", "stable-diffusion", "sdxl", "flux"}},
	} {
		if slices.ContainsFunc(guess.words, func(word string) bool { return strings.Contains(name, word) }) {
			return guess.serviceType
		}
	}
	return schema.Chat
}
