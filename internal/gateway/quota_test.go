package gateway_test

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

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestQuotaCountsWhatReachesABackend(t *testing.T) {
	one := `"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`
	answer := `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` + one + `}`
	silent := strings.Replace(answer, ","+one, "", 1)
	for name, test := range map[string]struct {
		steps            []simulator.Step
		body             string
		limited          bool
		requests, tokens int64
		unsettled        int64
	}{
		"an answer":                  {steps: []simulator.Step{{Body: answer}}, requests: 1, tokens: 7},
		"an answer without usage":    {steps: []simulator.Step{{Body: silent}}, requests: 1, unsettled: 1},
		"a stream":                   {body: gatewaytest.StreamHi, steps: []simulator.Step{{UsageValue: `{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}`}}, requests: 1, tokens: 8},
		"a stream that breaks off":   {body: gatewaytest.StreamHi, steps: []simulator.Step{{Stop: simulator.StopReset, After: 2}}, requests: 1, unsettled: 1},
		"a second attempt":           {steps: []simulator.Step{{Status: 500}, {Body: answer}}, requests: 1, tokens: 7},
		"two attempts that fail":     {steps: []simulator.Step{{Status: 500}, {Status: 502}}, requests: 1, unsettled: 1},
		"a backend's refusal":        {steps: []simulator.Step{{Status: 422}}, requests: 1, unsettled: 1},
		"a request that is wrong":    {body: `{"model":"m"}`},
		"a model that nobody serves": {body: `{"model":"other","messages":[{"role":"user","content":"hi"}]}`},
		"a request over the limit":   {limited: true, requests: 30, tokens: 30 * 7},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			if len(test.steps) > 0 {
				a.Script(test.steps[0])
				b.Script(test.steps[len(test.steps)-1])
			}
			r := gatewaytest.Start(t, strings.Replace(gatewaytest.PoolYAML(a, b), "chat: {", "chat: {load-balancer: round-robin, ", 1)+gatewaytest.QuotaOn)
			body := test.body
			if body == "" {
				body = gatewaytest.PlainHi
			}
			if test.limited {
				r = gatewaytest.Start(t, strings.Replace(gatewaytest.PoolYAML(a), "chat: {", "chat: {rate-limit: {algorithm: sliding-window, capacity: 30, refill-rate: 1}, ", 1)+gatewaytest.QuotaOn)
				a.ScriptForever(simulator.Step{Body: answer})
				for range 30 {
					r.Chat(body).Succeeds(t)
				}
				if got := r.Chat(body); got.Status != http.StatusTooManyRequests {
					t.Fatalf("%d", got.Status)
				}
			} else {
				r.Chat(body)
			}
			r.HasCounted(test.requests, test.tokens, "")
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
	sound, form := gatewaytest.Upload("file", "a.wav", "audio/wav", "RIFF"), []gatewaytest.Part{gatewaytest.Field("model", "m"), gatewaytest.Field("prompt", "p"), gatewaytest.Upload("image", "a.png", "image/png", "PNG")}
	for name, test := range map[string]struct {
		step      simulator.Step
		ask       func(*gatewaytest.Gateway) gatewaytest.Reply
		tokens    int64
		unsettled int64
	}{
		"speech": {simulator.Step{}, func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Post("/v1/audio/speech", `{"model":"m","input":"hi","voice":"v"}`)
		}, 0, 0},
		"transcription": {simulator.Step{Body: `{"text":"hi"}`}, func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.PostForm(gatewaytest.Transcriptions, gatewaytest.Field("model", "m"), sound)
		}, 0, 0},
		"with tokens": {simulator.Step{Body: `{"text":"hi","usage":{"total_tokens":9}}`}, func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.PostForm(gatewaytest.Transcriptions, gatewaytest.Field("model", "m"), sound)
		}, 9, 0},
		"picture": {simulator.Step{Body: picture}, func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Post("/v1/images/generations", `{"model":"m","prompt":"p"}`)
		}, 0, 0},
		"edit": {simulator.Step{Body: picture}, func(r *gatewaytest.Gateway) gatewaytest.Reply { return r.PostForm("/v1/images/edits", form...) }, 0, 0},
		"ranking": {simulator.Step{Body: `{"results":[{"index":0,"score":1}]}`}, func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Post("/v1/rerank", `{"model":"m","query":"q","documents":["a"]}`)
		}, 0, 0},
		"vectors": {simulator.Step{Body: `{"data":[{"embedding":[1]}]}`}, func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Post("/v1/embeddings", `{"model":"m","input":"a"}`)
		}, 0, 1},
		"speech that is refused": {simulator.Step{Status: 422}, func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Post("/v1/audio/speech", `{"model":"m","input":"hi","voice":"v"}`)
		}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := gatewaytest.StartBackend(t, test.step)
			r := gatewaytest.Start(t, gatewaytest.EveryService(b)+gatewaytest.QuotaOn)
			test.ask(r)
			r.HasCounted(1, test.tokens, "")
			if got := r.Ledger.Stats().Unsettled; got != test.unsettled {
				t.Errorf("%d unsettled, want %d", got, test.unsettled)
			}
		})
	}
	t.Run("speech that breaks off", func(t *testing.T) {
		b := gatewaytest.StartBackend(t, simulator.Step{Stop: simulator.StopReset, AfterBytes: 2000})
		r := gatewaytest.Start(t, gatewaytest.EveryService(b)+gatewaytest.QuotaOn)
		response := r.Open(gatewaytest.Deadline(t), http.MethodPost, "/v1/audio/speech", `{"model":"m","input":"a long text that takes its time to be said","voice":"v"}`)
		_, err := io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		gatewaytest.Eventually(t, "it is settled", func() bool { return r.Ledger.Stats().Unsettled == 1 })
		if err == nil {
			t.Error("the answer did not break off")
		}
	})
}

func TestQuotaDimensions(t *testing.T) {
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.QuotaOn)
	with := func(user string) string {
		return strings.Replace(gatewaytest.PlainHi, `"model"`, `"user":"`+user+`","model"`, 1)
	}
	r.Chat(with("ann"), "X-Tenant-Id", "acme").Succeeds(t)
	r.Chat(with("ann"), "X-Tenant-Id", "acme").Succeeds(t)
	r.Chat(with("bob"), "X-Tenant-Id", "acme").Succeeds(t)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	for query, want := range map[string]int64{
		"": 4, "&tenantId=acme": 3, "&userId=ann": 2, "&userId=bob&tenantId=acme": 1, "&serviceType=chat": 4, "&serviceType=embedding": 0,
		"&model=m": 4, "&model=%25": 0, "&apiKeyId=k": 0, "&tenantId=": 4,
	} {
		if requests, _ := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo+query, "") }); requests != want {
			t.Errorf("%s: %d, want %d", query, requests, want)
		}
	}
	entries := gatewaytest.DecodeQuota[[]gatewaytest.QuotaEntry](t, r.Do(http.MethodGet, "/api/monitoring/quota/usage?userId=bob", "")).Data
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

func TestUsageOfARangeThatEndsBeforeItBeginsIsEmpty(t *testing.T) {
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(gatewaytest.StartBackend(t))+gatewaytest.QuotaOn)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	const path = "/api/monitoring/quota/usage?window=DAY&from=%s&to=%s"
	early, late := "2000-01-01T00:00:00Z", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	if requests, _ := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, fmt.Sprintf(path, early, late), "") }); requests != 1 {
		t.Errorf("%d requests in the range", requests)
	}
	if body := r.Do(http.MethodGet, fmt.Sprintf(path, late, early), "").Succeeds(t).Body; !strings.Contains(body, `"data":[]`) {
		t.Errorf("the range that ends before it begins: %s", body)
	}
}

// TestQuotaUsageIsPagedOrStreamed: the list of what was counted can be long. Its
// pages add up to it, and the whole of it is written while it is read.
func TestQuotaUsageIsPagedOrStreamed(t *testing.T) {
	r, _ := gatewaytest.StartOne(t)
	const users = 500
	// Without a time the list has the windows that are open, and at midnight others are.
	path := "/api/monitoring/quota/usage?from=" + time.Now().AddDate(0, -2, 0).UTC().Format(time.RFC3339)
	if all := gatewaytest.DecodeQuota[[]gatewaytest.QuotaEntry](t, r.Do(http.MethodGet, path, "").Succeeds(t)); all.Data == nil || len(all.Data) != 0 {
		t.Errorf("while the ledger is off: %+v", all)
	}
	r.Do(http.MethodPut, "/api/config/quota", `{"enabled":true,"windows":["DAY","MONTH"]}`).Succeeds(t)
	for n := range users {
		var ticket quota.Ticket
		if err := r.Ledger.Admit(&ticket, quota.Subject{User: fmt.Append(nil, "u", n), Service: schema.Chat, Model: "m"}, time.Now()); err != nil {
			t.Fatal(err)
		}
		ticket.Settle(schema.Usage{Known: true, Total: 2})
	}
	whole := r.Do(http.MethodGet, path, "").Succeeds(t)
	all := gatewaytest.DecodeQuota[[]gatewaytest.QuotaEntry](t, whole)
	if !all.Success || all.Message != "What was counted." || len(all.Data) != 2*users {
		t.Fatalf("%d entries, %q", len(all.Data), all.Message)
	}
	if whole.Header.Get("Content-Length") != "" || whole.Header.Get("Content-Type") != "application/json" {
		t.Errorf("it was whole before it was sent: %v", whole.Header)
	}
	type page struct {
		Content []gatewaytest.QuotaEntry `json:"content"`
		Page    map[string]int           `json:"page"`
	}
	var paged []gatewaytest.QuotaEntry
	for number := 1; number <= 2*users/100; number++ {
		got := gatewaytest.DecodeQuota[page](t, r.Do(http.MethodGet, fmt.Sprintf("%s&page=%d&size=100", path, number), "").Succeeds(t)).Data
		if want := map[string]int{"number": number, "size": 100, "totalElements": 2 * users, "totalPages": 2 * users / 100}; !maps.Equal(got.Page, want) {
			t.Errorf("%v", got.Page)
		}
		paged = append(paged, got.Content...)
	}
	if fmt.Sprint(paged) != fmt.Sprint(all.Data) {
		t.Error("the pages are not the list")
	}
	if last := gatewaytest.DecodeQuota[page](t, r.Do(http.MethodGet, path+"&page=11&size=100", "").Succeeds(t)).Data; last.Content == nil || len(last.Content) != 0 {
		t.Errorf("%+v", last)
	}
	if got := r.Do(http.MethodGet, path+"&size=101", ""); got.Status != http.StatusBadRequest {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

func TestQuotaCountsByTheKeyWhereKeysAreRequired(t *testing.T) {
	hash := func(secret string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(secret))) }
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.QuotaOn+fmt.Sprintf(`security:
  enabled: true
  tokens: [{name: v, role: VIEWER, token-sha256: %s}, {name: o, role: OPERATOR, token-sha256: %s}]
  keys: [{id: team-a, tenant: acme, key-sha256: %s}]
`, hash("viewer"), hash("operator"), hash("key")))
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer key", "X-Tenant-Id", "somebody-else").Succeeds(t)
	if got := r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer wrong"); got.Status != http.StatusUnauthorized {
		t.Errorf("%d", got.Status)
	}
	for token, want := range map[string][2]int{"": {401, 401}, "viewer": {200, 403}, "operator": {200, 200}} {
		for _, path := range []string{"/api/config/quota", "/api/monitoring/quota/status", "/api/monitoring/quota/usage"} {
			if got := r.Do(http.MethodGet, path, "", "Authorization", "Bearer "+token); got.Status != want[0] {
				t.Errorf("%q reads %s: %d", token, path, got.Status)
			}
		}
		if got := r.Do(http.MethodPut, "/api/config/quota", `{"failOpen":true}`, "Authorization", "Bearer "+token); got.Status != want[1] {
			t.Errorf("%q writes: %d", token, got.Status)
		}
	}
	requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
		return r.Do(http.MethodGet, gatewaytest.LongAgo+"&tenantId=acme&apiKeyId=team-a", "", "Authorization", "Bearer viewer")
	})
	all, _ := gatewaytest.Counted(t, func() gatewaytest.Reply {
		return r.Do(http.MethodGet, gatewaytest.LongAgo, "", "Authorization", "Bearer viewer")
	})
	if requests != 1 || tokens == 0 || all != 1 {
		t.Errorf("%d requests, %d tokens, %d in all", requests, tokens, all)
	}
}

func TestQuotaOffTouchesNothing(t *testing.T) {
	b := gatewaytest.StartBackend(t)
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.PoolYAML(b) + "quota: {distributed: {enabled: true}}\nredis: {url: 'redis://127.0.0.1:1/0'}\nstore: {url: 'postgres://127.0.0.1:1/x'}\n", DataDir: dir})
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	usage := gatewaytest.DecodeQuota[[]gatewaytest.QuotaEntry](t, r.Do(http.MethodGet, "/api/monitoring/quota/usage", "").Succeeds(t))
	if usage.Data == nil || len(usage.Data) != 0 || usage.Message != "配额账本未启用" || !usage.Success {
		t.Errorf("%+v", usage)
	}
	status := gatewaytest.DecodeQuota[map[string]any](t, r.Do(http.MethodGet, "/api/monitoring/quota/status", "").Succeeds(t)).Data
	if status["enabled"] != false || status["degraded"] != false || status["degradedReason"] != "" {
		t.Errorf("%v", status)
	}
	if got := r.Do(http.MethodGet, "/api/monitoring/quota/usage?window=WEEK", ""); got.Status != http.StatusBadRequest {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	for _, name := range []string{"quota", "quota.db"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}

func TestQuotaEdits(t *testing.T) {
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b))
	put := func(body string) (int, gatewaytest.QuotaAnswer[map[string]any]) {
		answer := r.Do(http.MethodPut, "/api/config/quota", body)
		return answer.Status, gatewaytest.DecodeQuota[map[string]any](t, answer)
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
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	got := gatewaytest.DecodeQuota[map[string]any](t, r.Do(http.MethodGet, "/api/config/quota", ""))
	if fmt.Sprint(got.Data) != fmt.Sprint(answer.Data) || got.Data["backendName"] != "local" || got.Data["flushIntervalSeconds"] != 60.0 {
		t.Errorf("%v", got.Data)
	}
	if entries := gatewaytest.DecodeQuota[[]gatewaytest.QuotaEntry](t, r.Do(http.MethodGet, "/api/monitoring/quota/usage", "")).Data; len(entries) != 2 {
		t.Errorf("%v", entries)
	}
	r.Ledger.Reload(r.Document.Quota) // what reading the file again does
	if r.Ledger.On() || len(r.Ledger.Settings().Windows) != 4 || !r.Ledger.Settings().FailOpen {
		t.Errorf("an edit outlives a reload: %+v", r.Ledger.Settings())
	}
}

func TestQuotaLedgerThatFailsClosed(t *testing.T) {
	b := gatewaytest.StartBackend(t)
	dir := t.TempDir()
	gatewaytest.WriteFile(t, filepath.Join(dir, "quota"), "in the way of the journal")
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.PoolYAML(b) + "quota: {enabled: true, fail-open: false}\n", DataDir: dir})
	answer := r.Chat(gatewaytest.PlainHi)
	answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "quota_ledger_unavailable", "")
	if answer.Header.Get("Retry-After") != "1" || b.Stats().Received != 0 {
		t.Errorf("%v, %d requests reached the backend", answer.Header, b.Stats().Received)
	}
	status := gatewaytest.DecodeQuota[map[string]any](t, r.Do(http.MethodGet, "/api/monitoring/quota/status", "")).Data
	if status["degraded"] != true || !strings.HasPrefix(fmt.Sprint(status["degradedReason"]), "quota-journal-unavailable") {
		t.Errorf("%v", status)
	}
	r.Do(http.MethodPut, "/api/config/quota", `{"failOpen":true}`).Succeeds(t)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Do(http.MethodPut, "/api/config/quota", `{"failOpen":false}`).Succeeds(t)
	if err := os.Remove(filepath.Join(dir, "quota")); err != nil {
		t.Fatal(err)
	}
	gatewaytest.Eventually(t, "the journal is repaired", func() bool { return r.Chat(gatewaytest.PlainHi).Status == http.StatusOK })
	if requests, _ := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo, "") }); requests != 2 {
		t.Errorf("%d requests are counted", requests)
	}
}

// What the ledger refuses has taken nothing from any limit.
func TestLedgerRefusalCostsNoToken(t *testing.T) {
	for _, algorithm := range []string{"token-bucket", "leaky-bucket", "sliding-window", "warm-up"} {
		for _, scope := range []string{"service", "model", "instance"} {
			t.Run(algorithm+" "+scope, func(t *testing.T) {
				b := gatewaytest.StartBackend(t)
				dir := t.TempDir()
				gatewaytest.WriteFile(t, filepath.Join(dir, "quota"), "in the way of the journal")
				r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir, YAML: gatewaytest.PolicyYAML("rate-limit: {capacity: 3, refill-rate: 1, algorithm: "+algorithm+", scope: "+scope+"}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL())) +
					"quota: {enabled: true, fail-open: false}\n"})
				for range 5 {
					answer := r.Chat(gatewaytest.PlainHi)
					answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "quota_ledger_unavailable", "")
					if got := answer.Header.Get("X-Ratelimit-Remaining-Requests"); scope != "instance" && got == "0" {
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
	r, _ := gatewaytest.StartOne(t)
	r.Do(http.MethodPut, "/api/config/quota", `{"enabled":true}`).Succeeds(t)
	for body, last := range map[string]string{gatewaytest.PlainHi: `"total_tokens"`, gatewaytest.StreamHi: "data: [DONE]"} {
		before := tokensCounted(r)
		w := &watcher{header: http.Header{}, seen: map[string]int64{}, tokens: func() int64 { return tokensCounted(r) }}
		r.Ports[0].Options.Handler.ServeHTTP(w, r.Request(gatewaytest.Deadline(t), http.MethodPost, "/v1/chat/completions", body))
		found := false
		for piece, tokens := range w.seen {
			if strings.Contains(piece, last) {
				found = true
				if tokens <= before || tokens != tokensCounted(r) {
					t.Errorf("%s: %d tokens are counted when the last byte leaves, %d before and %d after", last, tokens, before, tokensCounted(r))
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
	gatewaytest.ForEachServiceRequest(t, func(t *testing.T, w gatewaytest.ServiceRequest) {
		step := gatewaytest.EventStep(w.First + w.Last)
		step.Stop, step.AfterBytes = simulator.StopStall, len(w.First+w.Last) // the connection stays open behind it
		r, _ := gatewaytest.StartService(t, step)
		r.Do(http.MethodPut, "/api/config/quota", `{"enabled":true}`).Succeeds(t)
		body, contentType := w.Asked(t)
		response := r.Open(gatewaytest.Deadline(t), http.MethodPost, w.Path, body, "Content-Type", contentType)
		defer response.Body.Close()
		if _, err := io.CopyN(io.Discard, response.Body, int64(len(w.First+w.Last))); err != nil {
			t.Fatal(err)
		}
		if got := tokensCounted(r); got != int64(w.Tokens) {
			t.Errorf("%d tokens are counted when the client has the last event, want %v", got, w.Tokens)
		}
	})
}

func tokensCounted(r *gatewaytest.Gateway) int64 {
	_, tokens := gatewaytest.Counted(r.T, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo, "") })
	return tokens
}

func TestQuotaSurvivesAStop(t *testing.T) {
	b := gatewaytest.StartBackend(t)
	dir := t.TempDir()
	yaml := gatewaytest.PoolYAML(b) + "quota: {enabled: true}\n"
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Chat(gatewaytest.StreamHi).Succeeds(t)
	_, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo, "") })
	r.Halt()
	left, _ := filepath.Glob(filepath.Join(dir, "quota", "*"))
	if len(left) != 0 {
		t.Errorf("the journal still has %v", left)
	}
	again := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	again.HasCounted(2, tokens, "")
}
