package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// streamOf is a stream of completion chunks as OpenAI-shaped backends send it,
// with usage at its end.
func streamOf(chunks int, model string) string {
	const head = `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1794700886,"model":%q,"choices":[`
	var b strings.Builder
	for i := range chunks - 2 {
		fmt.Fprintf(&b, head+`{"index":0,"delta":{"content":"token %d "},"logprobs":null,"finish_reason":null}],"usage":null}`+"\n\n", model, i)
	}
	fmt.Fprintf(&b, head+`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`+"\n\n", model)
	fmt.Fprintf(&b, head+`],"usage":{"prompt_tokens":9,"completion_tokens":98,"total_tokens":107}}`+"\n\n", model)
	return b.String() + "data: [DONE]\n\n"
}

func streamRequest(t testing.TB) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	if err := req.ParseChat([]byte(`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`)); err != nil {
		t.Fatal(err)
	}
	return req
}

// drain reads a stream to its end and returns the number of its chunks.
func drain(t testing.TB, events dialect.Events) (chunks int) {
	t.Helper()
	for {
		_, err := events.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			return chunks
		}
		chunks++
	}
}

// modelsOfStreams are a stream that passes as it is and one in whose every
// chunk the model gets another name.
var modelsOfStreams = map[string]string{"same name": "m", "renamed": "another/name"}

func BenchmarkOpenAIEvents(b *testing.B) {
	req := streamRequest(b)
	for name, model := range modelsOfStreams {
		b.Run(name, func(b *testing.B) {
			stream := streamOf(100, model)
			from := strings.NewReader(stream)
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				from.Reset(stream)
				drain(b, Chat.Events(req, from))
			}
		})
	}
}

func TestAStreamOfAHundredEventsCostsFewAllocations(t *testing.T) {
	req := streamRequest(t)
	for name, model := range modelsOfStreams {
		stream := streamOf(100, model)
		if chunks := drain(t, Chat.Events(req, strings.NewReader(stream))); chunks != 100 {
			t.Fatalf("%s: %d chunks, want 100", name, chunks)
		}
		from := strings.NewReader(stream)
		allocations := testing.AllocsPerRun(20, func() {
			from.Reset(stream)
			drain(t, Chat.Events(req, from))
		})
		if allocations >= 20 {
			t.Errorf("%s: %v allocations, want fewer than 20", name, allocations)
		}
	}
}

// callRequest is a chat request of 1 KB whose stream has to be asked for usage,
// and the target it goes to.
func callRequest(t testing.TB) (*schema.Request, *dialect.Target) {
	t.Helper()
	kind := dialect.Kind{Routes: map[schema.ServiceType]dialect.Route{schema.Chat: {Path: "/v1/chat/completions", Adapter: Chat}}}
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test:8000/v1", APIKey: "sk-test", Model: "org/model"})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","stream":true,"temperature":0.7,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 180) + `"}]}`
	req := new(schema.Request)
	if err := req.ParseChat([]byte(body)); err != nil {
		t.Fatal(err)
	}
	return req, target
}

func BenchmarkCall(b *testing.B) {
	req, target := callRequest(b)
	var call wire.Call
	b.ReportAllocs()
	for b.Loop() {
		call.Reset()
		if err := target.Unified().Call(req, target, &call); err != nil {
			b.Fatal(err)
		}
	}
}

func TestACallCostsNoAllocation(t *testing.T) {
	req, target := callRequest(t)
	var call wire.Call
	allocations := testing.AllocsPerRun(100, func() {
		call.Reset()
		if err := target.Unified().Call(req, target, &call); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
	if body := string(bytes.Join(call.Body, nil)); !strings.Contains(body, `"stream_options":{"include_usage":true}`) || !strings.Contains(body, `"model":"org/model"`) {
		t.Errorf("usage or the model is missing in %s", body)
	}
}

// BenchmarkReply passes a completion of about 1 KB on under another name.
func BenchmarkReply(b *testing.B) {
	req := streamRequest(b)
	answer := []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1794700886,"model":"another/name","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", 180) + `"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":180,"total_tokens":189}}`)
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	var reply dialect.Reply
	for b.Loop() {
		reply.Reset()
		if err := Chat.Reply(req, dialect.Answer{Body: answer}, &reply); err != nil {
			b.Fatal(err)
		}
	}
}
