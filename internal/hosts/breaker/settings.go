// Package breaker keeps failing backends out of traffic: a circuit breaker that
// opens after failures in a row, tries again after a pause, and closes after
// successes in a row.
package breaker

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Settings say when a breaker opens and when it closes again.
type Settings struct {
	Enabled bool `json:"enabled"`
	// FailureThreshold is the number of failures in a row that opens the breaker.
	FailureThreshold int `json:"failureThreshold" minimum:"1"`
	// RecoveryTimeout is how long an open breaker refuses before it allows a trial.
	RecoveryTimeout schema.Duration `json:"recoveryTimeout" minimum:"1"`
	// SuccessThreshold is the number of trials in a row that must succeed.
	SuccessThreshold int `json:"successThreshold" minimum:"1"`
}

// DefaultSettings returns the settings where nothing is configured.
func DefaultSettings() Settings {
	return Settings{
		Enabled:          true,
		FailureThreshold: 5,
		RecoveryTimeout:  schema.Duration(30 * time.Second),
		SuccessThreshold: 3,
	}
}

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if s.FailureThreshold < 1 {
		report("failureThreshold", say.New("field.at_least", "least", "1", "found", s.FailureThreshold))
	}
	if s.RecoveryTimeout <= 0 {
		report("recoveryTimeout", say.New("field.longer"))
	}
	if s.SuccessThreshold < 1 {
		report("successThreshold", say.New("field.at_least", "least", "1", "found", s.SuccessThreshold))
	}
}
