package proxy

import (
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// request is what all steps of handling a request share: what is asked for, by
// whom, and the record of what becomes of it.
type request struct {
	proxy  *Proxy
	req    *schema.Request
	caller *schema.Caller
	// Model is the configured name of the model, empty until it is found.
	Model  string
	record *calls.Call
}

// budget is what second attempts of the request's service type are paid from.
func (r *request) budget() *budget { return &r.proxy.budgets[r.record.Service] }

// shed counts a request that was given up for want of room.
func (r *request) shed(how metrics.Shed) { r.proxy.recorder.Shed(r.record.Service, how) }
