package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/route/plan"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// This file carries out plans. The calls of a request follow each other in the loop of calls,
// whatever the plan: an ordinary request, a piece, a second call, an answer that is resumed, and
// a link. Several such loops run at the same time by plan.Run. Each call is made by call, which
// wakes the model, tells the fleet, the breaker and the record, and gives its slot back.

// route finds instances for the request and calls them until it is answered. Nothing was sent
// to the client yet, so a failure that another instance may not have leads to the next one.
func (r *run) route(ctx context.Context) error {
	if r.proxy.enders.kept.Load() > 0 {
		if err := r.refuseEnder(ctx); err != nil {
			return err
		}
	}
	if err := r.choice.start(ctx); err != nil {
		return err
	}
	defer r.choice.endRetry()
	if err := r.acquireFirst(ctx); err != nil {
		return err
	}
	r.countsLate = r.choice.hasMoreFallbacks() && r.Counts()
	var failed *reply.Fault
	if r.gathered != nil {
		failed = r.gather(ctx)
	}
	if r.gathered == nil || failed != nil {
		failed = r.calls(ctx, failed)
	}
	if err := r.countLate(failed == nil); err != nil {
		r.release(breaker.Success)
		return err
	}
	switch {
	case failed == nil:
		r.clearFallen()
		r.answered(r.reply.FirstByte)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return failed.Err // where no instance is left, the caller is told how the last one failed
}

// countEarly counts the whole request in the ledger before a call is made for it, when it waits
// for nothing any more. A request is counted once, for the model that serves it, and a count
// cannot be taken back: if another model may take over, countLate counts it.
func (r *run) countEarly() *reply.Fault {
	whole := r.whole()
	whole.isCalled.Store(true)
	if whole.countsLate {
		return nil
	}
	err := whole.Count()
	if err == nil {
		return nil
	}
	r.attempt.permit = r.attempt.instance.Unsent(r.attempt.permit, time.Now())
	failed := &reply.Fault{Outcome: breaker.Cancelled, Unsent: true, Unasked: true}
	errors.As(err, &failed.Err)
	return failed
}

// countLate counts a request that countEarly did not count, when its answer has begun or its
// calls have failed. It returns an error if there is an answer that cannot be counted. The
// budgets count such a request at the same time: a gateway that is killed has it in both or
// in neither.
func (r *run) countLate(answered bool) error {
	if !r.countsLate || !r.isCalled.Load() {
		return nil
	}
	r.countsLate = false
	err := r.Count()
	if !answered {
		return nil
	}
	if err == nil {
		r.Leaves()
	}
	return err
}

// acquireFirst acquires the instances for the first calls: one for each piece of a split
// request, or else one of the model that was asked for or of a fallback.
func (r *run) acquireFirst(ctx context.Context) error {
	var err error
	if !r.choice.pool.Splits || !r.scatter() {
		err = r.choice.pick(ctx, &r.attempt)
		// A line of a batch waits for a slot in place of going on to another model.
		for err != nil && ctx.Err() == nil && !(r.isSpare() && r.foundNoSlot) && r.choice.mayFallBack() &&
			r.choice.fallBack(err) {
			err = r.choice.pick(ctx, &r.attempt)
		}
	}
	r.choice.noteChoice()
	r.tellChoice(ctx, err)
	return err
}

// calls makes one call after the other until one answers, and returns the last failure. The
// first call was acquired, unless a failure of pieces or of a broken answer is given: then
// the first call follows that failure.
func (r *run) calls(ctx context.Context, failed *reply.Fault) *reply.Fault {
	for failed == nil || r.another(ctx, failed) {
		if failed = r.call(ctx); failed == nil {
			return nil
		}
	}
	return failed
}

// another acquires the instance for the call after a failure: another one of the model, or
// one of a fallback. A fallback gets the whole request, and goes on with an answer after
// content was sent only if the settings say so.
func (r *run) another(ctx context.Context, failed *reply.Fault) bool {
	c := &r.choice
	if ctx.Err() != nil || r.isSecond {
		return false
	}
	if failed.TooLong && r.resumed == nil && c.pickWider(failed, &r.attempt) {
		return true
	}
	if failed.Failover && !c.isLastAttempt() && c.pickAnother(&r.attempt) && c.reserveResumed(&r.attempt) {
		return true
	}
	if o := r.resumed; o != nil {
		mayMove := o.broken != nil && c.pool.Service.Policy.Streams.ResumeFallbacks
		return mayMove && failed.Failover && c.fallBackAfter(failed, &r.attempt)
	}
	return !r.isPart && c.fallBackAfter(failed, &r.attempt)
}

// call makes the call that was acquired. It ends a call that fails.
func (r *run) call(ctx context.Context) *reply.Fault {
	begun, waited := r.reply.FirstByte, r.Record.Upstream
	r.choice.noteCall(r.attempt.instance)
	r.tellCall(ctx)
	failed := r.callAwake(ctx)
	if r.resumed != nil { // the answer began long ago, as far as the client is concerned
		r.reply.FirstByte, r.Record.Upstream = begun, waited
	}
	if failed != nil {
		r.fail(ctx, failed)
		return failed
	}
	r.tellAnswer(ctx, nil)
	return nil
}

// fail ends a call that failed or was given up.
func (r *run) fail(ctx context.Context, failed *reply.Fault) {
	if failed.Unsent {
		r.choice.reached--
	}
	if why := plan.WhyGivenUp(ctx); why != "" {
		failed.Outcome = breaker.Cancelled
		r.Record.Fail(calls.GivenUp, "", say.New(say.Code(why)))
		r.attempt.followed.GiveUp(time.Now())
		r.attempt.followed = nil
	} else {
		r.attempt.noteFailure(ctx, failed)
	}
	r.isCut = ctx.Err() != nil && !failed.Unsent
	r.tellAnswer(ctx, failed)
	r.release(failed.Outcome)
	if failed.Unasked {
		r.Record.Forget()
		r.attempt.instance = nil
	}
	if o := r.resumed; o != nil && failed.Diverged {
		r.charge(r.attempt.instance, r.Diverged(o.joint.Raw(), o.plan.Sent, o.plan.How == resume.Continued))
	} else if o != nil {
		r.Release(o.reserved)
	}
}

// callInstance calls an instance that has its model in memory.
func (r *run) callInstance(ctx context.Context) *reply.Fault {
	if failed := r.countEarly(); failed != nil || r.onlyLoads() {
		return failed
	}
	if watch := r.choice.pool.Watch; watch != nil && r.mayHedge() {
		return r.callHedged(ctx, watch)
	}
	return r.attempt.call(ctx, &r.reply)
}

// returnUnused gives back the instances that were acquired and are not called after all.
func (r *run) returnUnused() {
	for _, part := range r.parts {
		part.returnUnused()
		part.endPart(false)
	}
	r.gathered, r.parts = nil, nil
	if r.attempt.hasSlot {
		r.choice.returnUnused(&r.attempt)
	}
	r.attempt.instance = nil
}
