package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// answer is a reply of the management API, whose envelope was checked.
type answer struct {
	reply
	message string
	data    jsontext.Value
}

// api asks the management API.
func (r *rig) api(method, path, body string, headers ...string) answer {
	r.t.Helper()
	return envelopeOf(r.t, r.do(method, path, body, headers...))
}

// envelopeOf checks the envelope of a reply.
func envelopeOf(t *testing.T, from reply) answer {
	t.Helper()
	a := answer{reply: from}
	var fields map[string]jsontext.Value
	if err := json.Unmarshal([]byte(a.body), &fields); err != nil || len(fields) != 3 {
		t.Fatalf("no envelope (%v): %d %s", err, a.status, a.body)
	}
	var success bool
	if json.Unmarshal(fields["success"], &success) != nil || success != (a.status < 300) {
		t.Errorf("success is %s with status %d", fields["success"], a.status)
	}
	if json.Unmarshal(fields["message"], &a.message) != nil || a.message == "" {
		t.Errorf("the message is %s", fields["message"])
	}
	a.data = fields["data"]
	if !success && string(a.data) != "null" {
		t.Errorf("an error has data: %s", a.data)
	}
	if a.header.Get("Content-Type") != "application/json" || a.header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", a.header)
	}
	return a
}

// is checks the status and, if a part is given, that the body has it.
func (a answer) is(t *testing.T, status int, parts ...string) answer {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d: %s", a.status, status, a.body)
	}
	for _, part := range parts {
		if !strings.Contains(a.body, part) {
			t.Errorf("no %s in %s", part, a.body)
		}
	}
	return a
}

// read decodes the data of an answer.
func read[T any](t *testing.T, a answer) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(a.data, &value); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return value
}

const (
	types    = "/api/config/type/services/"
	instAdd  = "/api/config/instance/add/"
	instUp   = "/api/config/instance/update/"
	instList = "/api/config/instance/type/"
	vers     = "/api/config/version"
)

func TestServiceTypeOperations(t *testing.T) {
	r := startGateway(t, chatYAML(instance("m", simulator.DownURL, "api-key: secret-key-1234")))
	all := read[map[string]jsontext.Value](t, r.api("GET", "/api/config/type", "").is(t, 200))
	if len(all) != schema.ServiceTypeCount || all["imgEdit"] == nil {
		t.Errorf("the types are %v", all)
	}
	names := read[[]string](t, r.api("GET", "/api/config/type/services", "").is(t, 200))
	if !slices.Equal(names, []string{"chat", "embedding", "rerank", "tts", "stt", "imgGen", "imgEdit"}) {
		t.Errorf("the names are %v", names)
	}
	for _, spelling := range []string{"imgGen", "img-gen", "img_gen", "IMG_GEN", "imggen"} {
		r.api("GET", types+spelling, "").is(t, 200, `"loadBalancer":"round_robin"`, `"instances":[]`, `"enabled":false`)
	}
	r.api("GET", types+"chat", "").is(t, 200, `"apiKey":"secret-key-1234"`, `"healthCheck"`, `"adapter":"openai"`, `"clientIpEnable":false`)
	r.api("GET", "/api/config/type/chat/models", "").is(t, 200, `"data":["m"]`)
	r.api("GET", "/api/config/type/tts/models", "").is(t, 200, `"data":[]`)

	r.api("PUT", types+"chat", `{"loadBalancer":"least-connections","rate-limit":{"algorithm":"LEAKY_BUCKET","capacity":9}}`).is(t, 200, `"version":2`)
	r.api("GET", types+"chat", "").is(t, 200, `"loadBalancer":"least_connections"`, `"rateLimit":{"enabled":true,"algorithm":"leaky_bucket","capacity":9,"refillRate":10`,
		`"name":"m"`, `"failureThreshold":5`, `"apiKey":"secret-key-1234"`)
	r.api("PUT", types+"chat", `{"rateLimit":{"enabled":false}}`).is(t, 200)
	r.api("PUT", types+"chat", `{"rateLimit":{"enabled":false}}`).is(t, 200, "Nothing changed", `"version":3`)
	r.api("POST", types+"chat", `{"loadBalancer":"random","circuitBreaker":{"enabled":true,"failureThreshold":2,"recoveryTimeout":1000}}`).is(t, 200, `"version":4`)
	r.api("GET", types+"chat", "").is(t, 200, `"loadBalancer":"random"`, `"capacity":100`, `"recoveryTimeout":1000`, `"successThreshold":3`, `"name":"m"`)
	// What was read can be sent back, and changes nothing.
	whole := r.api("GET", types+"chat", "").data
	r.api("PUT", types+"chat", string(whole)).is(t, 200, "Nothing changed")

	r.api("DELETE", types+"tts", "").is(t, 200, `"version":5`)
	r.api("DELETE", types+"tts", "").is(t, 404)
	r.api("GET", types+"tts", "").is(t, 404)
	r.api("GET", "/api/config/type/tts/models", "").is(t, 404)
	r.api("PUT", types+"tts", `{}`).is(t, 404)
	r.do("POST", "/v1/audio/speech", `{"model":"x","input":"a","voice":"b"}`).failsWith(t, 503, "service_unavailable", "service_unavailable", "")
	r.api("POST", types+"tts", `{"loadBalancer":"ip_hash"}`).is(t, 201, `"version":6`)
	r.api("GET", types+"tts", "").is(t, 200, `"loadBalancer":"ip_hash"`)
	r.api("POST", types+"video", `{}`).is(t, 400, "serviceType", "imgEdit")
	r.api("GET", types+"video", "").is(t, 404, "serviceType")

	r.api("PUT", types+"chat", `{"instances":[{"name":"n","baseUrl":"http://10.0.0.1"},{"name":"m","baseUrl":"`+simulator.DownURL+`"}]}`).is(t, 200)
	r.api("GET", instList+"chat", "").is(t, 200, `"name":"n"`, `"apiKey":"secret-key-1234"`)
	r.api("POST", "/api/config/type/reset", "").is(t, 200, `"version":8`)
	r.api("GET", types+"chat", "").is(t, 200, `"loadBalancer":"round_robin"`, `"apiKey":"secret-key-1234"`)
	r.api("GET", vers+"/8", "").is(t, 200, `"origin":"reset"`)
	r.api("POST", "/api/config/type/reset", "").is(t, 200, "Nothing changed")
}

func TestInstanceOperations(t *testing.T) {
	b, second := startBackend(t), startBackend(t)
	r := startGateway(t, "services: {chat: {circuit-breaker: {enabled: false}, health-check: {enabled: false}}}\n")
	id := "m@" + b.URL()
	added := r.api("POST", instAdd+"chat", fmt.Sprintf(`{"name":"m","baseUrl":%q,"apiKey":"key-number-one","weight":2.5}`, b.URL())).is(t, 201)
	if got := read[struct {
		InstanceID string `json:"instanceId"`
	}](t, added); got.InstanceID != id {
		t.Errorf("the id is %s", added.data)
	}
	r.chat(plainHi).succeeds(t) // in force for the next request
	if got := onlyRequest(t, b).Header.Get("Authorization"); got != "Bearer key-number-one" {
		t.Errorf("the backend got %q", got)
	}
	r.api("POST", instAdd+"chat", fmt.Sprintf(`{"name":"m","baseUrl":%q}`, b.URL())).is(t, 400, "exists already")
	query := "?modelName=m&baseUrl=" + b.URL()
	r.api("GET", "/api/config/instance/info/chat"+query, "").is(t, 200, `"instanceId":"`+id+`"`, `"healthStatus":"UNKNOWN"`, `"lastHealthCheck":null`, `"weight":2.5`)
	r.api("GET", "/api/config/instance/info/chat?modelName=m", "").is(t, 400, "baseUrl")
	r.api("GET", "/api/config/instance/info/chat?modelName=m&baseUrl=http://other", "").is(t, 404)

	update := func(instance string) answer {
		return r.api("PUT", instUp+"chat", fmt.Sprintf(`{"instanceId":%q,"instance":%s}`, id, instance))
	}
	for _, test := range []struct{ instance, key string }{
		{`{"weight":3}`, "key-number-one"}, {`{"apiKey":null,"weight":4}`, "key-number-one"}, {`{"apiKey":"****-one","weight":5}`, "key-number-one"},
		{`{"apiKey":"****","weight":6}`, "key-number-one"}, {`{"apiKey":"key-number-two"}`, "key-number-two"}, {`{"apiKey":""}`, ""}, {`{"api-key":"key-number-one"}`, "key-number-one"},
	} {
		update(test.instance).is(t, 200)
		r.api("GET", instList+"chat", "").is(t, 200, fmt.Sprintf(`"apiKey":%q`, test.key))
	}
	update(`{"headers":{"X-A":"one-header-value","X-B":"2"}}`).is(t, 200)
	update(`{"headers":{"X-A":"****alue"}}`).is(t, 200)
	r.api("GET", instList+"chat", "").is(t, 200, `"headers":{"X-A":"one-header-value"}`, `"weight":6`)

	update(`{"enabled":false}`).is(t, 200)
	r.chat(plainHi).failsWith(t, 503, "service_unavailable", "service_unavailable", "")
	moved := update(fmt.Sprintf(`{"name":"m2","baseUrl":%q,"enabled":true}`, second.URL())).is(t, 200, `"instanceId":"m2@`+second.URL()+`"`)
	update(`{}`).is(t, 404, "instanceId")
	if n := len(read[[]jsontext.Value](t, r.api("GET", instList+"chat", ""))); n != 1 {
		t.Errorf("%d instances after %s", n, moved.body)
	}
	r.do("POST", "/v1/chat/completions", `{"model":"m2",`+someMessages+`}`).succeeds(t)
	r.api("DELETE", "/api/config/instance/del/chat?modelName=m2&baseUrl="+b.URL(), "").is(t, 404)
	r.api("DELETE", "/api/config/instance/del/chat?modelName=m2&baseUrl="+second.URL(), "").is(t, 200)
	r.api("DELETE", "/api/config/instance/del/chat?modelName=m2&baseUrl="+second.URL(), "").is(t, 404)
	r.api("GET", instList+"chat", "").is(t, 200, `"data":[]`)

	// A type that is not configured is created.
	r.api("DELETE", types+"stt", "").is(t, 200)
	r.api("POST", instAdd+"STT", `{"name":"w","baseUrl":"http://10.0.0.9","adapter":"vllm","enabled":false,"weight":0}`).is(t, 201)
	r.api("GET", "/api/config/type/stt/models", "").is(t, 200, `["w"]`)
	r.api("POST", instAdd+"tts", `{"name":"w","baseUrl":"http://10.0.0.9","adapter":"vllm"}`).is(t, 400, "adapter", "openai")
	r.api("POST", instAdd+"tts", `{"name":"w","baseUrl":"http://10.0.0.9","adapter":"nonsense"}`).is(t, 400, "adapter", "openai")
}

func TestVersionOperations(t *testing.T) {
	dir := t.TempDir()
	yaml := chatYAML(instance("one", simulator.DownURL, "api-key: secret-key-1234"))
	r := startWith(t, setup{yaml: yaml, dataDir: dir})
	r.api("GET", vers, "").is(t, 200, `"data":[1]`)
	r.api("PUT", instUp+"chat", `{"instanceId":"one@`+simulator.DownURL+`","instance":{"name":"two","apiKey":"secret-key-5678"}}`).is(t, 200, `"version":2`)
	r.api("PUT", types+"chat", `{"rateLimit":{"capacity":5}}`).is(t, 200, `"version":3`)
	r.api("GET", vers, "").is(t, 200, `"data":[1,2,3]`)
	r.api("GET", vers+"/current", "").is(t, 200, `"data":3`)
	r.api("GET", vers+"/2", "").is(t, 200, `"version":2`, `"current":false`, `"createdAt":"`, `"origin":"api"`, `"author":"open"`, `"summary":"chat: +1 instance two@`,
		`"config":{"services":{"chat":{`, `"apiKey":"secret-key-5678"`)
	r.api("GET", vers+"/1", "").is(t, 200, `"origin":"file"`)
	r.api("GET", vers+"?details=true&page=1&size=2", "").is(t, 200, `"content":[{"version":3,"current":true`, `"totalElements":3`)
	diff := r.api("GET", vers+"/diff?from=2&to=3", "").is(t, 200, `"field":"rateLimit.capacity"`, `"from":100`, `"to":5`, "~ chat: rateLimit.capacity 100 → 5")
	noneOf(t, diff.body+r.api("GET", vers+"/diff?from=1", "").body, "secret-key")
	r.api("GET", vers+"/diff?to=1", "").is(t, 400, "from")
	r.api("GET", vers+"/diff?from=1&to=77", "").is(t, 404)

	r.api("POST", vers+"/rollback/1", "").is(t, 200, `"version":1`)
	if got := r.models(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("after the rollback: %v", got)
	}
	r.api("GET", vers, "").is(t, 200, `"data":[1,2,3]`)
	r.api("DELETE", vers+"/1", "").is(t, 400, "current")
	r.api("POST", vers+"/apply/2", "").is(t, 200, `"version":2`)
	r.api("POST", vers+"/apply/2", "").is(t, 200, "Nothing changed")
	r.api("DELETE", vers+"/3", "").is(t, 200)
	r.api("DELETE", vers+"/3", "").is(t, 404)
	r.halt()

	r = startWith(t, setup{yaml: yaml, dataDir: dir})
	r.api("GET", vers+"/current", "").is(t, 200, `"data":2`)
	r.api("PUT", types+"chat", `{"loadBalancer":"random"}`).is(t, 200, `"version":4`)
	backup := read[struct {
		Path  string   `json:"path"`
		Files []string `json:"files"`
	}](t, r.api("POST", "/api/config/merge/backup", "").is(t, 200))
	if !slices.Equal(backup.Files, []string{"00000001.json", "00000002.json", "00000004.json"}) || filepath.Dir(backup.Path) != dir {
		t.Errorf("the backup is %+v", backup)
	}
	for _, file := range backup.Files {
		if _, err := os.Stat(filepath.Join(backup.Path, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestPagesOfLists(t *testing.T) {
	r := startGateway(t, "")
	r.api("GET", "/api/config/type/services?page=2&size=3", "").is(t, 200, `"content":["tts","stt","imgGen"]`, `"page":{"number":2,"size":3,"totalElements":7,"totalPages":3}`)
	r.api("GET", "/api/config/type/services?size=100", "").is(t, 200, `"totalPages":1`)
	r.api("GET", "/api/config/type/services?page=9", "").is(t, 200, `"content":[]`)
	for _, path := range []string{"/api/config/type/services", "/api/config/type/chat/models", instList + "chat", vers, "/api/auth/keys"} {
		r.api("GET", path+"?page=1", "").is(t, 200, `"content":[`, `"totalElements"`)
		for _, bad := range []string{"page=0", "page=x", "page=-1", "size=0", "size=101", "size=99999999999999999999"} {
			name, _, _ := strings.Cut(bad, "=")
			r.api("GET", path+"?"+bad, "").is(t, 400, name)
		}
	}
	r.api("GET", "/api/models?page=1&size=1", "").is(t, 200, `"object":"list"`, `"page":{`)
}

func TestDryRunsAndExpectedVersions(t *testing.T) {
	r := startGateway(t, chatYAML(instance("m", simulator.DownURL)))
	r.api("PUT", types+"tts", `{"loadBalancer":"random"}`).is(t, 200)
	writes := []struct{ method, path, body string }{
		{"POST", types + "chat", `{"loadBalancer":"random"}`}, {"PUT", types + "chat", `{"loadBalancer":"random"}`}, {"DELETE", types + "chat", ""},
		{"POST", "/api/config/type/reset", ""}, {"POST", instAdd + "chat", `{"name":"n","baseUrl":"http://10.0.0.1"}`},
		{"PUT", instUp + "chat", `{"instanceId":"m@` + simulator.DownURL + `","instance":{"weight":9}}`},
		{"DELETE", "/api/config/instance/del/chat?modelName=m&baseUrl=" + simulator.DownURL, ""},
		{"POST", vers + "/rollback/1", ""}, {"POST", vers + "/apply/1", ""}, {"DELETE", vers + "/1", ""},
	}
	before := r.api("GET", vers+"/2", "").body
	for _, w := range writes {
		separator := "?"
		if strings.Contains(w.path, "?") {
			separator = "&"
		}
		r.api(w.method, w.path+separator+"dryRun=true", w.body).is(t, 200, `"dryRun":true`, `"changed":true`, `"summary":"`)
		r.api(w.method, w.path+separator+"dryRun=perhaps", w.body).is(t, 400, "dryRun")
		r.api(w.method, w.path, w.body, "If-Match", "1").is(t, 409)
		r.api(w.method, w.path, w.body, "If-Match", "first").is(t, 400, "If-Match")
	}
	r.api("POST", "/api/config/merge/backup?dryRun=true", "").is(t, 200, `"dryRun":true`, `"files":["00000001.json"`)
	r.api("POST", "/api/auth/keys?dryRun=true", `{"id":"k"}`).is(t, 200, `"dryRun":true`)
	r.api("POST", "/api/config/instance/circuit-breaker/chat?dryRun=true", `{"instanceId":"m@`+simulator.DownURL+`","state":"OPEN"}`).is(t, 200, `"state":"CLOSED"`)
	r.api("PUT", types+"chat?dryRun=true", `{"rateLimit":{"capacity":-1}}`).is(t, 400, "rateLimit.capacity")
	if after := r.api("GET", vers+"/2", "").body; after != before {
		t.Errorf("%s became %s", before, after)
	}
	r.api("GET", vers, "").is(t, 200, `"data":[1,2]`)
	if etag := r.api("GET", types+"chat", "").header.Get("Etag"); etag != `"2"` {
		t.Errorf("the tag is %s", etag)
	}
	r.api("PUT", types+"chat", `{"loadBalancer":"random"}`, "If-Match", `"2"`).is(t, 200, `"version":3`)
}

func TestModelListAndWhenModelsWereAdded(t *testing.T) {
	dir := t.TempDir()
	r := startWith(t, setup{dataDir: dir})
	r.api("POST", instAdd+"chat", `{"name":"shared","baseUrl":"http://10.0.0.1","adapter":"ollama"}`).is(t, 201)
	r.api("POST", instAdd+"embedding", `{"name":"shared","baseUrl":"http://10.0.0.1"}`).is(t, 201)
	before := r.api("GET", "/api/models", "").is(t, 200, `"object":"list"`, `"owned_by":"patchbay"`, `"service_type":"chat"`, `"adapter":"OllamaAdapter"`,
		`"service_type":"embedding"`, `"adapter":"OpenAIAdapter"`)
	unified := r.do("GET", "/v1/models", "").succeeds(t).body
	r.halt()
	r = startWith(t, setup{dataDir: dir})
	if after := r.api("GET", "/api/models", ""); after.body != before.body {
		t.Errorf("%s became %s", before.body, after.body)
	}
	if after := r.do("GET", "/v1/models", "").body; after != unified || strings.Count(after, `"shared"`) != 1 {
		t.Errorf("%s became %s", unified, after)
	}
}

func TestForcedBreakersAndExplanations(t *testing.T) {
	b, other := startBackend(t), startBackend(t)
	r := startGateway(t, poolYAML(b, other))
	explain := func() string { return r.api("GET", "/api/route/explain?service=chat&model=m", "").is(t, 200).body }
	force := func(url, state string) answer {
		return r.api("POST", "/api/config/instance/circuit-breaker/chat", fmt.Sprintf(`{"instanceId":"m@%s","state":%q}`, url, state))
	}
	// What is foretold is what happens, and asking changes nothing.
	for range 10 {
		type explained struct {
			Pick string `json:"pick"`
		}
		var x explained
		for range 3 {
			x = read[explained](t, r.api("GET", "/api/route/explain?service=chat&model=m", ""))
		}
		want := "nobody"
		for _, i := range r.instances("m") {
			if i.ID == x.Pick {
				want = i.Handle
			}
		}
		if got := r.chat(plainHi).succeeds(t).header.Get("X-Router-Instance"); got != want {
			t.Fatalf("%s was foretold, %s came", want, got)
		}
	}
	force(b.URL(), "open").is(t, 200, `"state":"OPEN"`, `"forced":"OPEN"`)
	if got := explain(); !strings.Contains(got, `"reason":"circuit breaker held open by an operator since `) || !strings.Contains(got, `"pick":"m@`+other.URL()) {
		t.Errorf("one is open: %s", got)
	}
	force(other.URL(), "OPEN").is(t, 200)
	refusal := r.chat(plainHi).failsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	if got := explain(); !strings.Contains(got, `"pick":null`) || !strings.Contains(got, `"code":"circuit_breaker_open"`) || !strings.Contains(string(refusal.Details), "circuit breaker held open") {
		t.Errorf("both are open: %s, and %s", got, refusal.Details)
	}
	force(b.URL(), "AUTO").is(t, 200, `"state":"CLOSED"`)
	r.chat(plainHi).succeeds(t)
	force(b.URL(), "broken").is(t, 400, "state")
	force("http://nowhere", "OPEN").is(t, 404, "instanceId")
	r.api("PUT", instUp+"chat", `{"instanceId":"m@`+b.URL()+`","instance":{"weight":0}}`).is(t, 200)
	if got := explain(); !strings.Contains(got, `"reason":"weight 0"`) {
		t.Errorf("no weight: %s", got)
	}
	r.api("GET", "/api/route/explain?service=chat&model=unknown&clientIp=10.1.1.1", "").is(t, 200, `"code":"service_unavailable"`, `"candidates":[]`, `"clientIp":"10.1.1.1"`)
	r.api("GET", "/api/route/explain?service=chat&model=m", "").is(t, 200, `"quota":{"enabled":false,"degraded":false,"degradedReason":"","failOpen":true}`)
	r.api("PUT", "/api/config/quota", `{"enabled":true,"failOpen":false}`).is(t, 200)
	r.api("GET", "/api/route/explain?service=chat&model=m", "").is(t, 200, `"quota":{"enabled":true,"degraded":false,"degradedReason":"","failOpen":false}`)
	for _, bad := range []string{"model=m", "service=chat", "service=video&model=m", "service=chat&model=m&clientIp=here"} {
		r.api("GET", "/api/route/explain?"+bad, "").is(t, 400)
	}
	if r.api("GET", vers, "").is(t, 200); r.Control.Version() != 2 {
		t.Errorf("forcing a breaker made version %d", r.Control.Version())
	}
}

func TestAuditLinesSayWhoDidWhatAndNoSecrets(t *testing.T) {
	r := startGateway(t, fmt.Sprintf("security: {enabled: true, tokens: [{name: ops, role: OPERATOR, token-sha256: %s}]}\n", hashOf("the-ops-token")))
	const secret = "sk-secret-of-backend"
	r.api("POST", instAdd+"chat", `{"name":"m","baseUrl":"http://10.0.0.1","apiKey":"`+secret+`"}`, "Authorization", "Bearer the-ops-token").is(t, 201)
	r.api("POST", instAdd+"chat", `{"name":"m","baseUrl":"http://10.0.0.1"}`).is(t, 401)
	log := r.logs.String()
	if countLines(log, `"logger":"audit"`, `"who":"ops"`, `"role":"OPERATOR"`, `"from":"127.0.0.1"`, `"what":"POST /api/config/instance/add/{serviceType}"`,
		`"version_before":1`, `"version_after":2`, `"status":201`, "+1 instance m@10.0.0.1") != 1 ||
		countLines(log, `"logger":"audit"`, `"status":401`, `"version_after":2`) != 1 {
		t.Errorf("the log is\n%s", log)
	}
	noneOf(t, log, secret, "the-ops-token")
	if got := r.api("GET", vers+"/2", "", "Authorization", "Bearer the-ops-token"); !strings.Contains(got.body, `"author":"ops"`) || !strings.Contains(got.body, `"apiKey":"****kend"`) {
		t.Error(got.body)
	}
}

func TestUnknownManagementPathsAndMethods(t *testing.T) {
	r := startGateway(t, "")
	r.api("GET", "/api/nothing", "").is(t, 404)
	r.api("GET", "/api/config/type/services/a/b", "").is(t, 404)
	if a := r.api("DELETE", "/api/models", "").is(t, 405); a.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("Allow: %s", a.header.Get("Allow"))
	}
	if a := r.api("POST", "/api/config/type/chat/models", "").is(t, 405); !strings.Contains(a.header.Get("Allow"), "GET") {
		t.Errorf("Allow: %s", a.header.Get("Allow"))
	}
	if a := r.do(http.MethodOptions, types+"chat", "", "Origin", "https://page.example"); a.status != 204 || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("a preflight: %d %v", a.status, a.header)
	}
}
