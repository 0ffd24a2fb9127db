package access

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Callers decides who may ask, by the key of a request.
type Callers struct {
	// Credentials are the API keys that callers need; nil lets everybody in.
	Credentials *Credentials
	// Attempts slows down clients that present wrong keys; nil does not.
	Attempts *Attempts
}

// Needed reports whether callers need a key now.
func (k Callers) Needed() bool { return k.Credentials != nil && k.Credentials.Guard() != nil }

// Identify returns what the key of a request allows, nil where callers need none. Callers
// who present many wrong keys are told to wait.
func (k Callers) Identify(header http.Header, from netip.Addr) (*Grant, *schema.Error) {
	if k.Credentials == nil {
		return nil, nil
	}
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
	if !Presents(header) {
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

// Check returns an error if the bearer of a key that was identified before may no longer ask:
// the key was revoked or has expired, or the address is no longer allowed. It counts nothing.
func (k Callers) Check(header http.Header, from netip.Addr) *schema.Error {
	_, refusal := k.IdentifyAgain(header, from)
	return refusal
}

// IdentifyAgain is Identify for a key that was identified before. It counts nothing.
func (k Callers) IdentifyAgain(header http.Header, from netip.Addr) (*Grant, *schema.Error) {
	if k.Credentials == nil {
		return nil, nil
	}
	guard := k.Credentials.Guard()
	if guard == nil {
		return nil, nil
	}
	grant, err := guard.Identify(header, time.Now())
	if err != nil {
		return nil, err
	}
	return grant, grant.RefuseAddress(from)
}
