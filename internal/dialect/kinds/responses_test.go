package kinds

import (
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The transcripts in testdata/responses have what a client of the Responses API sends,
// what a backend of each dialect gets and answers, and what the client gets.
func TestResponsesTranscripts(t *testing.T) {
	const root = "testdata/responses"
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		t.Run(strings.TrimSuffix(strings.TrimPrefix(path, root+"/"), ".txt"), func(t *testing.T) {
			g := readGolden(t, path)
			for name, reader := range map[string]func(io.Reader) io.Reader{
				"whole":        func(r io.Reader) io.Reader { return r },
				"byte by byte": iotest.OneByteReader,
				"halves":       iotest.HalfReader,
			} {
				t.Run(name, func(t *testing.T) { runResponses(t, g, reader) })
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// runResponses compares one exchange with its transcript.
func runResponses(t *testing.T, g golden, reader func(io.Reader) io.Reader) {
	t.Helper()
	kind, err := Lookup(g.settings["kind"])
	if err != nil {
		t.Fatal(err)
	}
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test:8000"})
	if err != nil {
		t.Fatal(err)
	}
	req := new(schema.Request)
	if err := responses.Parse(req, []byte(g.section("request"))); err != nil {
		t.Fatal(err)
	}
	target, adapter := target.ForDoor(schema.DoorResponses, responses.NewClient(req, responses.Conversation{}))
	var call wire.Call
	if err := adapter.Call(req, target, &call); err != nil {
		g.checkError(t, err)
		return
	}
	g.checkSent(t, &call)
	contentType, body, _ := strings.Cut(g.sections["answer"], "\n\n")
	switch {
	case g.settings["status"] != "":
		status, err := strconv.Atoi(g.settings["status"])
		if err != nil {
			t.Fatal(err)
		}
		g.checkError(t, dialect.ReadFailure(status, []byte(body)))
	case g.has("events"):
		events := adapter.Events(req, reader(strings.NewReader(body)))
		g.checkEvents(t, &dialect.Stream{Events: &eventData{from: events}})
		if strings.Contains(g.section("events"), "\nerror: ") {
			failure := string(events.Failure(schema.NewError(schema.CodeUpstreamError, say.Plain("boom")), ""))
			if events.IsComplete() || !strings.HasPrefix(failure, "event: response.failed\ndata: {") || strings.Contains(failure, "response.completed") {
				t.Errorf("a stream that broke off ends with %s", failure)
			}
		}
	case g.has("reply"):
		var reply dialect.Reply
		if err := adapter.Reply(req, dialect.Answer{ContentType: contentType, Body: []byte(body)}, &reply); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, s := range reply.Segments {
			text += string(s)
		}
		same(t, "reply", text, g.section("reply"))
		g.checkUsage(t, reply.Usage)
	}
}

// eventData returns the data of one event at a time from a stream that has events in
// frames, several at once.
type eventData struct {
	from dialect.Events
	rest string
}

// Usage returns what the backend reported.
func (e *eventData) Usage() schema.Usage { return e.from.Usage() }

// HasContent reports whether an event had content.
func (e *eventData) HasContent() bool { return e.from.HasContent() }

// Next returns the data of the next event.
func (e *eventData) Next() ([]byte, error) {
	if e.rest == "" {
		frames, err := e.from.Next()
		if err != nil {
			return nil, err
		}
		e.rest = string(frames)
	}
	event, rest, _ := strings.Cut(e.rest, "\n\n")
	e.rest = rest
	_, data, _ := strings.Cut(event, "\ndata: ")
	return []byte(data), nil
}

func TestWhichBackendsSpeakTheResponsesAPI(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		kind, address string
		said          *bool
		want          string // the path, empty if requests are translated
	}{
		{"openai", "https://api.openai.com", nil, "/v1/responses"},
		{"openai", "https://api.openai.com/v1", nil, "/v1/responses"},
		{"openai", "https://eu.api.openai.com/v1", nil, "/v1/responses"},
		{"openai", "https://api.openai.com", &no, ""},
		{"openai", "https://notopenai.com", nil, ""},
		{"openai", "http://127.0.0.1:8000/v1", nil, ""},
		{"openai", "http://127.0.0.1:8000/v1", &yes, "/v1/responses"},
		{"vllm", "http://127.0.0.1:8000", &yes, "/v1/responses"},
		{"azure", "https://mine.openai.azure.com/openai/v1", &yes, "/openai/v1/responses"},
		{"anthropic", "https://api.openai.com", &yes, ""},
	} {
		kind, err := Lookup(test.kind)
		if err != nil {
			t.Fatal(err)
		}
		target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: test.address, Responses: test.said})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if native := target.Native(schema.DoorResponses); native != nil {
			got = native.Path
		}
		if got != test.want {
			t.Errorf("%s at %s: %q, want %q", test.kind, test.address, got, test.want)
		}
	}
}

// vLLM splits texts into tokens at its root, beside the API.
func TestPathsBesideTheAPIHaveNoVersion(t *testing.T) {
	kind, err := Lookup("vllm")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ base, path, want string }{
		{"http://h:8000", "", "/tokenize"},
		{"http://h:8000/", "", "/tokenize"},
		{"http://h:8000/v1", "", "/tokenize"},
		{"http://h:8000/v1/", "", "/tokenize"},
		{"http://h/models/qwen/v1", "", "/models/qwen/tokenize"},
		{"http://h", "/v1/chat/completions", "/tokenize"},
		{"http://h/proxy", "/v1/chat/completions", "/proxy/tokenize"},
		{"http://h/v1", "/chat/completions", "/tokenize"},
		{"http://h", "/elsewhere", "/tokenize"},
	} {
		target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: row.base, Path: row.path})
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Native(schema.DoorCountTokens).Path; got != row.want {
			t.Errorf("%s with path %q: %s, want %s", row.base, row.path, got, row.want)
		}
		if got := target.Native(schema.DoorCompletions).Path; strings.Contains(got, "tokenize") {
			t.Errorf("%s: completions at %s", row.base, got)
		}
	}
}
