package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// mostHeld is the limit of requests that wait for a model where the service type has no
// queue with a size.
const mostHeld = 1000

// enter begins a call at a model that is kept in memory. Where it is not there, the request
// is held until it is.
func (r *run) enter(ctx context.Context, model *residency.Model) *reply.Fault {
	if model.TryEnter() {
		r.attempt.resident = model
		if r.attempt.instance.Process() != nil {
			return r.followTable() // it may listen elsewhere since the request came
		}
		return nil
	}
	failed := r.hold(ctx, model)
	if failed != nil && failed.Unsent {
		r.attempt.permit = r.attempt.instance.Unsent(r.attempt.permit, time.Now())
	}
	return failed
}

// callAwake calls the instance that was acquired once its model is in memory, where it may not
// be. A process of the gateway that refuses the connection has died: the request waits for its
// next start, and calls it once more. So it does where an engine does not know a LoRA adapter any
// more.
func (r *run) callAwake(ctx context.Context) *reply.Fault {
	model := r.attempt.instance.Resident()
	if model == nil || r.isSecond { // a second call has entered when it was acquired
		return r.callInstance(ctx)
	}
	for isAgain := false; ; isAgain = true {
		if failed := r.enter(ctx, model); failed != nil {
			return failed
		}
		failed := r.callInstance(ctx)
		if failed == nil || isAgain || ctx.Err() != nil || r.attempt.resident == nil || !r.mayHaveLost(ctx, failed) {
			return failed
		}
		if failed = r.attempt.beginAgain(); failed != nil {
			return failed
		}
	}
}

// mayHaveLost reports whether the server of the instance may have gone, or its LoRA adapter, by how
// it failed a call.
func (r *run) mayHaveLost(ctx context.Context, failed *reply.Fault) bool {
	i := r.attempt.instance
	switch p := i.Process(); {
	case p != nil && failed.Outcome == breaker.Refused:
		p.Doubt()
		return true
	case i.Settings.LoRA != nil && failed.Err != nil && failed.Err.Status == http.StatusNotFound:
		r.attempt.resident.Missing(ctx)
		return true
	}
	return false
}

// beginAgain makes the attempt ready for another call of the same instance, which did not get
// the first.
func (a *attempt) beginAgain() *reply.Fault {
	a.resident.Leave()
	a.resident = nil
	if a.cancel != nil {
		a.cancel()
		a.cancel = nil
	}
	a.paced.End(breaker.Cancelled, schema.Usage{}, time.Now())
	a.out.Reset()
	if err := a.write(a.instance); err != nil {
		return a.classifier().Classify(err, false)
	}
	return nil
}

// enterAtOnce begins a call at an instance with its model in memory, and reports whether it
// is: a second call that has to wait for a model comes too late, and would load it in vain.
func (r *run) enterAtOnce() bool {
	model := r.attempt.instance.Resident()
	if model == nil {
		return true
	}
	if !model.TryEnter() {
		return false
	}
	if r.attempt.instance.Process() != nil && r.followTable() != nil {
		model.Leave()
		return false
	}
	r.attempt.resident = model
	return true
}

// hold waits until the model is in memory, and begins the call.
func (r *run) hold(ctx context.Context, model *residency.Model) *reply.Fault {
	policy := &r.choice.pool.Service.Policy
	waiting := r.choice.pool.Queue
	most := policy.Queue.Size
	if most == 0 {
		most = mostHeld
	}
	held, giveWay := context.WithCancelCause(ctx)
	defer giveWay(nil)
	place := waiting.Hold(r.Caller.Key(), r.Class, most, func() { giveWay(queue.ErrFull) })
	if place == nil {
		return r.noPlace()
	}
	defer waiting.Unhold(place)
	began := time.Now()
	r.Hold()
	r.debugHeld(ctx, model, began)
	endNotices := r.Notify(policy.Residency.HoldNotice.Std())
	enter := model.Enter
	if r.isSpare() {
		enter = model.EnterSpare
	}
	err := enter(held, model.Patience(policy.Residency))
	endNotices()
	now := time.Now()
	r.Record.Held += now.Sub(began)
	r.Record.Queued += now.Sub(began)
	r.Resume(now)
	switch {
	case errors.Is(err, queue.ErrFull):
		return r.noPlace()
	case err != nil:
		return r.notLoaded(ctx, err)
	}
	r.attempt.resident = model
	return r.followTable()
}

// noPlace returns the fault of a request that has no place among the waiting ones, or had
// to give it to a caller with fewer.
func (r *run) noPlace() *reply.Fault {
	r.shedFromQueue(metrics.ShedQueueFull, r.choice.pool.Outlook(r.Caller.Key(), r.Class))
	return &reply.Fault{Err: survey.NoSlot(r.choice.pool), Outcome: breaker.Cancelled, Unsent: true, Unasked: true}
}

// notLoaded returns the fault of an instance after its model could not be loaded.
func (r *run) notLoaded(ctx context.Context, err error) *reply.Fault {
	i := r.attempt.instance
	failed := &reply.Fault{
		Err: Unloaded(err, i, r.choice.pool.Model), Outcome: breaker.Cancelled, Failover: true, Unsent: true,
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, context.Canceled), errors.Is(err, residency.ErrStopped):
		failed.Failover, failed.Unasked = false, true // the caller finds out why the context ended
	case errors.Is(err, residency.ErrTimeout):
		if i.Process() == nil { // the owner of a process decides when to try again
			failed.Outcome = breaker.Failure
		}
	case errors.Is(err, residency.ErrNeeded): // since it was picked; it comes again
		failed.Failover, failed.Unasked = false, true
	case errors.Is(err, residency.ErrRemoved):
		failed.Unasked = true
	case errors.Is(err, residency.ErrFull), errors.Is(err, residency.ErrHeld):
	case i.Process() != nil:
	default:
		switch {
		case transport.IsRefusal(err):
			i.Health.Refused(time.Now())
		case errors.Is(err, backend.ErrStuck):
			i.Health.Stuck(time.Now())
		}
		cause := r.attempt.classifier().Classify(err, false)
		failed.Err.Cause = cause.Err.Cause
		failed.Outcome = cause.Outcome
	}
	return failed
}

// Unloaded returns the error for a caller who waited for a model of an instance that could
// not be loaded.
func Unloaded(err error, i *backend.Instance, name string) *schema.Error {
	code := say.Code("call.not_loaded")
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, residency.ErrStopped):
		return Stopping()
	case errors.Is(err, residency.ErrTimeout):
		code = "call.not_loaded_in_time"
	case errors.Is(err, residency.ErrNeeded):
		code = "call.memory_needed"
	case errors.Is(err, residency.ErrFull):
		code = "call.memory_pinned"
	case errors.Is(err, residency.ErrHeld):
		code = "call.memory_held"
	case errors.Is(err, residency.ErrRemoved):
		code = "call.removed"
	case i.Process() != nil:
		code = "call.process"
	}
	known := schema.CodedError(schema.CodeServiceUnavailable, code, "model", name)
	known.RetryAfter, known.Spread = time.Second, true
	if model := i.Resident(); model != nil && !errors.Is(err, residency.ErrNeeded) {
		known.RetryAfter = max(model.Place().Residence(time.Now()).Loads, time.Second)
	}
	return known
}

// followTable applies the table in force to a request that has waited: the request does
// not go to an instance that was removed meanwhile, and follows its present settings.
func (r *run) followTable() *reply.Fault {
	before, i := r.choice.pool, r.attempt.instance
	if r.proxy.current.Load() == r.choice.table {
		return nil
	}
	err := r.choice.refreshPool()
	var now *backend.Instance
	if err == nil {
		now = r.choice.pool.Service.Instance(i.ID)
	}
	if now == nil || now.Barred() != backend.NoObstacle || now.State != i.State {
		r.choice.pool = before // this request has to leave its queue
		return &reply.Fault{
			Err:     schema.CodedError(schema.CodeServiceUnavailable, "call.removed", "model", before.Model),
			Outcome: breaker.Cancelled, Failover: true, Unsent: true, Unasked: true,
		}
	}
	r.attempt.instance = now
	r.attempt.out.Reset()
	if err := r.attempt.write(now); err != nil {
		return r.attempt.classifier().Classify(err, false)
	}
	return nil
}
