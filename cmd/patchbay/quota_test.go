package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// quotaEntry is an entry of GET /api/monitoring/quota/usage.
type quotaEntry struct {
	Dimensions   map[string]string `json:"dimensions"`
	Window       string            `json:"window"`
	WindowStart  time.Time         `json:"windowStart"`
	RequestCount int64             `json:"requestCount"`
	TokenCount   int64             `json:"tokenCount"`
}

// quotaAnswer is the envelope of the quota operations.
type quotaAnswer[T any] struct {
	Success   bool   `json:"success"`
	Message   string `json:"message"`
	ErrorCode string `json:"errorCode"`
	Data      T      `json:"data"`
}

func decodeQuota[T any](t *testing.T, answer reply) quotaAnswer[T] {
	t.Helper()
	var decoded quotaAnswer[T]
	if err := json.Unmarshal([]byte(answer.body), &decoded); err != nil {
		t.Fatalf("%v in %s", err, answer.body)
	}
	return decoded
}

// longAgo asks for all that was ever counted: no test depends on the minute at
// which it runs.
const longAgo = "/api/monitoring/quota/usage?from=2000-01-01T00:00:00Z&window=MINUTE"

// counted returns the requests and tokens of the matching entries.
func counted(t *testing.T, answer reply) (requests, tokens int64) {
	t.Helper()
	for _, entry := range decodeQuota[[]quotaEntry](t, answer.succeeds(t)).Data {
		requests, tokens = requests+entry.RequestCount, tokens+entry.TokenCount
	}
	return requests, tokens
}

func (r *rig) hasCounted(requests, tokens int64, query string) {
	r.t.Helper()
	gotRequests, gotTokens := counted(r.t, r.do(http.MethodGet, longAgo+query, ""))
	if gotRequests != requests || gotTokens != tokens {
		r.t.Errorf("%s: %d requests and %d tokens, want %d and %d", query, gotRequests, gotTokens, requests, tokens)
	}
}

const quotaOn = "quota: {enabled: true, flush-interval-seconds: 1}\n"

func TestQuotaCountsWhatReachesABackend(t *testing.T) {
	one := `"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`
	answer := `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` + one + `}`
	silent := strings.Replace(answer, ","+one, "", 1)
	for name, test := range map[string]struct {
		steps            []simulator.Step
		body             string
		yaml             string
		requests, tokens int64
		unsettled        int64
	}{
		"an answer":                  {steps: []simulator.Step{{Body: answer}}, requests: 1, tokens: 7},
		"an answer without usage":    {steps: []simulator.Step{{Body: silent}}, requests: 1, unsettled: 1},
		"a stream":                   {body: streamHi, steps: []simulator.Step{{UsageValue: `{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}`}}, requests: 1, tokens: 8},
		"a stream that breaks off":   {body: streamHi, steps: []simulator.Step{{Stop: simulator.StopReset, After: 2}}, requests: 1, unsettled: 1},
		"a second attempt":           {steps: []simulator.Step{{Status: 500}, {Body: answer}}, requests: 1, tokens: 7},
		"two attempts that fail":     {steps: []simulator.Step{{Status: 500}, {Status: 502}}, requests: 1, unsettled: 1},
		"a backend's refusal":        {steps: []simulator.Step{{Status: 422}}, requests: 1, unsettled: 1},
		"a request that is wrong":    {body: `{"model":"m"}`},
		"a model that nobody serves": {body: `{"model":"other","messages":[{"role":"user","content":"hi"}]}`},
		"a request over the limit":   {yaml: "services.chat.rate-limit: {enabled: true, capacity: 1, refill-rate: 1}\n", requests: 1, tokens: 7},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := startBackend(t), startBackend(t)
			if len(test.steps) > 0 {
				a.Script(test.steps[0])
				b.Script(test.steps[len(test.steps)-1])
			}
			r := startGateway(t, strings.Replace(poolYAML(a, b), "chat: {", "chat: {load-balancer: round-robin, ", 1)+quotaOn)
			body := test.body
			if body == "" {
				body = plainHi
			}
			if test.yaml != "" {
				r = startGateway(t, strings.Replace(poolYAML(a), "chat: {", "chat: {rate-limit: {enabled: true, capacity: 1, refill-rate: 1}, ", 1)+quotaOn)
				a.Script(simulator.Step{Body: answer})
				r.chat(body).succeeds(t)
				if got := r.chat(body); got.status != http.StatusTooManyRequests {
					t.Fatalf("%d", got.status)
				}
			} else {
				r.chat(body)
			}
			r.hasCounted(test.requests, test.tokens, "")
			if got := r.Ledger.Stats().Unsettled; got != test.unsettled {
				t.Errorf("%d unsettled, want %d", got, test.unsettled)
			}
		})
	}
}

// Services that are not counted in tokens cost none, and that is known as soon as
// the answer is complete.
func TestQuotaOfServicesWithoutTokens(t *testing.T) {
	const picture = `{"created":1,"data":[{"url":"http://pictures.test/1.png"}]}`
	sound, form := upload("file", "a.wav", "audio/wav", "RIFF"), []part{field("model", "m"), field("prompt", "p"), upload("image", "a.png", "image/png", "PNG")}
	for name, test := range map[string]struct {
		step      simulator.Step
		ask       func(*rig) reply
		tokens    int64
		unsettled int64
	}{
		"speech":        {simulator.Step{}, func(r *rig) reply { return r.post("/v1/audio/speech", `{"model":"m","input":"hi","voice":"v"}`) }, 0, 0},
		"transcription": {simulator.Step{Body: `{"text":"hi"}`}, func(r *rig) reply { return r.postForm(transcriptions, field("model", "m"), sound) }, 0, 0},
		"with tokens":   {simulator.Step{Body: `{"text":"hi","usage":{"total_tokens":9}}`}, func(r *rig) reply { return r.postForm(transcriptions, field("model", "m"), sound) }, 9, 0},
		"picture":       {simulator.Step{Body: picture}, func(r *rig) reply { return r.post("/v1/images/generations", `{"model":"m","prompt":"p"}`) }, 0, 0},
		"edit":          {simulator.Step{Body: picture}, func(r *rig) reply { return r.postForm("/v1/images/edits", form...) }, 0, 0},
		"ranking": {simulator.Step{Body: `{"results":[{"index":0,"score":1}]}`}, func(r *rig) reply {
			return r.post("/v1/rerank", `{"model":"m","query":"q","documents":["a"]}`)
		}, 0, 0},
		"vectors":                {simulator.Step{Body: `{"data":[{"embedding":[1]}]}`}, func(r *rig) reply { return r.post("/v1/embeddings", `{"model":"m","input":"a"}`) }, 0, 1},
		"speech that is refused": {simulator.Step{Status: 422}, func(r *rig) reply { return r.post("/v1/audio/speech", `{"model":"m","input":"hi","voice":"v"}`) }, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBackend(t, test.step)
			r := startGateway(t, everyService(b)+quotaOn)
			test.ask(r)
			r.hasCounted(1, test.tokens, "")
			if got := r.Ledger.Stats().Unsettled; got != test.unsettled {
				t.Errorf("%d unsettled, want %d", got, test.unsettled)
			}
		})
	}
	t.Run("speech that breaks off", func(t *testing.T) {
		b := startBackend(t, simulator.Step{Stop: simulator.StopReset, AfterBytes: 2000})
		r := startGateway(t, everyService(b)+quotaOn)
		response := r.open(deadline(t), http.MethodPost, "/v1/audio/speech", `{"model":"m","input":"a long text that takes its time to be said","voice":"v"}`)
		_, err := io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		eventually(t, "it is settled", func() bool { return r.Ledger.Stats().Unsettled == 1 })
		if err == nil {
			t.Error("the answer did not break off")
		}
	})
}

func TestQuotaDimensions(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, poolYAML(b)+quotaOn)
	with := func(user string) string {
		return strings.Replace(plainHi, `"model"`, `"user":"`+user+`","model"`, 1)
	}
	r.chat(with("ann"), "X-Tenant-Id", "acme").succeeds(t)
	r.chat(with("ann"), "X-Tenant-Id", "acme").succeeds(t)
	r.chat(with("bob"), "X-Tenant-Id", "acme").succeeds(t)
	r.chat(plainHi).succeeds(t)
	for query, want := range map[string]int64{
		"": 4, "&tenantId=acme": 3, "&userId=ann": 2, "&userId=bob&tenantId=acme": 1, "&serviceType=chat": 4, "&serviceType=embedding": 0,
		"&model=m": 4, "&model=%25": 0, "&apiKeyId=k": 0, "&tenantId=": 4,
	} {
		if requests, _ := counted(t, r.do(http.MethodGet, longAgo+query, "")); requests != want {
			t.Errorf("%s: %d, want %d", query, requests, want)
		}
	}
	entries := decodeQuota[[]quotaEntry](t, r.do(http.MethodGet, "/api/monitoring/quota/usage?userId=bob", "")).Data
	if len(entries) != 4 {
		t.Fatalf("%v", entries)
	}
	for i, window := range []string{"MINUTE", "HOUR", "DAY", "MONTH"} {
		e := entries[i]
		if e.Window != window || e.RequestCount != 1 || e.TokenCount == 0 || len(e.Dimensions) != 5 || e.Dimensions["serviceType"] != "chat" || e.Dimensions["apiKeyId"] != "" {
			t.Errorf("%+v", e)
		}
	}
	if start := entries[3].WindowStart; start.Day() != 1 || start.Location() != time.UTC {
		t.Errorf("the month began %v", start)
	}
}

// TestQuotaUsageIsPagedOrStreamed: the list of what was counted can be long. Its
// pages add up to it, and the whole of it is written while it is read.
func TestQuotaUsageIsPagedOrStreamed(t *testing.T) {
	r, _ := startOne(t)
	const path, users = "/api/monitoring/quota/usage", 500
	if all := decodeQuota[[]quotaEntry](t, r.do(http.MethodGet, path, "").succeeds(t)); all.Data == nil || len(all.Data) != 0 {
		t.Errorf("while the ledger is off: %+v", all)
	}
	r.do(http.MethodPut, "/api/config/quota", `{"enabled":true,"windows":["DAY","MONTH"]}`).succeeds(t)
	for n := range users {
		var ticket quota.Ticket
		if err := r.Ledger.Admit(&ticket, quota.Subject{User: fmt.Append(nil, "u", n), Service: schema.Chat, Model: "m"}, time.Now()); err != nil {
			t.Fatal(err)
		}
		ticket.Settle(schema.Usage{Known: true, Total: 2})
	}
	whole := r.do(http.MethodGet, path, "").succeeds(t)
	all := decodeQuota[[]quotaEntry](t, whole)
	if !all.Success || all.Message != "What was counted." || len(all.Data) != 2*users {
		t.Fatalf("%d entries, %q", len(all.Data), all.Message)
	}
	if whole.header.Get("Content-Length") != "" || whole.header.Get("Content-Type") != "application/json" {
		t.Errorf("it was whole before it was sent: %v", whole.header)
	}
	type page struct {
		Content []quotaEntry   `json:"content"`
		Page    map[string]int `json:"page"`
	}
	var paged []quotaEntry
	for number := 1; number <= 2*users/100; number++ {
		got := decodeQuota[page](t, r.do(http.MethodGet, fmt.Sprintf("%s?page=%d&size=100", path, number), "").succeeds(t)).Data
		if want := map[string]int{"number": number, "size": 100, "totalElements": 2 * users, "totalPages": 2 * users / 100}; !maps.Equal(got.Page, want) {
			t.Errorf("%v", got.Page)
		}
		paged = append(paged, got.Content...)
	}
	if fmt.Sprint(paged) != fmt.Sprint(all.Data) {
		t.Error("the pages are not the list")
	}
	if last := decodeQuota[page](t, r.do(http.MethodGet, path+"?page=11&size=100", "").succeeds(t)).Data; last.Content == nil || len(last.Content) != 0 {
		t.Errorf("%+v", last)
	}
	if got := r.do(http.MethodGet, path+"?size=101", ""); got.status != http.StatusBadRequest {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestQuotaCountsByTheKeyWhereKeysAreRequired(t *testing.T) {
	hash := func(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }
	b := startBackend(t)
	r := startGateway(t, poolYAML(b)+quotaOn+fmt.Sprintf(`security:
  enabled: true
  tokens: [{name: v, role: VIEWER, token-sha256: %s}, {name: o, role: OPERATOR, token-sha256: %s}]
  keys: [{id: team-a, tenant: acme, key-sha256: %s}]
`, hash("viewer"), hash("operator"), hash("key")))
	r.chat(plainHi, "Authorization", "Bearer key", "X-Tenant-Id", "somebody-else").succeeds(t)
	if got := r.chat(plainHi, "Authorization", "Bearer wrong"); got.status != http.StatusUnauthorized {
		t.Errorf("%d", got.status)
	}
	for token, want := range map[string][2]int{"": {401, 401}, "viewer": {200, 403}, "operator": {200, 200}} {
		for _, path := range []string{"/api/config/quota", "/api/monitoring/quota/status", "/api/monitoring/quota/usage"} {
			if got := r.do(http.MethodGet, path, "", "Authorization", "Bearer "+token); got.status != want[0] {
				t.Errorf("%q reads %s: %d", token, path, got.status)
			}
		}
		if got := r.do(http.MethodPut, "/api/config/quota", `{"failOpen":true}`, "Authorization", "Bearer "+token); got.status != want[1] {
			t.Errorf("%q writes: %d", token, got.status)
		}
	}
	requests, tokens := counted(t, r.do(http.MethodGet, longAgo+"&tenantId=acme&apiKeyId=team-a", "", "Authorization", "Bearer viewer"))
	all, _ := counted(t, r.do(http.MethodGet, longAgo, "", "Authorization", "Bearer viewer"))
	if requests != 1 || tokens == 0 || all != 1 {
		t.Errorf("%d requests, %d tokens, %d in all", requests, tokens, all)
	}
}

func TestQuotaOffTouchesNothing(t *testing.T) {
	b := startBackend(t)
	dir := t.TempDir()
	r := startWith(t, setup{yaml: poolYAML(b) + "quota: {distributed: {enabled: true}}\nredis: {url: 'redis://127.0.0.1:1/0'}\nstore: {url: 'postgres://127.0.0.1:1/x'}\n", dataDir: dir})
	r.chat(plainHi).succeeds(t)
	usage := decodeQuota[[]quotaEntry](t, r.do(http.MethodGet, "/api/monitoring/quota/usage", "").succeeds(t))
	if usage.Data == nil || len(usage.Data) != 0 || usage.Message != "配额账本未启用" || !usage.Success {
		t.Errorf("%+v", usage)
	}
	status := decodeQuota[map[string]any](t, r.do(http.MethodGet, "/api/monitoring/quota/status", "").succeeds(t)).Data
	if status["enabled"] != false || status["degraded"] != false || status["degradedReason"] != "" {
		t.Errorf("%v", status)
	}
	if got := r.do(http.MethodGet, "/api/monitoring/quota/usage?window=WEEK", ""); got.status != http.StatusBadRequest {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, name := range []string{"quota", "quota.db"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}

func TestQuotaEdits(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, poolYAML(b))
	put := func(body string) (int, quotaAnswer[map[string]any]) {
		answer := r.do(http.MethodPut, "/api/config/quota", body)
		return answer.status, decodeQuota[map[string]any](t, answer)
	}
	for body, want := range map[string]string{
		``: "INVALID_REQUEST", `null`: "INVALID_REQUEST", `{}`: "INVALID_REQUEST", `{"enabled":null,"windows":null}`: "INVALID_REQUEST",
		`{"enabled":"yes"}`: "INVALID_REQUEST", `{"windows":["WEEK"]}`: "INVALID_REQUEST", `{"windows":"DAY"}`: "INVALID_REQUEST", `[]`: "INVALID_REQUEST", `{`: "INVALID_REQUEST",
		`{"enabled":true,"distributedEnabled":true}`: "RESTART_REQUIRED", `{"flushIntervalSeconds":0}`: "RESTART_REQUIRED", `{"retention":{}}`: "RESTART_REQUIRED",
		`{"distributedKeyPrefix":"x","distributedTimeoutMs":1,"distributedDegradeToLocal":false}`: "RESTART_REQUIRED",
	} {
		status, answer := put(body)
		if status != http.StatusBadRequest || answer.Success || answer.ErrorCode != want || answer.Data != nil {
			t.Errorf("%s: %d %+v", body, status, answer)
		}
		if want == "RESTART_REQUIRED" {
			for _, field := range []string{"distributedEnabled", "flushIntervalSeconds", "retention", "distributedKeyPrefix", "distributedTimeoutMs"} {
				if strings.Contains(body, field) && !strings.Contains(answer.Message, field) {
					t.Errorf("%s is not named in %q", field, answer.Message)
				}
			}
		}
	}
	if r.Ledger.On() {
		t.Fatal("a refused edit was applied")
	}
	status, answer := put(`{"enabled":true,"failOpen":false,"windows":["month","DAY","day"],"retention":null}`)
	if status != http.StatusOK || answer.Data["enabled"] != true || answer.Data["failOpen"] != false || fmt.Sprint(answer.Data["windows"]) != "[MONTH DAY]" {
		t.Errorf("%d %+v", status, answer)
	}
	r.chat(plainHi).succeeds(t)
	got := decodeQuota[map[string]any](t, r.do(http.MethodGet, "/api/config/quota", ""))
	if fmt.Sprint(got.Data) != fmt.Sprint(answer.Data) || got.Data["backendName"] != "local" || got.Data["flushIntervalSeconds"] != 60.0 {
		t.Errorf("%v", got.Data)
	}
	if entries := decodeQuota[[]quotaEntry](t, r.do(http.MethodGet, "/api/monitoring/quota/usage", "")).Data; len(entries) != 2 {
		t.Errorf("%v", entries)
	}
	r.Ledger.Reload(r.Document.Quota) // what reading the file again does
	if r.Ledger.On() || len(r.Ledger.Settings().Windows) != 4 || !r.Ledger.Settings().FailOpen {
		t.Errorf("an edit outlives a reload: %+v", r.Ledger.Settings())
	}
}

func TestQuotaLedgerThatFailsClosed(t *testing.T) {
	b := startBackend(t)
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "quota"), "in the way of the journal")
	r := startWith(t, setup{yaml: poolYAML(b) + "quota: {enabled: true, fail-open: false}\n", dataDir: dir})
	answer := r.chat(plainHi)
	answer.failsWith(t, http.StatusServiceUnavailable, "service_unavailable", "quota_ledger_unavailable", "")
	if answer.header.Get("Retry-After") != "1" || b.Stats().Received != 0 {
		t.Errorf("%v, %d requests reached the backend", answer.header, b.Stats().Received)
	}
	status := decodeQuota[map[string]any](t, r.do(http.MethodGet, "/api/monitoring/quota/status", "")).Data
	if status["degraded"] != true || !strings.HasPrefix(fmt.Sprint(status["degradedReason"]), "quota-journal-unavailable") {
		t.Errorf("%v", status)
	}
	r.do(http.MethodPut, "/api/config/quota", `{"failOpen":true}`).succeeds(t)
	r.chat(plainHi).succeeds(t)
	r.do(http.MethodPut, "/api/config/quota", `{"failOpen":false}`).succeeds(t)
	if err := os.Remove(filepath.Join(dir, "quota")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the journal is repaired", func() bool { return r.chat(plainHi).status == http.StatusOK })
	if requests, _ := counted(t, r.do(http.MethodGet, longAgo, "")); requests != 2 {
		t.Errorf("%d requests are counted", requests)
	}
}

// What the ledger refuses has taken nothing from any limit.
func TestLedgerRefusalCostsNoToken(t *testing.T) {
	for _, algorithm := range []string{"token-bucket", "leaky-bucket", "sliding-window", "warm-up"} {
		for _, scope := range []string{"service", "model", "instance"} {
			t.Run(algorithm+" "+scope, func(t *testing.T) {
				b := startBackend(t)
				dir := t.TempDir()
				mustWrite(t, filepath.Join(dir, "quota"), "in the way of the journal")
				r := startWith(t, setup{dataDir: dir, yaml: policyYAML("rate-limit: {capacity: 3, refill-rate: 1, algorithm: "+algorithm+", scope: "+scope+"}, "+quietOnes, instance("m", b.URL())) +
					"quota: {enabled: true, fail-open: false}\n"})
				for range 5 {
					answer := r.chat(plainHi)
					answer.failsWith(t, http.StatusServiceUnavailable, "service_unavailable", "quota_ledger_unavailable", "")
					if got := answer.header.Get("X-Ratelimit-Remaining-Requests"); scope != "instance" && got == "0" {
						t.Error("nothing is said to remain")
					}
				}
			})
		}
	}
}

// watcher is a client that looks at the ledger whenever it gets something.
type watcher struct {
	header http.Header
	tokens func() int64
	seen   map[string]int64 // what was counted when each piece arrived
}

func (w *watcher) Header() http.Header { return w.header }

func (w *watcher) WriteHeader(int) {}

func (w *watcher) Write(p []byte) (int, error) {
	w.seen[string(p)] = w.tokens()
	return len(p), nil
}

// TestQuotaIsSettledBeforeTheLastByte: a gateway that dies after the last byte
// has counted all of the request.
func TestQuotaIsSettledBeforeTheLastByte(t *testing.T) {
	r, _ := startOne(t)
	r.do(http.MethodPut, "/api/config/quota", `{"enabled":true}`).succeeds(t)
	for body, last := range map[string]string{plainHi: `"total_tokens"`, streamHi: "data: [DONE]"} {
		before := r.tokens()
		w := &watcher{header: http.Header{}, seen: map[string]int64{}, tokens: r.tokens}
		r.Server.Handler.ServeHTTP(w, r.request(deadline(t), http.MethodPost, "/v1/chat/completions", body))
		found := false
		for piece, tokens := range w.seen {
			if strings.Contains(piece, last) {
				found = true
				if tokens <= before || tokens != r.tokens() {
					t.Errorf("%s: %d tokens are counted when the last byte leaves, %d before and %d after", last, tokens, before, r.tokens())
				}
			}
		}
		if !found {
			t.Errorf("no %s in %v", last, w.seen)
		}
	}
}

// TestQuotaOfEventsIsSettledBeforeTheLastOne: the same for the streams of other
// services, whose last event is the backend's own.
func TestQuotaOfEventsIsSettledBeforeTheLastOne(t *testing.T) {
	everyWish(t, func(t *testing.T, w wish) {
		step := eventStep(w.first + w.last)
		step.Stop, step.AfterBytes = simulator.StopStall, len(w.first+w.last) // the connection stays open behind it
		r, _ := startService(t, step)
		r.do(http.MethodPut, "/api/config/quota", `{"enabled":true}`).succeeds(t)
		body, contentType := w.asked(t)
		response := r.open(deadline(t), http.MethodPost, w.path, body, "Content-Type", contentType)
		defer response.Body.Close()
		if _, err := io.CopyN(io.Discard, response.Body, int64(len(w.first+w.last))); err != nil {
			t.Fatal(err)
		}
		if got := r.tokens(); got != int64(w.tokens) {
			t.Errorf("%d tokens are counted when the client has the last event, want %v", got, w.tokens)
		}
	})
}

func (r *rig) tokens() int64 {
	_, tokens := counted(r.t, r.do(http.MethodGet, longAgo, ""))
	return tokens
}

func TestQuotaSurvivesAStop(t *testing.T) {
	b := startBackend(t)
	dir := t.TempDir()
	yaml := poolYAML(b) + "quota: {enabled: true}\n"
	r := startWith(t, setup{yaml: yaml, dataDir: dir})
	r.chat(plainHi).succeeds(t)
	r.chat(streamHi).succeeds(t)
	_, tokens := counted(t, r.do(http.MethodGet, longAgo, ""))
	r.halt()
	left, _ := filepath.Glob(filepath.Join(dir, "quota", "*"))
	if len(left) != 0 {
		t.Errorf("the journal still has %v", left)
	}
	again := startWith(t, setup{yaml: yaml, dataDir: dir})
	again.hasCounted(2, tokens, "")
}
