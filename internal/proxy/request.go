package proxy

import (
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// request is what all steps of handling a request share: what the client asks for,
// who the caller is, and the record of the request.
type request struct {
	Loan
	proxy  *Proxy
	caller *access.Caller
	// model is the configured name of the model, empty until its pool is found.
	model  string
	record *calls.Call
	// noRoom tells that there was no free slot at some time, and shedAs how that is
	// counted if the request is refused.
	noRoom bool
	shedAs metrics.Shed
}

// isRenamed tells whether the model is another one than the caller names: the name is an
// alias, or a fallback took over.
func (r *request) isRenamed() bool { return string(r.req.Model) != r.model }

// asked returns the name of the model that the caller gave.
func (r *request) asked() string {
	if !r.isRenamed() {
		return r.model
	}
	return string(r.req.Model)
}

// retryBudget returns the retry budget of the request's service type.
func (r *request) retryBudget() *retryBudget { return &r.proxy.retryBudgets[r.record.Service] }

// shed notes that there was no free slot for the request. It is counted if the request is
// refused in the end.
func (r *request) shed(how metrics.Shed) { r.noRoom, r.shedAs = true, how }

// countShed counts a request that was refused because there was no free slot.
func (r *request) countShed() {
	if r.noRoom {
		r.proxy.recorder.Shed(r.record.Service, r.shedAs)
	}
}

// Lender owns the memory of a request.
type Lender interface {
	// TakeBack is called once, when the request is not read any more.
	TakeBack()
}

// Loan is a request that is lent to the proxy. Until it is returned the proxy may
// read the request, and its owner must neither change it nor use its memory again.
type Loan struct {
	req    *schema.Request
	client dialect.Client // nil where the request is unified or cannot be translated
	owner  Lender
}

// Lend lends a request to the proxy.
func Lend(req *schema.Request, owner Lender) Loan { return Loan{req: req, owner: owner} }

// For returns the loan with the dialect of a client that does not speak the unified
// one.
func (l Loan) For(client dialect.Client) Loan {
	l.client = client
	return l
}

// Return returns the request to its owner. Only the first call has an effect; after
// it the request is nil.
func (l *Loan) Return() {
	owner := l.owner
	*l = Loan{}
	if owner != nil {
		owner.TakeBack()
	}
}
