package logs_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// Only the logger of requests writes requests; what others call so keeps its words.
func TestOnlyTheAccessLogHasTheFormOfRequests(t *testing.T) {
	var out bytes.Buffer
	log := logs.New(&out, logs.Text, slog.LevelInfo)
	log.Info("request", "error", "cannot be read", "from", "somewhere")
	if line := out.String(); !strings.HasSuffix(line, "INFO  request error=\"cannot be read\" from=somewhere\n") {
		t.Errorf("a line of another logger: %q", line)
	}
	out.Reset()
	logs.Named(log, logs.Access).Info("request", "request_id", "req_1", "method", "GET", "path", "/v1/models", "status", 200, "duration_ms", 1.5)
	if line := out.String(); !strings.HasSuffix(line, "INFO  GET /v1/models 200 1.5ms req_1\n") {
		t.Errorf("a request: %q", line)
	}
}

func TestLevelsHaveColours(t *testing.T) {
	var out bytes.Buffer
	log := logs.New(&out, logs.Coloured, logs.LevelTrace)
	for level, want := range map[slog.Level]string{
		slog.LevelError: " \x1b[31mERROR\x1b[0m x\n", slog.LevelWarn: " \x1b[33mWARN\x1b[0m  x\n",
		slog.LevelInfo: " \x1b[32mINFO\x1b[0m  x\n", slog.LevelDebug: " \x1b[2mDEBUG\x1b[0m x\n",
	} {
		out.Reset()
		log.Log(t.Context(), level, "x")
		if line := out.String(); !strings.HasSuffix(line, want) {
			t.Errorf("%q, want %q", line, want)
		}
	}
	for _, format := range []logs.Format{logs.Text, logs.JSON} {
		out.Reset()
		logs.New(&out, format, slog.LevelInfo).Error("x")
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("colour where nobody asked for it: %q", out.String())
		}
	}
}
