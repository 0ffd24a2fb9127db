package batching_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// linesTo returns so many lines.
func linesTo(model string, count int) string {
	var lines []string
	for i := range count {
		lines = append(lines, line(fmt.Sprint("l", i), model))
	}
	return strings.Join(lines, "\n")
}

// startAt starts a backend that has one model at an address.
func startAt(t *testing.T, address, model string) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{Addr: address, Models: []string{model}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// says waits until a batch, the only one, says this of itself to operators.
func says(t *testing.T, r *gatewaytest.Gateway, id, problem string) {
	t.Helper()
	gatewaytest.Eventually(t, "the batch says "+problem, func() bool {
		list := r.Do("GET", "/api/batches", "").Succeeds(t).Body
		return strings.Contains(list, id) && strings.Contains(list, problem)
	})
}

// A model that is found is waited for while its backend is not there: before it was ever found,
// and after the gateway began anew.
func TestABatchWaitsForAModelThatIsFound(t *testing.T) {
	t.Parallel()
	for name, isKnown := range map[string]bool{"it was known": true, "it was not known yet": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := storetest.FreeAddress(t)
			setup := gatewaytest.Setup{
				DataDir: t.TempDir(),
				YAML:    on + "services: {chat: {health-check: {interval: 1s}, instances: [{base-url: 'http://" + address + "', models: discover}]}}\n",
			}
			var b *simulator.Backend
			if isKnown {
				b = startAt(t, address, "m")
			}
			r := gatewaytest.StartWith(t, setup)
			if isKnown {
				gatewaytest.TakeAway(t, b)
			}
			id := submit(t, r, upload(t, r, linesTo("m", 30)), "/v1/chat/completions")
			if !isKnown {
				says(t, r, id, "the model m is not served now")
			}
			r.Halt()
			r = gatewaytest.StartWith(t, setup)
			says(t, r, id, "the model m is not served now")
			startAt(t, address, "m")
			if got := ended(t, r, "/v1/batches/"+id); got.Status != "completed" || got.Counts.Completed != 30 {
				t.Errorf("the batch is %+v", got)
			}
		})
	}
}

func TestABatchWaitsForAModelThatIsRemovedAndAddedAgain(t *testing.T) {
	t.Parallel()
	held, other := startHeld(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, on+gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 1")))
	id := submit(t, r, upload(t, r, linesTo("m", 30)), "/v1/chat/completions")
	<-held.Entered
	r.ReloadWith(on + gatewaytest.ChatYAML(gatewaytest.Instance("another", other.URL())))
	close(held.Open)
	says(t, r, id, "the model m is not served now")
	r.ReloadWith(on + gatewaytest.ChatYAML(gatewaytest.Instance("m", other.URL())))
	if got := ended(t, r, "/v1/batches/"+id); got.Status != "completed" || got.Counts.Completed != 30 {
		t.Errorf("the batch is %+v", got)
	}
}

// What a backend does not do now is no error of a line, with breaker and health check off, and
// although no line is tried twice.
func TestWhatPassesIsNoErrorOfALine(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]simulator.Step{
		"it is limited": {Status: 429, Header: http.Header{"Retry-After": {"1"}}}, "it loads its model": {Status: 503, Body: `{"error":{"code":503,"message":"Loading model"}}`},
		"a proxy answers": {Status: 502}, "it breaks off": {Reset: true}, "it refuses the key of the gateway": {Status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := gatewaytest.StartBackend(t, step, step, step)
			r := gatewaytest.Start(t, "batches: {enabled: true, attempts: 1}\n"+gatewaytest.PolicyYAML("circuit-breaker: {enabled: false}, health-check: {enabled: false}", gatewaytest.Instance("m", backend.URL())))
			if got := ended(t, r, "/v1/batches/"+submit(t, r, upload(t, r, linesTo("m", 5)), "/v1/chat/completions")); got.Counts.Completed != 5 {
				t.Errorf("the batch is %+v: %s", got, content(t, r, got.Errors))
			}
		})
	}
	t.Run("nothing listens", func(t *testing.T) {
		t.Parallel()
		address := storetest.FreeAddress(t)
		r := gatewaytest.Start(t, "batches: {enabled: true, attempts: 1}\n"+gatewaytest.PolicyYAML("circuit-breaker: {enabled: false}, health-check: {enabled: false}", gatewaytest.Instance("m", "http://"+address)))
		id := submit(t, r, upload(t, r, linesTo("m", 5)), "/v1/chat/completions")
		says(t, r, id, "could not be reached")
		startAt(t, address, "m")
		if got := ended(t, r, "/v1/batches/"+id); got.Counts.Completed != 5 {
			t.Errorf("the batch is %+v", got)
		}
	})
}

func TestWhatCannotChangeIsTheErrorOfALine(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t, simulator.Step{Status: 400}, simulator.Step{Status: 404}, simulator.Step{Status: 413}, simulator.Step{Status: 422}, simulator.Step{Status: 500})
	r := gatewaytest.Start(t, "batches: {enabled: true, attempts: 1}\n"+gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL())))
	if got := ended(t, r, "/v1/batches/"+submit(t, r, upload(t, r, linesTo("m", 6)), "/v1/chat/completions")); got.Counts.Failed != 5 || got.Counts.Completed != 1 {
		t.Errorf("the batch is %+v", got)
	}
}

// limitedKeys are keys of which each has one limit.
func limitedKeys() string {
	return fmt.Sprintf(`security: {enabled: true, keys: [{id: often, key-sha256: %s, limits: {requests-per-minute: 30}}, {id: many, key-sha256: %s, limits: {concurrent-requests: 2}},
  {id: long, key-sha256: %s, limits: {tokens-per-minute: 400}}], tokens: [{name: a, role: ADMIN, token-sha256: %s}]}
`, gatewaytest.HashOf("often"), gatewaytest.HashOf("many"), gatewaytest.HashOf("long"), gatewaytest.HashOf("admin-token"))
}

// A batch leaves a part of the limits of its owner, who can see and stop it at any time.
func TestABatchDoesNotLockItsOwnerOut(t *testing.T) {
	t.Parallel()
	// Half of each limit is for lines: of 30 requests, and of 400 tokens, of which a line uses at
	// least 6; all lines may run in turns.
	for key, most := range map[string]int{"often": 15, "many": 300, "long": 33} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			backend := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, limitedKeys()+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL(), "batch-concurrency: 8")))
			id := submit(t, r, upload(t, r, strings.ReplaceAll(linesTo("m", 300), `"messages"`, `"max_tokens":5,"messages"`), as(key)...), "/v1/chat/completions", as(key)...)
			gatewaytest.Eventually(t, "the batch has used its part of the limits", func() bool { return len(backend.Requests()) >= 8 })
			for range 10 {
				r.Chat(gatewaytest.With(`"max_tokens":5`), as(key)...).Succeeds(t)
				r.Do("GET", "/v1/batches/"+id, "", as(key)...).Succeeds(t)
				r.Do("GET", "/v1/files", "", as(key)...).Succeeds(t)
			}
			r.Do("POST", "/v1/batches/"+id+"/cancel", "", as(key)...).Succeeds(t)
			if got := ended(t, r, "/v1/batches/"+id, as(key)...); got.Counts.Completed > most {
				t.Errorf("lines took the part of others: %+v", got)
			}
		})
	}
}

func TestOperationsOfBatchesHaveALimitOfTheirOwn(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, limitedKeys()+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL())))
	id := submit(t, r, upload(t, r, linesTo("nobody", 1), as("often")...), "/v1/chat/completions", as("often")...)
	polls, refused := 0, 0
	gatewaytest.Eventually(t, "the batch ends", func() bool {
		polls++
		return !strings.Contains(r.Do("GET", "/v1/batches/"+id, "", as("often")...).Succeeds(t).Body, `"completed_at":null`)
	})
	for range 700 {
		if reply := r.Do("GET", "/v1/batches/"+id, "", as("often")...); reply.Status == 429 {
			reply.FailsWith(t, 429, "rate_limit_exceeded", "key_rate_limited", "")
			refused++
		}
	}
	if refused == 0 || refused > 150+polls {
		t.Errorf("%d of 700 requests in a moment were refused", refused)
	}
	r.Do("POST", "/v1/batches/"+id+"/cancel", "", as("often")...).FailsWith(t, 400, "invalid_request_error", "invalid_value", "")
	r.Chat(gatewaytest.PlainHi, as("often")...).Succeeds(t)
}

// The header that a key trusts counts for the lines of a batch as for any request.
func TestLinesAreCountedForTheUserOfATrustedHeader(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.QuotaOn+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL()))+fmt.Sprintf(`security:
  enabled: true
  tokens: [{name: admin, role: ADMIN, token-sha256: %s}]
  keys: [{id: webui, key-sha256: %s, user-header: X-User}, {id: plain, key-sha256: %s}]
`, gatewaytest.HashOf("admin"), gatewaytest.HashOf("webui"), gatewaytest.HashOf("plain")))
	byBob := strings.ReplaceAll(line("a", "m"), `"model"`, `"user":"bob","model"`)
	run := func(key string, headers ...string) {
		headers = append(headers, as(key)...)
		ended(t, r, "/v1/batches/"+submit(t, r, upload(t, r, byBob, headers...), "/v1/chat/completions", headers...), headers...)
	}
	run("webui", "X-User", "ann")
	run("webui")
	run("plain", "X-User", "ann")
	messages := `{"requests":[{"custom_id":"a","params":{"model":"m","max_tokens":9,"metadata":{"user_id":"bob"},"messages":[{"role":"user","content":"x"}]}}]}`
	headers := append([]string{"X-User", "ann"}, as("webui")...)
	ended(t, r, "/v1/messages/batches/"+idOf(t, r.Do("POST", "/v1/messages/batches", messages, headers...).Succeeds(t).Body), headers...)
	for query, want := range map[string]int64{"": 4, "&userId=ann": 2, "&userId=bob": 2} {
		requests, _ := gatewaytest.Counted(t, func() gatewaytest.Reply {
			return r.Do(http.MethodGet, gatewaytest.LongAgo+query, "", as("admin")...)
		})
		if requests != want {
			t.Errorf("%s: %d requests, want %d", query, requests, want)
		}
	}
}

func TestMessageBatchesSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	yaml := "batches: {enabled: true, max-lines: %d}\n" + gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL()))
	r := gatewaytest.Start(t, fmt.Sprintf(yaml, 3))
	const path = "/v1/messages/batches"
	requests := func(model string, count int) string {
		var all []string
		for i := range count {
			all = append(all, fmt.Sprintf(`{"custom_id":"l%d","params":{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":"x"}]}}`, i, model))
		}
		return `{"requests":[` + strings.Join(all, ",") + `]}`
	}
	if reply := r.Post(path, requests("m", 4)); reply.Status != 413 || !strings.Contains(reply.Body, `"type":"request_too_large"`) || !strings.Contains(reply.Body, "batches.max-lines") {
		t.Errorf("too many requests give %d %s", reply.Status, reply.Body)
	}
	unknown := ended(t, r, path+"/"+idOf(t, r.Post(path, requests("nobody", 1)).Succeeds(t).Body))
	if results := r.Do("GET", unknown.Results, "").Succeeds(t).Body; !strings.Contains(results, `"type":"not_found_error"`) || !strings.Contains(results, "nobody") {
		t.Errorf("a model that nobody serves is told as %s", results)
	}
	// A request may be a little longer while it is read than a line.
	r = gatewaytest.Start(t, fmt.Sprintf(yaml, 3)+"limits: {json-body: 64KiB}\n")
	long := strings.Replace(requests("m", 2), `"content":"x"`, `"content":"`+strings.Repeat("x", 70<<10)+`"`, 1)
	failed := ended(t, r, path+"/"+idOf(t, r.Post(path, long).Succeeds(t).Body))
	reply := r.Do("GET", failed.Results, "")
	if reply.Status != 400 || !strings.Contains(reply.Body, "invalid_request_error") || !strings.Contains(reply.Body, "longer than") {
		t.Errorf("the results of a batch that failed are %d %s", reply.Status, reply.Body)
	}
}

func TestWrongFieldsOfABatchAreNamed(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, on)
	for body, param := range map[string]string{
		`{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":1}}`:  "metadata",
		`{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":["a"]}`:    "metadata",
		`{"input_file_id":7,"endpoint":"/v1/chat/completions","completion_window":"24h"}`:                            "input_file_id",
		`{"input_file_id":"f","endpoint":"/v1/chat/completions","completion_window":"24h","output_expires_after":7}`: "output_expires_after",
	} {
		if e := r.Post("/v1/batches", body).FailsWith(t, 400, "invalid_request_error", "invalid_value", param); !strings.Contains(e.Message, "'"+param+"' must be") {
			t.Errorf("%s says %s", body, e.Message)
		}
	}
}
