package ollama

import (
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// FuzzReadDoor holds that a request of Ollama's API is refused in the caller's words, or
// becomes a request of the unified API that is strict JSON, and that the client's own body
// stays as it is.
func FuzzReadDoor(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","stream":false,"messages":[{"role":"system","content":"s"},{"role":"user","content":"a\ud83d","images":["iVBOR","data:image/png;base64,aGk="]},{"role":"assistant","thinking":"t","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}},{"function":{"name":"g","arguments":"{}"}}]},{"role":"tool","content":"r","tool_name":"g"},{"role":"tool","content":"r","tool_call_id":"a"},{"role":"tool","content":"lost"}],"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{}}}]}`,
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"format":"json","think":"high","options":{"num_predict":-2,"stop":["a"],"temperature":0.5,"seed":1},"logprobs":true,"top_logprobs":3}`,
		`{"model":"m","prompt":"p","suffix":"s","system":"y","images":["aGk="],"raw":true,"context":[1],"template":"t","keep_alive":0}`,
		`{"model":"m","input":["a","b"],"dimensions":3}`,
		`{"model":"m","prompt":"a","think":false,"format":{"type":"object"}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, read := range []func(*schema.Request, []byte) error{ReadChat, ReadGenerate, ReadEmbed, ReadEmbeddings} {
			original := bytes.Clone(body)
			req := new(schema.Request)
			text, err := unifiedOf(req, read(req, body))
			if err != nil {
				var refusal *schema.Error
				if !errors.As(err, &refusal) || refusal.HTTPStatus() != 400 {
					t.Errorf("%q: %v", body, err)
				}
				continue
			}
			if !jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true)) || !utf8.Valid(text) {
				t.Fatalf("%q became %q, which is no strict JSON", body, text)
			}
			if !bytes.Equal(body, original) {
				t.Fatalf("the client's body was changed: %q, was %q", body, original)
			}
		}
	})
}

// unifiedOf returns a request that was read as one of the unified API.
func unifiedOf(req *schema.Request, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	turn := EmbedClient.Turn
	switch req.Door {
	case schema.DoorOllamaChat, schema.DoorOllamaGenerate:
		turn = GenerateClient(req).Turn
	}
	if turn != nil {
		turned, err := req.Turned(turn.Request)
		if err != nil {
			return nil, err
		}
		return turned.Body.Data(), nil
	}
	asked, err := req.Chat()
	if err != nil {
		return nil, err
	}
	var w jsonwrite.Writer
	w.Object()
	asked.Write(&w, "max_tokens")
	w.EndObject()
	return w.Out, nil
}

// Results name no calls in Ollama's API: they belong to the calls of the answer before them,
// by the name of the function or in their order.
func TestResultsFindTheirCalls(t *testing.T) {
	t.Parallel()
	req := new(schema.Request)
	if err := ReadChat(req, []byte(`{"model":"m","messages":[
		{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{}}},{"id":"own","function":{"name":"f","arguments":{}}}]},
		{"role":"tool","tool_name":"g","content":"1"},{"role":"tool","tool_call_id":"own","content":"2"},{"role":"tool","content":"3"},{"role":"tool","content":"4"}]}`)); err != nil {
		t.Fatal(err)
	}
	asked, err := req.Chat()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"call_1", "own", "call_0", "call_unknown"} {
		if got := asked.Messages[1+i].CallID.String(); got != want {
			t.Errorf("result %d belongs to %q, want %q", i+1, got, want)
		}
	}
}

// A blank in front of a line is all that may stand between two lines, because clients read
// every line as JSON.
func TestLinesAreKeptAliveByBlanks(t *testing.T) {
	t.Parallel()
	req := new(schema.Request)
	if err := ReadChat(req, []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)); err != nil {
		t.Fatal(err)
	}
	var answer chat.Answer
	choice := answer.Add(0)
	choice.Text, choice.Finish = []byte("hi"), chat.Stop
	deltas, err := dialect.SplitAnswer(&answer)
	if err != nil {
		t.Fatal(err)
	}
	stream := Client.Events(req, deltas)
	if stream.ContentType != "application/x-ndjson" || string(stream.Filler) != " " {
		t.Errorf("%q, %q", stream.ContentType, stream.Filler)
	}
	if line := stream.Failure(schema.NewError(schema.CodeUpstreamError, say.Plain("it broke")), "id"); string(line) != `{"error":"it broke","code":"upstream_error"}`+"\n" {
		t.Errorf("%q", line)
	}
}
