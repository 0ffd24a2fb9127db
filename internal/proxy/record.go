package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Record counts and records what is answered from now on. It is called before
// the first request.
func (p *Proxy) Record(to *calls.Recorder) { p.recorder = to }

// startRecord begins the record of a request.
func (r *Reply) startRecord() {
	c := &r.record
	c.Routed = true
	c.Started = r.caller.Arrived
	if c.Started.IsZero() {
		c.Started = time.Now()
	}
	if !r.caller.Ready.IsZero() {
		c.Ready = c.At(r.caller.Ready)
	}
	c.RequestID, c.KeyID, c.Service = r.caller.RequestID, r.caller.KeyID, r.req.Service
	if r.proxy.recorder.Tracing() {
		c.Trace = r.proxy.recorder.StartTrace(r.caller.Traceparent)
	}
}

// noteFailover counts that another instance takes the place of the one that was
// called last, if any was.
func (c *choice) noteFailover() {
	if called := c.excluded.called; len(called) > 0 && c.proxy.recorder.On() {
		called[len(called)-1].Series.Failovers.Add(1)
	}
}

// noteWait adds the time that was spent waiting for a backend. The part of a
// whole answer that was spent on understanding it is the gateway's own.
func (r *Reply) noteWait(sent, now time.Time) {
	if r.answered.After(sent) {
		now = r.answered
	}
	r.record.Upstream += now.Sub(sent)
	try := r.record.Try()
	try.Sent = r.record.At(sent)
	if r.response != nil {
		try.FirstByte, try.Reused = r.record.At(now), r.response.Reused
	}
}

// noteRelease ends an attempt.
func (a *attempt) noteRelease(now time.Time) {
	try := a.record.Try()
	try.Ended = a.record.At(now)
	a.Instance.Took(try.Ended - try.Began)
}

// noteEnd notes why a request was not answered, or not to its end.
func (r *Reply) noteEnd(err error) {
	var known *schema.Error
	switch {
	case err == nil:
	case errors.As(err, &known):
		r.record.Code = known.Code
	case errors.Is(err, context.Canceled):
		r.record.Gone, r.record.Code = true, schema.CodeCancelled
	default: // the gateway stops
		r.record.Code = schema.CodeServiceUnavailable
	}
}

// Answered says which status the client was sent.
func (r *Reply) Answered(status int) { r.record.HTTP = status }

// finishRecord counts the request, once, on the instance that answered last.
func (r *Reply) finishRecord() {
	recorder := r.proxy.recorder
	if !recorder.On() {
		return
	}
	c := &r.record
	c.Model, c.Usage, c.Streamed = r.Model, r.Usage(), r.events != nil || r.binary
	if !r.FirstByte.IsZero() {
		c.FirstByte = c.At(r.FirstByte)
	}
	c.Ended = c.At(time.Now())
	if r.Instance == nil {
		recorder.Finish(nil, c)
		return
	}
	if try := c.Try(); try.Code == "" {
		try.Code = c.Code // it broke after it had begun
	}
	recorder.Finish(r.Instance.Series, c)
}
