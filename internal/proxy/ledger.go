package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// SetLedger makes the proxy count every request that reaches a backend in the quota
// ledger. It must be called before the first request.
func (p *Proxy) SetLedger(ledger *quota.Ledger) { p.ledger = ledger }

// count counts the request in the quota ledger, once for all its attempts, in the
// windows in which it arrived. It is called when an instance was acquired, so that a
// request that is refused before is not counted.
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
