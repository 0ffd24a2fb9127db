package admit

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/allowance"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Keys decides who may ask, by the key of a request.
type Keys struct {
	// Credentials are the API keys that callers need; nil lets everybody in.
	Credentials *access.Credentials
	// Attempts slows down clients that present wrong keys; nil does not.
	Attempts *access.Attempts
}

// Identify returns what the key of a request allows, nil where callers need none. Callers
// who present many wrong keys are told to wait.
func (k Keys) Identify(header http.Header, from netip.Addr) (*access.Grant, *schema.Error) {
	guard := k.Credentials.Guard()
	if guard == nil {
		return nil, nil
	}
	now := time.Now()
	grant, err := guard.Identify(header, now)
	if err == nil {
		grant.Note(now)
		return grant, grant.RefuseAddress(from)
	}
	if !access.Presents(header) {
		return nil, err
	}
	if wait := k.Attempts.Wrong(from, now); wait > 0 {
		return nil, &schema.Error{
			Message:    "Too many wrong API keys came from this address; a right one is accepted at once.",
			Type:       schema.TypeRateLimit,
			Code:       schema.CodeTooManyAttempts,
			RetryAfter: wait,
			NoRetry:    true,
		}
	}
	return nil, err
}

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
		if refusal := v.Use.Take(caller.Grant.Accounts, allowance.NoTokens, now); refusal != nil {
			return keyLimited(refusal)
		}
	}
	if service == nil {
		return nil
	}
	if v.Limit, _ = service.Limiter.Take(caller.Addr, now); !v.Limit.Allowed {
		v.Use.GiveBack(now)
		return OverLimit(v.Limit)
	}
	return nil
}

// End ends the request.
func (v *Visit) End() { v.Use.End() }
