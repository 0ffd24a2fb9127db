package proxy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// addHeaders adds what the gateway itself says to the backend. What the
// instance's own headers say wins, and no field is there twice.
func (a *attempt) addHeaders() {
	a.addHops()
	a.addHeader("X-Request-Id", a.caller.RequestID)
	if a.instance.Target.ForwardAuthorization && a.caller.Authorization != "" {
		a.removeCredential()
		a.addHeader("Authorization", a.caller.Authorization)
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

// removeCredential takes the instance's key out of the call, in whichever header
// its dialect has it: the caller's own goes in its place. A header that the
// instance sets itself stays.
func (a *attempt) removeCredential() {
	key := cmp.Or(a.instance.Kind.KeyHeader, "Authorization")
	for name := range a.instance.Settings.Headers {
		if strings.EqualFold(name, key) {
			return
		}
	}
	a.out.Header = slices.DeleteFunc(a.out.Header, func(h wire.Header) bool { return strings.EqualFold(h.Name, key) })
}

// addTrace tells the backend where its call stands in a distributed trace. A
// trace that the gateway takes no part in is passed on as it came.
func (a *attempt) addTrace() {
	parent := a.caller.Traceparent
	if a.record.Traced() {
		try := a.record.Try()
		try.Span = calls.NewSpanID()
		parent = calls.Traceparent(a.record.Trace.ID, try.Span)
	}
	if parent == "" {
		return
	}
	a.addHeader("Traceparent", parent)
	if state := a.caller.Tracestate; state != "" {
		a.addHeader("Tracestate", state)
	}
}
