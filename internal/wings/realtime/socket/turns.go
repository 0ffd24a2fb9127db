package socket

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/realtime/talk"
)

// turn is a response that the limits and budgets have let in, or that is made although they do
// not allow it.
type turn struct {
	line    *relay
	account *account.Account
	part    talk.Part
	// event is the id of the message that asked for it, if that has one.
	event string
	// since is when it began, and heard the time of the backend's last event about it.
	since, heard time.Time
	isAnnounced  bool // the backend has announced it
	// running is the response in the list of running requests.
	running calls.Running
	// refusal is why the response must end, nil if it may go on, and refused the time of that
	// decision. isLast reports whether the connection ends with it, and isCancelled whether the
	// backend was asked to end it.
	refusal             error
	refused             time.Time
	isLast, isCancelled bool
}

// Stop ends the response, because its run was ended or an operator stops it. It does not wait.
func (t *turn) Stop(cause error) {
	t.line.mu.Lock()
	t.refuse(cause)
	t.line.mu.Unlock()
	t.line.lookNow()
}

// refuse notes why the response must end; mu of the line is held.
func (t *turn) refuse(why error) {
	if t.refusal == nil {
		t.refusal, t.refused = why, time.Now()
	}
}

// turns are the responses of a connection.
type turns struct {
	// expected has reserved for a response that the backend is about to begin by itself, nil for
	// none. commits counts the client's messages that commit sound, after which it begins none.
	expected *turn
	commits  int
	// asked holds the turns that the backend was asked for and has not begun, in their
	// order, and asking counts the ones about to be asked for.
	asked  []*turn
	asking int
	// running holds the turns that are being made, by their ids, and over the ids of the
	// last ended ones.
	running map[string]*turn
	over    []ended
	talk    talk.Talk
	// told is the time of the backend's last event about any response.
	told time.Time
	// isLate reports whether the connection ends because a response took too long.
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

// expectedFor bounds how long room is kept for a response that the backend may begin by itself.
const expectedFor = 5 * time.Second

// longestID is the length of the longest id of a message that is compared.
const longestID = 512

// asksFor returns the request that a response is; of one that nobody has asked for, the value
// is absent.
func (l *relay) asksFor(asked jsonscan.Value) (*schema.Request, talk.Part, error) {
	body, remembered, part := l.recall(asked)
	asks, err := l.lineOf(body)
	if err == nil {
		asks.Remembered = remembered
	}
	return asks, part, err
}

// recall returns the body of the request that a response is, how many tokens of the conversation
// it has beside that, and its part of the conversation.
func (l *relay) recall(asked jsonscan.Value) (body []byte, remembered int64, part talk.Part) {
	l.mu.Lock()
	defer l.mu.Unlock() // also after a panic
	return l.talk.Body(asked), l.talk.Remembered(asked), l.talk.Begin(asked)
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

// newTurn returns a turn whose account is not open yet.
func (l *relay) newTurn(asks *schema.Request, part talk.Part, caller *access.Caller) *turn {
	t := &turn{line: l, part: part, account: &account.Account{
		Desk: &l.doors.options.Proxy.Desk, Asks: asks, Caller: caller, Table: l.doors.options.Current.Load(),
	}}
	record := &calls.Record{
		Started: time.Now(), RequestID: l.nextID(caller.RequestID), Unified: true, Routed: true,
		Service: asks.Service, Door: asks.Door, Route: realtimePath, KeyID: caller.KeyID, Client: caller.Addr,
		Streamed: true,
		Tenant:   web.CutText(caller.Tenant, 120), User: quota.UserName(caller.User), Running: &t.running,
	}
	one := &t.running
	one.RequestID, one.Started, one.Service, one.Door = record.RequestID, record.Started, asks.Service, asks.Door
	one.KeyID, one.Tenant, one.User, one.Client = record.KeyID, record.Tenant, record.User, record.Client
	one.Stopper = t
	if l.instance != nil {
		one.Note(l.served, l.instance.ID)
	}
	t.account.Record = record
	t.account.Find()
	return t
}

// show adds a response to the list of running requests.
func (t *turn) show() {
	if recorder := t.line.doors.options.Recorder; recorder.On() {
		recorder.Enter(&t.running)
	}
}

// admit lets the client in for a response, by the present rights of the key and the present
// configuration: the key, its terms and those of its tenant may have changed since the
// connection was opened.
func (l *relay) admit(ctx context.Context, asks *schema.Request, part talk.Part) (*turn, error) {
	grant, refusal := l.doors.options.Keys.IdentifyAgain(l.header, l.who.addr)
	if refusal != nil {
		return nil, refusal
	}
	caller, refusal := l.callerWith(grant)
	if refusal != nil {
		return nil, refusal
	}
	t := l.newTurn(asks, part, caller)
	opened := t.account
	isAdmitted := false
	defer func() {
		if !isAdmitted { // also after a panic
			t.giveBack()
		}
	}()
	err := opened.RefuseModel()
	if err == nil && l.served != "" {
		err = opened.RefuseServed(l.served)
	}
	if err != nil {
		return nil, err
	}
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
	return t, nil
}

// giveBack gives back the reservation of a response that is not made.
func (t *turn) giveBack() {
	if t == nil {
		return
	}
	t.line.doors.options.Recorder.Leave(&t.running)
	t.account.Close()
}

// reserve lets the client in for a response that no message asks for.
func (l *relay) reserve(ctx context.Context) (*turn, error) {
	asks, part, err := l.asksFor(jsonscan.Value{})
	if err != nil {
		return nil, err
	}
	return l.admit(ctx, asks, part)
}

// expect reserves for the response that the backend is about to begin by itself, where the end of
// speech begins one. If that is refused, the backend is asked to make none.
func (l *relay) expect() error {
	l.mu.Lock()
	l.talk.AddSound()
	isBegun := l.talk.Answers && l.commits == 0 || l.isTranscription
	l.commits = max(l.commits-1, 0)
	isNeeded := isBegun && l.expected == nil && len(l.running)+len(l.asked)+l.asking == 0
	l.mu.Unlock()
	if !isNeeded {
		return nil
	}
	t, err := l.reserve(l.ctx)
	if err != nil {
		_ = l.sendBackend(cancelOf("")) // the backend may be gone
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = t
	return nil
}

// takeExpected returns the turn that is expected, nil if there is none.
func (l *relay) takeExpected() *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.expected
	l.expected = nil
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
	l.takeExpected().giveBack()
	asks, part, err := l.asksFor(message.Get("response"))
	if err != nil {
		return err
	}
	if t, err = l.admit(l.ctx, asks, part); err != nil {
		return err
	}
	t.account.Asks = &schema.Request{Service: asks.Service} // asks holds the text of the message
	t.show()
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
	t.giveBack()
}

// begin notes that a response is being made, which the backend has announced or not. It returns an
// error if there are too many.
func (l *relay) begin(id string, isAnnounced bool) error {
	l.mu.Lock()
	_, isRunning := l.running[id]
	if isAnnounced { // one that has the id of another that ended is no repetition of that
		l.over = slices.DeleteFunc(l.over, func(e ended) bool { return e.id == id })
	}
	isFull := len(l.running) >= 2*mostTurns
	var t *turn
	isAsked := len(l.asked) > 0
	switch {
	case isRunning, isFull:
	case isAsked:
		t = l.asked[0]
		l.asked = slices.Delete(l.asked, 0, 1)
	default:
		t, l.expected = l.expected, nil
	}
	l.mu.Unlock()
	switch {
	case isRunning:
		return nil
	case isFull:
		return tooMany(say.New("socket.backend_running"))
	}
	if t == nil {
		var err error
		if t, err = l.beginUnasked(); err != nil {
			return err
		}
	}
	if !isAsked {
		t.show()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.since, t.isAnnounced = time.Now(), isAnnounced
	t.heard = t.since
	l.running[id] = t
	if t.refusal != nil {
		l.lookNow()
	}
	return nil
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

// hear notes that the backend goes on with a response, and reports whether that must end. An event
// that names none may be of any.
func (l *relay) hear(id string) (isRefused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = time.Now()
	mayGoOn := false
	for running, t := range l.running {
		if id == "" || running == id {
			t.heard = l.told
			isRefused, mayGoOn = isRefused || t.refusal != nil, mayGoOn || t.refusal == nil
		}
	}
	return isRefused && !mayGoOn
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

// beginUnasked reserves for a response that the backend has begun by itself without speech. A
// response that is refused is ended and paid.
func (l *relay) beginUnasked() (*turn, error) {
	asks, part, err := l.asksFor(jsonscan.Value{})
	if err != nil {
		return nil, err
	}
	t, refusal := l.admit(l.ctx, asks, part)
	if refusal != nil {
		grant, revoked := l.doors.options.Keys.IdentifyAgain(l.header, l.who.addr)
		if revoked != nil {
			grant = l.who.grant
		}
		caller, _ := l.callerWith(grant) // the refusal is known
		t = l.newTurn(asks, part, caller)
		t.account.Owe(l.ctx)
		t.refusal, t.refused, t.isLast = refusal, time.Now(), true
	}
	return t, nil
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
func (l *relay) done(id string, response jsonscan.Value, isTranscript bool) (told happened) {
	code := ""
	switch status := string(response.Get("status").Text()); {
	case status == "failed", isTranscript && strings.HasSuffix(string(response.Get("type").Text()), ".failed"):
		code = schema.CodeUpstreamError
	case status == "cancelled":
		code = schema.CodeCancelled
	}
	l.mu.Lock()
	// The connection has ended, it is a failed transcript without any content, or it was
	// counted before.
	isNone := l.running[id] == nil && (l.ended || isTranscript && code != "") || l.isRepeated(id)
	l.mu.Unlock()
	if isNone {
		l.takeExpected().giveBack()
		return told
	}
	if err := l.begin(id, false); err != nil { // of one that was not announced
		return happened{refusal: err, isLast: true}
	}
	usage := schema.ReadUsage(response.Get("usage"))
	t, isLate := l.stopRunning(id)
	if t == nil {
		return told
	}
	if isLate && code == schema.CodeCancelled {
		code = schema.CodeUpstreamTimeout
	}
	defer l.settle(t, usage, code) // also after a panic
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isTranscript {
		l.talk.End(t.part, usage, response.Get("output"))
	}
	return happened{refusal: t.refusal, isLast: t.isLast}
}
