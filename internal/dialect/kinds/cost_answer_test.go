package kinds

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// eventShape makes a stream of about a size: a head, the same event again and again in
// which # is its number, and a tail.
func eventShape(frame, head, event, tail string) costShape {
	return func(size int) string {
		var b strings.Builder
		add := func(data string) {
			if data != "" {
				b.WriteString(strings.Replace(frame, "*", data, 1))
			}
		}
		for part := range strings.SplitSeq(head, "\n") {
			add(part)
		}
		for i := 0; b.Len() < size; i++ {
			add(strings.ReplaceAll(event, "#", fmt.Sprint(i)))
		}
		for part := range strings.SplitSeq(tail, "\n") {
			add(part)
		}
		return b.String()
	}
}

// wholeShape makes an answer of about a size of which one list grows.
func wholeShape(before, item, after string) costShape {
	return func(size int) string {
		return before + repeat(size, func(i int) string { return strings.ReplaceAll(item, "#", fmt.Sprint(i)) }) + after
	}
}

// afterAsMany makes a stream in which pieces for each of many calls come when all of them
// have begun.
func afterAsMany(frame, head, first, second, tail string) costShape {
	return func(size int) string {
		begun := eventShape(frame, head, first, "")(size / 2)
		return begun + eventShape(frame, "", second, tail)(size/2)
	}
}

const (
	sseFrame  = "data: *\n\n"
	lineFrame = "*\n"
)

// chunkOf is a chunk of OpenAI's dialect with this delta.
func chunkOf(delta string) string {
	return `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

const (
	lastChunk = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n[DONE]"
	emptyCall = `"type":"function","function":{"name":"f","arguments":"{}"}`
)

// streamShapes are streams of a dialect that grow in one place.
func streamShapes(path string) map[string]costShape {
	switch path {
	case "/v1/chat/completions":
		of := func(delta string) costShape { return eventShape(sseFrame, "", chunkOf(delta), lastChunk) }
		return map[string]costShape{
			"texts":                    of(`{"content":"#"}`),
			"thoughts":                 of(`{"reasoning_content":"#"}`),
			"thoughts and texts":       of(`{"reasoning_content":"#","content":"#"}`),
			"refusals":                 of(`{"refusal":"#"}`),
			"calls":                    of(`{"tool_calls":[{"index":#,"id":"c#",` + emptyCall + `}]}`),
			"calls with one number":    of(`{"tool_calls":[{"index":0,"id":"c#",` + emptyCall + `}]}`),
			"calls without a number":   of(`{"tool_calls":[{"id":"c#",` + emptyCall + `}]}`),
			"calls without an id":      of(`{"tool_calls":[{"index":#,` + emptyCall + `}]}`),
			"calls of many choices":    eventShape(sseFrame, "", `{"choices":[{"index":#,"delta":{"tool_calls":[{"index":0,"id":"c#",`+emptyCall+`}]},"finish_reason":null}]}`, lastChunk),
			"calls and texts":          of(`{"content":"#","tool_calls":[{"index":#,"id":"c#",` + emptyCall + `}]}`),
			"calls that are signed":    of(`{"tool_calls":[{"index":#,"id":"c#","extra_content":{"google":{"thought_signature":"#"}},` + emptyCall + `}]}`),
			"pieces of one call":       of(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"#"}}]}`),
			"pieces of a custom call":  of(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"custom","arguments":"#"}}]}`),
			"blanks before an input":   of(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"custom","arguments":" "}}]}`),
			"pieces of many calls":     afterAsMany(sseFrame, "", chunkOf(`{"tool_calls":[{"index":#,"id":"c#","type":"function","function":{"name":"f","arguments":""}}]}`), chunkOf(`{"tool_calls":[{"index":#,"function":{"arguments":"{}"}}]}`), lastChunk),
			"pieces by their ids":      afterAsMany(sseFrame, "", chunkOf(`{"tool_calls":[{"index":0,"id":"c#","type":"function","function":{"name":"f","arguments":""}}]}`), chunkOf(`{"tool_calls":[{"index":0,"id":"c#","function":{"arguments":"{}"}}]}`), lastChunk),
			"calls that never end":     of(`{"tool_calls":[{"index":#,"id":"c#","type":"function","function":{"name":"f","arguments":"{"}}]}`),
			"probabilities":            eventShape(sseFrame, "", `{"choices":[{"index":0,"delta":{"content":"#"},"logprobs":{"content":[{"token":"#","logprob":-1,"bytes":null,"top_logprobs":[]}]},"finish_reason":null}]}`, lastChunk),
			"choices":                  eventShape(sseFrame, "", `{"choices":[{"index":#,"delta":{"content":"#"},"finish_reason":null}]}`, lastChunk),
			"usage":                    eventShape(sseFrame, "", `{"choices":[{"index":0,"delta":{"content":"#"},"finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":#,"total_tokens":#}}`, lastChunk),
			"images":                   of(`{"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,#"}}]}`),
			"blocks of thinking":       of(`{"thinking_blocks":[{"type":"thinking","thinking":"#","signature":"#"}]}`),
			"details of reasoning":     of(`{"reasoning_details":[{"type":"reasoning.text","text":"#","signature":"#"}]}`),
			"comments":                 joined("", ": #\n\n", "data: "+chunkOf(`{"content":"x"}`)+"\n\ndata: "+strings.Replace(lastChunk, "\n", "\n\ndata: ", 1)+"\n\n", ""),
			"lines of one event":       joined(`data: {"choices":[{"index":0,"delta":{"content":[`+"\n", "data: {\"type\":\"text\",\"text\":\"#\"}", "\ndata: ]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", ",\n"),
			"calls of one event":       joined(`data: {"choices":[{"index":0,"delta":{"tool_calls":[`, `{"index":#,"id":"c#",`+emptyCall+`}`, `]},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n", ","),
			"calls that need a number": joined(`data: {"choices":[{"index":0,"delta":{"tool_calls":[`, `{"id":"c#",`+emptyCall+`}`, `]},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n", ","),
			"choices of one event":     joined(`data: {"choices":[`, `{"index":#,"finish_reason":"stop"}`, `]}`+"\n\ndata: [DONE]\n\n", ","),
			"members of one event":     joined(`data: {"choices":[{"index":0,"delta":{"content":"x",`, `"a#":1`, `},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n", ","),
		}
	case "/v1/messages":
		const start = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`
		const end = `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}` + "\n" + `{"type":"message_stop"}`
		of := func(event string) costShape { return eventShape(sseFrame, start, event, end) }
		block := func(content string) string {
			return `{"type":"content_block_start","index":#,"content_block":` + content + `}` + "\n\ndata: " + `{"type":"content_block_stop","index":#}`
		}
		return map[string]costShape{
			"texts":                eventShape(sseFrame, start+"\n"+`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"#"}}`, end),
			"blocks":               of(block(`{"type":"text","text":"#"}`)),
			"calls":                of(block(`{"type":"tool_use","id":"c#","name":"f","input":{}}`)),
			"calls with input":     of(block(`{"type":"tool_use","id":"c#","name":"f","input":{"a":#}}`)),
			"pieces of many calls": afterAsMany(sseFrame, start, `{"type":"content_block_start","index":#,"content_block":{"type":"tool_use","id":"c#","name":"f","input":{}}}`, `{"type":"content_block_delta","index":#,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, end),
			"pieces of one call":   eventShape(sseFrame, start+"\n"+`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"#"}}`, end),
			"thoughts":             eventShape(sseFrame, start+"\n"+`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"#"}}`, end),
			"signatures":           eventShape(sseFrame, start+"\n"+`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"#"}}`, end),
			"signed thinking":      of(`{"type":"content_block_start","index":#,"content_block":{"type":"thinking","thinking":"#","signature":"#"}}` + "\n\ndata: " + `{"type":"content_block_stop","index":#}`),
			"redacted thinking":    of(block(`{"type":"redacted_thinking","data":"#"}`)),
			"unknown events":       of(`{"type":"other","n":#}`),
			"pings":                of(`{"type":"ping"}`),
			"usage":                of(`{"type":"message_delta","delta":{},"usage":{"output_tokens":#}}`),
		}
	case "/v1beta":
		candidate := func(parts string) string {
			return `{"candidates":[{"index":0,"content":{"role":"model","parts":[` + parts + `]}}]}`
		}
		const end = `{"candidates":[{"index":0,"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`
		of := func(parts string) costShape { return eventShape(sseFrame, "", candidate(parts), end) }
		return map[string]costShape{
			"texts":              of(`{"text":"#"}`),
			"thoughts":           of(`{"text":"#","thought":true}`),
			"calls":              of(`{"functionCall":{"name":"f","args":{"a":#}}}`),
			"calls with ids":     of(`{"functionCall":{"id":"c#","name":"f","args":{"a":#}},"thoughtSignature":"#"}`),
			"signatures":         of(`{"text":"#","thoughtSignature":"#"}`),
			"images":             of(`{"inlineData":{"mimeType":"image/png","data":"#"}}`),
			"usage":              eventShape(sseFrame, "", `{"candidates":[{"index":0,"content":{"parts":[{"text":"#"}]}}],"usageMetadata":{"promptTokenCount":1,"totalTokenCount":#}}`, end),
			"calls of one event": joined(`data: {"candidates":[{"index":0,"content":{"parts":[`, `{"functionCall":{"name":"f","args":{"a":#}}}`, `]},"finishReason":"STOP"}]}`+"\n\n", ","),
			"texts of one event": joined(`data: {"candidates":[{"index":0,"content":{"parts":[`, `{"text":"#"}`, `]},"finishReason":"STOP"}]}`+"\n\n", ","),
			"candidates":         joined(`data: {"candidates":[`, `{"content":{"parts":[{"text":"#"}]},"finishReason":"STOP"}`, `]}`+"\n\n", ","),
			"probabilities":      eventShape(sseFrame, "", `{"candidates":[{"index":0,"content":{"parts":[{"text":"#"}]},"logprobsResult":{"topCandidates":[{"candidates":[{"token":"#","logProbability":-1}]}],"chosenCandidates":[{"token":"#","logProbability":-1}]}}]}`, end),
		}
	case "/api/chat":
		const end = `{"model":"m","created_at":"2025-03-10T01:25:52Z","message":{"role":"assistant","content":"x"},"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}`
		of := func(message string) costShape {
			return eventShape(lineFrame, "", `{"model":"m","created_at":"2025-03-10T01:25:52Z","message":`+message+`,"done":false}`, end)
		}
		return map[string]costShape{
			"texts":             of(`{"role":"assistant","content":"#"}`),
			"thoughts":          of(`{"role":"assistant","content":"","thinking":"#"}`),
			"calls":             of(`{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":#}}}]}`),
			"calls with ids":    of(`{"role":"assistant","content":"","tool_calls":[{"id":"c#","function":{"name":"f","arguments":{"a":#}}}]}`),
			"calls of one line": joined(`{"model":"m","message":{"role":"assistant","content":"","tool_calls":[`, `{"function":{"name":"f","arguments":{"a":#}}}`, `]},"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}`+"\n", ","),
			"empty lines":       joined("", "\n\n", end+"\n", ""),
		}
	case "/v1/responses":
		const end = `{"type":"response.completed","sequence_number":9,"response":{"id":"resp_1","object":"response","status":"completed","model":"m","output":[],"usage":{"input_tokens":1,"output_tokens":8,"total_tokens":9}}}`
		const start = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[]}}`
		return map[string]costShape{
			"texts": eventShape(sseFrame, start, `{"type":"response.output_text.delta","sequence_number":#,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"#"}`, end),
			"items": eventShape(sseFrame, start, `{"type":"response.output_item.done","sequence_number":#,"output_index":#,"item":{"id":"fc_#","type":"function_call","call_id":"c#","name":"f","arguments":"{}"}}`, end),
		}
	}
	return nil
}

// joined makes a text of many parts in which # is their number.
func joined(before, part, after, between string) costShape {
	return func(size int) string {
		var b strings.Builder
		b.WriteString(before)
		for i := 0; b.Len() < size; i++ {
			if i > 0 {
				b.WriteString(between)
			}
			b.WriteString(strings.ReplaceAll(part, "#", fmt.Sprint(i)))
		}
		b.WriteString(after)
		return b.String()
	}
}

// wholeShapes are whole answers of a dialect that grow in one place.
func wholeShapes(path string) map[string]costShape {
	switch path {
	case "/v1/chat/completions":
		const head, tail = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[`, `],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
		one := func(message, item, rest string) costShape {
			return wholeShape(head+`{"index":0,"message":{"role":"assistant",`+message, item, rest+`},"finish_reason":"stop"}`+tail)
		}
		return map[string]costShape{
			"calls":         one(`"content":null,"tool_calls":[`, `{"id":"c#",`+emptyCall+`}`, `]`),
			"signed calls":  one(`"content":null,"tool_calls":[`, `{"id":"c#","extra_content":{"google":{"thought_signature":"#"}},`+emptyCall+`}`, `]`),
			"choices":       wholeShape(head, `{"index":#,"message":{"role":"assistant","content":"#"},"finish_reason":"stop"}`, tail),
			"annotations":   one(`"content":"x","annotations":[`, `{"type":"url_citation","url_citation":{"url":"http://a/#","title":"#","start_index":0,"end_index":1}}`, `]`),
			"images":        one(`"content":"x","images":[`, `{"type":"image_url","image_url":{"url":"data:image/png;base64,#"}}`, `]`),
			"members":       one(`"content":"x",`, `"a#":1`, ``),
			"probabilities": wholeShape(head+`{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop","logprobs":{"content":[`, `{"token":"#","logprob":-1,"bytes":null,"top_logprobs":[]}`, `]}}`+tail),
			"thinking":      one(`"content":"x","thinking_blocks":[`, `{"type":"thinking","thinking":"#","signature":"#"}`, `]`),
			"parts":         one(`"content":[`, `{"type":"text","text":"#"}`, `]`),
		}
	case "/v1/messages":
		const head, tail = `{"id":"m","type":"message","role":"assistant","model":"m","content":[`, `],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`
		return map[string]costShape{
			"calls":    wholeShape(head, `{"type":"tool_use","id":"c#","name":"f","input":{"a":#}}`, tail),
			"texts":    wholeShape(head, `{"type":"text","text":"#"}`, tail),
			"thinking": wholeShape(head+`{"type":"text","text":"x"},`, `{"type":"thinking","thinking":"#","signature":"#"}`, tail),
			"redacted": wholeShape(head+`{"type":"text","text":"x"},`, `{"type":"redacted_thinking","data":"#"}`, tail),
		}
	case "/v1beta":
		const head, tail = `{"candidates":[{"index":0,"content":{"role":"model","parts":[`, `]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`
		return map[string]costShape{
			"calls":  wholeShape(head, `{"functionCall":{"name":"f","args":{"a":#}}}`, tail),
			"texts":  wholeShape(head, `{"text":"#"}`, tail),
			"images": wholeShape(head, `{"inlineData":{"mimeType":"image/png","data":"#"}}`, tail),
		}
	case "/api/chat":
		return map[string]costShape{
			"calls": wholeShape(`{"model":"m","message":{"role":"assistant","content":"","tool_calls":[`, `{"function":{"name":"f","arguments":{"a":#}}}`, `]},"done":true,"done_reason":"stop","prompt_eval_count":1,"eval_count":1}`),
		}
	case "/v1/responses":
		return map[string]costShape{
			"items": wholeShape(`{"id":"resp_1","object":"response","status":"completed","model":"m","output":[`, `{"id":"fc_#","type":"function_call","call_id":"c#","name":"f","arguments":"{}"}`, `],"usage":{"input_tokens":1,"output_tokens":8,"total_tokens":9}}`),
		}
	}
	return nil
}

// askFor returns a request of a door that makes no difference to its answer.
func askFor(door schema.Door, stream bool) string {
	begin := fmt.Sprintf(`{"model":"m","stream":%v,`, stream)
	const function = `"description":"d","parameters":{"type":"object"}`
	switch door {
	case schema.DoorMessages:
		return begin + `"max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"thinking":{"type":"enabled","budget_tokens":1024}}`
	case schema.DoorResponses:
		return begin + `"store":false,"input":"x","tools":[{"type":"function","name":"f",` + function + `},{"type":"custom","name":"custom"}]}`
	}
	return begin + `"messages":[{"role":"user","content":"x"}],"logprobs":true,"tools":[{"type":"function","function":{"name":"f",` + function + `}}]}`
}

// Reading an answer of a backend and writing it for a client is linear work, whatever the
// backend sends: all doors, to backends of all dialects.
func TestCostOfAnAnswerGrowsWithItsSizeOnly(t *testing.T) {
	for _, pair := range []struct {
		kind, path string
		doors      []schema.Door
		native     *bool
	}{
		// The chunks of all dialects are unified before the doors see them.
		{"openai", "/v1/chat/completions", []schema.Door{schema.DoorChat, schema.DoorMessages, schema.DoorResponses}, nil},
		{"anthropic", "/v1/messages", []schema.Door{schema.DoorChat, schema.DoorMessages}, nil},
		{"gemini", "/v1beta", []schema.Door{schema.DoorChat}, nil},
		{"ollama", "/api/chat", []schema.Door{schema.DoorChat}, nil},
		{"openai", "/v1/responses", []schema.Door{schema.DoorResponses}, new(true)},
	} {
		kind, err := Lookup(pair.kind)
		if err != nil {
			t.Fatal(err)
		}
		target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", Model: "other", Responses: pair.native})
		if err != nil {
			t.Fatal(err)
		}
		for _, door := range pair.doors {
			for _, stream := range []bool{false, true} {
				shapes := wholeShapes(pair.path)
				if stream {
					shapes = streamShapes(pair.path)
				}
				for shape, make := range shapes {
					if (testing.Short() || raceDetector) && shape != "calls" {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/stream=%v/%s", door, pair.kind, stream, shape), func(t *testing.T) {
						growsLinearly(t, make, func(body []byte) {
							e := newExchange(door, target, []byte(askFor(door, stream)), body)
							_ = e.run(stream) // a fault has its cost, too
						})
					})
				}
			}
		}
	}
}

// Something is kept of each call of a stream until it ends, so their number has a bound.
func TestCallsOfAStreamHaveABound(t *testing.T) {
	many := func(head, event string) []byte {
		var b strings.Builder
		b.WriteString(head)
		for i := range dialect.MaxCalls + 1 {
			b.WriteString(strings.ReplaceAll(event, "#", fmt.Sprint(i)))
		}
		return []byte(b.String())
	}
	openai := many("", `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":#,"id":"c#",`+emptyCall+`}]}}]}`+"\n\n")
	for _, c := range []struct {
		kind   string
		door   schema.Door
		answer []byte
	}{
		{"openai", schema.DoorChat, openai},
		{"openai", schema.DoorMessages, openai},
		{"anthropic", schema.DoorChat, many("", `data: {"type":"content_block_start","index":#,"content_block":{"type":"tool_use","id":"c#","name":"f","input":{}}}`+"\n\n")},
		{"ollama", schema.DoorMessages, many("", `{"message":{"role":"assistant","content":"","tool_calls":[{"id":"c#","function":{"name":"f","arguments":{}}}]},"done":false}`+"\n")},
	} {
		e := newExchange(c.door, chatTarget(t, c.kind, nil), []byte(askFor(c.door, true)), c.answer)
		if err := e.run(true); !errors.Is(err, dialect.ErrTooManyCalls) || !errors.Is(err, dialect.ErrInvalid) {
			t.Errorf("%s to %s: %v", c.door, c.kind, err)
		}
	}
}
