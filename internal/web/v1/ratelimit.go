package v1

import (
	"net/http"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/proxy"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
)

// showLimits adds the headers for all limits that apply to a request.
func showLimits(header http.Header, route *proxy.Route) {
	showLimit(header, route.Limit)
	showKeyLimits(header, route)
}

// showLimit adds the x-ratelimit headers for the limit of a service type, a model or an
// instance.
func showLimit(header http.Header, d ratelimit.Decision) {
	if !d.Limited {
		return
	}
	header["X-Ratelimit-Limit-Requests"] = []string{strconv.Itoa(d.Limit)}
	header["X-Ratelimit-Remaining-Requests"] = []string{strconv.Itoa(d.Remaining)}
	header["X-Ratelimit-Reset-Requests"] = []string{d.ResetAfter.Round(time.Millisecond).String()}
}

// showKeyLimits adds the headers for the limits of the key and its tenant. Those for
// requests replace the ones of the service unless less is left there.
func showKeyLimits(header http.Header, route *proxy.Route) {
	if state := &route.KeyRequests; state.Limit > 0 && !(route.Limit.Limited && int64(route.Limit.Remaining) < state.Remaining) {
		header["X-Ratelimit-Limit-Requests"] = []string{strconv.FormatInt(state.Limit, 10)}
		header["X-Ratelimit-Remaining-Requests"] = []string{strconv.FormatInt(state.Remaining, 10)}
		header["X-Ratelimit-Reset-Requests"] = []string{state.ResetAfter.Round(time.Millisecond).String()}
	}
	if state := &route.KeyTokens; state.Limit > 0 {
		header["X-Ratelimit-Limit-Tokens"] = []string{strconv.FormatInt(state.Limit, 10)}
		header["X-Ratelimit-Remaining-Tokens"] = []string{strconv.FormatInt(state.Remaining, 10)}
		header["X-Ratelimit-Reset-Tokens"] = []string{state.ResetAfter.Round(time.Millisecond).String()}
	}
}
