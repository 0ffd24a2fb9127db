package socket

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/front"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/prices"
	"github.com/patchbay-ai/patchbay/internal/proxy"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/sockets"
)

const (
	// largestMessage is how large a message of a client may be, who sends sound in pieces,
	// and largestAnswer one of a backend.
	largestMessage = 1 << 20
	largestAnswer  = 16 << 20
	// largestRefusal is how much is read of an answer that refuses a WebSocket.
	largestRefusal = 64 << 10
	// lastWords is how long a backend may take to end a response that nobody waits for.
	lastWords = 2 * time.Second
)

// relay is a connection of the Realtime API: what the client says is passed to the backend,
// and what that says to the client. The backend may begin a response at any time, so that
// there is always one for which the limits and budgets have let the client in.
type relay struct {
	doors     *Doors
	who       visitor
	caller    access.Caller
	header    http.Header
	protocols []string
	model     string // the client's name of it
	query     string
	instance  *backend.Instance
	// served is the configured name of the model that serves, and price what it costs.
	served   string
	price    *prices.Price
	began    time.Time
	accepted bool

	client, backend *websocket.Conn
	ctx             context.Context //nolint:containedctx // it lives as long as the connection
	cancel          context.CancelFunc
	working         sync.WaitGroup
	heard           atomic.Int64
	// quiet is sent to when a response has ended.
	quiet chan struct{}

	mu    sync.Mutex
	next  *proxy.Request // the response that is made, or the one after it
	busy  bool           // it is being made
	since time.Time      // when it began
	count int
	used  time.Time
	ended bool
}

// asks returns the request that one response is.
func (l *relay) asks() (*schema.Request, error) {
	req, err := proxy.ReadLine(schema.DoorRealtime, l.model)
	if err != nil {
		return nil, err
	}
	req.Header, req.Query = l.header, l.query
	return req, nil
}

// reserve lets the client in for one more response.
func (l *relay) reserve(ctx context.Context) error {
	asks, err := l.asks()
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.count++
	number := l.count
	l.mu.Unlock()
	record := &calls.Record{
		Started: time.Now(), RequestID: l.caller.RequestID + "." + strconv.Itoa(number), Unified: true, Routed: true,
		Service: asks.Service, Door: asks.Door, Route: realtimePath, KeyID: l.caller.KeyID, Client: l.caller.Addr, Streamed: true,
	}
	request := &proxy.Request{Asks: asks, Caller: &l.caller, Record: record, Table: l.doors.options.Current.Load()}
	request.Find()
	if err := request.Admit(ctx); err != nil {
		request.GiveBack()
		request.End()
		return err
	}
	l.mu.Lock()
	l.next, l.busy = request, false
	l.mu.Unlock()
	return nil
}

// giveBack gives back what was reserved for a response that nobody asked for.
func (l *relay) giveBack() {
	l.mu.Lock()
	request := l.next
	l.next = nil
	l.mu.Unlock()
	if request != nil {
		request.GiveBack()
		request.End()
	}
}

// settle ends the accounts of a response: with what the backend reports of it, or, where it
// broke off, with what is estimated.
func (l *relay) settle(usage schema.Usage, code string) {
	l.mu.Lock()
	request, since := l.next, l.since
	l.next, l.busy, l.used = nil, false, time.Now()
	l.mu.Unlock()
	if request == nil {
		return
	}
	record := request.Record
	request.Model, request.Price = l.served, l.price
	if err := request.Count(l.doors.options.Proxy.Ledger()); err != nil {
		code = codeOf(err)
	}
	request.Settle(usage, code == "", true)
	record.Started, record.Model, record.Usage, record.Status, record.Code = since, request.Model, usage, http.StatusOK, code
	record.Begin(l.instance.ID, l.instance.Kind.Name, since)
	record.Series = l.instance.Series
	record.Ended = time.Since(since)
	request.End()
	l.doors.options.Recorder.Finish(record)
	select {
	case l.quiet <- struct{}{}:
	default:
	}
}

// run relays until one side ends. It returns an error if the backend broke the connection
// off.
func (l *relay) run(opened context.Context) error {
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(opened))
	defer l.cancel()
	defer context.AfterFunc(opened, l.cancel)() // the gateway stops at once
	var broken error
	l.working.Go(func() { broken = l.fromBackend() })
	watch, done := context.WithCancel(l.ctx)
	defer done()
	l.working.Go(func() { l.watch(watch) })
	l.fromClient()
	done()
	l.stopResponse()
	l.cancel()
	l.working.Wait()
	_ = l.client.CloseNow()
	_ = l.backend.CloseNow()
	l.mu.Lock()
	isCut := l.busy
	l.mu.Unlock()
	if isCut {
		l.settle(schema.Usage{}, schema.CodeUpstreamTruncated)
	}
	return broken
}

// stopResponse asks the backend to end the response that it makes for a client who has left,
// and waits a little for it to say what that took.
func (l *relay) stopResponse() {
	l.mu.Lock()
	isBusy := l.busy
	l.ended = true
	l.mu.Unlock()
	if !isBusy || l.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, lastWords)
	defer cancel()
	if l.backend.Write(ctx, websocket.MessageText, []byte(`{"type":"response.cancel"}`)) != nil {
		return
	}
	for isBusy {
		select {
		case <-ctx.Done():
			return
		case <-l.quiet:
		}
		l.mu.Lock()
		isBusy = l.busy
		l.mu.Unlock()
	}
}

// fromClient passes on what the client says.
func (l *relay) fromClient() {
	var doc jsonscan.Document
	for {
		kind, text, err := l.client.Read(l.ctx)
		if err != nil {
			return
		}
		l.heard.Add(1)
		l.touch()
		if kind != websocket.MessageText {
			l.end(websocket.StatusUnsupportedData, "messages are texts")
			return
		}
		if err := doc.Parse(text); err != nil || doc.Root().Kind() != jsonscan.Object {
			l.sendError(schema.NewError(schema.CodeInvalidJSON, "The message is not a valid JSON object."))
			continue
		}
		root := doc.Root()
		if string(root.Get("type").Text()) == createType && l.doors.isStopping() {
			l.sendError(proxy.Stopping())
			continue
		}
		if model := root.Get("session").Get("model"); model.Kind() == jsonscan.String && string(model.Text()) == l.model {
			text = slices.Concat(doc.Splice(nil, []jsonscan.Edit{model.Replace(jsonwrite.AppendText(nil, l.upstreamModel()))})...)
		}
		ctx, cancel := context.WithTimeout(l.ctx, front.Allowance(int64(len(text))))
		err = l.backend.Write(ctx, websocket.MessageText, text)
		cancel()
		if err != nil {
			return
		}
	}
}

// upstreamModel returns the backend's name of the model.
func (l *relay) upstreamModel() string {
	if l.instance.Target.Model != "" {
		return l.instance.Target.Model
	}
	return l.instance.Settings.Name
}

// fromBackend passes on what the backend says, and counts its responses. It returns an error
// if the backend broke the connection off.
func (l *relay) fromBackend() error {
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	for {
		kind, text, err := l.backend.Read(l.ctx)
		if err != nil {
			return l.backendEnded(err)
		}
		l.touch()
		var done jsonscan.Value
		if kind == websocket.MessageText && doc.Parse(text) == nil {
			root := doc.Root()
			switch string(root.Get("type").Text()) {
			case "response.created":
				l.begin()
			case "response.done":
				done = root.Get("response")
			}
			if model := root.Get("session").Get("model"); model.Kind() == jsonscan.String {
				text = slices.Concat(doc.Splice(nil, []jsonscan.Edit{model.Replace(jsonwrite.AppendText(nil, l.model))})...)
			}
		}
		if done.Kind() != jsonscan.Absent {
			code := ""
			switch string(done.Get("status").Text()) {
			case "failed":
				code = schema.CodeUpstreamError
			case "cancelled":
				code = schema.CodeCancelled
			}
			l.begin() // of one that was not announced
			l.settle(schema.ReadUsage(done.Get("usage")), code)
		}
		ctx, cancel := context.WithTimeout(l.ctx, front.Allowance(int64(len(text))))
		err = l.client.Write(ctx, kind, text)
		cancel()
		if done.Kind() == jsonscan.Absent || err != nil {
			continue // whether the client is there its own reader knows
		}
		if err := l.reserve(l.ctx); err != nil {
			l.sendError(err)
			l.end(websocket.StatusPolicyViolation, codeOf(err))
		}
	}
}

// backendEnded ends the client's connection as the backend ended its own.
func (l *relay) backendEnded(err error) error {
	if l.ctx.Err() != nil {
		return nil
	}
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		l.end(closed.Code, closed.Reason)
		return nil
	}
	l.sendError(schema.NewError(schema.CodeUpstreamTruncated, "The connection to the backend broke."))
	l.end(websocket.StatusInternalError, "the connection to the backend broke")
	return err
}

// begin notes that a response is being made.
func (l *relay) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != nil && !l.busy {
		l.busy, l.since = true, time.Now()
	}
}

func (l *relay) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = time.Now()
}

// watch asks whether the connection may stay, and ends it when it may not.
func (l *relay) watch(ctx context.Context) {
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	var pinging sync.WaitGroup
	defer pinging.Wait()
	pinged := time.Now()
	stopping := l.doors.stopping
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			stopping = nil
		case <-tick.C:
		}
		settings := l.doors.options.Current.Load().Limits.WebSockets
		if !l.mayStay(settings) {
			return
		}
		if time.Since(pinged) >= settings.Ping.Std() {
			pinged = time.Now()
			pinging.Go(func() { l.ping(ctx, settings.Ping.Std()) })
		}
	}
}

// mayStay reports whether the connection may stay open, and ends it if not.
func (l *relay) mayStay(settings sockets.Settings) bool {
	if refusal := l.doors.options.Keys.Check(l.header, l.who.addr); refusal != nil {
		l.sendError(refusal)
		l.end(websocket.StatusPolicyViolation, refusal.Code)
		return false
	}
	l.mu.Lock()
	isQuiet, used := !l.busy, l.used
	l.mu.Unlock()
	switch {
	case isQuiet && l.doors.isStopping():
		l.end(websocket.StatusGoingAway, "the gateway is shutting down")
	case isQuiet && time.Since(l.began) >= settings.Lifetime.Std():
		l.sendError(tooOld())
		l.end(websocket.StatusNormalClosure, schema.CodeSocketTooOld)
	case isQuiet && time.Since(used) >= settings.Idle.Std():
		l.end(websocket.StatusNormalClosure, "nothing was said for too long")
	default:
		return true
	}
	return false
}

// ping asks the client whether it is there.
func (l *relay) ping(ctx context.Context, patience time.Duration) {
	heard := l.heard.Load()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if l.client.Ping(ctx) != nil && l.heard.Load() == heard && l.ctx.Err() == nil {
		_ = l.client.CloseNow()
	}
}

// end ends the connection of the client, and tells it why.
func (l *relay) end(code websocket.StatusCode, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.working.Go(func() { _ = l.client.Close(code, reason) }) // the client may be gone
}

// sendError tells the client of an error.
func (l *relay) sendError(err error) {
	var known *schema.Error
	if !errors.As(err, &known) {
		known = schema.NewError(schema.CodeInternal, "The gateway failed to handle the message.")
	}
	var doc jsonscan.Document
	var w jsonwrite.Writer
	w.Open(`{"type":"error","event_id":`)
	w.Plain("event_" + rand.Text())
	if doc.Parse(known.Body()) == nil {
		w.Member("error", doc.Root().Get("error").Raw())
	}
	w.EndObject()
	ctx, cancel := context.WithTimeout(l.ctx, front.Allowance(int64(len(w.Out))))
	defer cancel()
	_ = l.client.Write(ctx, websocket.MessageText, w.Out) // the client may be gone
}

// firstOf returns the beginning of a body.
func firstOf(body io.Reader) []byte {
	if body == nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(body, largestRefusal)) // what came of it
	return text
}

// codeOf returns the code of an error.
func codeOf(err error) string {
	var known *schema.Error
	if errors.As(err, &known) {
		return known.Code
	}
	return schema.CodeInternal
}
