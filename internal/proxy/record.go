package proxy

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/patchbay-ai/patchbay/internal/logs"
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

// loggerName is the name of the logger that tells the steps of requests.
const loggerName = "proxy"

// SetLog makes the proxy write a line at DEBUG for each step of a request as it happens:
// the choice of an instance, each call, and how it went. It must be called before the
// first request.
func (p *Proxy) SetLog(log *slog.Logger) { p.log = logs.Named(log, loggerName) }

// isVerbose reports whether the steps of requests are written. It is asked before the
// attributes of a line are made, which requests do not pay for otherwise.
func (r *request) isVerbose(ctx context.Context) bool {
	return r.proxy.log != nil && r.proxy.log.Enabled(ctx, slog.LevelDebug)
}

func (r *request) debug(ctx context.Context, message string, attrs ...slog.Attr) {
	r.proxy.log.LogAttrs(ctx, slog.LevelDebug, message, append([]slog.Attr{slog.String("request_id", r.Record.RequestID)}, attrs...)...)
}

// tellChoice writes which instance a request goes to first, or why it goes to none.
func (r *run) tellChoice(ctx context.Context, refused error) {
	if !r.isVerbose(ctx) {
		return
	}
	ready, total := int(r.Record.Candidates[0]), 0
	for _, n := range r.Record.Candidates {
		total += int(n)
	}
	attrs := []slog.Attr{
		slog.String("service", r.Record.Service.String()), slog.String("door", r.Record.Door.String()), slog.String("model", r.Model), slog.String("asked", r.Asked()),
		slog.Bool("stream", r.Asks.Stream), slog.String("strategy", r.Record.Strategy), slog.Int("ready", ready), slog.Int("instances", total),
		slog.Float64("waited_ms", float64(r.Record.Queued.Microseconds())/1000),
	}
	if refused != nil {
		r.debug(ctx, "no instance takes the request", append(attrs, slog.String("reason", refused.Error()))...)
		return
	}
	r.debug(ctx, "an instance was chosen", append(attrs, slog.String("instance", r.attempt.instance.ID))...)
}

// tellCall writes that an instance is called.
func (r *run) tellCall(ctx context.Context) {
	if !r.isVerbose(ctx) {
		return
	}
	try := r.Record.Try()
	r.debug(ctx, "calling", slog.Int("attempt", r.Record.Attempts), slog.String("instance", try.Instance), slog.String("adapter", try.Adapter),
		slog.String("model", r.Model))
}

// tellAnswer writes how a call went: its answer began, or it failed. What the backend said
// is left out, because it may repeat what the client wrote.
func (r *run) tellAnswer(ctx context.Context, failed *fault) {
	if !r.isVerbose(ctx) {
		return
	}
	try := r.Record.Try()
	attrs := []slog.Attr{
		slog.Int("attempt", r.Record.Attempts), slog.String("instance", try.Instance), slog.Int("status", try.Status), slog.Bool("reused", try.Reused),
		slog.Float64("backend_ms", float64(r.Record.Upstream.Microseconds())/1000),
	}
	if failed == nil {
		r.debug(ctx, "the answer begins", attrs...)
		return
	}
	r.debug(ctx, "the call failed", append(attrs, slog.String("error_code", try.Code), slog.String("cause", try.Cause),
		slog.Bool("another_may_serve", failed.failover))...)
}
