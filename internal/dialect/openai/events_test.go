package openai

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/ollama"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// chatRequest is a request for a stream of the model m.
func chatRequest(t testing.TB) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	if err := req.ParseChat([]byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`)); err != nil {
		t.Fatal(err)
	}
	return req
}

// TestACharacterMayBeCutBetweenChunks sends an emoji half by half: the client
// that puts the pieces together must get both halves as they came.
func TestACharacterMayBeCutBetweenChunks(t *testing.T) {
	const head = `{"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":`
	chunks := []string{
		head + `{"role":"assistant","content":"\ud83d"},"finish_reason":null}]}`,
		head + `{"content":"\ude00"},"finish_reason":null}]}`,
		head + `{},"finish_reason":"stop"}]}`,
	}
	stream := "data: " + strings.Join(chunks, "\n\ndata: ") + "\n\n"
	got, end := tellRaw(Chat.Events(chatRequest(t), strings.NewReader(stream)))
	if !errors.Is(end, io.EOF) || !slices.Equal(got, chunks) {
		t.Errorf("chunks %q (%v), want %q", got, end, chunks)
	}
	lines := `{"message":{"content":"\ud83d"},"done":false}` + "\n" + `{"message":{"content":"\ude00"},"done":false}` + "\n" + `{"done":true}` + "\n"
	got, end = tellRaw(dialect.Speaker{Adapter: ollama.Chat}.Events(chatRequest(t), strings.NewReader(lines)))
	if all := strings.Join(got, ""); !errors.Is(end, io.EOF) || !strings.Contains(all, `"\ud83d"`) || !strings.Contains(all, `"\ude00"`) {
		t.Errorf("of lines came %q (%v)", got, end)
	}
}

func tellRaw(events dialect.Events) (chunks []string, end error) {
	for {
		chunk, err := events.Next()
		if err != nil {
			return chunks, err
		}
		chunks = append(chunks, string(chunk))
	}
}

func TestHalfACharacterInAReplyIsPassedOn(t *testing.T) {
	body := `{"id":"c1","object":"chat.completion","created":7,"model":"m","system_fingerprint":null,"choices":[{"index":0,"message":{"role":"assistant","content":"a\ud83d"},"finish_reason":"stop"}]}`
	var reply dialect.Reply
	if err := Chat.Reply(chatRequest(t), dialect.Answer{Body: []byte(body)}, &reply); err != nil {
		t.Fatal(err)
	}
	if got := string(slices.Concat(reply.Segments...)); got != body {
		t.Errorf("%s, want %s", got, body)
	}
	events, err := Chat.Split(streamRequest(t), &reply)
	if err != nil {
		t.Fatal(err)
	}
	if first, err := events.Next(); err != nil || !strings.Contains(string(first), `"content":"a\ud83d"`) {
		t.Errorf("as a stream it is %s (%v)", first, err)
	}
}

// TestAStreamHasOneIDAndOneTime looks at chunks whose backend gave them neither.
func TestAStreamHasOneIDAndOneTime(t *testing.T) {
	const chunk = `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
	ids := map[string]bool{}
	for range 2 {
		chunks, _ := tellRaw(Chat.Events(chatRequest(t), strings.NewReader(strings.Repeat(chunk, 5))))
		seen := map[string]bool{}
		for _, text := range chunks {
			var c struct {
				ID      string `json:"id"`
				Created int64  `json:"created"`
				Object  string `json:"object"`
			}
			if err := json.Unmarshal([]byte(text), &c); err != nil || c.Created == 0 || !strings.HasPrefix(c.ID, "chatcmpl-") || c.Object != "chat.completion.chunk" {
				t.Fatalf("%s (%v)", text, err)
			}
			seen[fmt.Sprint(c.ID, c.Created)] = true
			ids[c.ID] = true
		}
		if len(chunks) != 5 || len(seen) != 1 {
			t.Errorf("%d chunks with %d ids and times", len(chunks), len(seen))
		}
	}
	if len(ids) != 2 {
		t.Errorf("%d ids of two streams", len(ids))
	}
}

// TestOtherFormsSayNothingAgainstTheBackend wants them told from answers that
// cannot be understood.
func TestOtherFormsSayNothingAgainstTheBackend(t *testing.T) {
	image := new(schema.Request)
	if err := image.ParseImage([]byte(`{"model":"m","prompt":"p","response_format":"b64_json"}`)); err != nil {
		t.Fatal(err)
	}
	transcript := func(format string) *schema.Request {
		req := new(schema.Request)
		if err := req.ParseTranscription(&schema.Form{Parts: []schema.Part{
			{Name: "model", Value: "m"},
			{Name: "file", File: &schema.File{Filename: "a", Size: 1, Open: func() io.Reader { return strings.NewReader("x") }}},
			{Name: "response_format", Value: format},
		}}); err != nil {
			t.Fatal(err)
		}
		return req
	}
	for _, c := range []struct {
		speak      *dialect.Adapter
		req        *schema.Request
		body       string
		otherForms bool
	}{
		{Image, image, `{"data":[{"url":"http://10.0.0.1/a.png"}]}`, true},
		{Image, image, `{"data":[{"url":"data:image/png,x"}]}`, true},
		{Image, image, `{"data":[{}]}`, false},
		{Image, image, `{"data":[]}`, false},
		{Image, image, `no`, false},
		{Transcription, transcript("vtt"), `{"text":"hi"}`, true},
		{Transcription, transcript("srt"), `{"text":"hi"}`, true},
		{Transcription, transcript("verbose_json"), `hi`, true},
		{Transcription, transcript("vtt"), `{"nothing":1}`, false},
		{Transcription, transcript("vtt"), "\xff", false},
	} {
		err := c.speak.Reply(c.req, dialect.Answer{Body: []byte(c.body)}, new(dialect.Reply))
		if !errors.Is(err, dialect.ErrInvalid) || errors.Is(err, dialect.ErrFormat) != c.otherForms {
			t.Errorf("%s: %v, another form: %v", c.body, err, c.otherForms)
		}
	}
}

// TestUsageLeavesOnce puts the usage in all the places where backends report it.
// Clients add up what they see, so a caller that asked gets it once, in a chunk of
// its own that is the last one, and a caller that did not ask never.
func TestUsageLeavesOnce(t *testing.T) {
	const (
		early   = `"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}`
		usage   = `"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}`
		head    = `{"id":"c1","object":"chat.completion.chunk","created":7,"model":"m",`
		content = `"choices":[{"index":0,"delta":{"content":"hey"},"finish_reason":null}]`
		finish  = `"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`
		none    = `"choices":[]`
	)
	for name, events := range map[string][]string{
		"on the last chunk":                 {content, finish + "," + usage},
		"before the choices":                {content, usage + "," + finish},
		"on every chunk":                    {content + "," + early, content + "," + early, finish + "," + usage},
		"on a chunk and in one of its own":  {content, finish + "," + usage, none + "," + usage},
		"in one of its own":                 {content, finish, none + "," + usage},
		"in one of its own, twice":          {content, finish, none + "," + usage, none + "," + usage},
		"in one of its own, and early":      {none + "," + early, content, none + "," + early, finish, none + "," + usage},
		"in one of its own before the end":  {content, none + "," + usage, finish},
		"without choices":                   {content, finish, usage},
		"without choices, twice":            {content, finish, usage, none + "," + usage, usage},
		"beside an error that is null":      {content, finish + `,"error":null,` + usage},
		"before an error that is null":      {content, finish + "," + usage + `,"error":null`},
		"on its own beside such an error":   {content, finish, none + `,"error":null,` + usage},
		"where other chunks have null":      {content + `,"usage":null`, finish + `,"usage":null`, none + "," + usage},
		"on the last chunk, which has more": {content, finish + "," + usage + `,"timings":{"predicted_n":2}`},
	} {
		stream := ""
		for _, event := range events {
			stream += "data: " + head + event + "}\n\n"
		}
		for want, req := range []*schema.Request{chatRequest(t), streamRequest(t)} {
			reading := Chat.Events(req, strings.NewReader(stream+"data: [DONE]\n\n"))
			chunks, end := tellRaw(reading)
			seen := 0
			for i, chunk := range chunks {
				var c struct {
					Choices []any          `json:"choices"`
					Usage   map[string]int `json:"usage"`
				}
				if err := json.Unmarshal([]byte(chunk), &c); err != nil {
					t.Errorf("%s: %s: %v", name, chunk, err)
				}
				if c.Usage == nil {
					continue
				}
				seen++
				if len(c.Choices) > 0 || i != len(chunks)-1 || c.Usage["total_tokens"] != 5 {
					t.Errorf("%s: chunk %d of %d is %s", name, i, len(chunks), chunk)
				}
			}
			if seen != want || !errors.Is(end, io.EOF) {
				t.Errorf("%s: usage left %d times, want %d (%v)\n%s", name, seen, want, end, strings.Join(chunks, "\n"))
			}
			if counted := reading.Usage(); counted.Total != 5 {
				t.Errorf("%s: %d tokens are counted", name, counted.Total)
			}
		}
	}
}
