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
func (k Callers) Needed() bool {
	guard := k.Credentials.Guard()
	return guard != nil && !guard.hasGuests
}

// Identify returns the grant of the key that a request presents, and nil where callers need no
// key. It tells callers who present many wrong keys to wait.
func (k Callers) Identify(header http.Header, from netip.Addr) (*Grant, *schema.Error) {
	if k.Credentials.Guard() == nil {
		return nil, nil // nobody needs a key, and the time does not matter
	}
	now := time.Now()
	grant, refusal := k.identify(header, from, now)
	if grant != nil {
		grant.Note(now)
	}
	isWrong := refusal != nil && grant == nil && Presents(header) && !k.Credentials.Guard().IsVacant() &&
		(refusal.Code == schema.CodeInvalidAPIKey || refusal.Code == schema.CodeInvalidToken)
	if !isWrong {
		return grant, refusal
	}
	if wait := k.Attempts.Wrong(from, now); wait > 0 {
		tooMany := schema.CodedError(schema.CodeTooManyAttempts, "call.wrong_keys")
		tooMany.RetryAfter, tooMany.NoRetry = wait, true
		return nil, tooMany
	}
	return nil, refusal
}

// IdentifyAgain is Identify for a key that was identified before. It counts nothing. The error
// says that the key was revoked or has expired or, with a grant, that the key sleeps or the address
// is not allowed. It ends what a token began at the very end of the token.
func (k Callers) IdentifyAgain(header http.Header, from netip.Addr) (*Grant, *schema.Error) {
	now := time.Now()
	grant, refusal := k.identify(header, from, now)
	if grant.hasEnded(now) {
		return nil, expiredToken()
	}
	return grant, refusal
}

func (k Callers) identify(header http.Header, from netip.Addr, now time.Time) (*Grant, *schema.Error) {
	guard := k.Credentials.Guard()
	if guard == nil {
		return nil, nil
	}
	grant, refusal := guard.Identify(header, now)
	if refusal != nil && guard.hasGuests {
		return nil, nil
	}
	if refusal != nil {
		return nil, refusal
	}
	if refusal = grant.refuseAsleep(now); refusal != nil {
		return grant, refusal
	}
	return grant, grant.RefuseAddress(from)
}

// Bearer returns the grant of a caller identified before, by the id and the issue of the key, or by
// the claims of a token. All are empty for a caller who needed no key. False means that the key is no
// longer good, or that the rules let the subject of the token in no longer.
func (k Callers) Bearer(id, issue, claims string) (*Grant, bool) {
	guard := k.Credentials.Guard()
	_, isVisitor := issuerOf(id)
	switch {
	case guard == nil, guard.hasGuests && id == "":
		return nil, !isVisitor
	case isVisitor:
		return guard.visitors.bearerOf(id, claims, time.Now())
	}
	found, now := guard.byID[id], time.Now()
	if found == nil || found.Issue != issue || found.expired(now) || found.refuseAsleep(now) != nil {
		return nil, false
	}
	return found, true
}
