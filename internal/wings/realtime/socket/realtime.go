package socket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	backendreply "github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
)

// realtimePath is the path of the Realtime API.
const realtimePath = "/v1/realtime"

// Realtime answers GET /v1/realtime: it opens a WebSocket to an instance, and passes on the
// messages of both sides.
func (d *Doors) Realtime(w http.ResponseWriter, r *http.Request) {
	protocols := takeProtocolKey(r.Header)
	line, refusal := d.openRelay(w, r, protocols)
	if line != nil {
		defer d.open.Close(line.who.holder)
	}
	var err error
	if refusal != nil {
		err = refusal
	} else {
		err = line.hold(w, r)
	}
	if err == nil || line != nil && line.accepted {
		return
	}
	var known *schema.Error
	if !errors.As(err, &known) {
		if r.Context().Err() != nil && !errors.Is(err, web.ErrStopping) {
			panic(http.ErrAbortHandler) // the client has left
		}
		known = proxy.Stopping()
	}
	record := web.RecordOf(w)
	record.Unified, record.Service, record.Door, record.Route = true, schema.DoorRealtime.Service(),
		schema.DoorRealtime, realtimePath
	record.Tell(known)
	v1.Fail(w, r, known)
}

// keyProtocol begins the name of a protocol that pages offer, because they cannot set
// headers: the rest of it is the key.
const keyProtocol = "openai-insecure-api-key."

// takeProtocolKey moves the key from the protocols that a client offers to the header for
// it, and returns the protocols that a backend may see. Nobody else finds the key there.
func takeProtocolKey(header http.Header) (protocols []string) {
	for _, list := range header["Sec-Websocket-Protocol"] {
		for offered := range strings.SplitSeq(list, ",") {
			offered = strings.TrimSpace(offered)
			key, isKey := strings.CutPrefix(offered, keyProtocol)
			switch {
			case isKey && key != "" && !access.Presents(header):
				header["Authorization"] = []string{"Bearer " + strings.Clone(key)}
			case isKey, offered == "", strings.HasPrefix(offered, "openai-organization."),
				strings.HasPrefix(offered, "openai-project."):
			default:
				protocols = append(protocols, strings.Clone(offered))
			}
		}
	}
	delete(header, "Sec-Websocket-Protocol")
	if len(protocols) > 0 {
		header["Sec-Websocket-Protocol"] = []string{strings.Join(protocols, ", ")}
	}
	return protocols
}

// openRelay decides whether a WebSocket may be opened, and counts it if the relay is not nil.
func (d *Doors) openRelay(w http.ResponseWriter, r *http.Request, protocols []string) (*relay, *schema.Error) {
	if !asksForSocket(r) {
		known := schema.CodedError(schema.CodeMethodNotAllowed, "socket.realtime")
		known.Status = http.StatusUpgradeRequired
		return nil, known
	}
	who, refusal := d.admit(w, r)
	if refusal != nil {
		return nil, refusal
	}
	now := time.Now()
	line := &relay{
		link: link{doors: d, who: who, header: headerOf(r.Header), began: now, used: now,
			quiet: make(chan struct{}, 1)},
		protocols: protocols, lost: make(chan struct{}), looks: make(chan struct{}, 1), query: r.URL.RawQuery,
		turns: turns{running: map[string]*turn{}},
	}
	line.tell, line.onEnd, line.beforeEnd = line.tellError, line.depart, line.settleAll
	query := r.URL.Query()
	line.model, line.isTranscription = query.Get("model"), query.Get("intent") == "transcription"
	line.caller = access.Caller{
		Addr: who.addr, RequestID: web.RecordOf(w).RequestID, Header: line.header,
		Traceparent: web.FirstOf(r.Header, "Traceparent"), Tracestate: web.FirstOf(r.Header, "Tracestate"),
		Hops: strings.Join(r.Header["Cdn-Loop"], ", "),
	}
	if line.model == "" {
		return line, schema.MissingParameter("model")
	}
	opener, err := line.callerWith(who.grant)
	if err == nil {
		line.caller = *opener
	}
	return line, err
}

// callerWith returns the caller of the connection, with the present rights of the key.
func (l *relay) callerWith(grant *access.Grant) (*access.Caller, *schema.Error) {
	caller := l.caller
	caller.Grant, caller.KeyID, caller.Tenant = grant, "", web.FirstOf(l.header, "X-Tenant-Id")
	if grant != nil {
		caller.KeyID, caller.Tenant = grant.ID, grant.Tenant
	}
	var err *schema.Error
	caller.User, err = grant.UserOf(l.header)
	return &caller, err
}

// hold opens the WebSocket at an instance, then that of the client, and relays until one of
// them ends. It first makes sure that a response would be allowed now.
func (l *relay) hold(w http.ResponseWriter, r *http.Request) error {
	asks, err := l.lineOf([]byte("{}"))
	if err != nil {
		return err
	}
	asks.Uncounted = true
	request := &proxy.Request{Asks: asks, Caller: &l.caller, Record: new(calls.Record),
		Table: l.doors.options.Current.Load()}
	request.Record.Started, request.Record.RequestID = time.Now(), l.caller.RequestID
	if err := request.RefuseModel(); err != nil {
		return err
	}
	first, err := l.reserve(r.Context())
	if err != nil {
		return err
	}
	first.giveBack()
	err = l.doors.options.Proxy.Connect(r.Context(), request, &proxy.Link{
		Open: l.dial,
		Serve: func(to *backend.Instance) error {
			tellWait(w, request.Record)
			l.instance, l.served, l.pool = to, request.Model, request.Served()
			route := proxy.Route{Model: l.served, Instance: to, Attempts: request.Record.Attempts}
			if l.model != l.served {
				route.Asked = l.model
			}
			v1.TellServed(w.Header(), &route)
			return l.serve(w, r)
		},
	})
	if !l.accepted {
		tellWait(w, request.Record)
	}
	return err
}

// tellWait tells the client, and the record of the connection, how long it waited for its model.
func tellWait(w http.ResponseWriter, opening *calls.Record) {
	record := web.RecordOf(w)
	record.Queued, record.Held = opening.Queued, opening.Held
	v1.TellWait(w.Header(), opening.Held)
}

// dial asks an instance for a WebSocket.
func (l *relay) dial(ctx context.Context, to *backend.Instance, over net.Conn, call *wire.Call) error {
	header := http.Header{}
	for _, h := range call.Header {
		header.Add(h.Name, h.Value)
	}
	base, err := url.Parse(to.Settings.BaseURL)
	if err != nil {
		return err
	}
	client := outgoing.New(outgoing.Options{Own: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return over, nil
	}})
	//nolint:bodyclose // Dial has read the body and closed it
	conn, response, err := websocket.Dial(ctx, "http://"+base.Host+call.Path, &websocket.DialOptions{
		HTTPClient: &client.Client, HTTPHeader: header, Subprotocols: l.protocols,
	})
	if err == nil {
		conn.SetReadLimit(largestAnswer)
		l.backend, l.belowBackend = conn, over
		return nil
	}
	_ = over.Close()
	if redirect, is := errors.AsType[*outgoing.StatusError](err); is {
		return backendreply.StatusError(redirect.Status, nil)
	}
	if response != nil && response.StatusCode != http.StatusSwitchingProtocols {
		return backendreply.StatusError(response.StatusCode, firstOf(response.Body))
	}
	return err
}

// serve takes the client's side, and relays.
func (l *relay) serve(w http.ResponseWriter, r *http.Request) error {
	carrier := &hijacked{ResponseWriter: w}
	conn, err := websocket.Accept(carrier, r, &websocket.AcceptOptions{InsecureSkipVerify: true,
		Subprotocols: l.protocols})
	l.accepted = true
	if err != nil { // the client has left
		_ = l.backend.CloseNow()
		return nil
	}
	conn.SetReadLimit(largestMessage)
	l.conn, l.below = conn, carrier.conn
	return l.run(r.Context())
}
