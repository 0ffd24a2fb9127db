package proxy

import (
	"context"
	"slices"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/plan"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/route/scatter"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// part is a piece of a request, or all of it once more, as a branch of a plan. It is chosen,
// called and tried again like a request of its own. The whole request has the common state
// of all parts: it is admitted, counted and settled once.
type part struct {
	plan.Branch
	*run
	piece  plan.Piece
	answer *scatter.Part
	failed *reply.Fault // why there is no answer
}

// make makes the calls of the part and reads its answer, which must come whole. The slot is
// free then.
func (p *part) make(ctx context.Context, read func() error) bool {
	if p.failed = p.calls(ctx, nil); p.failed != nil {
		return false
	}
	if err := read(); err != nil {
		p.failed = p.attempt.classifier().Classify(err, false)
		p.Record.Fail(p.failed.Err.Code, p.failed.Err.Cause, p.failed.Err.Said)
		p.release(p.failed.Outcome)
		return false
	}
	p.answered(p.reply.FirstByte)
	return true
}

// beginPart returns a run for a part of the request, or for all of it once more. It is
// neither admitted nor counted, and has a record of its own. Its attempts join those of the
// request in the end.
func (r *run) beginPart(asks *schema.Request) *run {
	p := r.proxy
	part := p.runs.Get().(*run)
	part.proxy, part.isPart = p, true
	part.Request = &Request{
		Asks: asks, Client: r.Client, Caller: r.Caller,
		Table: r.Table, Pool: r.Pool, Model: r.Model, Notify: part.notifies,
		Record: &calls.Record{
			RequestID: r.Record.RequestID, Started: r.Record.Started, Service: r.Record.Service, Door: r.Record.Door,
			Trace: r.Record.Trace,
		},
	}
	part.reply.Memory = p.bodies.Lease(r.Caller.KeyID, r.Caller.Addr)
	part.choice.request, part.attempt.request = &part.request, &part.request
	part.choice.fallback, part.choice.table = r.choice.fallback, r.choice.table
	part.choice.use(r.choice.pool)
	part.choice.excluded.Called = append(part.choice.excluded.Called, r.choice.excluded.Called...)
	part.of, part.fallen = &r.request, slices.Clone(r.fallen)
	return part
}

// endPart gives back everything that a part of a request holds.
func (r *run) endPart(panicked bool) {
	r.choice.endRetry()
	r.release(breaker.Cancelled)
	r.reply.Memory.Close()
	if p := r.proxy; !panicked {
		r.reset()
		p.runs.Put(r)
	}
}

// absorb adds the calls of a part that has ended to those of the request.
func (r *run) absorb(p *part) {
	called := p.choice.excluded.Called
	own := called[len(called)-p.choice.calledHere:]
	r.choice.excluded.Called = append(r.choice.excluded.Called, own...)
	r.choice.reached += p.choice.reached
	r.choice.stale = true
	if p.failed != nil && !p.IsGivenUp() {
		for _, f := range p.fallen {
			r.fall(f)
		}
	}
}

// guardMemory lets the parts of the request take memory for bodies one after the other, and
// returns the function that does so; nil where none is taken.
func (r *run) guardMemory() func(bytes int) error {
	whole := r.Asks.Body.Reserve
	if whole == nil {
		return nil
	}
	var mu sync.Mutex
	r.Asks.Body.Reserve = func(bytes int) error {
		mu.Lock()
		defer mu.Unlock()
		return whole(bytes)
	}
	return r.Asks.Body.Reserve
}
