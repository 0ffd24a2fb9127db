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

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/front"
	"github.com/patchbay-ai/patchbay/internal/wings/realtime/sockets"
)

const (
	// askAgain is the time between two questions whether the connection may stay.
	askAgain = time.Second / 2
	// closing is how long the client may take to answer that the connection is closed.
	closing = time.Second
	// stoppingReason is why connections are closed when the gateway stops.
	stoppingReason = "the gateway is shutting down"
)

// link is the client's side of a WebSocket, which a session or a relay has.
type link struct {
	doors  *Doors
	who    visitor
	header http.Header
	conn   *websocket.Conn
	below  net.Conn // see hijacked
	// ctx is the context of the connection, and leave ends the reading of the client's
	// messages.
	ctx           context.Context //nolint:containedctx // it lives as long as the connection
	cancel, leave context.CancelFunc
	began         time.Time
	// heard counts received bytes: a client that sends is alive even if it does not answer
	// pings.
	heard   atomic.Int64
	count   atomic.Int64 // of requests on the connection
	working sync.WaitGroup
	// quiet is sent to when the last answer has ended.
	quiet chan struct{}
	// tell tells the client of an error, in a lane or in none, and onEnd is called once, when the
	// connection is about to end; mu is held. beforeEnd is called before the client learns that the
	// watch ends the connection; it is nil if there is nothing to do.
	tell      func(lane string, known *schema.Error)
	onEnd     func(code websocket.StatusCode, reason string)
	beforeEnd func()

	mu    sync.Mutex
	used  time.Time // when something was asked or answered last
	ended bool
}

// parting is a reason why a connection may not stay.
type parting struct {
	known  *schema.Error // the error sent to the client before, nil for none
	code   websocket.StatusCode
	reason string
}

// contain runs a part of the work, for a lane or for none. A panic of it ends the connection.
func (l *link) contain(lane, doing string, work func()) {
	if logs.Contain(l.doors.options.Log, doing, work) {
		return
	}
	l.sendError(lane, nil)
	l.end(websocket.StatusInternalError, schema.CodeInternal)
}

// sendError tells the client of an error that has no response.
func (l *link) sendError(lane string, err error) {
	var known *schema.Error
	if !errors.As(err, &known) {
		known = schema.CodedError(schema.CodeInternal, "socket.failed")
	}
	l.tell(lane, known)
}

// watch asks whether the connection may stay, at intervals and whenever something comes from
// wake, and ends it when it may not: the function returns why, nil while it may.
func (l *link) watch(ctx context.Context, wake <-chan struct{}, why func(sockets.Settings) *parting) {
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	stopping := l.doors.stopping
	var pinging sync.WaitGroup
	defer pinging.Wait()
	pinged := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			stopping = nil
		case <-wake:
		case <-tick.C:
		}
		settings := *l.doors.bounds.Load()
		if p := l.mayStay(settings, why); p != nil {
			if l.beforeEnd != nil {
				l.beforeEnd()
			}
			if p.known != nil {
				l.sendError("", p.known)
			}
			l.end(p.code, p.reason)
			return
		}
		if time.Since(pinged) >= settings.Ping.Std() {
			pinged = time.Now()
			pinging.Go(func() { l.contain("", "asking a client", func() { l.ping(ctx, settings.Ping.Std()) }) })
		}
	}
}

// mayStay returns why the connection may not stay: its key is no longer good, or another reason.
func (l *link) mayStay(settings sockets.Settings, why func(sockets.Settings) *parting) *parting {
	if _, refusal := l.doors.options.Keys.IdentifyAgain(l.header, l.who.addr); refusal != nil {
		return &parting{refusal, websocket.StatusPolicyViolation, refusal.Code}
	}
	return why(settings)
}

// isOld reports whether the connection has been open for too long to begin anything more on
// it.
func (l *link) isOld() bool {
	return time.Since(l.began) >= l.doors.bounds.Load().Lifetime.Std()
}

// tooOld says that the connection has been open for too long.
func tooOld() *schema.Error {
	return schema.CodedError(codeTooOld, "socket.old")
}

// ping asks the client whether it is there.
func (l *link) ping(ctx context.Context, patience time.Duration) {
	heard := l.heard.Load()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if l.conn.Ping(ctx) != nil && l.heard.Load() == heard && l.ctx.Err() == nil {
		_ = l.conn.CloseNow()
	}
}

// nextID returns the id of the next request on a connection that was opened by one with an id.
func (l *link) nextID(opened string) string {
	return opened + "." + strconv.FormatInt(l.count.Add(1), 10)
}

// touch notes that something was asked or answered.
func (l *link) touch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = time.Now()
}

// hush notes that nothing is answered any more.
func (l *link) hush() {
	select {
	case l.quiet <- struct{}{}:
	default:
	}
}

// end ends the connection, and tells the client why.
func (l *link) end(code websocket.StatusCode, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.onEnd(code, reason)
	// Not waited for here, because it may be the reader that ends the connection, which
	// has to read the client's answer.
	l.working.Go(func() {
		late := time.AfterFunc(closing, func() {
			l.leave()
			_ = l.below.Close() // see hijacked
		})
		defer late.Stop()
		defer l.leave()
		// The client may be gone.
		logs.Contain(l.doors.options.Log, "ending a WebSocket", func() { _ = l.conn.Close(code, reason) })
	})
}

// write sends a message over a connection, within the time that its length allows.
func write(ctx context.Context, to *websocket.Conn, kind websocket.MessageType, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, front.Allowance(int64(len(text))))
	defer cancel()
	return to.Write(ctx, kind, text)
}
