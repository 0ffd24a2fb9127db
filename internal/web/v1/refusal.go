package v1

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// countRefusal counts a request that was refused before it was routed.
func (x *exchange) countRefusal(code string) {
	if !x.recorder.On() {
		return
	}
	if code == schema.CodeOverloaded {
		x.recorder.Shed(x.service, metrics.ShedOverload)
		return
	}
	x.recorder.Finish(nil, &calls.Call{
		RequestID: x.record.RequestID, Service: x.service, KeyID: x.caller.KeyID,
		Started: x.record.Started, Ended: time.Since(x.record.Started),
		Status: metrics.Failed, Rejected: reasonOf(code), Code: code, HTTP: x.record.Status,
	})
}

// reasonOf sorts refusals by what a caller would have to change.
func reasonOf(code string) metrics.Reason {
	switch code {
	case schema.CodeInvalidAPIKey:
		return metrics.Unauthorized
	case schema.CodePermissionDenied:
		return metrics.Forbidden
	case schema.CodeRequestTooLarge:
		return metrics.TooLarge
	case schema.CodeRequestTimeout:
		return metrics.BodyTimeout
	case schema.CodeUnsupportedMedia:
		return metrics.UnsupportedMedia
	}
	return metrics.InvalidRequest
}
