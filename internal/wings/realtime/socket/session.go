package socket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
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
)

// session is one connection over which responses are asked for.
type session struct {
	link
	opened *http.Request
	id     string // of the request that opened it
	// calls is the context of the requests on the connection. It ends before the context of
	// the connection.
	calls context.Context //nolint:containedctx // it lives as long as the connection
	// pings counts the client's pings in the second that began at pingsSince; only the
	// reader counts them.
	pings      int
	pingsSince time.Time

	// mu of the link guards these.
	memory  memory.Lease
	lanes   map[string]*lane
	waiting int
	kept    []*conversation
}

// lane is the messages with one stream_id. They are answered one after the other.
type lane struct{ waiting []*create }

func newSession(d *Doors, r *http.Request, who visitor) *session {
	now := time.Now()
	s := &session{
		link: link{doors: d, who: who, header: headerOf(r.Header), began: now, used: now,
			quiet: make(chan struct{}, 1)},
		opened: r, lanes: make(map[string]*lane), memory: d.leaseFor(who),
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	var abandon context.CancelFunc
	s.calls, abandon = context.WithCancel(s.ctx)
	s.leave, s.onEnd = s.cancel, func(websocket.StatusCode, string) { abandon() }
	s.tell = func(lane string, known *schema.Error) {
		_ = s.send(errorEvent(lane, known.HTTPStatus(), known.Body(), retryHeader(known))) // the client may be gone
	}
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
	s.working.Go(func() { s.contain("", "watching a WebSocket", func() { s.watch(watch, s.quiet, s.parting) }) })
	s.contain("", "reading from a client", s.takeAll)
	done()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cancel() // a client who left frees the backends
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
		// Closing reads the remaining bytes: a reset for unread bytes would overtake the
		// reason.
		s.end(websocket.StatusMessageTooBig, "the message is too large")
	}
	return text, err
}

// refuseMemory ends the connection because there is no memory for a message, and the rest
// of it would have to be read.
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
		return overloaded(say.New("socket.memory"))
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
		return tooMany(say.New("socket.waiting", "most", mostWaiting))
	case l != nil:
		l.waiting = append(l.waiting, c)
		s.waiting++
		return nil
	case len(s.lanes) == mostRunning:
		return tooMany(say.New("socket.running", "most", mostRunning))
	}
	l = new(lane)
	s.lanes[c.lane] = l
	s.working.Go(func() { s.contain(c.lane, "answering on a WebSocket", func() { s.work(l, c) }) })
	return nil
}

func tooMany(said say.Sentence) *schema.Error {
	known := schema.NewError(schema.CodeNoSlot, said)
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
		s.hush()
	}
	return nil
}

// parting returns why the connection may not stay open, nil while it may.
func (s *session) parting(settings sockets.Settings) *parting {
	isStopping, isOld := s.doors.isStopping(), s.isOld()
	s.mu.Lock()
	isQuiet := len(s.lanes) == 0
	isIdle := isQuiet && time.Since(s.used) >= settings.Idle.Std()
	s.mu.Unlock()
	switch {
	case isQuiet && isStopping:
		return &parting{nil, websocket.StatusGoingAway, stoppingReason}
	case isQuiet && isOld:
		return &parting{tooOld(), websocket.StatusNormalClosure, codeTooOld}
	case isIdle:
		return &parting{nil, websocket.StatusNormalClosure, "nothing was asked for too long"}
	}
	return nil
}

// send sends a message.
func (s *session) send(text []byte) error { return write(s.ctx, s.conn, websocket.MessageText, text) }
