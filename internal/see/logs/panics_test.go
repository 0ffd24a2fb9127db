package logs_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

func TestAPanicIsLoggedWithItsStackAndCounted(t *testing.T) {
	var out bytes.Buffer
	log := logs.New(&out, logs.JSON, slog.LevelInfo)
	if !logs.Contain(log, "nothing", func() {}) || out.Len() > 0 {
		t.Errorf("without a panic: %s", &out)
	}
	if logs.Contain(logs.Named(log, "part"), "reading an answer", faulty) {
		t.Error("a panic was not told")
	}
	line := out.String()
	if !strings.Contains(line, `"msg":"reading an answer panicked"`) || !strings.Contains(line, "a fault of ours") || !strings.Contains(line, "logs_test.faulty") {
		t.Error(line)
	}
	// One that another goroutine raises again keeps the stack of where it happened.
	out.Reset()
	caught := logs.Try(faulty)
	again := logs.Try(caught.Raise)
	if again != caught || again.Error() != "a fault of ours" {
		t.Errorf("%v, %v", again, caught)
	}
	again.Report(log, "the request", slog.String("request_id", "r"))
	if line := out.String(); !strings.Contains(line, "logs_test.faulty") || !strings.Contains(line, `"request_id":"r"`) {
		t.Error(line)
	}
	if n := logs.Panics(log)(); n != 2 {
		t.Errorf("%d panics are counted", n)
	}
	// An abort is no fault.
	out.Reset()
	aborted := logs.Try(func() { panic(http.ErrAbortHandler) })
	aborted.Report(log, "a handler")
	if !errors.Is(aborted, http.ErrAbortHandler) || out.Len() > 0 || logs.Panics(log)() != 2 {
		t.Errorf("an abort: %v, %s", aborted, &out)
	}
	(*logs.Panic)(nil).Raise()
	(*logs.Panic)(nil).Report(log, "nothing")
	if other := slog.New(slog.DiscardHandler); logs.Contain(other, "this", faulty) || logs.Panics(other)() != 0 {
		t.Error("a logger that New did not make counts")
	}
}

func faulty() { panic("a fault of ours") }

func TestALoopThatPanicsBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, rounds, began := slog.New(slog.DiscardHandler), 0, time.Now()
		logs.Persist(t.Context(), log, "a loop", func(context.Context) {
			if rounds++; rounds < 3 {
				faulty()
			}
		})
		if rounds != 3 || time.Since(began) != 2*time.Second {
			t.Errorf("%d rounds in %s", rounds, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		logs.Persist(ctx, log, "a loop", func(context.Context) {
			cancel()
			faulty()
		})
	})
}
