package kinds

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/openai"
	"github.com/patchbay-ai/patchbay/internal/dialect/rerank"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// This file is what every adapter has to keep, whatever its dialect: it runs
// over all that the table of kinds holds.

// The name by which a caller knows the model, and the one that a backend has.
const (
	callersName  = "callers-name"
	backendsName = "backends/name:8b"
)

// unknownMembers are fields that no adapter knows. Their digits, spaces and
// nulls tell whether they were passed on or written anew.
const unknownMembers = `"x_digits":12345678901234567890.10,"x_null":null,"x_deep":{"a":[1.50, -0, 1e2],"b":"\u00e9\/"}`

// requestOf returns a valid request of a service type.
func requestOf(t testing.TB, service schema.ServiceType, stream bool) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	file := &schema.File{Filename: "a.bin", ContentType: "application/octet-stream", Size: 4, Open: func() io.Reader { return strings.NewReader("file") }}
	head := `{"model":"` + callersName + `",` + unknownMembers
	var err error
	switch service {
	case schema.Chat:
		if stream {
			head += `,"stream":true`
		}
		err = req.ParseChat([]byte(head + `,"messages":[{"role":"user","content":"hi"}]}`))
	case schema.Embedding:
		err = req.ParseEmbedding([]byte(head + `,"input":["a","b"]}`))
	case schema.Rerank:
		err = req.ParseRerank([]byte(head + `,"query":"q","documents":["a","b"]}`))
	case schema.TTS:
		err = req.ParseSpeech([]byte(head + `,"input":"hello","voice":"alloy"}`))
	case schema.ImgGen:
		err = req.ParseImage([]byte(head + `,"prompt":"cat"}`))
	case schema.STT:
		err = req.ParseTranscription(&schema.Form{Parts: []schema.Part{{Name: "model", Value: callersName}, {Name: "x_unknown", Value: "kept"}, {Name: "file", File: file}}})
	case schema.ImgEdit:
		err = req.ParseImageEdit(&schema.Form{Parts: []schema.Part{{Name: "image", File: file}, {Name: "prompt", Value: "p"}, {Name: "x_unknown", Value: "kept"}, {Name: "model", Value: callersName}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// forEveryRoute runs a test for every kind and service type of the table.
func forEveryRoute(t *testing.T, test func(t *testing.T, kind *dialect.Kind, service schema.ServiceType)) {
	t.Helper()
	for _, kind := range table {
		for _, service := range schema.ServiceTypes() {
			if _, ok := kind.Routes[service]; ok {
				t.Run(kind.Name+"/"+service.String(), func(t *testing.T) { test(t, kind, service) })
			}
		}
	}
}

func callOf(t testing.TB, kind *dialect.Kind, service schema.ServiceType, endpoint dialect.Endpoint, stream bool) *wire.Call {
	t.Helper()
	target, err := kind.Target(service, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	call := new(wire.Call)
	if err := target.Unified().Call(requestOf(t, service, stream), target, call); err != nil {
		t.Fatal(err)
	}
	if err := target.Authorize(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	return call
}

// bodyOf returns the body of a call as it would be sent.
func bodyOf(t testing.TB, call *wire.Call) string {
	t.Helper()
	body := bytes.Join(call.Body, nil)
	if call.Upload != nil {
		var err error
		if body, err = io.ReadAll(call.Upload.Open()); err != nil {
			t.Fatal(err)
		}
	}
	if len(body) != call.Length() {
		t.Errorf("%d bytes, but %d were promised", len(body), call.Length())
	}
	return string(body)
}

func TestEveryKindCanBeFound(t *testing.T) {
	taken := map[string]string{}
	for _, kind := range table {
		if kind.TypeName == "" || len(kind.Routes) == 0 {
			t.Errorf("%s has no type name or serves nothing", kind.Name)
		}
		for _, name := range append([]string{kind.Name}, kind.Aliases...) {
			if other, ok := taken[schema.Fold(name)]; ok {
				t.Errorf("%s means %s and %s", name, kind.Name, other)
			}
			taken[schema.Fold(name)] = kind.Name
			for _, spelling := range []string{name, strings.ToUpper(name), name[:1] + "-" + name[1:]} {
				if found, err := Lookup(spelling); found != kind || err != nil {
					t.Errorf("%s is not found as %s: %v", kind.Name, spelling, err)
				}
			}
		}
		for _, service := range schema.ServiceTypes() {
			_, supported := kind.Routes[service]
			if err := Check(kind.Name, service); (err == nil) != supported {
				t.Errorf("%s for %s: %v", kind.Name, service, err)
			}
		}
	}
	for _, unknown := range []string{"", "nobody", "openai "} {
		if kind, err := Lookup(unknown); err == nil {
			t.Errorf("%q is %s", unknown, kind.Name)
		}
	}
	if err := Check("nobody", schema.Chat); err == nil || !strings.Contains(err.Error(), "openai") {
		t.Errorf("the error %v does not name what there is", err)
	}
	if err := Check("cohere", schema.Chat); err == nil || !strings.Contains(err.Error(), "vllm") {
		t.Errorf("the error %v does not name who can", err)
	}
}

func TestEveryCallIsComplete(t *testing.T) {
	forEveryRoute(t, func(t *testing.T, kind *dialect.Kind, service schema.ServiceType) {
		for _, stream := range []bool{false, true} {
			call := callOf(t, kind, service, dialect.Endpoint{BaseURL: "http://backend.test:8000"}, stream)
			if call.Method != http.MethodPost || !strings.HasPrefix(call.Path, "/") || headerOf(call, "Content-Type") == "" || headerOf(call, "Accept") == "" {
				t.Errorf("call %s %s %v", call.Method, call.Path, call.Header)
			}
			body := bodyOf(t, call)
			if call.Upload == nil && !jsontext.Value(body).IsValid() {
				t.Errorf("the body is no strict JSON: %s", body)
			}
			if got := headerOf(call, "Authorization"); got != "" {
				t.Errorf("a credential from nowhere: %s", got)
			}
		}
	})
}

func TestEveryKindPutsTheKeyInItsHeader(t *testing.T) {
	const key = "planted-key-0123456789"
	forEveryRoute(t, func(t *testing.T, kind *dialect.Kind, service schema.ServiceType) {
		name, value := "Authorization", "Bearer "+key
		if kind.KeyHeader != "" {
			name, value = kind.KeyHeader, key
		}
		call := callOf(t, kind, service, dialect.Endpoint{BaseURL: "http://backend.test:8000", APIKey: key, Headers: map[string]string{"X-Own": "own"}}, false)
		carriers := slices.DeleteFunc(slices.Clone(call.Header), func(h wire.Header) bool { return !strings.Contains(h.Value, key) })
		if len(carriers) != 1 || !strings.EqualFold(carriers[0].Name, name) || carriers[0].Value != value {
			t.Errorf("the key is in %v, want it in %s alone", carriers, name)
		}
		if strings.Contains(call.Path+bodyOf(t, call), key) {
			t.Error("the key is in the path or in the body")
		}
		if headerOf(call, "X-Own") != "own" {
			t.Error("the instance's own header is missing")
		}
		call = callOf(t, kind, service, dialect.Endpoint{BaseURL: "http://backend.test:8000", APIKey: key, Headers: map[string]string{strings.ToUpper(name): "mine"}}, false)
		if got := headerOf(call, name); got != "mine" || strings.Contains(fmt.Sprint(call.Header), key) {
			t.Errorf("%s is %q, want the instance's own", name, got)
		}
	})
}

func TestEveryKindCallsTheModelByTheBackendsName(t *testing.T) {
	forEveryRoute(t, func(t *testing.T, kind *dialect.Kind, service schema.ServiceType) {
		if kind.Routes[service].Adapter == rerank.TEI {
			return // it serves one model and wants no name
		}
		sent := func(model string) string {
			call := callOf(t, kind, service, dialect.Endpoint{BaseURL: "http://backend.test:8000", Model: model}, false)
			return strings.ReplaceAll(call.Path, "%3A", ":") + "\n" + bodyOf(t, call)
		}
		if got := sent(""); !strings.Contains(got, callersName) {
			t.Errorf("the caller's name is not in %s", got)
		}
		if got := sent(backendsName); !strings.Contains(strings.ReplaceAll(got, "%2F", "/"), backendsName) || strings.Contains(got, callersName) {
			t.Errorf("the backend's name is not, or the caller's is, in %s", got)
		}
	})
}

func TestEveryKindFindsItsPath(t *testing.T) {
	forEveryRoute(t, func(t *testing.T, kind *dialect.Kind, service schema.ServiceType) {
		path := func(base, own string) string {
			return callOf(t, kind, service, dialect.Endpoint{BaseURL: base, Path: own}, false).Path
		}
		plain := path("http://backend.test:8000", "")
		if got := path("http://backend.test:8000/", ""); got != plain {
			t.Errorf("with a slash at the end %s, want %s", got, plain)
		}
		if got := path("http://backend.test:8000/some/where", ""); got != "/some/where"+plain {
			t.Errorf("below a path %s, want /some/where%s", got, plain)
		}
		version, _, _ := strings.Cut(strings.TrimPrefix(kind.Routes[service].Path, "/"), "/")
		if regexp.MustCompile(`^v[0-9]`).MatchString(version) {
			for _, end := range []string{"", "/"} {
				want := plain
				if kind.Deployments != "" {
					want = kind.Routes[service].Path // the model is not in it
				}
				if got := path("http://backend.test:8000/"+version+end, ""); got != want {
					t.Errorf("with the version in the base address %s, want %s", got, want)
				}
			}
		}
		if got := path("http://backend.test:8000", "/own/path"); got != "/own/path" {
			t.Errorf("with a path of its own %s, want /own/path", got)
		}
		if got := path("http://backend.test:8000/base/", "/v1/own?api-version=1"); got != "/base/v1/own?api-version=1" {
			t.Errorf("with a path of its own %s, want /base/v1/own?api-version=1", got)
		}
	})
}

// TestOpenAIShapedKindsKeepUnknownFields wants them byte by byte.
func TestOpenAIShapedKindsKeepUnknownFields(t *testing.T) {
	tried := 0
	forEveryRoute(t, func(t *testing.T, kind *dialect.Kind, service schema.ServiceType) {
		switch kind.Routes[service].Adapter {
		case openai.Chat, openai.Embedding, openai.Image, openai.Speech, openai.Transcription, rerank.Rerank:
		default:
			return // a dialect of its own
		}
		tried++
		for _, stream := range []bool{false, true} {
			call := callOf(t, kind, service, dialect.Endpoint{BaseURL: "http://backend.test:8000", Model: backendsName}, stream)
			want := unknownMembers
			if call.Upload != nil {
				want = "name=\"x_unknown\"\r\n\r\nkept\r\n"
			}
			if body := bodyOf(t, call); !strings.Contains(body, want) {
				t.Errorf("%s is not in %s", want, body)
			}
		}
	})
	if tried < 20 {
		t.Errorf("only %d routes were tried", tried)
	}
}

func TestEveryCallCanBeUsedAgain(t *testing.T) {
	forEveryRoute(t, func(t *testing.T, kind *dialect.Kind, service schema.ServiceType) {
		target, err := kind.Target(service, dialect.Endpoint{BaseURL: "http://backend.test:8000", APIKey: "k", Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		req := requestOf(t, service, true)
		boundary := regexp.MustCompile(`patchbay-\w+`)
		var call wire.Call
		var first string
		for i := range 3 {
			if err := target.Unified().Call(req, target, &call); err != nil {
				t.Fatal(err)
			}
			got := boundary.ReplaceAllString(fmt.Sprint(call.Method, call.Path, call.Header, bodyOf(t, &call)), "B")
			if i == 0 {
				first = got
			}
			if got != first {
				t.Errorf("used again, the call is %s, was %s", got, first)
			}
			if i == 1 {
				call.Reset()
			}
		}
	})
}

// allowed reports whether an adapter may end in an error: only in those whose
// consequences are settled.
func allowed(err error) bool {
	var failure *dialect.Failure
	var refusal *schema.Error
	return errors.As(err, &failure) || errors.As(err, &refusal) ||
		errors.Is(err, dialect.ErrInvalid) || errors.Is(err, dialect.ErrTruncated) || errors.Is(err, dialect.ErrEventTooLarge)
}

// answers returns the answers of a kind's transcripts for a service type.
func answers(t testing.TB, kind *dialect.Kind, service schema.ServiceType) (list []golden) {
	t.Helper()
	err := filepath.WalkDir("testdata/golden", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".txt" {
			return err
		}
		g := readGolden(t, path)
		name, err := schema.ParseServiceType(g.settings["service"])
		if found, _ := Lookup(g.settings["kind"]); found == kind && name == service && err == nil && g.settings["door"] == "" && g.has("answer") {
			list = append(list, g)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// garbage returns what no backend should send: nothing, noise, and the answers
// of the transcripts cut and damaged.
func garbage(t testing.TB, kind *dialect.Kind, service schema.ServiceType) []string {
	t.Helper()
	random := rand.New(rand.NewPCG(7, uint64(service)))
	list := []string{
		"", " ", "\n", "null", "true", "0", `""`, "[]", "{}", "[[]]", "[null]", `{"":null}`, "<html></html>", "\x00", "\xff\xfe", "\ufeff{}",
		`{"choices":null}`, `{"choices":[null]}`, `{"choices":[{"message":{"content":"\ud83d"},"delta":{"\ude00":"\ud83d"},"finish_reason":"stop"}]}`, `{"choices":[1]}`, `{"choices":{}}`, `{"choices":[{"message":null}]}`, `{"choices":[{"delta":null}]}`,
		`{"data":[null]}`, `{"data":[1]}`, `{"data":[[]]}`, `{"data":{"a":1}}`, `{"data":[{"embedding":null}]}`, `{"data":[{"url":1,"b64_json":[]}]}`,
		`{"results":[null]}`, `{"results":[[]]}`, `{"results":{}}`, `{"results":[{"index":-1,"score":1}]}`, `{"results":[{"index":1e18,"score":1}]}`, `{"results":[{"index":0,"score":1e999}]}`,
		`[{"index":0.5,"score":1}]`, `{"text":null}`, `{"usage":[]}`, `{"error":[]}`, `{"error":{"message":{"error":{"message":{}}}}}`,
		`{"message":null,"done":true}`, `{"content":null}`, `{"content":[null]}`, `{"candidates":[null]}`, `{"candidates":[{"content":{"parts":[null]}}]}`, `{"embeddings":[null]}`, `{"embedding":[]}`,
		strings.Repeat("[", 200), strings.Repeat(`{"a":`, 200), "data: \n\n", "data: {}\n\n", "data: []\n\ndata: [DONE]\n\n", "event: error\ndata: x\n\n", "{}\n{}\n", "}\n{",
	}
	for range 200 {
		noise := make([]byte, random.IntN(100))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		list = append(list, string(noise))
	}
	for _, g := range answers(t, kind, service) {
		_, body, _ := strings.Cut(g.sections["answer"], "\n\n")
		if len(body) > 1<<14 || body == "" {
			continue
		}
		for range 8 {
			at := random.IntN(len(body))
			list = append(list, body[:at], body[at:])
			damaged := []byte(body)
			damaged[at] = `"{}[],:0 n\`[random.IntN(11)]
			list = append(list, string(damaged))
		}
	}
	return list
}

func TestNoAnswerMakesAnAdapterPanic(t *testing.T) {
	forEveryRoute(t, func(t *testing.T, kind *dialect.Kind, service schema.ServiceType) {
		target, err := kind.Target(service, dialect.Endpoint{BaseURL: "http://backend.test:8000"})
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range garbage(t, kind, service) {
			for _, contentType := range []string{"application/json", "text/plain", ""} {
				checkReply(t, target.Unified(), requestOf(t, service, false), dialect.Answer{ContentType: contentType, Body: []byte(body)})
			}
			if target.Unified().Streams() {
				checkStream(t, target.Unified().Events(requestOf(t, service, true), strings.NewReader(body)), body)
			}
		}
	})
}

// isJSON allows what a backend may have sent and what is passed on as it came:
// the same key twice, and half of a surrogate pair.
func isJSON(text []byte) bool {
	return utf8.Valid(text) && jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// checkReply wants a whole answer to end in a reply that is JSON, or text if it
// says so, or in an error whose consequences are settled.
func checkReply(t *testing.T, adapter dialect.Speaker, req *schema.Request, answer dialect.Answer) {
	t.Helper()
	var reply dialect.Reply
	if err := adapter.Reply(req, answer, &reply); err != nil {
		if !allowed(err) {
			t.Errorf("%q: %v", answer.Body, err)
		}
		return
	}
	text := bytes.Join(reply.Segments, nil)
	if reply.ContentType == "" && !isJSON(text) {
		t.Errorf("%q became %q, which is no JSON", answer.Body, text)
	}
	if req.Service == schema.Chat {
		var again dialect.Reply
		req.Stream = true
		err := adapter.Reply(req, answer, &again)
		var events *dialect.Stream
		if err == nil {
			events, err = adapter.Split(req, &again)
		}
		if err == nil && events != nil {
			checkStream(t, events, string(answer.Body))
		} else if err != nil && !allowed(err) {
			t.Errorf("%q as a stream: %v", answer.Body, err)
		}
	}
}

// checkStream wants chunks that are objects on one line, and an end that is
// settled and stays.
func checkStream(t *testing.T, events dialect.Events, body string) {
	t.Helper()
	for range len(body) + 10 {
		chunk, err := events.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !allowed(err) {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		if jsontext.Value(chunk).Kind() != '{' || !isJSON(chunk) || bytes.ContainsAny(chunk, "\r\n") {
			t.Errorf("%q became the chunk %q", body, chunk)
		}
		if !isChunk(chunk) {
			t.Errorf("%q became %q, which is no chunk", body, chunk)
		}
		if usage := events.Usage(); usage.Prompt < 0 || usage.Completion < 0 || usage.Total < 0 {
			t.Errorf("%q: usage %+v", body, usage)
		}
	}
	t.Errorf("%q: no end", body)
}

// isChunk looks for what clients look at first and without asking.
func isChunk(text []byte) bool {
	var doc jsonscan.Document
	doc.AllowDuplicateKeys = true
	if doc.Parse(text) != nil {
		return false
	}
	root := doc.Root()
	for c := root.Get("choices").First(); c.Kind() != jsonscan.Absent; c = c.Next() {
		if c.Kind() != jsonscan.Object {
			return false
		}
	}
	return root.Get("choices").Kind() == jsonscan.Array && root.Get("id").Kind() != jsonscan.Absent &&
		root.Get("object").Kind() != jsonscan.Absent && root.Get("created").Kind() != jsonscan.Absent && root.Get("model").Given()
}

// FuzzAnswers sends the same bytes to every adapter, whole and as a stream.
func FuzzAnswers(f *testing.F) {
	for _, kind := range table {
		for service := range kind.Routes {
			for _, g := range answers(f, kind, service) {
				if _, body, _ := strings.Cut(g.sections["answer"], "\n\n"); len(body) < 1500 {
					f.Add([]byte(body))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		done := map[*dialect.Adapter]bool{}
		for _, kind := range table {
			for service, route := range kind.Routes {
				if done[route.Adapter] {
					continue // kinds of one dialect share their adapters
				}
				done[route.Adapter] = true
				speaker := unifiedSpeaker(t, kind, service)
				checkReply(t, speaker, requestOf(t, service, false), dialect.Answer{ContentType: "application/json", Body: body})
				if speaker.Streams() {
					checkStream(t, speaker.Events(requestOf(t, service, true), bytes.NewReader(body)), string(body))
				}
			}
		}
	})
}

// unifiedSpeaker returns how unified requests are put to a kind.
func unifiedSpeaker(t *testing.T, kind *dialect.Kind, service schema.ServiceType) dialect.Speaker {
	t.Helper()
	target, err := kind.Target(service, dialect.Endpoint{BaseURL: "http://backend.test:8000"})
	if err != nil {
		t.Fatal(err)
	}
	return target.Unified()
}

// invented matches what an adapter makes up anew for every stream.
var invented = regexp.MustCompile(`"(id|created|tool_call_id)":("[^"]*"|\d+)`)

// tellAll reads a stream to its end and writes down all that it told.
func tellAll(events dialect.Events) (lines []string, end error) {
	for {
		chunk, err := events.Next()
		if err != nil {
			return append(lines, fmt.Sprintf("%v %+v", err, events.Usage())), err
		}
		lines = append(lines, invented.ReplaceAllString(string(chunk), `"$1":0`))
	}
}

func TestEverySplitOfAStreamGivesTheSameEvents(t *testing.T) {
	forEveryRoute(t, func(t *testing.T, kind *dialect.Kind, service schema.ServiceType) {
		streamer := unifiedSpeaker(t, kind, service)
		if !streamer.Streams() {
			return // no streams
		}
		tried := 0
		random := rand.New(rand.NewPCG(9, 9))
		for _, g := range answers(t, kind, service) {
			if !g.has("events") {
				continue
			}
			tried++
			_, body, _ := strings.Cut(g.sections["answer"], "\n\n")
			req := g.request(t, service)
			want, _ := tellAll(streamer.Events(req, strings.NewReader(body)))
			check := func(how string, from io.Reader) {
				t.Helper()
				if got, _ := tellAll(streamer.Events(req, from)); !slices.Equal(got, want) {
					t.Fatalf("%s: events %q, want %q", how, got, want)
				}
			}
			// Some places in each; the readers below are cut at every place by
			// tests of their own.
			for at := 0; at <= len(body); at += 1 + len(body)/50 {
				check(fmt.Sprintf("cut at %d of %q", at, body), io.MultiReader(strings.NewReader(body[:at]), strings.NewReader(body[at:])))
			}
			for range 5 {
				check("random pieces", &pieces{rest: []byte(body), size: func() int { return 1 + random.IntN(9) }})
			}
		}
		if tried == 0 {
			t.Error("no transcript of a stream: add one with a section events")
		}
	})
}

// TestABrokenConnectionIsNoEnd breaks every stream in its middle with an error
// of the connection: it is passed on, or the answer was complete before.
func TestABrokenConnectionIsNoEnd(t *testing.T) {
	broken := errors.New("connection reset by peer")
	forEveryRoute(t, func(t *testing.T, kind *dialect.Kind, service schema.ServiceType) {
		streamer := unifiedSpeaker(t, kind, service)
		if !streamer.Streams() {
			return // no streams
		}
		for _, g := range answers(t, kind, service) {
			if !g.has("events") || !strings.HasSuffix(g.section("events"), "[DONE]") {
				continue
			}
			_, body, _ := strings.Cut(g.sections["answer"], "\n\n")
			first := strings.Split(body, "\n\n")[0]
			for _, part := range []string{"", first[:len(first)/2]} {
				_, end := tellAll(streamer.Events(g.request(t, service), io.MultiReader(strings.NewReader(part), iotest.ErrReader(broken))))
				if !errors.Is(end, broken) && !errors.Is(end, dialect.ErrTruncated) {
					t.Errorf("%q and a broken connection: %v", part, end)
				}
			}
		}
	})
}

// pieces is a reader that gives as many bytes at a time as it is told to.
type pieces struct {
	rest []byte
	size func() int
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.rest[:min(len(p.rest), p.size())])
	p.rest = p.rest[n:]
	return n, nil
}
