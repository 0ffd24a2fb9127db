package logs_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

func TestLinesAreJSONObjects(t *testing.T) {
	var out bytes.Buffer
	log := logs.New(&out, logs.JSON, slog.LevelInfo)
	logs.Named(log, "access").With("a", 1).Info("a \"text\"\n",
		"text", "\x1b[31m\xff", "float", 0.25, "large", 1e21, "bool", true, "list", []string{"x"}, "error", errors.New("why"),
		"took", 1500*time.Millisecond, "at", time.Unix(0, 0), slog.Group("g", slog.Int("n", 1)), "none", nil)
	if strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("more than one line: %q", out.String())
	}
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for key, want := range map[string]any{
		"level": "INFO", "logger": "access", "msg": "a \"text\"\n", "a": 1.0, "text": "\x1b[31m\uFFFD", "float": 0.25, "large": 1e21, "bool": true,
		"error": "why", "took": "1.5s", "at": "1970-01-01T00:00:00Z", "g.n": 1.0, "none": nil,
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, line["ts"].(string)); err != nil || at.Location() != time.UTC {
		t.Errorf("ts %v, %v", line["ts"], err)
	}
}

func TestLevelsFollowTheLongestConfiguredName(t *testing.T) {
	var out bytes.Buffer
	root := logs.New(&out, logs.JSON, slog.LevelInfo)
	levels := logs.LevelsOf(root)
	deep := logs.Named(root, "a.b.c")
	writes := func(log *slog.Logger, level slog.Level) bool {
		out.Reset()
		log.Log(t.Context(), level, "x")
		return out.Len() > 0
	}
	if writes(deep, slog.LevelDebug) || !writes(deep, slog.LevelInfo) {
		t.Error("a new logger does not follow the root")
	}
	if err := levels.Set("a.b", slog.LevelDebug); err != nil {
		t.Fatal(err)
	}
	if !writes(deep, slog.LevelDebug) || writes(root, slog.LevelDebug) || writes(logs.Named(root, "a.bc"), slog.LevelDebug) {
		t.Error("the level of a.b is not that of a.b.c alone")
	}
	if err := levels.Set("a.b.c", logs.LevelOff); err != nil {
		t.Fatal(err)
	}
	if writes(deep, slog.LevelError) {
		t.Error("a logger that is off writes")
	}
	levels.Clear("a.b.c")
	levels.Clear("a.b")
	if err := levels.Set("root", slog.LevelError); err != nil {
		t.Fatal(err)
	}
	if writes(deep, slog.LevelWarn) || writes(root, slog.LevelWarn) || !writes(deep, slog.LevelError) {
		t.Error("the root's level is not inherited")
	}
	levels.Clear("ROOT")
	if writes(deep, slog.LevelDebug) || !writes(deep, slog.LevelInfo) || !writes(root, slog.LevelInfo) {
		t.Error("the root does not have the level of the start again")
	}
	if names := levels.Names(); !slices.Equal(names, []string{"ROOT", "a.b.c", "a.bc"}) {
		t.Errorf("names %v", names)
	}
}

func BenchmarkAccessLine(b *testing.B) {
	log := logs.Named(logs.New(io.Discard, logs.JSON, slog.LevelInfo), "access")
	b.ReportAllocs()
	for b.Loop() {
		log.LogAttrs(b.Context(), slog.LevelInfo, "request", slog.String("request_id", "req_ABCDEFGHIJKLMNOPQRSTUVWXYZ"), slog.String("method", "POST"),
			slog.String("path", "/v1/chat/completions"), slog.Int("status", 200), slog.Float64("duration_ms", 12.34), slog.String("service", "chat"),
			slog.String("model", "llama3"), slog.String("instance", "llama3@http://gpu1:8000"), slog.Int("attempts", 1), slog.Float64("ttft_ms", 3.21),
			slog.Int64("prompt_tokens", 12), slog.Int64("completion_tokens", 345))
	}
}
