package kinds

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/openai"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestCompletionBecomesAStream(t *testing.T) {
	const head = `"id":"c1","object":"chat.completion.chunk","created":7,"model":"m"`
	const usage = `{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"completion_tokens_details":{"reasoning_tokens":1}}`
	for _, c := range []struct {
		name, body string
		asked      bool
		want       []string
	}{
		{
			"text, usage not asked for", `{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hey"},"finish_reason":"stop"}],"usage":` + usage + `}`, false,
			[]string{
				`{` + head + `,"choices":[{"index":0,"delta":{"role":"assistant","content":"hey"},"finish_reason":null}]}`,
				`{` + head + `,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			},
		},
		{
			"text, usage asked for", `{"id":"c1","created":7,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"message":{"role":"assistant","content":"hey"},"finish_reason":"length"}],"usage":` + usage + `}`, true,
			[]string{
				`{` + head + `,"system_fingerprint":"fp","choices":[{"index":0,"delta":{"role":"assistant","content":"hey"},"finish_reason":null}]}`,
				`{` + head + `,"system_fingerprint":"fp","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`,
				`{` + head + `,"system_fingerprint":"fp","choices":[],"usage":` + usage + `}`,
			},
		},
		{
			"usage asked for and null", `{"id":"c1","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hey"},"finish_reason":"stop"}],"usage":null}`, true,
			[]string{
				`{` + head + `,"choices":[{"index":0,"delta":{"role":"assistant","content":"hey"},"finish_reason":null}]}`,
				`{` + head + `,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			},
		},
		{
			"tool calls are numbered", `{"id":"c1","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","type":"function","index":9,"function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, false,
			[]string{
				`{` + head + `,"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":null}]}`,
				`{` + head + `,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			},
		},
		{
			"several choices, one of them without a number", `{"id":"c1","created":7,"model":"m","choices":[{"message":{"content":"a"},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":"length"}]}`, false,
			[]string{
				`{` + head + `,"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}`,
				`{` + head + `,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
				`{` + head + `,"choices":[{"index":1,"delta":{"role":"assistant","content":"b"},"finish_reason":null}]}`,
				`{` + head + `,"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`,
			},
		},
		{
			"thoughts, logprobs and what nobody knows", `{"id":"c1","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hey","reasoning":"hm","refusal":null,"tool_calls":null,"annotations":[{"n":12345678901234567890}]},"logprobs":{"content":[{"token":"hey","logprob":-0.1}]},"finish_reason":"stop"}]}`, false,
			[]string{
				`{` + head + `,"choices":[{"index":0,"delta":{"role":"assistant","content":"hey","reasoning":"hm","refusal":null,"tool_calls":null,"annotations":[{"n":12345678901234567890}]},"logprobs":{"content":[{"token":"hey","logprob":-0.1}]},"finish_reason":null}]}`,
				`{` + head + `,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			},
		},
		{
			"what nobody knows goes with the first chunk", `{"id":"c1","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hey"},"finish_reason":"stop","stop_reason":1.0,"content_filter_results":{}}],"usage":` + usage + `,"timings":{"n":12345678901234567890,"s":"\/"},"warnings":[1.10]}`, true,
			[]string{
				`{` + head + `,"choices":[{"index":0,"delta":{"role":"assistant","content":"hey"},"finish_reason":null}],"timings":{"n":12345678901234567890,"s":"/"},"warnings":[1.10]}`,
				`{` + head + `,"choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":1.0,"content_filter_results":{}}]}`,
				`{` + head + `,"choices":[],"usage":` + usage + `}`,
			},
		},
		{
			"no id, no time", `{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`, false,
			[]string{
				`{"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
				`{"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			reported := schema.Usage{Prompt: 3, Completion: 2, Total: 5, Known: true}
			events, err := openai.Chat.Split(&schema.Request{Stream: true, IncludeUsage: c.asked}, &dialect.Reply{Segments: [][]byte{[]byte(c.body)}, Usage: reported})
			if err != nil {
				t.Fatal(err)
			}
			if events.Usage() != reported {
				t.Errorf("usage %+v, want %+v", events.Usage(), reported)
			}
			for i, want := range c.want {
				chunk, err := events.Next()
				if err != nil {
					t.Fatalf("chunk %d: %v", i, err)
				}
				if strings.ContainsAny(string(chunk), "\n\r") {
					t.Errorf("chunk %d has several lines: %s", i, chunk)
				}
				same(t, "chunk", string(chunk), want)
			}
			for range 2 {
				if chunk, err := events.Next(); !errors.Is(err, io.EOF) {
					t.Errorf("%s (%v), want the end", chunk, err)
				}
			}
		})
	}
}

// TestCompletionBecomesTheStreamThatItsReaderTakes reads the chunks back with
// the reader of streams: what is made here must be what is understood here.
func TestCompletionBecomesTheStreamThatItsReaderTakes(t *testing.T) {
	body := `{"id":"c1","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hey"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	req := new(schema.Request)
	if err := req.ParseChat([]byte(`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`)); err != nil {
		t.Fatal(err)
	}
	made, err := openai.Chat.Split(req, &dialect.Reply{Segments: [][]byte{[]byte(body)}})
	if err != nil {
		t.Fatal(err)
	}
	var stream strings.Builder
	for {
		chunk, err := made.Next()
		if err != nil {
			break
		}
		stream.WriteString("data: " + string(chunk) + "\n\n")
	}
	events := openai.Chat.Events(req, strings.NewReader(stream.String()))
	chunks := 0
	for {
		if _, err = events.Next(); err != nil {
			break
		}
		chunks++
	}
	if want := (schema.Usage{Prompt: 3, Completion: 2, Total: 5, Known: true}); !errors.Is(err, io.EOF) || chunks != 3 || events.Usage() != want {
		t.Errorf("%d chunks, usage %+v (%v), want 3 and %+v", chunks, events.Usage(), err, want)
	}
}

func TestInvalidCompletionBecomesNoStream(t *testing.T) {
	for _, body := range []string{
		``, `null1`, `[]`, `"x"`,
		`{"choices":{}}`,
		`{"choices":[null]}`,
		`{"choices":["x"]}`,
		`{"choices":[{}]}`,
		`{"choices":[{"finish_reason":"stop"}]}`,
		`{"choices":[{"message":null,"finish_reason":"stop"}]}`,
		`{"choices":[{"message":[],"finish_reason":"stop"}]}`,
		`{"choices":[{"message":{"content":"x"}}]}`,
		`{"choices":[{"message":{"content":"x"},"finish_reason":null}]}`,
		`{"choices":[{"message":{"content":"x"},"finish_reason":""}]}`,
		`{"choices":[{"message":{"content":"x"},"finish_reason":{}}]}`,
		`{"choices":[{"message":{"content":"x","tool_calls":[null]},"finish_reason":"stop"}]}`,
		`{"choices":[{"message":{"content":"x","tool_calls":["x"]},"finish_reason":"stop"}]}`,
	} {
		if events, err := openai.Chat.Split(&schema.Request{Stream: true}, &dialect.Reply{Segments: [][]byte{[]byte(body)}}); !errors.Is(err, dialect.ErrInvalid) {
			t.Errorf("%s: %v (%v), want %v", body, events, err, dialect.ErrInvalid)
		}
	}
}
