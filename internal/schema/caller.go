package schema

import "net/netip"

// Caller is who sent a request.
type Caller struct {
	// Addr is the client's address, behind the proxies that are trusted.
	Addr netip.Addr
	// RequestID names the request in logs, here and at the backend.
	RequestID string
	// Authorization is the caller's own credential, for instances that want it.
	Authorization string
	// KeyID names the API key that was presented, if keys are required.
	KeyID string
	// Tenant is on whose account the request is: the key's tenant or, where no
	// keys are required, whom the request names.
	Tenant string
	// Retry tells that the client says of the request that it tried it before.
	Retry bool
	// Traceparent and Tracestate are the request's place in a distributed trace,
	// as it was sent.
	Traceparent, Tracestate string
	// Hops are the gateways that the request has passed, as CDN-Loop lists them.
	Hops string
}

// Key is what tells callers apart who take turns: the API key, else the address.
func (c *Caller) Key() string {
	if c.KeyID != "" {
		return c.KeyID
	}
	return c.Addr.String()
}
