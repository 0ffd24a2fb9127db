package ollama

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func ollamaRequest(t testing.TB, body string) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	if err := req.ParseChat([]byte(body)); err != nil {
		t.Fatal(err)
	}
	return req
}

const ollamaStreamRequest = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`

func ollamaEventsOf(t testing.TB, from io.Reader) dialect.Events {
	return dialect.Speaker{Adapter: Chat}.Events(ollamaRequest(t, ollamaStreamRequest), from)
}

func readChunks(t testing.TB, events dialect.Events) (chunks []string, err error) {
	t.Helper()
	for {
		chunk, err := events.Next()
		if err != nil {
			return chunks, err
		}
		chunks = append(chunks, string(chunk))
	}
}

func TestOllamaLineCutOffIsATruncation(t *testing.T) {
	chunks, err := readChunks(t, ollamaEventsOf(t, strings.NewReader(
		`{"message":{"content":"a"},"done":false}`+"\n"+`{"message":{"content":"b"},"do`)))
	if len(chunks) != 1 || !errors.Is(err, dialect.ErrTruncated) {
		t.Errorf("%d chunks, then %v", len(chunks), err)
	}
}

func TestOllamaLastLineNeedsNoLineEnd(t *testing.T) {
	events := ollamaEventsOf(t, strings.NewReader(`{"message":{"content":"a"},"done":true,"eval_count":1}`))
	chunks, err := readChunks(t, events)
	if len(chunks) != 2 || !errors.Is(err, io.EOF) {
		t.Errorf("%d chunks, then %v", len(chunks), err)
	}
	if _, err := events.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("asked again: %v", err)
	}
}

// TestOllamaTellsHowLongThePrefillTook reads an answer of Ollama whole and as a stream. It
// does not tell how much was cached.
func TestOllamaTellsHowLongThePrefillTook(t *testing.T) {
	for told, want := range map[string]time.Duration{"13463699": 13463699, "0": 0, "-5": 0, "1e18": 0, `"5"`: 0, "null": 0} {
		line := `{"model":"m","created_at":"2026-11-15T00:18:28.2Z","message":{"role":"assistant","content":"hi"},"done":true,"done_reason":"stop","prompt_eval_count":15,"prompt_eval_duration":` + told + `,"eval_count":26}`
		events := ollamaEventsOf(t, strings.NewReader(line+"\n"))
		if _, err := readChunks(t, events); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		var reply dialect.Reply
		if err := (dialect.Speaker{Adapter: Chat}).Reply(ollamaRequest(t, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`), dialect.Answer{Body: []byte(line)}, &reply); err != nil {
			t.Fatal(err)
		}
		usage := schema.Usage{Prompt: 15, Completion: 26, Total: 41, Prefill: want, Known: true}
		if events.Usage() != usage || reply.Usage != usage {
			t.Errorf("%s: %+v and %+v, want %+v", told, events.Usage(), reply.Usage, usage)
		}
	}
}

func TestOllamaErrorStays(t *testing.T) {
	events := ollamaEventsOf(t, strings.NewReader(`{"error":"x"}`+"\n"+`{"message":{"content":"a"},"done":true}`))
	for range 2 {
		var failure *dialect.Failure
		if _, err := events.Next(); !errors.As(err, &failure) || failure.Status != 200 {
			t.Errorf("error %v", err)
		}
	}
}

// An id that was made up must be the same wherever the call is named, and no
// other call of the conversation may have it.
func TestOllamaInventedIDs(t *testing.T) {
	line := `{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{}}}]},"done":%v}` + "\n"
	seen := map[string]bool{}
	for range 2 {
		chunks, err := readChunks(t, ollamaEventsOf(t, strings.NewReader(fmt.Sprintf(line, false)+fmt.Sprintf(line, true))))
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		completions := map[string]bool{}
		for _, chunk := range chunks {
			var c struct {
				ID      string
				Choices []struct {
					Delta struct {
						ToolCalls []struct{ ID string } `json:"tool_calls"`
					}
				}
			}
			if err := json.Unmarshal([]byte(chunk), &c, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			completions[c.ID] = true
			for _, choice := range c.Choices {
				for _, call := range choice.Delta.ToolCalls {
					if seen[call.ID] || call.ID == "" {
						t.Errorf("call id %q is there twice", call.ID)
					}
					seen[call.ID] = true
				}
			}
		}
		if len(completions) != 1 {
			t.Errorf("%d ids in one stream", len(completions))
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d calls", len(seen))
	}
}

func TestOllamaRefusalsNameTheParameter(t *testing.T) {
	target := &dialect.Target{Path: "/api/chat"}
	for body, param := range map[string]string{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y"}}]}]}`:                   "messages[0].content[0].image_url.url",
		`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"x"}}]}]}`:                       "messages[0].tool_calls[0].function.arguments",
		`{"model":"m","messages":[{"role":"assistant","function_call":{"name":"f","arguments":"[]"}}]}`:                                  "messages[0].function_call.arguments",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"options":{"top_k":"x"}}`:                                               "options.top_k",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"reasoning":{"effort":7}}`:                                              "reasoning.effort",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":1}`: "tool_choice",
	} {
		var refusal *schema.Error
		err := Chat.Call(ollamaRequest(t, body), target, new(wire.Call))
		if !errors.As(err, &refusal) || refusal.Code != schema.CodeInvalidValue || refusal.Param == nil || *refusal.Param != param {
			t.Errorf("%s: %#v, want a refusal of %s", body, err, param)
		}
	}
	embedding := new(schema.Request)
	if err := embedding.ParseEmbedding([]byte(`{"model":"m","input":[1,2]}`)); err != nil {
		t.Fatal(err)
	}
	var refusal *schema.Error
	if err := Embedding.Call(embedding, target, new(wire.Call)); !errors.As(err, &refusal) || *refusal.Param != "input" {
		t.Errorf("token ids: %#v", err)
	}
}

// Numbers that no float holds keep their digits on the way.
func TestOllamaKeepsDigits(t *testing.T) {
	req := ollamaRequest(t, `{"model":"m","messages":[{"role":"user","content":"x"}],"seed":12345678901234567890,"extra_body":{"x":0.10000000000000000001}}`)
	var call wire.Call
	if err := Chat.Call(req, &dialect.Target{Path: "/api/chat"}, &call); err != nil {
		t.Fatal(err)
	}
	body := string(bytes.Join(call.Body, nil))
	if !strings.Contains(body, `"seed":12345678901234567890`) || !strings.Contains(body, `"x":0.10000000000000000001`) {
		t.Error(body)
	}
	if call.Length() != len(body) {
		t.Errorf("length %d of %d", call.Length(), len(body))
	}
}

func FuzzOllamaEvents(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","created_at":"2026-11-15T00:18:27.8Z","message":{"role":"assistant","content":"a"},"done":false}` + "\n" + `{"message":{"content":""},"done":true,"done_reason":"stop","eval_count":1}` + "\n",
		`{"message":{"content":"","thinking":"t"}}` + "\r\n" + `{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":[1,{}]}}}]},"done":true}`,
		`{"message":{"content":"a"},"logprobs":[{ "token":"a" }]}` + "\n" + `{"error":"x"}`,
		`{"message":{"content":"\ud83d\ude42"},"done":false}` + "\n" + `{"done":tru`,
		`{"done":true,"done_reason":"load"}` + "\n",
		`[{"message":{}}]` + "\n\n{}",
	} {
		f.Add([]byte(seed), uint8(0))
	}
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		whole, wholeErr := readChunks(t, ollamaEventsOf(t, bytes.NewReader(stream)))
		split, splitErr := readChunks(t, ollamaEventsOf(t, &chunkedReader{stream, int(size) + 1}))
		if fmt.Sprint(wholeErr) != fmt.Sprint(splitErr) || len(whole) != len(split) {
			t.Fatalf("%d chunks and %v, but %d and %v in pieces", len(whole), wholeErr, len(split), splitErr)
		}
		for i := range whole {
			if a, b := ollamaVolatile(whole[i]), ollamaVolatile(split[i]); a != b {
				t.Fatalf("chunk %d: %s, but %s in pieces", i, a, b)
			}
			var any struct{ Object string }
			if err := json.Unmarshal([]byte(whole[i]), &any, json.MatchCaseInsensitiveNames(true)); err != nil && !strings.Contains(err.Error(), "duplicate") {
				t.Fatalf("chunk %d is no JSON: %v\n%s", i, err, whole[i])
			}
		}
		var failure *dialect.Failure
		switch {
		case errors.Is(wholeErr, io.EOF), errors.Is(wholeErr, dialect.ErrTruncated), errors.Is(wholeErr, dialect.ErrInvalid), errors.As(wholeErr, &failure):
		default:
			t.Fatalf("ends in %v", wholeErr)
		}
	})
}

// ollamaVolatile leaves out of a chunk what is new in every stream: ids, and
// the time where the backend gave none.
func ollamaVolatile(chunk string) string {
	_, id, _ := strings.Cut(chunk, `{"id":"chatcmpl-`)
	id, _, _ = strings.Cut(id, `"`)
	head, rest, _ := strings.Cut(strings.ReplaceAll(chunk, id, "ID"), `"created":`)
	_, rest, _ = strings.Cut(rest, ",")
	return head + rest
}

func BenchmarkOllamaEvents(b *testing.B) {
	var stream bytes.Buffer
	for range 99 {
		stream.WriteString(`{"model":"tinychat","created_at":"2026-11-15T00:18:27.858781285Z","message":{"role":"assistant","content":" from"},"done":false}` + "\n")
	}
	stream.WriteString(`{"model":"tinychat","created_at":"2026-11-15T00:18:27.936943211Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":105782544,"load_duration":6089350,"prompt_eval_count":6,"prompt_eval_duration":9609029,"eval_count":26,"eval_duration":76393191}` + "\n")
	req := ollamaRequest(b, ollamaStreamRequest)
	b.ReportAllocs()
	for b.Loop() {
		events := dialect.Speaker{Adapter: Chat}.Events(req, bytes.NewReader(stream.Bytes()))
		n := 0
		for ; ; n++ {
			if _, err := events.Next(); err != nil {
				break
			}
		}
		if n != 101 {
			b.Fatalf("%d chunks", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/event")
}

func BenchmarkOllamaEmbeddingBase64(b *testing.B) {
	const inputs, width = 256, 1536
	texts := strings.Repeat(`"x",`, inputs)
	req := new(schema.Request)
	if err := req.ParseEmbedding([]byte(`{"model":"m","encoding_format":"base64","input":[` + texts[:len(texts)-1] + `]}`)); err != nil {
		b.Fatal(err)
	}
	vector := "[" + strings.Repeat("-0.019281674,", width-1) + "0.5]"
	vectors := strings.Repeat(vector+",", inputs)
	body := []byte(`{"model":"m","embeddings":[` + vectors[:len(vectors)-1] + `],"prompt_eval_count":256}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var reply dialect.Reply
		if err := Embedding.Reply(req, dialect.Answer{Body: body}, &reply); err != nil {
			b.Fatal(err)
		}
	}
}

// chunkedReader hands its text out in pieces of a given size.
type chunkedReader struct {
	text []byte
	size int
}

func (r *chunkedReader) Read(p []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.text[:min(len(r.text), r.size)])
	r.text = r.text[n:]
	return n, nil
}
