package config_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// JSON has many spellings of one number, and programs write all of them.
func TestWholeNumbersAreReadInEverySpellingOfJSON(t *testing.T) {
	for _, written := range []string{"3000", "3000.0", "3e3", "3.0E+3", "30000e-1"} {
		service := config.DefaultService()
		_, err := config.DecodeJSON([]byte(`{"circuitBreaker":{"recoveryTimeout":`+written+`,"failureThreshold":`+written+`}}`), &service)
		if err != nil || service.CircuitBreaker.RecoveryTimeout.Std() != 3*time.Second || service.CircuitBreaker.FailureThreshold != 3000 {
			t.Errorf("%s: %+v, %v", written, service.CircuitBreaker, err)
		}
	}
	for _, written := range []string{"1.5", "1e-1", "1e300", "1e400", "-1.0", "99999999999999999999.0"} {
		service := config.DefaultService()
		if _, err := config.DecodeJSON([]byte(`{"circuitBreaker":{"recoveryTimeout":`+written+`}}`), &service); err == nil {
			t.Errorf("%s became %v", written, service.CircuitBreaker.RecoveryTimeout)
		}
	}
}
