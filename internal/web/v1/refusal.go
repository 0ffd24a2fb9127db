package v1

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/calls"
)

// countRefusal counts a request that was refused before it was routed.
func (x *exchange) countRefusal(code string) {
	if !x.recorder.On() {
		return
	}
	x.recorder.Finish(nil, &calls.Call{
		RequestID: x.record.RequestID, Service: x.service, KeyID: x.caller.KeyID,
		Started: x.record.Started, Ended: time.Since(x.record.Started),
		Code: code, HTTP: x.record.Status,
	})
}
