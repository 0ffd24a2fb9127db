package discover_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
)

// llama is a llama.cpp server as it looks to somebody who asks for its models: it calls
// every model a chat model, and refuses what it was not started for with 501.
type llama struct {
	model    string // several are separated by commas
	serves   string // the paths that it was started for
	role     string
	sleeping atomic.Bool
	posts    atomic.Int64
}

func (l *llama) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	switch {
	case r.URL.Path == "/v1/models":
		var models, data []string
		for model := range strings.SplitSeq(l.model, ",") {
			models = append(models, fmt.Sprintf(`{"name":%q,"model":%[1]q,"capabilities":["completion"],"details":{"family":"","families":[""]}}`, model))
			data = append(data, fmt.Sprintf(`{"id":%q,"object":"model","owned_by":"llamacpp"}`, model))
		}
		fmt.Fprintf(w, `{"models":[%s],"object":"list","data":[%s]}`, strings.Join(models, ","), strings.Join(data, ","))
	case r.URL.Path == "/props":
		fmt.Fprintf(w, `{"role":%q,"model_alias":%q,"is_sleeping":%t}`, l.role, l.model, l.sleeping.Load())
	case r.Method == http.MethodPost:
		l.posts.Add(1)
		status, kind := http.StatusNotImplemented, "not_supported_error"
		if strings.Contains(l.serves, r.URL.Path) {
			status, kind = http.StatusBadRequest, "invalid_request_error"
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"code":%d,"message":"no","type":%q}}`, status, kind)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestWhatALlamaServerIsForIsFoundOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server *llama
		want   []schema.ServiceType
		posts  int64
	}{
		"chat":                      {&llama{model: "plain.gguf"}, []schema.ServiceType{schema.Chat}, 2},
		"chat, by another name":     {&llama{model: "bge-chat.gguf"}, []schema.ServiceType{schema.Chat}, 2},
		"embeddings":                {&llama{model: "plain.gguf", serves: "/v1/embeddings"}, []schema.ServiceType{schema.Embedding}, 2},
		"rerank":                    {&llama{model: "plain.gguf", serves: "/v1/embeddings /v1/rerank"}, []schema.ServiceType{schema.Rerank}, 1},
		"several models":            {&llama{model: "a.gguf,b-embed.gguf", serves: "/v1/rerank"}, []schema.ServiceType{schema.Chat, schema.Embedding}, 0},
		"one of several, by a name": {&llama{model: "nomic-embed.gguf", role: "router"}, []schema.ServiceType{schema.Embedding}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(test.server)
			defer server.Close()
			for _, adapter := range []string{"", "llamacpp", "openai"} {
				test.server.posts.Store(0)
				found, err := discover.Ask(t.Context(), directly(t), discover.Backend{BaseURL: server.URL + "/v1", Adapter: adapter})
				if err != nil {
					t.Fatal(err)
				}
				var got []schema.ServiceType
				for _, model := range found.Models {
					got = append(got, model.ServiceType)
				}
				if !slices.Equal(got, test.want) || test.server.posts.Load() != test.posts {
					t.Errorf("adapter %q: %v after %d calls, want %v after %d", adapter, got, test.server.posts.Load(), test.want, test.posts)
				}
			}
		})
	}
}

// A server that sleeps would load its model to answer, so it is not asked; what it told
// before it slept stays.
func TestALlamaServerThatSleepsIsNotWoken(t *testing.T) {
	t.Parallel()
	l := &llama{model: "plain.gguf", serves: "/v1/embeddings"}
	server := httptest.NewServer(l)
	defer server.Close()
	r := gatewaytest.Start(t, fmt.Sprintf("services: {embedding: {health-check: {interval: 100ms}, instances: [{base-url: %q, adapter: llamacpp, models: discover}]}}\n", server.URL))
	gatewaytest.Eventually(t, "its model is found", has(r, "plain")) // the first answer may come too late for the start
	l.sleeping.Store(true)
	asked := l.posts.Load()
	const info = "/api/config/instance/info/embedding?modelName=*&baseUrl="
	before := r.API(http.MethodGet, info+server.URL, "").Body
	gatewaytest.Eventually(t, "it is asked again", func() bool { return r.API(http.MethodGet, info+server.URL, "").Body != before })
	if !has(r, "plain")() || l.posts.Load() != asked {
		t.Errorf("models %v, %d calls while it slept", r.Models(), l.posts.Load()-asked)
	}
}

// An instance in the wrong service type has nothing to serve. Callers and operators are told
// so, and not that nothing is configured.
func TestBackendsWithoutModelsOfTheServiceTypeAreTold(t *testing.T) {
	t.Parallel()
	l := &llama{model: "plain.gguf"}
	server := httptest.NewServer(l)
	defer server.Close()
	r := gatewaytest.Start(t, fmt.Sprintf("services: {embedding: {instances: [{base-url: %q, adapter: llamacpp, models: discover}]}}\n", server.URL))
	reply := r.Do(http.MethodPost, "/v1/embeddings", `{"model":"plain.gguf","input":"x"}`)
	if reply.Status != 503 || strings.Contains(reply.Body, "No instances are configured") || !strings.Contains(reply.Body, "have found none") {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	if gatewaytest.CountLines(r.Logs.String(), "no models of the service type", `"others":"plain.gguf (chat)"`) != 1 {
		t.Errorf("the log says nothing of it:\n%s", r.Logs.String())
	}
}

// TestModelsOfLlamaHaveShortNames finds models that llama.cpp calls by their files. The long
// names stay good: in requests, aliases, fallbacks, prices and keys.
func TestModelsOfLlamaHaveShortNames(t *testing.T) {
	t.Parallel()
	const long, other = "/models/Qwen2.5-7B-Instruct-Q4_K_M.gguf", "/models/phi-4.gguf"
	const short = "Qwen2.5-7B-Instruct-Q4_K_M"
	b := gatewaytest.StartBackend(t)
	behind, err := url.Parse(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	var called atomic.Value // the model of the latest call
	lists, calls := &llama{model: long + "," + other, role: "router"}, httputil.NewSingleHostReverseProxy(behind)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" {
			body, _ := io.ReadAll(r.Body)
			called.Store(fmt.Sprint(gatewaytest.DecodeObject(t, string(body))["model"]))
			r.Body = io.NopCloser(bytes.NewReader(body))
			calls.ServeHTTP(w, r)
			return
		}
		lists.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	instance := fmt.Sprintf("{base-url: %q, adapter: llamacpp, models: %%s}", server.URL)
	services := "{chat: {aliases: {quick: %q}, fallbacks: {%q: [%q]}, instances: [" + instance + "]}}"
	r := gatewaytest.Start(t, fmt.Sprintf(`
security: {enabled: true, keys: [{id: a, key-sha256: %s}, {id: long, models: [%q], key-sha256: %s}], tokens: [{name: a, role: ADMIN, token-sha256: %s}]}
prices: {models: [{model: "*", input: 1}, {model: %q, input: 50}]}
quota: {enabled: true}
services: `+services, gatewaytest.HashOf("key-a"), long, gatewaytest.HashOf("key-long"), gatewaytest.HashOf("token"), long, long, long, other, "discover"))
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	listed := r.Do(http.MethodGet, "/v1/models", "", as("key-a")...).Succeeds(t).Body
	for name, want := range map[string]bool{short: true, "phi-4": true, "quick": true, long: false} {
		if strings.Contains(listed, `"id":"`+name+`"`) != want {
			t.Errorf("%s is listed: %t: %s", name, !want, listed)
		}
	}
	for _, model := range []string{short, long, "quick"} {
		reply := r.Chat(chatWith(model), as("key-a")...).Succeeds(t)
		if called, _ := called.Load().(string); !strings.Contains(reply.Body, `"model":"`+model+`"`) || called != long {
			t.Errorf("%s: %s, called with %s", model, reply.Body, called)
		}
	}
	for _, pool := range r.Current.Load().Pools() {
		if pool.Model == short && (pool.Price == nil || pool.Price.Input.String() != "50") {
			t.Errorf("the price of the long name is not in force: %+v", pool.Price)
		}
	}
	r.Do(http.MethodGet, "/v1/models/"+url.PathEscape(long), "", as("key-a")...).Succeeds(t)
	r.Chat(chatWith(long), as("key-long")...).Succeeds(t)
	r.Chat(chatWith("phi-4"), as("key-long")...).FailsWith(t, 403, "permission_error", "permission_denied", "")
}
