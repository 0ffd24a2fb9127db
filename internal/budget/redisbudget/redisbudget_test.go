package redisbudget

import (
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/budget"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/storetest"
)

// Gateways tell each other what they have reserved beside what they have committed in all;
// the release before reads and writes only the latter, which counts as spent then.
func TestBudgetsInRedis(t *testing.T) {
	t.Parallel()
	store, err := Open(t.Context(), storetest.Redis(t).URL, "p", "changes")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	at := budget.Commitment{Account: "key/k", Window: quota.BudgetDay, Start: time.Now().UTC().Truncate(24 * time.Hour)}
	commit := func(gateway string, what budget.Committed) map[string]budget.Committed {
		t.Helper()
		at.Committed = what
		all, err := store.Commit(t.Context(), gateway, []budget.Commitment{at})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	is := func(all map[string]budget.Committed, gateway string, want budget.Committed) {
		t.Helper()
		if all[gateway] != want {
			t.Errorf("%s has %+v, want %+v", gateway, all[gateway], want)
		}
	}
	fields := func() map[string]string {
		t.Helper()
		known, err := store.client.Do(t.Context(), store.client.B().Hgetall().Key(store.hash(&at)).Build()).AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	first := budget.Committed{Order: 3, Amounts: budget.Amounts{5, 500, 1 << 60}, Reserved: budget.Amounts{1, 100, 1 << 40}}
	is(commit("a", first), "a", first)
	is(commit("a", budget.Committed{Order: 2, Amounts: budget.Amounts{9, 9, 9}}), "a", first)
	// What the release before sees: values of four parts.
	for name, value := range fields() {
		if isKnown := len(strings.Split(value, " ")) == 4; isKnown != (name == "a") {
			t.Errorf("the field %s is %q", name, value)
		}
	}
	last := budget.Committed{Order: 4, Amounts: budget.Amounts{5, 460, 7}}
	if all := commit("a", last); len(fields()) != 1 || len(all) != 1 {
		t.Errorf("what is not reserved any more is left: %v", fields())
	}
	// What the release before writes, of itself and of another gateway that it remembers.
	commit("b", budget.Committed{Order: 7, Amounts: budget.Amounts{2, 20, 0}, Reserved: budget.Amounts{1, 10, 0}})
	for name, value := range map[string]string{"b": "8 3 30 0", "old": "1 4 40 0"} {
		if err := store.client.Do(t.Context(), store.client.B().Hset().Key(store.hash(&at)).FieldValue().FieldValue(name, value).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	all := commit("a", budget.Committed{Order: 5, Amounts: last.Amounts})
	is(all, "b", budget.Committed{Order: 8, Amounts: budget.Amounts{3, 30, 0}})
	is(all, "old", budget.Committed{Order: 1, Amounts: budget.Amounts{4, 40, 0}})
	if len(all) != 3 {
		t.Errorf("there are %v", all)
	}
}
