package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Record makes the recorder count failovers and requests that are shed, and decide
// which requests are traced. It is called before the first request.
func (p *Proxy) Record(to *calls.Recorder) { p.recorder = to }

// startRecord takes over the record of a request.
func (r *request) startRecord(c *calls.Call) {
	r.record = c
	c.Routed, c.Service = true, r.req.Service
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

// noteWait adds the time that was spent waiting for a backend.
func (a *attempt) noteWait(until time.Time) {
	a.record.Upstream += until.Sub(a.sent)
	try := a.record.Try()
	try.Sent = a.record.At(a.sent)
	if a.response != nil {
		try.FirstByte, try.Reused = a.record.At(until), a.response.Reused
	}
}

// noteRelease ends an attempt.
func (a *attempt) noteRelease(now time.Time) {
	try := a.record.Try()
	try.Ended = a.record.At(now)
	a.instance.Took(try.Ended - try.Began)
}

// noteEnd notes why a request was not answered, or not to its end.
func (r *request) noteEnd(err error) {
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

// endRecord notes what is known of a request only at its end.
func (r *run) endRecord() {
	c := r.record
	c.Model, c.Usage, c.Streamed = r.model, r.reply.usage(), r.reply.isSentWhileItComes()
	if !r.reply.firstByte.IsZero() {
		c.FirstByte = c.At(r.reply.firstByte)
	}
	if r.attempt.instance == nil {
		return
	}
	c.Series = r.attempt.instance.Series
	if try := c.Try(); try.Code == "" {
		try.Code = c.Code // the answer broke off after it had begun
	}
}
