package openai

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// A chunk is taken for one that has only another text if it is one.
func TestChunksAreRecognizedOnlyWithOtherTexts(t *testing.T) {
	chunk := func(delta string) string {
		return `{"id":"c","choices":[{"index":0,"delta":{"content":` + delta + `},"finish_reason":null}]}`
	}
	for delta, want := range map[string]bool{
		`"a"`: true, `""`: true, `"a\"b"`: true, `"a\\"`: true, `"\\\""`: true, `"a\\","refusal":"b"`: false, `"a","refusal":"b"`: false, `"a","b":{"c":"d"},"e":"f"`: false,
	} {
		reading := decodeStream(streamRequest(t), strings.NewReader("data: "+chunk(`"first"`)+"\n\n")).(*deltas)
		if _, err := reading.Next(); err != nil {
			t.Fatal(err)
		}
		text, matches := reading.pattern.Text([]byte(chunk(delta)))
		if matches != want || matches && `"`+string(text)+`"` != delta {
			t.Errorf("%s: %q, %v", delta, text, matches)
		}
	}
}

// tellDeltas reads a stream to its end, with every chunk scanned or not.
func tellDeltas(t testing.TB, stream string, anew bool) (told []string) {
	t.Helper()
	reading := decodeStream(streamRequest(t), strings.NewReader(stream)).(*deltas)
	for {
		if anew {
			reading.pattern = dialect.TextPattern{}
		}
		delta, err := reading.Next()
		if err != nil {
			return append(told, fmt.Sprint(err, reading.Usage()))
		}
		line := string(delta.ID)
		for _, c := range delta.Choices {
			line += fmt.Sprintf(" %d %q %q %q %v %s", c.Index, c.Text, c.Thinking, c.Refusal, c.Calls, c.Finish)
		}
		told = append(told, line)
	}
}

// What is read of a stream does not depend on whether chunks are recognized by an earlier
// one.
func FuzzDecodeStream(f *testing.F) {
	f.Add("one", "two", "three", "m")
	f.Add("", `","x":"`, `\`, "other")
	f.Add(`","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}],"x":"`, "b", "c", "m")
	f.Fuzz(func(t *testing.T, a, b, c, model string) {
		var stream strings.Builder
		for _, text := range []string{a, b, c} {
			fmt.Fprintf(&stream, "data: "+templateChunk+"\n\n", model, text, "")
			fmt.Fprintf(&stream, "data: %s\n\n", text)
		}
		fast, slow := tellDeltas(t, stream.String(), false), tellDeltas(t, stream.String(), true)
		if fmt.Sprint(fast) != fmt.Sprint(slow) {
			t.Errorf("%q\n%q", fast, slow)
		}
	})
}

// The usage of a stream is the last one that the backend reports, wherever that stands.
func TestUsageOfDeltasIsTheLastReport(t *testing.T) {
	const head = `data: {"id":"c1","choices":[`
	const usage = `"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}`
	for _, stream := range []string{
		head + `{"index":0,"delta":{"content":"a"}}],` + usage + "}\n\n" + head + `{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n",
		head + `],` + usage + "}\n\n" + head + `{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" + head + `],` + usage + "}\n\n",
		head + `{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" + `data: {` + usage + "}\n\ndata: [DONE]\n\n",
	} {
		reading := decodeStream(streamRequest(t), strings.NewReader(stream))
		text := ""
		for {
			delta, err := reading.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text += string(delta.Choices[0].Text)
		}
		if used := reading.Usage(); text != "a" || used.Total != 5 || used.Cached != 1 {
			t.Errorf("%q and %+v of %s", text, used, stream)
		}
	}
}

func TestPartsOfUsageAreNoMoreThanTheWhole(t *testing.T) {
	for text, want := range map[string][2]int64{
		`{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}`: {2, 1},
		`{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":4}}`: {0, 0},
		`{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":-1},"completion_tokens_details":null}`:                  {0, 0},
		`{"prompt_tokens":5,"completion_tokens":3}`: {0, 0},
	} {
		var doc jsonscan.Document
		if err := doc.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
		u := readUsage(doc.Root())
		if cached, reasoning := u.Parts(); cached != want[0] || reasoning != want[1] || u.Cached != cached || u.Reasoning != reasoning || u.Total != 8 {
			t.Errorf("%s: %+v, want %v", strings.TrimSpace(text), u, want)
		}
	}
	u := chat.Usage{Cached: -1, Reasoning: -1}
	if cached, reasoning := u.Parts(); cached != 0 || reasoning != 0 {
		t.Errorf("%d, %d of what is not told", cached, reasoning)
	}
}

// TestTimingsOfLlamaCppAreRead reads an answer whole and as a stream, for clients of this
// dialect and of others.
func TestTimingsOfLlamaCppAreRead(t *testing.T) {
	const timings = `"timings":{"cache_n":295,"prompt_n":18,"prompt_ms":12.5,"predicted_n":9,"predicted_ms":2.25}`
	for usage, cached := range map[string]int64{
		`"usage":{"completion_tokens":9,"prompt_tokens":313,"total_tokens":322}`:                                               295,
		`"usage":{"completion_tokens":9,"prompt_tokens":313,"total_tokens":322,"prompt_tokens_details":{"cached_tokens":300}}`: 300,
	} {
		whole := `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}],` + usage + `,` + timings + `}`
		stream := `data: {"id":"x","choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n" +
			`data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":{"prompt_ms":1}}` + "\n\n" +
			`data: {"id":"x","choices":[],` + usage + `,` + timings + "}\n\ndata: [DONE]\n\n"
		req := chatRequest(t)
		var reply dialect.Reply
		if err := Chat.Reply(req, dialect.Answer{Body: []byte(whole)}, &reply); err != nil {
			t.Fatal(err)
		}
		var answer chat.Answer
		if err := Chat.Decode(req, []byte(whole), new(jsonscan.Document), &answer); err != nil {
			t.Fatal(err)
		}
		events := Chat.Events(req, strings.NewReader(stream))
		if _, err := tellRaw(events); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		deltas := Chat.DecodeStream(req, strings.NewReader(stream))
		for err := error(nil); err == nil; {
			_, err = deltas.Next()
		}
		want := schema.Usage{Prompt: 313, Completion: 9, Total: 322, Cached: cached, IsCachedTold: true, Prefill: 12500 * time.Microsecond, Known: true}
		for name, got := range map[string]schema.Usage{"whole": reply.Usage, "decoded": answer.Usage.Tokens, "streamed": events.Usage(), "decoded stream": deltas.Usage().Tokens} {
			if got != want {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
	for _, lie := range []string{`null`, `[]`, `{"prompt_ms":-1,"cache_n":-1}`, `{"prompt_ms":"5","cache_n":1.5}`, `{"prompt_ms":1e300,"cache_n":400}`, `{}`} {
		var doc jsonscan.Document
		if err := doc.Parse([]byte(lie)); err != nil {
			t.Fatal(err)
		}
		got := schema.Usage{Prompt: 313}
		if readTimings(doc.Root(), &got); got != (schema.Usage{Prompt: 313}) {
			t.Errorf("%s: %+v", lie, got)
		}
	}
}
