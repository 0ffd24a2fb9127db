package kinds

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// responseShapes are requests of the Responses API that grow in one place.
func responseShapes() map[string]costShape {
	around := func(before, item, after string) costShape {
		return wholeShape(`{"model":"m",`+before, item, after+`}`)
	}
	return map[string]costShape{
		"messages":          around(`"input":[`, `{"role":"user","content":"#"}`, `]`),
		"parts":             around(`"input":[{"role":"user","content":[`, `{"type":"input_text","text":"#"}`, `]}]`),
		"calls and results": around(`"input":[{"role":"user","content":"x"},`, `{"type":"function_call","call_id":"c#","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c#","output":"#"}`, `]`),
		"calls":             around(`"input":[{"role":"user","content":"x"},`, `{"type":"function_call","call_id":"c#","name":"f","arguments":"{}"}`, `]`),
		"results":           around(`"input":[{"role":"user","content":"x"},`, `{"type":"function_call_output","call_id":"c#","output":"#"}`, `]`),
		"custom calls":      around(`"tools":[{"type":"custom","name":"t"}],"input":[{"role":"user","content":"x"},`, `{"type":"custom_tool_call","call_id":"c#","name":"t","input":"#"},{"type":"custom_tool_call_output","call_id":"c#","output":"#"}`, `]`),
		"reasoning":         around(`"input":[{"role":"user","content":"x"},`, `{"type":"reasoning","id":"rs_#","summary":[{"type":"summary_text","text":"#"}]},{"role":"assistant","content":"#"}`, `]`),
		"tools":             around(`"input":"x","tools":[`, `{"type":"function","name":"f#","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}`, `]`),
		"custom tools":      around(`"input":"x","tools":[`, `{"type":"custom","name":"t#"}`, `]`),
		"calls of tools": func(size int) string {
			return `{"model":"m","tools":[` + wholeShape("", `{"type":"custom","name":"t#"}`, "")(size/2) + `],"input":[{"role":"user","content":"x"},` +
				wholeShape("", `{"type":"custom_tool_call","call_id":"c#","name":"t#","input":"#"}`, "")(size/2) + `]}`
		},
		"allowed tools": around(`"input":"x","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[`, `{"type":"function","name":"f#"}`, `]}`),
		"members":       around(`"input":"x",`, `"a#":1`, ``),
		"metadata":      around(`"input":"x","metadata":{`, `"a#":"1"`, `}`),
	}
}

// Reading a request of the Responses API and putting it to a backend is linear work.
func TestCostOfAResponsesRequestGrowsWithItsSizeOnly(t *testing.T) {
	for _, name := range []string{"openai", "anthropic"} {
		target := chatTarget(t, name, nil)
		for shape, make := range responseShapes() {
			if (testing.Short() || raceDetector) && shape != "calls and results" {
				continue
			}
			t.Run(name+"/"+shape, func(t *testing.T) {
				growsLinearly(t, make, func(body []byte) {
					req := new(schema.Request)
					client, err := openDoor(schema.DoorResponses, req, body)
					if err != nil {
						return // a refusal has its cost, too
					}
					to, adapter := target.ForDoor(schema.DoorResponses, client)
					_ = adapter.Call(req, to, new(wire.Call))
				})
			})
		}
	}
}

// chatTarget returns a backend of a kind for chat.
func chatTarget(t *testing.T, name string, talking *bool) *dialect.Target {
	t.Helper()
	kind, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", Model: "other", Responses: talking})
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// Reading the answers of other services is linear work.
func TestCostOfAnAnswerOfOtherServicesGrowsWithItsSizeOnly(t *testing.T) {
	const vectors, texts = `{"model":"m","input":["a","b"]}`, `{"model":"m","query":"q","documents":["a","b"]}`
	backwards := func(before, item, after string) costShape {
		return func(size int) string {
			n := size / len(item)
			var b strings.Builder
			for i := range n {
				if i > 0 {
					b.WriteByte(',')
				}
				b.WriteString(strings.ReplaceAll(item, "#", fmt.Sprint(n-i)))
			}
			return before + b.String() + after
		}
	}
	for _, c := range []struct {
		name, kind string
		service    schema.ServiceType
		parse      func(*schema.Request, []byte) error
		request    string
		shape      costShape
	}{
		{"vectors", "openai", schema.Embedding, (*schema.Request).ParseEmbedding, vectors, wholeShape(`{"object":"list","model":"m","data":[`, `{"object":"embedding","index":#,"embedding":[0.5,1]}`, `]}`)},
		{"vectors out of order", "openai", schema.Embedding, (*schema.Request).ParseEmbedding, vectors, backwards(`{"object":"list","model":"m","data":[`, `{"object":"embedding","index":#,"embedding":[0.5,1]}`, `]}`)},
		{"vectors with one index", "openai", schema.Embedding, (*schema.Request).ParseEmbedding, vectors, wholeShape(`{"object":"list","model":"m","data":[`, `{"object":"embedding","index":0,"embedding":[0.5,1]}`, `]}`)},
		{"numbers", "openai", schema.Embedding, (*schema.Request).ParseEmbedding, vectors, wholeShape(`{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[`, `0.#`, `]}]}`)},
		{"vectors", "ollama", schema.Embedding, (*schema.Request).ParseEmbedding, vectors, wholeShape(`{"model":"m","embeddings":[`, `[0.5,#]`, `],"prompt_eval_count":1}`)},
		{"vectors", "gemini", schema.Embedding, (*schema.Request).ParseEmbedding, vectors, wholeShape(`{"embeddings":[`, `{"values":[0.5,#]}`, `]}`)},
		{"results", "vllm", schema.Rerank, (*schema.Request).ParseRerank, texts, wholeShape(`{"model":"m","results":[`, `{"index":#,"relevance_score":0.#,"document":{"text":"#"}}`, `]}`)},
		{"results for one document", "vllm", schema.Rerank, (*schema.Request).ParseRerank, texts, wholeShape(`{"model":"m","results":[`, `{"index":0,"relevance_score":0.#}`, `]}`)},
		{"pictures", "openai", schema.ImgGen, (*schema.Request).ParseImage, `{"model":"m","prompt":"p"}`, wholeShape(`{"created":1,"data":[`, `{"b64_json":"#"}`, `]}`)},
		{"members", "openai", schema.ImgGen, (*schema.Request).ParseImage, `{"model":"m","prompt":"p"}`, wholeShape(`{"created":1,"data":[{"b64_json":"x"}],`, `"a#":1`, `}`)},
	} {
		kind, err := Lookup(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		target, err := kind.Target(c.service, dialect.Endpoint{BaseURL: "http://backend.test", Model: "other"})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("%s/%s/%s", c.service, c.kind, c.name), func(t *testing.T) {
			growsLinearly(t, c.shape, func(body []byte) {
				req := new(schema.Request)
				if err := c.parse(req, []byte(c.request)); err != nil {
					t.Fatal(err)
				}
				_ = target.Unified().Reply(req, dialect.Answer{ContentType: "application/json", Body: body}, new(dialect.Reply)) // a fault has its cost, too
			})
		})
	}
}

// A whole answer where a stream was asked for is made one in linear work.
func TestCostOfAnAnswerThatIsSplitGrowsWithItsSizeOnly(t *testing.T) {
	target := chatTarget(t, "openai", nil)
	for shape, make := range wholeShapes("/v1/chat/completions") {
		t.Run(shape, func(t *testing.T) {
			growsLinearly(t, make, func(body []byte) {
				req := new(schema.Request)
				if err := req.ParseChat([]byte(askFor(schema.DoorChat, true))); err != nil {
					t.Fatal(err)
				}
				var reply dialect.Reply
				if target.Unified().Reply(req, dialect.Answer{ContentType: "application/json", Body: body}, &reply) != nil {
					return // a fault has its cost, too
				}
				events, err := target.Unified().Split(req, &reply)
				for err == nil && events != nil {
					_, err = events.Next()
				}
			})
		})
	}
}

// fewBytes reads a few bytes at a time, as a slow network brings them.
type fewBytes struct{ rest []byte }

func (f *fewBytes) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		return 0, io.EOF
	}
	const few = 40
	n := copy(p, f.rest[:min(few, len(f.rest))])
	f.rest = f.rest[n:]
	return n, nil
}

// How the bytes of a stream are cut does not make reading it more than linear work.
func TestCostOfAStreamInSmallPiecesGrowsWithItsSizeOnly(t *testing.T) {
	long := func(before, after string) costShape {
		return func(size int) string { return before + strings.Repeat("x", size) + after }
	}
	for name, c := range map[string]struct {
		kind  string
		shape costShape
	}{
		"one event":   {"openai", long(`data: {"choices":[{"index":0,"delta":{"content":"`, `"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")},
		"one line":    {"ollama", long(`{"model":"m","message":{"role":"assistant","content":"`, `"},"done":true,"prompt_eval_count":1,"eval_count":1}`+"\n")},
		"many events": {"openai", streamShapes("/v1/chat/completions")["texts"]},
		"many lines":  {"ollama", streamShapes("/api/chat")["texts"]},
		"data lines":  {"openai", streamShapes("/v1/chat/completions")["lines of one event"]},
		"comments":    {"openai", streamShapes("/v1/chat/completions")["comments"]},
	} {
		target := chatTarget(t, c.kind, nil)
		t.Run(name, func(t *testing.T) {
			growsLinearly(t, c.shape, func(body []byte) {
				req := new(schema.Request)
				if err := req.ParseChat([]byte(askFor(schema.DoorChat, true))); err != nil {
					t.Fatal(err)
				}
				events := target.Unified().Events(req, &fewBytes{body})
				var err error
				for err == nil {
					_, err = events.Next()
				}
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			})
		})
	}
}
