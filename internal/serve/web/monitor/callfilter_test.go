package monitor

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Calls are found by every outcome that a call can have, and by no other one but the groups.
func TestCallsAreFoundByEveryOutcome(t *testing.T) {
	t.Parallel()
	told := &calls.Told{Of: "key/a"}
	kept := map[calls.Outcome]*calls.Record{
		calls.Answered: {Status: 200},
		calls.Rescued:  {Status: 200, Left: "other"},
		calls.Lost:     {Status: 502, Code: schema.CodeUpstreamError, Routed: true, Attempts: 2},
		calls.Refused:  {Status: 429, Code: schema.CodeKeyRateLimited, Told: told},
		calls.Gone:     {Status: 499, Code: schema.CodeCancelled, Gone: true},
		calls.Stopped:  {Status: 503, Code: schema.CodeStopped},
	}
	found := func(name string) (ids []string) {
		t.Helper()
		request := httptest.NewRequest(http.MethodGet, "/api/monitoring/calls?outcome="+name, nil)
		filter, err := newCallFilter(&web.Call{Request: request}, &CallsQuery{Outcome: Ending(name)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return nil
		}
		for _, outcome := range slices.Sorted(maps.Keys(kept)) {
			if filter.wants(kept[outcome]) {
				ids = append(ids, string(outcome))
			}
		}
		return ids
	}
	groups := map[string]string{"": "answered gone lost refused rescued stopped", "answered": "answered rescued",
		failed: "lost refused stopped", retried: "lost", troubled: "lost refused stopped"}
	for _, outcome := range calls.Outcomes() {
		if c := kept[outcome]; c == nil || c.Outcome() != outcome {
			t.Fatalf("the call of the outcome %s is %+v", outcome, c)
		}
		if groups[string(outcome)] == "" {
			groups[string(outcome)] = string(outcome)
		}
	}
	names, _ := Ending("").Keywords()["enum"].([]string)
	if want := slices.Sorted(maps.Keys(groups)); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("the document has %q, want %q", names, want)
	}
	for name, want := range groups {
		if got := strings.Join(found(name), " "); got != want {
			t.Errorf("%q finds %s, want %s", name, got, want)
		}
	}
}
