package proxy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/transport"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// attempt is one call to an instance.
type attempt struct {
	*request
	// Instance is the one that was called last; nil before the first call.
	Instance *backend.Instance
	permit   backend.Permit
	held     bool // the permit has not been given back
	call     wire.Call
	response *transport.Response
	cancel   context.CancelFunc // ends the bound on the whole call
	sent     time.Time          // when the call began
	answered time.Time          // when the backend's part of a whole answer was there
}

// begin makes the attempt one at an instance that was acquired, and writes the
// call to it. Where that cannot be done the instance is given back, and the
// attempt is what it was.
func (a *attempt) begin(i *backend.Instance, permit backend.Permit, now time.Time) error {
	previous := a.Instance
	a.Instance, a.permit, a.held = i, permit, true
	a.record.Begin(i.ID, i.Kind.Name, now)
	err := i.Target.Speak.Call(a.req, i.Target, &a.call)
	if err != nil {
		i.Return(permit, time.Now())
		a.record.Forget()
		a.Instance, a.held = previous, false
	}
	return err
}

// giveUp gives an instance back that was acquired and is not called after all.
func (a *attempt) giveUp() {
	a.Instance.Return(a.permit, time.Now())
	a.record.Forget()
	a.Instance, a.held = nil, false
}

// end closes the connection to the backend and gives the instance back with the
// outcome of the call. It tells whether the instance was still held.
func (a *attempt) end(outcome breaker.Outcome) bool {
	if a.response != nil {
		_ = a.response.Close() // the answer was read or given up; nothing depends on it
		a.response = nil
	}
	if a.cancel != nil {
		a.cancel()
		a.cancel = nil
	}
	if !a.held {
		return false
	}
	a.held = false
	now := time.Now()
	a.Instance.Release(a.permit, outcome, now)
	if outcome == breaker.Success {
		a.Instance.Health.Served(a.sent, now)
	}
	a.noteRelease(now)
	return true
}

// reset forgets everything but the memory.
func (a *attempt) reset() {
	a.call.Reset()
	*a = attempt{call: a.call}
}

// failedBefore tells whether the same request failed at the instance a short while
// ago, and notes that it failed now.
func (a *attempt) failedBefore() bool {
	return a.Instance.FailedBefore(a.req.Digest(a.proxy.seed), time.Now())
}

// try puts the request to the instance that was picked and waits until the
// answer has begun: until all of a plain answer is there, or the first event of
// a stream.
func (r *Reply) try(ctx context.Context) *fault {
	instance := r.Instance
	r.outcome = breaker.Success
	speak := instance.Target.Speak
	r.addHeaders()
	limits := &instance.Timeouts
	if limits.Total > 0 {
		ctx = r.within(ctx, limits.Total.Std())
	}
	firstByte, firstToken := limits.FirstByte.Std(), cmp.Or(limits.FirstToken, limits.FirstByte).Std()
	if r.req.Stream {
		// Many backends send the head together with the first event.
		firstByte = min(firstByte, firstToken)
	}
	r.sent = time.Now()
	response, err := r.proxy.client.Send(ctx, instance.Origin, &r.call, transport.Timeouts{
		Connect:   limits.Connect.Std(),
		FirstByte: firstByte,
		Idle:      limits.Idle.Std(),
	})
	if err != nil {
		if transport.IsRefusal(err) {
			instance.Health.Refused(time.Now())
		}
		r.noteWait(r.sent, time.Now())
		return r.classify(err)
	}
	r.response = response
	whole, err := r.begin(speak, r.sent.Add(firstToken))
	r.FirstByte = time.Now()
	r.noteWait(r.sent, r.FirstByte)
	if err != nil {
		r.FirstByte = time.Time{}
		return r.classify(err)
	}
	if whole {
		// The backend has done its part. How fast the client reads is no concern
		// of its slots.
		r.release(breaker.Success)
	} else {
		r.permit = instance.Answered(r.permit, r.FirstByte)
	}
	return nil
}

// errTotal is the cause with which a call ends that took too long as a whole.
var errTotal = fmt.Errorf("%w: the whole answer took too long", transport.ErrTimeout)

// within bounds a call as a whole; the bound is lifted when the reply is closed.
func (r *Reply) within(ctx context.Context, total time.Duration) context.Context {
	ctx, r.cancel = context.WithTimeoutCause(ctx, total, errTotal)
	return ctx
}
