package web

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// log ends the record of a request: it is counted, and gets a line.
func (s *Shell) log(w *Response, r *http.Request) {
	record := &w.Record
	took := time.Since(record.Started)
	s.options.Recorder.HTTP(r.URL.Path, record.Status, took)
	level := levelOf(record, r.URL.Path)
	if !s.options.AccessLog || !s.access.Enabled(r.Context(), level) || s.leftOut(record) {
		return
	}
	status := record.Status
	if record.Gone {
		status = schema.StatusCancelled
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("request_id", record.RequestID),
		slog.String("method", r.Method),
		slog.String("path", r.URL.Path),
		slog.Int("status", status),
		slog.Float64("duration_ms", milliseconds(took)))
	if record.Service != "" {
		attrs = append(attrs, slog.String("service", record.Service), slog.String("model", record.Model),
			slog.String("instance", record.Instance), slog.Int("attempts", record.Attempts))
	}
	if record.FirstByte > 0 {
		attrs = append(attrs, slog.Float64("ttft_ms", milliseconds(record.FirstByte)))
	}
	if record.Usage.Known {
		attrs = append(attrs, slog.Int64("prompt_tokens", record.Usage.Prompt), slog.Int64("completion_tokens", record.Usage.Completion))
	}
	if record.ErrorCode != "" {
		attrs = append(attrs, slog.String("error_code", record.ErrorCode))
	}
	if record.Cause != "" {
		attrs = append(attrs, slog.String("cause", record.Cause))
	}
	if retry := r.Header.Get("X-Stainless-Retry-Count"); retry != "" && retry != "0" && len(retry) < 4 {
		attrs = append(attrs, slog.String("client_retry", retry))
	}
	s.access.LogAttrs(r.Context(), level, "request", attrs...)
}

// levelOf says how much a request matters to who runs the gateway. A client that
// left is no fault of anybody here.
func levelOf(record *Record, path string) slog.Level {
	switch {
	case !counts(path):
		return slog.LevelDebug // probes come every few seconds and say nothing
	case record.Status >= http.StatusInternalServerError && !record.Gone:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// leftOut decides by chance whether a request that went well gets no line. What
// did not go well always gets one.
func (s *Shell) leftOut(record *Record) bool {
	sample := s.options.AccessSample
	if sample >= 1 || record.Status >= http.StatusBadRequest || record.ErrorCode != "" || record.Gone {
		return false
	}
	return rand.Float64() >= sample //nolint:gosec // nobody gains by guessing it
}

func milliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
