package access

import (
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// SignIns counts sign-ins to management by their outcome.
type SignIns struct {
	// Accepted, Denied and Failed count people who came back from a provider.
	Accepted, Denied, Failed atomic.Int64
	// Wrong counts requests with a management token that is not good.
	Wrong atomic.Int64
}

// State adds the counts to the state for a scrape.
func (s *SignIns) State(to *metrics.State) {
	to.Count("model_router_sign_ins_total", s.Accepted.Load(), "accepted")
	to.Count("model_router_sign_ins_total", s.Denied.Load(), "denied")
	to.Count("model_router_sign_ins_total", s.Failed.Load(), "failed")
	to.Count("model_router_sign_ins_total", s.Wrong.Load(), "wrong_token")
}
