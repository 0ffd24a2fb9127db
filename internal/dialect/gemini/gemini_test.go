package gemini

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func geminiRequest(t testing.TB) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	err := req.ParseChat([]byte(`{"model":"gemini-2.5-flash","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestGeminiPath(t *testing.T) {
	for _, test := range []struct {
		path, model string
		stream      bool
		want        string
	}{
		{"/v1beta/models/{model}:generateContent", "gemini-2.5-pro", false, "/v1beta/models/gemini-2.5-pro:generateContent"},
		{"/v1beta/models/{model}:generateContent", "gemini-2.5-pro", true, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"},
		{"/v1beta/models/{model}:generateContent", "a/../b?c#d", false, "/v1beta/models/a%2F..%2Fb%3Fc%23d:generateContent"},
		{"/x:streamGenerateContent?alt=sse", "m", true, "/x:streamGenerateContent?alt=sse"},
		{"/x:streamGenerateContent", "m", false, "/x:generateContent"},
	} {
		if got := PathOf(test.path, test.model, test.stream); got != test.want {
			t.Errorf("path %s, want %s", got, test.want)
		}
	}
}

// References must not be a way to make a small request a large one.
func TestGeminiSchemaIsBounded(t *testing.T) {
	var defs strings.Builder
	for i := range 40 {
		next := strconv.Itoa(i + 1)
		defs.WriteString(`"d` + strconv.Itoa(i) + `":{"type":"object","properties":{"a":{"$ref":"#/$defs/d` + next + `"},"b":{"$ref":"#/$defs/d` + next + `"}}},`)
	}
	raw := `{"$ref":"#/$defs/d0","$defs":{` + defs.String() + `"d40":{"type":"string"}}}`
	if _, err := new(schemaBudget).reduce([]byte(raw), "schema"); err == nil {
		t.Error("a schema that grows with every reference was taken")
	}
	deep := strings.Repeat(`{"type":"array","items":`, 60) + `{}` + strings.Repeat(`}`, 60)
	if _, err := new(schemaBudget).reduce([]byte(deep), "schema"); err == nil {
		t.Error("a schema that is nested too deeply was taken")
	}
}

// Translating must leave the request as it came: another attempt reads it again.
func TestGeminiCallLeavesTheRequestAlone(t *testing.T) {
	body := []byte(`{"model":"gemini-3-pro","messages":[{"role":"system","content":""},{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":"","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"x","content":""}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer","description":"","enum":[1,2]}}}}}],"stop":"x"}`)
	req := new(schema.Request)
	if err := req.ParseChat(body); err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(body)
	kind := dialect.Kind{Routes: map[schema.ServiceType]dialect.Route{schema.Chat: {Path: "/v1beta/models/{model}:generateContent", Adapter: Chat}}}
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "https://backend.test"})
	if err != nil {
		t.Fatal(err)
	}
	var first, second wire.Call
	for _, call := range []*wire.Call{&first, &second} {
		if err := target.Unified().Call(req, target, call); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(body, before) {
		t.Errorf("the request changed:\n%s", body)
	}
	if !bytes.Equal(bytes.Join(first.Body, nil), bytes.Join(second.Body, nil)) {
		t.Error("the second attempt sent something else")
	}
}

const geminiEvent = `data: {"candidates": [{"content": {"parts": [{"text": " the quick brown fox jumps"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 12,"candidatesTokenCount": 34,"totalTokenCount": 46,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 12}]},"modelVersion": "gemini-2.5-flash","responseId": "abcDEF123"}` + "\n\n"

const geminiLastEvent = `data: {"candidates": [{"content": {"parts": [{"text": "."}],"role": "model"},"finishReason": "STOP","index": 0}],"usageMetadata": {"promptTokenCount": 12,"candidatesTokenCount": 35,"totalTokenCount": 47},"responseId": "abcDEF123"}` + "\n\n"

func BenchmarkGeminiEvents(b *testing.B) {
	const events = 100
	stream := []byte(strings.Repeat(geminiEvent, events-1) + geminiLastEvent)
	req := geminiRequest(b)
	b.ReportAllocs()
	for b.Loop() {
		e := dialect.Speaker{Adapter: Chat}.Events(req, bytes.NewReader(stream))
		for {
			if _, err := e.Next(); err != nil {
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}

// Beyond what a stream costs to begin, its events must cost next to nothing.
func TestGeminiEventAllocations(t *testing.T) {
	req := geminiRequest(t)
	drain := func(events int) float64 {
		stream := []byte(strings.Repeat(geminiEvent, events-1) + geminiLastEvent)
		return testing.AllocsPerRun(20, func() {
			e := dialect.Speaker{Adapter: Chat}.Events(req, bytes.NewReader(stream))
			for {
				if _, err := e.Next(); err != nil {
					return
				}
			}
		})
	}
	if per := (drain(200) - drain(100)) / 100; per > 3 {
		t.Errorf("%.1f allocations an event, want 3 at most", per)
	}
}

// readGemini reads a stream to its end. Ids that are made at random and the head
// are taken out, so that two readings can be compared.
func readGemini(t *testing.T, req *schema.Request, body io.Reader) (chunks []string, err error) {
	events := dialect.Speaker{Adapter: Chat}.Events(req, body)
	for range 10000 {
		chunk, err := events.Next()
		if err != nil {
			if again, same := events.Next(); again != nil || same == nil {
				t.Fatalf("after %v came %s", err, again)
			}
			return chunks, err
		}
		head, rest, _ := strings.Cut(string(chunk), `"choices":`)
		if !strings.HasPrefix(head, `{"id":"chatcmpl-`) || !strings.HasSuffix(head, `"model":"gemini-2.5-flash","system_fingerprint":"fp_unknown",`) {
			t.Fatalf("a chunk begins with %s", head)
		}
		text := `{"choices":` + rest
		for {
			head, rest, ok := strings.Cut(text, inventedCall)
			if !ok || len(rest) < 26 {
				break
			}
			text = head + rest[26:]
		}
		chunks = append(chunks, text)
	}
	t.Fatal("the stream never ends")
	return nil, nil
}

func FuzzGeminiEvents(f *testing.F) {
	f.Add([]byte(geminiEvent + geminiLastEvent))
	f.Add([]byte(geminiEvent))
	f.Add([]byte("data: [{\"error\":{\"code\":500,\"message\":\"x\"}}]\r\n\r\n"))
	f.Add([]byte(`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":[1,{"b":2}]}},"thoughtSignature":"eA=="},{"text":"t","thought":true},{"inlineData":{"mimeType":"image/png","data":"AA"}}]},"finishReason":"STOP","index":1}]}` + "\n\n"))
	f.Add([]byte(`data: {"promptFeedback":{"blockReason":"SAFETY"}}` + "\n\ndata: [DONE]\n\n"))
	f.Add([]byte(`data: {"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}` + "\n\n"))
	f.Add([]byte(`data: {"candidates":[{"logprobsResult":{"topCandidates":[{"candidates":[]}],"chosenCandidates":[{"token":"a","logProbability":-1},{}]}}]}` + "\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		req := geminiRequest(t)
		whole, err := readGemini(t, req, bytes.NewReader(stream))
		var failure *dialect.Failure
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, dialect.ErrTruncated), errors.Is(err, dialect.ErrInvalid), errors.As(err, &failure):
		default:
			t.Fatalf("the stream ended with %v", err)
		}
		for _, chunk := range whole {
			if !jsontext.Value(chunk).IsValid() {
				t.Fatalf("%s is no JSON", chunk)
			}
		}
		split, splitErr := readGemini(t, req, iotest.OneByteReader(bytes.NewReader(stream)))
		if strings.Join(whole, "\n") != strings.Join(split, "\n") || err.Error() != splitErr.Error() {
			t.Fatalf("whole: %q (%v)\nsplit: %q (%v)", whole, err, split, splitErr)
		}
	})
}
