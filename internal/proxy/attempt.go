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
	instance *backend.Instance // the one that was called last; nil before that
	permit   backend.Permit
	held     bool // the permit has not been given back
	out      wire.Call
	response *transport.Response
	cancel   context.CancelFunc // ends the bound on the whole call
	sent     time.Time          // when the call began
}

// begin makes the attempt one at an instance that was acquired, and writes the
// call to it. Where that cannot be done the instance is given back, and the
// attempt is what it was.
func (a *attempt) begin(i *backend.Instance, permit backend.Permit, now time.Time) error {
	previous := a.instance
	a.instance, a.permit, a.held = i, permit, true
	a.record.Begin(i.ID, i.Kind.Name, now)
	err := i.Target.Speak.Call(a.req, i.Target, &a.out)
	if err != nil {
		i.Return(permit, time.Now())
		a.record.Forget()
		a.instance, a.held = previous, false
	}
	return err
}

// giveUp gives an instance back that was acquired and is not called after all.
func (a *attempt) giveUp() {
	a.instance.Return(a.permit, time.Now())
	a.record.Forget()
	a.instance, a.held = nil, false
}

// call sends the request to the instance and waits until the answer has begun:
// until all of a whole answer is there, or the first event or byte of another one.
func (a *attempt) call(ctx context.Context, reply *reply) *fault {
	a.addHeaders()
	limits := &a.instance.Timeouts
	if limits.Total > 0 {
		ctx, a.cancel = context.WithTimeoutCause(ctx, limits.Total.Std(), errTotal)
	}
	firstByte, firstToken := limits.FirstByte.Std(), cmp.Or(limits.FirstToken, limits.FirstByte).Std()
	if a.req.Stream {
		// Many backends send the head together with the first event.
		firstByte = min(firstByte, firstToken)
	}
	a.sent = time.Now()
	response, err := a.proxy.client.Send(ctx, a.instance.Origin, &a.out, transport.Timeouts{
		Connect:   limits.Connect.Std(),
		FirstByte: firstByte,
		Idle:      limits.Idle.Std(),
	})
	if err != nil {
		if transport.IsRefusal(err) {
			a.instance.Health.Refused(time.Now())
		}
		a.noteWait(time.Now())
		return a.classify(err, false)
	}
	a.response = response
	err = reply.open(a.request, a.instance.Target.Speak, response, a.sent.Add(firstToken))
	now := time.Now()
	if reply.arrived.After(a.sent) {
		a.noteWait(reply.arrived)
	} else {
		a.noteWait(now)
	}
	if err != nil {
		return a.classify(err, false)
	}
	reply.firstByte = now
	return nil
}

// errTotal is the cause with which a call ends that took too long as a whole.
var errTotal = fmt.Errorf("%w: the whole answer took too long", transport.ErrTimeout)

// blame decides what a failed call means for the instance.
func (a *attempt) blame(ctx context.Context, failed *fault) {
	a.record.Try().Code, a.record.Try().Cause = failed.err.Code, failed.err.Cause
	if ctx.Err() != nil {
		failed.outcome = breaker.Cancelled // whatever broke then, the instance did not do it
		return
	}
	if failed.outcome.Failed() && a.failedBefore() && a.caller.Retry {
		failed.outcome = breaker.Cancelled // it was counted the first time
	}
	if failed.elsewhere {
		a.instance.Troubled()
	}
	if failed.overload > 0 {
		a.instance.Overloaded(time.Now().Add(failed.overload))
	}
}

// failedBefore tells whether the same request failed at the instance a short while
// ago, and notes that it failed now.
func (a *attempt) failedBefore() bool {
	return a.instance.FailedBefore(a.req.Digest(a.proxy.seed), time.Now())
}

// isSent tells whether the request has left whole, so that its memory may be used
// again.
func (a *attempt) isSent() bool { return a.response == nil || a.response.Sent() }

// forgetCall gives up the memory of a call that has left whole.
func (a *attempt) forgetCall() { a.out.Reset() }

// beforeWait sets what is called whenever all that has come from the backend is
// read, and the next read waits for more.
func (a *attempt) beforeWait(f func()) {
	if a.response != nil {
		a.response.BeforeWait = f
	}
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
	a.instance.Release(a.permit, outcome, now)
	if outcome == breaker.Success {
		a.instance.Health.Served(a.sent, now)
	}
	a.noteRelease(now)
	return true
}

// reset forgets everything but the memory.
func (a *attempt) reset() {
	a.out.Reset()
	*a = attempt{out: a.out}
}
