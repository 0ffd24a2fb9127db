package monitor_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web/monitor"
)

// Calls are found by every outcome that a call can have, and by no other one but the groups.
func TestCallsAreFoundByEveryOutcome(t *testing.T) {
	t.Parallel()
	kept := map[calls.Outcome]*calls.Record{
		calls.Answered: {Status: 200},
		calls.Rescued:  {Status: 200, Left: "other"},
		calls.Lost:     {Status: 502, Code: schema.CodeUpstreamError, Attempts: 2},
		calls.Refused:  {Status: 429, Code: schema.CodeKeyRateLimited, Told: &calls.Told{Of: "key/a"}},
		calls.Gone:     {Status: 499, Code: schema.CodeCancelled, Gone: true},
		calls.Stopped:  {Status: 503, Code: schema.CodeStopped},
	}
	groups := map[string]string{"": "answered gone lost refused rescued stopped", "answered": "answered rescued",
		"failed": "lost refused stopped", "retried": "lost", "troubled": "lost refused stopped"}
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(gatewaytest.StartBackend(t)))
	for _, outcome := range calls.Outcomes() {
		c := kept[outcome]
		if c == nil || c.Outcome() != outcome {
			t.Fatalf("the call of the outcome %s is %+v", outcome, c)
		}
		c.RequestID, c.Started, c.Routed, c.Unified = string(outcome), time.Now(), true, true
		r.Recorder.Finish(c)
		if groups[string(outcome)] == "" {
			groups[string(outcome)] = string(outcome)
		}
	}
	names, _ := monitor.Ending("").Keywords()["enum"].([]string)
	if want := slices.Sorted(maps.Keys(groups)); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("the document has %q, want %q", names, want)
	}
	for name, want := range groups {
		reply := r.Do(http.MethodGet, "/api/monitoring/calls?outcome="+name, "")
		if reply.Status != http.StatusOK {
			t.Errorf("%s: %d %s", name, reply.Status, reply.Body)
			continue
		}
		ids := callIDs(t, r.GetObject("/api/monitoring/calls?outcome="+name))
		slices.Sort(ids)
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%q finds %s, want %s", name, got, want)
		}
	}
}
