package schema_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// endpoint is a request that is valid as it stands, and the way to read it.
type endpoint struct {
	parse    func(*schema.Request, []byte) error
	body     map[string]string // fields as JSON
	required []string
	// accepts lists, for every field that is checked, which of the samples it
	// may be; all others are refused.
	accepts map[string][]string
}

// samples are values of every type, with the ones at which checks go wrong.
var samples = []string{
	`true`, `false`, `0`, `1`, `-1`, `1.5`, `"x"`, `""`, `[]`, `["x"]`, `[1]`, `[[1]]`, `[null]`, `{}`, `{"a":1}`,
}

var (
	texts    = []string{`"x"`, `""`}
	integers = []string{`0`, `1`, `-1`}
	booleans = []string{`true`, `false`}
	objects  = []string{`{}`, `{"a":1}`}
)

var endpoints = map[string]endpoint{
	"chat": {
		parse:    (*schema.Request).ParseChat,
		body:     map[string]string{"model": `"m"`, "messages": `[{"role":"user","content":"hi"}]`},
		required: []string{"model", "messages"},
		accepts: map[string][]string{
			"model": {`"x"`}, "messages": {}, "user": texts, "extra_body": objects,
			"stream": booleans, "stream_options": objects, "stop": {`"x"`, `""`, `[]`, `["x"]`},
			"max_tokens": integers, "max_completion_tokens": integers, "n": integers, "best_of": integers, "top_k": integers,
			"temperature": {`0`, `1`, `1.5`}, "top_p": {`0`, `1`},
			"frequency_penalty": {`0`, `1`, `-1`, `1.5`}, "presence_penalty": {`0`, `1`, `-1`, `1.5`},
		},
	},
	"embedding": {
		parse:    (*schema.Request).ParseEmbedding,
		body:     map[string]string{"model": `"m"`, "input": `"a"`},
		required: []string{"model", "input"},
		accepts: map[string][]string{
			"model": {`"x"`}, "user": texts, "extra_body": objects,
			"input": {`"x"`, `""`, `["x"]`, `[1]`, `[[1]]`}, "encoding_format": {}, "dimensions": integers,
		},
	},
	"rerank": {
		parse:    (*schema.Request).ParseRerank,
		body:     map[string]string{"model": `"m"`, "query": `"q"`, "documents": `["a"]`},
		required: []string{"model", "query", "documents"},
		accepts: map[string][]string{
			"model": {`"x"`}, "user": texts, "extra_body": objects,
			"query": {`"x"`}, "documents": {`["x"]`}, "top_n": {`1`}, "return_documents": booleans,
		},
	},
	"speech": {
		parse:    (*schema.Request).ParseSpeech,
		body:     map[string]string{"model": `"m"`, "input": `"a"`, "voice": `"v"`},
		required: []string{"model", "input", "voice"},
		accepts: map[string][]string{
			"model": {`"x"`}, "user": texts, "extra_body": objects,
			"input": {`"x"`}, "voice": {`"x"`, `""`, `{}`, `{"a":1}`}, "response_format": texts, "speed": {`1`, `1.5`},
		},
	},
	"image": {
		parse:    (*schema.Request).ParseImage,
		body:     map[string]string{"model": `"m"`, "prompt": `"p"`},
		required: []string{"model", "prompt"},
		accepts: map[string][]string{
			"model": {`"x"`}, "user": texts, "extra_body": objects,
			"prompt": {`"x"`}, "n": {`1`}, "size": texts, "quality": texts, "style": texts, "response_format": {},
		},
	},
}

// write returns the body as JSON.
func write(fields map[string]string) []byte {
	members := make([]string, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		members = append(members, fmt.Sprintf("%q:%s", name, fields[name]))
	}
	return []byte("{" + strings.Join(members, ",") + "}")
}

// with returns the fields with one more or another one, without it if the value
// is empty.
func with(fields map[string]string, name, value string) map[string]string {
	changed := maps.Clone(fields)
	changed[name] = value
	if value == "" {
		delete(changed, name)
	}
	return changed
}

// onlyTopLevel are the fields that extra_body cannot give.
var onlyTopLevel = []string{"model", "messages", "extra_body"}

func wantRefusal(t *testing.T, body []byte, err error, param, code string) {
	t.Helper()
	var refusal *schema.Error
	if !errors.As(err, &refusal) {
		t.Errorf("%s: %v, want a refusal of %s", body, err, param)
		return
	}
	if refusal.Param == nil || refusal.Code != code || refusal.Type != schema.TypeInvalidRequest || refusal.Message == "" {
		t.Errorf("%s: %+v, want code %s for %s", body, refusal, code, param)
		return
	}
	// A fault of an element is named as such.
	if got := *refusal.Param; got != param && !strings.HasPrefix(got, param+"[0]") {
		t.Errorf("%s: param %s, want %s", body, got, param)
	}
}

func TestRequestsAreValidAsTheyStand(t *testing.T) {
	for name, e := range endpoints {
		var req schema.Request
		if err := e.parse(&req, write(e.body)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if string(req.Model) != "m" {
			t.Errorf("%s: model %q", name, req.Model)
		}
	}
}

// TestEveryFieldRefusesEveryWrongType tries every sample in every field, at the
// top level and in extra_body.
func TestEveryFieldRefusesEveryWrongType(t *testing.T) {
	for name, e := range endpoints {
		t.Run(name, func(t *testing.T) {
			for field, accepted := range e.accepts {
				for _, sample := range samples {
					bodies := [][]byte{write(with(e.body, field, sample))}
					if !slices.Contains(onlyTopLevel, field) {
						bodies = append(bodies,
							write(with(with(e.body, field, ""), "extra_body", `{"`+field+`":`+sample+`}`)),
							write(with(with(e.body, field, "null"), "extra_body", `{"`+field+`":`+sample+`}`)))
					}
					for _, body := range bodies {
						var req schema.Request
						err := e.parse(&req, body)
						if slices.Contains(accepted, sample) {
							if err != nil {
								t.Errorf("%s: %v", body, err)
							}
							continue
						}
						code := schema.CodeInvalidValue
						if field == "model" && sample == `""` {
							code = schema.CodeMissingParameter
						}
						wantRefusal(t, body, err, field, code)
					}
				}
			}
		})
	}
}

func TestRequiredFieldsAreMissed(t *testing.T) {
	for name, e := range endpoints {
		t.Run(name, func(t *testing.T) {
			for _, field := range e.required {
				for _, body := range [][]byte{
					write(with(e.body, field, "")),
					write(with(e.body, field, "null")),
					write(with(with(e.body, field, "null"), "extra_body", `{"`+field+`":null}`)),
				} {
					var req schema.Request
					wantRefusal(t, body, e.parse(&req, body), field, schema.CodeMissingParameter)
				}
			}
			for _, field := range []string{"model", "messages"} {
				if value, ok := e.body[field]; ok {
					body := write(with(with(e.body, field, ""), "extra_body", `{"`+field+`":`+value+`}`))
					var req schema.Request
					wantRefusal(t, body, e.parse(&req, body), field, schema.CodeMissingParameter)
				}
			}
		})
	}
}

func TestNullMeansNotGiven(t *testing.T) {
	for name, e := range endpoints {
		for field := range e.accepts {
			if slices.Contains(e.required, field) {
				continue
			}
			var req schema.Request
			if body := write(with(e.body, field, "null")); e.parse(&req, body) != nil {
				t.Errorf("%s: %s", name, body)
			}
		}
	}
}

// TestARequestsOwnFieldStandsAboveExtraBody gives both, one of them wrong.
func TestARequestsOwnFieldStandsAboveExtraBody(t *testing.T) {
	var req schema.Request
	if err := req.ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":""}],"temperature":1,"extra_body":{"temperature":"hot"}}`)); err != nil {
		t.Error(err)
	}
	body := []byte(`{"model":"m","messages":[{"role":"user","content":""}],"temperature":"hot","extra_body":{"temperature":1}}`)
	wantRefusal(t, body, req.ParseChat(body), "temperature", schema.CodeInvalidValue)
}

func TestRangesHoldAtTheirEdges(t *testing.T) {
	for _, c := range []struct {
		endpoint, field string
		inside, outside []string
	}{
		{"chat", "temperature", []string{"0", "-0", "0.0", "2", "2.0", "2e0", "1e-400"}, []string{"-0.0001", "-1e-300", "2.0001", "3", "1e400"}},
		{"chat", "top_p", []string{"0", "1", "1.0", "10e-1"}, []string{"-0.1", "1.0001", "2"}},
		{"chat", "frequency_penalty", []string{"-2", "2", "0"}, []string{"-2.01", "2.01"}},
		{"chat", "presence_penalty", []string{"-2", "2", "0"}, []string{"-2.01", "2.01"}},
		{"chat", "max_tokens", []string{"1", "-1", "1.0", "1e3", "9223372036854775807"}, []string{"1.5", "1e400", "9223372036854775808"}},
		{"chat", "max_completion_tokens", []string{"1", "-1", "1e3"}, []string{"1.5", `"100000"`, "9223372036854775808"}},
		{"chat", "n", []string{"1", "50", "5e1"}, []string{"1.5", `"50"`, `[50]`}},
		{"chat", "best_of", []string{"1", "50"}, []string{"1.5", `"50"`}},
		{"chat", "top_k", []string{"40", "-1"}, []string{"0.5"}},
		{"speech", "speed", []string{"0.25", "4", "4.0"}, []string{"0.2499", "4.0001", "0", "-1"}},
		{"rerank", "top_n", []string{"1", "1000000"}, []string{"0", "-1", "1.5"}},
		{"image", "n", []string{"1", "10"}, []string{"0", "-1", "1.5"}},
		{"embedding", "dimensions", []string{"1", "1536.0"}, []string{"1.5"}},
		{"embedding", "encoding_format", []string{`"float"`, `"base64"`, `"\u0066loat"`}, []string{`"FLOAT"`, `"binary"`, `"ubinary"`}},
		{"image", "response_format", []string{`"url"`, `"b64_json"`}, []string{`"png"`, `"URL"`, `"base64"`}},
	} {
		e := endpoints[c.endpoint]
		for _, value := range c.inside {
			var req schema.Request
			if err := e.parse(&req, write(with(e.body, c.field, value))); err != nil {
				t.Errorf("%s %s: %v", c.field, value, err)
			}
		}
		for _, value := range c.outside {
			var req schema.Request
			body := write(with(e.body, c.field, value))
			wantRefusal(t, body, e.parse(&req, body), c.field, schema.CodeInvalidValue)
		}
	}
}

func TestBodiesThatAreNoJSON(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":                 "",
		"space":                   " \n",
		"cut":                     `{"model":"m","messages":[`,
		"no object":               `["model"]`,
		"a text":                  `"model"`,
		"null":                    `null`,
		"two":                     `{"model":"m"}{}`,
		"a key twice":             `{"model":"m","model":"m"}`,
		"a key twice by escapes":  `{"model":"m","mod\u0065l":"x"}`,
		"a key twice, deep":       `{"model":"m","messages":[{"role":"user","content":[{"a":{"b":1,"b":2}}]}]}`,
		"a key twice, extra_body": `{"model":"m","extra_body":{"a":1,"a":2}}`,
		"invalid UTF-8":           "{\"model\":\"\xff\"}",
		"too deep":                `{"model":"m","x":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`,
		"a number that is none":   `{"model":"m","temperature":01}`,
		"not a number":            `{"model":"m","temperature":NaN}`,
		"two byte order marks":    "\ufeff\ufeff{}",
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range endpoints {
				var req schema.Request
				var refusal *schema.Error
				if err := e.parse(&req, []byte(body)); !errors.As(err, &refusal) || refusal.Code != schema.CodeInvalidJSON || refusal.Param != nil {
					t.Errorf("%v (%+v), want code %s", err, refusal, schema.CodeInvalidJSON)
				}
			}
		})
	}
}

// TestUnusualTextsAreAccepted tries what is grammatical and what the grammar lets
// a reader ignore.
func TestUnusualTextsAreAccepted(t *testing.T) {
	for name, e := range endpoints {
		body := write(with(e.body, "x", `{"\ud83d":"\ude00 \ud83d"}`))
		var req schema.Request
		if err := e.parse(&req, append([]byte("\ufeff"), body...)); err != nil || string(req.Body.Data()) != string(body) {
			t.Errorf("%s: %q (%v), want %q", name, req.Body.Data(), err, body)
		}
	}
}

func TestModelNames(t *testing.T) {
	for _, name := range []string{"m", "org/model:8b-q4_K_M", "gpt 4", "модель", strings.Repeat("m", 512)} {
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		var req schema.Request
		if err := req.ParseEmbedding([]byte(`{"input":"a","model":` + string(quoted) + `}`)); err != nil || string(req.Model) != name {
			t.Errorf("%.20q: %v, read as %.20q", name, err, req.Model)
		}
		if err := req.ParseTranscription(form("model="+name, "file=@a")); err != nil || string(req.Model) != name {
			t.Errorf("%.20q in a form: %v, read as %.20q", name, err, req.Model)
		}
	}
	for name, code := range map[string]string{
		"":                       schema.CodeMissingParameter,
		"   ":                    schema.CodeMissingParameter,
		"a\nb":                   schema.CodeInvalidValue,
		"a\x00":                  schema.CodeInvalidValue,
		"a\x7fb":                 schema.CodeInvalidValue,
		strings.Repeat("m", 513): schema.CodeInvalidValue,
	} {
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		var req schema.Request
		body := []byte(`{"input":"a","model":` + string(quoted) + `}`)
		wantRefusal(t, body, req.ParseEmbedding(body), "model", code)
		wantRefusal(t, body, req.ParseTranscription(form("model="+name, "file=@a")), "model", code)
	}
}

func TestWhatIsReadOfARequest(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	type facts struct {
		Stream, IncludeUsage, Base64 bool
		ImageFormat, User            string
	}
	for _, c := range []struct {
		endpoint, body string
		want           facts
	}{
		{"chat", `{"model":"m",` + messages + `}`, facts{}},
		{"chat", `{"model":"m",` + messages + `,"stream":true}`, facts{Stream: true}},
		{"chat", `{"model":"m",` + messages + `,"stream":false,"stream_options":{"include_usage":false}}`, facts{}},
		{"chat", `{"model":"m",` + messages + `,"stream":null,"stream_options":{"include_usage":null}}`, facts{}},
		{"chat", `{"model":"m",` + messages + `,"stream":true,"stream_options":{"include_usage":true}}`, facts{Stream: true, IncludeUsage: true}},
		{"chat", `{"model":"m",` + messages + `,"extra_body":{"stream":true,"stream_options":{"include_usage":true},"user":"u"}}`, facts{Stream: true, IncludeUsage: true, User: "u"}},
		{"chat", `{"model":"m",` + messages + `,"user":"\u0075\"2"}`, facts{User: `u"2`}},
		{"embedding", `{"model":"m","input":"a","encoding_format":"base64"}`, facts{Base64: true}},
		{"embedding", `{"model":"m","input":"a","encoding_format":"float"}`, facts{}},
		{"embedding", `{"model":"m","input":"a","extra_body":{"encoding_format":"base64"}}`, facts{Base64: true}},
		{"image", `{"model":"m","prompt":"p","response_format":"url"}`, facts{ImageFormat: "url"}},
		{"image", `{"model":"m","prompt":"p","extra_body":{"response_format":"b64_json"}}`, facts{ImageFormat: "b64_json"}},
	} {
		var req schema.Request
		if err := endpoints[c.endpoint].parse(&req, []byte(c.body)); err != nil {
			t.Errorf("%s: %v", c.body, err)
		}
		if got := (facts{req.Stream, req.IncludeUsage, req.Base64, req.ImageFormat, string(req.User)}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.body, got, c.want)
		}
		req.Reset()
		if err := req.ParseEmbedding([]byte(`{"model":"n","input":"b"}`)); err != nil {
			t.Fatal(err)
		}
		if got := (facts{req.Stream, req.IncludeUsage, req.Base64, req.ImageFormat, string(req.User)}); got != (facts{}) || string(req.Model) != "n" || req.Service != schema.Embedding {
			t.Errorf("after a reset %+v is left of %s", got, c.body)
		}
	}
}

func TestIncludeUsageMustBeABoolean(t *testing.T) {
	for _, value := range []string{`1`, `"true"`, `{}`, `[]`} {
		body := []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":` + value + `}}`)
		var req schema.Request
		wantRefusal(t, body, req.ParseChat(body), "stream_options.include_usage", schema.CodeInvalidValue)
	}
}

func TestMessages(t *testing.T) {
	for _, messages := range []string{
		`[{"role":"system","content":""}]`,
		`[{"role":"developer","content":"a"},{"role":"user","content":[{"type":"text","text":"x"}]}]`,
		`[{"role":"user","content":[]}]`,
		`[{"role":"assistant","content":null,"tool_calls":[]}]`,
		`[{"role":"assistant"}]`,
		`[{"role":"tool","content":"x","tool_call_id":"1"}]`,
		`[{"role":"function","name":"f","content":"x"}]`,
		`[{"role":"\u0075ser","content":"x","name":null,"anything":{"else":[1]}}]`,
	} {
		var req schema.Request
		if err := req.ParseChat([]byte(`{"model":"m","messages":` + messages + `}`)); err != nil {
			t.Errorf("%s: %v", messages, err)
		}
	}
	for _, c := range []struct{ messages, param, code string }{
		{`[{"role":"user","content":"a"},1]`, "messages[1]", schema.CodeInvalidValue},
		{`[null]`, "messages[0]", schema.CodeInvalidValue},
		{`[{"content":"a"}]`, "messages[0].role", schema.CodeMissingParameter},
		{`[{"role":null,"content":"a"}]`, "messages[0].role", schema.CodeMissingParameter},
		{`[{"role":1,"content":"a"}]`, "messages[0].role", schema.CodeInvalidValue},
		{`[{"role":"admin","content":"a"}]`, "messages[0].role", schema.CodeInvalidValue},
		{`[{"role":"User","content":"a"}]`, "messages[0].role", schema.CodeInvalidValue},
		{`[{"role":"user"}]`, "messages[0].content", schema.CodeMissingParameter},
		{`[{"role":"tool","content":null}]`, "messages[0].content", schema.CodeMissingParameter},
		{`[{"role":"user","content":1}]`, "messages[0].content", schema.CodeInvalidValue},
		{`[{"role":"user","content":{}}]`, "messages[0].content", schema.CodeInvalidValue},
		{`[{"role":"assistant","content":true}]`, "messages[0].content", schema.CodeInvalidValue},
		{`[{"role":"user","content":"a","name":1}]`, "messages[0].name", schema.CodeInvalidValue},
	} {
		body := []byte(`{"model":"m","messages":` + c.messages + `}`)
		var req schema.Request
		var refusal *schema.Error
		if err := req.ParseChat(body); !errors.As(err, &refusal) || *refusal.Param != c.param || refusal.Code != c.code || !strings.Contains(refusal.Message, "'"+c.param+"'") {
			t.Errorf("%s: %+v, want %s for %s", c.messages, refusal, c.code, c.param)
		}
	}
}

// TestABodyOfAnotherAPIIsRecognised helps those whose client speaks the newer
// API by default.
func TestABodyOfAnotherAPIIsRecognised(t *testing.T) {
	var req schema.Request
	err := req.ParseChat([]byte(`{"model":"m","input":"hi"}`))
	if err == nil || !strings.Contains(err.Error(), "Responses API") {
		t.Errorf("%v does not say what is wrong", err)
	}
}

func TestInputsAndDocumentsOfMixedTypes(t *testing.T) {
	for _, c := range []struct{ endpoint, field, value, param string }{
		{"embedding", "input", `["a",1]`, "input"},
		{"embedding", "input", `[1,"a"]`, "input"},
		{"embedding", "input", `[[1],"a"]`, "input"},
		{"embedding", "input", `["a",null]`, "input"},
		{"rerank", "documents", `["a",1]`, "documents[1]"},
		{"rerank", "documents", `[{"text":"a"},null]`, "documents[1]"},
		{"rerank", "documents", `[[]]`, "documents[0]"},
		{"chat", "stop", `["a",1]`, "stop"},
		{"chat", "stop", `["a",null]`, "stop"},
	} {
		e := endpoints[c.endpoint]
		var req schema.Request
		body := write(with(e.body, c.field, c.value))
		var refusal *schema.Error
		if err := e.parse(&req, body); !errors.As(err, &refusal) || *refusal.Param != c.param {
			t.Errorf("%s: %+v, want a refusal of %s", body, refusal, c.param)
		}
	}
	var req schema.Request
	e := endpoints["rerank"]
	if err := e.parse(&req, write(with(e.body, "documents", `["a",{"text":"b"},{"title":"c"}]`))); err != nil {
		t.Error(err)
	}
}

func TestErrorsAreWrittenAsClientsReadThem(t *testing.T) {
	for _, c := range []struct {
		err  *schema.Error
		want string
	}{
		{schema.InvalidValue("n", say.Plain("no")), `{"message":"no","type":"invalid_request_error","param":"n","code":"invalid_value"}`},
		{schema.MissingParameter("n"), `{"message":"Missing required parameter: 'n'.","type":"invalid_request_error","param":"n","code":"missing_parameter"}`},
		{&schema.Error{Message: "x", Type: schema.TypeInvalidRequest, Code: schema.CodeInvalidJSON, Status: 418, NoRetry: true, RetryAfter: 1}, `{"message":"x","type":"invalid_request_error","param":null,"code":"invalid_json"}`},
	} {
		got, err := json.Marshal(c.err)
		if err != nil || string(got) != c.want {
			t.Errorf("%s (%v), want %s", got, err, c.want)
		}
		if c.err.Error() != c.err.Message {
			t.Errorf("the error says %q", c.err.Error())
		}
	}
}
