package socket

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/wings/realtime/sockets"
)

const (
	// largestMessage bounds a message of a client, who sends sound in pieces, and
	// largestAnswer a message of a backend.
	largestMessage = 1 << 20
	largestAnswer  = 16 << 20
	// largestRefusal bounds the bytes read of an answer that refuses a WebSocket.
	largestRefusal = 64 << 10
	// lastWords is how long a backend may take to end a response that nobody waits for.
	lastWords = 2 * time.Second
)

// relay is a connection of the Realtime API. It passes the client's messages to the
// backend, and the backend's messages to the client.
type relay struct {
	link
	caller    access.Caller
	protocols []string
	model     string // the client's name of it
	query     string
	// isTranscription says that the session is for transcripts, which are its responses.
	isTranscription bool
	instance        *backend.Instance
	// served is the configured name of the model that serves, and pool where it was when the
	// connection was opened.
	served   string
	pool     *routing.Pool
	accepted bool

	backend      *websocket.Conn
	belowBackend net.Conn // see hijacked
	// reading is the context for reading the client's messages. It ends before that of the
	// connection.
	reading context.Context //nolint:containedctx // it lives as long as the connection
	// looks is sent to when a response must end.
	looks chan struct{}
	// lost is closed when nothing more comes from the backend.
	lost chan struct{}

	// mu of the link guards these.
	turns
	// isLost says that the backend's connection is over, and hasLeft that the backend ended
	// it. farewell is the status that ends the connection here, once it is known.
	isLost, hasLeft bool
	farewell        *websocket.CloseError
}

// run relays until one side ends. It returns an error if the backend broke the connection
// off, or a response took too long.
func (l *relay) run(opened context.Context) error {
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(opened))
	defer l.cancel()
	l.reading, l.leave = context.WithCancel(l.ctx)
	defer l.leave()
	defer context.AfterFunc(opened, func() {
		if errors.Is(context.Cause(opened), context.Canceled) {
			l.leave() // the client is gone, and the backend may report the usage of its responses
		} else {
			l.stopAtOnce()
		}
	})()
	var broken error
	l.working.Go(func() {
		defer close(l.lost)
		l.contain("", "reading from a backend", func() { broken = l.fromBackend() })
	})
	watch, done := context.WithCancel(l.ctx)
	defer done()
	l.working.Go(func() { l.contain("", "watching a WebSocket", func() { l.watch(watch, l.looks, l.parting) }) })
	l.contain("", "reading from a client", l.fromClient)
	done()
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.settleAll()
	l.closeBackend()
	l.cancel()
	l.working.Wait()
	_ = l.conn.CloseNow()
	_ = l.backend.CloseNow()
	l.endTurns()
	if broken == nil && l.isLate {
		broken = transport.ErrTimeout
	}
	return broken
}

// settleAll ends all responses and their accounts, before an end of the connection is visible.
func (l *relay) settleAll() {
	l.stopResponses()
	l.endTurns()
}

// lookNow has the watch end the responses that must end.
func (l *relay) lookNow() {
	select {
	case l.looks <- struct{}{}:
	default: // it looks anyway
	}
}

// stopAtOnce ends the connection because the gateway does not wait for it any longer.
func (l *relay) stopAtOnce() {
	l.sendError("", proxy.Stopping())
	l.end(websocket.StatusGoingAway, stoppingReason)
	time.AfterFunc(closing, l.cancel)
}

// closeBackend ends the backend's connection with the status of the client's end.
func (l *relay) closeBackend() {
	l.mu.Lock()
	isLost, farewell := l.isLost, l.farewell
	l.mu.Unlock()
	if isLost || farewell == nil || l.ctx.Err() != nil {
		return
	}
	late := time.AfterFunc(closing, func() {
		l.cancel()
		_ = l.belowBackend.Close()
	})
	defer late.Stop()
	_ = l.backend.Close(farewell.Code, farewell.Reason) // the backend may be gone
}

// sayFarewell sets the status that ends the backend's connection, if it is not known yet.
func (l *relay) sayFarewell(code websocket.StatusCode, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.farewell == nil {
		l.farewell = &websocket.CloseError{Code: code, Reason: reason}
	}
}

// newParser returns a parser of messages, which has to be closed.
func (l *relay) newParser(anyKeys bool) *parser {
	p := &parser{anyKeys: anyKeys, lease: l.doors.leaseFor(l.who)}
	p.takesFrom = takeFrom(&p.lease)
	return p
}

// fromClient passes on the client's messages.
func (l *relay) fromClient() {
	p := l.newParser(false)
	defer p.lease.Close()
	for {
		text, err := l.readClient(p)
		if err == nil {
			err = l.passOn(p, text)
		}
		p.lease.Keep(0)
		if err != nil {
			l.clientEnded(err)
			return
		}
	}
}

// clientEnded notes why nothing more comes from the client.
func (l *relay) clientEnded(err error) {
	var closed websocket.CloseError
	var known *schema.Error
	switch {
	case errors.As(err, &known): // there is no memory, and the rest of the message would have to be read
		l.sendError("", known)
		l.end(websocket.StatusTryAgainLater, "there is no memory for the message")
	case errors.As(err, new(unsent)): // and who reads from the backend says why
		_ = l.backend.CloseNow()
		<-l.lost
	case errors.As(err, &closed):
		l.sayFarewell(closed.Code, closed.Reason)
	case errors.Is(err, websocket.ErrMessageTooBig):
		l.end(websocket.StatusMessageTooBig, "the message is too large") // reads the rest, to let the client see why
	default:
		l.sayFarewell(websocket.StatusGoingAway, "the client has left")
	}
}

// readClient returns the next message of the client. It has taken the memory for it.
func (l *relay) readClient(p *parser) ([]byte, error) {
	text, err := readClient(l.reading, l.conn, p.takesFrom, &l.heard, l.end)
	l.heard.Add(1)
	l.touch()
	return text, err
}

// passOn passes a message of the client on, or tells the client why it is not. It returns an
// error if nothing more can be passed on.
func (l *relay) passOn(p *parser, text []byte) error {
	doc, err := p.parse(text)
	if known := new(schema.Error); errors.As(err, &known) {
		return known
	}
	root := doc.Root()
	if err != nil || root.Kind() != jsonscan.Object {
		l.sendError("", schema.CodedError(schema.CodeInvalidJSON, "socket.bad_object"))
		return nil
	}
	err = l.refuseForeign(root)
	if err == nil {
		err = l.noteAsked(root)
	}
	if err != nil {
		l.sendError("", err)
		return nil
	}
	if model := root.Get("session").Get("model"); model.Kind() == jsonscan.String {
		if err := p.takesFrom(len(text)); err != nil {
			return err
		}
		text = slices.Concat(doc.Splice(nil, []jsonscan.Edit{model.Replace(jsonwrite.AppendText(nil,
			l.upstreamModel()))})...)
	}
	if err := l.sendBackend(text); err != nil {
		return unsent{err}
	}
	return nil
}

// unsent says that the backend takes no more messages.
type unsent struct{ error }

// Unwrap returns the error itself.
func (u unsent) Unwrap() error { return u.error }

// sendBackend sends the backend a message.
func (l *relay) sendBackend(text []byte) error {
	return write(l.ctx, l.backend, websocket.MessageText, text)
}

// noteAsked notes the wish of a message of the client, and returns an error if the client
// may not have it.
func (l *relay) noteAsked(root jsonscan.Value) error {
	switch string(root.Get("type").Text()) {
	case createType:
		if l.doors.isStopping() {
			return proxy.Stopping()
		}
		return l.ask(root)
	case "session.update":
		if err := l.refuseModelOf(root.Get("session")); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.talk.Set(root.Get("session"))
	case "input_audio_buffer.commit":
		l.mu.Lock()
		defer l.mu.Unlock()
		l.commits++
	case "conversation.item.create":
		l.mu.Lock()
		defer l.mu.Unlock()
		l.talk.Add(root.Get("item"))
	}
	return nil
}

// refuseForeign returns an error if a message names a prompt of the account at the backend,
// which callers with keys share, or a member for operators of engines.
func (l *relay) refuseForeign(root jsonscan.Value) error {
	if !l.doors.options.Keys.Needed() {
		return nil
	}
	session, response := root.Get("session"), root.Get("response")
	if err := l.instance.Target.RefuseMembers(schema.MembersIn(root, session, response)); err != nil {
		return err
	}
	if !session.Get("prompt").Given() && !response.Get("prompt").Given() || l.instance.Target.AllowsAccountIDs() {
		return nil
	}
	return schema.InvalidValue("prompt", say.New("account.prompt"))
}

// refuseModelOf returns an error if a message names another model than that of the
// connection, which the caller was let in for and pays for.
func (l *relay) refuseModelOf(session jsonscan.Value) error {
	model := session.Get("model")
	if !model.Given() || model.Kind() == jsonscan.String && string(model.Text()) == l.model {
		return nil
	}
	return schema.InvalidValue("session.model", say.New("socket.model"))
}

// upstreamModel returns the backend's name of the model.
func (l *relay) upstreamModel() string {
	if l.instance.Target.Model != "" {
		return l.instance.Target.Model
	}
	return l.instance.Settings.Name
}

// parting returns why the connection may not stay open, nil while it may.
func (l *relay) parting(settings sockets.Settings) *parting {
	if known := new(schema.Error); errors.As(l.endRefused(), &known) {
		l.endTurns() // the backend does not report their usage
		return &parting{known, websocket.StatusPolicyViolation, known.Code}
	}
	l.mu.Lock()
	isQuiet, used := len(l.running)+len(l.asked)+l.asking == 0, l.used
	isForgotten := l.expected != nil && time.Since(l.expected.account.Record.Started) >= expectedFor
	l.mu.Unlock()
	if isForgotten {
		l.takeExpected().giveBack()
	}
	switch {
	case l.checkLate():
		late := schema.CodedError(schema.CodeUpstreamTimeout, "socket.late")
		return &parting{late, websocket.StatusInternalError, schema.CodeUpstreamTimeout}
	case l.doors.isStopping() && !l.isBusy():
		return &parting{nil, websocket.StatusGoingAway, stoppingReason}
	case isQuiet && l.isTakenOut():
		return &parting{nil, websocket.StatusGoingAway, "the instance was taken out"}
	case isQuiet && l.isOld():
		return &parting{tooOld(), websocket.StatusNormalClosure, codeTooOld}
	case isQuiet && time.Since(used) >= settings.Idle.Std():
		return &parting{nil, websocket.StatusNormalClosure, "nothing was said for too long"}
	}
	return nil
}

// isTakenOut reports whether the instance does not serve its model any more, because it was removed
// or disabled since the connection was opened.
func (l *relay) isTakenOut() bool {
	pool := l.doors.options.Current.Load().Service(schema.DoorRealtime.Service()).Find(l.served)
	return pool == nil || !slices.ContainsFunc(pool.Instances, func(i *backend.Instance) bool {
		return i.ID == l.instance.ID && i.Settings.Enabled
	})
}

// depart sets the status that ends the backend's connection because that of the client
// ends.
func (l *relay) depart(code websocket.StatusCode, reason string) {
	if l.farewell != nil {
		return
	}
	l.farewell = &websocket.CloseError{Code: websocket.StatusNormalClosure}
	if code == websocket.StatusGoingAway {
		l.farewell = &websocket.CloseError{Code: code, Reason: reason}
	}
}

// tellError tells the client of an error.
func (l *relay) tellError(_ string, known *schema.Error) {
	var doc jsonscan.Document
	var w jsonwrite.Writer
	w.Open(`{"type":"error","event_id":`)
	w.Plain("event_" + rand.Text())
	if doc.Parse(known.Body()) == nil {
		w.Member("error", doc.Root().Get("error").Raw())
	}
	writeHeaders(&w, retryHeader(known))
	w.EndObject()
	_ = write(l.ctx, l.conn, websocket.MessageText, w.Out) // the client may be gone
}

// firstOf returns the beginning of a body.
func firstOf(body io.Reader) []byte {
	if body == nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(body, largestRefusal)) // as much as came
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
