package pglog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// TestUpgrade: a gateway takes over the database as the last release left it, and what it
// stores there has no member that the last release does not know, as long as no new
// setting is used, so that gateways of both releases share it.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	ctx := gatewaytest.Deadline(t)
	conn, err := pgx.Connect(ctx, database.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, string(gatewaytest.ReadFile(t, "testdata/last-release.sql"))); err != nil {
		t.Fatal(err)
	}
	r := gatewaytest.Start(t, "store: {config: "+gatewaytest.Quote(database.URL)+"}\n")
	if about, err := r.Control.About(2); err != nil || about.Summary != "tts: loadBalancer round_robin→random" || len(about.Said) != 1 {
		t.Errorf("%+v, %v", about, err)
	}
	if version := r.Control.Version(); version != 2 {
		t.Errorf("version %d is in force", version)
	}
	chat := r.Current.Load().Service(schema.Chat)
	if instance := chat.Instance("m@http://127.0.0.1:9"); instance == nil || instance.Settings.APIKey.Reveal() != "sk-of-the-last-release" || chat.Policy.RateLimit.Capacity != 50 {
		t.Errorf("%+v", chat.Policy)
	}
	r.ChangeChat(func(s *config.Service) { s.RateLimit.Capacity = 60 })
	var before, after string
	if err := conn.QueryRow(ctx, "SELECT (SELECT record FROM patchbay_config_versions WHERE version = 2), (SELECT record FROM patchbay_config_versions WHERE version = 3)").Scan(&before, &after); err != nil {
		t.Fatal(err)
	}
	var changes string
	if err := conn.QueryRow(ctx, "SELECT changes FROM patchbay_config_versions WHERE version = 3").Scan(&changes); err != nil || !strings.Contains(changes, `"rateLimit.capacity"`) {
		t.Errorf("%s, %v", changes, err)
	}
	known := membersOf(t, before)
	for _, member := range membersOf(t, after) {
		if !slices.Contains(known, member) {
			t.Errorf("the last release does not know %s: leave it out where it has its default (omitzero, if it is inside of a setting that it knows)", member)
		}
	}
	// The columns that the last release writes are still all that a row needs.
	if _, err := conn.Exec(ctx, "INSERT INTO patchbay_config_versions (version, created_at, origin, author, summary, record) VALUES (99, now(), 'api', 'a', 's', '{}')"); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(ctx, "INSERT INTO patchbay_config_values (name, revision, value) VALUES ('key/b', 99, '{}')"); err != nil {
		t.Error(err)
	}
}

// membersOf returns the paths of all members of a JSON object, with a star for each
// element of a list and for the names that people choose.
func membersOf(t *testing.T, record string) []string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(record), &value); err != nil {
		t.Fatal(err)
	}
	var paths []string
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for name, member := range value {
				if strings.HasSuffix(path, "headers") || strings.Contains(path, "added") || path == "/services" {
					name = "*"
				}
				paths = append(paths, fmt.Sprintf("%s/%s", path, name))
				walk(path+"/"+name, member)
			}
		case []any:
			for _, element := range value {
				walk(path+"/*", element)
			}
		}
	}
	walk("", value)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TestUpgradeOfTheLedger: what the last release counted stays, today's program counts what
// it did not know beside it, and the statements of the last release still work, so that a
// gateway of it can share the database or come back.
func TestUpgradeOfTheLedger(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	ctx := gatewaytest.Deadline(t)
	conn, err := pgx.Connect(ctx, database.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, string(gatewaytest.ReadFile(t, "testdata/last-release-ledger.sql"))); err != nil {
		t.Fatal(err)
	}
	security := strings.Replace(gatewaytest.SecuredYAML(), "enabled: true,", "enabled: true, keys: [{id: team-a, tenant: acme, key-sha256: "+gatewaytest.HashOf("secret")+", budgets: {total: {tokens: 1000, cost: 10}}}],", 1)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(gatewaytest.StartBackend(t))+security+"store: {url: "+gatewaytest.Quote(database.URL)+"}\n"+
		"quota: {enabled: true, flush-interval-seconds: 1}\nprices: {models: [{model: '*', output: 1000}]}\n")
	usage := func(query string) string {
		return r.Do("GET", "/api/monitoring/quota/usage?window=MONTH&apiKeyId=team-a"+query, "", "Authorization", "Bearer admin-token").Succeeds(t).Body
	}
	const november = "&from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z"
	if got := usage(november + "&userId=u"); !strings.Contains(got, `"requestCount":1,"tokenCount":7,`) {
		t.Errorf("what the last release counted is lost: %s", got)
	}
	r.Chat(gatewaytest.With(`"max_tokens":50,"user":"new"`), "Authorization", "Bearer secret").Succeeds(t)
	gatewaytest.Eventually(t, "the request is in the database", func() bool {
		var usages, budgets, details int
		err := conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM quota_usage WHERE user_id = 'new' AND window_type = 'MONTH'), (SELECT count(*) FROM quota_usage WHERE window_type LIKE 'BUDGET%'), (SELECT count(*) FROM quota_detail WHERE cost > 0)").Scan(&usages, &budgets, &details)
		return err == nil && usages == 1 && budgets == 3 && details > 0
	})
	// What a gateway of the last release writes and reads, as it does.
	const identity = "window_start, window_type, user_id, tenant_id, api_key_id, model, service_type, writer"
	if _, err := conn.Exec(ctx, "INSERT INTO quota_usage ("+identity+", request_count, token_count, updated_at) VALUES (1793491200, 'MONTH', 'u', 'acme', 'team-a', 'm', 'chat', 'WRITEROFTHELAST', 4, 28, 1794000001)"+
		" ON CONFLICT ("+identity+") DO UPDATE SET request_count = GREATEST(quota_usage.request_count, excluded.request_count), token_count = GREATEST(quota_usage.token_count, excluded.token_count), updated_at = excluded.updated_at"); err != nil {
		t.Error(err)
	}
	if got := usage(november + "&userId=u"); !strings.Contains(got, `"requestCount":4,"tokenCount":28,`) {
		t.Errorf("what a gateway of the last release counts beside this one is not seen: %s", got)
	}
	var requests, schemaVersion int
	if err := conn.QueryRow(ctx, "SELECT (SELECT sum(request_count) FROM quota_usage WHERE window_type = 'MONTH' AND api_key_id = 'team-a'), (SELECT version FROM quota_schema)").Scan(&requests, &schemaVersion); err != nil || requests != 7 {
		t.Errorf("the last release sees %d requests, %v", requests, err)
	}
	if schemaVersion != 1 {
		t.Errorf("the tables have the number %d, which the last release refuses", schemaVersion)
	}
}
