package pglog_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

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
