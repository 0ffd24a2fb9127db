package proxy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

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
