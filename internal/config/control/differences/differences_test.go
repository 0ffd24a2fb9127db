package differences

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestLargeNumbersAreWrittenOut(t *testing.T) {
	before, after := config.DefaultService(), config.DefaultService()
	before.CircuitBreaker.RecoveryTimeout = schema.Duration(30 * time.Second)
	after.CircuitBreaker.RecoveryTimeout = schema.Duration(time.Hour)
	found := Compare(versions.Services{schema.Chat: before}, versions.Services{schema.Chat: after})
	if got, want := Summarize(found), "chat: circuitBreaker.recoveryTimeout 30000→3600000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := found[0].Text(), "~ chat: circuitBreaker.recoveryTimeout 30000 → 3600000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := formatValue(0.25); got != "0.25" {
		t.Errorf("a fraction is %v", got)
	}
}

func TestReplacedNamesAreBothInTheSummary(t *testing.T) {
	before, after := config.DefaultService(), config.DefaultService()
	before.Aliases = map[string]string{"fast": "llama", "old": "llama"}
	after.Aliases = map[string]string{"fast": "qwen", "new": "llama"}
	before.Fallbacks = map[string][]string{"llama": {"qwen"}, "qwen": {"phi"}}
	after.Fallbacks = map[string][]string{"llama": {"phi", "qwen"}}
	found := Compare(versions.Services{schema.Chat: before}, versions.Services{schema.Chat: after})
	want := "chat: aliases.fast llama→qwen, aliases.new (none)→llama, aliases.old llama→(none), " +
		"fallbacks.llama qwen→phi, qwen, fallbacks.qwen phi→(none)"
	if got := Summarize(found); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if again := Compare(versions.Services{schema.Chat: after}, versions.Services{schema.Chat: after}); len(again) != 0 {
		t.Errorf("equal configurations differ in %v", again)
	}
}
