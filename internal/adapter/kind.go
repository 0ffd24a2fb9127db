package adapter

import (
	"fmt"
	"net/url"
	"sort"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Kind is one kind of backend: the dialect it speaks and how it differs from
// others of the same dialect, as data.
type Kind struct {
	// Name is what people write in the configuration; Aliases are read as well.
	Name    string
	Aliases []string
	// TypeName is how the model list names the adapter.
	TypeName string
	// Paths holds the default path for each service type that the kind supports.
	Paths map[schema.ServiceType]string

	speak Adapter
}

// kinds is the table of everything that can stand behind an instance.
var kinds = []*Kind{
	{
		Name:     "openai",
		Aliases:  []string{"normal"},
		TypeName: "OpenAIAdapter",
		Paths: map[schema.ServiceType]string{
			schema.Chat:      "/v1/chat/completions",
			schema.Embedding: "/v1/embeddings",
			schema.Rerank:    "/v1/rerank",
			schema.TTS:       "/v1/audio/speech",
			schema.STT:       "/v1/audio/transcriptions",
			schema.ImgGen:    "/v1/images/generations",
			schema.ImgEdit:   "/v1/images/edits",
		},
		speak: openAI{},
	},
}

// Lookup finds a kind by its name or an alias, in any spelling.
func Lookup(name string) (*Kind, error) {
	folded := schema.Fold(name)
	for _, k := range kinds {
		if schema.Fold(k.Name) == folded {
			return k, nil
		}
		for _, alias := range k.Aliases {
			if schema.Fold(alias) == folded {
				return k, nil
			}
		}
	}
	return nil, fmt.Errorf("unknown adapter %q (known: %s)", name, strings.Join(names(nil), ", "))
}

// Check reports whether an adapter exists and can serve a service type.
func Check(name string, service schema.ServiceType) error {
	k, err := Lookup(name)
	if err != nil {
		return err
	}
	if _, ok := k.Paths[service]; !ok {
		return fmt.Errorf("adapter %q cannot serve %s (can: %s)", name, service, strings.Join(names(&service), ", "))
	}
	return nil
}

// names lists the kinds, or those that serve one service type.
func names(service *schema.ServiceType) []string {
	var list []string
	for _, k := range kinds {
		if service != nil {
			if _, ok := k.Paths[*service]; !ok {
				continue
			}
		}
		list = append(list, k.Name)
	}
	sort.Strings(list)
	return list
}

// Speak returns the kind's dialect.
func (k *Kind) Speak() Adapter { return k.speak }

// Endpoint is what an adapter needs to know of an instance.
type Endpoint struct {
	BaseURL              string
	Path                 string
	APIKey               string
	Model                string // the backend's name for the model; empty = the caller's
	Headers              map[string]string
	ForwardAuthorization bool
}

// Target is an Endpoint made ready for calls: all that can be known of them
// before a request comes.
type Target struct {
	Path                 string
	Header               []Header
	ForwardAuthorization bool
	// Model is the backend's name for the model as JSON, nil for the caller's.
	Model []byte

	secrets []string
}

// Target prepares the calls of one service type to an endpoint.
func (k *Kind) Target(service schema.ServiceType, e Endpoint) (*Target, error) {
	base, err := url.Parse(e.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base address: %w", err)
	}
	t := &Target{
		Path:                 joinPath(base.EscapedPath(), e.Path, k.Paths[service]),
		ForwardAuthorization: e.ForwardAuthorization,
		secrets:              []string{e.BaseURL, base.Host},
	}
	if e.Model != "" {
		t.Model = quote(e.Model)
	}
	t.Header = append(t.Header, Header{"Content-Type", "application/json"})
	own := map[string]bool{}
	for _, name := range sortedKeys(e.Headers) {
		own[strings.ToLower(name)] = true
		t.Header = append(t.Header, Header{name, e.Headers[name]})
		t.secrets = append(t.secrets, e.Headers[name])
	}
	if e.APIKey != "" {
		t.secrets = append(t.secrets, e.APIKey)
		if !own["authorization"] {
			t.Header = append(t.Header, Header{"Authorization", "Bearer " + e.APIKey})
		}
	}
	return t, nil
}

// joinPath joins the path of a base address with the instance's own path or,
// where there is none, with the kind's default, whose version is not doubled.
func joinPath(base, own, fallback string) string {
	base = strings.TrimSuffix(base, "/")
	if own != "" {
		return base + own
	}
	version, rest, _ := strings.Cut(strings.TrimPrefix(fallback, "/"), "/")
	if strings.HasSuffix(base, "/"+version) {
		return base + "/" + rest
	}
	return base + fallback
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
