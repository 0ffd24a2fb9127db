package access_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
)

// A key sleeps when its owner has not signed in for the time of absence, says so, and wakes
// with the next sign-in.
func TestKeysSleepWhileTheirOwnerStaysAway(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		keys := openKeys(t, dir, access.Settings{Enabled: true})
		ann := access.Owner{Issuer: "https://login.example", Subject: "1", Name: "ann"}
		var seen time.Time
		hasLeft := false
		keys.SetPeople(access.People{Absence: 30 * day, Seen: func(who access.Owner, tenant string) (time.Time, bool) {
			if who != ann || tenant != "red" {
				t.Errorf("%+v of %s", who, tenant)
			}
			return seen, hasLeft
		}})
		issue := func(id string, owner access.Owner) (string, access.IssuedKey) {
			text, key, err := keys.Keys.IssueOne(t.Context(), []string{id}, access.IssuedKey{Key: access.Key{Tenant: "red"}, Owner: owner}, access.Change{At: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			return text, key
		}
		own, record := issue("own", ann)
		team, _ := issue("team", access.Owner{})
		callers := access.Callers{Credentials: keys}
		status := func(text string) string {
			grant, refusal := callers.Identify(http.Header{"Authorization": {"Bearer " + text}}, netip.MustParseAddr("192.0.2.1"))
			if refusal == nil {
				return ""
			}
			if grant == nil || refusal.Code != "invalid_api_key" {
				t.Errorf("%v %v", grant, refusal)
			}
			return refusal.Error()
		}
		for _, step := range []struct {
			wait    time.Duration
			signsIn bool
			want    string
		}{
			{0, false, ""},
			{30*day - 2*time.Second, false, ""},
			{2 * time.Second, false, "has not signed in"},
			{0, true, ""},
			{29 * day, true, ""},
			{29 * day, false, ""},
			{day, false, "has not signed in"},
		} {
			time.Sleep(step.wait) //nolint:forbidigo // the time of a synctest bubble
			if step.signsIn {
				seen = time.Now()
			}
			if got := status(own); !strings.Contains(got, step.want) || (got == "") != (step.want == "") || status(team) != "" {
				t.Errorf("%+v: %q", step, got)
			}
			if _, good := callers.Bearer(record.ID, "at-"+record.CreatedAt.Format(time.RFC3339), ""); good != (step.want == "") {
				t.Errorf("%+v: its batches run: %t", step, good)
			}
			if got := keys.KeyStatus(record, time.Now()); (got == "SLEEPING") != (step.want != "") {
				t.Errorf("%+v: %s", step, got)
			}
		}
		seen, hasLeft = time.Now(), true
		if got := status(own); !strings.Contains(got, "no longer belongs") {
			t.Errorf("after the owner left: %q", got)
		}
	})
}

// Owner, name and teams survive a restart, and an id is given again when its key is over.
func TestOwnersAndTeamsAreStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := openKeys(t, dir, access.Settings{Enabled: true})
	owner := access.Owner{Issuer: "https://login.example", Subject: "1", Name: "ann"}
	ids := []string{"one", "two"}
	issue := func(expiresAt string) (access.IssuedKey, error) {
		wanted := access.IssuedKey{Name: "laptop", Owner: owner}
		wanted.ExpiresAt = expiresAt
		_, key, err := keys.Keys.IssueOne(t.Context(), ids, wanted, access.Change{At: time.Now()})
		return key, err
	}
	for _, want := range ids {
		if key, err := issue(""); err != nil || key.ID != want {
			t.Fatalf("%s, %v", key.ID, err)
		}
	}
	if _, err := issue(""); err == nil {
		t.Error("a third key was issued")
	}
	if err := keys.Keys.Revoke(t.Context(), "one", access.Change{At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if key, err := issue(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)); err != nil || key.ID != "one" {
		t.Errorf("after a revocation: %s, %v", key.ID, err)
	}
	if key, err := issue(""); err != nil || key.ID != "one" {
		t.Errorf("after an expiry: %s, %v", key.ID, err)
	}
	team := access.Team{Tenant: "red/..:", Budgets: budget.Budgets{Day: budget.Budget{Requests: 3}}}
	if err := keys.SetTeam(t.Context(), team, access.Change{At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	again := openKeys(t, dir, access.Settings{Enabled: true})
	if list := again.Keys.List(); len(list) != 2 || list[0].Owner != owner || list[0].Name != "laptop" || again.Team("red/..:") != team {
		t.Errorf("%+v, %+v", list, again.Team("red/..:"))
	}
	if stored := again.Stored(); len(stored) != 3 {
		t.Errorf("a backup has %d values", len(stored))
	}
}
