package proxy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// addHeaders adds the gateway's own headers to the call. Headers that are configured
// for the instance win over them, and no header is sent twice.
func (a *attempt) addHeaders() {
	a.addHops()
	a.addHeader("X-Request-Id", a.Caller.RequestID)
	if a.instance.Target.ForwardAuthorization {
		if credential, given := a.instance.Kind.Forwarded(a.Caller.Authorization, a.Caller.APIKey); given {
			a.removeCredential()
			a.addHeader(credential.Name, credential.Value)
		}
	}
	a.addTrace()
}

// addHeader adds a header to the call unless it has one of that name.
func (a *attempt) addHeader(name, value string) {
	for i := range a.out.Header {
		if strings.EqualFold(a.out.Header[i].Name, name) {
			return
		}
	}
	a.out.Header = append(a.out.Header, wire.Header{Name: name, Value: value})
}

// removeCredential removes the instance's key from the call, in whichever header its
// kind has it, because the caller's own credential replaces it. A header that is
// configured for the instance stays.
func (a *attempt) removeCredential() {
	key := cmp.Or(a.instance.Kind.KeyHeader, "Authorization")
	for name := range a.instance.Settings.Headers {
		if strings.EqualFold(name, key) {
			return
		}
	}
	a.out.Header = slices.DeleteFunc(a.out.Header, func(h wire.Header) bool { return strings.EqualFold(h.Name, key) })
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
	a.addHeader("Traceparent", parent)
	if state := a.Caller.Tracestate; state != "" {
		a.addHeader("Tracestate", state)
	}
}
