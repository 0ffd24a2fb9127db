package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Count counts every request that reaches a backend in a ledger. It is called
// before the first request.
func (p *Proxy) Count(in *quota.Ledger) { p.ledger = in }

// count counts the request, once for all its attempts, in the windows in which
// it arrived. An instance is held for it: what is refused before is not
// counted.
func (r *run) count() error {
	if !r.proxy.ledger.On() {
		return nil
	}
	err := r.proxy.ledger.Admit(&r.ticket, quota.Subject{
		Tenant: r.caller.Tenant, APIKey: r.caller.KeyID, User: r.req.User, Service: r.req.Service, Model: r.model,
	}, r.record.Started)
	if err != nil {
		return &schema.Error{
			Message:    "The quota ledger cannot count this request now, and requests must not pass uncounted.",
			Type:       schema.TypeServiceUnavailable,
			Code:       schema.CodeLedgerUnavailable,
			RetryAfter: time.Second,
		}
	}
	return nil
}
