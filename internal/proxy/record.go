package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// startRecord begins to fill in the record of the request.
func (r *request) startRecord() {
	c := r.Record
	c.Client = r.Caller.Addr
	c.Routed, c.Service = true, r.Asks.Service
	if r.proxy.recorder.Tracing() {
		c.Trace = r.proxy.recorder.StartTrace(r.Caller.Traceparent)
	}
}

// noteFailover counts a failover of the instance that was called last, if any was.
func (c *choice) noteFailover() {
	if called := c.excluded.called; len(called) > 0 && c.proxy.recorder.On() {
		called[len(called)-1].Series.Failovers.Add(1)
	}
}

// noteChoice notes how the first instance was chosen, or why none was.
func (c *choice) noteChoice() {
	c.Record.Strategy = c.pool.Service.Policy.LoadBalancer.String()
	if len(c.last.obstacles) > 0 && &c.last.obstacles[0] == &c.pool.Barriers[0] {
		c.Record.Candidates = c.pool.Barred // all are well, and were counted when the table was made
		return
	}
	for _, o := range c.last.obstacles {
		c.Record.Candidates[o]++
	}
}

// noteWait adds the time from sending the call until then to what the request spent
// waiting for backends.
func (a *attempt) noteWait(until time.Time) {
	a.Record.Upstream += until.Sub(a.sent)
	try := a.Record.Try()
	try.Sent = a.Record.At(a.sent)
	if a.response != nil {
		try.FirstByte, try.Reused, try.Status = a.Record.At(until), a.response.Reused, a.response.Status
	}
}

// noteRelease notes in the record when the attempt ended.
func (a *attempt) noteRelease(now time.Time) {
	try := a.Record.Try()
	try.Ended = a.Record.At(now)
	a.instance.Took(try.Ended - try.Began)
}

// noteEnd notes why a request was not answered, or not to its end.
func (r *request) noteEnd(err error) {
	var known *schema.Error
	switch {
	case err == nil:
	case errors.As(err, &known):
		r.Record.Code = known.Code
	case errors.Is(err, context.Canceled):
		r.Record.Gone, r.Record.Code = true, schema.CodeCancelled
	default: // the gateway stops
		r.Record.Code = schema.CodeServiceUnavailable
	}
}

// endRecord adds to the record what is known only at the end of the request.
func (r *run) endRecord() {
	c := r.Record
	c.Model, c.Usage = r.Model, r.usage()
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
