package gateway_test

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// release is an earlier program, by its commit, and the data that it left: three versions of which
// the second is in force, two keys of which one is revoked, a token, and requests of November 2026
// in the ledger and in a budget of all time. The archives in testdata/releases have a data
// directory, in which the last two requests are in the journals because the program was killed,
// and a dump of PostgreSQL. docs/upgrading.md says what these programs read of today's data.
type release struct {
	commit   string
	requests int // with those of a batch, if the release had batches
}

func releases() []release {
	return []release{{"e2d7dba", 5}, {"86d0179", 5}, {"71ceb32f", 6}, {"9b73041f", 6}, {"a8ab1908", 6}}
}

const (
	releaseKey  = "master-key: 0123456789abcdef0123456789abcdef, "
	releaseYAML = `services:
  chat:
    load-balancer: round_robin
    instances:
      - {name: m, base-url: 'http://127.0.0.1:18974', api-key: sk-of-the-file}
      - {name: other, base-url: 'http://127.0.0.1:18974', headers: {X-Key: '${BACKEND_KEY:none}'}}
security: {enabled: true, %stokens: [{name: admin, role: ADMIN, token-sha256: %s}]}
quota: {enabled: true, flush-interval-seconds: 3600, retention: {month: 1000mo}}
prices: {models: [{model: '*', input: 1, output: 10}]}
`
)

// TestAMonthOfUpgrades reads what every release since e2d7dba left, to the unit, with a master key and
// without, and goes back and forth between its versions. A return to such a release is not promised:
// compatibility begins with 0.1.0.
func TestAMonthOfUpgrades(t *testing.T) {
	t.Parallel()
	for _, release := range releases() {
		for suffix, key := range map[string]string{"": releaseKey, "-plain": ""} {
			t.Run(release.commit+suffix, func(t *testing.T) {
				t.Parallel()
				dir := unzip(t, release.commit+suffix)
				yaml := fmt.Sprintf(releaseYAML, key, gatewaytest.HashOf("admin-token"))
				r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: filepath.Join(dir, "data")})
				release.isRead(t, r, dir)
			})
		}
	}
}

// TestAMonthOfUpgradesInPostgreSQL is the same for a database that gateways share.
func TestAMonthOfUpgradesInPostgreSQL(t *testing.T) {
	t.Parallel()
	server := storetest.Postgres(t)
	for _, release := range releases() {
		for suffix, key := range map[string]string{"": releaseKey, "-plain": ""} {
			t.Run(release.commit+suffix, func(t *testing.T) {
				dir := filepath.Join(unzip(t, release.commit+suffix), "database")
				ctx := gatewaytest.Deadline(t)
				conn, err := pgx.Connect(ctx, server.URL)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close(ctx) }()
				if _, err := conn.Exec(ctx, "DROP SCHEMA public CASCADE; CREATE SCHEMA public;"+string(gatewaytest.ReadFile(t, filepath.Join(dir, "dump.sql")))); err != nil {
					t.Fatal(err)
				}
				yaml := fmt.Sprintf(releaseYAML+"store: {config: '%[3]s', url: '%[3]s'}\n", key, gatewaytest.HashOf("admin-token"), server.URL)
				r := gatewaytest.Start(t, yaml)
				gatewaytest.Eventually(t, "the gateway is ready", func() bool {
					return r.Do("GET", "/actuator/health/readiness", "").Status == 200
				})
				release.isRead(t, r, dir)
				r.Halt()
			})
		}
	}
}

// isRead checks everything that the release left, and changes it.
func (r release) isRead(t *testing.T, g *gatewaytest.Gateway, dir string) {
	t.Helper()
	admin := []string{"Authorization", "Bearer admin-token"}
	text := func(name string) string {
		return strings.TrimSpace(string(gatewaytest.ReadFile(t, filepath.Join(dir, name))))
	}
	key, token := []string{"Authorization", "Bearer " + text("key.txt")}, []string{"Authorization", "Bearer " + text("token.txt")}
	const november = "/api/monitoring/quota/usage?window=MONTH&model=m&from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z"
	for _, test := range []struct {
		as         []string
		path, want string
	}{
		{admin, gatewaytest.VersionsPath, "[1,2,3]"},
		{admin, gatewaytest.VersionsPath + "/current", `"data":2`},
		{admin, gatewaytest.VersionsPath + "/1", `"summary":"read from the configuration file"`},
		{admin, gatewaytest.VersionsPath + "/3", `"summary":"chat: loadBalancer round_robin→random"`},
		{admin, "/api/config/instance/type/chat", `"apiKey":"sk-of-the-file"`},
		{admin, "/api/config/instance/type/chat", `"apiKey":"sk-stored"`},
		{admin, "/api/config/instance/type/chat", `"${BACKEND_KEY:none}"`},
		{admin, "/api/auth/keys", `"id":"team-b"`},
		{admin, "/api/auth/keys", `"status":"REVOKED"`},
		{key, "/v1/models", `"id":"added"`},
		{token, gatewaytest.TypesPath + "chat", `"loadBalancer":"round_robin"`},
		{admin, november, fmt.Sprintf(`"requestCount":%d,"tokenCount":%d,`, r.requests, 7*r.requests)},
		{admin, "/api/monitoring/budgets", fmt.Sprintf(`"unit":"tokens","limit":100000,"used":%d,`, 7*r.requests)},
		{admin, "/api/monitoring/budgets", fmt.Sprintf(`"unit":"cost","limit":100000000,"used":%d,`, 25*r.requests)},
	} {
		reply := g.Do("GET", test.path, "", test.as...)
		if reply.Status != 200 || !strings.Contains(reply.Body, test.want) {
			t.Errorf("%s has no %s: %d %s", test.path, test.want, reply.Status, reply.Body)
		}
	}
	for _, version := range []string{"3", "1", "2"} {
		g.API("POST", gatewaytest.VersionsPath+"/rollback/"+version, "", token...).Is(t, 200)
	}
	g.API("POST", gatewaytest.AddInstancePath+"chat", `{"name":"later","baseUrl":"http://127.0.0.1:18974","apiKey":"sk-later"}`, admin...).Is(t, 201)
	g.API("POST", "/api/auth/keys", `{"id":"later"}`, admin...).Is(t, 201)
	for line := range strings.Lines(g.Logs.String()) {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "cannot be") {
			t.Errorf("the log says %s", line)
		}
	}
}

// unzip unpacks the archive of a release.
func unzip(t *testing.T, name string) string {
	t.Helper()
	archive, err := zip.OpenReader(filepath.Join("testdata", "releases", name+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	dir := t.TempDir()
	for _, file := range archive.File {
		in, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		path := filepath.Join(dir, file.Name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		gatewaytest.WriteFile(t, path, string(content))
	}
	return dir
}
