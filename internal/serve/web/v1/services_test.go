package v1_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// serving returns the instances of a service type that serve the model m.
func serving(r *gatewaytest.Gateway, service schema.ServiceType) []*backend.Instance {
	r.T.Helper()
	pool := r.Current.Load().Service(service).Find("m")
	if pool == nil {
		r.T.Fatalf("nobody serves m for %s", service)
	}
	return pool.Instances
}

// partsOf takes the form apart that a backend got.
func partsOf(t *testing.T, request simulator.Request) []gatewaytest.Part {
	t.Helper()
	_, params, err := mime.ParseMediaType(request.Header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("the backend got no form: %v", err)
	}
	if request.BodyLength != len(request.Body) {
		t.Fatalf("the journal kept %d of %d bytes", len(request.Body), request.BodyLength)
	}
	if got := request.Header.Get("Content-Length"); got != "" && got != fmt.Sprint(request.BodyLength) {
		t.Errorf("Content-Length %s for %d bytes", got, request.BodyLength)
	}
	reader := multipart.NewReader(bytes.NewReader(request.Body), params["boundary"])
	var parts []gatewaytest.Part
	for {
		p, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err != nil {
			t.Fatalf("the backend got a broken form: %v", err)
		}
		content, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, gatewaytest.Part{Name: p.FormName(), Value: string(content), Filename: p.FileName(), ContentType: p.Header.Get("Content-Type")})
	}
}

// decode reads a JSON answer.
func decode[T any](t *testing.T, answer gatewaytest.Reply) T {
	t.Helper()
	answer.Succeeds(t)
	if got := answer.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	var value T
	if err := json.Unmarshal([]byte(answer.Body), &value); err != nil {
		t.Fatalf("%v in %s", err, answer.Body)
	}
	return value
}

// Requests for the model m that every endpoint accepts.
const (
	embedHi  = `{"model":"m","input":"hi"}`
	rankHi   = `{"model":"m","query":"hi","documents":["hi there","bye"]}`
	speakHi  = `{"model":"m","input":"hi there","voice":"alloy"}`
	pictureC = `{"model":"m","prompt":"a cat","size":"64x64"}`
)

// Every endpoint has its aliases, and answers the same there.
func TestAliases(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartService(t)
	for body, paths := range map[string][]string{
		gatewaytest.PlainHi: {"/v1/chat/completions", "/chat/completions"},
		embedHi:             {"/v1/embeddings", "/embeddings"},
		rankHi:              {"/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking"},
		speakHi:             {"/v1/audio/speech", "/audio/speech"},
		pictureC:            {"/v1/images/generations", "/images/generations"},
	} {
		for _, path := range paths {
			answer := r.Post(path, body)
			if answer.Status != http.StatusOK || answer.Header.Get("X-Request-Id") == "" ||
				answer.Header.Get("X-Router-Instance") == "" || answer.Header.Get("X-Router-Attempts") != "1" {
				t.Errorf("%s: status %d, %v: %.300s", path, answer.Status, answer.Header, answer.Body)
			}
		}
	}
	for _, path := range []string{"/v1/audio/transcriptions", "/audio/transcriptions"} {
		if answer := r.PostForm(path, gatewaytest.Field("model", "m"), gatewaytest.Recording()); answer.Status != http.StatusOK {
			t.Errorf("%s: %d %s", path, answer.Status, answer.Body)
		}
	}
	for _, path := range []string{"/v1/images/edits", "/images/edits"} {
		if answer := r.PostForm(path, gatewaytest.Field("model", "m"), gatewaytest.Field("prompt", "red"), gatewaytest.Photo(t, "image")); answer.Status != http.StatusOK {
			t.Errorf("%s: %d %s", path, answer.Status, answer.Body)
		}
	}
}

// What other services have and this one does not is said in a way that helps,
// and never in one that clients retry.
func TestEndpointsThatDoNotExist(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	for _, path := range []string{
		"/v1/assistants", "/v1/threads", "/v1/conversations",
		"/v1/fine_tuning/jobs", "/v1/audio/voices", "/v1/images/variations", "/v1/vector_stores",
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			body := ""
			if method == http.MethodPost {
				body = gatewaytest.PlainHi
			}
			fault := r.Do(method, path, body).FailsWith(t, http.StatusNotFound, "not_found_error", "unknown_endpoint", "")
			for _, supported := range []string{
				"/v1/chat/completions", "/v1/embeddings", "/v1/rerank", "/v1/audio/speech",
				"/v1/audio/transcriptions", "/v1/images/generations", "/v1/images/edits", "/v1/models", path,
			} {
				if !strings.Contains(fault.Message, supported) {
					t.Errorf("%s %s: the message does not name %s: %s", method, path, supported, fault.Message)
				}
			}
		}
	}
	for _, path := range []string{
		"/v1/embeddings", "/v1/rerank", "/v2/rerank", "/v1/audio/speech", "/v1/audio/transcriptions",
		"/v1/images/generations", "/v1/images/edits",
	} {
		answer := r.Do(http.MethodGet, path, "")
		answer.FailsWith(t, http.StatusMethodNotAllowed, gatewaytest.InvalidRequest, "method_not_allowed", "")
		if allow := answer.Header.Get("Allow"); !strings.Contains(allow, http.MethodPost) {
			t.Errorf("%s: Allow %q", path, allow)
		}
	}
	for _, path := range []string{"/v1beta/models/m:predict", "/v2/models/m:generateContent"} {
		if answer := r.Do(http.MethodPost, path, "{}"); answer.Status < 400 || !strings.Contains(answer.Body, "Gemini's API") {
			t.Errorf("%s: %d %s", path, answer.Status, answer.Body)
		}
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
	gatewaytest.Needs(t, "answers")
	r.Do(http.MethodPost, "/v1/responses/resp_1", "{}").FailsWith(t, http.StatusMethodNotAllowed, gatewaytest.InvalidRequest, "method_not_allowed", "")
}

// A request that is not valid is refused here, with the field that is at fault.
func TestInvalidRequestsOfEveryService(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	const missing, invalid = "missing_parameter", "invalid_value"
	for path, tests := range map[string][]struct{ body, code, param string }{
		"/v1/embeddings": {
			{`{"input":"x"}`, missing, "model"},
			{`{"model":null,"input":"x"}`, missing, "model"},
			{`{"model":7,"input":"x"}`, invalid, "model"},
			{`{"model":"m"}`, missing, "input"},
			{`{"model":"m","input":null}`, missing, "input"},
			{`{"model":"m","input":7}`, invalid, "input"},
			{`{"model":"m","input":{}}`, invalid, "input"},
			{`{"model":"m","input":[]}`, invalid, "input"},
			{`{"model":"m","input":[true]}`, invalid, "input"},
			{`{"model":"m","input":["a",1]}`, invalid, "input"},
			{`{"model":"m","input":"x","encoding_format":"int8"}`, invalid, "encoding_format"},
			{`{"model":"m","input":"x","encoding_format":1}`, invalid, "encoding_format"},
			{`{"model":"m","input":"x","dimensions":"8"}`, invalid, "dimensions"},
			{`{"model":"m","input":"x","dimensions":1.5}`, invalid, "dimensions"},
			{`{"model":"m","input":"x","user":1}`, invalid, "user"},
			{`{"model":"m","input":"x","extra_body":[]}`, invalid, "extra_body"},
			{`{"model":"m","input":"x","input":"y"}`, "invalid_json", ""},
			{`{"model":"m","input":"x"`, "invalid_json", ""},
			{`["m"]`, "invalid_json", ""},
		},
		"/v1/rerank": {
			{`{"query":"q","documents":["d"]}`, missing, "model"},
			{`{"model":"m","documents":["d"]}`, missing, "query"},
			{`{"model":"m","query":["q"],"documents":["d"]}`, invalid, "query"},
			{`{"model":"m","query":"","documents":["d"]}`, invalid, "query"},
			{`{"model":"m","query":"q"}`, missing, "documents"},
			{`{"model":"m","query":"q","documents":"d"}`, invalid, "documents"},
			{`{"model":"m","query":"q","documents":[]}`, invalid, "documents"},
			{`{"model":"m","query":"q","documents":["d",7]}`, invalid, "documents[1]"},
			{`{"model":"m","query":"q","documents":["d"],"top_n":0}`, invalid, "top_n"},
			{`{"model":"m","query":"q","documents":["d"],"top_n":-1}`, invalid, "top_n"},
			{`{"model":"m","query":"q","documents":["d"],"top_n":1.5}`, invalid, "top_n"},
			{`{"model":"m","query":"q","documents":["d"],"top_n":"1"}`, invalid, "top_n"},
			{`{"model":"m","query":"q","documents":["d"],"return_documents":"yes"}`, invalid, "return_documents"},
		},
		"/v1/audio/speech": {
			{`{"input":"x","voice":"v"}`, missing, "model"},
			{`{"model":"m","voice":"v"}`, missing, "input"},
			{`{"model":"m","input":"","voice":"v"}`, invalid, "input"},
			{`{"model":"m","input":["x"],"voice":"v"}`, invalid, "input"},
			{`{"model":"m","input":"x"}`, missing, "voice"},
			{`{"model":"m","input":"x","voice":1}`, invalid, "voice"},
			{`{"model":"m","input":"x","voice":"v","speed":0.24}`, invalid, "speed"},
			{`{"model":"m","input":"x","voice":"v","speed":0.2499999999999999}`, invalid, "speed"},
			{`{"model":"m","input":"x","voice":"v","speed":4.01}`, invalid, "speed"},
			{`{"model":"m","input":"x","voice":"v","speed":-1}`, invalid, "speed"},
			{`{"model":"m","input":"x","voice":"v","speed":"1"}`, invalid, "speed"},
			{`{"model":"m","input":"x","voice":"v","response_format":1}`, invalid, "response_format"},
		},
		"/v1/images/generations": {
			{`{"prompt":"x"}`, missing, "model"},
			{`{"model":"m"}`, missing, "prompt"},
			{`{"model":"m","prompt":""}`, invalid, "prompt"},
			{`{"model":"m","prompt":1}`, invalid, "prompt"},
			{`{"model":"m","prompt":"x","n":0}`, invalid, "n"},
			{`{"model":"m","prompt":"x","n":1.5}`, invalid, "n"},
			{`{"model":"m","prompt":"x","n":"1"}`, invalid, "n"},
			{`{"model":"m","prompt":"x","size":1024}`, invalid, "size"},
			{`{"model":"m","prompt":"x","quality":1}`, invalid, "quality"},
			{`{"model":"m","prompt":"x","style":1}`, invalid, "style"},
			{`{"model":"m","prompt":"x","response_format":"b64"}`, invalid, "response_format"},
			{`{"model":"m","prompt":"x","response_format":1}`, invalid, "response_format"},
			{`{"model":"m","prompt":"x","user":{}}`, invalid, "user"},
		},
	} {
		for _, test := range tests {
			t.Run(path+" "+test.body, func(t *testing.T) {
				r.Post(path, test.body).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, test.code, test.param)
			})
		}
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
}

// The ends of ranges belong to them, and null is the same as not given.
func TestValidRequestsAtTheEdges(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	for path, bodies := range map[string][]string{
		"/v1/audio/speech": {
			`{"model":"m","input":"x","voice":"v","speed":0.25}`,
			`{"model":"m","input":"x","voice":"v","speed":4}`,
			`{"model":"m","input":"x","voice":"v","speed":4.0}`,
			`{"model":"m","input":"x","voice":"v","speed":null,"response_format":null}`,
			`{"model":"m","input":"x","voice":{"id":"custom"}}`,
		},
		"/v1/embeddings": {
			`{"model":"m","input":"x","encoding_format":null,"dimensions":null,"user":null}`,
			`{"model":"m","input":["x"],"user":"u"}`,
		},
		"/v1/rerank": {
			`{"model":"m","query":"q","documents":["d"],"top_n":100,"return_documents":null}`,
			`{"model":"m","query":"q","documents":["d"],"top_n":null}`,
		},
		"/v1/images/generations": {
			`{"model":"m","prompt":"x","size":null,"n":null,"quality":null,"style":null,"response_format":null}`,
			`{"model":"m","prompt":"x","size":"64x64","quality":"hd","style":"vivid","n":2}`,
		},
	} {
		for _, body := range bodies {
			if answer := r.Post(path, body); answer.Status != http.StatusOK {
				t.Errorf("%s %s: %d %s", path, body, answer.Status, answer.Body)
			}
		}
	}
	// What the gateway does not know is the backend's to judge, unchanged.
	b.Script()
	r.Post("/v1/embeddings", `{"model":"m","input":"x","vendor":{"a":1e400},"extra_body":{"truncate":"END"}}`).Succeeds(t)
	requests := b.Requests()
	if got := string(requests[len(requests)-1].Body); got != `{"model":"m","input":"x","vendor":{"a":1e400},"truncate":"END"}` {
		t.Errorf("the backend got %s", got)
	}
}

// Bounds that the document gives and the gateway does not check are the
// backend's: what is outside of them reaches it unchanged.
func TestBoundsOfBackendsAreNotChecked(t *testing.T) {
	t.Parallel()
	for path, bodies := range map[string][]string{
		"/v1/chat/completions": {
			`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":-1}`,
			`{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":0}`,
			`{"model":"m","messages":[{"role":"assistant","content":[null]}]}`,
		},
		"/v1/embeddings": {
			`{"model":"m","input":"x","dimensions":0}`,
			`{"model":"m","input":""}`,
			`{"model":"m","input":[[null]]}`,
			`{"model":"m","input":[[-1,4294967296]]}`,
		},
		"/v1/images/generations": {`{"model":"m","prompt":"x","n":11}`},
	} {
		r, b := gatewaytest.StartService(t)
		for _, body := range bodies {
			r.Post(path, body)
			if requests := b.Requests(); string(requests[len(requests)-1].Body) != body {
				t.Errorf("%s: the backend got %s for %s", path, requests[len(requests)-1].Body, body)
			}
		}
	}
}

// A type of body that an endpoint does not take is refused as that.
func TestBodiesOfTheWrongType(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	for _, path := range []string{"/v1/embeddings", "/v1/rerank", "/v1/audio/speech", "/v1/images/generations"} {
		r.PostForm(path, gatewaytest.Field("model", "m")).FailsWith(t, http.StatusUnsupportedMediaType, gatewaytest.InvalidRequest, "unsupported_media_type", "")
	}
	for _, path := range []string{"/v1/audio/transcriptions", "/v1/images/edits"} {
		for _, contentType := range []string{
			"application/json", "application/x-www-form-urlencoded", "multipart/form-data", "multipart/mixed; boundary=x",
			`multipart/form-data; boundary=""`, "multipart/form-data; boundary", "nonsense;;",
		} {
			r.Do(http.MethodPost, path, `{"model":"m"}`, "Content-Type", contentType).
				FailsWith(t, http.StatusUnsupportedMediaType, gatewaytest.InvalidRequest, "unsupported_media_type", "")
		}
		var body bytes.Buffer
		contentType := gatewaytest.WriteForm(t, &body, gatewaytest.Field("model", "m"))
		r.Do(http.MethodPost, path, body.String(), "Content-Type", contentType, "Content-Encoding", "gzip").
			FailsWith(t, http.StatusUnsupportedMediaType, gatewaytest.InvalidRequest, "unsupported_media_type", "")
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
}

// A model of one service type is none of another.
func TestModelsBelongToTheirService(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ServiceYAML("embedding", gatewaytest.Instance("m", b.URL())))
	for path, body := range map[string]string{
		"/v1/chat/completions": gatewaytest.PlainHi, "/v1/rerank": rankHi, "/v1/audio/speech": speakHi, "/v1/images/generations": pictureC,
	} {
		answer := r.Post(path, body)
		answer.FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "service_unavailable", "")
		if answer.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: x-should-retry %q", path, answer.Header.Get("X-Should-Retry"))
		}
	}
	r.PostForm("/v1/audio/transcriptions", gatewaytest.Field("model", "m"), gatewaytest.Recording()).
		FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "service_unavailable", "")
	r.Post("/v1/embeddings", embedHi).Succeeds(t)
}

// A path with a typing error is answered with the right one.
func TestAPathThatDoesNotExistHasANearestOne(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	for path, near := range map[string]string{
		"/v1/chat/completion": "/v1/chat/completions", "/v1/v1/chat/completions": "/v1/chat/completions", "/v1/embedding": "/v1/embeddings",
		"/v1/message": "/v1/messages", "/v1/audio/transcription": "/v1/audio/transcriptions", "/ollama/api/chats": "/ollama/api/chat",
		"/v1/nothing/of/this/kind": "",
	} {
		reply := r.Do(http.MethodPost, path, `{}`)
		if isNamed := strings.Contains(reply.Body, "Did you mean POST "+near+"?"); reply.Status != http.StatusNotFound || isNamed != (near != "") {
			t.Errorf("%s: got %d %s, want %q to be named", path, reply.Status, reply.Body, near)
		}
	}
}

// A model that another service type serves is answered with the endpoint for it, to callers who may
// use it.
func TestAModelOfAnotherServiceTypeHasItsEndpoint(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	services := "services: {" + gatewaytest.ServiceEntry("chat", gatewaytest.Instance("talks", b.URL())) + ", " +
		gatewaytest.ServiceEntry("embedding", gatewaytest.Instance("embeds", b.URL())) + "}\n"
	for _, c := range []struct{ keys, path, body, want string }{
		{"", "/v1/chat/completions", `{"model":"embeds","messages":[{"role":"user","content":"hi"}]}`, "is for embedding, and this endpoint is for chat. Send the request to POST /v1/embeddings."},
		{"", "/v1/messages", `{"model":"embeds","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, "POST /v1/embeddings."},
		{"", "/v1/embeddings", `{"model":"talks","input":"hi"}`, "is for chat, and this endpoint is for embedding. Send the request to POST /v1/chat/completions."},
		{"", "/v1/rerank", `{"model":"talks","query":"hi","documents":["a"]}`, "POST /v1/chat/completions."},
		{"security: {enabled: true, keys: [{id: k, key-sha256: " + gatewaytest.HashOf("k") + ", models: [talks]}]}\n", "/v1/chat/completions",
			`{"model":"embeds","messages":[{"role":"user","content":"hi"}]}`, `may not use this model`},
	} {
		r := gatewaytest.Start(t, services+c.keys)
		reply := r.Do(http.MethodPost, c.path, c.body, "Authorization", "Bearer k")
		if reply.Status < 400 || !strings.Contains(reply.Body, c.want) || c.keys != "" && strings.Contains(reply.Body, "/v1/embeddings") {
			t.Errorf("%s %s: got %d %s, want %q", c.path, c.keys, reply.Status, reply.Body, c.want)
		}
	}
}
