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
func (r *Reply) startRecord(c *calls.Call) {
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

// endRecord notes what is known of a request only at its end.
func (r *Reply) endRecord() {
	c := r.record
	c.Model, c.Usage, c.Streamed = r.Model, r.Usage(), r.events != nil || r.binary
	if !r.FirstByte.IsZero() {
		c.FirstByte = c.At(r.FirstByte)
	}
	if r.Instance == nil {
		return
	}
	c.Series = r.Instance.Series
	if try := c.Try(); try.Code == "" {
		try.Code = c.Code // the answer broke off after it had begun
	}
}
