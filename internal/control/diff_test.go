package control

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

func TestLargeNumbersAreWrittenOut(t *testing.T) {
	before, after := config.DefaultService(), config.DefaultService()
	before.CircuitBreaker.RecoveryTimeout = schema.Duration(30 * time.Second)
	after.CircuitBreaker.RecoveryTimeout = schema.Duration(time.Hour)
	found := Compare(Services{schema.Chat: before}, Services{schema.Chat: after})
	if got, want := summarize(found), "chat: circuitBreaker.recoveryTimeout 30000→3600000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := found[0].Text(), "~ chat: circuitBreaker.recoveryTimeout 30000 → 3600000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := formatValue(0.25); got != "0.25" {
		t.Errorf("a fraction is %v", got)
	}
}
