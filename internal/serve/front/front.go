// Package front is the HTTP/1.1 server of the gateway. It answers requests on one goroutine per
// connection, with one read and one write for most requests, and holds no buffer while it waits.
// It accepts no request that net/http would refuse, and refuses some more. It does not serve
// HTTP/2.
package front

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// Options are the settings of a Server.
type Options struct {
	Handler http.Handler
	// HeadTime bounds the time for the head of a request, and IdleTime the wait of a
	// connection for the next request; 0 means no bound.
	HeadTime, IdleTime time.Duration
	// MaxHead is the largest head of a request in bytes.
	MaxHead int
	// Refuse returns the whole reply to a request that is not valid.
	Refuse func(Refusal) []byte
	// Base is the context of all requests.
	Base context.Context
	Log  *slog.Logger
}

// Server serves the connections of one listener.
type Server struct {
	options Options

	listener net.Listener
	watcher  *watcher // nil where there is no poller; see ahead
	// unwatched says that the watcher has failed.
	unwatched atomic.Bool

	mu      sync.Mutex
	conns   map[*conn]struct{}
	closing atomic.Bool
	serving sync.WaitGroup
	woken   chan struct{} // gets a token when the first connection is there
	none    chan struct{} // gets a token when the last one has ended
	stop    chan struct{} // is closed with closing

	buffers sync.Pool // *[bufferSize]byte
	date    atomic.Pointer[date]
	known   knownTexts
	blank   http.Request // the template of all requests
}

// New returns a Server.
func New(options Options) *Server {
	return &Server{
		options: options,
		conns:   make(map[*conn]struct{}),
		woken:   make(chan struct{}, 1),
		none:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		buffers: sync.Pool{New: func() any { return new([bufferSize]byte) }},
		known:   newKnownTexts(),
	}
}

// Serve serves the connections of the listener until it fails or is closed, and
// returns why.
func (s *Server) Serve() error {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			if isTemporary(err) && !s.closing.Load() {
				s.pause()
				continue
			}
			return err
		}
		s.add(newConn(s, nc))
	}
}

// Start starts the goroutines beside the connections of a listener. It is called once, before
// Serve.
func (s *Server) Start(listener net.Listener) {
	s.listener = listener
	watcher, err := newWatcher()
	if err != nil {
		s.options.Log.Debug("clients that leave are noticed by a goroutine for each request", "reason", err)
	}
	if s.watcher = watcher; watcher != nil {
		s.serving.Go(func() {
			if !logs.Contain(s.options.Log, "watching for clients that leave", s.watch) {
				s.unwatched.Store(true)
			}
		})
	}
	s.serving.Go(s.expire)
}

// watch watches for clients that leave. If the poller fails before the server is closed, the
// server notices that the client of a running request has left only when it sends something
// to that client. A goroutine for each later request then watches instead.
func (s *Server) watch() {
	err := s.watcher.run()
	if s.closing.Load() {
		return
	}
	s.unwatched.Store(true)
	s.options.Log.Error("clients that leave cannot be watched for any more; from now on a goroutine for each request "+
		"does that", "error", err)
}

// pause waits until it is likely that another connection can be accepted: mostly
// there are too many open files.
func (s *Server) pause() {
	const while = 10 * time.Millisecond
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stop:
	}
}

func isTemporary(err error) bool {
	temporary, ok := err.(interface{ Temporary() bool })
	return ok && temporary.Temporary()
}

// add begins to serve a connection, unless the server has been closed.
func (s *Server) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		_ = c.nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.serving.Go(func() { logs.Contain(s.options.Log, "serving a connection", c.serve) })
	if len(s.conns) == 1 {
		select {
		case s.woken <- struct{}{}:
		default:
		}
	}
}

// remove takes out a connection that add put in.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) == 0 {
		select {
		case s.none <- struct{}{}:
		default:
		}
	}
}

// Shutdown closes the connections that wait for a request, but for those on which bytes have come
// that are not read yet, and waits until the others have ended theirs, or until the context ends.
// The listener has been closed, and replies end their connections.
func (s *Server) Shutdown(ctx context.Context) error {
	s.letGo(ctx)
	s.halt(func(c *conn) {
		if state := c.state.Load(); (stepOf(state) == idle || stepOf(state) == fresh) && !c.hasUnread() {
			c.closeIn(state)
		}
	})
	for s.count() > 0 {
		select {
		case <-s.none:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// letGo serves the requests that are on their way on connections that seem idle: a proxy cannot
// send them elsewhere once it has written them. Each request ends its connection. When the number
// of connections stays the same for a while, no request is on the way any more. The while is long
// for a busy machine, on which neither side gets its turn at once.
func (s *Server) letGo(ctx context.Context) {
	const look, still, looks = 20 * time.Millisecond, 10, 100
	before, same := s.count(), 0
	for range looks {
		if before == 0 || same == still {
			return
		}
		if waiting.Pause(ctx, look) != nil {
			return
		}
		now := s.count()
		if same++; now != before {
			before, same = now, 0
		}
	}
}

// count returns how many connections there are.
func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Close ends all requests and closes all connections at once, and waits until no connection
// is served.
func (s *Server) Close() {
	s.halt((*conn).abort)
	s.serving.Wait()
}

// halt ends the goroutines beside the connections, and ends each connection with end.
func (s *Server) halt(end func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing.Swap(true) {
		close(s.stop)
		if s.watcher != nil {
			s.watcher.close()
		}
	}
	for c := range s.conns {
		end(c)
	}
}

// expire closes connections that wait for the next request, or for the rest of a
// head, for too long. No deadline is set for that: a look at all connections now and
// then costs less.
func (s *Server) expire() {
	every := time.Second
	for _, timeout := range []time.Duration{s.options.HeadTime, s.options.IdleTime} {
		if timeout > 0 {
			every = min(every, timeout/4)
		}
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-timer.C:
		}
		if s.expireNow(time.Now()) == 0 {
			select {
			case <-s.stop:
				return
			case <-s.woken:
			}
		}
		timer.Reset(every)
	}
}

// expireNow closes the connections that have run out of time, and returns how many are left to
// look at.
func (s *Server) expireNow(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		state := c.state.Load()
		if state != c.seen {
			if state != firstHead { // which is awaited from the beginning on
				c.since = now
			}
			c.seen = state
		}
		var allowed time.Duration
		switch stepOf(state) {
		case idle:
			allowed = s.options.IdleTime
		case fresh, reading:
			allowed = s.options.HeadTime
		}
		if allowed > 0 && now.Sub(c.since) >= allowed {
			c.closeIn(state)
		}
	}
	return len(s.conns)
}

// date is the Date header of replies that are sent in one second.
type date struct {
	second int64
	text   string
}

// dateAt returns the Date header at a time.
func (s *Server) dateAt(now time.Time) string {
	known := s.date.Load()
	if second := now.Unix(); known == nil || known.second != second {
		known = &date{second, now.UTC().Format(http.TimeFormat)}
		s.date.Store(known)
	}
	return known.text
}

const (
	// BaseAllowance bounds the time for a body to arrive, and for a reply to be read,
	// beside a second for every BytesPerSecond bytes. That is enough for slow links, and
	// closes connections that are kept open by a few bytes now and then.
	BaseAllowance = 30 * time.Second
	// BytesPerSecond is the least speed of a transfer that lasts.
	BytesPerSecond = 64 << 10
	// probeAgain is the delay of the second probe of a client that may have left. A proxy
	// between the gateway and the client may consume the first one.
	probeAgain = 50 * time.Millisecond
	// interim is the reply that probes a client before the head of its reply.
	interim = "HTTP/1.1 100 Continue\r\n\r\n"
)

// Allowance returns how long the transfer of so many bytes may take.
func Allowance(bytes int64) time.Duration {
	return BaseAllowance + time.Duration(bytes/BytesPerSecond)*time.Second
}
