package manage_test

import (
	"math"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// A request is explained for the endpoint to which it would come: which instances have it
// themselves, and which cannot answer it.
func TestExplanationsKnowEveryDoor(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: {"+gatewaytest.ServiceEntry("chat",
		gatewaytest.Instance("m", b.URL()+"/one", "responses: true"), gatewaytest.Instance("m", b.URL()+"/two", "adapter: anthropic"),
		gatewaytest.Instance("claude", b.URL(), "adapter: anthropic"))+"}\n")
	explain := func(query string) map[string]any {
		return gatewaytest.At(t, gatewaytest.DecodeObject(t, r.Do("GET", "/api/route/explain?service=chat&"+query, "").Succeeds(t).Body), "data").(map[string]any)
	}
	for door, want := range map[string]string{ // of the two instances: passed, translated or refused
		"": "passed passed", "chat": "passed passed", "messages": "translated passed", "responses": "passed translated",
		"completions": "passed refused", "moderations": "passed refused", "count_tokens": "translated passed",
	} {
		view := explain("model=m&door=" + door)
		var found []string
		for _, c := range view["candidates"].([]any) {
			candidate := c.(map[string]any)
			switch {
			case candidate["eligible"] == false && strings.Contains(candidate["reason"].(string), door):
				found = append(found, "refused")
			case candidate["translated"] == true:
				found = append(found, "translated")
			default:
				found = append(found, "passed")
			}
		}
		if got := strings.Join(found, " "); got != want || view["refusal"] != nil || view["pick"] == nil {
			t.Errorf("%q: %s, want %s: %v", door, got, want, view)
		}
		if door == "" {
			door = "chat"
		}
		if view["door"] != door || view["service"] != "chat" {
			t.Errorf("door %v, service %v", view["door"], view["service"])
		}
	}
	refused := explain("model=claude&door=completions")
	if gatewaytest.At(t, refused, "refusal/code") != "invalid_value" || refused["pick"] != nil {
		t.Errorf("%v", refused)
	}
	if reply := r.Do("POST", "/v1/completions", `{"model":"claude","prompt":"hi"}`); !strings.Contains(reply.Body, gatewaytest.At(t, refused, "refusal/message").(string)) {
		t.Errorf("the request is refused with %s, but %v was foretold", reply.Body, refused)
	}
	for _, query := range []string{"door=nothing&model=m", "door=embeddings&model=m"} {
		if reply := r.Do("GET", "/api/route/explain?service=chat&"+query, ""); reply.Status != 400 || !strings.Contains(reply.Body, "door") {
			t.Errorf("%s: %d %s", query, reply.Status, reply.Body)
		}
	}
}

// A request is explained with its body: what is expected of each instance, and why one of
// them is picked. Asking calls nobody and changes nothing.
func TestExplanationsOfARequestItself(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: least-time, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
	long := func(end string) string {
		return `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("all work and no play ", 1000) + end + `"}]}`
	}
	explain := func(body string) map[string]any {
		return gatewaytest.At(t, gatewaytest.DecodeObject(t, r.Do("POST", "/api/route/explain?door=chat", body).Succeeds(t).Body), "data").(map[string]any)
	}
	estimates := func(view map[string]any) (picked, other map[string]any) {
		for n := range 2 {
			candidate := view["candidates"].([]any)[n].(map[string]any)
			estimate := candidate["estimate"].(map[string]any)
			sum := estimate["queueMs"].(float64) + estimate["prefillMs"].(float64) + estimate["loadMs"].(float64)
			if expected := estimate["expectedMs"].(float64); expected <= 0 || math.Abs(expected-sum) > 0.01 {
				t.Errorf("%v", estimate)
			}
			if candidate["instanceId"] == view["pick"] {
				picked = estimate
			} else {
				other = estimate
			}
		}
		if view["pick"] == nil || !strings.Contains(view["why"].(string), "its first token is expected after") {
			t.Errorf("%v, because %v", view["pick"], view["why"])
		}
		return picked, other
	}
	estimates(explain(long("one")))
	if sent := a.Stats().Arrived + b.Stats().Arrived; sent != 0 {
		t.Fatalf("asking called a backend %d times", sent)
	}
	r.Chat(long("one")).Succeeds(t)
	for range 2 { // asking twice does not change the answer
		view := explain(long("two"))
		picked, other := estimates(view)
		if picked["matched"].(float64) < 0.8 || other["matched"] != 0.0 || !strings.Contains(view["why"].(string), "% of the prompt is in its cache") {
			t.Errorf("%v: picked with %v, not with %v", view["why"], picked, other)
		}
	}
	if view := gatewaytest.At(t, gatewaytest.DecodeObject(t, r.Do("GET", "/api/route/explain?service=chat&model=m", "").Succeeds(t).Body), "data").(map[string]any); view["pick"] != nil || !strings.Contains(view["why"].(string), "depends on the prompt") {
		t.Errorf("without a body: %v", view)
	}
	for body, want := range map[string]string{`{"model":"m"}`: "messages", `{`: "JSON", `{"model":"m","messages":[]}`: "messages"} {
		door := r.Chat(body)
		if reply := r.Do("POST", "/api/route/explain?door=chat", body); reply.Status != 400 || door.Status != 400 || !strings.Contains(reply.Body, want) {
			t.Errorf("%s: %d %s, and at its door %d %s", body, reply.Status, reply.Body, door.Status, door.Body)
		}
	}
	for query, want := range map[string]string{"": "door", "?door=nothing": "door", "?door=transcriptions": "form", "?door=chat&clientIp=x": "clientIp", "?door=chat&dryRun=true": "dryRun"} {
		if reply := r.Do("POST", "/api/route/explain"+query, long("")); reply.Status != 400 || !strings.Contains(reply.Body, want) {
			t.Errorf("%q: %d %s", query, reply.Status, reply.Body)
		}
	}
}
