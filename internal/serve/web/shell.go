package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// Shell is the outermost handler. It does the work that every request needs before and
// after its handler: the request id, CORS, the record of the request, panics and the access
// log.
type Shell struct {
	next    http.Handler
	options Options
	access  *slog.Logger
	running *inFlight
	origins *origins
}

// Options are the settings of a Shell.
type Options struct {
	Log *slog.Logger
	// AccessLog writes a line for every request. Of the successful ones it writes
	// the share AccessSample, from 0 to 1.
	AccessLog    bool
	AccessSample float64
	// AccessFields are the personal fields that lines have.
	AccessFields []string
	// Recorder counts and records requests; nil does neither.
	Recorder *calls.Recorder
	// Origins are the web origins with pages that may read replies; "*" allows all.
	Origins []string
	// KeysNeeded reports whether callers of the unified API need a key; nil means that they
	// do not.
	KeysNeeded func() bool
	// Fail answers a request that cannot be handled: it is malformed, or its handler
	// panicked.
	Fail func(w http.ResponseWriter, r *http.Request, err *schema.Error)
}

// NewShell returns a Shell around a handler.
func NewShell(next http.Handler, options Options) *Shell {
	return &Shell{next: next, options: options, access: logs.Named(options.Log, logs.Access), running: newInFlight(),
		origins: newOrigins(options.Origins, options.KeysNeeded)}
}

// With returns a shell around another handler. Both count their requests together.
func (s *Shell) With(next http.Handler) *Shell {
	other := NewShell(next, s.options)
	other.running, other.origins = s.running, s.origins
	return other
}

var _ http.Handler = (*Shell)(nil)

// ServeHTTP runs one request.
func (s *Shell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response := s.begin(w, r)
	if r.ProtoMajor == 2 {
		response.stream = newStream(w)
		defer response.stream.end()
		r.Body = &streamBody{ReadCloser: r.Body, stream: response.stream}
	}
	s.serve(response, r)
}

// begin returns the writer of a reply, with a record and with the headers that all replies
// have.
func (s *Shell) begin(w http.ResponseWriter, r *http.Request) *Response {
	id := requestID(r.Header)
	response := &Response{ResponseWriter: w, call: calls.Record{Started: time.Now(), RequestID: id},
		id: [...]string{id}, wantsCodes: len(r.Header[CodesHeader]) > 0}
	header := w.Header()
	header["X-Request-Id"] = response.id[:]
	header["X-Content-Type-Options"] = noSniff
	s.origins.allow(header, r)
	response.closing = &s.running.draining
	if r.ProtoMajor == 2 {
		response.closing = &s.running.shut
	}
	return response
}

// serve runs the handler of a request.
func (s *Shell) serve(w *Response, r *http.Request) {
	if !isProbe(r.URL.Path) {
		defer s.running.leave(s.running.enter())
	}
	defer s.finish(w, r)
	s.logArrival(&w.call, r)
	s.next.ServeHTTP(w, r)
}

// finish ends a request: it catches a panic of the handler, counts and records the
// request, and writes its line in the access log.
func (s *Shell) finish(w *Response, r *http.Request) {
	panicked := recover()
	if panicked == nil {
		s.record(&w.call, r)
		return
	}
	defer s.record(&w.call, r)
	caught := logs.Caught(panicked)
	if errors.Is(caught, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	w.call.Code = cmp.Or(w.call.Code, schema.CodeInternal)
	caught.Report(s.options.Log, "handler", slog.String("request_id", w.call.RequestID))
	if w.Begun() {
		panic(http.ErrAbortHandler) // an incomplete reply must not look complete
	}
	s.options.Fail(w, r, schema.CodedError(schema.CodeInternal, "call.failed"))
}

// record passes the record of a request that has ended to the recorder and the access
// log.
func (s *Shell) record(c *calls.Record, r *http.Request) {
	c.Ended = time.Since(c.Started)
	s.options.Recorder.Registry().HTTP(r.URL.Path, c.Status, c.Ended)
	if c.Unified {
		s.options.Recorder.Finish(c)
	}
	s.log(c, r)
}

// requestID returns the caller's id if it is harmless everywhere, else a new one.
func requestID(h http.Header) string {
	if given := h["X-Request-Id"]; len(given) == 1 && isValidID(given[0]) {
		return given[0]
	}
	return newRequestID()
}

// newRequestID returns an id of 128 random bits. They come from the generator of the
// runtime: nobody gains by guessing an id, and asking the system takes longer.
func newRequestID() string {
	const alphabet, half = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 13
	id := [4 + 2*half]byte{'r', 'e', 'q', '_'}
	first, second := rand.Uint64(), rand.Uint64() //nolint:gosec // see above
	for i := 4; i < 4+half; i++ {
		id[i], id[i+half] = alphabet[first%32], alphabet[second%32]
		first, second = first/32, second/32
	}
	return string(id[:])
}

// isValidID reports whether an id means nothing to a shell, a page or a log. People who
// look into a request paste it there. A valid id matches [A-Za-z0-9._:-]{1,128}.
func isValidID(id string) bool {
	const longest = 128
	for i := range len(id) {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > ':') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return id != "" && len(id) <= longest
}

// ClientAddr returns the address of the client: the socket's, or behind trusted
// proxies the right-most address that is not one of them.
func ClientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := peer.Addr().Unmap()
	forwarded := r.Header["X-Forwarded-For"]
	for n := len(forwarded) - 1; n >= 0; n-- {
		hops := forwarded[n]
		for hops != "" {
			if !isTrusted(addr, trusted) {
				return addr
			}
			var hop string
			if comma := strings.LastIndexByte(hops, ','); comma >= 0 {
				hops, hop = hops[:comma], hops[comma+1:]
			} else {
				hops, hop = "", hops
			}
			next, ok := parseHop(strings.TrimSpace(hop))
			if !ok {
				return addr // an entry that is no address cannot be trusted
			}
			addr = next
		}
	}
	return addr
}

func parseHop(text string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

func isTrusted(addr netip.Addr, trusted []netip.Prefix) bool {
	for _, prefix := range trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// log writes the access log line of a request, unless its level is off or sampling
// leaves it out.
func (s *Shell) log(c *calls.Record, r *http.Request) {
	level := levelOf(c, r.URL.Path)
	if !s.options.AccessLog || !s.access.Enabled(r.Context(), level) || s.leftOut(c) {
		return
	}
	status := c.Status
	if c.Gone {
		status = schema.StatusCancelled
	}
	attrs := append(make([]slog.Attr, 0, 20),
		slog.String("request_id", c.RequestID),
		slog.String("method", Shorten(r.Method)),
		slog.String("path", loggedPath(r)),
		slog.Int("status", status),
		slog.Float64("duration_ms", milliseconds(c.Ended)))
	if c.Unified {
		attrs = append(attrs, slog.String("service", c.Service.String()),
			slog.String("model", cmp.Or(c.Model, c.Asked)),
			slog.String("instance", c.Instance), slog.Int("attempts", c.Attempts))
		attrs = s.appendCaller(attrs, c)
		if c.Resumed > 0 {
			attrs = append(attrs, slog.Int("resumed", c.Resumed))
		}
		if c.Model != "" && c.Asked != "" {
			attrs = append(attrs, slog.String("asked", c.Asked))
		}
	}
	if c.FirstToken > 0 {
		attrs = append(attrs, slog.Float64("ttft_ms", milliseconds(c.FirstToken)))
	}
	if c.PerToken > 0 {
		attrs = append(attrs, slog.Float64("tpot_ms", milliseconds(c.PerToken)))
	}
	if c.Usage.Known {
		attrs = append(attrs, slog.Int64("prompt_tokens", c.Usage.Prompt),
			slog.Int64("completion_tokens", c.Usage.Completion))
	}
	if c.Cost > 0 {
		attrs = append(attrs, slog.String("cost", c.Cost.String()))
	}
	if c.Code != "" {
		attrs = append(attrs, slog.String("error_code", c.Code))
	}
	if cause := c.Cause(); cause != "" {
		attrs = append(attrs, slog.String("cause", cause))
	}
	if retry := r.Header["X-Stainless-Retry-Count"]; len(retry) > 0 && retry[0] != "" && retry[0] != "0" &&
		len(retry[0]) < 4 {
		attrs = append(attrs, slog.String("client_retry", retry[0]))
	}
	// a log that fails is no fault of the request
	_ = logs.WriteAttrs(r.Context(), s.access, c.Started.Add(c.Ended), level, "request", attrs)
}

// appendCaller adds the caller of a request: key and tenant, and the further fields that
// the settings name.
func (s *Shell) appendCaller(attrs []slog.Attr, c *calls.Record) []slog.Attr {
	if c.KeyID != "" {
		attrs = append(attrs, slog.String("key_id", c.KeyID))
	}
	if c.Tenant != "" {
		attrs = append(attrs, slog.String("tenant", Shorten(c.Tenant)))
	}
	for _, field := range s.options.AccessFields {
		switch {
		case field == logs.FieldUser && c.User != "":
			attrs = append(attrs, slog.String(field, Shorten(c.User)))
		case field == logs.FieldAddress && c.Client.IsValid():
			attrs = append(attrs, slog.String(field, c.Client.String()))
		}
	}
	return attrs
}

// logArrival writes at DEBUG that a request has come. Without it, the log would not show a
// request that does not end.
func (s *Shell) logArrival(c *calls.Record, r *http.Request) {
	if !s.options.AccessLog || isProbe(r.URL.Path) || !s.access.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	_ = logs.WriteAttrs(r.Context(), s.access, c.Started, slog.LevelDebug, "request arrived", []slog.Attr{
		slog.String("request_id", c.RequestID), slog.String("method", Shorten(r.Method)),
		slog.String("path", loggedPath(r)),
		slog.String("peer", r.RemoteAddr), slog.String("protocol", r.Proto), slog.Int64("length", r.ContentLength),
	}) // a log that fails is no fault of the request
}

// loggedPath returns the path of a request for a log. It takes no more than a short line of
// the log, even if the client sent more.
func loggedPath(r *http.Request) string {
	const longest = 512
	return CutText(access.MaskPath(r.URL.Path), longest)
}

// levelOf returns the level of a request's line. A client that left is not a warning.
func levelOf(c *calls.Record, path string) slog.Level {
	switch {
	case isProbe(path):
		return slog.LevelDebug
	case c.Status >= http.StatusInternalServerError && !c.Gone:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// leftOut decides at random whether a successful request gets no line. Every other
// request gets one.
func (s *Shell) leftOut(c *calls.Record) bool {
	sample := s.options.AccessSample
	if sample >= 1 || c.Status >= http.StatusBadRequest || c.Code != "" || c.Gone {
		return false
	}
	return rand.Float64() >= sample //nolint:gosec // nobody gains by guessing it
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// ErrStopping is the cause of ending the contexts of requests that still run when the time
// for a shutdown is over.
var ErrStopping = errors.New("the gateway is shutting down")

// inFlight counts the requests that a shutdown waits for: early ones began before the
// shutdown, and late ones after it.
type inFlight struct {
	early, late atomic.Int64
	draining    atomic.Bool
	shut        atomic.Bool   // the early ones have ended, and no connection is accepted
	idle        chan struct{} // is sent to when a count reaches zero during a drain
}

func newInFlight() *inFlight { return &inFlight{idle: make(chan struct{}, 1)} }

// isProbe reports whether requests to a path come from programs that watch the gateway
// and keep asking: a shutdown does not wait for them, and they are not worth a line in the
// log.
func isProbe(path string) bool { return strings.HasPrefix(path, "/actuator") }

// enter counts a request and returns the counter that it was added to, for leave.
func (f *inFlight) enter() *atomic.Int64 {
	f.early.Add(1)
	if !f.draining.Load() {
		return &f.early
	}
	f.late.Add(1)
	f.leave(&f.early)
	return &f.late
}

func (f *inFlight) leave(count *atomic.Int64) {
	if count.Add(-1) == 0 && f.draining.Load() {
		select {
		case f.idle <- struct{}{}:
		default:
		}
	}
}

// wait waits until a count is zero, or until the context ends.
func (f *inFlight) wait(ctx context.Context, count *atomic.Int64) error {
	for count.Load() > 0 {
		select {
		case <-f.idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Drain waits until no request is running, or until the context ends. From now on every
// reply has "Connection: close", and clients connect to another gateway. When the requests
// that ran at the beginning have ended, Drain calls shut, which must close the listener;
// without it new requests would keep the gateway from stopping. Only then does Drain send
// GOAWAY on connections of HTTP/2, because some clients give up every request on a
// connection that gets it.
func (s *Shell) Drain(ctx context.Context, shut func()) error {
	s.running.draining.Store(true)
	if err := s.running.wait(ctx, &s.running.early); err != nil {
		return err
	}
	s.running.shut.Store(true)
	shut()
	return s.running.wait(ctx, &s.running.late)
}

// FirstOf returns the first value of a header, or an empty text. The name must have the
// canonical form.
func FirstOf(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Shorten cuts a text of a client to a length that fits a message.
func Shorten(text string) string { return CutText(text, 160) }

// CutText cuts a text that is longer than so many bytes, and marks the cut.
func CutText(text string, longest int) string {
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
