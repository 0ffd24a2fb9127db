package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const cacheOn = "answer-cache: {services: [chat, embedding, rerank]}\n"

// cacheIs fails unless the reply says that the cache did this.
func cacheIs(t *testing.T, reply gatewaytest.Reply, want string) gatewaytest.Reply {
	t.Helper()
	reply.Succeeds(t)
	if got := reply.Header.Get("X-Router-Cache"); got != want {
		t.Errorf("x-router-cache %q, want %q: %s", got, want, reply.Body)
	}
	return reply
}

// cold is a request whose answer can be kept.
func cold(content string) string {
	return `{"model":"m","temperature":0,"messages":[{"role":"user","content":"` + content + `"}]}`
}

// Every door either answers the same request from the cache, as it was answered before, or
// says that it is none whose answer is kept.
func TestWhichRequestsAreAnsweredFromTheCache(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services:\n"+
		"  chat: {instances: [{name: m, base-url: \""+b.URL()+"\"}, {name: ollama, adapter: ollama, base-url: \""+b.URL()+"\"}, {name: claude, adapter: anthropic, base-url: \""+b.URL()+"\"}]}\n"+
		"  embedding: {instances: [{name: m, base-url: \""+b.URL()+"\"}]}\n"+
		"  rerank: {instances: [{name: m, adapter: jina, base-url: \""+b.URL()+"\"}]}\n"+
		"  tts: {instances: [{name: m, base-url: \""+b.URL()+"\"}]}\n"+cacheOn)
	hi := `"messages":[{"role":"user","content":"hi"}]`
	for _, row := range []struct {
		path, body string
		kept       bool
	}{
		{"/v1/chat/completions", `{"model":"m","temperature":0,` + hi + `}`, true},
		{"/v1/chat/completions", `{"model":"m","temperature":0.0,"stream":true,` + hi + `}`, true},
		{"/v1/chat/completions", `{"model":"m","temperature":0,"stream":true,"stream_options":{"include_usage":true},` + hi + `}`, true},
		{"/v1/chat/completions", `{"model":"ollama","temperature":0,"stream":true,` + hi + `}`, true},
		{"/v1/chat/completions", `{"model":"m","temperature":0.1,` + hi + `}`, false},
		{"/v1/chat/completions", `{"model":"m",` + hi + `}`, false},
		{"/v1/chat/completions", `{"model":"m","temperature":0,"store":true,` + hi + `}`, false},
		{"/v1/completions", `{"model":"m","temperature":0,"prompt":"hi"}`, true},
		{"/v1/completions", `{"model":"m","temperature":0,"stream":true,"prompt":"hi"}`, true},
		{"/v1/completions", `{"model":"m","prompt":"hi"}`, false},
		{"/v1/messages", `{"model":"claude","temperature":0,"max_tokens":9,` + hi + `}`, true},
		{"/v1/messages", `{"model":"claude","temperature":0,"max_tokens":9,"stream":true,` + hi + `}`, true},
		{"/v1/messages", `{"model":"m","temperature":0,"max_tokens":9,"stream":true,` + hi + `}`, true},
		{"/v1/messages", `{"model":"claude","max_tokens":9,` + hi + `}`, false},
		{"/v1/responses", `{"model":"m","temperature":0,"store":false,"input":"hi"}`, true},
		{"/v1/responses", `{"model":"m","temperature":0,"store":false,"stream":true,"input":"hi"}`, true},
		{"/v1/responses", `{"model":"m","temperature":0,"input":"hi"}`, false},
		{"/v1/responses", `{"model":"m","store":false,"input":"hi"}`, false},
		{"/v1/moderations", `{"model":"m","input":"hi"}`, false},
		{"/v1/embeddings", `{"model":"m","input":["hi","ho"]}`, true},
		{"/v1/embeddings", `{"model":"m","input":"hi","encoding_format":"base64"}`, true},
		{"/v1/rerank", `{"model":"m","query":"hi","documents":["a","b"]}`, true},
	} {
		name := row.path + " " + row.body
		first, second := r.Do("POST", row.path, row.body), r.Do("POST", row.path, row.body)
		if !row.kept {
			cacheIs(t, first, "bypass")
			cacheIs(t, second, "bypass")
			cacheIs(t, r.Do("POST", row.path, row.body, "Cache-Control", "no-store"), "bypass")
			continue
		}
		cacheIs(t, first, "miss")
		cacheIs(t, second, "hit")
		if first.Body != second.Body || first.Header.Get("Content-Type") != second.Header.Get("Content-Type") || first.Header.Get("Content-Length") != second.Header.Get("Content-Length") {
			t.Errorf("%s: another answer:\n%v %s\n%v %s", name, first.Header, first.Body, second.Header, second.Body)
		}
		if got := second.Header; got.Get("X-Router-Attempts") != "0" || got.Get("X-Router-Instance") != "" {
			t.Errorf("%s: headers of a hit: %v", name, got)
		}
		cacheIs(t, r.Do("POST", row.path, row.body, "Cache-Control", "No-Store"), "bypass")
	}
	cacheIs(t, r.Do("POST", "/v1/audio/speech", `{"model":"m","input":"hi","voice":"a"}`), "")
}

// The order of members and the spaces between them do not matter, everything else does.
func TestWhatAnAnswerDependsOn(t *testing.T) {
	t.Parallel()
	a := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("aliases: {n: m}", gatewaytest.Instance("m", a.URL()))+cacheOn)
	cacheIs(t, r.Chat(cold("1")), "miss")
	cacheIs(t, r.Chat(` { "messages" : [ {"content":"1", "role":"user"} ], "temperature":0 , "model":"m" } `), "hit")
	for _, other := range []string{
		cold("2"), cold("1 "), `{"model":"m","temperature":0,"seed":1,"messages":[{"role":"user","content":"1"}]}`,
		`{"model":"m","temperature":0,"seed":9007199254740992,"messages":[{"role":"user","content":"1"}]}`,
		`{"model":"m","temperature":0,"seed":9007199254740993,"messages":[{"role":"user","content":"1"}]}`,
		`{"model":"m","temperature":0,"messages":[{"role":"user","content":"1"},{"role":"user","content":"1"}]}`,
		`{"model":"m","temperature":0,"stop":["1","2"],"messages":[{"role":"user","content":"1"}]}`,
		`{"model":"m","temperature":0,"stop":["2","1"],"messages":[{"role":"user","content":"1"}]}`,
		`{"model":"n","temperature":0,"messages":[{"role":"user","content":"1"}]}`,
		`{"model":"m","temperature":0,"messages":[{"role":"user","content":[{"type":"text","text":"1"}]}]}`,
		`{"model":"m","temperature":0,"messages":[{"role":"user","content":[{"type":"text","text":"2"}]}]}`,
		`{"model":"m","temperature":0,"messages":[{"role":"user","content":"1"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":{"b":1}}}}]}`,
		`{"model":"m","temperature":0,"messages":[{"role":"user","content":"1"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":{"b":2}}}}]}`,
	} {
		cacheIs(t, r.Chat(other), "miss")
		reply := cacheIs(t, r.Chat(other), "hit")
		if strings.Contains(other, `"n"`) && (!strings.Contains(reply.Body, `"model":"n"`) || reply.Header.Get("X-Router-Model") != "m") {
			t.Errorf("the answer under an alias: %v %s", reply.Header, reply.Body)
		}
	}
}

// No tenant sees the answer of another one, and keys without a tenant none of each other.
func TestTenantsDoNotSeeTheAnswersOfOthers(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	open := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))+cacheOn)
	for _, headers := range [][]string{nil, {"X-Tenant-Id", "a"}, {"X-Tenant-Id", "b"}} {
		cacheIs(t, open.Chat(cold("1"), headers...), "miss")
		cacheIs(t, open.Chat(cold("1"), headers...), "hit")
	}
	keys := "security: {enabled: true, keys: ["
	for _, key := range [][2]string{{"a1", "a"}, {"a2", "a"}, {"b", "b"}, {"c", ""}, {"a", ""}} {
		keys += fmt.Sprintf("{id: %s, tenant: %q, key-sha256: %s},", key[0], key[1], gatewaytest.HashOf("key-"+key[0]))
	}
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))+cacheOn+keys+"]}\n")
	as := func(key string) gatewaytest.Reply { return r.Chat(cold("1"), "Authorization", "Bearer key-"+key) }
	for _, row := range [][2]string{{"a1", "miss"}, {"a2", "hit"}, {"b", "miss"}, {"c", "miss"}, {"a", "miss"}, {"c", "hit"}, {"b", "hit"}, {"a1", "hit"}} {
		cacheIs(t, as(row[0]), row[1])
	}
}

// A key can have a cache where its service type has none.
func TestTheCacheOfAKey(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))+"answer-cache: {keys: [a]}\nsecurity: {enabled: true, keys: [{id: a, key-sha256: "+
		gatewaytest.HashOf("key-a")+"}, {id: b, key-sha256: "+gatewaytest.HashOf("key-b")+"}]}\n")
	for _, want := range []string{"miss", "hit"} {
		cacheIs(t, r.Chat(cold("1"), "Authorization", "Bearer key-a"), want)
		cacheIs(t, r.Chat(cold("1"), "Authorization", "Bearer key-b"), "")
	}
}

// Where the cache is off, nobody notices it.
func TestTheCacheIsOffUnlessItIsConfigured(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	cacheIs(t, r.Chat(cold("1")), "")
	cacheIs(t, r.Chat(cold("1")), "")
	if n := len(b.Requests()); n != 2 {
		t.Errorf("%d calls", n)
	}
	if body := r.Do("GET", "/api/monitoring/calls", "").Body; strings.Contains(body, `"cache"`) {
		t.Errorf("calls: %s", body)
	}
}

// An answer that is not whole is not kept: one that breaks off, and an error.
func TestIncompleteAnswersAreNotKept(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL()))+cacheOn+"limits: {max-attempts: 1}\n")
	stream := strings.Replace(cold("1"), `"temperature"`, `"stream":true,"temperature"`, 1)
	b.Script(gatewaytest.EventStep("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n"), simulator.Step{Status: 500}, simulator.Step{Status: 400})
	if reply := r.Chat(stream); reply.Header.Get("X-Router-Cache") != "miss" || !strings.Contains(reply.Body, "upstream_stream_truncated") {
		t.Errorf("%v %s", reply.Header, reply.Body)
	}
	for _, status := range []int{500, 400} {
		if reply := r.Chat(cold("1")); reply.Status != status || reply.Header.Get("X-Router-Cache") != "miss" {
			t.Errorf("%d %v", reply.Status, reply.Header)
		}
	}
	for _, body := range []string{stream, cold("1")} {
		cacheIs(t, r.Chat(body), "miss")
		cacheIs(t, r.Chat(body), "hit")
	}
}

// The answer of a model that took over is not kept for the one that was asked for; and what
// is kept of that one is served while it is away.
func TestAnswersOfFallbacksAreNotKept(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("fallbacks: {m: [n]}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("n", b.URL()))+cacheOn)
	cacheIs(t, r.Chat(cold("kept")), "miss")
	a.ScriptForever(simulator.Step{Status: 503})
	for range 2 {
		if reply := cacheIs(t, r.Chat(cold("new")), "bypass"); reply.Header.Get("X-Router-Model") != "n" {
			t.Errorf("headers %v", reply.Header)
		}
	}
	cacheIs(t, r.Chat(cold("kept")), "hit")
}

// A backend that gets the caller's own credential may answer each caller differently.
func TestForwardedCredentialsAreNotAnsweredFromTheCache(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "forward-authorization: true"))+cacheOn)
	cacheIs(t, r.Chat(cold("1")), "bypass")
	cacheIs(t, r.Chat(cold("1")), "bypass")
}

// A change of the pool, or a request to the API, removes what is kept.
func TestWhatRemovesAnswers(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("other", b.URL()))+cacheOn)
	other := strings.Replace(cold("1"), `"m"`, `"other"`, 1)
	held := func() float64 {
		return gatewaytest.DataOf[struct {
			Answers float64 `json:"answers"`
		}](t, r.API(http.MethodGet, "/api/answer-cache", "")).Answers
	}
	for _, body := range []string{cold("1"), other} {
		cacheIs(t, r.Chat(body), "miss")
	}
	if held() != 2 {
		t.Errorf("%v answers are kept", held())
	}
	r.ChangeChat(func(s *config.Service) { s.Instances[0].UpstreamModel = "m2" })
	if held() != 1 {
		t.Errorf("%v answers are kept after a change of one pool", held())
	}
	cacheIs(t, r.Chat(other), "hit")
	cacheIs(t, r.Chat(cold("1")), "miss")
	cacheIs(t, r.Chat(cold("1")), "hit")
	r.API(http.MethodDelete, "/api/answer-cache", "").Is(t, http.StatusOK)
	if held() != 0 {
		t.Errorf("%v answers are kept after all were deleted", held())
	}
	cacheIs(t, r.Chat(other), "miss")
}

// A hit counts in limits and in the ledger like any request. It costs nothing, unless hits
// are charged, and everybody who looks is told.
func TestHitsAreLimitedCountedAndRecorded(t *testing.T) {
	t.Parallel()
	for _, charged := range []bool{false, true} {
		b := gatewaytest.StartBackend(t)
		b.ScriptForever(answer(0, 1000))
		policy := "rate-limit: {enabled: true, algorithm: sliding-window, capacity: 3600, refill-rate: 1}"
		r := gatewaytest.Start(t, gatewaytest.PolicyYAML(policy, gatewaytest.Instance("m", b.URL()))+gatewaytest.QuotaOn+
			fmt.Sprintf("answer-cache: {services: [chat], charge-hits: %t}\n", charged)+"prices: {models: [{model: m, output: 100}]}\n")
		for n, want := range []string{"miss", "hit", "hit"} {
			reply := cacheIs(t, r.Chat(cold("1")), want)
			if _, remaining, _ := reply.LimitOf(t); remaining != 3599-n {
				t.Errorf("%d requests remain after %d", remaining, n+1)
			}
		}
		if n := len(b.Requests()); n != 1 {
			t.Errorf("%d calls", n)
		}
		cost := int64(100_000)
		if charged {
			cost *= 3
		}
		if got := counted(t, r); got.RequestCount != 3 || got.TokenCount != 3000 || got.Cost != cost {
			t.Errorf("charged %t: the ledger has %+v", charged, got)
		}
		calls := r.Do("GET", "/api/monitoring/calls", "").Body
		if strings.Count(calls, `"cache":"hit"`) != 2 || strings.Count(calls, `"cache":"miss"`) != 1 {
			t.Errorf("calls: %s", calls)
		}
		samples := r.Scrape()
		for name, want := range map[string]float64{
			`model_router_answer_cache_requests_total{result="hit",service="chat"}`:        2,
			`model_router_answer_cache_requests_total{result="miss",service="chat"}`:       1,
			`model_router_requests_total{instance="none",service="chat",status="success"}`: 2,
		} {
			if samples[name] != want {
				t.Errorf("%s is %v, want %v", name, samples[name], want)
			}
		}
		if explained := r.Do("GET", "/api/route/explain?service=chat&model=m", "").Body; !strings.Contains(explained, `"answerCache":true`) {
			t.Errorf("explain: %s", explained)
		}
	}
}

// Requests that miss at the same time are all answered, and one of their answers is kept.
func TestParallelMisses(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))+cacheOn)
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			for n := range 5 {
				if reply := r.TryChat(gatewaytest.Deadline(t), cold(fmt.Sprint(n))); reply.Status != http.StatusOK {
					t.Errorf("%d %s", reply.Status, reply.Body)
				}
			}
		})
	}
	clients.Wait()
	if got := gatewaytest.DataOf[struct {
		Answers float64 `json:"answers"`
	}](t, r.API(http.MethodGet, "/api/answer-cache", "")).Answers; got != 5 {
		t.Errorf("%v answers are kept", got)
	}
	before := len(b.Requests())
	for n := range 5 {
		cacheIs(t, r.Chat(cold(fmt.Sprint(n))), "hit")
	}
	if after := len(b.Requests()); after != before {
		t.Errorf("%d calls for what is kept", after-before)
	}
}

// An answer that is larger than max-answer is not kept, and a file that is read again
// changes for whom answers are kept.
func TestSettingsOfTheCacheTakeEffect(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	yaml := gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))
	r := gatewaytest.Start(t, yaml+"answer-cache: {services: [chat], max-answer: 10B}\n")
	cacheIs(t, r.Chat(cold("1")), "miss")
	cacheIs(t, r.Chat(cold("1")), "miss")
	r.ReloadWith(yaml + cacheOn)
	cacheIs(t, r.Chat(cold("1")), "miss")
	cacheIs(t, r.Chat(cold("1")), "hit")
	r.ReloadWith(yaml)
	cacheIs(t, r.Chat(cold("1")), "")
}

// Whatever decides which model answers belongs to what a kept answer is found by, in this and in
// every other gateway; what does not is no part of it.
func TestKeptAnswersBelongToAdaptersAndPrograms(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras", "processes")
	const base = "loras: {adapters: {sql: {base: m, path: /x1}}}\n" +
		"processes: {pp: {command: [serve, $PORT, one], env: {A: b}, directory: /}}\n"
	services := gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, "adapter: vllm"), "{name: p, process: pp}")
	prints := func(sections string) [2][32]byte {
		service := gatewaytest.Start(t, services+sections).Current.Load().Service(schema.Chat)
		return [2][32]byte{service.Find("sql").Fingerprint(), service.Find("p").Fingerprint()}
	}
	before := prints(base)
	for _, c := range []struct {
		old, new string
		want     [2]bool // whether that of the adapter, and of the process, is another
	}{
		{"/x1", "/x1", [2]bool{}},
		{"/x1", "/x2", [2]bool{true, false}},
		{"one", "two", [2]bool{false, true}},
		{"A: b", "A: c", [2]bool{false, true}},
		{"directory: /", "directory: /tmp", [2]bool{false, true}},
		{"directory: /", "directory: /, stop-after: 1m", [2]bool{}},
	} {
		now := prints(strings.Replace(base, c.old, c.new, 1))
		if got := [2]bool{now[0] != before[0], now[1] != before[1]}; got != c.want {
			t.Errorf("%s in place of %s: another adapter or process %v, want %v", c.new, c.old, got, c.want)
		}
	}
}

// A reload with another path of an adapter forgets the answers of the earlier one.
func TestAnotherPathOfAnAdapterIsAnotherModel(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	yaml := adaptedYAML("", adapters("l1"), startAdapted(t, nil)) + cacheOn
	r := gatewaytest.Start(t, yaml)
	ask := strings.Replace(cold("1"), `"m"`, `"l1"`, 1)
	cacheIs(t, r.Chat(ask), "miss")
	cacheIs(t, r.Chat(ask), "hit")
	r.ReloadWith(strings.ReplaceAll(yaml, "/l/l1", "/l/new"))
	cacheIs(t, r.Chat(ask), "miss")
}
