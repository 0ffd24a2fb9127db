package breaker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestDefaultSettings(t *testing.T) {
	want := breaker.Settings{
		Enabled: true, FailureThreshold: 5, RecoveryTimeout: schema.Duration(30 * time.Second), SuccessThreshold: 3,
	}
	if got := breaker.DefaultSettings(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestSettingsRules(t *testing.T) {
	for name, c := range map[string]struct {
		settings breaker.Settings
		want     []string
	}{
		"defaults": {breaker.DefaultSettings(), nil},
		"least":    {breaker.Settings{FailureThreshold: 1, RecoveryTimeout: 1, SuccessThreshold: 1}, nil},
		"zero":     {breaker.Settings{}, []string{"failureThreshold", "recoveryTimeout", "successThreshold"}},
		"negative": {breaker.Settings{FailureThreshold: 1, RecoveryTimeout: -1, SuccessThreshold: 1}, []string{"recoveryTimeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			var paths []string
			c.settings.Check(func(path string, _ say.Sentence) { paths = append(paths, path) })
			if !slices.Equal(paths, c.want) {
				t.Errorf("broken rules of %v, want %v", paths, c.want)
			}
		})
	}
}
