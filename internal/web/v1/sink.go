package v1

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/proxy"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// The exchange is the sink of the proxy's answer.
var _ proxy.Sink = (*exchange)(nil)

var (
	contentJSON   = []string{proxy.TypeJSON}
	contentEvents = []string{proxy.TypeEvents}
	noCache       = []string{"no-cache"}
	noBuffering   = []string{"no"}
)

// Route tells the client, and the record, where the request went.
func (x *exchange) Route(route proxy.Route) {
	header := x.w.Header()
	if route.Asked != "" {
		x.call.Asked = shorten(route.Asked)
		if route.Model != "" {
			header["X-Router-Model"] = []string{headerText(route.Model)}
		}
	}
	if route.Instance != nil {
		header["X-Router-Instance"] = route.Instance.HandleHeader
		x.passed.stick(route.Instance.ID)
	}
	header["X-Router-Attempts"] = attemptsText(route.Attempts)
	if route.Cache != metrics.CacheOff {
		header["X-Router-Cache"] = []string{route.Cache.String()}
	}
	showLimits(header, &route)
}

// attemptsText returns the value of X-Router-Attempts. Small numbers take no memory.
func attemptsText(n int) []string {
	if n < len(smallNumbers) {
		return smallNumbers[n : n+1 : n+1]
	}
	return []string{strconv.Itoa(n)}
}

// smallNumbers covers the attempts that a request can make.
var smallNumbers = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}

// headerText returns a name as a header can carry it: what is not ASCII is escaped as in
// a URL.
func headerText(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return url.PathEscape(name)
		}
	}
	return name
}

// Head begins a successful answer.
func (x *exchange) Head(head proxy.Head) {
	header := x.w.Header()
	switch head.ContentType {
	case proxy.TypeJSON:
		header["Content-Type"] = contentJSON
	case proxy.TypeEvents:
		header["Content-Type"] = contentEvents
	default:
		header["Content-Type"] = []string{head.ContentType}
	}
	if head.Length >= 0 {
		web.AnnounceLength(x.w, head.Length)
	}
	if head.Events {
		header["Cache-Control"], header["X-Accel-Buffering"] = noCache, noBuffering
	}
	if asksForTiming(x.r) {
		header["X-Router-Overhead-Ms"] = []string{overheadText(x.call.SoFar(time.Now()))}
	}
	x.w.WriteHeader(http.StatusOK)
	x.sender = web.SenderOf(x.w)
	if head.Probe != nil {
		web.ProbeWith(x.w, head.Probe)
	}
}

// asksForTiming reports whether the client wants to know how long the gateway itself
// took. Others do not pay for it: a moment, a text and a further header are a measurable
// part of what the gateway does for a request.
func asksForTiming(r *http.Request) bool { return web.FirstOf(r.Header, "X-Router-Timing") != "" }

// overheadText returns a length of time in milliseconds with microseconds behind the point.
func overheadText(d time.Duration) string {
	return strconv.FormatFloat(float64(max(d, 0))/float64(time.Millisecond), 'f', 3, 64)
}

// Write adds to the body of the answer.
func (x *exchange) Write(p []byte) (int, error) { return x.w.Write(p) }

// Send adds to the body of the answer and sends what was written.
func (x *exchange) Send(p []byte) error {
	if x.sender != nil {
		return x.sender.Send(p)
	}
	if _, err := x.w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(x.w).Flush()
}
