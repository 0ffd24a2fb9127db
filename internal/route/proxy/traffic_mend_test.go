package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestArgumentsOfEarlierToolCallsAreMended(t *testing.T) {
	t.Parallel()
	chat := func(arguments string) string {
		return `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":` +
			arguments + `}}]},{"role":"tool","tool_call_id":"c","content":"x"}],"extra_body":{"top_k":3}}`
	}
	response := `{"model":"m","input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{oops"},{"type":"function_call_output","call_id":"c","output":"x"}]}`
	for name, c := range map[string]struct {
		adapter, path, body, settings, want string
		mended                              float64
		status                              int
	}{
		"off":                        {"openai", "/v1/chat/completions", chat(`"{\"a\":"`), "", `"arguments":"{\"a\":"`, 0, 200},
		"broken":                     {"openai", "/v1/chat/completions", chat(`"{\"a\":"`), "mend-tool-arguments: true", `"arguments":"{}"`, 1, 200},
		"empty":                      {"openai", "/v1/chat/completions", chat(`""`), "mend-tool-arguments: true", `"arguments":"{}"`, 1, 200},
		"a list":                     {"openai", "/v1/chat/completions", chat(`"[1]"`), "mend-tool-arguments: true", `"arguments":"{}"`, 1, 200},
		"an object":                  {"openai", "/v1/chat/completions", chat(`"{\"a\": 1.50}"`), "mend-tool-arguments: true", `"arguments":"{\"a\": 1.50}"`, 0, 200},
		"another dialect, off":       {"anthropic", "/v1/chat/completions", chat(`"{oops"`), "", "", 0, 400},
		"another dialect":            {"anthropic", "/v1/chat/completions", chat(`"{oops"`), "mend-tool-arguments: true", `"input":{}`, 1, 200},
		"a response, passed on":      {"openai", "/v1/responses", response, "mend-tool-arguments: true, responses: true", `"arguments":"{}"`, 1, 200},
		"a response, translated":     {"openai", "/v1/responses", response, "mend-tool-arguments: true", `"arguments":"{}"`, 1, 200},
		"members of extra_body stay": {"openai", "/v1/chat/completions", chat(`"{oops"`), "mend-tool-arguments: true", `"top_k":3`, 1, 200},
	} {
		for _, ofService := range []bool{false, true} {
			b := gatewaytest.StartBackend(t, simulator.Step{})
			own, policy := c.settings, gatewaytest.NoBreakerNoChecks
			if mends := "mend-tool-arguments: true"; ofService && strings.HasPrefix(own, mends) {
				own, policy = strings.TrimPrefix(strings.TrimPrefix(own, mends), ", "), policy+", "+mends
			}
			more := []string{"adapter: " + c.adapter}
			if own != "" {
				more = append(more, own)
			}
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(policy, gatewaytest.Instance("m", b.URL(), more...)))
			if reply := r.Do(http.MethodPost, c.path, c.body); reply.Status != c.status {
				t.Errorf("%s: got %d %s, want %d", name, reply.Status, reply.Body, c.status)
				continue
			}
			if sent := b.Requests(); c.want != "" && (len(sent) != 1 || !strings.Contains(string(sent[0].Body), c.want)) {
				t.Errorf("%s: the backend got %v, want %s", name, sent, c.want)
			}
			if got := gatewaytest.Sum(r.Scrape(), "model_router_mended_tool_arguments_total"); got != c.mended {
				t.Errorf("%s: counted %v, want %v", name, got, c.mended)
			}
		}
	}
}
