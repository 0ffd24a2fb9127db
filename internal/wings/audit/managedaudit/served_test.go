package managedaudit_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/wings/audit"
	"github.com/patchbay-ai/patchbay/internal/wings/audit/managedaudit"
)

const (
	asAdmin  = "Bearer admin-token"
	asViewer = "Bearer viewer-token"
	keysPath = "/api/auth/keys"
)

// recordsOf returns the records that a query finds, the oldest first.
func recordsOf(t *testing.T, r *gatewaytest.Gateway, query string) []audit.Record {
	t.Helper()
	found := gatewaytest.DataOf[[]audit.Record](t, r.API(http.MethodGet, "/api/audit"+query, "", "Authorization", asAdmin).Is(t, 200))
	slices.Reverse(found)
	return found
}

// linesOf returns who did what with which result.
func linesOf(records []audit.Record) (lines []string) {
	for _, r := range records {
		lines = append(lines, strings.Join([]string{r.Who, r.Role, r.Action, r.Object, r.Result, r.Tenant}, "|"))
	}
	return lines
}

func holds(t *testing.T, store audit.Store) {
	t.Helper()
	defer store.Close()
	if _, err := audit.Verify(t.Context(), store, nil); err != nil {
		t.Error(err)
	}
}

// Changes, refused ones, sign-ins and reads of contents are recorded with their results. Dry runs,
// questions and other reads are not. No record has a secret in it.
func TestOperationsAreRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.SecuredYAML(), DataDir: dir})
	do := func(method, path, body, token string) gatewaytest.Reply {
		return r.Do(method, path, body, "Authorization", token)
	}
	issued := do(http.MethodPost, keysPath, `{"id":"k1","tenant":"acme"}`, asAdmin)
	text, _ := gatewaytest.DecodeObject(t, issued.Body)["data"].(map[string]any)["key"].(string)
	do(http.MethodPost, keysPath, `{"id":"k1"}`, asAdmin)
	do(http.MethodPost, keysPath, `{"id":"k2"}`, asViewer)
	do(http.MethodPost, keysPath+"?dryRun=true", `{"id":"k3"}`, asAdmin)
	do(http.MethodPost, "/api/route/explain", `{"model":"m","messages":[]}`, asAdmin)
	do(http.MethodGet, keysPath, "", asAdmin)
	for range 3 {
		do(http.MethodGet, keysPath, "", "Bearer a-wrong-token")
	}
	do(http.MethodPost, "/api/auth/session", "", asAdmin)
	do(http.MethodGet, "/api/monitoring/calls/none/content", "", asAdmin)
	do(http.MethodDelete, keysPath+"/k1", "", asAdmin)
	want := []string{
		"a|ADMIN|POST /api/auth/keys|/api/auth/keys: key k1 issued|201 done|acme",
		"a|ADMIN|POST /api/auth/keys|/api/auth/keys|400 refused|",
		"v|VIEWER|POST /api/auth/keys|/api/auth/keys|403 refused|",
		"||sign-in||refused|",
		"a|ADMIN|POST /api/auth/session|/api/auth/session|201 done|",
		"a|ADMIN|GET /api/monitoring/calls/{requestId}/content|/api/monitoring/calls/none/content|404 refused|",
		"||sign-in||refused|",
		"a|ADMIN|DELETE /api/auth/keys/{id}|/api/auth/keys/k1: key k1 revoked|200 done|acme",
	}
	got := recordsOf(t, r, "")
	if !slices.Equal(linesOf(got), want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(linesOf(got), "\n"), strings.Join(want, "\n"))
	}
	for _, record := range got {
		isLow := strings.Contains(record.Result, "refused") || record.Action == "POST /api/auth/session"
		if record.Gateway != strings.TrimSuffix(r.ID+"/low", map[bool]string{false: "/low"}[isLow]) || record.Address != "127.0.0.1" {
			t.Errorf("%+v", record)
		}
	}
	if got[3].Count != 0 || got[6].Count != 2 || got[6].Last <= got[6].Time {
		t.Errorf("got %+v and %+v, want a refused sign-in and two more", got[3], got[6])
	}
	for query, count := range map[string]int{
		"?who=A": 5, "?what=KEYS": 4, "?what=403": 1, "?what=k1&who=v": 0, "?from=" + got[3].Time: 5, "?to=" + got[3].Time: 3,
	} {
		if found := recordsOf(t, r, query); len(found) != count {
			t.Errorf("%s: %v", query, linesOf(found))
		}
	}
	page := gatewaytest.DecodeObject(t, do(http.MethodGet, "/api/audit?page=2&size=3", "", asAdmin).Body)["data"].(map[string]any)
	if content := page["content"].([]any); len(content) != 3 || content[0].(map[string]any)["hash"] != got[4].Hash || page["page"].(map[string]any)["totalElements"] != 8.0 {
		t.Errorf("%v", page)
	}
	lines := do(http.MethodGet, "/api/audit?format=jsonl", "", asAdmin).Body
	v := audit.NewVerifier(nil, nil, got[6].Hash)
	for line := range strings.Lines(lines) {
		v.Add(0, []byte(line))
	}
	if chains, err := v.Finish(); err != nil || len(chains) != 2 || chains[0].Last+chains[1].Last != 8 || text == "" || strings.Contains(lines, text) {
		t.Errorf("%+v, %v, %s", chains, err, lines)
	}
	if got := do(http.MethodGet, "/api/audit?format=xml", "", asAdmin); got.Status != 400 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	// Who wants to revoke a key may put the key itself where its id belongs.
	do(http.MethodDelete, keysPath+"/"+text, "", asAdmin)
	lines = do(http.MethodGet, "/api/audit?format=jsonl", "", asAdmin).Body
	if !strings.Contains(lines, keysPath+"/****"+text[len(text)-4:]) || strings.Contains(lines+r.Logs.String(), text) {
		t.Errorf("%s", lines)
	}
	r.Halt()
	if !strings.Contains(r.Logs.String(), `"msg":"audit head"`) {
		t.Error("the log has no head")
	}
	store, err := managedaudit.StoreOf("", dir)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, store)
}

// Administrators read everything, team admins the records of their tenants, nobody else any.
func TestWhoReadsTheAudit(t *testing.T) {
	t.Parallel()
	people := map[string]access.Identity{
		"leader": {Name: "Bob", Subject: "2", Issuer: "https://i", Memberships: []access.Membership{{Tenant: "acme", Role: access.TeamAdmin}}},
		"member": {Name: "Ann", Subject: "1", Issuer: "https://i", Memberships: []access.Membership{{Tenant: "acme", Role: access.Member}}},
	}
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.SecuredYAML(), Wings: []wing.New{func(*wing.Core) *wing.Wing {
		return &wing.Wing{Session: func(text string, _ time.Time) (access.Identity, bool, error) {
			who, known := people[text]
			return who, known, nil
		}}
	}}})
	for _, body := range []string{`{"id":"k1","tenant":"acme"}`, `{"id":"k2","tenant":"other"}`, `{"id":"k3"}`} {
		r.API(http.MethodPost, keysPath, body, "Authorization", asAdmin).Is(t, 201)
	}
	for _, path := range []string{"GET /api/audit", "GET /api/audit/heads", "GET /api/audit/keys", "POST /api/audit/rotate-key"} {
		method, path, _ := strings.Cut(path, " ")
		for who, want := range map[string]int{asAdmin: 200, "Bearer operator-token": 403, asViewer: 403, "": 401} {
			if got := r.Do(method, path, "", "Authorization", who); got.Status != want {
				t.Errorf("%s of %q: %d %s", path, who, got.Status, got.Body)
			}
		}
		want := 403
		if path == "/api/audit" {
			want = 200
		}
		if got := r.Do(method, path, "", "Cookie", "patchbay_session=leader"); got.Status != want {
			t.Errorf("%s of a team admin: %d %s", path, got.Status, got.Body)
		}
		if got := r.Do(method, path, "", "Cookie", "patchbay_session=member"); got.Status != 403 {
			t.Errorf("%s of a member: %d %s", path, got.Status, got.Body)
		}
	}
	found := gatewaytest.DataOf[[]audit.Record](t, r.API(http.MethodGet, "/api/audit", "", "Cookie", "patchbay_session=leader").Is(t, 200))
	got := linesOf(found)
	if !slices.Contains(got, "a|ADMIN|POST /api/auth/keys|/api/auth/keys: key k1 issued|201 done|acme") ||
		!slices.Contains(got, "Ann <1 at https://i>|MEMBER|POST /api/audit/rotate-key|/api/audit/rotate-key|403 refused|acme") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	for _, line := range got {
		if !strings.HasSuffix(line, "|acme") {
			t.Errorf("a team admin sees %s", line)
		}
	}
	if got := r.Do(http.MethodGet, "/api/audit?format=jsonl", "", "Cookie", "patchbay_session=leader"); got.Status != 400 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// A change that cannot be recorded is refused and not made. One that takes something away is made,
// and recorded as soon as possible.
func TestAChangeThatCannotBeRecordedIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	yaml := gatewaytest.SecuredYAML() + "services: {chat: {instances: [{name: m, base-url: 'http://127.0.0.1:9'}]}}\n"
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	r.API(http.MethodPost, keysPath, `{"id":"k1"}`, "Authorization", asAdmin).Is(t, 201)
	session := r.Do(http.MethodPost, "/api/auth/session", "", "Authorization", asAdmin)
	cookie, _, _ := strings.Cut(session.Header.Get("Set-Cookie"), ";")
	r.Halt()

	// Neither intents nor records can be written where folders have their names.
	folder := filepath.Join(dir, managedaudit.Folder)
	blocked := filepath.Join(folder, "intents.log")
	segment := filepath.Join(folder, "0001-000000000001.jsonl")
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(segment, segment+".aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(segment, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	const instance = "m@http://127.0.0.1:9"
	for _, test := range []struct {
		what, method, path, body string
		want                     int
	}{
		{"a new key", http.MethodPost, keysPath, `{"id":"k2"}`, 503},
		{"a changed key", http.MethodPut, keysPath + "/k1", `{"tenant":"x"}`, 503},
		{"a version", http.MethodPut, gatewaytest.TypesPath + "chat", `{"loadBalancer":"random"}`, 503},
		{"a level", http.MethodPost, "/actuator/loggers/other", `{"configuredLevel":"DEBUG"}`, 503},
		{"an enabled instance", http.MethodPut, "/api/config/instance/update/chat", `{"instanceId":"` + instance + `","instance":{"enabled":true}}`, 503},
		{"contents", http.MethodGet, "/api/monitoring/calls/none/content", "", 503},
		{"a question", http.MethodPost, "/api/route/explain?door=chat", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, 200},
		{"a read", http.MethodGet, keysPath, "", 200},
		{"a disabled instance", http.MethodPut, "/api/config/instance/update/chat", `{"instanceId":"` + instance + `","instance":{"enabled":false}}`, 200},
		{"a drained instance", http.MethodPost, "/api/config/instance/circuit-breaker/chat", `{"instanceId":"` + instance + `","state":"OPEN"}`, 200},
		{"a revoked key", http.MethodDelete, keysPath + "/k1", "", 200},
		{"a stopped request", http.MethodPost, "/api/monitoring/running/none/stop", "", 404},
	} {
		if got := r.Do(test.method, test.path, test.body, "Authorization", asAdmin); got.Status != test.want {
			t.Errorf("%s: %d %s", test.what, got.Status, got.Body)
		}
	}
	r.Do(http.MethodDelete, "/api/auth/session", "", "Cookie", cookie).Succeeds(t)
	if got := r.Do(http.MethodGet, "/actuator/health", "", "Authorization", asAdmin).Body; !strings.Contains(got, `"audit":{"status":"DEGRADED"`) {
		t.Errorf("%s", got)
	}
	keys := r.Do(http.MethodGet, keysPath, "", "Authorization", asAdmin).Body
	if strings.Contains(keys, `"k2"`) {
		t.Errorf("a refused change was made: %s", keys)
	}
	for _, path := range []string{filepath.Join(segment, "x"), segment, blocked} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(segment+".aside", segment); err != nil {
		t.Fatal(err)
	}
	r.API(http.MethodPost, keysPath, `{"id":"k3"}`, "Authorization", asAdmin).Is(t, 201)
	var done []string
	for _, record := range recordsOf(t, r, "") {
		done = append(done, record.Action+" "+record.Result)
	}
	if want := []string{
		"POST /api/auth/keys 201 done", "POST /api/auth/session 201 done",
		"PUT /api/config/instance/update/{serviceType} 200 done", "POST /api/config/instance/circuit-breaker/{serviceType} 200 done", "DELETE /api/auth/keys/{id} 200 done",
		"POST /api/monitoring/running/{requestId}/stop 404 refused", "DELETE /api/auth/session 200 done", "POST /api/auth/keys 201 done",
	}; !slices.Equal(done, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(done, "\n"), strings.Join(want, "\n"))
	}
	r.Halt()
	store, err := managedaudit.StoreOf("", dir)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, store)
}

// Two gateways with a shared configuration have a chain each in one table. A change in the table
// is found.
func TestGatewaysShareTheTable(t *testing.T) {
	t.Parallel()
	server := storetest.Postgres(t)
	yaml := gatewaytest.SecuredYAML() + "store: {config: " + gatewaytest.Quote(server.URL) + "}\n"
	one, two := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
	for _, r := range []*gatewaytest.Gateway{one, two} {
		gatewaytest.Eventually(t, "the gateway has joined", r.Control.Joined)
	}
	gatewaytest.Eventually(t, "both change something", func() bool {
		return one.Do(http.MethodPost, keysPath, `{"id":"k1","tenant":"acme"}`, "Authorization", asAdmin).Status != 503 &&
			two.Do(http.MethodPost, keysPath, `{"id":"k2"}`, "Authorization", asAdmin).Status != 503
	})
	one.Do(http.MethodDelete, keysPath+"/k1", "", "Authorization", asAdmin).Succeeds(t)
	for _, r := range []*gatewaytest.Gateway{one, two} {
		got := linesOf(recordsOf(t, r, "?what=done&who=a"))
		if !slices.Contains(got, "a|ADMIN|POST /api/auth/keys|/api/auth/keys: key k1 issued|201 done|acme") || !slices.Contains(got, "a|ADMIN|POST /api/auth/keys|/api/auth/keys: key k2 issued|201 done|") {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
	}
	one.Do(http.MethodPost, "/api/audit/rotate-key", "", "Authorization", asAdmin).Succeeds(t)
	id := one.ID
	one.Halt()
	two.Halt()
	store, err := managedaudit.StoreOf(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	chains, err := audit.Verify(t.Context(), store, nil)
	if err != nil || len(chains) != 2 || chains[0].Signed != chains[0].Last || chains[1].Signed != chains[1].Last {
		t.Errorf("%+v, %v", chains, err)
	}
	db, err := sql.Open("pgx", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, change := range []string{
		"UPDATE patchbay_audit SET who = 'eve' WHERE gateway = $1 AND seq = 2", "UPDATE patchbay_audit SET who = 'a' WHERE gateway = $1 AND seq = 2", "DELETE FROM patchbay_audit WHERE gateway = $1 AND seq = 2",
	} {
		if _, err := db.ExecContext(t.Context(), change, id); err != nil {
			t.Fatal(err)
		}
		_, err := audit.Verify(t.Context(), store, nil)
		if isBad := !strings.Contains(change, "'a'"); isBad != (err != nil) || isBad && !strings.Contains(err.Error(), "seq 2 ") {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// Files and the database keep the same.
func TestTheStoresAgree(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{"files": "", "database": storetest.Postgres(t).URL} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, managedaudit.Folder), 0o700); err != nil {
			t.Fatal(err)
		}
		store, err := managedaudit.StoreOf(database, dir)
		if err != nil {
			t.Fatal(err)
		}
		contract(t, name, store)
		store.Close()
	}
}

// contract tries everything that a chain does with a store.
func contract(t *testing.T, name string, store audit.Store) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if state, err := store.Load(ctx, "g"); err != nil || state.Chain != 0 || state.Last.Seq != 0 || state.Head.Seq != 0 {
		t.Errorf("%s: %+v, %v", name, state, err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var records []audit.Record
	for i := range 5 {
		records = append(records, audit.Record{
			Seq: int64(i + 1), Time: audit.Stamp(now.Add(time.Duration(i) * time.Hour)), Gateway: "g", Who: "Ann", Action: "POST /x",
			Object: string(rune('a' + i)), Result: "200 done", Tenant: []string{"", "t1", "t2"}[i%3], Hash: string(rune('0' + i)),
		})
	}
	must(store.Intend(ctx, audit.Intent{ID: "i1", Record: records[0]}))
	must(store.Intend(ctx, audit.Intent{ID: "i2", Record: records[1]}))
	must(store.Append(ctx, audit.Batch{Name: "g", Chain: 1, Begins: true, Records: records[:2], Done: []string{"i1"}}))
	must(store.Append(ctx, audit.Batch{Name: "g", Chain: 1, Begins: true, Records: records[2:4]}))
	must(store.Append(ctx, audit.Batch{Name: "g", Chain: 1, Begins: true, Records: records[4:], Mark: "m"}))
	for limit, want := range map[int]string{2: "ed", 10: "edcba"} {
		found, total, err := store.Search(ctx, audit.Query{Limit: limit, Counts: true})
		if got := objects(found); got != want || total != 5 || err != nil {
			t.Errorf("%s: %s of %d, %v", name, got, total, err)
		}
	}
	for want, q := range map[string]audit.Query{
		"dcb": {From: records[1].Time, To: records[4].Time}, "eb": {Tenants: []string{"t1"}}, "": {Tenants: []string{}},
		"edcba": {Who: "aN", What: "OST"}, "a": {Skip: 4},
	} {
		q.Limit = 10
		found, _, err := store.Search(ctx, q)
		if got := objects(found); got != want || err != nil {
			t.Errorf("%s: %+v: %s, want %s, %v", name, q, got, want, err)
		}
	}
	after, err := store.After(ctx, "g", 1, 1, 3)
	if objects(after) != "bcd" || err != nil {
		t.Errorf("%s: %s, %v", name, objects(after), err)
	}
	for _, h := range []audit.Head{{Gateway: "g", Seq: 2, Time: records[1].Time, Hash: "1", Signature: "x"}, {Gateway: "g", Seq: 4, Time: records[3].Time, Hash: "3", Signature: "y"}} {
		must(store.AddHead(ctx, h))
	}
	key := audit.PublicKey{ID: "k", Gateway: "g", PublicKey: "p", Since: "s"}
	must(store.SetKey(ctx, key))
	key.Until = "u"
	must(store.SetKey(ctx, key))
	if keys, err := store.Keys(ctx); err != nil || len(keys) != 1 || keys[0] != key {
		t.Errorf("%s: %+v, %v", name, keys, err)
	}
	state, err := store.Load(ctx, "g")
	if err != nil || state.Chain != 1 || state.Last != records[4] || state.First != records[0].Time || state.Head.Seq != 4 || !slices.ContainsFunc(state.Intents, func(i audit.Intent) bool { return i.ID == "i2" && i.Record == records[1] }) {
		text, _ := json.Marshal(state)
		t.Errorf("%s: %s, %v", name, text, err)
	}
	spans, err := store.Old(ctx, now.Add(150*time.Minute), 1<<30)
	if want := (audit.Span{Gateway: "g", Chain: 1, Last: spans[0].Last, Hash: spans[0].Hash, Time: spans[0].Time}); err != nil || len(spans) != 1 || spans[0] != want || want.Last < 2 || want.Last > 3 {
		t.Errorf("%s: %+v, %v", name, spans, err)
	}
	must(store.Remove(ctx, spans[0]))
	left, _, err := store.Search(ctx, audit.Query{Limit: 10})
	if got := objects(left); got != "edcba"[:5-spans[0].Last] || err != nil {
		t.Errorf("%s: %s is left, %v", name, got, err)
	}
	if state, err := store.Load(ctx, "g"); err != nil || store.KeepsMarks() && state.Mark != "m" {
		t.Errorf("%s: got the mark %q, want m; %v", name, state.Mark, err)
	}
	// The second chain takes at most half of the room, and the first one keeps its records.
	const many, room = 40, 12_000
	for i := range many {
		r := records[4]
		r.Seq, r.Gateway, r.Object, r.Time = int64(i+1), "g/low", "x", audit.Stamp(now.Add(time.Duration(10+i)*time.Hour))
		must(store.Append(ctx, audit.Batch{Name: "g/low", Chain: 1, Begins: true, Records: []audit.Record{r}}))
	}
	must(store.SetMark(ctx, "g/low", "m2"))
	if spans, err = store.Old(ctx, time.Time{}, room); err != nil || len(spans) != 1 || spans[0].Gateway != "g/low" {
		t.Fatalf("%s: got %+v, want a span of the second chain; %v", name, spans, err)
	}
	must(store.Remove(ctx, spans[0]))
	left, total, err := store.Search(ctx, audit.Query{Limit: many, Counts: true})
	low, size := 0, 0
	for _, r := range left {
		if audit.IsLow(r.Gateway) {
			low++
			size += len(r.Line())
		}
	}
	if err != nil || low < 2 || size > room/2 || total != len(left) || !strings.HasSuffix(objects(left), "xed") && !strings.HasSuffix(objects(left), "xedc") {
		t.Errorf("%s: %d records of %d bytes are left in the second chain, and %s in all; %v", name, low, size, objects(left), err)
	}
	if spans, err = store.Old(ctx, time.Time{}, room); err != nil || len(spans) != 0 {
		t.Errorf("%s: got %+v, want nothing more to remove; %v", name, spans, err)
	}
}

func objects(records []audit.Record) (names string) {
	for _, r := range records {
		names += r.Object
	}
	return names
}

// The settings of copies that cannot be used are named.
func TestAuthoritiesOfCopiesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{ca, ca + "-missing"} {
		doc := config.Default()
		doc.Audit.CA = file
		_, _, err := managedaudit.Open(doc, durable.At(t.TempDir()), "g", slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "audit.ca: ") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
