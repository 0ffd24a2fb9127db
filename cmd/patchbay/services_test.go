package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// serviceYAML is a configuration in which one service type has these instances.
// Breakers and health checks stay out of tests that are not about them.
func serviceYAML(service string, instances ...string) string {
	return "services: {" + serviceEntry(service, instances...) + "}\n"
}

func serviceEntry(service string, instances ...string) string {
	return service + ": {circuit-breaker: {enabled: false}, health-check: {enabled: false}, instances: [\n  " +
		strings.Join(instances, ",\n  ") + "]}"
}

// everyService is a configuration in which a backend serves the model m for
// every service type.
func everyService(b *simulator.Backend) string {
	var entries []string
	for _, service := range schema.ServiceTypes() {
		entries = append(entries, serviceEntry(service.String(), instance("m", b.URL())))
	}
	return "services: {" + strings.Join(entries, ",\n") + "}\n"
}

// startService starts a gateway whose only backend serves the model m for every
// service type.
func startService(t *testing.T, steps ...simulator.Step) (*rig, *simulator.Backend) {
	t.Helper()
	b := startBackend(t, steps...)
	return startGateway(t, everyService(b)), b
}

// post posts a JSON body.
func (r *rig) post(path, body string) reply {
	r.t.Helper()
	return r.do(http.MethodPost, path, body)
}

// serving returns the instances of a service type that serve the model m.
func (r *rig) serving(service schema.ServiceType) []*backend.Instance {
	r.t.Helper()
	pool := r.Current.Load().Service(service).Find("m")
	if pool == nil {
		r.t.Fatalf("nobody serves m for %s", service)
	}
	return pool.Instances
}

// part is one part of a form: a field, or a file if it has the name of one.
type part struct {
	name, value string
	filename    string
	contentType string
}

func field(name, value string) part { return part{name: name, value: value} }

func upload(name, filename, contentType, content string) part {
	return part{name, content, filename, contentType}
}

// writeForm writes a form and returns its content type.
func writeForm(t *testing.T, to io.Writer, parts ...part) string {
	t.Helper()
	form := multipart.NewWriter(to)
	for _, p := range parts {
		header := textproto.MIMEHeader{}
		disposition := map[string]string{"name": p.name}
		if p.filename != "" {
			disposition["filename"] = p.filename
		}
		header.Set("Content-Disposition", mime.FormatMediaType("form-data", disposition))
		if p.contentType != "" {
			header.Set("Content-Type", p.contentType)
		}
		out, err := form.CreatePart(header)
		if err == nil {
			_, err = io.WriteString(out, p.value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	return form.FormDataContentType()
}

// postForm posts a form with these parts in this order.
func (r *rig) postForm(path string, parts ...part) reply {
	r.t.Helper()
	var body bytes.Buffer
	contentType := writeForm(r.t, &body, parts...)
	return r.do(http.MethodPost, path, body.String(), "Content-Type", contentType)
}

// partsOf takes the form apart that a backend got.
func partsOf(t *testing.T, request simulator.Request) []part {
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
	var parts []part
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
		parts = append(parts, part{p.FormName(), string(content), p.FileName(), p.Header.Get("Content-Type")})
	}
}

// decode reads a JSON answer.
func decode[T any](t *testing.T, answer reply) T {
	t.Helper()
	answer.succeeds(t)
	if got := answer.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	var value T
	if err := json.Unmarshal([]byte(answer.body), &value); err != nil {
		t.Fatalf("%v in %s", err, answer.body)
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

func recording() part { return upload("file", "a.wav", "audio/wav", "RIFF and so on") }

func photo(t *testing.T, name string) part {
	t.Helper()
	return upload(name, name+".png", "image/png", picture(t, 8, 8))
}

// Every endpoint has its aliases, and answers the same there.
func TestAliases(t *testing.T) {
	r, _ := startService(t)
	for body, paths := range map[string][]string{
		plainHi:  {"/v1/chat/completions", "/chat/completions"},
		embedHi:  {"/v1/embeddings", "/embeddings"},
		rankHi:   {"/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking"},
		speakHi:  {"/v1/audio/speech", "/audio/speech"},
		pictureC: {"/v1/images/generations", "/images/generations"},
	} {
		for _, path := range paths {
			answer := r.post(path, body)
			if answer.status != http.StatusOK || answer.header.Get("X-Request-Id") == "" ||
				answer.header.Get("X-Router-Instance") == "" || answer.header.Get("X-Router-Attempts") != "1" {
				t.Errorf("%s: status %d, %v: %.300s", path, answer.status, answer.header, answer.body)
			}
		}
	}
	for _, path := range []string{"/v1/audio/transcriptions", "/audio/transcriptions"} {
		if answer := r.postForm(path, field("model", "m"), recording()); answer.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
		}
	}
	for _, path := range []string{"/v1/images/edits", "/images/edits"} {
		if answer := r.postForm(path, field("model", "m"), field("prompt", "red"), photo(t, "image")); answer.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
		}
	}
}

// What other services have and this one does not is said in a way that helps,
// and never in one that clients retry.
func TestEndpointsThatDoNotExist(t *testing.T) {
	r, b := startService(t)
	for _, path := range []string{
		"/v1/files", "/v1/batches", "/v1/assistants", "/v1/realtime", "/v1/moderations", "/v1/responses",
		"/v1/fine_tuning/jobs", "/v1/audio/translations", "/v1/audio/voices", "/v1/images/variations", "/v1/messages",
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			body := ""
			if method == http.MethodPost {
				body = plainHi
			}
			fault := r.do(method, path, body).failsWith(t, http.StatusNotFound, "not_found_error", "unknown_endpoint", "")
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
		answer := r.do(http.MethodGet, path, "")
		answer.failsWith(t, http.StatusMethodNotAllowed, invalidRequest, "method_not_allowed", "")
		if allow := answer.header.Get("Allow"); !strings.Contains(allow, http.MethodPost) {
			t.Errorf("%s: Allow %q", path, allow)
		}
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
}

// A request that is not valid is refused here, with the field that is at fault.
func TestInvalidRequestsOfEveryService(t *testing.T) {
	r, b := startService(t)
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
				r.post(path, test.body).failsWith(t, http.StatusBadRequest, invalidRequest, test.code, test.param)
			})
		}
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
}

// The ends of ranges belong to them, and null is the same as not given.
func TestValidRequestsAtTheEdges(t *testing.T) {
	r, b := startService(t)
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
			if answer := r.post(path, body); answer.status != http.StatusOK {
				t.Errorf("%s %s: %d %s", path, body, answer.status, answer.body)
			}
		}
	}
	// What the gateway does not know is the backend's to judge, unchanged.
	b.Script()
	r.post("/v1/embeddings", `{"model":"m","input":"x","vendor":{"a":1e400},"extra_body":{"truncate":"END"}}`).succeeds(t)
	requests := b.Requests()
	if got := string(requests[len(requests)-1].Body); got != `{"model":"m","input":"x","vendor":{"a":1e400},"truncate":"END"}` {
		t.Errorf("the backend got %s", got)
	}
}

// A type of body that an endpoint does not take is refused as that.
func TestBodiesOfTheWrongType(t *testing.T) {
	r, b := startService(t)
	for _, path := range []string{"/v1/embeddings", "/v1/rerank", "/v1/audio/speech", "/v1/images/generations"} {
		r.postForm(path, field("model", "m")).failsWith(t, http.StatusUnsupportedMediaType, invalidRequest, "unsupported_media_type", "")
	}
	for _, path := range []string{"/v1/audio/transcriptions", "/v1/images/edits"} {
		for _, contentType := range []string{
			"application/json", "application/x-www-form-urlencoded", "multipart/form-data", "multipart/mixed; boundary=x",
			`multipart/form-data; boundary=""`, "multipart/form-data; boundary", "nonsense;;",
		} {
			r.do(http.MethodPost, path, `{"model":"m"}`, "Content-Type", contentType).
				failsWith(t, http.StatusUnsupportedMediaType, invalidRequest, "unsupported_media_type", "")
		}
		var body bytes.Buffer
		contentType := writeForm(t, &body, field("model", "m"))
		r.do(http.MethodPost, path, body.String(), "Content-Type", contentType, "Content-Encoding", "gzip").
			failsWith(t, http.StatusUnsupportedMediaType, invalidRequest, "unsupported_media_type", "")
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
}

// A model of one service type is none of another.
func TestModelsBelongToTheirService(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, serviceYAML("embedding", instance("m", b.URL())))
	for path, body := range map[string]string{
		"/v1/chat/completions": plainHi, "/v1/rerank": rankHi, "/v1/audio/speech": speakHi, "/v1/images/generations": pictureC,
	} {
		answer := r.post(path, body)
		answer.failsWith(t, http.StatusServiceUnavailable, "service_unavailable", "service_unavailable", "")
		if answer.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: x-should-retry %q", path, answer.header.Get("X-Should-Retry"))
		}
	}
	r.postForm("/v1/audio/transcriptions", field("model", "m"), recording()).
		failsWith(t, http.StatusServiceUnavailable, "service_unavailable", "service_unavailable", "")
	r.post("/v1/embeddings", embedHi).succeeds(t)
}
