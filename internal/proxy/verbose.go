package proxy

import (
	"context"
	"log/slog"

	"github.com/patchbay-ai/patchbay/internal/logs"
)

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
