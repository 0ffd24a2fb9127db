package managedaudit_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
	"github.com/patchbay-ai/patchbay/internal/wings/audit/managedaudit"
)

// What a writer of the database does is reported at the next start, or by the running gateway with its next record, and
// verify names the first record that does not hold.
func TestChangesOfTheDatabaseAreReported(t *testing.T) {
	t.Parallel()
	const insert = "INSERT INTO patchbay_audit (gateway, chain, seq, time, who, role, address, action, object, result, tenant, previous, hash, count, last, cause, keep, until, signature) " +
		"SELECT gateway, chain, seq + 1, time, 'adm', role, address, action, object, result, tenant, hash, 'x', count, last, cause, keep, until, signature FROM patchbay_audit WHERE gateway = $1 ORDER BY chain DESC, seq DESC LIMIT 1"
	for name, test := range map[string]struct {
		changes   []string
		isRunning bool
		want      string
	}{
		"nothing":                       {nil, false, ""},
		"a record at the end":           {[]string{insert}, false, "seq 4 "},
		"a record while the gateway is": {[]string{insert}, true, "seq 4 "},
		"the end and the heads cut":     {[]string{"DELETE FROM patchbay_audit WHERE gateway = $1 AND seq = 3", "DELETE FROM patchbay_audit_heads WHERE gateway = $1"}, false, "seq 3 "},
		"the mark and the heads gone":   {[]string{"DELETE FROM patchbay_audit_marks WHERE gateway = $1", "DELETE FROM patchbay_audit_heads WHERE gateway = $1", insert}, false, "seq 4 "},
		"everything gone":               {[]string{"DELETE FROM patchbay_audit WHERE gateway = $1", "DELETE FROM patchbay_audit_heads WHERE gateway = $1", "DELETE FROM patchbay_audit_marks WHERE gateway = $1"}, false, "seq 1 "},
		"an old state": {[]string{"DELETE FROM patchbay_audit WHERE gateway = $1 AND seq > 1", "DELETE FROM patchbay_audit_heads WHERE gateway = $1",
			"UPDATE patchbay_audit_marks SET last = (SELECT last FROM old_marks) WHERE gateway = $1"}, false, "seq 2 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, dir := storetest.Postgres(t), t.TempDir()
			setup := gatewaytest.Setup{YAML: gatewaytest.SecuredYAML() + "store: {config: " + gatewaytest.Quote(server.URL) + "}\n", DataDir: dir}
			change := func(r *gatewaytest.Gateway, id string) {
				gatewaytest.Eventually(t, "a change is made", func() bool {
					return r.Do(http.MethodPost, keysPath, `{"id":"`+id+`"}`, "Authorization", asAdmin).Status == 201
				})
			}
			r := gatewaytest.StartWith(t, setup)
			change(r, "k1")
			db, err := sql.Open("pgx", server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), "CREATE TABLE old_marks AS SELECT last FROM patchbay_audit_marks WHERE gateway = '"+r.ID+"'"); err != nil {
				t.Fatal(err)
			}
			change(r, "k2")
			change(r, "k3")
			id := r.ID
			if !test.isRunning {
				r.Halt()
			}
			for _, statement := range test.changes {
				if _, err := db.ExecContext(t.Context(), statement, id); err != nil {
					t.Fatal(err)
				}
			}
			if !test.isRunning {
				r = gatewaytest.StartWith(t, setup)
			}
			change(r, "k4")
			r.Halt()
			if isReported := strings.Contains(r.Logs.String(), "the audit begins a new chain"); isReported != (test.want != "") {
				t.Errorf("reported: %v", isReported)
			}
			store, err := managedaudit.StoreOf(server.URL, "")
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if _, err := audit.Verify(t.Context(), store, nil); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// Callers below OPERATOR make at most 60 recorded changes within a minute; a logout is done nevertheless. Administrators are
// not limited.
func TestTheAuditIsNotFlooded(t *testing.T) {
	t.Parallel()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.SecuredYAML(), Wings: []wing.New{gatewaytest.People(gatewaytest.Person("Ann", "acme", access.TeamAdmin))}})
	const path = "/api/team/acme/keys"
	for i := range 60 {
		if got := r.Do(http.MethodPost, path, fmt.Sprintf(`{"name":"n%d"}`, i), "Cookie", "patchbay_session=Ann"); got.Status != 201 {
			t.Fatalf("change %d: got %d %s, want 201", i, got.Status, got.Body)
		}
	}
	got := r.Do(http.MethodPost, path, `{"name":"n"}`, "Cookie", "patchbay_session=Ann")
	if got.Status != 429 || !strings.Contains(got.Body, `"errorType":"rate_limit_exceeded"`) || !strings.Contains(got.Body, `"errorCode":"audit_rate_limited"`) || got.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 429 audit_rate_limited", got.Status, got.Body)
	}
	if got := r.Do(http.MethodGet, path, "", "Authorization", asAdmin); strings.Count(got.Body, `"name":"n`) != 60 {
		t.Errorf("got %s, want 60 keys", got.Body)
	}
	if got := r.Do(http.MethodDelete, "/api/auth/session", "", "Cookie", "patchbay_session=Ann"); got.Status != 200 {
		t.Errorf("a logout: got %d %s, want 200", got.Status, got.Body)
	}
	for i := range 70 {
		if got := r.Do(http.MethodPost, keysPath, fmt.Sprintf(`{"id":"a%d"}`, i), "Authorization", asAdmin); got.Status != 201 {
			t.Fatalf("an administrator's change %d: got %d %s, want 201", i, got.Status, got.Body)
		}
	}
	for query, want := range map[string]int{"?who=Ann&what=team": 60, "?who=Ann&what=session": 1, "?what=auth/keys&who=a": 70} {
		found := recordsOf(t, r, query)
		if len(found) != want || audit.IsLow(found[0].Gateway) != strings.Contains(query, "Ann") {
			t.Errorf("%s: got %d records, want %d; %+v", query, len(found), want, found[:1])
		}
	}
}
