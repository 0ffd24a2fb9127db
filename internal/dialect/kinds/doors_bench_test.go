package kinds

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// benchmarkText is text of about 100 bytes, as models write it.
const benchmarkText = `A patch bay connects what is plugged into it: \"inputs\" here, outputs there, and nothing in between.\n`

// doorRequest returns a request of about 1 KB for a door.
func doorRequest(door schema.Door, stream bool) string {
	text := strings.Repeat(benchmarkText, 8)
	begin := fmt.Sprintf(`{"model":"callers-name","temperature":0.7,"stream":%v,`, stream)
	switch door {
	case schema.DoorMessages:
		return begin + `"max_tokens":1000,"system":"Be brief.","messages":[{"role":"user","content":"` + text + `"}]}`
	case schema.DoorResponses:
		return begin + `"store":false,"instructions":"Be brief.","input":[{"role":"user","content":"` + text + `"}]}`
	case schema.DoorCompletions:
		return begin + `"max_tokens":1000,"prompt":"` + text + `"}`
	}
	return begin + `"max_tokens":1000,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"` + text + `"}]}`
}

// doorAnswer returns what a backend answers at a path: whole, or as 64 events.
func doorAnswer(path string, stream bool) string {
	text := strings.Repeat(benchmarkText, 5)
	var b strings.Builder
	repeat := func(n int, event string) {
		for range n {
			b.WriteString(event)
		}
	}
	switch {
	case path == "/v1/messages" && stream:
		b.WriteString("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":190,\"output_tokens\":1}}}\n\n")
		b.WriteString("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n")
		repeat(60, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" connect\"}}\n\n")
		b.WriteString("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n")
		b.WriteString("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":80}}\n\n")
		b.WriteString("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	case path == "/v1/messages":
		return `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"` + text + `"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":190,"output_tokens":80}}`
	case path == "/v1/responses" && stream:
		b.WriteString("event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\n")
		repeat(62, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" connect\"}\n\n")
		b.WriteString("event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":63,\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\",\"model\":\"m\",\"output\":[{\"id\":\"msg_1\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"" + text + "\",\"annotations\":[]}]}],\"usage\":{\"input_tokens\":190,\"output_tokens\":80,\"total_tokens\":270}}}\n\n")
	case path == "/v1/responses":
		return `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"` + text + `","annotations":[]}]}],"usage":{"input_tokens":190,"output_tokens":80,"total_tokens":270}}`
	case path == "/v1/completions" && stream:
		repeat(63, "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1741569952,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\" connect\",\"logprobs\":null,\"finish_reason\":null}]}\n\n")
		b.WriteString("data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1741569952,\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	case path == "/v1/completions":
		return `{"id":"cmpl-1","object":"text_completion","created":1741569952,"model":"m","choices":[{"index":0,"text":"` + text + `","logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":190,"completion_tokens":80,"total_tokens":270}}`
	case path == "/v1/chat/completions" && stream:
		b.WriteString("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n")
		repeat(62, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" connect\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n")
		b.WriteString("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1741569952,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	case strings.HasPrefix(path, "/api/"):
		said, end := `"message":{"role":"assistant","content":"`, `"}`
		if path == "/api/generate" {
			said, end = `"response":"`, `"`
		}
		const head, done = `{"model":"m","created_at":"2025-03-10T01:25:52Z",`, `,"done":true,"done_reason":"stop","prompt_eval_count":190,"eval_count":80}`
		if !stream {
			return head + said + text + end + done
		}
		repeat(63, head+said+" connect"+end+",\"done\":false}\n")
		b.WriteString(head + said + end + done + "\n")
	case path == "/v1/chat/completions":
		return `{"id":"chatcmpl-1","object":"chat.completion","created":1741569952,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":190,"completion_tokens":80,"total_tokens":270}}`
	}
	return b.String()
}

// BenchmarkDoors measures the work of the dialects for one exchange: read the request,
// write the call, read the answer and write it for the client. Rows whose door and
// backend speak the same API pass bytes on and are to be compared with chat to openai,
// the others with chat to anthropic or ollama.
func BenchmarkDoors(b *testing.B) {
	for _, pair := range []struct {
		door    schema.Door
		kind    string
		path    string
		talking *bool // whether the backend speaks the Responses API
	}{
		{schema.DoorChat, "openai", "/v1/chat/completions", nil},
		{schema.DoorMessages, "anthropic", "/v1/messages", nil},
		{schema.DoorResponses, "openai", "/v1/responses", new(true)},
		{schema.DoorCompletions, "openai", "/v1/completions", nil},
		{schema.DoorChat, "anthropic", "/v1/messages", nil},
		{schema.DoorMessages, "openai", "/v1/chat/completions", nil},
		{schema.DoorResponses, "openai", "/v1/chat/completions", nil},
		{schema.DoorChat, "ollama", "/api/chat", nil},
		{schema.DoorMessages, "ollama", "/api/chat", nil},
		{schema.DoorResponses, "ollama", "/api/chat", nil},
		{schema.DoorCompletions, "ollama", "/api/generate", nil},
	} {
		for _, stream := range []bool{false, true} {
			kind, err := Lookup(pair.kind)
			if err != nil {
				b.Fatal(err)
			}
			target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", Model: "other", Responses: pair.talking})
			if err != nil {
				b.Fatal(err)
			}
			request, answer := doorRequest(pair.door, stream), doorAnswer(pair.path, stream)
			b.Run(fmt.Sprintf("%s to %s%s/stream=%v", pair.door, pair.kind, pair.path, stream), func(b *testing.B) {
				benchmarkExchange(b, pair.door, target, []byte(request), []byte(answer), stream)
			})
		}
	}
}

func benchmarkExchange(b *testing.B, door schema.Door, target *dialect.Target, request, answer []byte, stream bool) {
	e := newExchange(door, target, request, answer)
	b.ReportAllocs()
	for b.Loop() {
		if err := e.run(stream); err != nil {
			b.Fatal(err)
		}
	}
}

// exchange is a request and its answer, again and again in the same memory.
type exchange struct {
	door    schema.Door
	target  *dialect.Target
	request []byte
	answer  []byte

	req    schema.Request
	call   wire.Call
	reply  dialect.Reply
	body   []byte
	reader bytes.Reader
}

func newExchange(door schema.Door, target *dialect.Target, request, answer []byte) *exchange {
	return &exchange{door: door, target: target, request: request, answer: answer, body: make([]byte, len(answer))}
}

// run reads the request, writes the call, reads the answer and writes it for the client.
func (e *exchange) run(stream bool) error {
	e.req.Reset()
	client, err := openDoor(e.door, &e.req, e.request)
	if err != nil {
		return err
	}
	to, adapter := e.target.ForDoor(e.door, client)
	e.call.Reset()
	if err := adapter.Call(&e.req, to, &e.call); err != nil {
		return err
	}
	copy(e.body, e.answer)
	if !stream {
		e.reply.Reset()
		return adapter.Reply(&e.req, dialect.Answer{ContentType: "application/json", Body: e.body}, &e.reply)
	}
	e.reader.Reset(e.body)
	events := adapter.Events(&e.req, &e.reader)
	for err == nil {
		_, err = events.Next()
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// TestRequestsOfOtherDoorsAllocateLittleMoreThanThoseOfChat compares requests of doors that
// are not unified with a unified request, both for a backend of another dialect.
func TestRequestsOfOtherDoorsAllocateLittleMoreThanThoseOfChat(t *testing.T) {
	kind, err := Lookup("ollama")
	if err != nil {
		t.Fatal(err)
	}
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", Model: "other"})
	if err != nil {
		t.Fatal(err)
	}
	allocations := func(door schema.Door) float64 {
		e := newExchange(door, target, []byte(doorRequest(door, false)), []byte(doorAnswer("/api/chat", false)))
		return testing.AllocsPerRun(50, func() {
			if err := e.run(false); err != nil {
				t.Fatal(err)
			}
		})
	}
	unified := allocations(schema.DoorChat)
	for _, door := range []schema.Door{schema.DoorMessages, schema.DoorResponses} {
		if other := allocations(door); other > unified+6 {
			t.Errorf("%v allocations for a request of %s, %v for one of chat", other, door, unified)
		}
	}
}

// openDoor reads a request of a door and returns the translation of its clients.
func openDoor(door schema.Door, req *schema.Request, body []byte) (*dialect.Client, error) {
	switch door {
	case schema.DoorMessages:
		return messages.Client, messages.ReadRequest(req, body)
	case schema.DoorResponses:
		if err := responses.Parse(req, body); err != nil {
			return nil, err
		}
		return responses.NewClient(req, responses.Conversation{Translate: responses.NamesTranslated(req.Body.Root())}), nil
	case schema.DoorCompletions:
		return nil, req.ParseCompletion(body)
	}
	return nil, req.ParseChat(body)
}
