package web

import (
	"cmp"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/logs"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Shell is the outermost handler. It does what every request needs before and after its
// handler: the request id, CORS, the record of the request, panics and the access log.
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
	// Recorder counts and records requests; nil does neither.
	Recorder *calls.Recorder
	// Origins are the web origins whose pages may read replies; "*" allows all.
	Origins []string
	// Fail answers a request that cannot be handled: one that is malformed, or
	// one whose handler panicked.
	Fail func(w http.ResponseWriter, r *http.Request, err *schema.Error)
}

// NewShell returns a Shell around a handler.
func NewShell(next http.Handler, options Options) *Shell {
	return &Shell{next: next, options: options, access: logs.Named(options.Log, logs.Access), running: newInFlight(), origins: newOrigins(options.Origins)}
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
	response := &Response{ResponseWriter: w, call: calls.Call{Started: time.Now(), RequestID: id}, id: [...]string{id}}
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
	p := recover()
	if p == nil {
		s.record(&w.call, r)
		return
	}
	defer s.record(&w.call, r)
	if err, _ := p.(error); errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	w.call.Code = cmp.Or(w.call.Code, schema.CodeInternal)
	s.options.Log.LogAttrs(r.Context(), slog.LevelError, "handler panicked",
		slog.String("request_id", w.call.RequestID), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	if w.Begun() {
		panic(http.ErrAbortHandler) // an incomplete reply must not look complete
	}
	s.options.Fail(w, r, schema.NewError(schema.CodeInternal, "The gateway failed to handle the request."))
}

// record passes the record of a request that has ended to the recorder and the access
// log.
func (s *Shell) record(c *calls.Call, r *http.Request) {
	c.Ended = time.Since(c.Started)
	s.options.Recorder.HTTP(r.URL.Path, c.Status, c.Ended)
	if c.Unified {
		s.options.Recorder.Finish(c)
	}
	s.log(c, r)
}

// requestID returns the caller's id if it can stand anywhere, else a new one.
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

// isValidID reports whether an id means nothing to a shell, a page or a log, in which
// people who look into a request put it: [A-Za-z0-9._:-]{1,128}.
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
