package simulator

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// tongue is how the tests speak a dialect of chat.
type tongue struct {
	name          string
	plain, stream string // paths
	ask, flow     string // bodies
	header        map[string]string
	contentType   string // of the stream
	end           string // how a whole stream ends
	errorBody     string // how an error of status 503 begins
	errorEvent    string // how one in a stream begins
	usage         string // a name that only usage has
}

func tongues() []tongue {
	const (
		ollamaBody = `"model":"m","messages":[{"role":"user","content":"hi"}]}`
		claudeBody = `"model":"m","max_tokens":500,"messages":[{"role":"user","content":"hi"}]}`
		geminiBody = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	)
	return []tongue{
		{"openai", "/v1/chat/completions", "/v1/chat/completions", hi, hiStream, nil, eventStreamType, "data: [DONE]\n\n",
			`{"error":{"message":"`, `data: {"error":{"message":"boom"`, "total_tokens"},
		{"ollama", "/api/chat", "/api/chat", `{"stream":false,` + ollamaBody, `{` + ollamaBody, nil, linesType, "}\n",
			`{"error":"The`, `{"error":"boom"}` + "\n", "eval_count"},
		{"anthropic", "/v1/messages", "/v1/messages", `{` + claudeBody, `{"stream":true,` + claudeBody,
			map[string]string{"Anthropic-Version": "2023-06-01"}, eventStreamType, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
			`{"type":"error","error":{"type":"api_error","message":"The`, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"boom\"}", "output_tokens"},
		{"gemini", "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse", geminiBody, geminiBody, nil, eventStreamType, "}\r\n\r\n",
			`{"error":{"code":503,"message":"The`, `data: {"error":{"code":503,"message":"boom","status":"UNAVAILABLE"}}` + "\r\n\r\n", "TokenCount"},
	}
}

func (r *rig) talk(tongue *tongue, stream bool, header map[string]string) reply {
	r.t.Helper()
	path, body := tongue.plain, tongue.ask
	if stream {
		path, body = tongue.stream, tongue.flow
	}
	request, err := http.NewRequestWithContext(waittest.Context(r.t), http.MethodPost, r.URL()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, more := range []map[string]string{tongue.header, header} {
		for name, value := range more {
			request.Header.Set(name, value)
		}
	}
	response, err := r.client.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(answer), err}
}

func TestFaultsSpeakEveryDialect(t *testing.T) {
	for _, tongue := range tongues() {
		tests := []struct {
			name   string
			step   Step
			stream bool
			status int
			err    error
			start  string
			has    string
			lacks  string
		}{
			{"whole stream", Step{}, true, 200, nil, "", tongue.end, "boom"},
			{"status", Step{Status: 503}, false, 503, nil, tongue.errorBody, "503", ""},
			{"own body", Step{Status: 502, Body: HTMLPage}, true, 502, nil, HTMLPage, "", ""},
			{"error inside a 200", Step{Body: `{"error":"x"}`}, false, 200, nil, `{"error":"x"}`, "", ""},
			{"error event", Step{StreamError: "boom", After: 2}, true, 200, nil, "", tongue.errorEvent, "three"},
			{"error event and reset", Step{StreamError: "boom", After: 2, Stop: StopReset}, true, 200, syscall.ECONNRESET, "", tongue.errorEvent, "three"},
			{"error event first", Step{StreamError: "boom"}, true, 200, nil, tongue.errorEvent, "", "one"},
			{"cut after events", Step{Stop: StopClose, After: 2}, true, 200, io.ErrUnexpectedEOF, "", "", "three"},
			{"cut after bytes", Step{Stop: StopReset, AfterBytes: 30}, true, 200, syscall.ECONNRESET, "", "", "one"},
			{"cut inside an event", Step{Stop: StopClose, MidEvent: true}, true, 200, io.ErrUnexpectedEOF, "", "", "two"},
			{"ends without its end", Step{NoDone: true, NoFinish: true}, true, 200, nil, "", "three", `"done":true`},
			{"plain cut", Step{Stop: StopClose}, false, 200, io.ErrUnexpectedEOF, "{", "", ""},
			{"reset", Step{Reset: true}, true, 0, syscall.ECONNRESET, "", "", ""},
			{"plain for a stream", Step{Plain: true}, true, 200, nil, "{", "one two three", "data:"},
			{"more fields", Step{Extra: `"vendor":1`}, true, 200, nil, "", `"vendor":1}`, ""},
			{"no usage", Step{Usage: UsageNone}, true, 200, nil, "", "three", tongue.usage},
			{"a tail", Step{Tail: "tail"}, true, 200, nil, "", tongue.end + "tail", ""},
			{"one byte at a time", Step{Slice: 1}, true, 200, nil, "", tongue.end, ""},
			{"header", Step{Header: http.Header{"X-A": {"b"}}}, true, 200, nil, "", tongue.end, ""},
		}
		for _, test := range tests {
			t.Run(tongue.name+" "+test.name, func(t *testing.T) {
				r := newRig(t, Options{})
				test.step.Text = "one two three"
				r.Script(test.step)
				got := r.talk(&tongue, test.stream, nil)
				if got.status != test.status || !errors.Is(got.err, test.err) {
					t.Errorf("status %d, error %v", got.status, got.err)
				}
				if !strings.HasPrefix(got.body, test.start) || !strings.Contains(got.body, test.has) || test.lacks != "" && strings.Contains(got.body, test.lacks) {
					t.Errorf("body %s", got.body)
				}
				if test.step.AfterBytes > 0 && len(got.body) != test.step.AfterBytes {
					t.Errorf("%d bytes", len(got.body))
				}
				if test.name == "whole stream" && (got.header.Get("Content-Type") != tongue.contentType || !strings.HasSuffix(got.body, tongue.end)) {
					t.Errorf("%v: %q", got.header, got.body)
				}
			})
		}
	}
}

func TestClientsThatLeaveAreNoticedInEveryDialect(t *testing.T) {
	for _, tongue := range tongues() {
		r := newRig(t, Options{})
		r.Script(Step{Text: strings.Repeat(" word", 200_000)}) // more than sockets buffer
		request, _ := http.NewRequestWithContext(waittest.Context(t), http.MethodPost, r.URL()+tongue.stream,
			strings.NewReader(strings.Replace(tongue.flow, `"max_tokens":500`, `"max_tokens":999999`, 1)))
		for name, value := range tongue.header {
			request.Header.Set(name, value)
		}
		response, err := r.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if err := r.WaitCancelled(waittest.Context(t), 1); err != nil {
			t.Errorf("%s: %v", tongue.name, err)
		}
	}
}

func TestKeysComeInTheHeaderOfTheDialect(t *testing.T) {
	headers := map[string]string{"openai": "Authorization", "ollama": "Authorization", "anthropic": "X-Api-Key", "gemini": "X-Goog-Api-Key"}
	r := newRig(t, Options{Key: "right"})
	for _, tongue := range tongues() {
		for key, status := range map[string]int{"right": 200, "wrong": 401, "": 401} {
			header := map[string]string{}
			if key != "" {
				header[headers[tongue.name]] = key
			}
			got := r.talk(&tongue, false, header)
			if got.status != status || status == 401 && !strings.HasPrefix(got.body, strings.SplitN(tongue.errorBody, `"api_error"`, 2)[0][:8]) {
				t.Errorf("%s with %q: %+v", tongue.name, key, got)
			}
		}
	}
	if got := r.post("/v1beta/models/m:generateContent?key=right", tongues()[3].ask); got.status != 200 {
		t.Errorf("a key in the query: %+v", got)
	}
	anthropicOnly := tongues()[2]
	if got := r.talk(&anthropicOnly, false, map[string]string{"Authorization": "Bearer right"}); got.status != 401 || !strings.Contains(got.body, "authentication_error") {
		t.Errorf("a bearer token: %+v", got)
	}
}

func TestBehavioursApplyToModelsOfEveryDialect(t *testing.T) {
	r := newRig(t, Options{Behaviours: map[string]Behaviour{"m": {Step: Step{Status: 418}}}})
	for _, tongue := range tongues() {
		if got := r.talk(&tongue, true, nil); got.status != 418 {
			t.Errorf("%s: %+v", tongue.name, got)
		}
	}
}

func TestEveryDialectSaysTheSame(t *testing.T) {
	r := newRig(t, Options{Name: "alpha"})
	want := *decode(t, r.chat(hi).body).Choices[0].Message.Content
	inside := string(appendString(nil, want))
	for _, tongue := range tongues() {
		if got := r.talk(&tongue, false, nil); !strings.Contains(got.body, inside[1:len(inside)-1]) {
			t.Errorf("%s: %s", tongue.name, got.body)
		}
	}
}

func TestModelListsAndHealthPaths(t *testing.T) {
	r := newRig(t, Demo("demo", 0))
	for path, want := range map[string]string{
		"/health":        `{"status":"ok"}`,
		"/v1/models":     `{"id":"demo-image-edit"`,
		"/api/version":   `{"version":"`,
		"/api/tags":      `{"name":"demo-embedding:latest","model":"demo-embedding:latest"`,
		"/v1beta/models": `{"name":"models/demo-gemini"`,
	} {
		if got := r.do(waittest.Context(t), http.MethodGet, path, ""); got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %+v", path, got)
		}
	}
	got := read[struct{ Data []struct{ ID string } }](t, r.do(waittest.Context(t), http.MethodGet, "/v1/models", "").body)
	var names []string
	for _, model := range got.Data {
		names = append(names, model.ID)
	}
	want := []string{DemoChat, DemoOllama, DemoClaude, DemoGemini, DemoResponses, DemoEmbedding, DemoRerank, DemoSpeech, DemoListen, DemoImage, DemoImageEdit,
		DemoCut, DemoDown, DemoFlaky, DemoHang, DemoRelay, DemoSlow}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}
