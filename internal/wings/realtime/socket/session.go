package socket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/front"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/realtime/sockets"
)

// The bounds of one connection that nobody needs to set.
const (
	// mostRunning is how many lanes are answered at the same time, and mostWaiting how
	// many messages may wait for the one before them.
	mostRunning = 8
	mostWaiting = 16
	// mostPings is how many pings a client may send within a second.
	mostPings = 20
	// askAgain is the time between two questions whether the connection may stay.
	askAgain = time.Second / 2
	// closing is how long the client may take to answer that the connection is closed.
	closing = time.Second
	// stoppingReason is why connections are closed when the gateway stops.
	stoppingReason = "the gateway is shutting down"
)

// session is one connection over which responses are asked for.
type session struct {
	doors  *Doors
	opened *http.Request
	who    visitor
	id     string // of the request that opened it
	header http.Header
	conn   *websocket.Conn
	below  net.Conn // see hijacked
	// ctx is that of the connection, and calls that of the requests on it, which end
	// before it.
	ctx, calls      context.Context //nolint:containedctx // both live as long as the connection
	cancel, abandon context.CancelFunc
	began           time.Time

	// heard counts what has come, so that a client which sends is not taken for one that
	// does not answer pings.
	heard atomic.Int64
	// pings are those of the client in the second that began at pingsSince; only the
	// reader counts them.
	pings      int
	pingsSince time.Time

	working sync.WaitGroup
	// quiet is sent to when the last answer has ended.
	quiet chan struct{}

	mu      sync.Mutex
	memory  memory.Lease
	lanes   map[string]*lane
	waiting int
	count   int
	used    time.Time // when something was asked or answered last
	ended   bool
	kept    []*conversation
}

// lane is the messages with one stream_id. They are answered one after the other.
type lane struct{ waiting []*create }

func newSession(d *Doors, r *http.Request, who visitor) *session {
	now := time.Now()
	s := &session{
		doors: d, opened: r, who: who, header: headerOf(r.Header), began: now, used: now,
		quiet: make(chan struct{}, 1), lanes: make(map[string]*lane), memory: d.leaseFor(who),
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	s.calls, s.abandon = context.WithCancel(s.ctx)
	return s
}

// run reads messages until the connection ends, and waits for everything that it began.
func (s *session) run(conn *websocket.Conn, below net.Conn, id string) {
	s.conn, s.below, s.id = conn, below, id
	conn.SetReadLimit(int64(s.doors.options.Current.Load().Limits.JSONBody))
	defer context.AfterFunc(s.opened.Context(), func() {
		if errors.Is(context.Cause(s.opened.Context()), web.ErrStopping) {
			s.sendError("", proxy.Stopping())
			s.end(websocket.StatusGoingAway, stoppingReason)
		} else {
			s.cancel() // the client is gone
		}
	})()
	watch, done := context.WithCancel(s.ctx)
	s.working.Go(func() { s.contain("", "watching a WebSocket", func() { s.watch(watch) }) })
	s.contain("", "reading from a client", s.takeAll)
	done()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cancel() // whoever left frees the backends
	s.working.Wait()
	_ = conn.CloseNow() // it is closed in most cases
}

// takeAll takes messages until none comes any more.
func (s *session) takeAll() {
	for {
		text, err := s.read()
		if err != nil {
			return
		}
		s.take(text)
	}
}

// contain runs a part of the work, for a lane or for none. A panic of it ends the connection.
func (s *session) contain(lane, doing string, work func()) {
	if logs.Contain(s.doors.options.Log, doing, work) {
		return
	}
	s.sendError(lane, schema.NewError(schema.CodeInternal, "The gateway failed to handle the message."))
	s.end(websocket.StatusInternalError, schema.CodeInternal)
}

// pinged decides whether a ping is answered, and ends the connection of a client that sends
// too many.
func (s *session) pinged(context.Context, []byte) bool {
	s.heard.Add(1)
	now := time.Now()
	if now.Sub(s.pingsSince) >= time.Second {
		s.pings, s.pingsSince = 0, now
	}
	if s.pings++; s.pings > mostPings {
		s.end(websocket.StatusPolicyViolation, "too many pings")
		return false
	}
	return true
}

// read returns the next message. It has taken the memory for it.
func (s *session) read() ([]byte, error) {
	text, err := readClient(s.ctx, s.conn, s.reserve, &s.heard, s.end)
	switch {
	case errors.As(err, new(*schema.Error)): // there is no memory
		return nil, s.refuseMemory(err)
	case errors.Is(err, websocket.ErrMessageTooBig):
		// Closing reads what still comes, so that the reset of unread bytes does not overtake the reason.
		s.end(websocket.StatusMessageTooBig, "the message is too large")
	}
	return text, err
}

// refuseMemory ends the connection because there is no memory for a message, of which the
// rest would have to be read.
func (s *session) refuseMemory(err error) error {
	s.sendError("", err)
	s.end(websocket.StatusTryAgainLater, "there is no memory for the message")
	return err
}

// reserve takes memory for the messages of the connection.
func (s *session) reserve(bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memory.Take(int64(bytes)) != memory.Granted {
		return overloaded("The gateway has no memory left for this message; try again shortly.")
	}
	return nil
}

// release gives memory back.
func (s *session) release(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Keep(s.memory.Held() - bytes)
}

// take takes a message.
func (s *session) take(text []byte) {
	memory := int64(cap(text))
	c, fault := readCreate(text, func(bytes int) error {
		memory += int64(bytes)
		return s.reserve(bytes)
	})
	c.memory = memory
	if fault == nil {
		fault = s.enter(c)
	}
	if fault != nil {
		s.release(c.memory)
		s.sendError(c.lane, fault)
	}
}

// enter begins to answer a message, or has it wait for the one before it.
func (s *session) enter(c *create) *schema.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[c.lane]
	switch {
	case s.doors.isStopping():
		return proxy.Stopping()
	case s.isOld():
		return tooOld()
	case l != nil && s.waiting == mostWaiting:
		return tooMany("As many messages as may wait on one connection (" + strconv.Itoa(mostWaiting) + ") wait for the responses before them.")
	case l != nil:
		l.waiting = append(l.waiting, c)
		s.waiting++
		return nil
	case len(s.lanes) == mostRunning:
		return tooMany("As many responses as may be made on one connection at a time (" + strconv.Itoa(mostRunning) + ") are being made.")
	}
	l = new(lane)
	s.lanes[c.lane] = l
	s.working.Go(func() { s.contain(c.lane, "answering on a WebSocket", func() { s.work(l, c) }) })
	return nil
}

func tooMany(message string) *schema.Error {
	known := schema.NewError(schema.CodeNoSlot, message)
	known.RetryAfter = time.Second
	return known
}

// work answers the messages of a lane until none is left.
func (s *session) work(l *lane, c *create) {
	for c != nil {
		s.contain(c.lane, "answering a message", func() { s.answer(c) })
		s.release(c.memory)
		c = s.next(l, c.lane)
	}
}

// next returns the message of a lane that comes next, nil where there is none.
func (s *session) next(l *lane, name string) *create {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
	if len(l.waiting) > 0 {
		c := l.waiting[0]
		l.waiting = l.waiting[1:]
		s.waiting--
		return c
	}
	delete(s.lanes, name)
	if len(s.lanes) == 0 {
		select {
		case s.quiet <- struct{}{}:
		default:
		}
	}
	return nil
}

// watch asks whether the connection may stay, and ends it when it may not.
func (s *session) watch(ctx context.Context) {
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	stopping := s.doors.stopping
	var pinging sync.WaitGroup
	defer pinging.Wait()
	pinged := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			stopping = nil
		case <-s.quiet:
		case <-tick.C:
		}
		settings := s.doors.options.Current.Load().Limits.WebSockets
		if s.mayStay(settings) {
			if time.Since(pinged) >= settings.Ping.Std() {
				pinged = time.Now()
				pinging.Go(func() { s.contain("", "asking a client", func() { s.ping(ctx, settings.Ping.Std()) }) })
			}
			continue
		}
		return
	}
}

// mayStay reports whether the connection may stay open, and ends it if not.
func (s *session) mayStay(settings sockets.Settings) bool {
	if refusal := s.doors.options.Keys.Check(s.header, s.who.addr); refusal != nil {
		s.sendError("", refusal)
		s.end(websocket.StatusPolicyViolation, refusal.Code)
		return false
	}
	isStopping, isOld := s.doors.isStopping(), s.isOld()
	s.mu.Lock()
	isQuiet := len(s.lanes) == 0
	isIdle := isQuiet && time.Since(s.used) >= settings.Idle.Std()
	s.mu.Unlock()
	switch {
	case isQuiet && isStopping:
		s.end(websocket.StatusGoingAway, stoppingReason)
	case isQuiet && isOld:
		s.sendError("", tooOld())
		s.end(websocket.StatusNormalClosure, schema.CodeSocketTooOld)
	case isIdle:
		s.end(websocket.StatusNormalClosure, "nothing was asked for too long")
	default:
		return true
	}
	return false
}

// isOld reports whether the connection has been open for too long, so that nothing more is
// begun on it.
func (s *session) isOld() bool {
	return time.Since(s.began) >= s.doors.options.Current.Load().Limits.WebSockets.Lifetime.Std()
}

// tooOld says that the connection has been open for too long.
func tooOld() *schema.Error {
	return schema.NewError(schema.CodeSocketTooOld, "The connection has been open for as long as one may be (limits.websockets.lifetime). Open another to go on.")
}

// ping asks the client whether it is there.
func (s *session) ping(ctx context.Context, patience time.Duration) {
	heard := s.heard.Load()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.conn.Ping(ctx) != nil && s.heard.Load() == heard && s.ctx.Err() == nil {
		s.cancel()
	}
}

// end ends the connection and everything that runs on it, and tells the client why.
func (s *session) end(code websocket.StatusCode, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	s.abandon()
	// Not waited for here, because it may be the reader that ends the connection, which
	// has to read the client's answer.
	s.working.Go(func() {
		late := time.AfterFunc(closing, func() {
			s.cancel()
			_ = s.below.Close() // see hijacked
		})
		defer late.Stop()
		defer s.cancel()
		logs.Contain(s.doors.options.Log, "ending a WebSocket", func() { _ = s.conn.Close(code, reason) }) // the client may be gone
	})
}

// sendError tells the client of an error that has no response.
func (s *session) sendError(lane string, err error) {
	var known *schema.Error
	if !errors.As(err, &known) {
		known = schema.NewError(schema.CodeInternal, "The gateway failed to handle the message.")
	}
	_ = s.send(errorEvent(lane, known.HTTPStatus(), known.Body(), retryHeader(known))) // the client may be gone
}

// send sends a message.
func (s *session) send(text []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, front.Allowance(int64(len(text))))
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, text)
}
