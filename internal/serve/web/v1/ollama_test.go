package v1_test

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

const (
	ollamaHi      = `{"model":"m","stream":false,"messages":[{"role":"user","content":"hi"}]}`
	ollamaLinesHi = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
)

// ollamaLines reads a stream of lines strictly, and returns the objects.
func ollamaLines(t *testing.T, body string) (lines []map[string]any) {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
		lines = append(lines, gatewaytest.DecodeObject(t, line))
	}
	return lines
}

func TestOllamasAPIIsServedByEveryDialect(t *testing.T) {
	everyMessageBackend(t, gatewaytest.Setup{}, func(t *testing.T, r *gatewaytest.Gateway, _ *simulator.Backend) {
		whole := gatewaytest.DecodeObject(t, r.Do("POST", "/ollama/api/chat", ollamaHi).Succeeds(t).Body)
		text, _ := gatewaytest.At(t, whole, "message/content").(string)
		if whole["model"] != "m" || whole["done"] != true || whole["done_reason"] != "stop" || text == "" || whole["eval_count"] == nil {
			t.Errorf("%v", whole)
		}
		reply := r.Do("POST", "/ollama/api/chat", ollamaLinesHi).Succeeds(t)
		if kind := reply.Header.Get("Content-Type"); kind != "application/x-ndjson" {
			t.Errorf("content type %q", kind)
		}
		lines := ollamaLines(t, reply.Body)
		streamed := ""
		for i, line := range lines {
			piece, _ := gatewaytest.At(t, line, "message/content").(string)
			streamed += piece
			if isLast := i == len(lines)-1; line["done"] != isLast || line["model"] != "m" {
				t.Errorf("line %d: %v", i, line)
			}
		}
		last := lines[len(lines)-1]
		if streamed != text || last["eval_count"] != whole["eval_count"] || last["eval_duration"] == nil || last["total_duration"] == nil {
			t.Errorf("streamed %q, whole %q, last line %v", streamed, text, last)
		}
		generated := gatewaytest.DecodeObject(t, r.Do("POST", "/ollama/api/generate", `{"model":"m:latest","prompt":"hi","stream":false}`).Succeeds(t).Body)
		if generated["response"] == "" || generated["done"] != true {
			t.Errorf("%v", generated)
		}
	})
}

// A request without a prompt is how clients of Ollama have models loaded. Where the gateway keeps
// the model it is loaded, and waited for. Nobody takes one away from others by asking for that.
func TestARequestForAModelInMemoryLoadsIt(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Models: []string{"m"}, Kind: simulator.VLLM, Engine: &engine.Spec{Block: 16, Cache: 1600, Wake: 0.2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("residency: {enabled: true}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL(), "adapter: vllm")))
	host := r.Instances("m")[0].Resident().Place().Host().Name()
	for _, path := range []string{"/ollama/api/chat", "/ollama/api/generate"} {
		for _, body := range []string{`{"model":"m"}`, `{"model":"m:latest","stream":false,"keep_alive":"5m"}`} {
			if err := r.Residency.Load(t.Context(), host, "m", residency.Settings{}); err != nil {
				t.Fatal(err)
			}
			if err := r.Residency.Sleep(t.Context(), host, "m"); err != nil || !b.Engine().State().IsAsleep {
				t.Fatalf("it does not sleep: %v", err)
			}
			reply := r.Do("POST", path, body).Succeeds(t)
			if object := gatewaytest.DecodeObject(t, reply.Body); object["done_reason"] != "load" || object["done"] != true {
				t.Errorf("%s: %v", body, object)
			}
			if b.Engine().State().IsAsleep || reply.Header.Get("X-Router-Wait-Ms") == "" {
				t.Errorf("asleep: %t, waited %q ms", b.Engine().State().IsAsleep, reply.Header.Get("X-Router-Wait-Ms"))
			}
			if reply := r.Do("POST", path, body).Succeeds(t); reply.Header.Get("X-Router-Wait-Ms") != "" {
				t.Error("a model that is in memory is waited for")
			}
			gatewaytest.DecodeObject(t, r.Do("POST", path, `{"model":"m","keep_alive":0}`).Succeeds(t).Body)
			if b.Engine().State().IsAsleep {
				t.Error("a client has put the model to sleep")
			}
		}
	}
	i := r.Instances("m")[0]
	if success, failure, _ := gatewaytest.Outcomes(i); success+failure != 0 || i.InFlight() != 0 {
		t.Errorf("%d successes and %d failures of calls that were not made, %d in flight", success, failure, i.InFlight())
	}
}

// Requests for a model in memory count in the limits of requests, whether or not they have to
// wait.
func TestRequestsForAModelInMemoryAreLimited(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"security: {enabled: true, keys: [{id: k, key-sha256: "+gatewaytest.HashOf("secret")+", limits: {requests-per-minute: 3}}]}\n")
	for n, body := range []string{`{"model":"m"}`, `{"model":"m","keep_alive":0}`, `{"model":"m"}`} {
		reply := r.Do("POST", "/ollama/api/generate", body, "Authorization", "Bearer secret").Succeeds(t)
		if left := reply.Header.Get("X-Ratelimit-Remaining-Requests"); left != strconv.Itoa(2-n) {
			t.Errorf("%q requests are left after %d", left, n+1)
		}
	}
	if reply := r.Do("POST", "/ollama/api/generate", `{"model":"m"}`, "Authorization", "Bearer secret"); reply.Status != http.StatusTooManyRequests {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
}

// Where nobody keeps the model, a request without a prompt is answered at once, and no backend is
// called.
func TestARequestForAModelInMemoryIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b))
	for body, reason := range map[string]string{
		`{"model":"m"}`: "load", `{"model":"m","keep_alive":0}`: "unload", `{"model":"m","keep_alive":"0s"}`: "unload", `{"model":"m","keep_alive":"5m"}`: "load",
	} {
		for _, path := range []string{"/ollama/api/chat", "/ollama/api/generate"} {
			if object := gatewaytest.DecodeObject(t, r.Do("POST", path, body).Succeeds(t).Body); object["done_reason"] != reason || object["done"] != true {
				t.Errorf("%s: %v", body, object)
			}
		}
	}
	if got := len(b.Requests()); got != 0 {
		t.Errorf("%d requests reached the backend", got)
	}
	if reply := r.Do("POST", "/ollama/api/generate", `{"model":"unknown"}`); reply.Status == http.StatusOK {
		t.Errorf("an unknown model is loaded: %s", reply.Body)
	}
}

func TestErrorsOfOllamasAPIHaveItsShape(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b))
	for _, row := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/ollama/api/chat", `{"model":`, 400, "invalid_json"},
		{"POST", "/ollama/api/chat", `{"messages":[]}`, 400, "missing_parameter"},
		{"POST", "/ollama/api/chat", `{"model":"m","messages":[{"role":"robot","content":"x"}]}`, 400, "invalid_value"},
		{"POST", "/ollama/api/chat", `{"model":"m","messages":[{"role":"user","content":"x"}],"think":"loudly"}`, 400, "invalid_value"},
		{"POST", "/ollama/api/embed", `{"model":"m"}`, 400, "missing_parameter"},
		{"POST", "/ollama/api/pull", `{"model":"m"}`, 403, "permission_denied"},
		{"POST", "/ollama/api/push", `{"model":"m"}`, 403, "permission_denied"},
		{"POST", "/ollama/api/create", `{"model":"m"}`, 403, "permission_denied"},
		{"POST", "/ollama/api/copy", `{"source":"m"}`, 403, "permission_denied"},
		{"DELETE", "/ollama/api/delete", `{"model":"m"}`, 403, "permission_denied"},
		{"POST", "/ollama/api/blobs/sha256:1", `x`, 403, "permission_denied"},
		{"POST", "/ollama/api/show", `{"model":"nothing"}`, 404, "model_not_found"},
		{"POST", "/ollama/api/chat", `{"model":"nothing"}`, 404, "model_not_found"},
		{"POST", "/ollama/api/chat", `{"model":"nothing","messages":[{"role":"user","content":"x"}]}`, 404, "model_not_found"},
		{"POST", "/ollama/api/generate", `{"model":"nothing","prompt":"x"}`, 404, "model_not_found"},
		{"POST", "/ollama/api/embed", `{"model":"nothing","input":"x"}`, 404, "model_not_found"},
		{"POST", "/ollama/api/embeddings", `{"model":"nothing","prompt":"x"}`, 404, "model_not_found"},
		{"POST", "/ollama/api/show", `{`, 400, "invalid_json"},
		{"POST", "/ollama/api/nothing", `{}`, 404, "unknown_endpoint"},
		{"GET", "/ollama/api/chat", ``, 405, "method_not_allowed"},
	} {
		reply := r.Do(row.method, row.path, row.body)
		object := gatewaytest.DecodeObject(t, reply.Body)
		text, isText := object["error"].(string)
		if reply.Status != row.status || object["code"] != row.code || !isText || text == "" || row.status == 404 && row.code == "model_not_found" && text != "model 'nothing' not found" {
			t.Errorf("%s %s: %d %s, want %d %s", row.method, row.path, reply.Status, reply.Body, row.status, row.code)
		}
	}
}

// A stream of lines has no comments: a silence is filled with blanks in front of the next
// line, and what breaks off ends in a line with the error.
func TestSilentAndBrokenStreamsOfLines(t *testing.T) {
	everyMessageBackend(t, gatewaytest.Setup{KeepAlive: 20 * time.Millisecond}, func(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend) {
		for name, step := range map[string]simulator.Step{
			"error": {StreamError: "the model died", After: 4}, "cut": {Stop: simulator.StopEnd, After: 4}, "reset": {Stop: simulator.StopReset, After: 4},
		} {
			b.Script(step)
			reply := r.Do("POST", "/ollama/api/chat", ollamaLinesHi)
			lines := ollamaLines(t, reply.Body)
			last := lines[len(lines)-1]
			if _, isText := last["error"].(string); reply.Status != 200 || !isText || last["code"] == "" || lines[0]["done"] != false {
				t.Errorf("%s: %d %v", name, reply.Status, lines)
			}
		}
		b.Script(simulator.Step{Stop: simulator.StopStall, After: 4})
		response := r.Open(t.Context(), "POST", "/ollama/api/chat", ollamaLinesHi)
		defer func() { _ = response.Body.Close() }()
		for from := bufio.NewReader(response.Body); ; {
			c, err := from.ReadByte()
			if err != nil {
				t.Fatalf("no blank before the end: %v", err)
			}
			if c == ' ' {
				break
			}
			if line, err := from.ReadString('\n'); err != nil || gatewaytest.DecodeObject(t, "{"+line)["done"] != false {
				t.Fatalf("%q, %v", line, err)
			}
		}
	})
}
