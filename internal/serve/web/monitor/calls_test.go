package monitor_test

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestCallsSayWhyTheInstanceAndWhatItSaid(t *testing.T) {
	t.Parallel()
	bad, good, held := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	bad.ScriptForever(simulator.Step{Status: 503, Body: `{"error":{"message":"out of memory, key sk-abcdefghijklmnopqrstuvwxyz"}}`, Header: gatewaytest.ContentType("application/json")})
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(bad, good, held))
	r.Instances("m")[2].Breaker.Force(breaker.ForcedOpen, breaker.Hold{By: "somebody"}, time.Now())
	reply := r.Chat(gatewaytest.PlainHi, "X-Request-Id", "one").Succeeds(t)
	call := r.GetObject("/api/monitoring/calls/one")
	if call["strategy"] != "round_robin" || call["clientIp"] != "127.0.0.1" || call["handle"] != reply.Header.Get("X-Router-Instance") {
		t.Errorf("%v", call)
	}
	if got := fmt.Sprint(call["candidates"]); got != "map[passedOver:map[breaker_open:1] ready:2 total:3]" {
		t.Errorf("candidates %s", got)
	}
	text := fmt.Sprint(gatewaytest.At(t, call, "tries/0/errorText"))
	if gatewaytest.At(t, call, "tries/0/httpStatus") != 503.0 || call["tries"].([]any)[1].(map[string]any)["httpStatus"] != 200.0 ||
		!strings.Contains(text, "out of memory") || strings.Contains(text, "sk-abcd") {
		t.Errorf("%v", call["tries"])
	}
	if got := gatewaytest.At(t, call, "tries/0/url"); got != bad.URL()+"/v1/chat/completions" {
		t.Errorf("the attempt that failed was sent to %v", got)
	}
	if _, told := call["tries"].([]any)[1].(map[string]any)["url"]; told {
		t.Error("the URL of an attempt that succeeded is told")
	}
	instances := gatewaytest.At(t, r.GetObject("/api/monitoring/instances"), "services/chat/instances").([]any)
	if instances[1].(map[string]any)["handle"] != call["handle"] {
		t.Errorf("%v", instances)
	}
}

func TestBreakersTellTheirLastErrorAndSinceWhen(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Status: 500})
	r := gatewaytest.Start(t, "services: {chat: {"+gatewaytest.NoChecks+", circuit-breaker: {failure-threshold: 2, success-threshold: 2, recovery-timeout: 1ms}, instances: ["+gatewaytest.Instance("m", b.URL())+"]}}\n")
	status := func() map[string]any {
		return gatewaytest.At(t, r.GetObject("/api/monitoring/circuit-breaker"), "instances/0").(map[string]any)
	}
	before := status()
	if before["lastError"] != nil || before["successCount"] != 0.0 {
		t.Errorf("%v", before)
	}
	r.Chat(gatewaytest.PlainHi)
	r.Chat(gatewaytest.PlainHi)
	opened := status()
	if opened["state"] != "OPEN" || opened["stateSince"].(string) < before["stateSince"].(string) || gatewaytest.At(t, opened, "lastError/code") != "upstream_error" ||
		!strings.Contains(fmt.Sprint(gatewaytest.At(t, opened, "lastError/text")), "500") {
		t.Errorf("%v", opened)
	}
	b.Script()
	gatewaytest.Eventually(t, "a trial succeeds", func() bool { return r.Chat(gatewaytest.PlainHi).Status == http.StatusOK })
	if half := status(); half["state"] != "HALF_OPEN" || half["successCount"] != 1.0 {
		t.Errorf("%v", half)
	}
	r.API(http.MethodPost, "/api/config/instance/circuit-breaker/chat", `{"instanceId":"m@`+b.URL()+`","state":"OPEN","reason":"new disk"}`).Is(t, 200, `"heldReason":"new disk"`)
	if held := status(); held["heldReason"] != "new disk" {
		t.Errorf("%v", held)
	}
	r.API(http.MethodPost, "/api/config/instance/circuit-breaker/chat", `{"instanceId":"m@`+b.URL()+`","state":"OPEN","reason":"`+strings.Repeat("x", 201)+`"}`).Is(t, 400, "reason")
}

func TestCallsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("other", b.URL())))
	// Times are shown in milliseconds, and a call is recorded when its client may have the answer.
	recorded := func(id string) {
		gatewaytest.Eventually(t, id+" is recorded", func() bool {
			return len(gatewaytest.At(t, r.GetObject("/api/monitoring/calls?q="+id), "calls").([]any)) == 1
		})
		for asked := time.Now().UnixMilli(); time.Now().UnixMilli() == asked; {
			runtime.Gosched()
		}
	}
	for i := range 4 {
		id := fmt.Sprintf("call-%d", i)
		r.Chat(gatewaytest.PlainHi, "X-Request-Id", id).Succeeds(t)
		recorded(id)
	}
	middle := gatewaytest.At(t, r.GetObject("/api/monitoring/calls/call-2"), "time").(string)
	// The pool is known to be well by then.
	if got := fmt.Sprint(r.GetObject("/api/monitoring/calls/call-3")["candidates"]); got != "map[ready:1 total:1]" {
		t.Errorf("candidates %s", got)
	}
	r.Chat(`{"model":"unknown-one",`+gatewaytest.SomeMessages+`}`, "X-Request-Id", "lost")
	recorded("lost")
	for query, want := range map[string]string{
		"limit=2":                          "lost call-3",
		"limit=2&before=call-2":            "call-1 call-0",
		"before=call-0":                    "",
		"errorCode=service_unavailable":    "lost",
		"q=CALL-1":                         "call-1",
		"q=" + url.QueryEscape(b.URL()):    "call-3 call-2 call-1 call-0",
		"q=nothing":                        "",
		"minDurationMs=1e9":                "",
		"minDurationMs=0&limit=1":          "lost",
		"to=" + middle + "&q=call":         "call-1 call-0",
		"from=" + middle + "&model=m":      "call-3 call-2",
		"keyId=none":                       "",
		"from=2020-01-01T00:00:00Z&q=lost": "lost",
	} {
		var ids []string
		for _, call := range gatewaytest.At(t, r.GetObject("/api/monitoring/calls?"+query), "calls").([]any) {
			ids = append(ids, call.(map[string]any)["requestId"].(string))
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	for _, query := range []string{"from=yesterday", "to=1", "minDurationMs=-1", "minDurationMs=NaN", "limit=0"} {
		if got := r.Do(http.MethodGet, "/api/monitoring/calls?"+query, "").Status; got != http.StatusBadRequest {
			t.Errorf("%s: %d", query, got)
		}
	}
	lines := r.Do(http.MethodGet, "/api/monitoring/calls?limit=3", "", "Accept", "application/x-ndjson").Succeeds(t)
	if lines.Header.Get("Content-Type") != "application/x-ndjson" || strings.Count(lines.Body, "\n") != 3 {
		t.Errorf("%v %s", lines.Header, lines.Body)
	}
	for line := range strings.Lines(lines.Body) {
		gatewaytest.DecodeObject(t, line)
	}
}

func TestProblemsOutliveTheCalls(t *testing.T) {
	t.Parallel()
	bad, good := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	bad.Script(simulator.Step{Status: 500})
	r := gatewaytest.Start(t, "monitoring: {calls: 2}\n"+gatewaytest.PoolYAML(bad, good))
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "first").Succeeds(t) // by the other instance
	for i := range 3 {
		r.Chat(`{"model":"unknown",`+gatewaytest.SomeMessages+`}`, "X-Request-Id", fmt.Sprint("lost-", i))
	}
	for range 5 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	list := gatewaytest.At(t, r.GetObject("/api/monitoring/problems"), "problems").([]any)
	if len(list) != 2 {
		t.Fatalf("%v", list)
	}
	lost, failed := list[0].(map[string]any), list[1].(map[string]any)
	if lost["kind"] != "request" || lost["count"] != 3.0 || lost["requestId"] != "lost-2" || lost["code"] != "service_unavailable" {
		t.Errorf("%v", lost)
	}
	if failed["kind"] != "attempt" || failed["instanceId"] != "m@"+bad.URL() || failed["requestId"] != "first" || failed["httpStatus"] != 200.0 || failed["text"] == nil {
		t.Errorf("%v", failed)
	}
	if got := gatewaytest.At(t, r.GetObject("/api/monitoring/problems?limit=1"), "problems").([]any); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// A stream begins with the role alone, and its content comes later: calls, the log and the
// metrics say when that was, and how long each token took.
func TestTheFirstTokenOfACallIsItsFirstContent(t *testing.T) {
	t.Parallel()
	const gap = 50.0 // milliseconds
	r, b := gatewaytest.StartOne(t)
	b.ScriptForever(simulator.Step{EventDelay: time.Duration(gap) * time.Millisecond, Text: "one two three"})
	r.Chat(gatewaytest.StreamHi, "X-Request-Id", "first").Succeeds(t)
	var call map[string]any
	gatewaytest.Eventually(t, "the call is recorded", func() bool {
		reply := r.Do(http.MethodGet, "/api/monitoring/calls/first", "")
		if reply.Status == http.StatusOK {
			call = gatewaytest.DecodeObject(t, reply.Body)
		}
		return call != nil
	})
	begun, _ := gatewaytest.At(t, call, "timeline/firstByteMs").(float64)
	first, _ := gatewaytest.At(t, call, "timeToFirstTokenMs").(float64)
	// The backend sends the content so long after the role, which may arrive late.
	if begun <= 0 || first <= begun || first < gap-1 || first != gatewaytest.At(t, call, "timeline/firstTokenMs") {
		t.Errorf("the answer began after %v ms, its content after %v ms", begun, first)
	}
	if perToken, _ := gatewaytest.At(t, call, "timePerOutputTokenMs").(float64); perToken <= 0 {
		t.Errorf("%v ms per token", perToken)
	}
	samples := r.Scrape()
	if seconds := gatewaytest.Sum(samples, "model_router_time_to_first_token_seconds_sum"); seconds*1000 < gap-1 {
		t.Errorf("%v s to the first token are counted", seconds)
	}
	if n := gatewaytest.Sum(samples, "model_router_time_per_output_token_seconds_count"); n != 1 {
		t.Errorf("the time per token of %v streams is counted", n)
	}
	const shown = 0.1 // the log rounds
	gatewaytest.Eventually(t, "the log has the numbers of the call", func() bool {
		_, after, _ := strings.Cut(r.Logs.String(), `"ttft_ms":`)
		logged, rest, _ := strings.Cut(after, ",")
		ms, err := strconv.ParseFloat(logged, 64)
		return err == nil && math.Abs(ms-first) < shown && strings.HasPrefix(rest, `"tpot_ms":`)
	})
}
