package web_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
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
			web.RecordOf(w).Gone = c.gone
			w.WriteHeader(c.status)
		}), web.Options{Log: logs.New(&out, logs.JSON, slog.LevelDebug), AccessLog: true, AccessSample: 1})
		shell.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, c.path, nil))
		line := ended.FindAllString(out.String(), -1)
		if len(line) != 1 || !strings.Contains(line[0], c.want) {
			t.Errorf("%s %d, gone %v: want %s in %s", c.path, c.status, c.gone, c.want, line)
		}
	}
}

// ended matches the lines of requests that have ended.
var ended = regexp.MustCompile(`(?m)^.*"msg":"request",.*$`)

// At DEBUG a request has a line before its handler begins, so that one which never ends is
// seen too. Probes, which keep asking, have none.
func TestDebugTellsOfRequestsThatArrive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path  string
		level slog.Level
		want  int
	}{
		{"/v1/chat/completions", slog.LevelDebug, 1},
		{"/api/config/type", slog.LevelDebug, 1},
		{"/v1/chat/completions", slog.LevelInfo, 0},
		{"/actuator/health", slog.LevelDebug, 0},
	} {
		var out bytes.Buffer
		shell := web.NewShell(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			line := out.String()
			if strings.Count(line, "\n") != c.want || c.want == 1 && !strings.Contains(line, `"level":"DEBUG","logger":"access","msg":"request arrived"`) {
				t.Errorf("%s at %s: %s", c.path, c.level, line)
			}
			for _, part := range []string{`"request_id":"req_`, `"method":"POST"`, `"path":"` + c.path + `"`, `"peer":"192.0.2.1:1234"`, `"length":4`} {
				if c.want == 1 && !strings.Contains(line, part) {
					t.Errorf("%s is not in %s", part, line)
				}
			}
		}), web.Options{Log: logs.New(&out, logs.JSON, c.level), AccessLog: true, AccessSample: 1})
		shell.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, c.path, strings.NewReader("body")))
	}
}
