package v1_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// otherDialect is a dialect that is not the unified API's own.
type otherDialect struct {
	adapter    string
	path       string // of chat, plain
	streamPath string
	embedPath  string // empty: the dialect has no embeddings
	keyHeader  string
	keyPrefix  string
}

var otherDialects = []otherDialect{
	{"ollama", "/api/chat", "/api/chat", "/api/embed", "Authorization", "Bearer "},
	{"anthropic", "/v1/messages", "/v1/messages", "", "X-Api-Key", ""},
	{"claude", "/v1/messages", "/v1/messages", "", "X-Api-Key", ""},
	{
		"gemini", "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse",
		"/v1beta/models/m:batchEmbedContents", "X-Goog-Api-Key", "",
	},
	{
		"azure", "/openai/deployments/m/chat/completions?api-version=2024-10-21", "/openai/deployments/m/chat/completions?api-version=2024-10-21",
		"", "Api-Key", "", // embeddings are not translated
	},
}

// Every kind that has chat and does not serve OpenAI's API alone is in otherDialects.
func TestEveryOtherDialectIsTested(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, f := range otherDialects {
		tested[f.adapter] = true
	}
	for _, name := range kinds.Names() {
		kind, err := kinds.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		_, isChat := kind.Routes[schema.Chat]
		if isOther := kind.OpenAIBeside || !kind.ServesOpenAIChat(); isChat && isOther && !tested[kind.Name] {
			t.Errorf("otherDialects lacks %s", kind.Name)
		}
	}
}

// everyOtherDialect runs a test against a backend of each other dialect, which
// wants a key.
func everyOtherDialect(t *testing.T, test func(t *testing.T, f otherDialect, r *gatewaytest.Gateway, b *simulator.Backend)) {
	t.Helper()
	for _, f := range otherDialects {
		t.Run(f.adapter, func(t *testing.T) {
			b, err := simulator.Start(simulator.Options{Record: true, BodyCap: 8 << 20, Key: "backend-key-1"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			entry := gatewaytest.Instance("m", b.URL(), "adapter: "+f.adapter, "api-key: backend-key-1")
			yaml := gatewaytest.ServiceEntry("chat", entry)
			if f.embedPath != "" {
				yaml += ",\n" + gatewaytest.ServiceEntry("embedding", entry)
			}
			test(t, f, gatewaytest.Start(t, "services: {"+yaml+"}\n"), b)
		})
	}
}

type completion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int `json:"index"`
		Message struct {
			Role      string     `json:"role"`
			Content   *string    `json:"content"`
			ToolCalls []toolCall `json:"tool_calls"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	} `json:"usage"`
}

type toolCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func TestChatInForeignDialects(t *testing.T) {
	t.Parallel()
	everyOtherDialect(t, func(t *testing.T, f otherDialect, r *gatewaytest.Gateway, b *simulator.Backend) {
		got := decode[completion](t, r.Chat(`{"model":"m","messages":[{"role":"system","content":"be short"},{"role":"user","content":"hello there"}],"max_tokens":40,"temperature":0.5,"stop":["END"]}`))
		if got.Object != "chat.completion" || got.Model != "m" || got.ID == "" || got.Created < 1_000_000_000 {
			t.Errorf("completion %+v", got)
		}
		if c := got.Choices; len(c) != 1 || c[0].Message.Role != "assistant" || c[0].Message.Content == nil || *c[0].Message.Content == "" || c[0].FinishReason != "stop" {
			t.Errorf("choices %+v", c)
		}
		if u := got.Usage; u.PromptTokens <= 0 || u.CompletionTokens <= 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
			t.Errorf("usage %+v", u)
		}
		request := gatewaytest.OnlyRequest(t, b)
		if request.Path != f.path || request.Header.Get(f.keyHeader) != f.keyPrefix+"backend-key-1" {
			t.Errorf("%s with %v", request.Path, request.Header)
		}
		if f.keyHeader != "Authorization" && request.Header.Get("Authorization") != "" {
			t.Error("the key is in two places")
		}
	})
}

func TestStreamedChatInForeignDialects(t *testing.T) {
	t.Parallel()
	everyOtherDialect(t, func(t *testing.T, f otherDialect, r *gatewaytest.Gateway, b *simulator.Backend) {
		const messages = `"model":"m","messages":[{"role":"user","content":"tell me more"}]`
		plain := decode[completion](t, r.Chat(`{`+messages+`}`))
		for _, asked := range []bool{false, true} {
			options := ""
			if asked {
				options = `,"stream_options":{"include_usage":true}`
			}
			events := gatewaytest.EventsOf(t, r.Chat(`{`+messages+`,"stream":true`+options+`}`).Succeeds(t).Body)
			if len(events) < 3 || events[len(events)-1] != "[DONE]" {
				t.Fatalf("events %q", events)
			}
			chunks := events[:len(events)-1]
			if got, want := gatewaytest.TextOf(t, chunks), *plain.Choices[0].Message.Content; got != want {
				t.Errorf("streamed %q, plain %q", got, want)
			}
			checkChunks(t, chunks, "stop", asked, plain.Usage.TotalTokens)
		}
		requests := b.Requests()
		if got := requests[len(requests)-1].Path; got != f.streamPath {
			t.Errorf("path %s", got)
		}
	})
}

// checkChunks checks what the chunks of one answer have in common.
func checkChunks(t *testing.T, events []string, finish string, usageAsked bool, total int) {
	t.Helper()
	var finishes []string
	usages := 0
	first := gatewaytest.DecodeChunk(t, events[0])
	for i, event := range events {
		c := gatewaytest.DecodeChunk(t, event)
		if c.ID != first.ID || c.ID == "" || c.Model != "m" || c.Object != "chat.completion.chunk" {
			t.Errorf("chunk %s", event)
		}
		for _, choice := range c.Choices {
			if (choice.Delta.Role == "assistant") != (i == 0) {
				t.Errorf("chunk %d has the role %q", i, choice.Delta.Role)
			}
			if choice.FinishReason != nil {
				finishes = append(finishes, *choice.FinishReason)
			}
		}
		if len(c.Usage) > 0 && c.Usage.Kind() == '{' {
			usages++
			var usage struct {
				Total int `json:"total_tokens"`
			}
			if err := json.Unmarshal(c.Usage, &usage); err != nil || usage.Total != total || len(c.Choices) != 0 {
				t.Errorf("usage chunk %s, want %d tokens", event, total)
			}
		}
	}
	if !slices.Equal(finishes, []string{finish}) {
		t.Errorf("finish reasons %q", finishes)
	}
	if want := map[bool]int{true: 1}[usageAsked]; usages != want {
		t.Errorf("%d usage chunks, want %d", usages, want)
	}
}

// A tool is called, and its result is answered, in every dialect and in both
// ways to ask.
func TestToolsInForeignDialects(t *testing.T) {
	t.Parallel()
	const ask = `{"role":"user","content":"Weather in Oslo? Please use the tool."}`
	const tools = `"model":"m","tools":[{"type":"function","function":{"name":"get_weather","description":"d",` +
		`"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]`
	everyOtherDialect(t, func(t *testing.T, _ otherDialect, r *gatewaytest.Gateway, _ *simulator.Backend) {
		plain := decode[completion](t, r.Chat(`{`+tools+`,"messages":[`+ask+`]}`))
		if plain.Choices[0].FinishReason != "tool_calls" || len(plain.Choices[0].Message.ToolCalls) != 1 {
			t.Fatalf("completion %+v", plain)
		}
		call := plain.Choices[0].Message.ToolCalls[0]
		checkCall(t, call)

		events := gatewaytest.EventsOf(t, r.Chat(`{`+tools+`,"stream":true,"messages":[`+ask+`]}`).Succeeds(t).Body)
		checkChunks(t, events[:len(events)-1], "tool_calls", false, 0)
		var streamed toolCall
		for _, event := range events[:len(events)-1] {
			for _, choice := range gatewaytest.DecodeChunk(t, event).Choices {
				for _, raw := range choice.Delta.ToolCalls {
					var piece toolCall
					if err := json.Unmarshal(raw, &piece); err != nil || piece.Index != 0 {
						t.Errorf("%v in %s", err, raw)
					}
					streamed.ID += piece.ID
					streamed.Type += piece.Type
					streamed.Function.Name += piece.Function.Name
					streamed.Function.Arguments += piece.Function.Arguments
				}
			}
		}
		checkCall(t, streamed)

		answered := decode[completion](t, r.Chat(fmt.Sprintf(
			`{%s,"messages":[%s,{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"get_weather","arguments":%q}}]},`+
				`{"role":"tool","tool_call_id":%q,"content":"rain and 7 degrees"}]}`, tools, ask, call.ID, call.Function.Arguments, call.ID)))
		if c := answered.Choices[0]; c.FinishReason != "stop" || c.Message.Content == nil || *c.Message.Content == "" {
			t.Errorf("completion %+v", answered)
		}
	})
}

func checkCall(t *testing.T, call toolCall) {
	t.Helper()
	var arguments map[string]string
	err := json.Unmarshal([]byte(call.Function.Arguments), &arguments)
	if _, given := arguments["city"]; err != nil || !given || call.ID == "" || call.Type != "function" || call.Function.Name != "get_weather" {
		t.Errorf("%v in call %+v", err, call)
	}
}

// The schema of an answer reaches backends of each dialect in the field that they have
// for it, from every API that clients speak.
func TestSchemasOfAnswersInForeignDialects(t *testing.T) {
	t.Parallel()
	const (
		schema   = `{"type":"object","properties":{"name":{"type":"string"},"day":{"type":"integer"}},"required":["name","day"],"additionalProperties":false}`
		asChat   = `{"model":"m","messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"event","strict":true,"schema":` + schema + `}}}`
		asAnswer = `{"model":"m","input":"hi","text":{"format":{"type":"json_schema","name":"event","strict":true,"schema":` + schema + `}}}`
		asOutput = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}],"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`
	)
	everyOtherDialect(t, func(t *testing.T, _ otherDialect, r *gatewaytest.Gateway, _ *simulator.Backend) {
		for _, ask := range []struct{ path, body, text string }{
			{"/v1/chat/completions", asChat, "choices/0/message/content"},
			{"/v1/responses", asAnswer, "output/0/content/0/text"},
			{"/v1/messages", asOutput, "content/0/text"},
		} {
			reply := r.Do(http.MethodPost, ask.path, ask.body).Succeeds(t)
			text, _ := gatewaytest.At(t, gatewaytest.DecodeObject(t, reply.Body), ask.text).(string)
			var event struct {
				Name string `json:"name"`
				Day  int    `json:"day"`
			}
			if err := json.Unmarshal([]byte(text), &event, json.RejectUnknownMembers(true)); err != nil || event.Name == "" || event.Day == 0 {
				t.Errorf("%s: %q, %v", ask.path, text, err)
			}
		}
	})
}

func TestEmbeddingsInForeignDialects(t *testing.T) {
	t.Parallel()
	everyOtherDialect(t, func(t *testing.T, f otherDialect, r *gatewaytest.Gateway, b *simulator.Backend) {
		if f.embedPath == "" {
			r.Post("/v1/embeddings", embedHi).FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "service_unavailable", "")
			return
		}
		const inputs = `"model":"m","input":["the cat sat","the cat sat down","stock market"]`
		plain := decode[embeddings](t, r.Post("/v1/embeddings", `{`+inputs+`}`))
		packed := decode[embeddings](t, r.Post("/v1/embeddings", `{`+inputs+`,"encoding_format":"base64"}`))
		want := plain.vectors(t, false)
		if got := packed.vectors(t, true); len(want) != 3 || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%d vectors, and base64 differs from float", len(want))
		}
		if near, far := cosine(want[0], want[1]), cosine(want[0], want[2]); near < far+0.3 {
			t.Errorf("similar texts have %.2f, others %.2f", near, far)
		}
		short := decode[embeddings](t, r.Post("/v1/embeddings", `{"model":"m","input":"one","dimensions":12}`))
		if v := short.vectors(t, false); len(v) != 1 || len(v[0]) != 12 {
			t.Errorf("%d vectors", len(v))
		}
		if got := b.Requests()[0].Path; got != f.embedPath {
			t.Errorf("path %s", got)
		}
		n := b.Stats().Arrived
		r.Post("/v1/embeddings", `{"model":"m","input":[[1,2],[3]]}`).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, "invalid_value", "input")
		if b.Stats().Arrived != n {
			t.Error("token ids reached a backend that takes none")
		}
	})
}

// Every dialect's own way to complain becomes the one error body, plain and
// streamed, and gives nothing away.
func TestErrorsInForeignDialects(t *testing.T) {
	t.Parallel()
	everyOtherDialect(t, func(t *testing.T, _ otherDialect, r *gatewaytest.Gateway, b *simulator.Backend) {
		for status, want := range map[int]struct {
			status     int
			kind, code string
		}{
			400: {400, gatewaytest.InvalidRequest, "upstream_error"},
			401: {502, "api_error", "upstream_auth_failed"},
			403: {502, "api_error", "upstream_auth_failed"},
			404: {404, gatewaytest.InvalidRequest, "upstream_error"},
			413: {413, gatewaytest.InvalidRequest, "upstream_error"},
			429: {429, "rate_limit_exceeded", "upstream_rate_limited"},
			500: {500, "api_error", "upstream_error"},
			503: {503, "api_error", "upstream_error"},
			529: {529, "api_error", "upstream_error"},
		} {
			for _, body := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi} {
				b.Script(simulator.Step{Status: status})
				fault := r.Chat(body).FailsWith(t, want.status, want.kind, want.code, "")
				if !strings.Contains(string(fault.Details), "was told to answer "+fmt.Sprint(status)) {
					t.Errorf("%d: the backend's words are lost: %s", status, fault.Details)
				}
			}
		}
		for name, body := range map[string]string{
			"page":              simulator.HTMLPage,
			"no JSON":           "hello",
			"another dialect's": `{"object":"unknown"}`,
			"error as a text":   simulator.ErrorText("out of memory"),
			"error as object":   simulator.ErrorObject("out of memory", "t", "c"),
			"anthropic's error": simulator.AnthropicError("out of memory", "api_error"),
			"gemini's error":    simulator.GeminiError("out of memory", 500),
			"empty object":      `{}`,
		} {
			for _, request := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi} {
				b.Script(simulator.Step{Body: body})
				answer := r.Chat(request)
				code := "upstream_error"
				if request == gatewaytest.StreamHi && gatewaytest.ErrorOf(t, answer.Body).Code == "upstream_stream_truncated" {
					code = "upstream_stream_truncated"
				}
				answer.FailsWith(t, http.StatusBadGateway, "api_error", code, "")
				if t.Failed() {
					t.Fatalf("at %s, %s", name, request)
				}
			}
		}
	})
}

// After the first event an error can only be an event, without the mark of a
// complete answer.
func TestErrorsInForeignStreams(t *testing.T) {
	t.Parallel()
	everyOtherDialect(t, func(t *testing.T, _ otherDialect, r *gatewaytest.Gateway, b *simulator.Backend) {
		for name, test := range map[string]struct {
			step simulator.Step
			code string
		}{
			"error event": {simulator.Step{Text: gatewaytest.LongText, After: 5, StreamError: "the GPU at http://10.1.2.3/x fell off"}, "upstream_error"},
			"reset":       {simulator.Step{Text: gatewaytest.LongText, After: 5, Stop: simulator.StopReset}, "upstream_stream_truncated"},
			"closed":      {simulator.Step{Text: gatewaytest.LongText, After: 5, Stop: simulator.StopClose}, "upstream_stream_truncated"},
			"ended":       {simulator.Step{Text: gatewaytest.LongText, After: 5, Stop: simulator.StopEnd}, "upstream_stream_truncated"},
			"in an event": {simulator.Step{Text: gatewaytest.LongText, After: 5, Stop: simulator.StopEnd, MidEvent: true}, "upstream_stream_truncated"},
		} {
			b.Script(test.step)
			events := gatewaytest.EventsOf(t, r.Chat(gatewaytest.StreamHi).Succeeds(t).Body)
			last := events[len(events)-1]
			if fault := gatewaytest.ErrorOf(t, last); fault.Code != test.code || !strings.HasPrefix(last, `{"error":{`) {
				t.Errorf("%s: %s", name, last)
			}
			gatewaytest.ContainsNone(t, last, "10.1.2.3")
			if text := gatewaytest.TextOf(t, events); text == "" || !strings.HasPrefix(gatewaytest.LongText, text) {
				t.Errorf("%s: before the error came %q", name, text)
			}
		}
		i := r.Instances("m")[0]
		if success, failure, cancelled := gatewaytest.Outcomes(i); success != 0 || failure != 5 || cancelled != 0 {
			t.Errorf("outcomes %d %d %d, want only failures", success, failure, cancelled)
		}
	})
}

// A request may go from one dialect to another when the first backend fails.
func TestFailoverBetweenDialects(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	a.ScriptForever(simulator.Step{Status: http.StatusInternalServerError})
	for _, f := range otherDialects {
		for _, body := range []string{gatewaytest.PlainHi, gatewaytest.StreamHi} {
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL(), "adapter: "+f.adapter)))
			if answer := r.Chat(body).Succeeds(t); answer.Header.Get("X-Router-Attempts") != "2" || strings.Contains(answer.Body, `"error"`) {
				t.Errorf("%s: after %s attempts %s", f.adapter, answer.Header.Get("X-Router-Attempts"), answer.Body)
			}
		}
	}
}
