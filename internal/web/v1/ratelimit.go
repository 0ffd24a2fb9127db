package v1

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
)

// showLimit tells the caller where it stands in the limit that covers it.
func (x *exchange) showLimit(d ratelimit.Decision) {
	if !d.Limited {
		return
	}
	header := x.w.Header()
	header["X-Ratelimit-Limit-Requests"] = []string{strconv.Itoa(d.Limit)}
	header["X-Ratelimit-Remaining-Requests"] = []string{strconv.Itoa(d.Remaining)}
	header["X-Ratelimit-Reset-Requests"] = []string{d.ResetAfter.Round(time.Millisecond).String()}
}

// showInstanceLimit is showLimit for a limit that each instance has of its own.
func (x *exchange) showInstanceLimit(i *backend.Instance) {
	x.showLimit(i.Limiter.Peek(netip.Addr{}, time.Now()))
}

// peekLimit shows the limit on the reply to a request that did not get as far as
// being counted: the one that would have covered it.
func (x *exchange) peekLimit() {
	service := x.current.Load().Service(x.call.Service)
	if service == nil {
		return
	}
	now := time.Now()
	found := service.Limiter.Peek(x.caller.Addr, now)
	if pool := service.FindBytes(x.request.Model); pool != nil && !found.Limited {
		found = pool.Limiter.Peek(x.caller.Addr, now)
		for _, i := range pool.Instances { // where each has its own, the one with most left
			if own := i.Limiter.Peek(netip.Addr{}, now); own.Limited && (!found.Limited || own.Remaining > found.Remaining) {
				found = own
			}
		}
	}
	x.showLimit(found)
}
