package web

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/logs"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// log writes the access log line of a request, unless its level is off or sampling
// leaves it out.
func (s *Shell) log(c *calls.Call, r *http.Request) {
	level := levelOf(c, r.URL.Path)
	if !s.options.AccessLog || !s.access.Enabled(r.Context(), level) || s.leftOut(c) {
		return
	}
	status := c.Status
	if c.Gone {
		status = schema.StatusCancelled
	}
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("request_id", c.RequestID),
		slog.String("method", Shorten(r.Method)),
		slog.String("path", loggedPath(r)),
		slog.Int("status", status),
		slog.Float64("duration_ms", milliseconds(c.Ended)))
	if c.Unified {
		attrs = append(attrs, slog.String("service", c.Service.String()), slog.String("model", cmp.Or(c.Model, c.Asked)),
			slog.String("instance", c.Instance), slog.Int("attempts", c.Attempts))
		if c.Model != "" && c.Asked != "" {
			attrs = append(attrs, slog.String("asked", c.Asked))
		}
	}
	if c.FirstByte > 0 {
		attrs = append(attrs, slog.Float64("ttft_ms", milliseconds(c.FirstByte)))
	}
	if c.Usage.Known {
		attrs = append(attrs, slog.Int64("prompt_tokens", c.Usage.Prompt), slog.Int64("completion_tokens", c.Usage.Completion))
	}
	if c.Cost > 0 {
		attrs = append(attrs, slog.String("cost", c.Cost.String()))
	}
	if c.Code != "" {
		attrs = append(attrs, slog.String("error_code", c.Code))
	}
	if cause := c.Cause(); cause != "" {
		attrs = append(attrs, slog.String("cause", cause))
	}
	if retry := r.Header["X-Stainless-Retry-Count"]; len(retry) > 0 && retry[0] != "" && retry[0] != "0" && len(retry[0]) < 4 {
		attrs = append(attrs, slog.String("client_retry", retry[0]))
	}
	_ = logs.WriteAttrs(r.Context(), s.access, c.Started.Add(c.Ended), level, "request", attrs) // a log that fails is no fault of the request
}

// logArrival writes at DEBUG that a request has come, so that one which does not end is
// seen as well.
func (s *Shell) logArrival(c *calls.Call, r *http.Request) {
	if !s.options.AccessLog || isProbe(r.URL.Path) || !s.access.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	_ = logs.WriteAttrs(r.Context(), s.access, c.Started, slog.LevelDebug, "request arrived", []slog.Attr{
		slog.String("request_id", c.RequestID), slog.String("method", Shorten(r.Method)), slog.String("path", loggedPath(r)),
		slog.String("peer", r.RemoteAddr), slog.String("protocol", r.Proto), slog.Int64("length", r.ContentLength),
	}) // a log that fails is no fault of the request
}

// loggedPath returns the path of a request for a log, in which one may have no more than a
// short line, whatever was sent.
func loggedPath(r *http.Request) string {
	const longest = 512
	return CutText(r.URL.Path, longest)
}

// levelOf returns the level of a request's line. A client that left is not a warning.
func levelOf(c *calls.Call, path string) slog.Level {
	switch {
	case isProbe(path):
		return slog.LevelDebug
	case c.Status >= http.StatusInternalServerError && !c.Gone:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// leftOut decides at random whether a successful request gets no line. Every other
// request gets one.
func (s *Shell) leftOut(c *calls.Call) bool {
	sample := s.options.AccessSample
	if sample >= 1 || c.Status >= http.StatusBadRequest || c.Code != "" || c.Gone {
		return false
	}
	return rand.Float64() >= sample //nolint:gosec // nobody gains by guessing it
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
