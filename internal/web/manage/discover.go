package manage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/transport"
	"github.com/patchbay-ai/patchbay/internal/web"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

const (
	// maxDiscoverTime is how long a backend is asked which models it has.
	maxDiscoverTime = 20 * time.Second
	// maxModelList bounds the list of models that is read, and maxModels those that
	// are told.
	maxModelList = 4 << 20
	maxModels    = 1000
)

// discoverRequest says which backend is asked for its models.
type discoverRequest struct {
	BaseURL string         `json:"baseUrl" required:"true" minLength:"1" example:"http://127.0.0.1:11434"`
	APIKey  backend.Secret `json:"apiKey" doc:"Sent to this address and kept nowhere. Stored keys are never sent."`
	Adapter string         `json:"adapter" doc:"Found out if left out."`
}

// discovery is what a backend said.
type discovery struct {
	Adapter string            `json:"adapter" doc:"Empty where no list of models was found."`
	Models  []discoveredModel `json:"models"`
	Errors  []string          `json:"errors" doc:"What was tried without success, in words for people."`
}

type discoveredModel struct {
	ID          string             `json:"id"`
	ServiceType schema.ServiceType `json:"serviceType" doc:"A guess by the name, unless the backend says it."`
	Exists      bool               `json:"exists" doc:"There is an instance for it at this address already."`
}

// modelListing is how a backend is asked for its models.
type modelListing struct {
	adapter, path string
	// hosts are where this is tried first, because nothing else is there.
	hosts []string
}

// listings are tried in this order where the adapter is not known.
var listings = []modelListing{
	{"gemini", "/v1beta/models", []string{"generativelanguage.googleapis.com"}},
	{"anthropic", "/v1/models", []string{"api.anthropic.com"}},
	{"ollama", "/api/tags", nil},
	{"openai", "/v1/models", nil},
}

// Discover answers POST /api/config/discover: which models a backend has. Only
// what is typed is sent, to the address that is typed.
func (a *API) Discover(q *Request) (Reply, error) {
	var wanted discoverRequest
	if _, err := config.DecodeJSON(q.body, &wanted); err != nil {
		return Reply{}, err
	}
	switch {
	case wanted.BaseURL == "":
		return Reply{}, invalidField("baseUrl", "is required")
	case q.change.DryRun:
		return Reply{}, invalidField(dryRunFlag, "is not available here; nothing was called")
	}
	ways, err := listingsFor(&wanted)
	if err != nil {
		return Reply{}, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), maxDiscoverTime)
	defer cancel()
	found := discovery{Models: []discoveredModel{}, Errors: []string{}}
	for _, way := range ways {
		models, adapter, err := a.listModels(ctx, &wanted, way)
		switch {
		case q.Context().Err() != nil:
			return Reply{}, q.Context().Err()
		case isInvalid(err):
			return Reply{}, err
		case err != nil:
			found.Errors = append(found.Errors, fmt.Sprintf("GET %s (%s): %v", way.path, way.adapter, err))
			continue
		}
		found.Adapter, found.Models = adapter, models
		break
	}
	message := fmt.Sprintf("The backend has %d models.", len(found.Models))
	if found.Adapter == "" {
		message = "No list of models was found at this address."
	}
	return Reply{message: message, data: found, change: "asked a backend for its models"}, nil
}

func isInvalid(err error) bool { return err != nil && statusOf(err) == http.StatusBadRequest }

// listingsFor returns the ways to ask a backend, the likeliest first.
func listingsFor(wanted *discoverRequest) ([]modelListing, error) {
	if wanted.Adapter != "" {
		kind, err := kinds.Lookup(wanted.Adapter)
		if err != nil {
			return nil, invalidField("adapter", "%v", err)
		}
		for _, way := range listings {
			if way.adapter == kind.Name {
				return []modelListing{way}, nil
			}
		}
		return []modelListing{{adapter: kind.Name, path: "/v1/models"}}, nil
	}
	address, err := url.Parse(wanted.BaseURL)
	if err != nil {
		return nil, invalidField("baseUrl", "is not a valid URL")
	}
	var general []modelListing
	for _, way := range listings {
		if slices.Contains(way.hosts, strings.ToLower(address.Hostname())) {
			return []modelListing{way}, nil
		}
		if way.hosts == nil {
			general = append(general, way)
		}
	}
	return general, nil
}

// listModels asks a backend in one way, and returns its models and what kind it is.
func (a *API) listModels(ctx context.Context, wanted *discoverRequest, way modelListing) ([]discoveredModel, string, error) {
	kind, err := kinds.Lookup(way.adapter)
	if err != nil {
		return nil, "", err
	}
	var serviceType schema.ServiceType
	for serviceType = range kind.Routes {
		break // whichever: only address and headers matter
	}
	// A base URL may end in the first segment of the path.
	first, _, _ := strings.Cut(way.path[1:], "/")
	base := strings.TrimSuffix(strings.TrimRight(wanted.BaseURL, "/"), "/"+first)
	settings := backend.DefaultSettings()
	settings.Name, settings.BaseURL, settings.APIKey, settings.Adapter, settings.Path = "discovery", base, wanted.APIKey, way.adapter, way.path
	current, err := a.compileOne(serviceType, config.DefaultService(), settings, "")
	if err != nil {
		return nil, "", err
	}
	instance := current.Load().Instances()[0]
	response, err := a.options.Client.Send(ctx, instance.Origin, &wire.Call{Method: http.MethodGet, Path: instance.Target.Path, Header: instance.Target.Header},
		transport.Timeouts{Connect: 5 * time.Second, FirstByte: 10 * time.Second, Idle: 10 * time.Second})
	if err != nil {
		return nil, "", reachError(err)
	}
	defer func() { _ = response.Close() }()
	body, err := io.ReadAll(io.LimitReader(response, maxModelList))
	switch {
	case response.Status == http.StatusUnauthorized || response.Status == http.StatusForbidden:
		return nil, "", fmt.Errorf("the backend answered with status %d: it wants another key", response.Status)
	case response.Status != http.StatusOK:
		return nil, "", fmt.Errorf("the backend answered with status %d", response.Status)
	case err != nil:
		return nil, "", reachError(err)
	}
	return a.readModels(body, wanted, way.adapter)
}

// reachError says why a backend could not be asked, without its address.
func reachError(err error) error {
	if text := transport.CauseOf(err).Text(); text != "" {
		return fmt.Errorf("the backend could not be reached: %s", text)
	}
	return fmt.Errorf("the backend could not be asked")
}

// readModels reads a list of models in any of the dialects.
func (a *API) readModels(body []byte, wanted *discoverRequest, adapter string) ([]discoveredModel, string, error) {
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
		} `json:"data"`
		Models []struct {
			Name    string   `json:"name"`
			Methods []string `json:"supportedGenerationMethods"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &list, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil || list.Data == nil && list.Models == nil {
		return nil, "", fmt.Errorf("the answer is no list of models")
	}
	models := []discoveredModel{}
	add := func(id string, serviceType schema.ServiceType) {
		if id != "" && len(models) < maxModels {
			models = append(models, discoveredModel{ID: id, ServiceType: serviceType})
		}
	}
	for _, model := range list.Data {
		if wanted.Adapter == "" && adapter == "openai" && (model.OwnedBy == "vllm" || model.OwnedBy == "llamacpp" || model.OwnedBy == "xinference") {
			adapter = model.OwnedBy
		}
		add(model.ID, guessService(model.ID))
	}
	for _, model := range list.Models {
		if len(list.Data) > 0 {
			break // llama.cpp lists its models in both ways
		}
		serviceType := guessService(model.Name)
		if slices.Contains(model.Methods, "generateContent") {
			serviceType = schema.Chat
		}
		if slices.Contains(model.Methods, "embedContent") {
			serviceType = schema.Embedding
		}
		// Gemini says models/name, and Ollama name:latest; both take the name alone.
		add(strings.TrimSuffix(strings.TrimPrefix(model.Name, "models/"), ":latest"), serviceType)
	}
	doc, _ := a.options.Control.Document()
	for i := range models {
		m := &models[i]
		if kinds.Check(adapter, m.ServiceType) != nil {
			m.ServiceType = schema.Chat
		}
		m.Exists = slices.ContainsFunc(doc.Services[m.ServiceType].Instances, func(s backend.Settings) bool {
			return strings.TrimRight(s.BaseURL, "/") == strings.TrimRight(wanted.BaseURL, "/") && (s.UpstreamModel == m.ID || s.UpstreamModel == "" && s.Name == m.ID)
		})
		m.ID = web.CutText(m.ID, 256)
	}
	return models, adapter, nil
}

// guessService guesses by its name what a model is for.
func guessService(model string) schema.ServiceType {
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
