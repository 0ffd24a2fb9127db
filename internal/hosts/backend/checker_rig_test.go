package backend

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network is a network in memory, so that the fake clock can run. A host that
// was not given an answer refuses connections.
type network struct {
	mu      sync.Mutex
	answers map[string]func(*http.Request) string
	asked   map[string][]probeSeen
	dials   int
	open    int
	peak    int // of open connections
}

// probeSeen is one request, or one connection without a request.
type probeSeen struct {
	at     time.Time
	method string
	path   string
	header http.Header
}

// Answers of a host. An empty one never comes.
const (
	sayOK      = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
	sayBroken  = "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	sayLoading = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 75\r\n\r\n" +
		`{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`
	sayNothing = ""
)

func newNetwork() *network {
	return &network{answers: map[string]func(*http.Request) string{}, asked: map[string][]probeSeen{}}
}

// set makes a host answer every request alike; down makes it refuse.
func (n *network) set(addr, answer string) {
	n.answer(addr, func(*http.Request) string { return answer })
}

func (n *network) answer(addr string, f func(*http.Request) string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[addr] = f
}

func (n *network) down(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.answers, addr)
}

func (n *network) seen(addr string) []probeSeen {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]probeSeen(nil), n.asked[addr]...)
}

func (n *network) note(addr string, p probeSeen) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.at = time.Now()
	n.asked[addr] = append(n.asked[addr], p)
}

func (n *network) dial(_ context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials++
	if n.answers[addr] == nil {
		n.asked[addr] = append(n.asked[addr], probeSeen{at: time.Now()})
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	n.open++
	n.peak = max(n.peak, n.open)
	ours, theirs := net.Pipe()
	go n.serve(addr, theirs)
	return &counted{Conn: ours, network: n}, nil
}

// counted is a connection that the network counts until we close it.
type counted struct {
	net.Conn
	network *network
	once    sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.network.mu.Lock()
		c.network.open--
		c.network.mu.Unlock()
	})
	return c.Conn.Close()
}

func (n *network) serve(addr string, conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	request, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	n.note(addr, probeSeen{method: request.Method, path: request.URL.RequestURI(), header: request.Header})
	n.mu.Lock()
	answer := n.answers[addr]
	n.mu.Unlock()
	if answer == nil {
		return
	}
	if text := answer(request); text != sayNothing {
		_, _ = io.WriteString(conn, text)
		return // every answer says that it is the last on its connection
	}
	_, _ = in.ReadByte()
}

// watched is what a checker watches.
type watched struct {
	t        *testing.T
	mu       sync.Mutex
	list     []*Instance
	settings HealthSettings
	own      map[string]HealthSettings // of instances, by name, in place of settings
	health   map[*State]*Health
	log      bytes.Buffer
	lines    chan string
}

func newWatched(t *testing.T) *watched {
	return &watched{t: t, settings: DefaultHealthSettings(), health: map[*State]*Health{}, lines: make(chan string, 1000)}
}

func makeInstance(t testing.TB, kind, name, baseURL string, state *State, change func(*Settings)) *Instance {
	t.Helper()
	s := DefaultSettings()
	s.Name, s.BaseURL, s.Adapter = name, baseURL, kind
	if change != nil {
		change(&s)
	}
	service := schema.Chat
	if kind == "cohere" || kind == "jina" || kind == "tei" {
		service = schema.Rerank
	}
	i, err := New(s, service, Policy{Breaker: breaker.DefaultSettings(), Limit: ratelimit.DefaultSettings()}, state, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// add adds an instance of vLLM and returns it.
func (f *watched) add(name, baseURL string) *Instance {
	f.t.Helper()
	i := makeInstance(f.t, "vllm", name, baseURL, nil, nil)
	f.set(append(f.source(), i)...)
	return i
}

func (f *watched) set(list ...*Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = list
}

func (f *watched) source() []*Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*Instance(nil), f.list...)
}

func (f *watched) watch(change func(*HealthSettings)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.settings)
}

func (f *watched) of(i *Instance) *Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.health[i.State]
	if h == nil {
		h = new(Health)
		f.health[i.State] = h
	}
	return h
}

func (f *watched) status(i *Instance) Status { return f.of(i).Snapshot().Status }

func (f *watched) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines <- string(p)
	return f.log.Write(p)
}

// await waits for the next line of the log, which must end in what is given.
func (f *watched) await(end string) {
	f.t.Helper()
	select {
	case line := <-f.lines:
		if !strings.HasSuffix(line, end+"\n") {
			f.t.Fatalf("%q does not end in %q", line, end)
		}
	case <-time.After(waittest.Limit):
		f.t.Fatalf("no line for %q", end)
	}
}

func (f *watched) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

func (f *watched) options(client *transport.Client) CheckerOptions {
	return CheckerOptions{
		Source: f.source,
		Settings: func(i *Instance) HealthSettings {
			f.mu.Lock()
			defer f.mu.Unlock()
			if own, ok := f.own[i.Settings.Name]; ok {
				return own
			}
			return f.settings
		},
		Health: f.of,
		Client: client,
		Log: slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{
			Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})),
	}
}

// inBubble runs a checker on the fake clock and a network in memory.
func inBubble(t *testing.T, script func(*testing.T, *watched, *network)) {
	synctest.Test(t, func(t *testing.T) {
		f, n := newWatched(t), newNetwork()
		client := transport.New(transport.Options{Dial: n.dial})
		options := f.options(client)
		options.Connect = func(ctx context.Context, to transport.Origin) error {
			conn, err := n.dial(ctx, "tcp", to.Addr())
			if err == nil {
				n.note(to.Addr(), probeSeen{})
				conn.Close()
			}
			return err
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			NewChecker(options).Run(ctx)
			close(ended)
		}()
		script(t, f, n)
		stop()
		<-ended
		client.Close()
	})
}

// pass lets fake time pass and everything that is then due happen.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the time of a synctest bubble
	synctest.Wait()
}
