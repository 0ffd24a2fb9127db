package backend_test

import (
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
)

// The number of requests at a time is read as a number or as auto, and stored as a number,
// which the last release reads.
func TestHowConcurrencyIsReadAndStored(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		json, stored, text string
	}{{`0`, `0`, "0"}, {`7`, `7`, "7"}, {`"7"`, `7`, "7"}, {`"auto"`, `-1`, "auto"}, {`-1`, `-1`, "auto"}} {
		var got backend.Concurrency
		if err := json.Unmarshal([]byte(c.json), &got); err != nil {
			t.Errorf("%s: %v", c.json, err)
		}
		if stored, err := json.Marshal(got); err != nil || string(stored) != c.stored || got.String() != c.text {
			t.Errorf("%s is stored as %s (%v) and written as %s", c.json, stored, err, got)
		}
		var before int
		if err := json.Unmarshal([]byte(c.stored), &before); err != nil {
			t.Errorf("the last release does not read %s: %v", c.stored, err)
		}
	}
	for _, wrong := range []string{`"many"`, `1.5`, `true`} {
		if err := json.Unmarshal([]byte(wrong), new(backend.Concurrency)); err == nil {
			t.Errorf("%s was read", wrong)
		}
	}
}
