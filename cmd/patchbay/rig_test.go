package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/logs"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// rig is a running gateway and a client of it.
type rig struct {
	*gateway.Gateway
	t      *testing.T
	url    string
	logs   *lockedBuffer
	client *http.Client
}

// setup is what a rig is started with; the zero value is a gateway that was
// told nothing.
type setup struct {
	yaml      string
	dataDir   string
	keepAlive time.Duration
	headTime  time.Duration // in place of the time that a head may take
	fromFile  bool          // the configuration counts as one of a file
}

// startGateway starts a gateway with this configuration on a port of its own.
func startGateway(t *testing.T, yaml string) *rig {
	t.Helper()
	return startWith(t, setup{yaml: yaml})
}

func startWith(t *testing.T, s setup) *rig {
	t.Helper()
	if s.dataDir == "" {
		s.dataDir = t.TempDir()
	}
	out := new(lockedBuffer)
	log := logs.New(out, logs.JSON, slog.LevelDebug)
	g, err := gateway.New(loadDocument(t, s.yaml, s.dataDir), log, gateway.Options{KeepAlive: s.keepAlive, FromFile: s.fromFile})
	if err != nil {
		t.Fatal(err)
	}
	if s.headTime > 0 {
		g.Server.ReadHeaderTimeout = s.headTime
	}
	g.Start()
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000}
	r := &rig{Gateway: g, t: t, url: "http://" + g.Address(), logs: out, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		r.halt()
		if t.Failed() {
			t.Logf("the log of the gateway:\n%s", out.String())
		}
	})
	return r
}

// halt stops the gateway; requests that still run are ended, not waited for.
func (r *rig) halt() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.Stop(ctx)
}

// loadDocument makes a configuration of a file's content.
func loadDocument(t *testing.T, yaml, dataDir string) *config.Document {
	t.Helper()
	loaded, err := config.Load(config.Source{
		File: "test.yaml", Content: []byte(yaml), KnownAdapter: kinds.Check,
		Set: []string{"server.listen='127.0.0.1:0'", "server.data-dir=" + quoteYAML(dataDir)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Document
}

// chatYAML is a configuration whose chat service has these instances. Breakers
// and health checks stay out of tests that are not about them.
func chatYAML(instances ...string) string {
	return "services: {chat: {circuit-breaker: {enabled: false}, health-check: {enabled: false}, instances: [\n  " +
		strings.Join(instances, ",\n  ") + "]}}\n"
}

// instance describes one instance; more are further settings as YAML.
func instance(model, url string, more ...string) string {
	return "{" + strings.Join(append([]string{"name: " + quoteYAML(model), "base-url: " + quoteYAML(url)}, more...), ", ") + "}"
}

// poolYAML is a configuration in which backends serve the model m.
func poolYAML(backends ...*simulator.Backend) string {
	var list []string
	for _, b := range backends {
		list = append(list, instance("m", b.URL()))
	}
	return chatYAML(list...)
}

// startBackend starts a simulated backend that keeps the bodies it gets.
func startBackend(t *testing.T, steps ...simulator.Step) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{Record: true, BodyCap: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	b.Script(steps...)
	return b
}

// startOne starts a gateway with one backend that serves the model m.
func startOne(t *testing.T, steps ...simulator.Step) (*rig, *simulator.Backend) {
	t.Helper()
	b := startBackend(t, steps...)
	return startGateway(t, poolYAML(b)), b
}

// Bodies of requests for the model m.
const (
	plainHi  = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	streamHi = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// reply is what a client saw of an answer.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // how reading the body ended, if not well
	closes bool  // the connection ends with this answer
}

// chat posts a chat request; headers are pairs of name and value.
func (r *rig) chat(body string, headers ...string) reply {
	r.t.Helper()
	return r.do(http.MethodPost, "/v1/chat/completions", body, headers...)
}

func (r *rig) do(method, path, body string, headers ...string) reply {
	r.t.Helper()
	response := r.open(deadline(r.t), method, path, body, headers...)
	return drain(response)
}

// drain reads an answer to its end.
func drain(response *http.Response) reply {
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(content), err, response.Close}
}

// open sends a request and returns when the head of the answer is there.
func (r *rig) open(ctx context.Context, method, path, body string, headers ...string) *http.Response {
	r.t.Helper()
	response, err := r.client.Do(r.request(ctx, method, path, body, headers...))
	if err != nil {
		r.t.Fatal(err)
	}
	return response
}

func (r *rig) request(ctx context.Context, method, path, body string, headers ...string) *http.Request {
	r.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, reader)
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

// stream posts a chat request and returns its events as they come. The answer
// must be a stream.
func (r *rig) stream(ctx context.Context, body string) *eventReader {
	r.t.Helper()
	response := r.open(ctx, http.MethodPost, "/v1/chat/completions", body)
	r.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		content, _ := io.ReadAll(response.Body)
		r.t.Fatalf("no stream: %d %v %s", response.StatusCode, response.Header, content)
	}
	return &eventReader{bufio.NewReaderSize(response.Body, 8<<20)}
}

// eventReader takes a stream apart as strictly as the contract writes it: every
// event is one line "data: ..." and an empty line, comments stand alone.
type eventReader struct{ from *bufio.Reader }

// next returns the data of the next event, or a comment with its colon.
func (e *eventReader) next() (string, error) {
	line, err := e.from.ReadString('\n')
	if err != nil {
		if line != "" {
			err = fmt.Errorf("half a line %q: %w", line, err)
		}
		return "", err
	}
	empty, err := e.from.ReadString('\n')
	if err != nil || empty != "\n" {
		return "", fmt.Errorf("after %q came %q: %w", line, empty, err)
	}
	line = strings.TrimSuffix(line, "\n")
	if data, ok := strings.CutPrefix(line, "data: "); ok {
		return data, nil
	}
	if strings.HasPrefix(line, ":") {
		return line, nil
	}
	return "", fmt.Errorf("neither event nor comment: %q", line)
}

// rest returns what is left of the stream, and how it ended if not cleanly.
func (e *eventReader) rest() (events []string, err error) {
	for {
		event, err := e.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, event)
	}
}

// eventsOf takes the body of a stream apart.
func eventsOf(t *testing.T, body string) []string {
	t.Helper()
	events, err := (&eventReader{bufio.NewReader(strings.NewReader(body))}).rest()
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// chunk is the part of a chunk that tests look at.
type chunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Role      string           `json:"role"`
			Content   string           `json:"content"`
			ToolCalls []jsontext.Value `json:"tool_calls"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage jsontext.Value `json:"usage"`
}

func decodeChunk(t *testing.T, event string) chunk {
	t.Helper()
	var c chunk
	if err := json.Unmarshal([]byte(event), &c); err != nil {
		t.Fatalf("%v in event %s", err, event)
	}
	return c
}

// textOf joins what the chunks among the events say.
func textOf(t *testing.T, events []string) string {
	t.Helper()
	var text strings.Builder
	for _, event := range events {
		if !strings.HasPrefix(event, "{") || strings.HasPrefix(event, `{"error"`) {
			continue
		}
		for _, choice := range decodeChunk(t, event).Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	return text.String()
}

// apiFault is the error body of the unified API.
type apiFault struct {
	Message string
	Type    string
	Param   string // empty for null
	Code    string
	Details jsontext.Value
}

// faultOf reads an error body and checks that it has the standard shape.
func faultOf(t *testing.T, body string) apiFault {
	t.Helper()
	var outer map[string]jsontext.Value
	if err := json.Unmarshal([]byte(body), &outer); err != nil || len(outer) != 1 || outer["error"] == nil {
		t.Fatalf("no error body (%v): %q", err, body)
	}
	var fields map[string]jsontext.Value
	if err := json.Unmarshal(outer["error"], &fields); err != nil {
		t.Fatalf("no error object: %s", body)
	}
	text := func(name string) (s string) {
		if err := json.Unmarshal(fields[name], &s); err != nil {
			t.Errorf("error.%s is no string: %s", name, body)
		}
		return s
	}
	fault := apiFault{Message: text("message"), Type: text("type"), Code: text("code"), Details: fields["details"]}
	if string(fields["param"]) != "null" {
		fault.Param = text("param")
	}
	if fault.Message == "" || fault.Type == "" || fault.Code == "" {
		t.Errorf("an error body without a message, type or code: %s", body)
	}
	for name := range fields {
		if !strings.Contains(" message type param code details ", " "+name+" ") {
			t.Errorf("the error body has a member %s: %s", name, body)
		}
	}
	return fault
}

// failsWith checks status, type, code and param of an answer, and what every
// error has. It returns the error.
func (a reply) failsWith(t *testing.T, status int, kind, code, param string) apiFault {
	t.Helper()
	if a.err != nil {
		t.Errorf("reading the answer: %v", a.err)
	}
	if a.status != status {
		t.Errorf("status %d, want %d: %s", a.status, status, a.body)
	}
	if a.header.Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type %q", a.header.Get("Content-Type"))
	}
	if a.header.Get("X-Request-Id") == "" {
		t.Error("no x-request-id")
	}
	fault := faultOf(t, a.body)
	if fault.Type != kind || fault.Code != code || fault.Param != param {
		t.Errorf("type %q, code %q, param %q, want %q, %q, %q: %s", fault.Type, fault.Code, fault.Param, kind, code, param, a.body)
	}
	return fault
}

// succeeds checks that an answer is a good one.
func (a reply) succeeds(t *testing.T) reply {
	t.Helper()
	if a.status != http.StatusOK || a.err != nil {
		t.Fatalf("status %d, %v: %s", a.status, a.err, a.body)
	}
	return a
}

// instances returns the chat instances of the model in force, in their order.
func (r *rig) instances(model string) []*backend.Instance {
	r.t.Helper()
	pool := r.Current.Load().Service(schema.Chat).Find(model)
	if pool == nil {
		r.t.Fatalf("nobody serves %s", model)
	}
	return pool.Instances
}

// outcomes returns how the calls of an instance ended so far.
func outcomes(i *backend.Instance) (success, failure, cancelled int64) {
	return i.Ended(breaker.Success), i.Ended(breaker.Failure), i.Ended(breaker.Cancelled)
}

// onlyRequest returns the one request that a backend got.
func onlyRequest(t *testing.T, b *simulator.Backend) simulator.Request {
	t.Helper()
	requests := b.Requests()
	if len(requests) != 1 {
		t.Fatalf("the backend got %d requests, want 1", len(requests))
	}
	return requests[0]
}

// dialRaw opens a bare connection to the gateway.
func (r *rig) dialRaw() net.Conn {
	r.t.Helper()
	conn, err := new(net.Dialer).DialContext(deadline(r.t), "tcp", r.Address())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(within))
	return conn
}

// sendRaw writes bytes to a fresh connection and reads one answer.
func (r *rig) sendRaw(request string) reply {
	r.t.Helper()
	conn := r.dialRaw()
	if _, err := io.WriteString(conn, request); err != nil {
		r.t.Fatal(err)
	}
	return readRaw(r.t, bufio.NewReader(conn), http.MethodPost)
}

// readRaw reads one answer from a connection.
func readRaw(t *testing.T, from *bufio.Reader, method string) reply {
	t.Helper()
	response, err := http.ReadResponse(from, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return drain(response)
}

// lockedBuffer collects a log.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// gate is a backend whose streams say one event, wait to be told, and then
// complete: what is between two events is in the hands of the test.
type gate struct {
	url     string
	server  *http.Server
	entered chan string   // the request id of each stream whose first event is out
	open    chan struct{} // a token lets one stream complete; closed lets all
	echo    bool          // the end of a stream says the id of its request
}

const (
	gateFirst = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"first"},"finish_reason":null}]}`
	gateLast  = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" last"},"finish_reason":"stop"}]}`
)

func startGate(t *testing.T) *gate {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(deadline(t), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{url: "http://" + listener.Addr().String(), entered: make(chan string, 1000), open: make(chan struct{})}
	g.server = &http.Server{ReadHeaderTimeout: within, Handler: http.HandlerFunc(g.answer)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = g.server.Close()
		<-done
	})
	return g
}

func (g *gate) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", gateFirst)
	_ = http.NewResponseController(w).Flush()
	g.entered <- r.Header.Get("X-Request-Id")
	select {
	case <-g.open:
		last := gateLast
		if g.echo {
			last = strings.Replace(last, " last", " "+r.Header.Get("X-Request-Id"), 1)
		}
		fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", last)
	case <-r.Context().Done():
	}
}

// countLines returns how many lines of a log have all these parts.
func countLines(log string, parts ...string) int {
	count := 0
next:
	for line := range strings.Lines(log) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		count++
	}
	return count
}
