package gateway_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

const (
	backendKey    = "sk-a-literal-of-the-backend"
	backendHeader = "a-literal-in-a-header"
	proxyPassword = "the-password-of-a-proxy"
)

// contents returns every file below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// plainFiles returns the files below a directory that have a secret as plain text.
func plainFiles(t *testing.T, dir string) []string {
	t.Helper()
	var plain []string
	for path, content := range contents(t, dir) {
		if strings.Contains(content, backendKey) || strings.Contains(content, backendHeader) || strings.Contains(content, proxyPassword) {
			plain = append(plain, path)
		}
	}
	return plain
}

func masterKeys(current string) string {
	return fmt.Sprintf("security: {master-key: %s}\n", gatewaytest.Quote(current))
}

// TestSecretsAreEncryptedAtRest: with a master key no version, backup or head has the
// key of a backend as plain text; the key still reaches the backend; and a wrong key or none stops
// the start and changes nothing.
func TestSecretsAreEncryptedAtRest(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	dir := t.TempDir()
	yaml := gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: "+backendKey, "headers: {X-Team: "+backendHeader+"}"),
		gatewaytest.Instance("n", b.URL(), "api-key: '${TEAM_KEY:none}'", "proxy: http://team:"+proxyPassword+"@127.0.0.1:9"))
	start := func(settings string) *gatewaytest.Gateway {
		r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: settings + yaml, DataDir: dir})
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
		if doc, _ := r.Control.Document(); doc.Services[schema.Chat].Instances[1].Proxy != "http://team:"+proxyPassword+"@127.0.0.1:9" {
			t.Error("the proxy is another one")
		}
		if got := lastAuthorization(b); got != "Bearer "+backendKey {
			t.Errorf("the backend got %q", got)
		}
		if out := r.Logs.String(); strings.Contains(out, backendKey) || strings.Contains(out, backendHeader) {
			t.Error("the log has a secret")
		}
		return r
	}
	first := rand.Text() + rand.Text()
	r := start(masterKeys(first))
	r.API(http.MethodPut, "/api/config/instance/update/chat", `{"instanceId": "m@`+b.URL()+`", "instance": {"weight": 3}}`).Is(t, http.StatusOK)
	r.API(http.MethodPost, "/api/config/merge/backup", "").Is(t, http.StatusOK)
	if reply := r.API(http.MethodGet, "/api/config/instance/type/chat", ""); !strings.Contains(reply.Body, backendKey) || !strings.Contains(reply.Body, "${TEAM_KEY:none}") {
		t.Errorf("%s", reply.Body)
	}
	r.API(http.MethodPost, "/api/config/version/rollback/1", "").Is(t, http.StatusOK)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Halt()
	if plain := plainFiles(t, dir); len(plain) > 0 {
		t.Errorf("plain text in %v", plain)
	}
	before := contents(t, dir)
	for _, wrong := range []string{"", masterKeys(rand.Text() + rand.Text())} {
		_, err := gateway.New(gatewaytest.LoadDocument(t, wrong+yaml, dir), logs.New(new(gatewaytest.Buffer), logs.JSON, slog.LevelDebug), gateway.Options{})
		if !errors.Is(err, mark.ErrMasterKey) || !strings.Contains(err.Error(), "et security.master-key to ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if !maps.Equal(before, contents(t, dir)) {
		t.Error("a start that failed changed something")
	}
	start(masterKeys(first)).Halt()
	damageSealed(t, dir)
	_, err := gateway.New(gatewaytest.LoadDocument(t, masterKeys(first)+yaml, dir), logs.New(new(gatewaytest.Buffer), logs.JSON, slog.LevelDebug), gateway.Options{})
	if !errors.Is(err, mark.ErrMasterKey) || strings.Contains(err.Error(), "set security.master-key") || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("a damaged secret: %v", err)
	}
}

// damageSealed changes the encrypted secrets of all versions.
func damageSealed(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "versions", "0*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %v", files, err)
	}
	sealed := regexp.MustCompile(`(v1\.[0-9a-f]{8}\.)....`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		gatewaytest.WriteFile(t, name, sealed.ReplaceAllString(string(text), "${1}AAAA"))
	}
}

// TestSharedSecretsAreEncrypted: gateways that share their configuration encrypt what
// the database has, and without a master key they warn.
func TestSharedSecretsAreEncrypted(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	b := gatewaytest.StartBackend(t)
	services := gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: "+backendKey))
	yaml := fmt.Sprintf("store: {config: %s}\n", gatewaytest.Quote(database.URL)) + services
	const warning = "stored as plain text in the database of the shared configuration"
	plain := storetest.Postgres(t)
	open := gatewaytest.Start(t, fmt.Sprintf("store: {config: %s}\n", gatewaytest.Quote(plain.URL))+services)
	if !strings.Contains(open.Logs.String(), warning) {
		t.Error("there is no warning")
	}
	gatewaytest.Eventually(t, "there is something to encrypt", func() bool { return strings.Contains(records(t, plain.URL), backendKey) })
	key := masterKeys(rand.Text() + rand.Text())
	a, other := gatewaytest.Start(t, key+yaml), gatewaytest.Start(t, key+yaml)
	gatewaytest.Eventually(t, "the database has the versions", func() bool { return records(t, database.URL) != "" })
	if stored := records(t, database.URL); strings.Contains(stored, backendKey) || !strings.Contains(stored, "sealed") {
		t.Errorf("the database has %s", stored)
	}
	if strings.Contains(a.Logs.String(), warning) {
		t.Error("there is a warning")
	}
	gatewaytest.Eventually(t, "the database takes a change in time", func() bool {
		return a.API(http.MethodPut, "/api/config/instance/update/chat", `{"instanceId": "m@`+b.URL()+`", "instance": {"apiKey": "sk-another-literal"}}`).Status == http.StatusOK
	})
	gatewaytest.Eventually(t, "the other gateway uses the new key", func() bool {
		other.Chat(gatewaytest.PlainHi).Succeeds(t)
		return lastAuthorization(b) == "Bearer sk-another-literal"
	})
	if strings.Contains(records(t, database.URL), "sk-another-literal") || len(plainFiles(t, other.Document.Server.DataDir)) > 0 {
		t.Error("the new key is stored as plain text")
	}
}

// TestAWrongMasterKeyOfASharedConfigurationEndsTheStart: a gateway that cannot read the
// secrets of the shared configuration does not start and names the key that is needed. It
// writes nothing, so that it starts with the right key after that.
func TestAWrongMasterKeyOfASharedConfigurationEndsTheStart(t *testing.T) {
	t.Parallel()
	database := storetest.Postgres(t)
	b := gatewaytest.StartBackend(t)
	yaml := fmt.Sprintf("store: {config: %s}\n", gatewaytest.Quote(database.URL)) +
		gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: "+backendKey))
	right := rand.Text() + rand.Text()
	gatewaytest.Start(t, masterKeys(right)+yaml).Halt()
	keys, err := seal.New(right, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]string{"wrong": masterKeys(rand.Text() + rand.Text()), "missing": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := gateway.New(gatewaytest.LoadDocument(t, wrong+yaml, dir), logs.New(new(gatewaytest.Buffer), logs.JSON, slog.LevelDebug), gateway.Options{})
			if !errors.Is(err, mark.ErrMasterKey) || !strings.Contains(err.Error(), keys.ID()) {
				t.Fatalf("%v", err)
			}
			if numbers, err := filepath.Glob(filepath.Join(dir, "versions", "*")); err != nil || len(numbers) > 0 {
				t.Errorf("%v is stored, %v", numbers, err)
			}
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: masterKeys(right) + yaml, DataDir: dir})
			r.Chat(gatewaytest.PlainHi).Succeeds(t)
		})
	}
}

// lastAuthorization returns what the last call of a backend was authorized with.
func lastAuthorization(b *simulator.Backend) string {
	calls := b.Requests()
	return calls[len(calls)-1].Header.Get("Authorization")
}

// records returns what the database has of all versions.
func records(t *testing.T, url string) string {
	t.Helper()
	ctx := gatewaytest.Deadline(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var all string
	if err := conn.QueryRow(ctx, "SELECT coalesce(string_agg(record, ' '), '') FROM patchbay_config_versions").Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}
