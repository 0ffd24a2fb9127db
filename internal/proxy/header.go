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
func (r *Reply) addHeaders() {
	r.sayHops()
	r.say("X-Request-Id", r.caller.RequestID)
	if r.Instance.Target.ForwardAuthorization && r.caller.Authorization != "" {
		r.dropCredential()
		r.say("Authorization", r.caller.Authorization)
	}
	r.sayTrace()
}

// say adds a header to the call unless it has one of that name.
func (r *Reply) say(name, value string) {
	for i := range r.call.Header {
		if strings.EqualFold(r.call.Header[i].Name, name) {
			return
		}
	}
	r.call.Header = append(r.call.Header, wire.Header{Name: name, Value: value})
}

// dropCredential takes the instance's key out of the call, in whichever header
// its dialect has it: the caller's own goes in its place. A header that the
// instance sets itself stays.
func (r *Reply) dropCredential() {
	key := cmp.Or(r.Instance.Kind.KeyHeader, "Authorization")
	for name := range r.Instance.Settings.Headers {
		if strings.EqualFold(name, key) {
			return
		}
	}
	r.call.Header = slices.DeleteFunc(r.call.Header, func(h wire.Header) bool { return strings.EqualFold(h.Name, key) })
}

// sayTrace says to the backend where its call stands in a distributed trace. A
// trace that the gateway takes no part in is passed on as it came.
func (r *Reply) sayTrace() {
	parent := r.caller.Traceparent
	if r.record.Traced() {
		try := r.record.Try()
		try.Span = calls.NewSpanID()
		parent = calls.Traceparent(r.record.Trace.ID, try.Span)
	}
	if parent == "" {
		return
	}
	r.say("Traceparent", parent)
	if state := r.caller.Tracestate; state != "" {
		r.say("Tracestate", state)
	}
}
