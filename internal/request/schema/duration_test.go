package schema_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestDurationsAreWholeMilliseconds(t *testing.T) {
	for _, written := range []string{"500us", "100µs", "1ns", "0.9ms", "1.5ms", "1s1us", "1m0.0001s"} {
		for name, err := range map[string]error{
			"text": new(schema.Duration).UnmarshalText([]byte(written)),
			"JSON": json.Unmarshal([]byte(`"`+written+`"`), new(schema.Duration)),
		} {
			if err == nil || !strings.Contains(err.Error(), "whole number of milliseconds") {
				t.Errorf("%s as %s: %v", written, name, err)
			}
		}
	}
	for written, want := range map[string]time.Duration{
		"0": 0, "1": time.Millisecond, "1000us": time.Millisecond, "0.5s": 500 * time.Millisecond, "1m0.001s": time.Minute + time.Millisecond, "0ns": 0,
	} {
		var got schema.Duration
		if err := got.UnmarshalText([]byte(written)); err != nil || got.Std() != want {
			t.Errorf("%s is %v, %v", written, got, err)
		}
	}
}

// What was read is what is stored: every form of it reads back the same.
func TestPropertyDurationsSurviveTheirForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d schema.Duration
		unit := rapid.SampledFrom([]time.Duration{1, time.Microsecond, time.Millisecond, time.Minute}).Draw(t, "unit")
		written := (time.Duration(rapid.Int64Range(0, 1<<20).Draw(t, "units")) * unit).String()
		if d.UnmarshalText([]byte(written)) != nil {
			return
		}
		for _, encode := range []func() ([]byte, error){d.MarshalText, d.MarshalJSON} {
			var again schema.Duration
			text, err := encode()
			if err == nil {
				err = again.UnmarshalText(text)
			}
			if err != nil || again != d {
				t.Fatalf("%s became %s, %s: %v", written, text, again, err)
			}
		}
	})
}
