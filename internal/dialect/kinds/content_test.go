package kinds

import (
	"io"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/openai"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// eventByEvent returns one event with each read, and counts them.
type eventByEvent struct {
	frame  string
	events []string
	given  int
}

func (r *eventByEvent) Read(p []byte) (int, error) {
	if r.given == len(r.events) {
		return 0, io.EOF
	}
	event := strings.Replace(r.frame, "*", r.events[r.given], 1)
	r.given++
	if len(event) > len(p) {
		panic("the event is too long for one read")
	}
	return copy(p, event), nil
}

// firstContent reads a stream to its end, and returns how many events of the backend had
// been read when the stream first said that it had returned content, 0 if it never said so.
func firstContent(t *testing.T, stream *dialect.Stream, from *eventByEvent) int {
	t.Helper()
	first := 0
	for {
		_, err := stream.Next()
		if err != nil && err != io.EOF { //nolint:errorlint // it is never wrapped
			t.Fatalf("after %d events: %v", from.given, err)
		}
		if first > 0 && !stream.HasContent() {
			t.Fatal("what had content has none any more")
		}
		if first == 0 && stream.HasContent() {
			first = from.given
		}
		if err != nil {
			return first
		}
	}
}

// The events with which streams of real servers begin: which one is the first with content.
func TestStreamsTellTheFirstEventWithContent(t *testing.T) {
	const (
		vllm     = `{"id":"chatcmpl-8b8a","model":"m","object":"chat.completion.chunk","created":1794702082,"usage":null,"choices":[{"index":0,"finish_reason":null,"delta":*}]}`
		vllmText = `{"id":"cmpl-cbb5","model":"m","object":"text_completion","created":1794702083,"usage":null,"choices":[{"index":0,"finish_reason":null,"text":*}]}`
		llama    = `{"choices":[{"finish_reason":null,"index":0,"delta":*}],"created":1794701818,"id":"chatcmpl-pX9B","model":"m","system_fingerprint":"b1-de3ff81","object":"chat.completion.chunk"}`
		gpt      = `{"id":"chatcmpl-xqH4","object":"chat.completion.chunk","created":1794700886,"model":"m","choices":[{"index":0,"delta":*,"logprobs":null,"finish_reason":null}]}`
		filter   = `{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}`
		stop     = `{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1794701818,"id":"chatcmpl-pX9B","model":"m","object":"chat.completion.chunk"}`
		stopText = `{"choices":[{"finish_reason":"stop","index":0,"text":""}],"created":1794701818,"id":"cmpl-cbb5","model":"m","object":"text_completion"}`
		usage    = `{"choices":[],"created":1794701818,"id":"chatcmpl-pX9B","model":"m","object":"chat.completion.chunk","usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`

		start     = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`
		ping      = `{"type":"ping"}`
		textBlock = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
		thinking  = `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`
		piece     = `{"type":"content_block_delta","index":0,"delta":*}`
		blockEnd  = `{"type":"content_block_stop","index":0}`
		turnEnd   = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}`
		message   = `{"type":"message_stop"}`

		created   = `{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[]},"sequence_number":0}`
		progress  = `{"type":"response.in_progress","response":{"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[]},"sequence_number":1}`
		item      = `{"type":"response.output_item.added","output_index":0,"item":*,"sequence_number":2}`
		part      = `{"type":"response.content_part.added","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]},"sequence_number":3}`
		completed = `{"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","model":"m","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}},"sequence_number":9}`

		partial = `{"candidates":[{"content":{"parts":[*],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":4,"totalTokenCount":4},"modelVersion":"m"}`
		ended   = `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":1,"totalTokenCount":5}}`

		line     = `{"model":"m","created_at":"2026-11-15T00:18:27.858773688Z","message":*,"done":false}`
		lineText = `{"model":"m","created_at":"2026-11-15T00:18:27.858773688Z",*,"done":false}`
		lineEnd  = `{"model":"m","created_at":"2026-11-15T00:18:27.9Z","message":{"role":"assistant","content":""},"response":"","done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}`
	)
	in := func(frame, with string) string { return strings.Replace(frame, "*", with, 1) }
	chat := []schema.Door{schema.DoorChat, schema.DoorMessages, schema.DoorResponses}
	for _, c := range []struct {
		name, kind string
		doors      []schema.Door
		want       int
		events     []string
	}{
		{"the role alone", "openai", chat, 2, []string{in(vllm, `{"role":"assistant"}`), in(vllm, `{"content":"hello "}`), stop}},
		{"the role and null", "openai", chat, 2, []string{in(llama, `{"role":"assistant","content":null}`), in(llama, `{"content":"Hello"}`), stop}},
		{"the role and an empty text", "openai", chat, 2, []string{in(gpt, `{"role":"assistant","content":"","refusal":null}`), in(gpt, `{"content":"Hi"}`), stop}},
		{"text at once", "openai", chat, 1, []string{in(gpt, `{"role":"assistant","content":"Hello"}`), stop}},
		{"empty texts", "openai", chat, 4, []string{in(gpt, `{"content":""}`), in(gpt, `{"content":""}`), in(gpt, `{"content":""}`), in(gpt, `{"content":"x"}`), stop}},
		{"what a filter found", "openai", chat, 3, []string{filter, in(gpt, `{"role":"assistant","content":""}`), in(gpt, `{"content":"x"}`), stop}},
		{"a comment and a blank", "openai", chat, 3, []string{"\n\n: PROCESSING", " ", in(gpt, `{"content":"x"}`), stop}},
		{"reasoning_content", "openai", chat, 2, []string{in(llama, `{"role":"assistant","content":null}`), in(llama, `{"reasoning_content":"The user"}`), in(llama, `{"content":"x"}`), stop}},
		{"reasoning", "openai", chat, 2, []string{in(vllm, `{"role":"assistant","content":""}`), in(vllm, `{"reasoning":"The user"}`), in(vllm, `{"content":"x"}`), stop}},
		{"empty reasoning", "openai", chat, 2, []string{in(gpt, `{"role":"assistant","content":"","reasoning":null,"reasoning_details":[]}`), in(gpt, `{"role":"assistant","content":"x","reasoning":null}`), stop}},
		{"a tool call", "openai", chat, 2, []string{in(llama, `{"role":"assistant","content":null}`), in(llama, `{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}`), stop}},
		{"no tool calls", "openai", chat, 2, []string{in(vllm, `{"role":"assistant","content":"","tool_calls":[]}`), in(vllm, `{"content":"x","tool_calls":[]}`), stop}},
		{"a call of a function, as it was once", "openai", chat[:1], 2, []string{in(gpt, `{"role":"assistant","content":null}`), in(gpt, `{"function_call":{"name":"f","arguments":""}}`), stop}},
		{"a refusal", "openai", chat, 2, []string{in(gpt, `{"role":"assistant","content":"","refusal":null}`), in(gpt, `{"refusal":"I can't"}`), stop}},
		{"parts of content", "openai", chat, 2, []string{in(gpt, `{"role":"assistant","content":""}`), in(gpt, `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}`), stop}},
		{"an image", "openai", chat, 2, []string{in(gpt, `{"role":"assistant","content":""}`), in(gpt, `{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}`), stop}},
		{"the second choice", "openai", chat[:1], 2, []string{in(gpt, `{"role":"assistant","content":""}`), strings.Replace(in(gpt, `{"content":"x"}`), `"index":0`, `"index":1`, 1), stop}},
		{"usage and no content", "openai", chat, 0, []string{in(gpt, `{"role":"assistant","content":""}`), stop, usage, "[DONE]"}},

		{"a completion", "openai", []schema.Door{schema.DoorCompletions}, 1, []string{in(vllmText, `"hello "`), in(vllmText, `"world"`), stopText}},
		{"a completion that begins empty", "openai", []schema.Door{schema.DoorCompletions}, 3, []string{in(vllmText, `""`), in(vllmText, `""`), in(vllmText, `"hello "`), stopText}},
		{"a completion of Ollama's own", "ollama", []schema.Door{schema.DoorCompletions}, 1, []string{in(lineText, `"response":"Hello"`), lineEnd}},
		{"a completion that thinks first", "ollama", []schema.Door{schema.DoorCompletions}, 3, []string{in(lineText, `"response":"","thinking":"Hm"`), in(lineText, `"response":"","thinking":"Hm"`), in(lineText, `"response":"Hello"`), lineEnd}},

		{"a block of text", "anthropic", chat, 4, []string{start, textBlock, ping, in(piece, `{"type":"text_delta","text":"Hi"}`), in(piece, `{"type":"text_delta","text":"!"}`), blockEnd, turnEnd, message}},
		{"pings", "anthropic", chat, 5, []string{start, ping, ping, textBlock, in(piece, `{"type":"text_delta","text":"Hi"}`), blockEnd, turnEnd, message}},
		{"empty pieces", "anthropic", chat, 5, []string{start, textBlock, in(piece, `{"type":"text_delta","text":""}`), in(piece, `{"type":"text_delta","text":""}`), in(piece, `{"type":"text_delta","text":"Hi"}`), blockEnd, turnEnd, message}},
		{"a block of thinking", "anthropic", chat, 3, []string{start, thinking, in(piece, `{"type":"thinking_delta","thinking":"Hm"}`), in(piece, `{"type":"signature_delta","signature":"c2ln"}`), blockEnd, turnEnd, message}},
		{"thinking that is kept back", "anthropic", []schema.Door{schema.DoorChat, schema.DoorMessages}, 7, []string{start, thinking, in(piece, `{"type":"signature_delta","signature":"c2ln"}`), in(piece, `{"type":"signature_delta","signature":"bmVk"}`), blockEnd, strings.Replace(textBlock, `"index":0`, `"index":1`, 1), strings.Replace(in(piece, `{"type":"text_delta","text":"Hi"}`), `"index":0`, `"index":1`, 1), strings.Replace(blockEnd, "0", "1", 1), turnEnd, message}},
		{"a block of a call", "anthropic", chat, 2, []string{start, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"f","input":{}}}`, in(piece, `{"type":"input_json_delta","partial_json":""}`), blockEnd, turnEnd, message}},
		{"no block", "anthropic", chat, 0, []string{start, ping, turnEnd, message}},

		{"a response", "responses", nil, 5, []string{created, progress, in(item, `{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}`), part, `{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hi","logprobs":[],"sequence_number":4}`, completed}},
		{"an empty piece of a response", "responses", nil, 4, []string{created, part, `{"type":"response.output_text.delta","delta":"","sequence_number":4}`, `{"type":"response.output_text.delta","delta":"Hi","sequence_number":5}`, completed}},
		{"reasoning of a response", "responses", nil, 3, []string{created, in(item, `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"x"}`), `{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Hm","sequence_number":4}`, completed}},
		{"reasoning that is kept back", "responses", nil, 4, []string{created, in(item, `{"id":"rs_1","type":"reasoning","summary":[]}`), `{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]},"sequence_number":3}`, `{"type":"response.refusal.delta","delta":"I can't","sequence_number":5}`, completed}},
		{"a call of a response", "responses", nil, 2, []string{created, in(item, `{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"c1","name":"f"}`), completed}},
		{"a message all at once", "responses", nil, 2, []string{created, `{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]},"sequence_number":3}`, completed}},
		{"a response without output", "responses", nil, 0, []string{created, progress, completed}},

		{"Gemini's parts", "gemini", chat, 1, []string{in(partial, `{"text":"Hi"}`), in(partial, `{"text":"!"}`), ended}},
		{"Gemini's empty parts", "gemini", chat, 3, []string{in(partial, `{"text":""}`), in(partial, ``), in(partial, `{"text":"Hi"}`), ended}},
		{"Gemini's thoughts", "gemini", chat, 1, []string{in(partial, `{"text":"Hm","thought":true}`), in(partial, `{"text":"Hi"}`), ended}},
		{"Gemini's calls", "gemini", chat, 1, []string{in(partial, `{"functionCall":{"name":"f","args":{}}}`), ended}},

		{"Ollama's lines", "ollama", chat, 1, []string{in(line, `{"role":"assistant","content":"Hello"}`), lineEnd}},
		{"Ollama's empty lines", "ollama", chat, 2, []string{in(line, `{"role":"assistant","content":""}`), in(line, `{"role":"assistant","content":"Hello"}`), lineEnd}},
		{"Ollama's thinking", "ollama", chat, 1, []string{in(line, `{"role":"assistant","content":"","thinking":"The user"}`), in(line, `{"role":"assistant","content":"Hello"}`), lineEnd}},
		{"Ollama's calls", "ollama", chat, 1, []string{in(line, `{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"index":0,"name":"f","arguments":{"city":"Paris"}}}]}`), lineEnd}},
		{"nothing", "ollama", chat, 0, []string{lineEnd}},
	} {
		frame, endpoint := sseFrame, dialect.Endpoint{BaseURL: "http://backend.test", Model: "other"}
		switch c.kind {
		case "responses":
			c.kind, c.doors, endpoint.Responses = "openai", []schema.Door{schema.DoorResponses}, new(true)
		case "ollama":
			frame = lineFrame
		}
		kind, err := Lookup(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		target, err := kind.Target(schema.Chat, endpoint)
		if err != nil {
			t.Fatal(err)
		}
		for _, door := range c.doors {
			t.Run(c.name+"/"+door.String(), func(t *testing.T) {
				ask := askFor(door, true)
				if door == schema.DoorCompletions {
					ask = `{"model":"m","stream":true,"prompt":"x"}`
				}
				from := &eventByEvent{frame: frame, events: c.events}
				if got := firstContent(t, streamOf(t, door, target, ask, from), from); got != c.want {
					t.Errorf("the first content is in event %d, want %d", got, c.want)
				}
			})
		}
	}
}

// streamOf returns the stream with which a backend answers a request of a door.
func streamOf(t *testing.T, door schema.Door, target *dialect.Target, ask string, from io.Reader) *dialect.Stream {
	t.Helper()
	var req schema.Request
	client, err := openDoor(door, &req, []byte(ask))
	if err != nil {
		t.Fatal(err)
	}
	to, speaker := target.ForDoor(door, client)
	if err := speaker.Call(&req, to, new(wire.Call)); err != nil {
		t.Fatal(err)
	}
	return speaker.Events(&req, from)
}

// Thinking is content for a client of the Messages API that wants to see none of it: the
// engine has worked on the prompt.
func TestHiddenThinkingIsContent(t *testing.T) {
	for name, ask := range map[string]string{
		"not asked for": `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}],"thinking":{"type":"disabled"}}`,
		"left out":      `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}],"thinking":{"type":"adaptive","display":"omitted"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			from := &eventByEvent{frame: sseFrame, events: []string{
				chunkOf(`{"role":"assistant","content":""}`), chunkOf(`{"reasoning_content":"Hm"}`), chunkOf(`{"reasoning_content":"Hm"}`), chunkOf(`{"content":"Hi"}`),
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]",
			}}
			if got := firstContent(t, streamOf(t, schema.DoorMessages, chatTarget(t, "openai", nil), ask, from), from); got != 2 {
				t.Errorf("the first content is in event %d, want 2", got)
			}
		})
	}
}

// The events of services other than chat have content, unless they are empty pieces of a
// transcript.
func TestStreamsOfOtherServicesTellTheFirstEventWithContent(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   int
		events []string
	}{
		{"audio", 1, []string{`{"type":"speech.audio.delta","audio":"aGk="}`, `{"type":"speech.audio.done","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`}},
		{"an image", 1, []string{`{"type":"image_generation.partial_image","b64_json":"aGk=","partial_image_index":0}`, `{"type":"image_generation.completed","b64_json":"aGk=","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`}},
		{"a transcript", 2, []string{`{"type":"transcript.text.delta","delta":""}`, `{"type":"transcript.text.delta","delta":"Hi"}`, `{"type":"transcript.text.done","text":"Hi"}`, "[DONE]"}},
		{"a transcript in chunks", 2, []string{`{"object":"transcription.chunk","choices":[{"delta":{"content":""}}]}`, `{"object":"transcription.chunk","choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}`, "[DONE]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := &eventByEvent{frame: sseFrame, events: c.events}
			if got := firstContent(t, openai.Speech.PassEvents("m", from), from); got != c.want {
				t.Errorf("the first content is in event %d, want %d", got, c.want)
			}
		})
	}
}
