package v1

import (
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/ratelimit"
)

// showLimit adds the x-ratelimit headers for the limit that applies to the request.
func (x *exchange) showLimit(d ratelimit.Decision) {
	if !d.Limited {
		return
	}
	header := x.w.Header()
	header["X-Ratelimit-Limit-Requests"] = []string{strconv.Itoa(d.Limit)}
	header["X-Ratelimit-Remaining-Requests"] = []string{strconv.Itoa(d.Remaining)}
	header["X-Ratelimit-Reset-Requests"] = []string{d.ResetAfter.Round(time.Millisecond).String()}
}
