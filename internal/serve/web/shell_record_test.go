package web_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// The line of the access log and the recorded call are made from the same record.
func TestTheRecordOfARequestIsLoggedAndRecorded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handle   func(http.ResponseWriter, *calls.Record)
		logged   []string
		recorded bool
		result   schema.Result
	}{
		"answered": {
			handle: func(w http.ResponseWriter, c *calls.Record) {
				c.Unified, c.Routed, c.Model = true, true, "m"
				c.Begin("m@http://gpu:8000", "openai", c.Started)
				w.WriteHeader(http.StatusOK)
			},
			logged:   []string{`"status":200`, `"service":"chat"`, `"model":"m"`, `"instance":"m@http://gpu:8000"`, `"attempts":1`},
			recorded: true, result: schema.ResultSuccess,
		},
		"no backend can be reached": {
			handle: func(w http.ResponseWriter, c *calls.Record) {
				c.Unified, c.Routed, c.Model, c.Code = true, true, "m", schema.CodeUpstreamError
				c.Begin("m@http://gpu:8000", "openai", c.Started)
				c.Try().Cause = "connection_refused"
				w.WriteHeader(http.StatusBadGateway)
			},
			logged:   []string{`"status":502`, `"error_code":"upstream_error"`, `"cause":"connection_refused"`},
			recorded: true, result: schema.ResultFailed,
		},
		"unknown model": {
			handle: func(w http.ResponseWriter, c *calls.Record) {
				c.Unified, c.Routed, c.Asked, c.Code = true, true, "gpt-9", schema.CodeModelNotFound
				w.WriteHeader(http.StatusNotFound)
			},
			logged:   []string{`"status":404`, `"model":"gpt-9"`, `"error_code":"model_not_found"`},
			recorded: true, result: schema.ResultFailed,
		},
		"refused before routing": {
			handle: func(w http.ResponseWriter, c *calls.Record) {
				c.Unified, c.Code = true, schema.CodeInvalidAPIKey
				w.WriteHeader(http.StatusUnauthorized)
			},
			logged:   []string{`"status":401`, `"error_code":"invalid_api_key"`},
			recorded: true, result: schema.ResultUnauthorized,
		},
		"client left before routing": {
			handle: func(_ http.ResponseWriter, c *calls.Record) {
				c.Unified, c.Gone, c.Code = true, true, schema.CodeCancelled
			},
			logged: []string{`"status":499`, `"error_code":"client_cancelled"`},
		},
		"client left in the middle of its answer": {
			handle: func(w http.ResponseWriter, c *calls.Record) {
				w.WriteHeader(http.StatusOK)
				c.Unified, c.Routed, c.FirstByte, c.Gone, c.Code = true, true, 1, true, schema.CodeCancelled
			},
			logged:   []string{`"status":499`, `"error_code":"client_cancelled"`},
			recorded: true, result: schema.ResultSuccess,
		},
		"not the unified API": {
			handle: func(w http.ResponseWriter, _ *calls.Record) { w.WriteHeader(http.StatusNoContent) },
			logged: []string{`"status":204`},
		},
		"handler panicked": {
			handle: func(_ http.ResponseWriter, c *calls.Record) {
				c.Unified, c.Routed = true, true
				panic("on purpose")
			},
			logged:   []string{`"status":500`, `"error_code":"internal_error"`},
			recorded: true, result: schema.ResultFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			recorder := calls.NewRecorder(metrics.DefaultSettings())
			shell := web.NewShell(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { test.handle(w, web.RecordOf(w)) }), web.Options{
				Log: logs.New(&out, logs.JSON, slog.LevelInfo), AccessLog: true, AccessSample: 1, Recorder: recorder,
				Fail: func(w http.ResponseWriter, _ *http.Request, err *schema.Error) { w.WriteHeader(err.HTTPStatus()) },
			})
			for range 2 { // the second time with a record that was used before
				out.Reset()
				request := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
				request.Header.Set("X-Request-Id", "req_1")
				shell.ServeHTTP(httptest.NewRecorder(), request)
			}
			for _, part := range append(test.logged, `"request_id":"req_1"`) {
				if !strings.Contains(out.String(), part) {
					t.Errorf("no %s in %s", part, out.String())
				}
			}
			n := 0
			for c := range recorder.Calls() {
				if n++; c.RequestID != "req_1" || c.Result != test.result {
					t.Errorf("recorded %+v", c)
				}
			}
			if want := map[bool]int{true: 2}[test.recorded]; n != want {
				t.Errorf("%d calls were recorded, want %d", n, want)
			}
		})
	}
}
