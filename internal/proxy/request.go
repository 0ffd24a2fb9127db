package proxy

import (
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// request is what all steps of handling a request share: what is asked for, by
// whom, and the record of what becomes of it.
type request struct {
	Loan
	proxy  *Proxy
	caller *schema.Caller
	// model is the configured name of the model, empty until it is found.
	model  string
	record *calls.Call
}

// budget is what second attempts of the request's service type are paid from.
func (r *request) budget() *budget { return &r.proxy.budgets[r.record.Service] }

// shed counts a request that was given up for want of room.
func (r *request) shed(how metrics.Shed) { r.proxy.recorder.Shed(r.record.Service, how) }

// Lender owns the memory of a request.
type Lender interface {
	// TakeBack says that the request is not read any more, and is called once.
	TakeBack()
}

// Loan is a request that is lent to the proxy. Until it is returned the proxy may
// read the request, and its owner must not touch it.
type Loan struct {
	req   *schema.Request
	owner Lender
}

// Lend lends a request.
func Lend(req *schema.Request, owner Lender) Loan { return Loan{req, owner} }

// Return returns the request to its owner, once; after that it cannot be read.
func (l *Loan) Return() {
	owner := l.owner
	*l = Loan{}
	if owner != nil {
		owner.TakeBack()
	}
}
