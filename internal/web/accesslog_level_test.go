package web_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/logs"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// What went wrong here or at a backend is a warning; what a client did is not.
func TestLevelOfARequestsLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path   string
		status int
		gone   bool
		want   string
	}{
		{"/v1/chat/completions", 200, false, `"level":"INFO"`},
		{"/v1/chat/completions", 429, false, `"level":"INFO"`},
		{"/v1/chat/completions", 500, false, `"level":"WARN"`},
		{"/v1/chat/completions", 503, false, `"level":"WARN"`},
		{"/api/config/type", 500, false, `"level":"WARN"`},
		{"/v1/chat/completions", 502, true, `"level":"INFO"`},
		{"/actuator/health/readiness", 503, false, `"level":"DEBUG"`}, // or a gateway that is not ready would say so every few seconds
	} {
		var out bytes.Buffer
		shell := web.NewShell(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			web.CallOf(w).Gone = c.gone
			w.WriteHeader(c.status)
		}), web.Options{Log: logs.New(&out, logs.JSON, slog.LevelDebug), AccessLog: true, AccessSample: 1})
		shell.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, c.path, nil))
		if line := out.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, c.want) {
			t.Errorf("%s %d, gone %v: want %s in %s", c.path, c.status, c.gone, c.want, line)
		}
	}
}
