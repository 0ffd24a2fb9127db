package proxy

import (
	"context"

	"github.com/patchbay-ai/patchbay/internal/calls"
)

// addHeaders adds the gateway's own headers to the call, and at last the credential, which
// may be a signature of all the rest. Headers that are configured for the instance win over
// them, and no header is sent twice.
func (a *attempt) addHeaders(ctx context.Context) error {
	a.addHops()
	a.out.AddHeader("X-Request-Id", a.Caller.RequestID)
	a.addTrace()
	if a.instance.Target.ForwardAuthorization {
		if credential, given := a.instance.Kind.Forwarded(a.Caller.Authorization, a.Caller.APIKey); given {
			a.out.AddHeader(credential.Name, credential.Value)
			return nil
		}
	}
	return a.instance.Target.Authorize(ctx, &a.out)
}

// addTrace adds the headers of a distributed trace: the span of this attempt where the
// gateway traces the request, else the caller's own headers unchanged.
func (a *attempt) addTrace() {
	parent := a.Caller.Traceparent
	if a.Record.Traced() {
		try := a.Record.Try()
		try.Span = calls.NewSpanID()
		parent = calls.Traceparent(a.Record.Trace.ID, try.Span)
	}
	if parent == "" {
		return
	}
	a.out.AddHeader("Traceparent", parent)
	if state := a.Caller.Tracestate; state != "" {
		a.out.AddHeader("Tracestate", state)
	}
}
