package web_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

func shellFor(out io.Writer, sample float64) *web.Shell {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := web.RecordOf(w)
		call.Unified, call.Model = true, "m"
		call.Begin("m@http://gpu:8000", "openai", call.Started)
		call.FirstByte, call.FirstToken, call.PerToken, call.Usage = 1, 1, 1, schema.Usage{Prompt: 1, Completion: 2, Total: 3, Known: true}
		if r.URL.Path == "/v1/bad" {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	return web.NewShell(handler, web.Options{Log: logs.New(out, logs.JSON, slog.LevelInfo), AccessLog: true, AccessSample: sample})
}

func TestAccessLogIsSampled(t *testing.T) {
	t.Parallel()
	for sample, want := range map[float64][2]int{1: {1000, 1000}, 0.2: {120, 280}, 0: {0, 0}} {
		var out bytes.Buffer
		shell := shellFor(&out, sample)
		for range 1000 {
			shell.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/good", nil))
		}
		if n := strings.Count(out.String(), "\n"); n < want[0] || n > want[1] {
			t.Errorf("%v: %d lines", sample, n)
		}
		out.Reset()
		for range 10 {
			shell.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/bad", nil))
		}
		if n := strings.Count(out.String(), `"status":502`); n != 10 {
			t.Errorf("%v: %d of 10 errors have a line", sample, n)
		}
	}
}

func BenchmarkAccessLog(b *testing.B) {
	for name, sample := range map[string]float64{"line": 1, "left out": 0} {
		b.Run(name, func(b *testing.B) {
			shell := shellFor(io.Discard, sample)
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/good", nil)
			b.ReportAllocs()
			for b.Loop() {
				shell.ServeHTTP(w, r)
			}
		})
	}
}
