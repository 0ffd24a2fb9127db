package pglog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/storetest"
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
