package manage_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestServiceTypeOperations(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, "api-key: secret-key-1234")))
	all := gatewaytest.DataOf[map[string]jsontext.Value](t, r.API("GET", "/api/config/type", "").Is(t, 200))
	if len(all) != schema.ServiceTypeCount || all["imgEdit"] == nil {
		t.Errorf("the types are %v", all)
	}
	names := gatewaytest.DataOf[[]string](t, r.API("GET", "/api/config/type/services", "").Is(t, 200))
	if !slices.Equal(names, []string{"chat", "embedding", "rerank", "tts", "stt", "imgGen", "imgEdit"}) {
		t.Errorf("the names are %v", names)
	}
	for _, spelling := range []string{"imgGen", "img-gen", "img_gen", "IMG_GEN", "imggen"} {
		r.API("GET", gatewaytest.TypesPath+spelling, "").Is(t, 200, `"loadBalancer":"round_robin"`, `"instances":[]`, `"enabled":false`)
	}
	r.API("GET", gatewaytest.TypesPath+"chat", "").Is(t, 200, `"apiKey":"secret-key-1234"`, `"healthCheck"`, `"adapter":"openai"`, `"clientIpEnable":false`)
	r.API("GET", "/api/config/type/chat/models", "").Is(t, 200, `"data":["m"]`)
	r.API("GET", "/api/config/type/tts/models", "").Is(t, 200, `"data":[]`)

	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"least-connections","rate-limit":{"algorithm":"LEAKY_BUCKET","capacity":9}}`).Is(t, 200, `"version":2`)
	r.API("GET", gatewaytest.TypesPath+"chat", "").Is(t, 200, `"loadBalancer":"least_connections"`, `"rateLimit":{"enabled":true,"algorithm":"leaky_bucket","capacity":9,"refillRate":10`,
		`"name":"m"`, `"failureThreshold":5`, `"apiKey":"secret-key-1234"`)
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"rateLimit":{"enabled":false}}`).Is(t, 200)
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"rateLimit":{"enabled":false}}`).Is(t, 200, "Nothing changed", `"version":3`)
	r.API("POST", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random","circuitBreaker":{"enabled":true,"failureThreshold":2,"recoveryTimeout":1000}}`).Is(t, 200, `"version":4`)
	r.API("GET", gatewaytest.TypesPath+"chat", "").Is(t, 200, `"loadBalancer":"random"`, `"capacity":100`, `"recoveryTimeout":1000`, `"successThreshold":3`, `"name":"m"`)
	// What was read can be sent back, and changes nothing.
	whole := r.API("GET", gatewaytest.TypesPath+"chat", "").Data
	r.API("PUT", gatewaytest.TypesPath+"chat", string(whole)).Is(t, 200, "Nothing changed")

	r.API("DELETE", gatewaytest.TypesPath+"tts", "").Is(t, 200, `"version":5`)
	r.API("DELETE", gatewaytest.TypesPath+"tts", "").Is(t, 404)
	r.API("GET", gatewaytest.TypesPath+"tts", "").Is(t, 404)
	r.API("GET", "/api/config/type/tts/models", "").Is(t, 404)
	r.API("PUT", gatewaytest.TypesPath+"tts", `{}`).Is(t, 404)
	r.Do("POST", "/v1/audio/speech", `{"model":"x","input":"a","voice":"b"}`).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	r.API("POST", gatewaytest.TypesPath+"tts", `{"loadBalancer":"ip_hash"}`).Is(t, 201, `"version":6`)
	r.API("GET", gatewaytest.TypesPath+"tts", "").Is(t, 200, `"loadBalancer":"ip_hash"`)
	r.API("POST", gatewaytest.TypesPath+"video", `{}`).Is(t, 400, "serviceType", "imgEdit")
	r.API("GET", gatewaytest.TypesPath+"video", "").Is(t, 404, "serviceType")

	r.API("PUT", gatewaytest.TypesPath+"chat", `{"instances":[{"name":"n","baseUrl":"http://10.0.0.1"},{"name":"m","baseUrl":"`+simulator.DownURL+`"}]}`).Is(t, 200)
	r.API("GET", gatewaytest.InstancesPath+"chat", "").Is(t, 200, `"name":"n"`, `"apiKey":"secret-key-1234"`)
	r.API("POST", "/api/config/type/reset", "").Is(t, 200, `"version":8`)
	r.API("GET", gatewaytest.TypesPath+"chat", "").Is(t, 200, `"loadBalancer":"round_robin"`, `"apiKey":"secret-key-1234"`)
	r.API("GET", gatewaytest.VersionsPath+"/8", "").Is(t, 200, `"origin":"reset"`)
	r.API("POST", "/api/config/type/reset", "").Is(t, 200, "Nothing changed")
}

func TestInstanceOperations(t *testing.T) {
	t.Parallel()
	b, second := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: {chat: {circuit-breaker: {enabled: false}, health-check: {enabled: false}}}\n")
	id := "m@" + b.URL()
	added := r.API("POST", gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":"m","baseUrl":%q,"apiKey":"key-number-one","weight":2.5}`, b.URL())).Is(t, 201)
	if got := gatewaytest.DataOf[struct {
		InstanceID string `json:"instanceId"`
	}](t, added); got.InstanceID != id {
		t.Errorf("the id is %s", added.Data)
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t) // in force for the next request
	if got := gatewaytest.OnlyRequest(t, b).Header.Get("Authorization"); got != "Bearer key-number-one" {
		t.Errorf("the backend got %q", got)
	}
	r.API("POST", gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":"m","baseUrl":%q}`, b.URL())).Is(t, 400, "exists already")
	query := "?modelName=m&baseUrl=" + b.URL()
	r.API("GET", "/api/config/instance/info/chat"+query, "").Is(t, 200, `"instanceId":"`+id+`"`, `"healthStatus":"UNKNOWN"`, `"lastHealthCheck":null`, `"weight":2.5`)
	r.API("GET", "/api/config/instance/info/chat?modelName=m", "").Is(t, 400, "baseUrl")
	r.API("GET", "/api/config/instance/info/chat?modelName=m&baseUrl=http://other", "").Is(t, 404)

	update := func(instance string) gatewaytest.ManagementReply {
		return r.API("PUT", gatewaytest.UpdateInstancePath+"chat", fmt.Sprintf(`{"instanceId":%q,"instance":%s}`, id, instance))
	}
	for _, test := range []struct{ instance, key string }{
		{`{"weight":3}`, "key-number-one"}, {`{"apiKey":null,"weight":4}`, "key-number-one"}, {`{"apiKey":"****-one","weight":5}`, "key-number-one"},
		{`{"apiKey":"****","weight":6}`, "key-number-one"}, {`{"apiKey":"key-number-two"}`, "key-number-two"}, {`{"apiKey":""}`, ""}, {`{"api-key":"key-number-one"}`, "key-number-one"},
	} {
		update(test.instance).Is(t, 200)
		r.API("GET", gatewaytest.InstancesPath+"chat", "").Is(t, 200, fmt.Sprintf(`"apiKey":%q`, test.key))
	}
	update(`{"headers":{"X-A":"one-header-value","X-B":"2"}}`).Is(t, 200)
	update(`{"headers":{"X-A":"****alue"}}`).Is(t, 200)
	r.API("GET", gatewaytest.InstancesPath+"chat", "").Is(t, 200, `"headers":{"X-A":"one-header-value"}`, `"weight":6`)

	update(`{"enabled":false}`).Is(t, 200)
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	moved := update(fmt.Sprintf(`{"name":"m2","baseUrl":%q,"enabled":true}`, second.URL())).Is(t, 200, `"instanceId":"m2@`+second.URL()+`"`)
	update(`{}`).Is(t, 404, "instanceId")
	if n := len(gatewaytest.DataOf[[]jsontext.Value](t, r.API("GET", gatewaytest.InstancesPath+"chat", ""))); n != 1 {
		t.Errorf("%d instances after %s", n, moved.Body)
	}
	r.Do("POST", "/v1/chat/completions", `{"model":"m2",`+gatewaytest.SomeMessages+`}`).Succeeds(t)
	r.API("DELETE", "/api/config/instance/del/chat?modelName=m2&baseUrl="+b.URL(), "").Is(t, 404)
	r.API("DELETE", "/api/config/instance/del/chat?modelName=m2&baseUrl="+second.URL(), "").Is(t, 200)
	r.API("DELETE", "/api/config/instance/del/chat?modelName=m2&baseUrl="+second.URL(), "").Is(t, 404)
	r.API("GET", gatewaytest.InstancesPath+"chat", "").Is(t, 200, `"data":[]`)

	// A type that is not configured is created.
	r.API("DELETE", gatewaytest.TypesPath+"stt", "").Is(t, 200)
	r.API("POST", gatewaytest.AddInstancePath+"STT", `{"name":"w","baseUrl":"http://10.0.0.9","adapter":"vllm","enabled":false,"weight":0}`).Is(t, 201)
	r.API("GET", "/api/config/type/stt/models", "").Is(t, 200, `["w"]`)
	r.API("POST", gatewaytest.AddInstancePath+"tts", `{"name":"w","baseUrl":"http://10.0.0.9","adapter":"vllm"}`).Is(t, 400, "adapter", "openai")
	r.API("POST", gatewaytest.AddInstancePath+"tts", `{"name":"w","baseUrl":"http://10.0.0.9","adapter":"nonsense"}`).Is(t, 400, "adapter", "openai")
}

// TestVersionsSayThatTheConsoleMadeThem: a person's change is told from that of a program.
func TestVersionsSayThatTheConsoleMadeThem(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL)))
	for i, client := range []string{"console", "terraform", ""} {
		r.API("PUT", gatewaytest.TypesPath+"chat", fmt.Sprintf(`{"rateLimit":{"capacity":%d}}`, 5+i), "X-Patchbay-Client", client).Is(t, 200, fmt.Sprintf(`"version":%d`, 2+i))
	}
	for version, origin := range map[int]string{2: "console", 3: "api", 4: "api"} {
		r.API("GET", fmt.Sprint(gatewaytest.VersionsPath, "/", version), "").Is(t, 200, `"origin":"`+origin+`"`)
	}
}

func TestVersionOperations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	yaml := gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL, "api-key: secret-key-1234"))
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	r.API("GET", gatewaytest.VersionsPath, "").Is(t, 200, `"data":[1]`)
	r.API("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"one@`+simulator.DownURL+`","instance":{"name":"two","apiKey":"secret-key-5678"}}`).Is(t, 200, `"version":2`)
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"rateLimit":{"capacity":5}}`).Is(t, 200, `"version":3`)
	r.API("GET", gatewaytest.VersionsPath, "").Is(t, 200, `"data":[1,2,3]`)
	r.API("GET", gatewaytest.VersionsPath+"/current", "").Is(t, 200, `"data":3`)
	r.API("GET", gatewaytest.VersionsPath+"/2", "").Is(t, 200, `"version":2`, `"current":false`, `"createdAt":"`, `"origin":"api"`, `"author":"open"`, `"summary":"chat: +1 instance two@`,
		`"config":{"services":{"chat":{`, `"apiKey":"secret-key-5678"`)
	r.API("GET", gatewaytest.VersionsPath+"/1", "").Is(t, 200, `"origin":"file"`)
	r.API("GET", gatewaytest.VersionsPath+"?details=true&page=1&size=2", "").Is(t, 200, `"content":[{"version":3,"current":true`, `"totalElements":3`)
	diff := r.API("GET", gatewaytest.VersionsPath+"/diff?from=2&to=3", "").Is(t, 200, `"field":"rateLimit.capacity"`, `"from":100`, `"to":5`, "~ chat: rateLimit.capacity 100 → 5")
	gatewaytest.ContainsNone(t, diff.Body+r.API("GET", gatewaytest.VersionsPath+"/diff?from=1", "").Body, "secret-key")
	r.API("GET", gatewaytest.VersionsPath+"/diff?to=1", "").Is(t, 400, "from")
	r.API("GET", gatewaytest.VersionsPath+"/diff?from=1&to=77", "").Is(t, 404)

	r.API("POST", gatewaytest.VersionsPath+"/rollback/1", "").Is(t, 200, `"version":1`)
	if got := r.Models(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("after the rollback: %v", got)
	}
	r.API("GET", gatewaytest.VersionsPath, "").Is(t, 200, `"data":[1,2,3]`)
	r.API("DELETE", gatewaytest.VersionsPath+"/1", "").Is(t, 400, "current")
	r.API("POST", gatewaytest.VersionsPath+"/apply/2", "").Is(t, 200, `"version":2`)
	r.API("POST", gatewaytest.VersionsPath+"/apply/2", "").Is(t, 200, "Nothing changed")
	r.API("DELETE", gatewaytest.VersionsPath+"/3", "").Is(t, 200)
	r.API("DELETE", gatewaytest.VersionsPath+"/3", "").Is(t, 404)
	wasActivated(t, r, 1, 2) // as the first one, and by the rollback
	wasActivated(t, r, 2, 2)
	r.API("GET", gatewaytest.VersionsPath+"/1", "").Is(t, 200, `"by":"open","replaced":3}]`) // though version 3 is deleted by now
	r.API("GET", gatewaytest.VersionsPath+"?details=true", "").Is(t, 200, `"by":"open","replaced":1}]`)
	r.Halt()

	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	r.API("GET", gatewaytest.VersionsPath+"/current", "").Is(t, 200, `"data":2`)
	wasActivated(t, r, 2, 2) // a restart puts nothing else into force
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`).Is(t, 200, `"version":4`)
	backup := gatewaytest.DataOf[struct {
		Path  string   `json:"path"`
		Files []string `json:"files"`
	}](t, r.API("POST", "/api/config/merge/backup", "").Is(t, 200))
	if !slices.Equal(backup.Files, []string{"00000001.json", "00000002.json", "00000004.json"}) || filepath.Dir(backup.Path) != dir {
		t.Errorf("the backup is %+v", backup)
	}
	for _, file := range backup.Files {
		if _, err := os.Stat(filepath.Join(backup.Path, file)); err != nil {
			t.Error(err)
		}
	}
}

// wasActivated checks how often a version came into force.
func wasActivated(t *testing.T, r *gatewaytest.Gateway, version, times int) {
	t.Helper()
	view := gatewaytest.DataOf[struct {
		ActivatedAt time.Time `json:"activatedAt"`
		ActivatedBy string    `json:"activatedBy"`
		Activations []struct {
			At time.Time `json:"at"`
		} `json:"activations"`
	}](t, r.API("GET", fmt.Sprintf("%s/%d", gatewaytest.VersionsPath, version), "").Is(t, 200))
	if len(view.Activations) != times || !view.Activations[times-1].At.Equal(view.ActivatedAt) || view.ActivatedBy != "open" {
		t.Errorf("version %d came into force: %+v, want %d times", version, view, times)
	}
}

func TestPagesOfLists(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	r.API("GET", "/api/config/type/services?page=2&size=3", "").Is(t, 200, `"content":["tts","stt","imgGen"]`, `"page":{"number":2,"size":3,"totalElements":7,"totalPages":3}`)
	r.API("GET", "/api/config/type/services?size=100", "").Is(t, 200, `"totalPages":1`)
	r.API("GET", "/api/config/type/services?page=9", "").Is(t, 200, `"content":[]`)
	for _, path := range []string{"/api/config/type/services", "/api/config/type/chat/models", gatewaytest.InstancesPath + "chat", gatewaytest.VersionsPath, "/api/auth/keys"} {
		r.API("GET", path+"?page=1", "").Is(t, 200, `"content":[`, `"totalElements"`)
		for _, bad := range []string{"page=0", "page=x", "page=-1", "size=0", "size=101", "size=99999999999999999999"} {
			name, _, _ := strings.Cut(bad, "=")
			r.API("GET", path+"?"+bad, "").Is(t, 400, name)
		}
	}
	r.API("GET", "/api/models?page=1&size=1", "").Is(t, 200, `"object":"list"`, `"page":{`)
}

func TestDryRunsAndExpectedVersions(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	r.API("PUT", gatewaytest.TypesPath+"tts", `{"loadBalancer":"random"}`).Is(t, 200)
	writes := []struct{ method, path, body string }{
		{"POST", gatewaytest.TypesPath + "chat", `{"loadBalancer":"random"}`}, {"PUT", gatewaytest.TypesPath + "chat", `{"loadBalancer":"random"}`}, {"DELETE", gatewaytest.TypesPath + "chat", ""},
		{"POST", "/api/config/type/reset", ""}, {"POST", gatewaytest.AddInstancePath + "chat", `{"name":"n","baseUrl":"http://10.0.0.1"}`},
		{"PUT", gatewaytest.UpdateInstancePath + "chat", `{"instanceId":"m@` + simulator.DownURL + `","instance":{"weight":9}}`},
		{"DELETE", "/api/config/instance/del/chat?modelName=m&baseUrl=" + simulator.DownURL, ""},
		{"POST", gatewaytest.VersionsPath + "/rollback/1", ""}, {"POST", gatewaytest.VersionsPath + "/apply/1", ""}, {"DELETE", gatewaytest.VersionsPath + "/1", ""},
	}
	before := r.API("GET", gatewaytest.VersionsPath+"/2", "").Body
	for _, w := range writes {
		separator := "?"
		if strings.Contains(w.path, "?") {
			separator = "&"
		}
		r.API(w.method, w.path+separator+"dryRun=true", w.body).Is(t, 200, `"dryRun":true`, `"changed":true`, `"summary":"`)
		r.API(w.method, w.path+separator+"dryRun=perhaps", w.body).Is(t, 400, "dryRun")
		r.API(w.method, w.path, w.body, "If-Match", "1").Is(t, 409)
		r.API(w.method, w.path, w.body, "If-Match", "first").Is(t, 400, "If-Match")
	}
	r.API("POST", "/api/config/merge/backup?dryRun=true", "").Is(t, 200, `"dryRun":true`, `"files":["00000001.json"`)
	r.API("POST", "/api/auth/keys?dryRun=true", `{"id":"k"}`).Is(t, 200, `"dryRun":true`)
	r.API("POST", "/api/config/instance/circuit-breaker/chat?dryRun=true", `{"instanceId":"m@`+simulator.DownURL+`","state":"OPEN"}`).Is(t, 200, `"state":"CLOSED"`)
	r.API("PUT", gatewaytest.TypesPath+"chat?dryRun=true", `{"rateLimit":{"capacity":-1}}`).Is(t, 400, "rateLimit.capacity")
	if after := r.API("GET", gatewaytest.VersionsPath+"/2", "").Body; after != before {
		t.Errorf("%s became %s", before, after)
	}
	r.API("GET", gatewaytest.VersionsPath, "").Is(t, 200, `"data":[1,2]`)
	if etag := r.API("GET", gatewaytest.TypesPath+"chat", "").Header.Get("Etag"); etag != `"2"` {
		t.Errorf("the tag is %s", etag)
	}
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`, "If-Match", `"2"`).Is(t, 200, `"version":3`)
}

func TestModelListAndWhenModelsWereAdded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})
	r.API("POST", gatewaytest.AddInstancePath+"chat", `{"name":"shared","baseUrl":"http://10.0.0.1","adapter":"ollama"}`).Is(t, 201)
	r.API("POST", gatewaytest.AddInstancePath+"embedding", `{"name":"shared","baseUrl":"http://10.0.0.1"}`).Is(t, 201)
	before := r.API("GET", "/api/models", "").Is(t, 200, `"object":"list"`, `"owned_by":"patchbay"`, `"service_type":"chat"`, `"adapter":"OllamaAdapter"`,
		`"service_type":"embedding"`, `"adapter":"OpenAIAdapter"`)
	unified := r.Do("GET", "/v1/models", "").Succeeds(t).Body
	r.Halt()
	r = gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})
	if after := r.API("GET", "/api/models", ""); after.Body != before.Body {
		t.Errorf("%s became %s", before.Body, after.Body)
	}
	if after := r.Do("GET", "/v1/models", "").Body; after != unified || strings.Count(after, `"shared"`) != 1 {
		t.Errorf("%s became %s", unified, after)
	}
}

func TestForcedBreakersAndExplanations(t *testing.T) {
	t.Parallel()
	b, other := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b, other))
	explain := func() string { return r.API("GET", "/api/route/explain?service=chat&model=m", "").Is(t, 200).Body }
	force := func(url, state string) gatewaytest.ManagementReply {
		return r.API("POST", "/api/config/instance/circuit-breaker/chat", fmt.Sprintf(`{"instanceId":"m@%s","state":%q}`, url, state))
	}
	// What is foretold is what happens, and asking changes nothing.
	for range 10 {
		type explained struct {
			Pick string `json:"pick"`
		}
		var x explained
		for range 3 {
			x = gatewaytest.DataOf[explained](t, r.API("GET", "/api/route/explain?service=chat&model=m", ""))
		}
		want := "nobody"
		for _, i := range r.Instances("m") {
			if i.ID == x.Pick {
				want = i.Handle
			}
		}
		if got := r.Chat(gatewaytest.PlainHi).Succeeds(t).Header.Get("X-Router-Instance"); got != want {
			t.Fatalf("%s was foretold, %s came", want, got)
		}
	}
	force(b.URL(), "open").Is(t, 200, `"state":"OPEN"`, `"forced":"OPEN"`)
	if got := explain(); !strings.Contains(got, `"reason":"circuit breaker held open by an operator since `) || !strings.Contains(got, `"pick":"m@`+other.URL()) {
		t.Errorf("one is open: %s", got)
	}
	force(other.URL(), "OPEN").Is(t, 200)
	refusal := r.Chat(gatewaytest.PlainHi).FailsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	if got := explain(); !strings.Contains(got, `"pick":null`) || !strings.Contains(got, `"code":"circuit_breaker_open"`) || !strings.Contains(string(refusal.Details), "circuit breaker held open") {
		t.Errorf("both are open: %s, and %s", got, refusal.Details)
	}
	force(b.URL(), "AUTO").Is(t, 200, `"state":"CLOSED"`)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	force(b.URL(), "broken").Is(t, 400, "state")
	force("http://nowhere", "OPEN").Is(t, 404, "instanceId")
	r.API("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@`+b.URL()+`","instance":{"weight":0}}`).Is(t, 200)
	if got := explain(); !strings.Contains(got, `"reason":"weight 0"`) {
		t.Errorf("no weight: %s", got)
	}
	r.API("GET", "/api/route/explain?service=chat&model=unknown&clientIp=10.1.1.1", "").Is(t, 200, `"code":"service_unavailable"`, `"candidates":[]`, `"clientIp":"10.1.1.1"`)
	r.API("GET", "/api/route/explain?service=chat&model=m", "").Is(t, 200, `"quota":{"enabled":false,"degraded":false,"degradedReason":"","failOpen":true}`)
	r.API("PUT", "/api/config/quota", `{"enabled":true,"failOpen":false}`).Is(t, 200)
	r.API("GET", "/api/route/explain?service=chat&model=m", "").Is(t, 200, `"quota":{"enabled":true,"degraded":false,"degradedReason":"","failOpen":false}`)
	for _, bad := range []string{"model=m", "service=chat", "service=video&model=m", "service=chat&model=m&clientIp=here"} {
		r.API("GET", "/api/route/explain?"+bad, "").Is(t, 400)
	}
	if r.API("GET", gatewaytest.VersionsPath, "").Is(t, 200); r.Control.Version() != 2 {
		t.Errorf("forcing a breaker made version %d", r.Control.Version())
	}
}

func TestAuditLinesSayWhoDidWhatAndNoSecrets(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, fmt.Sprintf("security: {enabled: true, tokens: [{name: ops, role: OPERATOR, token-sha256: %s}]}\n", gatewaytest.HashOf("the-ops-token")))
	const secret = "sk-secret-of-backend"
	r.API("POST", gatewaytest.AddInstancePath+"chat", `{"name":"m","baseUrl":"http://10.0.0.1","apiKey":"`+secret+`"}`, "Authorization", "Bearer the-ops-token").Is(t, 201)
	r.API("POST", gatewaytest.AddInstancePath+"chat", `{"name":"m","baseUrl":"http://10.0.0.1"}`).Is(t, 401)
	log := r.Logs.String()
	if gatewaytest.CountLines(log, `"logger":"audit"`, `"who":"ops"`, `"role":"OPERATOR"`, `"from":"127.0.0.1"`, `"what":"POST /api/config/instance/add/{serviceType}"`,
		`"version_before":1`, `"version_after":2`, `"status":201`, "+1 instance m@10.0.0.1") != 1 ||
		gatewaytest.CountLines(log, `"logger":"audit"`, `"status":401`, `"version_after":2`) != 1 {
		t.Errorf("the log is\n%s", log)
	}
	gatewaytest.ContainsNone(t, log, secret, "the-ops-token")
	if got := r.API("GET", gatewaytest.VersionsPath+"/2", "", "Authorization", "Bearer the-ops-token"); !strings.Contains(got.Body, `"author":"ops"`) || !strings.Contains(got.Body, `"apiKey":"****kend"`) {
		t.Error(got.Body)
	}
}

func TestUnknownManagementPathsAndMethods(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	r.API("GET", "/api/nothing", "").Is(t, 404)
	r.API("GET", "/api/config/type/services/a/b", "").Is(t, 404)
	if a := r.API("DELETE", "/api/models", "").Is(t, 405); a.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("Allow: %s", a.Header.Get("Allow"))
	}
	if a := r.API("POST", "/api/config/type/chat/models", "").Is(t, 405); !strings.Contains(a.Header.Get("Allow"), "GET") {
		t.Errorf("Allow: %s", a.Header.Get("Allow"))
	}
	if a := r.Do(http.MethodOptions, gatewaytest.TypesPath+"chat", "", "Origin", "https://page.example"); a.Status != 204 || a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a preflight: %d %v", a.Status, a.Header)
	}
}
