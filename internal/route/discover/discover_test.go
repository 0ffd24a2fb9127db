package discover_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/config/direct"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
)

// backendWith starts a backend that has these lists and wants this key.
func backendWith(t *testing.T, key string, lists map[string]string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, has := lists[r.URL.Path]
		switch {
		case key != "" && r.Header.Get("Authorization") != "Bearer "+key:
			w.WriteHeader(http.StatusUnauthorized)
		case !has:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = w.Write([]byte(list))
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func directly(t *testing.T) discover.Send {
	t.Helper()
	client := transport.New(transport.Options{})
	t.Cleanup(client.Close)
	return direct.Send(client)
}

func TestKindsAreRecognisedByTheirLists(t *testing.T) {
	for name, test := range map[string]struct {
		lists   map[string]string
		adapter string
		models  []discover.Model
	}{
		"Ollama": {
			map[string]string{"/api/tags": `{"models":[{"name":"qwen2.5:7b"},{"name":"nomic-embed-text:latest"}]}`},
			"ollama", []discover.Model{{ID: "qwen2.5:7b", ServiceType: schema.Chat}, {ID: "nomic-embed-text", ServiceType: schema.Embedding}},
		},
		"vLLM": {
			map[string]string{"/v1/models": `{"object":"list","data":[{"id":"meta/llama","owned_by":"vllm"}]}`},
			"vllm", []discover.Model{{ID: "meta/llama", ServiceType: schema.Chat}},
		},
		"llama.cpp": {
			map[string]string{"/v1/models": `{"models":[{"name":"x.gguf"}],"data":[{"id":"x.gguf","owned_by":"llamacpp"}]}`},
			"llamacpp", []discover.Model{{ID: "x.gguf", Name: "x", ServiceType: schema.Chat}},
		},
		"any other": {
			map[string]string{"/v1/models": `{"data":[{"id":"tts-1","owned_by":"system"},{"id":"bge-reranker"}]}`},
			"openai", []discover.Model{{ID: "tts-1", ServiceType: schema.TTS}, {ID: "bge-reranker", ServiceType: schema.Rerank}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := backendWith(t, "", test.lists)
			for _, suffix := range []string{"", "/", "/v1"} {
				if suffix == "/v1" && test.adapter == "ollama" {
					continue
				}
				found, err := discover.Ask(t.Context(), directly(t), discover.Backend{BaseURL: server.URL + suffix})
				if err != nil {
					t.Fatal(err)
				}
				if found.Adapter != test.adapter || !slices.Equal(found.Models, test.models) {
					t.Errorf("%q: %+v", suffix, found)
				}
			}
		})
	}
}

func TestWhatWasTriedInVainIsTold(t *testing.T) {
	server := backendWith(t, "secret", map[string]string{"/v1/models": `{"data":[]}`})
	found, err := discover.Ask(t.Context(), directly(t), discover.Backend{BaseURL: server.URL})
	if err != nil || found.Adapter != "" || len(found.Errors) != 2 || !strings.Contains(found.Errors[1].String(), "wants a key") {
		t.Errorf("%+v %v", found, err)
	}
	found, err = discover.Ask(t.Context(), directly(t), discover.Backend{BaseURL: server.URL, APIKey: backend.Literal("wrong")})
	if err != nil || len(found.Errors) != 2 || !strings.Contains(found.Errors[1].String(), "wants another key") {
		t.Errorf("with a wrong key: got %+v %v", found, err)
	}
	found, err = discover.Ask(t.Context(), directly(t), discover.Backend{BaseURL: server.URL, APIKey: backend.Literal("secret")})
	if err != nil || found.Adapter != "openai" || len(found.Models) != 0 {
		t.Errorf("%+v %v", found, err)
	}
}

func TestBadBackendsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	send := func(context.Context, schema.ServiceType, backend.Settings, string) (int, []byte, error) {
		t.Error("something was sent")
		return 0, nil, nil
	}
	var field *discover.BackendError
	if _, err := discover.Ask(t.Context(), send, discover.Backend{BaseURL: "http://x", Adapter: "nothing"}); !errors.As(err, &field) || field.Field != "adapter" {
		t.Error(err)
	}
	_, err := discover.Ask(t.Context(), directly(t), discover.Backend{BaseURL: "ftp://x"})
	if !errors.Is(err, discover.ErrRefused) || !strings.Contains(err.Error(), "base-url must begin with http") {
		t.Error(err)
	}
}

func TestServiceTypesAreGuessedByNames(t *testing.T) {
	got := map[string]string{}
	for _, name := range []string{"gpt-4o", "text-embedding-3-small", "bge-reranker-v2", "whisper-1", "gpt-4o-mini-tts", "dall-e-3", "qwen-image-edit"} {
		got[name] = discover.GuessService(name).String()
	}
	if diff := cmp.Diff(map[string]string{
		"gpt-4o": "chat", "text-embedding-3-small": "embedding", "bge-reranker-v2": "rerank", "whisper-1": "stt",
		"gpt-4o-mini-tts": "tts", "dall-e-3": "imgGen", "qwen-image-edit": "imgEdit",
	}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDeploymentsAreNotDiscovered(t *testing.T) {
	_, err := discover.Ask(t.Context(), directly(t), discover.Backend{BaseURL: "http://127.0.0.1:1", Adapter: "azure"})
	var fault *discover.BackendError
	if !errors.As(err, &fault) || fault.Field != "adapter" || !strings.Contains(err.Error(), "deployments") {
		t.Errorf("error %v", err)
	}
}
