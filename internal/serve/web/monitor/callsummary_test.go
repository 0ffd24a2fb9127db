package monitor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// TestASummaryCountsWhatMatchesAndNamesIt: in memory and in the file, with users that bodies
// name, and by a part of a name.
func TestASummaryCountsWhatMatchesAndNamesIt(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "monitoring: {calls: 3, calls-file: {enabled: true}}\n"+gatewaytest.PoolYAML(gatewaytest.StartBackend(t)))
	ask := func(user string) {
		r.Chat(fmt.Sprintf(`{"model":"m","user":%q,%s}`, user, gatewaytest.SomeMessages)).Succeeds(t)
	}
	for range 4 {
		ask("alice@acme")
	}
	ask("Bob@acme")
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	for query, want := range map[string]string{
		"":                             "6 of 6 true alice@acme 4, Bob@acme 1",
		"user=alice":                   "0 of 6 true ",
		"user=ALICE&parts=true":        "4 of 6 true alice@acme 4",
		"user=acme&parts=true":         "5 of 6 true alice@acme 4, Bob@acme 1",
		"user=bob@acme":                "0 of 6 true ",
		"user=Bob@acme&outcome=failed": "0 of 6 true ",
		"host=127.0.0.1&parts=true":    "6 of 6 true alice@acme 4, Bob@acme 1",
		"tenant=none&parts=true":       "0 of 6 true ",
	} {
		got := r.GetObject("/api/monitoring/calls/summary?" + query)
		var names []string
		for _, one := range gatewaytest.At(t, got, "names/user").([]any) {
			user := one.(map[string]any)
			names = append(names, fmt.Sprint(user["name"], " ", user["count"]))
		}
		if said := fmt.Sprint(got["total"], " of ", got["looked"], " ", got["complete"], " ", strings.Join(names, ", ")); said != want {
			t.Errorf("%s: %s, want %s", query, said, want)
		}
		if total := len(callIDs(t, r.GetObject("/api/monitoring/calls?"+query))); float64(total) != got["total"] {
			t.Errorf("%s: a list of %d", query, total)
		}
	}
	for i := range 150 {
		ask(fmt.Sprint("user-", i))
	}
	if users := gatewaytest.At(t, r.GetObject("/api/monitoring/calls/summary"), "names/user").([]any); len(users) != 100 {
		t.Errorf("%d users are listed", len(users))
	}
}
