package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// FuzzParseChat holds that what is refused is refused in the caller's words, and
// that what is accepted leaves the OpenAI adapter as strict JSON that says what
// the caller said: one model, the backend's; nothing of extra_body but its
// members; usage asked for in every stream.
func FuzzParseChat(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		`{"extra_body":null,"model":"m","stream":true,"stream_options":null,"messages":[{"role":"user","content":[]}]}`,
		`{"model":"m","messages":[{"role":"assistant"}],"extra_body":{"model":"x","stream":true,"stream_options":{"include_usage":false,"a":1}}}`,
		`{"model":"m","messages":[{"role":"user","content":""}],"stop":null,"extra_body":{"stop":["a"],"extra_body":{"a":1},"b":2}}`,
		`{ "stream" : true , "extra_body" : { } , "messages" : [ { "role" : "user" , "content" : "" } ] , "model" : "m" }`,
		`{"mod\u0065l":"m","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{"include_us\u0061ge":false}}`,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"extra_body":{"mess\u0061ges":1,"str\u0065am":true,"\"":"\""}}`,
		`{"model":"m","messages":[{"role":"user","content":"\ud83d"}],"\ude00":1,"extra_body":{"\ud83d":"\ude00"}}`,
		"\ufeff" + `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","messages":[],"temperature":3}`,
		`{"model":1}`, `{}`, `[]`, ``,
	} {
		f.Add([]byte(body))
	}
	kind, err := kinds.Lookup("openai")
	if err != nil {
		f.Fatal(err)
	}
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", Model: "backends-name"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		original := bytes.Clone(body)
		var req schema.Request
		if err := req.ParseChat(body); err != nil {
			var refusal *schema.Error
			if !errors.As(err, &refusal) || refusal.Code == "" || refusal.Type != schema.TypeInvalidRequest {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		var call wire.Call
		if err := target.Unified().Call(&req, target, &call); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		sent := bytes.Join(call.Body, nil)
		// Half of a surrogate pair is passed on; bytes that are no UTF-8 are not.
		if !jsontext.Value(sent).IsValid(jsontext.AllowInvalidUTF8(true)) || !utf8.Valid(sent) {
			t.Fatalf("%q became %q, which is no strict JSON", body, sent)
		}
		if !bytes.Equal(body, original) {
			t.Fatalf("the caller's body was changed: %q, was %q", body, original)
		}
		compareSent(t, req.Body.Data(), sent, &req)
	})
}

// compareSent decodes both bodies and compares them field by field.
func compareSent(t *testing.T, body, sent []byte, req *schema.Request) {
	t.Helper()
	var given, extra, got map[string]json.RawMessage
	if err := json.Unmarshal(body, &given); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(sent, &got); err != nil {
		t.Fatal(err)
	}
	if raw, ok := given["extra_body"]; ok {
		if err := json.Unmarshal(raw, &extra); err != nil {
			t.Fatal(err)
		}
		delete(given, "extra_body")
	}
	for name, value := range extra {
		if old, ok := given[name]; (!ok || string(old) == "null") && name != "extra_body" {
			given[name] = value
		}
	}
	if _, ok := got["extra_body"]; ok {
		t.Errorf("%q still has extra_body: %q", body, sent)
	}
	if string(got["model"]) != `"backends-name"` {
		t.Errorf("%q goes to the model %s", body, got["model"])
	}
	delete(given, "model")
	delete(got, "model")
	if req.Stream {
		var options struct {
			IncludeUsage bool `json:"include_usage"`
		}
		if err := json.Unmarshal(got["stream_options"], &options); err != nil || !options.IncludeUsage {
			t.Errorf("%q is a stream without usage: %q (%v)", body, sent, err)
		}
		delete(given, "stream_options")
		delete(got, "stream_options")
	}
	for name, value := range given {
		if !bytes.Equal(got[name], value) {
			t.Errorf("%q: %s is %s, was %s", body, name, got[name], value)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("%q: nobody gave %v", body, got)
	}
}
