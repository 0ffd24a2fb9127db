package simulator

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a backend with a client of its own.
type rig struct {
	*Backend
	t      *testing.T
	client *http.Client
}

func newRig(t *testing.T, options Options) *rig {
	t.Helper()
	b, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(func() {
		b.Close()
		transport.CloseIdleConnections()
	})
	return &rig{b, t, &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// reply is what a client saw of an answer; err is how reading it ended.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r *rig) do(ctx context.Context, method, path, body string) reply {
	r.t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, r.URL()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(read), err}
}

func (r *rig) chat(body string) reply {
	r.t.Helper()
	return r.do(waittest.Context(r.t), http.MethodPost, "/v1/chat/completions", body)
}

const (
	hi       = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	hiStream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	hiUsage  = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
)

// completion is the part of a reply or chunk that the tests look at.
type completion struct {
	ID                string
	Object            string
	Created           int64
	Model             string
	SystemFingerprint string `json:"system_fingerprint"`
	Choices           []struct {
		Index        int
		Message      said
		Delta        said
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
}

type said struct {
	Role      string
	Content   *string
	ToolCalls []struct {
		Index    int
		ID       string
		Type     string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func decode(t *testing.T, text string) completion {
	t.Helper()
	var c completion
	if err := json.Unmarshal([]byte(text), &c, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return c
}

// payloads reads server-sent events strictly: data lines joined by newlines,
// each event ended by an empty line.
func payloads(t *testing.T, stream string) []string {
	t.Helper()
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	var events []string
	for block := range strings.SplitSeq(stream, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			if value, found := strings.CutPrefix(line, "data:"); found {
				data = append(data, strings.TrimPrefix(value, " "))
			}
		}
		if data != nil {
			events = append(events, strings.Join(data, "\n"))
		}
	}
	return events
}

// spoken joins what the chunks of a stream say, per choice; [DONE] must be last.
func spoken(t *testing.T, stream string) (texts map[int]string, finishes map[int]string, last completion) {
	t.Helper()
	events := payloads(t, stream)
	if len(events) == 0 || events[len(events)-1] != "[DONE]" {
		t.Fatalf("no [DONE] at the end of %s", stream)
	}
	texts, finishes = map[int]string{}, map[int]string{}
	for _, event := range events[:len(events)-1] {
		last = decode(t, event)
		for _, choice := range last.Choices {
			if choice.Delta.Content != nil {
				texts[choice.Index] += *choice.Delta.Content
			}
			if choice.FinishReason != nil {
				finishes[choice.Index] = *choice.FinishReason
			}
		}
	}
	return texts, finishes, last
}

// nowhere is a response writer for benchmarks of the simulator's own work.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) FlushError() error           { return nil }

func benchmarkChat(b *testing.B, body string) {
	backend, err := Start(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer backend.Close()
	routes := backend.routes()
	content := []byte(body)
	b.ReportAllocs()
	for b.Loop() {
		request, _ := http.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(content))
		backend.serve(&nowhere{http.Header{}}, request, routes)
	}
}

func BenchmarkPlainChat(b *testing.B)  { benchmarkChat(b, hi) }
func BenchmarkStreamChat(b *testing.B) { benchmarkChat(b, hiStream) }
