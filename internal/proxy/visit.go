package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/allowance"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Visit is a request that asks for something that is kept, such as a response that was
// made before. It counts as a request in the limits of its key, its tenant and its service
// type. It uses no tokens, and no budget counts it.
type Visit struct {
	// Use is what the request took from the limits of its key and its tenant, and Limit
	// what is left of that of its service type.
	Use   allowance.Use
	Limit ratelimit.Decision
}

// Begin counts the request in all limits, or in none if it returns an error. The service
// is nil where it is not configured.
func (v *Visit) Begin(service *routing.Service, caller *access.Caller) *schema.Error {
	now := time.Now()
	if caller.Grant != nil {
		if refusal := v.Use.Take(caller.Grant.Accounts, 0, now); refusal != nil {
			return keyLimited(refusal)
		}
	}
	if service == nil {
		return nil
	}
	if v.Limit, _ = service.Limiter.Take(caller.Addr, now); !v.Limit.Allowed {
		v.Use.GiveBack(now)
		return overLimit(v.Limit)
	}
	return nil
}

// End ends the request.
func (v *Visit) End() { v.Use.End() }
