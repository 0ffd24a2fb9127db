package v1_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Numbers and kinds outside the rules of an API are refused in its shape before any backend is
// asked, whether or not the backend speaks that API.
func TestNumbersAreCheckedAtEveryDoor(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: {"+gatewaytest.ServiceEntry("chat",
		gatewaytest.Instance("translated", b.URL()),
		gatewaytest.Instance("messages", b.URL(), "adapter: anthropic"),
		gatewaytest.Instance("responses", b.URL(), "responses: true"))+"}\n")
	for _, door := range []struct {
		path, rest string
		models     []string
		refused    map[string][]string
		taken      map[string][]string
	}{
		{
			"/v1/messages", `"messages":[{"role":"user","content":"hi"}]`, []string{"translated", "messages"},
			map[string][]string{
				"max_tokens":     {"-1", `"7"`, "1.5", "true", "[]", "99999999999999999999"},
				"temperature":    {"-0.1", "1.1", `"hot"`},
				"top_p":          {"-0.1", "1.1", `"x"`},
				"top_k":          {"-1", "1.5", `"x"`},
				"stop_sequences": {`"x"`, `[1]`, `["a",null]`, `{}`},
				"metadata":       {`"x"`},
				"thinking":       {`"on"`},
				"tool_choice":    {`"auto"`},
			},
			map[string][]string{"max_tokens": {"1"}, "temperature": {"0", "1", "null"}, "top_p": {"0.5"}, "top_k": {"0", "40"}, "stop_sequences": {"[]", `["a"]`, "null"}},
		},
		{
			"/v1/responses", `"input":"hi"`, []string{"translated"},
			map[string][]string{
				"max_output_tokens": {"-1", "0", `"7"`, "1.5"},
				"max_tool_calls":    {"0", `"1"`},
				"temperature":       {"-0.1", "2.1", `"hot"`},
				"top_p":             {"1.1", `"x"`},
				"top_logprobs":      {"-1", "21", "1.5", `"x"`},
				"metadata":          {`"x"`, "[]"},
				"reasoning":         {`"high"`},
				"include":           {`"x"`},
				"tools":             {"{}"},
				"text":              {`"x"`},
				"extra_body":        {`"x"`},
			},
			map[string][]string{"max_output_tokens": {"1", "null"}, "temperature": {"0", "2"}, "top_p": {"1"}, "top_logprobs": {"0"}},
		},
		{
			"/v1/responses", `"input":"hi"`, []string{"responses"},
			map[string][]string{"max_output_tokens": {"0"}, "temperature": {"3"}, "top_p": {"2"}, "top_logprobs": {"21"}, "metadata": {"7"}}, nil,
		},
		{
			"/v1/completions", `"prompt":"hi"`, []string{"translated"},
			map[string][]string{"max_tokens": {`"7"`, "1.5"}, "temperature": {"2.1", `"x"`}, "top_p": {"1.1"}, "n": {`"x"`, `"50"`}, "best_of": {`"50"`}, "max_completion_tokens": {`"50"`}, "stop": {"1"}},
			map[string][]string{"max_tokens": {"1"}, "temperature": {"2"}},
		},
	} {
		for _, model := range door.models {
			send := func(field, value string) gatewaytest.Reply {
				if door.path == "/v1/messages" && field != "max_tokens" {
					value += `,"max_tokens":9` // which the API requires
				}
				return r.Do("POST", door.path, `{"model":"`+model+`","`+field+`":`+value+`,`+door.rest+`}`)
			}
			before := len(b.Requests())
			for field, values := range door.refused {
				for _, value := range values {
					reply := send(field, value)
					if !strings.Contains(reply.Body, "'"+field+"'") || gatewaytest.At(t, gatewaytest.DecodeObject(t, reply.Body), "error/param") != field {
						t.Errorf("%s %s: %s", field, value, reply.Body)
					}
					if door.path == "/v1/messages" {
						failsAsMessage(t, reply, 400, "invalid_request_error", "invalid_value")
					} else if reply.Status != 400 {
						t.Errorf("%s %s %s: status %d", door.path, field, value, reply.Status)
					}
				}
			}
			if after := len(b.Requests()); after != before {
				t.Errorf("%s %s: %d requests reached the backend", door.path, model, after-before)
			}
			for field, values := range door.taken {
				for _, value := range values {
					send(field, value).Succeeds(t)
				}
			}
		}
	}
	// What counts in limits is not passed on without being understood.
	for _, field := range []string{"n", "best_of", "max_tokens", "max_completion_tokens"} {
		before := len(b.Requests())
		for path, rest := range map[string]string{"/v1/responses": `"input":"hi"`, "/v1/completions": `"prompt":"hi"`, "/v1/chat/completions": `"messages":[{"role":"user","content":"hi"}]`} {
			reply := r.Do("POST", path, `{"model":"translated","extra_body":{"`+field+`":"50"},`+rest+`}`)
			reply.FailsWith(t, 400, "invalid_request_error", "invalid_value", field)
		}
		if after := len(b.Requests()); after != before {
			t.Errorf("%s: %d requests reached the backend", field, after-before)
		}
	}
	for body, param := range map[string]string{
		`"thinking":{"type":"enabled","budget_tokens":"x"}`: "thinking.budget_tokens", `"thinking":{"type":"enabled","budget_tokens":1023}`: "thinking.budget_tokens",
		`"tool_choice":{"type":"any"}`: "tool_choice", `"tool_choice":{"type":"tool","name":"f"},"tools":[]`: "tool_choice",
	} {
		reply := r.Do("POST", "/v1/messages", `{"model":"translated","max_tokens":9,`+body+`,"messages":[{"role":"user","content":"hi"}]}`)
		failsAsMessage(t, reply, 400, "invalid_request_error", "invalid_value")
		if gatewaytest.At(t, gatewaytest.DecodeObject(t, reply.Body), "error/param") != param {
			t.Errorf("%s: %s", body, reply.Body)
		}
	}
	// The Messages API requires a limit, whatever backend the model has; only the count of
	// tokens needs none.
	for _, model := range []string{"translated", "messages"} {
		for _, limit := range []string{"", `"max_tokens":null,`} {
			for _, stream := range []string{"", `"stream":true,`} {
				rest := `{"model":"` + model + `",` + limit + stream + `"messages":[{"role":"user","content":"hi"}]}`
				before := len(b.Requests())
				reply := r.Do("POST", "/v1/messages", rest)
				failsAsMessage(t, reply, 400, "invalid_request_error", "missing_parameter")
				if gatewaytest.At(t, gatewaytest.DecodeObject(t, reply.Body), "error/param") != "max_tokens" || len(b.Requests()) != before {
					t.Errorf("%s: %s", rest, reply.Body)
				}
				r.Do("POST", "/v1/messages/count_tokens", rest).Succeeds(t)
			}
		}
	}
	// No other API has a request that only fills a cache.
	failsAsMessage(t, r.Do("POST", "/v1/messages", `{"model":"translated","max_tokens":0,"messages":[{"role":"user","content":"hi"}]}`), 400, "invalid_request_error", "invalid_value")
}
