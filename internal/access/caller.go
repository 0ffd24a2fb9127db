package access

import (
	"net/http"
	"net/netip"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Caller is the sender of a request.
type Caller struct {
	// Addr is the client's address, behind the proxies that are trusted.
	Addr netip.Addr
	// RequestID names the request in logs, here and at the backend.
	RequestID string
	// Header is the header of the request. It has the caller's own credential, for
	// instances that want it.
	Header http.Header
	// KeyID names the API key that was presented, if keys are required.
	KeyID string
	// Grant holds the permissions of that key; nil allows everything.
	Grant *Grant
	// Tenant is the tenant that the request counts for: the tenant of the key or, where no
	// keys are required, the one that the request names.
	Tenant string
	// User is the person for whom the request is made, if the key trusts a header that names one.
	// It takes precedence over the user in the body.
	User string
	// Retry means that the client says that the request is a retry.
	Retry bool
	// Traceparent and Tracestate are the request's place in a distributed trace,
	// as it was sent.
	Traceparent, Tracestate string
	// Hops are the gateways that the request has passed, as CDN-Loop lists them.
	Hops string
}

// Key identifies the caller in queues: the id of the API key, or the address.
func (c *Caller) Key() string {
	if c.KeyID != "" {
		return c.KeyID
	}
	return c.Addr.String()
}

// Forwardable returns the header with the caller's own credential, for instances that want it.
// The token of an issuer is not passed on.
func (c *Caller) Forwardable() http.Header {
	if c.Grant.IsVisitor() {
		return nil
	}
	return c.Header
}

// MayUse reports whether the caller may use a model of a service type.
func (c *Caller) MayUse(service schema.ServiceType, model string) bool {
	return c.Grant.MayUse(service, model)
}
