package socket

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/count/account"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// turn is a response that the limits and budgets have let in.
type turn struct {
	account *account.Account
	// asks is the request that room was reserved for, and part its place in the
	// conversation.
	asks *schema.Request
	part part
	// event is the id of the message that asked for it, if that has one.
	event string
	// since is when it began, and heard when the backend last said something of it.
	since, heard time.Time
	isAnnounced  bool // the backend has told that it began
}

// turns are the responses of a connection. A backend may begin one at any time, because
// somebody has stopped speaking; so there is a spare turn while no response is made. A
// response that the client asks for is let in by itself, with its possible cost, in place
// of the spare.
type turns struct {
	// admitting is held while the spare turn, or one in place of it, is let in. It is taken
	// before the lock of the connection.
	admitting sync.Mutex
	spare     *turn
	// asked holds the turns that the backend was asked for and has not begun, in their
	// order, and asking counts the ones about to be asked for.
	asked  []*turn
	asking int
	// running holds the turns that are being made, by their ids, and over the ids of the
	// last ended ones.
	running map[string]*turn
	over    []ended
	talk    talk
	// told is when the backend last said something of any response.
	told time.Time
	// isLate says that the connection ends because a response took too long.
	isLate bool
}

// ended is a response that has ended. A backend that says so twice is not paid twice.
type ended struct {
	id string
	// isAnnounced says that the backend told when it began.
	isAnnounced bool
}

// mostOver is how many ended responses are remembered.
const mostOver = 64

// mostTurns is how many responses may be made on a connection at a time.
const mostTurns = 8

// longestID is the length of the longest id of a message that is compared.
const longestID = 512

// asksFor returns the request that a response is; of one that nobody has asked for, the value
// is absent.
func (l *relay) asksFor(asked jsonscan.Value) (*schema.Request, part, error) {
	body, remembered, part := l.recall(asked)
	asks, err := l.lineOf(body)
	if err == nil {
		asks.Remembered = remembered
	}
	return asks, part, err
}

// recall returns the body of the request that a response is, how many tokens of the conversation
// it has beside that, and its part of the conversation.
func (l *relay) recall(asked jsonscan.Value) (body []byte, remembered int64, part part) {
	l.mu.Lock()
	defer l.mu.Unlock() // also after a panic
	return l.talk.body(asked), l.talk.remembered(asked), l.talk.begin(asked)
}

// lineOf returns a request of the session, with a body.
func (l *relay) lineOf(body []byte) (*schema.Request, error) {
	req, err := proxy.ReadLinked(schema.DoorRealtime, l.model, body)
	if err != nil {
		return nil, err
	}
	req.Header, req.Query = l.header, l.query
	return req, nil
}

// requestFor returns a request for a response, by the present rights of the key and the
// present configuration: the key, its terms and those of its tenant may have changed since
// the connection was opened.
func (l *relay) requestFor(asks *schema.Request) (*account.Account, error) {
	grant, refusal := l.doors.options.Keys.IdentifyAgain(l.header, l.who.addr)
	if refusal != nil {
		return nil, refusal
	}
	caller, refusal := l.callerWith(grant)
	if refusal != nil {
		return nil, refusal
	}
	opened := &account.Account{
		Desk: &l.doors.options.Proxy.Desk, Asks: asks, Caller: caller, Table: l.doors.options.Current.Load(),
	}
	opened.Find()
	err := opened.RefuseModel()
	if err == nil && l.served != "" {
		err = opened.RefuseServed(l.served)
	}
	return opened, err
}

// admit lets the client in for a response.
func (l *relay) admit(ctx context.Context, asks *schema.Request, part part) (*turn, error) {
	opened, err := l.requestFor(asks)
	if err != nil {
		return nil, err
	}
	caller := opened.Caller
	opened.Record = &calls.Record{
		Started: time.Now(), RequestID: l.nextID(caller.RequestID), Unified: true, Routed: true,
		Service: asks.Service, Door: asks.Door, Route: realtimePath, KeyID: caller.KeyID, Client: caller.Addr,
		Streamed: true,
		Tenant:   web.CutText(caller.Tenant, 120), User: quota.UserName(caller.User),
	}
	isAdmitted := false
	defer func() {
		if !isAdmitted { // also after a panic
			opened.Close()
		}
	}()
	// The answer comes on the connection, where no fallback takes over.
	_, err = opened.Open(ctx, func(context.Context) (account.Answer, error) {
		if l.served == "" || opened.Pool != nil && opened.Pool.Model == l.served {
			return nil, opened.RefuseAsked()
		}
		if by := opened.Table.Service(asks.Service).Find(l.served); by != nil {
			if refusal := opened.RefuseUnpriced(by); refusal != nil {
				return nil, refusal
			}
		}
		return nil, nil //nolint:nilnil // see above
	})
	if err != nil {
		return nil, err
	}
	isAdmitted = true
	return &turn{account: opened, asks: asks, part: part}, nil
}

// giveBack gives back the reservation of a response that is not made.
func (t *turn) giveBack() {
	if t != nil {
		t.account.Close()
	}
}

// keepSpare lets the client in for a response that the backend may begin by itself, unless
// there is one already, or one is made or asked for.
func (l *relay) keepSpare(ctx context.Context) error {
	l.admitting.Lock()
	defer l.admitting.Unlock()
	l.mu.Lock()
	isNeeded := l.spare == nil && len(l.running)+len(l.asked)+l.asking == 0
	l.mu.Unlock()
	if !isNeeded {
		return nil
	}
	asks, part, err := l.asksFor(jsonscan.Value{})
	if err != nil {
		return err
	}
	t, err := l.admit(ctx, asks, part)
	if err == nil {
		l.putSpare(t)
	}
	return err
}

// putSpare makes a turn the spare one, or gives it back where there is one.
func (l *relay) putSpare(t *turn) {
	l.mu.Lock()
	if l.spare == nil {
		l.spare, t = t, nil
	}
	l.mu.Unlock()
	t.giveBack()
}

// takeSpare returns the spare turn, nil where there is none.
func (l *relay) takeSpare() *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.spare
	l.spare = nil
	return t
}

// ask lets the client in for the response that a message asks for.
func (l *relay) ask(message jsonscan.Value) error {
	l.mu.Lock()
	isFull := len(l.running)+len(l.asked)+l.asking >= mostTurns
	if !isFull {
		l.asking++
	}
	l.mu.Unlock()
	if isFull {
		return tooMany(say.New("socket.running", "most", mostTurns))
	}
	var t *turn
	defer func() { // also after a panic
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asking--
		if t != nil {
			l.asked = append(l.asked, t)
		}
	}()
	l.admitting.Lock()
	defer l.admitting.Unlock()
	l.takeSpare().giveBack()
	asks, part, err := l.asksFor(message.Get("response"))
	if err != nil {
		return err
	}
	if t, err = l.admit(l.ctx, asks, part); err != nil {
		return err
	}
	t.asks, t.account.Asks = nil, &schema.Request{Service: asks.Service} // they hold the text of the message
	if id := message.Get("event_id").Text(); len(id) <= longestID {
		t.event = string(id)
	}
	return nil
}

// notBegun notes that the backend has refused something that it was asked for by the message
// with an id. If that may be a response, none is made for it.
func (l *relay) notBegun(event string) {
	l.mu.Lock()
	at := slices.IndexFunc(l.asked, func(t *turn) bool { return t.event == event })
	if at < 0 && event == "" {
		at = len(l.asked) - 1 // which one it is the backend does not say
	}
	var t *turn
	if at >= 0 {
		t = l.asked[at]
		l.asked = slices.Delete(l.asked, at, at+1)
	}
	l.mu.Unlock()
	if t != nil {
		l.putSpare(t)
	}
}

// begin notes that a response is being made, which the backend has announced or not. An
// error says that the limits or budgets do not allow it; if there is a turn all the same,
// the earlier reservation pays for it.
func (l *relay) begin(id string, isAnnounced bool) error {
	l.mu.Lock()
	_, isRunning := l.running[id]
	if isAnnounced { // one that has the id of another that ended is no repetition of that
		l.over = slices.DeleteFunc(l.over, func(e ended) bool { return e.id == id })
	}
	isFull := len(l.running) >= 2*mostTurns
	var t *turn
	if !isRunning && !isFull && len(l.asked) > 0 {
		t = l.asked[0]
		l.asked = slices.Delete(l.asked, 0, 1)
	}
	l.mu.Unlock()
	switch {
	case isRunning:
		return nil
	case isFull:
		return tooMany(say.New("socket.backend_running"))
	}
	var refusal error
	if t == nil {
		t, refusal = l.beginUnasked()
	}
	if t == nil {
		return refusal
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.since, t.isAnnounced = time.Now(), isAnnounced
	t.heard = t.since
	l.running[id] = t
	return refusal
}

// isRepeated reports whether an event reports again the end of a response that has ended. A
// backend that does not announce its responses may give several the same id, and the one
// that was asked for is another one then. mu is held.
func (l *relay) isRepeated(id string) bool {
	if id == "" || l.running[id] != nil {
		return false
	}
	return slices.ContainsFunc(l.over, func(e ended) bool { return e.id == id && (e.isAnnounced || len(l.asked) == 0) })
}

// remember notes that a response has ended. mu is held.
func (l *relay) remember(id string, t *turn) {
	if len(l.over) == mostOver {
		l.over = slices.Delete(l.over, 0, 1)
	}
	l.over = append(l.over, ended{id, t.isAnnounced})
}

// hear notes that the backend goes on with a response. An event that names none may be of any.
func (l *relay) hear(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = time.Now()
	for running, t := range l.running {
		if id == "" || running == id {
			t.heard = l.told
		}
	}
}

// checkLate reports whether a response takes longer than an answer may: to begin, in
// silence or in all. A backend may make one after the other: the wait for a requested one
// begins anew when the backend says something of another.
func (l *relay) checkLate() bool {
	limits := &l.instance.Timeouts
	exceeds := func(since time.Time, limit schema.Duration) bool {
		return limit > 0 && time.Since(since) >= limit.Std()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.running {
		l.isLate = l.isLate || exceeds(t.heard, limits.Idle) || exceeds(t.since, limits.Total)
	}
	if len(l.asked) > 0 {
		since := l.asked[0].account.Record.Started
		if l.told.After(since) {
			since = l.told
		}
		l.isLate = l.isLate || exceeds(since, cmp.Or(limits.FirstToken, limits.FirstByte))
	}
	return l.isLate
}

// beginUnasked lets the client in for a response that the backend has begun by itself, at
// the present length of the conversation. If that is refused, the turn takes over the
// spare's terms, or is the spare itself if the key may not ask any more: a response that is
// made is paid.
func (l *relay) beginUnasked() (*turn, error) {
	spare := l.takeSpare()
	asks, part, err := l.asksFor(jsonscan.Value{})
	if err == nil {
		_, err = l.requestFor(asks)
	}
	if err != nil {
		return spare, err
	}
	spare.giveBack()
	t, refusal := l.admit(l.ctx, asks, part)
	if refusal != nil && spare != nil && spare.asks != nil {
		t, _ = l.admit(l.ctx, spare.asks, part) // the refusal is returned
	}
	return t, refusal
}

// cancelOf returns the message that asks the backend to end a response.
func cancelOf(id string) []byte {
	var w jsonwrite.Writer
	w.Open(`{"type":"response.cancel"`)
	w.Close("")
	if id != "" {
		w.Name("response_id")
		w.Text([]byte(id))
	}
	w.EndObject()
	return w.Out
}

// measure adds a piece of a response to the estimate of its usage.
func (l *relay) measure(id string, event []byte) {
	l.mu.Lock()
	t := l.running[id]
	if t == nil && len(l.running) == 1 { // of a backend that does not name it
		for _, only := range l.running {
			t = only
		}
	}
	l.mu.Unlock()
	if t != nil && t.account.IsMeasured() {
		t.account.Measure(event)
	}
}

// done ends a response, or a transcript, which is no part of the conversation, with the
// backend's report.
func (l *relay) done(id string, response jsonscan.Value, isTranscript bool) error {
	code := ""
	switch status := string(response.Get("status").Text()); {
	case status == "failed", isTranscript && strings.HasSuffix(string(response.Get("type").Text()), ".failed"):
		code = schema.CodeUpstreamError
	case status == "cancelled":
		code = schema.CodeCancelled
	}
	l.mu.Lock()
	// It was refused when it began, is a failed transcript without any content, or was
	// counted before.
	isNone := l.running[id] == nil && (l.ended || isTranscript && code != "") || l.isRepeated(id)
	l.mu.Unlock()
	if isNone {
		return nil
	}
	err := l.begin(id, false) // of one that was not announced
	usage := schema.ReadUsage(response.Get("usage"))
	t, isLate := l.stopRunning(id)
	if t == nil {
		return err
	}
	if isLate && code == schema.CodeCancelled {
		code = schema.CodeUpstreamTimeout
	}
	defer l.settle(t, usage, code) // also after a panic
	if !isTranscript {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.talk.end(t.part, usage, response.Get("output"))
	}
	return err
}

// stopRunning takes out a response that has ended, nil where it is not being made, and reports
// whether one takes too long.
func (l *relay) stopRunning(id string) (t *turn, isLate bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t = l.running[id]; t != nil {
		delete(l.running, id)
		l.remember(id, t)
	}
	return t, l.isLate
}

// settle ends the accounts of a response: with the usage that the backend reports, or,
// where it broke off, with the estimate.
func (l *relay) settle(t *turn, usage schema.Usage, code string) {
	opened, record := t.account, t.account.Record
	defer l.finish(record)
	defer opened.Close()
	opened.Caller.Grant.Note(time.Now())
	// At the price when the response was let in or, where the model is gone, at the price
	// before.
	opened.ServeBy(cmp.Or(opened.Table.Service(record.Service).Find(l.served), l.pool))
	if err := opened.Count(); err != nil {
		code = codeOf(err)
	}
	opened.Settle(usage, code == "", true)
	record.Started, record.Model, record.Usage, record.Status, record.Code = t.since, opened.Model, usage,
		http.StatusOK, code
	record.Begin(l.instance.ID, l.instance.Kind.Name, t.since)
	record.Series = l.instance.Series
	record.Ended = time.Since(t.since)
}

// finish records a response that has ended.
func (l *relay) finish(record *calls.Record) {
	l.doors.options.Recorder.Finish(record)
	l.touch()
	l.hush()
}

// endTurns ends the remaining turns when the connection has ended: responses that were cut
// short are paid as estimated, also responses that a client asked for and did not wait for.
// If the backend has left, responses that it had not begun cost nothing.
func (l *relay) endTurns() {
	l.mu.Lock()
	spare, asked, running, hasLeft, isLate := l.spare, l.asked, l.running, l.hasLeft, l.isLate
	l.spare, l.asked, l.running = nil, nil, nil
	l.mu.Unlock()
	spare.giveBack()
	code := schema.CodeCancelled
	switch {
	case isLate:
		code = schema.CodeUpstreamTimeout
	case hasLeft:
		code = schema.CodeUpstreamTruncated
	}
	for _, t := range asked {
		if hasLeft {
			t.giveBack()
			continue
		}
		t.since = t.account.Record.Started
		l.settle(t, schema.Usage{}, code)
	}
	for _, t := range running {
		l.settle(t, schema.Usage{}, code)
	}
}

// isBusy reports whether a response is being made, or asked for.
func (l *relay) isBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.isLost && len(l.running)+len(l.asked)+l.asking > 0
}

// stopResponses asks the backend to end the responses that it makes for a client who has
// left, and waits a little for it to report their usage.
func (l *relay) stopResponses() {
	l.mu.Lock()
	l.ended = true
	cancels := [][]byte{cancelOf("")}
	for id := range l.running {
		if len(l.running) > 1 {
			cancels = append(cancels, cancelOf(id))
		}
	}
	l.mu.Unlock()
	if !l.isBusy() || l.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, lastWords)
	defer cancel()
	for _, message := range cancels {
		if l.backend.Write(ctx, websocket.MessageText, message) != nil {
			return
		}
	}
	for l.isBusy() {
		select {
		case <-ctx.Done():
			return
		case <-l.quiet:
		}
	}
}
