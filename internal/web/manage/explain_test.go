package manage_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
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
