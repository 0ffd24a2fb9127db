// Package gatewaytest starts whole gateways for tests: a gateway on a port of its own
// with simulated backends behind it, a client in front of it, and checks of the replies.
// Only tests import it.
package gatewaytest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// Gateway is a running gateway and a client of it.
type Gateway struct {
	*gateway.Gateway
	T      *testing.T
	URL    string
	Logs   *Buffer
	Client *http.Client
	// BackendsLie means that backends give answers that the OpenAPI document does not
	// allow. The replies are then not compared with it.
	BackendsLie bool
	// Credential has the headers with which package pairs asks; nil means those with its key.
	Credential []string

	env []string
}

// Version is the version that a gateway under test reports.
const Version = "test"

// Setup describes the gateway to start; the zero value is a gateway without a
// configuration.
type Setup struct {
	YAML      string
	DataDir   string
	Env       []string // NAME=value
	KeepAlive time.Duration
	HeadTime  time.Duration  // replaces the time limit for a request's head
	FromFile  bool           // the configuration is treated as read from a file
	TLS       *tls.Config    // of the client, where the gateway has server.tls
	HTTP2     bool           // the client asks for it
	Demo      bool           // the gateway says that it is a demo
	Routes    []web.Route    // served in addition to the usual routes
	Steps     []account.Step // run before the usual steps
	Wings     []wing.New     // made in addition to the usual wings
	// AnswerTokens is gateway.Options.AnswerTokens.
	AnswerTokens int64
	// Patience is gateway.Options.Patience; 0 means a time that a slow machine needs.
	Patience time.Duration
}

// Start starts a gateway with this configuration on a port of its own.
func Start(t *testing.T, yaml string) *Gateway {
	t.Helper()
	return StartWith(t, Setup{YAML: yaml})
}

// StartWith is Start with all settings of Setup.
func StartWith(t *testing.T, s Setup) *Gateway {
	t.Helper()
	if s.DataDir == "" {
		s.DataDir = t.TempDir()
	}
	out := new(Buffer)
	log := logs.New(out, logs.JSON, slog.LevelDebug)
	g, err := gateway.New(LoadDocumentWith(t, s.YAML, s.DataDir, s.Env...), log, gateway.Options{
		Build: actuator.Build{Version: Version}, KeepAlive: s.KeepAlive, FromFile: s.FromFile, Demo: s.Demo,
		Routes: s.Routes, Steps: s.Steps, Wings: s.Wings, AnswerTokens: s.AnswerTokens,
		Patience: cmp.Or(s.Patience, 30*time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.HeadTime > 0 {
		g.Ports[0].Options.HeadTime = s.HeadTime
	}
	g.Start()
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000, TLSClientConfig: s.TLS,
		ForceAttemptHTTP2: s.HTTP2}
	r := &Gateway{Gateway: g, T: t, URL: "http://" + g.Address(), Logs: out, env: s.Env}
	if g.Document.Server.TLS.Enabled() {
		r.URL = "https://" + g.Address()
	}
	r.Client = &http.Client{
		Transport:     checkedTransport{transport, r},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		r.Halt()
		if t.Failed() {
			t.Logf("the log of the gateway:\n%s", out.String())
		}
	})
	return r
}

// Halt stops the gateway without waiting for running requests.
func (r *Gateway) Halt() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.Stop(ctx)
}

// ReloadWith lets the gateway read its configuration again, with this content in
// place of its file.
func (r *Gateway) ReloadWith(yaml string) {
	r.Reload(r.T.Context(), func() (*config.Document, error) {
		if strings.TrimSpace(yaml) == "" {
			return nil, gateway.ErrEmptyFile
		}
		return parse(yaml, r.Document.Server.DataDir, r.env...)
	})
}

// Open sends a request and returns when the head of the reply has arrived.
func (r *Gateway) Open(ctx context.Context, method, path, body string, headers ...string) *http.Response {
	r.T.Helper()
	response, err := r.Client.Do(r.Request(ctx, method, path, body, headers...))
	if err != nil {
		r.T.Fatal(err)
	}
	return response
}

// Request makes a request; headers are pairs of name and value.
func (r *Gateway) Request(ctx context.Context, method, path, body string, headers ...string) *http.Request {
	r.T.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.URL+path, reader)
	if err != nil {
		r.T.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

// Do sends a request and reads the whole answer.
func (r *Gateway) Do(method, path, body string, headers ...string) Reply {
	r.T.Helper()
	response := r.Open(Deadline(r.T), method, path, body, headers...)
	defer response.Body.Close()
	return ReadReply(response)
}

// Chat posts a chat request; headers are pairs of name and value.
func (r *Gateway) Chat(body string, headers ...string) Reply {
	r.T.Helper()
	return r.Do(http.MethodPost, "/v1/chat/completions", body, headers...)
}

// Post posts a JSON body.
func (r *Gateway) Post(path, body string) Reply {
	r.T.Helper()
	return r.Do(http.MethodPost, path, body)
}

// PostForm posts a form with these parts in this order.
func (r *Gateway) PostForm(path string, parts ...Part) Reply {
	r.T.Helper()
	var body bytes.Buffer
	contentType := WriteForm(r.T, &body, parts...)
	return r.Do(http.MethodPost, path, body.String(), "Content-Type", contentType)
}

// Stream posts a chat request and returns its events as they come. The answer
// must be a stream.
func (r *Gateway) Stream(ctx context.Context, body string) *EventReader {
	r.T.Helper()
	response := r.Open(ctx, http.MethodPost, "/v1/chat/completions", body)
	r.T.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get(
		"Content-Type") != "text/event-stream; charset=utf-8" {
		content, _ := io.ReadAll(response.Body)
		r.T.Fatalf("no stream: %d %v %s", response.StatusCode, response.Header, content)
	}
	return &EventReader{bufio.NewReaderSize(response.Body, 8<<20)}
}

// ChatLater sends a chat request in the background.
func (r *Gateway) ChatLater(ctx context.Context, body string, headers ...string) <-chan Reply {
	done := make(chan Reply, 1)
	go func() { done <- r.TryChat(ctx, body, headers...) }()
	return done
}

// TryChat is Chat for goroutines beside the test's own: it reports a failure in the reply
// instead of ending the test.
func (r *Gateway) TryChat(ctx context.Context, body string, headers ...string) Reply {
	response, err := r.Client.Do(r.Request(ctx, http.MethodPost, "/v1/chat/completions", body, headers...))
	if err != nil {
		return Reply{Err: err}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return Reply{response.StatusCode, response.Header, string(content), err, response.Close}
}

// ChangeChat changes the chat service while the gateway runs.
func (r *Gateway) ChangeChat(edit func(*config.Service)) {
	r.T.Helper()
	if _, err := r.Control.Apply(r.T.Context(), control.Change{Origin: "test", Summary: "revised"},
		func(doc *config.Document) error {
			chat := doc.Services[schema.Chat]
			edit(&chat)
			doc.Services[schema.Chat] = chat
			return nil
		}); err != nil {
		r.T.Fatal(err)
	}
}

// ChatPool returns the current pool of the chat model m.
func (r *Gateway) ChatPool() *routing.Pool { return r.Current.Load().Service(schema.Chat).Find("m") }

// Instances returns the current chat instances of a model, in their order.
func (r *Gateway) Instances(model string) []*backend.Instance {
	r.T.Helper()
	pool := r.Current.Load().Service(schema.Chat).Find(model)
	if pool == nil {
		r.T.Fatalf("nobody serves %s", model)
	}
	return pool.Instances
}

// Outcomes returns how the calls of an instance ended so far.
func Outcomes(i *backend.Instance) (success, failure, cancelled int64) {
	return i.Ended(breaker.Success), i.Ended(breaker.Failure), i.Ended(breaker.Cancelled)
}

// DialRaw opens a bare connection to the gateway.
func (r *Gateway) DialRaw() net.Conn {
	r.T.Helper()
	conn, err := new(net.Dialer).DialContext(Deadline(r.T), "tcp", r.Address())
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(Timeout))
	return conn
}

// SendRaw writes bytes to a fresh connection and reads one answer.
func (r *Gateway) SendRaw(request string) Reply {
	r.T.Helper()
	conn := r.DialRaw()
	if _, err := io.WriteString(conn, request); err != nil {
		r.T.Fatal(err)
	}
	return ReadRaw(r.T, bufio.NewReader(conn), http.MethodPost)
}

// ReadRaw reads one answer from a connection.
func ReadRaw(t *testing.T, from *bufio.Reader, method string) Reply {
	t.Helper()
	response, err := http.ReadResponse(from, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return ReadReply(response)
}

// PostHead is the head of a chat request on a bare connection, without its end.
const PostHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"

// RawPost is a whole chat request on a bare connection.
func RawPost(body string, headers ...string) string {
	return PostHead + strings.Join(append(headers, fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))), "") + body
}

// Models returns the ids in the reply to GET /v1/models.
func Models(t *testing.T, answer Reply) []string {
	t.Helper()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(answer.Succeeds(t).Body), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, model := range list.Data {
		names = append(names, model.ID)
	}
	return names
}

// Models returns the models that the gateway lists.
func (r *Gateway) Models() []string {
	r.T.Helper()
	return Models(r.T, r.Do(http.MethodGet, "/v1/models", ""))
}
