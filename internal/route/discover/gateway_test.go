package discover_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// shelf is a simulated backend whose list of models a test decides.
type shelf struct {
	*httptest.Server
	backend *simulator.Backend
	tags    atomic.Pointer[string] // the answer to /api/tags; nil fails
	loads   atomic.Int64           // calls of paths that load a model
}

func startShelf(t *testing.T, models ...string) *shelf {
	t.Helper()
	s := &shelf{backend: gatewaytest.StartBackend(t)}
	s.put(models...)
	behind, err := url.Parse(s.backend.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path != "/api/show" {
			s.loads.Add(1)
		}
		if r.URL.Path != "/api/tags" {
			proxy.ServeHTTP(w, r)
			return
		}
		list := s.tags.Load()
		if list == nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write([]byte(*list))
	}))
	t.Cleanup(s.Close)
	return s
}

// put makes these the models of the backend.
func (s *shelf) put(models ...string) {
	list := []string{}
	for _, model := range models {
		list = append(list, fmt.Sprintf(`{"name":%q,"details":{"family":"llama"}}`, model))
	}
	s.answer(`{"models":[` + strings.Join(list, ",") + `]}`)
}

func (s *shelf) answer(list string) { s.tags.Store(&list) }

// shelfYAML lets the chat service discover, and read the list often.
func shelfYAML(s *shelf, more string) string {
	return fmt.Sprintf("services: {chat: {health-check: {interval: 300ms}, instances: [{base-url: %q, adapter: ollama, %s}]}}\n", s.URL, more)
}

func has(r *gatewaytest.Gateway, want ...string) func() bool {
	return func() bool { return slices.Equal(r.Models(), want) }
}

func chatWith(model string) string {
	return `{"model":"` + model + `",` + gatewaytest.SomeMessages + `}`
}

// The models of a backend are there when the gateway answers, and follow its list without
// a version for each change.
func TestModelsFollowTheListOfTheBackend(t *testing.T) {
	t.Parallel()
	s := startShelf(t, "qwen2.5:7b", "llama3.2:latest")
	r := gatewaytest.Start(t, shelfYAML(s, "models: discover"))
	if !has(r, "llama3.2", "qwen2.5:7b")() {
		t.Fatalf("at the start: %v", r.Models())
	}
	if s.loads.Load() != 0 {
		t.Error("a model was called")
	}
	r.Chat(chatWith("qwen2.5:7b")).Succeeds(t)
	before := r.Instances("qwen2.5:7b")[0]
	s.put("qwen2.5:7b", "phi4")
	gatewaytest.Eventually(t, "the list is followed", has(r, "phi4", "qwen2.5:7b"))
	r.Chat(chatWith("phi4")).Succeeds(t)
	r.Chat(chatWith("llama3.2")).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	// What lives of a model that stays lives on.
	if after := r.Instances("qwen2.5:7b")[0]; after == before || after.State != before.State || after.Calls() != 1 {
		t.Error("the state of a model that stayed was lost")
	}
	if version := r.Control.Version(); version != 1 {
		t.Errorf("version %d: what is found makes versions", version)
	}
	// A backend that cannot be asked keeps its models.
	s.tags.Store(nil)
	gatewaytest.Eventually(t, "the failure is shown", func() bool {
		return strings.Contains(r.API(http.MethodGet, "/api/config/instance/info/chat?modelName=*&baseUrl="+s.URL, "").Body, `"error":"GET /api/tags`)
	})
	r.Chat(chatWith("phi4")).Succeeds(t)
	s.put("back")
	gatewaytest.Eventually(t, "the list is read again", has(r, "back"))
}

// Ollama lists name:latest and takes both names: the model is listed once, under the shorter
// one, and requests reach it under both.
func TestAModelWithTheTagLatestIsReachedUnderBothNames(t *testing.T) {
	t.Parallel()
	s := startShelf(t, "llama3.2:latest", "hf.co/org/phi:latest", "qwen2.5:7b")
	r := gatewaytest.Start(t, strings.Replace(shelfYAML(s, "models: discover"), "{chat: {",
		`{chat: {aliases: {fast: "llama3.2:latest"}, fallbacks: {"llama3.2:latest": ["qwen2.5:7b"]}, `, 1))
	if !has(r, "fast", "hf.co/org/phi", "llama3.2", "qwen2.5:7b")() {
		t.Fatalf("listed are %v", r.Models())
	}
	for _, model := range []string{"llama3.2", "llama3.2:latest", "fast", "hf.co/org/phi:latest"} {
		served := strings.TrimSuffix(strings.Replace(model, "fast", "llama3.2", 1), ":latest")
		reply := r.Chat(chatWith(model))
		reply.Succeeds(t)
		if name := reply.Header.Get("X-Router-Model"); name != "" && name != served || name == "" && model != served {
			t.Errorf("%s: served by %q", model, name)
		}
		if !strings.Contains(reply.Body, `"model":"`+model+`"`) {
			t.Errorf("%s: the reply names another model: %s", model, reply.Body)
		}
		r.API(http.MethodGet, "/api/route/explain?service=chat&model="+model, "").Is(t, 200, `"pick":"`+served+"@"+s.URL)
	}
	if n := r.Instances("llama3.2")[0].Calls(); n != 3 {
		t.Errorf("%d of 3 calls are counted for the one model", n)
	}
	if one := r.Do(http.MethodGet, "/v1/models/llama3.2:latest", ""); one.Status != 200 || !strings.Contains(one.Body, `"id":"llama3.2"`) {
		t.Errorf("the model by its longer name: %d %s", one.Status, one.Body)
	}
	// Other tags are other models, and so is the tag of one that has another.
	for _, model := range []string{"llama3.2:1b", "qwen2.5:latest", "qwen2.5:7b:latest", "fast:latest"} {
		r.Chat(chatWith(model)).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	}
	// Its fallbacks take over under all its names.
	r.Instances("llama3.2")[0].Breaker.Force(breaker.ForcedOpen, breaker.Hold{By: "test"}, time.Now())
	for _, model := range []string{"llama3.2", "llama3.2:latest", "fast"} {
		reply := r.Chat(chatWith(model))
		reply.Succeeds(t)
		if name := reply.Header.Get("X-Router-Model"); name != "qwen2.5:7b" {
			t.Errorf("%s: %q took over", model, name)
		}
	}
}

func TestFoundModelsAreVisibleAndManaged(t *testing.T) {
	t.Parallel()
	s := startShelf(t, "qwen2.5:7b", "qwen3", "phi4")
	r := gatewaytest.Start(t, shelfYAML(s, `models: ["qwen*"], max-concurrency: 3`))
	id := "qwen3@" + s.URL
	r.API(http.MethodGet, "/api/route/explain?service=chat&model=qwen3", "").Is(t, 200, `"pick":"`+id+`"`)
	monitored := r.Do(http.MethodGet, "/api/monitoring/instances", "").Body
	if !strings.Contains(monitored, id) || strings.Contains(monitored, "phi4") {
		t.Errorf("monitoring shows %s", monitored)
	}
	r.API(http.MethodGet, "/api/config/type/chat/models", "").Is(t, 200, `["qwen2.5:7b","qwen3"]`)
	r.API(http.MethodGet, "/api/config/instance/info/chat?modelName=*&baseUrl="+s.URL, "").Is(t, 200, `"instanceId":"*@`, `"found":{"models":["qwen2.5:7b","qwen3"],"readAt":"`)
	if r.Instances("qwen3")[0].Settings.MaxConcurrency != 3 || r.Instances("qwen3")[0].Breaker == r.Instances("qwen2.5:7b")[0].Breaker {
		t.Error("found models do not have slots and breakers of their own")
	}
	// Aliases and fallbacks may name models that can be found, and no others.
	const path = "/api/config/type/services/chat"
	r.API(http.MethodPut, path, `{"aliases":{"a":"llama"}}`).Is(t, 400, `aliases[\"a\"]`)
	r.API(http.MethodPut, path, `{"aliases":{"a":"qwen3"},"fallbacks":{"qwen9":["qwen3"]}}`).Is(t, 200)
	r.Chat(chatWith("a")).Succeeds(t)
	if served := r.Chat(chatWith("qwen9")).Succeeds(t).Header.Get("X-Router-Model"); served != "qwen3" {
		t.Errorf("a model that is not there is served by %q", served)
	}
	// The patterns are changed, and a rollback brings them back.
	r.API(http.MethodPut, "/api/config/instance/update/chat", `{"instanceId":"*@`+s.URL+`","instance":{"models":["phi*"]}}`).Is(t, 400, "aliases")
	r.API(http.MethodPut, path, `{"aliases":{},"fallbacks":{}}`).Is(t, 200)
	r.API(http.MethodPut, "/api/config/instance/update/chat", `{"instanceId":"*@`+s.URL+`","instance":{"models":"discover"}}`).Is(t, 200)
	if !has(r, "phi4", "qwen2.5:7b", "qwen3")() {
		t.Errorf("with all models: %v", r.Models())
	}
	r.API(http.MethodPost, "/api/config/version/rollback/1", "").Is(t, 200)
	if !has(r, "qwen2.5:7b", "qwen3")() {
		t.Errorf("after a rollback: %v", r.Models())
	}
	r.API(http.MethodDelete, "/api/config/instance/del/chat?modelName=*&baseUrl="+s.URL, "").Is(t, 200)
	if !has(r)() {
		t.Errorf("after the removal: %v", r.Models())
	}
}

func TestDiscoveryOverTheManagementAPI(t *testing.T) {
	t.Parallel()
	s := startShelf(t, "qwen3")
	r := gatewaytest.Start(t, "")
	add := func(more string) gatewaytest.ManagementReply {
		return r.API(http.MethodPost, "/api/config/instance/add/chat", fmt.Sprintf(`{"baseUrl":%q,"adapter":"ollama",%s}`, s.URL, more))
	}
	add(`"models":["a",""]`).Is(t, 400, "models[1]", "must not be empty")
	add(`"models":["discover","a"]`).Is(t, 400, "models[0]")
	add(`"models":"discover","name":"x"`).Is(t, 400, "name", "left out beside models")
	add(`"models":"discover","upstreamModel":"x"`).Is(t, 400, "upstreamModel")
	add(`"weight":1`).Is(t, 400, "name", "is required")
	r.API(http.MethodPost, "/api/config/instance/test/chat", fmt.Sprintf(`{"instance":{"baseUrl":%q,"adapter":"ollama","models":"discover"}}`, s.URL)).Is(t, 400, "models")
	add(`"models":"discover"`).Is(t, 201, `"instanceId":"*@`)
	add(`"models":["*"]`).Is(t, 400, "exists already")
	gatewaytest.Eventually(t, "the models are found", has(r, "qwen3"))
}

// What is written goes before what is found, and models of another service type are left
// out where the backend tells.
func TestFoundModelsDoNotHideWhatIsWritten(t *testing.T) {
	t.Parallel()
	s := startShelf(t)
	s.answer(`{"models":[
		{"name":"a","details":{"family":"llama"}}, {"name":"b","details":{"family":"llama"}}, {"name":"alias","details":{}},
		{"name":"by-family","details":{"family":"nomic-bert","families":["nomic-bert"]}}, {"name":"mxbai-embed-large:latest"},
		{"name":"by-capability","capabilities":["embedding"]}, {"name":"bge-but-chat","capabilities":["completion","tools"]},
		{"name":"with\u0007bell"}, {"name":"*"}, {"name":" space"}]}`)
	r := gatewaytest.Start(t, fmt.Sprintf(`
services:
  chat:
    adapter: ollama
    aliases: {alias: b}
    instances: [{base-url: %[1]q, models: discover}, {base-url: %[1]q, name: a, weight: 5}]
  embedding:
    adapter: ollama
    instances: [{base-url: %[1]q, models: discover}]
`, s.URL))
	var got []string
	for _, entry := range r.Current.Load().Entries() {
		got = append(got, entry.Service.String()+"/"+entry.ID)
	}
	want := []string{"chat/a", "chat/alias", "chat/b", "chat/bge-but-chat", "embedding/by-capability", "embedding/by-family", "embedding/mxbai-embed-large"}
	if !slices.Equal(got, want) {
		t.Errorf("models %v, want %v", got, want)
	}
	if i := r.Instances("a"); len(i) != 1 || i[0].Settings.Weight != 5 {
		t.Errorf("the instance that is written is not the only one of its model: %d", len(i))
	}
	if r.Current.Load().Service(schema.Chat).Find("alias").Model != "b" {
		t.Error("a model that was found took the place of an alias")
	}
}

func TestFoundModelsAreBounded(t *testing.T) {
	t.Parallel()
	var many []string
	for n := range 240 {
		many = append(many, fmt.Sprintf("m%03d", n))
	}
	s := startShelf(t, many...)
	r := gatewaytest.Start(t, shelfYAML(s, "models: discover"))
	if !has(r, many[:200]...)() {
		t.Errorf("models %v", r.Models())
	}
	if gatewaytest.CountLines(r.Logs.String(), "more models than an instance may find", `"models":240`) != 1 {
		t.Error("nobody is told that models are left out")
	}
}

// A backend that is not there at the start is asked again until it is.
func TestBackendThatComesLaterIsFound(t *testing.T) {
	t.Parallel()
	s := startShelf(t)
	s.tags.Store(nil)
	r := gatewaytest.Start(t, strings.Replace(shelfYAML(s, "models: discover"), "interval: 300ms", "interval: 1h", 1))
	if !has(r)() {
		t.Errorf("models %v", r.Models())
	}
	s.put("late")
	gatewaytest.Eventually(t, "its models are found", has(r, "late"))
}

// The configuration that both READMEs show for a laptop serves all models of its Ollama, those for
// embeddings too.
func TestFourLinesServeALaptop(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		readme, err := os.ReadFile("../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		block := regexp.MustCompile("(?s)```yaml\n([^`]*models: discover[^`]*)```").FindSubmatch(readme)
		if block == nil {
			t.Fatalf("%s has no configuration with models: discover", page)
		}
		if lines := strings.Count(string(block[1]), "\n"); lines > 4 {
			t.Errorf("%s: the configuration has %d lines", page, lines)
		}
		s := startShelf(t, "qwen2.5:7b", "llama3.2:latest", "phi4:14b", "nomic-embed-text:latest")
		yaml := strings.ReplaceAll(string(block[1]), "http://127.0.0.1:11434", s.URL)
		r := gatewaytest.Start(t, yaml)
		gatewaytest.Eventually(t, page+" serves all models", has(r, "llama3.2", "nomic-embed-text", "phi4:14b", "qwen2.5:7b"))
		for _, model := range []string{"llama3.2", "phi4:14b", "qwen2.5:7b"} {
			r.Chat(chatWith(model)).Succeeds(t)
		}
	}
}

// Where an instance finds no model, the log says whether its backend has none or its patterns
// match none, also when that is so from the start.
func TestTheLogSaysWhyNoModelIsFound(t *testing.T) {
	t.Parallel()
	for models, want := range map[string]string{"discover": "a backend lists no models", "[phi*]": "no model that the patterns"} {
		s := startShelf(t)
		if models != "discover" {
			s.put("qwen2.5:7b")
		}
		r := gatewaytest.Start(t, shelfYAML(s, "models: "+models))
		gatewaytest.Eventually(t, "the log says why", func() bool { return gatewaytest.CountLines(r.Logs.String(), want, s.URL) == 1 })
	}
}

// With a pattern as its name, an instance serves each found model under that name, and the
// backend gets its own. Two backends that list the same model stay apart.
func TestFoundModelsHaveTheNamesOfAPattern(t *testing.T) {
	t.Parallel()
	s, other := startShelf(t, "llama3.2:latest", "phi4:14b"), startShelf(t, "phi4:14b")
	r := gatewaytest.Start(t, fmt.Sprintf(`
services:
  chat:
    aliases: { small: "home/phi4:14b" }
    fallbacks: { "home/llama3.2": ["away/phi4:14b"] }
    instances:
      - { name: "home/*", models: discover, base-url: %q, adapter: ollama }
      - { name: "away/*", models: ["phi*"], base-url: %q, adapter: ollama }
`, s.URL, other.URL))
	if !has(r, "away/phi4:14b", "home/llama3.2", "home/phi4:14b", "small")() {
		t.Fatalf("listed are %v", r.Models())
	}
	for _, model := range []string{"home/phi4:14b", "small", "home/llama3.2:latest"} {
		r.Chat(chatWith(model)).Succeeds(t)
	}
	if got := s.backend.Requests()[0].Body; !strings.Contains(string(got), `"model":"phi4:14b"`) || other.loads.Load() != 0 {
		t.Errorf("home was sent %s, away got %d calls", got, other.loads.Load())
	}
	r.Chat(chatWith("phi4:14b")).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	info := r.API(http.MethodGet, "/api/config/instance/info/chat?modelName=home/*&baseUrl="+s.URL, "").Body
	if !strings.Contains(info, `"models":["home/llama3.2","home/phi4:14b"]`) {
		t.Error(info)
	}
}

// Anthropic lists models with the day of their release, and takes their names without it.
func TestTheDayOfAModelMayBeLeftOut(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	behind, err := url.Parse(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			_, _ = w.Write([]byte(`{"data":[{"id":"claude-opus-4-20250514"},{"id":"claude-sonnet-4-5-20250101"},{"id":"claude-sonnet-4-5-20250929"},{"id":"claude-plain"}]}`))
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	r := gatewaytest.Start(t, fmt.Sprintf("services: {chat: {aliases: {'anthropic/*': '*'}, instances: [{base-url: %q, adapter: anthropic, models: discover}]}}\n", server.URL))
	if len(r.Models()) != 4 {
		t.Errorf("listed are %v", r.Models())
	}
	for asked, want := range map[string]string{
		"claude-sonnet-4-5": "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5": "claude-sonnet-4-5-20250929",
		"claude-sonnet-4-5-20250101": "claude-sonnet-4-5-20250101", "claude-opus-4-0": "claude-opus-4-20250514",
		"claude-opus-4-latest": "claude-opus-4-20250514", "claude-plain": "claude-plain",
	} {
		r.Chat(chatWith(asked)).Succeeds(t)
		requests := b.Requests()
		if got := string(requests[len(requests)-1].Body); !strings.Contains(got, `"model":"`+want+`"`) {
			t.Errorf("%s was sent as %s", asked, got)
		}
	}
	r.Chat(chatWith("claude-opus")).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
}
