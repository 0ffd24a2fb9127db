// Package socket is the part of the unified API that is spoken over WebSockets. It decides
// who may open one, how long it stays, and how its messages become requests that pass
// through the gateway like any other, each by itself.
package socket

import (
	"bufio"
	"context"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
	"github.com/patchbay-ai/patchbay/internal/wings/realtime/sockets"
)

// Doors are the endpoints that are spoken to over a WebSocket.
type Doors struct {
	options Options
	bounds  atomic.Pointer[sockets.Settings]
	handler atomic.Pointer[http.Handler]
	open    sockets.Counter
	// stopping is closed when the gateway stops.
	stopping chan struct{}
	stop     sync.Once
}

// Options are the parts that the doors depend on.
type Options struct {
	Current *routing.Current
	// Keys decides who may open a WebSocket, and who may keep it.
	Keys access.Callers
	// TrustedProxies are the proxies with a believed X-Forwarded-For.
	TrustedProxies []netip.Prefix
	// Memory reports whether there is memory for more, and has the room for messages.
	Memory *memory.Watch
	// Proxy finds instances for lines to them, and Recorder records the requests on a line.
	Proxy    *proxy.Proxy
	Recorder *calls.Recorder
	Log      *slog.Logger
}

// New returns the doors. They answer nothing before ServeWith.
func New(options Options) *Doors {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &Doors{options: options, stopping: make(chan struct{})}
}

// ServeWith sets the handler for requests that come as messages: the same that answers
// requests of HTTP.
func (d *Doors) ServeWith(handler http.Handler) { d.handler.Store(&handler) }

// set puts the bounds of a configuration in force.
func (d *Doors) set(doc *config.Document) { d.bounds.Store(new(doc.Limits.WebSockets)) }

// Stop ends every WebSocket, once the requests on it have ended.
func (d *Doors) Stop() { d.stop.Do(func() { close(d.stopping) }) }

// Count returns how many WebSockets are open.
func (d *Doors) Count() int { return d.open.Count() }

// isStopping reports whether Stop was called.
func (d *Doors) isStopping() bool {
	select {
	case <-d.stopping:
		return true
	default:
		return false
	}
}

// Routes returns the operations.
func (d *Doors) Routes() []web.Route {
	realtime := v1.RoutesOf(http.MethodGet, realtimePath, d.Realtime, web.Route{
		Summary: "The Realtime API over a WebSocket to a backend that has it; messages pass both ways, and every " +
			"response is limited and counted by itself",
		Query: realtimeQuery{}, Status: http.StatusSwitchingProtocols, Media: map[string]any{},
		Errors: []int{http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUpgradeRequired,
			http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout},
	}, "/realtime")
	return append(realtime, v1.RoutesOf(http.MethodGet, "/v1/responses", d.Responses, web.Route{
		Summary: "The Responses API over a WebSocket: every message of the client is a response.create, whose " +
			"members are those of a request, and every message of the server an event of a stream",
		Status: http.StatusSwitchingProtocols, Media: map[string]any{},
		Errors: []int{http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUpgradeRequired},
	}, "/responses")...)
}

type realtimeQuery struct {
	Model  string `json:"model" required:"true" doc:"The name of the model."`
	Intent string `json:"intent" doc:"Passed on, such as transcription."`
}

// Responses answers GET /v1/responses.
func (d *Doors) Responses(w http.ResponseWriter, r *http.Request) {
	if !asksForSocket(r) {
		const allow = "POST, OPTIONS"
		w.Header().Set("Allow", allow)
		v1.WrongMethod(w, r, allow)
		return
	}
	visitor, refusal := d.admit(w, r)
	if refusal != nil {
		web.RecordOf(w).Code = refusal.Code
		v1.Fail(w, r, refusal)
		return
	}
	defer d.open.Close(visitor.holder)
	s := newSession(d, r, visitor)
	defer s.memory.Close()
	carrier := &hijacked{ResponseWriter: w}
	conn, err := websocket.Accept(carrier, r, &websocket.AcceptOptions{InsecureSkipVerify: true,
		OnPingReceived: s.pinged})
	if err != nil { // the client has left
		d.options.Log.Debug("a WebSocket was not opened", "request_id", s.id, "error", err)
		return
	}
	s.run(conn, carrier.conn, web.RecordOf(w).RequestID)
}

// hijacked remembers the connection below a WebSocket. Closing the WebSocket reads the rest of a
// message that was not read to its end, for as long as that takes, and only the end of the
// connection ends it.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack gives the connection to the WebSocket.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = conn
	return conn, buffered, err
}

// visitor is who opens a WebSocket.
type visitor struct {
	addr  netip.Addr
	grant *access.Grant
	// holder is the owner that the connection counts for.
	holder string
}

// admit decides whether a WebSocket may be opened, and counts it if so.
func (d *Doors) admit(w http.ResponseWriter, r *http.Request) (visitor, *schema.Error) {
	who := visitor{addr: web.ClientAddr(r, d.options.TrustedProxies)}
	settings := *d.bounds.Load()
	switch {
	case settings.Connections == 0:
		off := schema.CodedError(schema.CodeMethodNotAllowed, "socket.off")
		off.Status = http.StatusUpgradeRequired // tells clients to use HTTP
		return who, off
	case d.isStopping():
		return who, proxy.Stopping()
	case d.options.Memory != nil && d.options.Memory.Short():
		return who, overloaded(say.New("call.overloaded"))
	}
	if fault := handshakeFault(r.Header); fault.Is() {
		w.Header().Set("Sec-WebSocket-Version", "13")
		return who, schema.NewError(schema.CodeInvalidHTTP, fault)
	}
	if !web.MayRead(w.Header(), r) {
		return who, schema.CodedError(schema.CodePermissionDenied, "socket.origin")
	}
	var refusal *schema.Error
	if who.grant, refusal = d.options.Keys.Identify(r.Header, who.addr); refusal != nil {
		return who, refusal
	}
	who.holder = holderOf(who.grant, who.addr)
	switch d.open.Open(who.holder, settings) {
	case sockets.HolderFull:
		known := schema.CodedError(schema.CodeNoSlot, "socket.caller_full")
		known.RetryAfter = time.Second
		return who, known
	case sockets.Full:
		return who, overloaded(say.New("socket.all_full"))
	}
	return who, nil
}

// holderOf returns the owner of a WebSocket: the key or, without one, the address.
func holderOf(grant *access.Grant, addr netip.Addr) string {
	if grant != nil {
		return "key " + grant.ID
	}
	return addr.String()
}

func overloaded(said say.Sentence) *schema.Error {
	known := schema.NewError(schema.CodeOverloaded, said)
	known.RetryAfter = time.Second
	return known
}

// asksForSocket reports whether a request asks for a WebSocket.
func asksForSocket(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ProtoMinor >= 1 && hasToken(r.Header["Connection"], "upgrade") &&
		hasToken(r.Header["Upgrade"], "websocket")
}

// hasToken reports whether one of the lists of tokens has this one, in any case.
func hasToken(lists []string, token string) bool {
	for _, list := range lists {
		for one := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(one), token) {
				return true
			}
		}
	}
	return false
}

// handshakeFault returns the fault of the head that asks for a WebSocket; empty if there is
// none.
func handshakeFault(header http.Header) say.Sentence {
	const nonce = 16 // bytes of it
	key := header["Sec-Websocket-Key"]
	switch {
	case web.FirstOf(header, "Sec-Websocket-Version") != "13":
		return say.New("socket.version")
	case len(key) != 1:
		return say.New("socket.one_key")
	}
	if value, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key[0])); err != nil || len(value) != nonce {
		return say.New("socket.key")
	}
	return say.Sentence{}
}

// headerOf returns the headers of the requests that come over a WebSocket: the headers of
// its opening, without those about the connection.
func headerOf(opened http.Header) http.Header {
	header := opened.Clone()
	for _, name := range [...]string{
		"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions",
		"Sec-Websocket-Protocol",
		"Content-Length", "Content-Encoding", "Transfer-Encoding", "Te", "Trailer", "Expect", "X-Request-Id",
		"X-Stainless-Retry-Count",
	} {
		delete(header, name)
	}
	if strings.HasPrefix(web.FirstOf(header, "Openai-Beta"), "responses_websockets=") {
		delete(header, "Openai-Beta") // it is about this connection, and a backend is asked over another
	}
	header["Content-Type"] = []string{proxy.TypeJSON}
	return header
}

// requestFor returns the request that a message is.
func requestFor(ctx context.Context, opened *http.Request, header http.Header) *http.Request {
	request := opened.WithContext(ctx)
	request.Method, request.Header = http.MethodPost, header
	request.URL = &url.URL{Path: opened.URL.Path, RawQuery: opened.URL.RawQuery}
	return request
}
