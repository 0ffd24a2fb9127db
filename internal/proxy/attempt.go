package proxy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/transport"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// attempt is one call to an instance.
type attempt struct {
	*request
	instance *backend.Instance // nil before the first attempt
	permit   backend.Permit
	held     bool // the permit has not been given back
	speaker  dialect.Speaker
	out      wire.Call
	response *transport.Response
	cancel   context.CancelFunc // releases the timer of the total timeout
	sent     time.Time          // when the call began
}

// begin starts an attempt at an instance that was acquired, and writes the call to
// it. If the call cannot be written, begin gives the instance back and leaves the
// attempt as it was.
func (a *attempt) begin(i *backend.Instance, now time.Time) error {
	previous := a.instance
	a.instance, a.held = i, true
	a.Record.Begin(i.ID, i.Kind.Name, now)
	a.Record.Try().Provider = cmp.Or(i.Kind.Guide.Provider, i.Kind.Name)
	target := i.Target
	if a.IsRenamed() {
		target = i.NamedTarget
	}
	target, a.speaker = target.ForDoor(a.Asks.Door, a.Client)
	err := a.speaker.Call(a.Asks, target, &a.out)
	if err != nil {
		a.returnUnused()
		a.instance = previous
	}
	return err
}

// returnUnused gives back an instance that was acquired and is not called after all.
func (a *attempt) returnUnused() {
	a.instance.Return(a.permit, time.Now())
	a.Record.Forget()
	a.instance, a.held = nil, false
}

// call sends the request to the instance and waits until the answer has begun: until
// an answer that is read whole is complete, or until the first event or byte of one
// that is streamed.
func (a *attempt) call(ctx context.Context, reply *reply) *fault {
	if err := a.addHeaders(ctx); err != nil {
		return a.classifier().classify(err, false)
	}
	limits := &a.instance.Timeouts
	if limits.Total > 0 {
		ctx, a.cancel = context.WithTimeoutCause(ctx, limits.Total.Std(), errTotal)
	}
	firstByte, firstToken := limits.FirstByte.Std(), cmp.Or(limits.FirstToken, limits.FirstByte).Std()
	if a.Asks.Stream {
		// Many backends send the head together with the first event.
		firstByte = min(firstByte, firstToken)
	}
	a.sent = time.Now()
	response, err := a.proxy.client.Send(ctx, &a.instance.Origin, &a.out, transport.Timeouts{
		Connect:   limits.Connect.Std(),
		FirstByte: firstByte,
		Idle:      limits.Idle.Std(),
	})
	if err != nil {
		if transport.IsRefusal(err) {
			a.instance.Health.Refused(time.Now())
		}
		a.noteWait(time.Now())
		failed := a.classifier().classify(err, false)
		if failed.unsent = transport.Unsent(err); failed.unsent {
			a.permit = a.instance.Unsent(a.permit, time.Now())
		}
		return failed
	}
	a.response = response
	err = reply.open(a.request, a.speaker, response, a.sent.Add(firstToken))
	now := time.Now()
	if reply.arrived.After(a.sent) {
		a.noteWait(reply.arrived)
	} else {
		a.noteWait(now)
	}
	if err != nil {
		return a.classifier().classify(err, false)
	}
	reply.firstByte = now
	return nil
}

func (a *attempt) classifier() classifier { return classifier{a.instance, a.Asks} }

// errTotal is the cause with which a call ends that exceeds its total timeout.
var errTotal = fmt.Errorf("%w: the whole answer took too long", transport.ErrTimeout)

// noteFailure tells the instance and the record that the call failed. It changes the
// outcome of the fault where the failure must not count against the instance.
func (a *attempt) noteFailure(ctx context.Context, failed *fault) {
	a.Record.Fail(failed.err.Code, failed.err.Cause, failed.err.Message)
	if ctx.Err() != nil {
		failed.outcome = breaker.Cancelled // the client left or the gateway stops
		return
	}
	if failed.outcome.Failed() && a.instance.FailedBefore(a.Asks.Digest(a.proxy.seed), time.Now()) && a.Caller.Retry {
		failed.outcome = breaker.Cancelled // it was counted the first time
	}
	if failed.failover {
		a.instance.Troubled()
	}
	if failed.outcome.Failed() {
		a.instance.NoteFailure(failed.err.Code, a.Record.Try().Text, time.Now())
	}
	if failed.overload > 0 {
		a.instance.Overloaded(time.Now().Add(failed.overload))
	}
}

// dropCall drops the call if all of it was sent to the backend, and tells whether it
// was: then nothing reads the memory of the request any more.
func (a *attempt) dropCall() bool {
	if a.response != nil && !a.response.Sent() {
		return false
	}
	a.out.Reset()
	return true
}

// beforeWait sets a function that is called whenever the next read of the answer
// has to wait for the backend.
func (a *attempt) beforeWait(f func()) {
	if a.response != nil {
		a.response.BeforeWait = f
	}
}

// end closes the connection to the backend and gives the instance back with the
// outcome of the call. It tells whether the instance was still held. The time is zero
// where it is not known.
func (a *attempt) end(outcome breaker.Outcome, now time.Time) bool {
	if now.IsZero() && (a.held || a.response != nil) {
		now = time.Now()
	}
	if a.response != nil {
		a.response.CloseAt(now) // the answer was read or is not wanted any more
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
	a.instance.Release(a.permit, outcome, now)
	if outcome == breaker.Success {
		a.instance.Health.Served(a.sent)
	}
	a.noteRelease(now)
	return true
}

// reset clears the attempt and keeps its memory for the next request.
func (a *attempt) reset() {
	a.out.Reset()
	*a = attempt{out: a.out}
}
