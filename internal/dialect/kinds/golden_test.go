package kinds

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/engine"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini/genai"
	"github.com/patchbay-ai/patchbay/internal/dialect/ollama"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// A golden transcript is one exchange with a backend, written from its
// documentation or recorded from a real server. It begins with settings, one
// "name: value" a line (kind, service, base-url, path, api-version, api-key, upstream-model,
// header.NAME; door where it is not that of the service type, with client-header.NAME
// query and path-model; status when it is not 200, line-ends when they are crlf or cr),
// then has sections:
//
//	-- request --   the unified request (for forms: name=value lines, @ for a file), or
//	                the one that is sent to the door
//	-- sent --      method and path, then headers that must be there, an empty
//	                line, and the body (JSON compared as values; omitted = not checked)
//	-- answer --    the backend's content type, an empty line, and its body as it came
//	-- reply --     the unified reply; the text "<any>" stands for any value
//	-- events --    instead of a reply: the chunks, or the data of the door's events, one
//	                a line; the last line is [DONE] when the stream is complete, or
//	                "error: " and a part of the error
//	-- error --     instead of both: a part of the error's text
//	-- usage --     prompt, completion and total tokens, or "unknown"
type golden struct {
	settings map[string]string
	sections map[string]string
}

func readGolden(t testing.TB, path string) golden {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g := golden{settings: map[string]string{}, sections: map[string]string{}}
	section := ""
	for line := range strings.Lines(string(data)) {
		trimmed := strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(trimmed, "-- "); ok && strings.HasSuffix(name, " --") {
			section = strings.TrimSuffix(name, " --")
			g.sections[section] = ""
			continue
		}
		if section != "" {
			g.sections[section] += line
			continue
		}
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		name, value, ok := strings.Cut(trimmed, ": ")
		if !ok {
			t.Fatalf("%s: %q is no setting", path, trimmed)
		}
		g.settings[name] = value
	}
	return g
}

func (g golden) section(name string) string { return strings.TrimSuffix(g.sections[name], "\n") }

func (g golden) has(name string) bool { _, ok := g.sections[name]; return ok }

// target prepares the endpoint that the settings describe.
func (g golden) target(t *testing.T, service schema.ServiceType) *dialect.Target {
	t.Helper()
	if err := Check(g.settings["kind"], service); err != nil {
		t.Fatal(err)
	}
	kind, err := Lookup(g.settings["kind"])
	if err != nil {
		t.Fatal(err)
	}
	endpoint := dialect.Endpoint{
		BaseURL: g.settings["base-url"], Path: g.settings["path"], APIVersion: g.settings["api-version"], APIKey: g.settings["api-key"],
		Model: g.settings["upstream-model"], Headers: map[string]string{},
	}
	if endpoint.BaseURL == "" {
		endpoint.BaseURL = "http://backend.test:8000"
	}
	for name, value := range g.settings {
		if header, ok := strings.CutPrefix(name, "header."); ok {
			endpoint.Headers[header] = value
		}
	}
	target, err := kind.Target(service, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// doors are the doors whose requests pass to backends that have them too.
var doors = map[string]schema.Door{
	"completions": schema.DoorCompletions, "moderations": schema.DoorModerations, "translations": schema.DoorTranslations,
	"tokenize": schema.DoorTokenize, "detokenize": schema.DoorDetokenize, "score": schema.DoorScore, "classify": schema.DoorClassify,
	"pooling": schema.DoorPooling, "infill": schema.DoorInfill,
}

// parseAtDoor reads the request of one of these doors.
func parseAtDoor(req *schema.Request, door, text string) error {
	switch door {
	case "completions":
		return req.ParseCompletion([]byte(text))
	case "moderations":
		return req.ParseModeration([]byte(text))
	case "tokenize":
		return engine.ReadTokenize(req, []byte(text))
	case "detokenize":
		return engine.ReadDetokenize(req, []byte(text))
	case "score":
		return engine.ReadScore(req, []byte(text))
	case "classify":
		return engine.ReadClassify(req, []byte(text))
	case "pooling":
		return engine.ReadPooling(req, []byte(text))
	case "infill":
		return engine.ReadInfill(req, []byte(text))
	}
	return req.ParseTranslation(formOf(text))
}

// doorsUnderTest are the doors whose requests are translated: how they are read, and
// what translates for their clients.
var doorsUnderTest = map[string]struct {
	read   func(*schema.Request, []byte) error
	client *dialect.Client
}{
	"messages":          {messages.ReadRequest, messages.Client},
	"ollama-chat":       {ollama.ReadChat, ollama.Client},
	"ollama-generate":   {ollama.ReadGenerate, ollama.Client},
	"ollama-raw":        {ollama.ReadGenerate, ollama.GenerateClient(rawGenerate())},
	"ollama-embed":      {ollama.ReadEmbed, ollama.EmbedClient},
	"ollama-embeddings": {ollama.ReadEmbeddings, ollama.EmbedClient},
	"gemini":            {genai.ReadRequest, genai.ClientFor(new(schema.Request))},
	"gemini-stream":     {genai.ReadStreamRequest, genai.ClientFor(new(schema.Request))},
	"gemini-batch":      {genai.ReadBatchEmbed, genai.EmbedClient},
}

// rawGenerate is a request for a text around which there is no template.
func rawGenerate() *schema.Request {
	req := new(schema.Request)
	_ = ollama.ReadGenerate(req, []byte(`{"model":"m","raw":true}`))
	return req
}

// doorRequest reads the request that is sent to a door.
func (g golden) doorRequest(t *testing.T) (*schema.Request, *dialect.Client) {
	t.Helper()
	door := doorsUnderTest[g.settings["door"]]
	req := &schema.Request{Header: http.Header{}, Query: g.settings["query"], PathModel: g.settings["path-model"]}
	for name, value := range g.settings {
		if header, ok := strings.CutPrefix(name, "client-header."); ok {
			req.Header.Set(header, value)
		}
	}
	if err := door.read(req, []byte(g.section("request"))); err != nil {
		t.Fatalf("the request is not valid: %v", err)
	}
	return req, door.client
}

func (g golden) request(t *testing.T, service schema.ServiceType) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	text := g.section("request")
	if door := g.settings["door"]; door != "" {
		if err := parseAtDoor(req, door, text); err != nil {
			t.Fatalf("the request is not valid: %v", err)
		}
		return req
	}
	var err error
	switch service {
	case schema.Chat:
		err = req.ParseChat([]byte(text))
	case schema.Embedding:
		err = req.ParseEmbedding([]byte(text))
	case schema.Rerank:
		err = req.ParseRerank([]byte(text))
	case schema.TTS:
		err = req.ParseSpeech([]byte(text))
	case schema.ImgGen:
		err = req.ParseImage([]byte(text))
	case schema.STT:
		err = req.ParseTranscription(formOf(text))
	case schema.ImgEdit:
		err = req.ParseImageEdit(formOf(text))
	}
	if err != nil {
		t.Fatalf("the unified request is not valid: %v", err)
	}
	return req
}

func formOf(text string) *schema.Form {
	form := new(schema.Form)
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, "=")
		part := schema.Part{Name: name, Value: value}
		if content, isFile := strings.CutPrefix(value, "@"); isFile {
			filename, content, _ := strings.Cut(content, ":")
			part = schema.Part{Name: name, File: &schema.File{
				Filename: filename, ContentType: "application/octet-stream", Size: int64(len(content)),
				Open: func() io.Reader { return strings.NewReader(content) },
			}}
		}
		form.Parts = append(form.Parts, part)
	}
	return form
}

func TestGolden(t *testing.T) { runGolden(t, "testdata/golden") }

// The transcripts of doors also have the side of the client: for each door and dialect
// what the client sends, what the backend gets and answers, and what the client gets.
func TestDoors(t *testing.T) { runGolden(t, "testdata/doors") }

func runGolden(t *testing.T, root string) {
	t.Helper()
	cases := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".txt" {
			return err
		}
		cases++
		name := strings.TrimSuffix(strings.TrimPrefix(path, root+"/"), ".txt")
		t.Run(name, func(t *testing.T) { readGolden(t, path).run(t) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d transcripts", cases)
}

func (g golden) run(t *testing.T) {
	var service schema.ServiceType
	if err := service.UnmarshalText([]byte(g.settings["service"])); err != nil {
		t.Fatal(err)
	}
	target := g.target(t, service)
	var req *schema.Request
	adapter := target.Unified()
	if door, passes := doors[g.settings["door"]]; passes {
		target, adapter = target.ForDoor(door, nil)
	}
	if _, translated := doorsUnderTest[g.settings["door"]]; translated {
		var client *dialect.Client
		req, client = g.doorRequest(t)
		target, adapter = target.ForDoor(req.Door, client)
	} else {
		req = g.request(t, service)
	}
	var call wire.Call
	if err := adapter.Call(req, target, &call); err != nil {
		g.checkError(t, err)
		return
	}
	if err := target.Authorize(t.Context(), &call); err != nil {
		t.Fatal(err)
	}
	if g.has("sent") {
		g.checkSent(t, &call)
	}
	if !g.has("answer") {
		if g.has("error") {
			t.Fatalf("the request was translated, want the error %q", g.section("error"))
		}
		return
	}
	contentType, body, _ := strings.Cut(g.sections["answer"], "\n\n")
	if status, ok := g.settings["status"]; ok {
		code, err := strconv.Atoi(status)
		if err != nil {
			t.Fatal(err)
		}
		g.checkError(t, dialect.ReadFailure(code, []byte(body)))
		return
	}
	if ends, ok := g.settings["line-ends"]; ok {
		// Raw carriage returns would not survive in a text file under version control.
		body = strings.ReplaceAll(body, "\n", map[string]string{"crlf": "\r\n", "cr": "\r"}[ends])
	}
	if g.has("events") {
		for name, reader := range map[string]func(string) io.Reader{
			"whole":        func(s string) io.Reader { return strings.NewReader(s) },
			"byte by byte": func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
			"halves":       func(s string) io.Reader { return iotest.HalfReader(strings.NewReader(s)) },
		} {
			t.Run(name, func(t *testing.T) {
				g.checkEvents(t, adapter.Events(req, reader(body)))
			})
		}
		return
	}
	var reply dialect.Reply
	if err := adapter.Reply(req, dialect.Answer{ContentType: contentType, Body: []byte(body)}, &reply); err != nil {
		g.checkError(t, err)
		return
	}
	if g.has("error") {
		t.Fatalf("the answer was translated, want the error %q", g.section("error"))
	}
	got := bytes.Join(reply.Segments, nil)
	if reply.ContentType != "" {
		if string(got) != g.sections["reply"] && string(got) != g.section("reply") {
			t.Errorf("reply %q, want %q", got, g.sections["reply"])
		}
	} else {
		same(t, "reply", string(got), g.section("reply"))
	}
	g.checkUsage(t, reply.Usage)
}

func (g golden) checkError(t *testing.T, err error) {
	t.Helper()
	want := g.section("error")
	text := err.Error()
	var failure *dialect.Failure
	if errors.As(err, &failure) {
		text += ": " + failure.Message
	}
	if !g.has("error") {
		t.Fatalf("unexpected error: %v", text)
	}
	if !strings.Contains(text, want) {
		t.Errorf("error %q, want %q in it", text, want)
	}
}

func (g golden) checkSent(t *testing.T, call *wire.Call) {
	t.Helper()
	head, body, _ := strings.Cut(g.section("sent"), "\n\n")
	lines := strings.Split(head, "\n")
	if got := call.Method + " " + call.Path; got != lines[0] {
		t.Errorf("sent to %s, want %s", got, lines[0])
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if got := headerOf(call, name); got != value {
			t.Errorf("header %s = %q, want %q", name, got, value)
		}
	}
	sent := string(bytes.Join(call.Body, nil))
	if call.Upload != nil {
		data, err := io.ReadAll(call.Upload.Open())
		if err != nil || int64(len(data)) != call.Upload.Length {
			t.Fatalf("upload of %d bytes, promised %d (%v)", len(data), call.Upload.Length, err)
		}
		_, boundary, _ := strings.Cut(headerOf(call, "Content-Type"), "boundary=")
		sent = strings.ReplaceAll(strings.ReplaceAll(string(data), boundary, "BOUNDARY"), "\r\n", "\n")
		if strings.TrimSpace(sent) != strings.TrimSpace(body) {
			t.Errorf("form sent:\n%s\nwant:\n%s", sent, body)
		}
		return
	}
	if body != "" {
		same(t, "sent", sent, body)
	}
}

func headerOf(call *wire.Call, name string) string {
	for _, h := range call.Header {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

func (g golden) checkEvents(t *testing.T, stream *dialect.Stream) {
	t.Helper()
	want := strings.Split(g.section("events"), "\n")
	events := stream.Events
	if stream.IsComplete != nil {
		events = &unframed{Events: events, t: t, isLines: stream.ContentType == "application/x-ndjson"}
	}
	for i := 0; ; i++ {
		data, err := events.Next()
		if i >= len(want) {
			t.Fatalf("event %d was not expected: %s (%v)", i, data, err)
		}
		switch fault, isError := strings.CutPrefix(want[i], "error: "); {
		case want[i] == "[DONE]":
			if !errors.Is(err, io.EOF) {
				t.Fatalf("event %d: %s (%v), want the end", i, data, err)
			}
			g.checkUsage(t, events.Usage())
			return
		case isError:
			if err == nil || !strings.Contains(err.Error()+failureText(err), fault) {
				t.Fatalf("event %d: %s (%v), want the error %q", i, data, err, fault)
			}
			g.checkUsage(t, events.Usage())
			return
		case err != nil:
			t.Fatalf("event %d: %v%s, want %s", i, err, failureText(err), want[i])
		}
		same(t, fmt.Sprintf("event %d", i), string(data), want[i])
	}
}

// unframed returns the data of one event at a time from a stream that has them in
// frames.
type unframed struct {
	dialect.Events
	t     *testing.T
	after []string
	// isLines says that each line is an event, without a frame.
	isLines bool
}

func (u *unframed) Next() ([]byte, error) {
	for len(u.after) == 0 {
		frames, err := u.Events.Next()
		if err != nil {
			return nil, err
		}
		end := "\n\n"
		if u.isLines {
			end = "\n"
		}
		u.after = strings.SplitAfter(string(frames), end)
		u.after = u.after[:len(u.after)-1]
	}
	if u.isLines {
		line := u.after[0]
		u.after = u.after[1:]
		return []byte(line), nil
	}
	if data, isBare := strings.CutPrefix(u.after[0], "data: "); isBare { // as Gemini's events are
		u.after = u.after[1:]
		return []byte(strings.TrimSuffix(data, "\n\n")), nil
	}
	head, data, ok := strings.Cut(u.after[0], "\ndata: ")
	u.after = u.after[1:]
	data, closed := strings.CutSuffix(data, "\n\n")
	if name := strings.TrimPrefix(head, "event: "); !ok || !closed || strings.Contains(data, "\n") || !strings.HasPrefix(data, `{"type":"`+name+`"`) {
		u.t.Errorf("%q and %q are no event of the door", head, data)
	}
	return []byte(data), nil
}

func failureText(err error) string {
	var failure *dialect.Failure
	if errors.As(err, &failure) {
		return ": " + failure.Message
	}
	return ""
}

func (g golden) checkUsage(t *testing.T, got schema.Usage) {
	t.Helper()
	if !g.has("usage") {
		return
	}
	text := "unknown"
	if got.Known {
		text = fmt.Sprintf("%d %d %d", got.Prompt, got.Completion, got.Total)
	}
	if want := g.section("usage"); text != want {
		t.Errorf("usage %s, want %s", text, want)
	}
}

// same compares two JSON texts as values; "<any>" in the wanted one matches
// whatever stands in its place. Numbers are compared by their digits.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	digits := json.WithUnmarshalers(json.UnmarshalFromFunc(func(from *jsontext.Decoder, to *any) error {
		if from.PeekKind() != '0' {
			return errors.ErrUnsupported
		}
		number, err := from.ReadValue()
		*to = number.Clone()
		return err
	}))
	var a, b any
	if err := json.Unmarshal([]byte(got), &a, digits); err != nil {
		t.Fatalf("%s is no JSON: %v\n%s", what, err, got)
	}
	if err := json.Unmarshal([]byte(want), &b, digits); err != nil {
		t.Fatalf("the wanted %s is no JSON: %v\n%s", what, err, want)
	}
	if diff := cmp.Diff(b, a, cmp.FilterValues(func(x, y any) bool { return x == "<any>" || y == "<any>" }, cmp.Ignore())); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}
