package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
	"github.com/patchbay-ai/patchbay/internal/wings/doctor"
)

func notRunning(context.Context) (string, error) { return "", errors.New("nobody listens") }

// examine returns the findings for a configuration, as lines of level, area and message.
func examine(t *testing.T, yaml string, change func(*doctor.Options)) string {
	t.Helper()
	loaded, err := config.Load(config.Source{
		File: "x.yaml", Content: []byte(yaml), KnownAdapter: kinds.Check,
		Set: []string{"server.data-dir='" + filepath.Join(t.TempDir(), "not", "yet") + "'"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	options := doctor.Options{Document: loaded.Document, Running: notRunning, Version: "v1", CheckTime: waittest.Limit, Report: func(f doctor.Finding) {
		lines.WriteString(string(f.Level) + " " + f.Area + ": " + f.Message + " => " + f.Fix + "\n")
	}}
	if change != nil {
		change(&options)
	}
	doctor.Run(t.Context(), options)
	return lines.String()
}

// has checks that a line begins and goes on with these parts.
func has(t *testing.T, lines, start string, parts ...string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		if !strings.HasPrefix(line, start) {
			continue
		}
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return
		}
	}
	t.Errorf("no line begins with %q and has %q:\n%s", start, parts, lines)
}

const free = "server: {listen: '127.0.0.1:0'}\n"

func TestAConfigurationWithoutInstancesIsWarnedOf(t *testing.T) {
	t.Parallel()
	lines := examine(t, free, nil)
	has(t, lines, "ok listen:", "is free")
	has(t, lines, "ok data:", "will be made")
	has(t, lines, "warn backends:", "no instances", "patchbay add")
	has(t, lines, "skip redis:")
	has(t, lines, "skip database:")
	has(t, lines, "skip cluster:")
	has(t, lines, "skip clock:")
	if strings.Contains(lines, "fail") {
		t.Error(lines)
	}
}

func TestAConfigurationWithoutInstancesInUseIsWarnedOf(t *testing.T) {
	t.Parallel()
	has(t, examine(t, free+"services: {chat: {instances: [{name: m, base-url: 'http://127.0.0.1:2', enabled: false}]}}\n", nil), "warn backends:", "all instances are disabled")
}

func TestAddressesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	yaml := "server: {listen: ['" + taken.Addr().String() + "', '0.0.0.0:0']}\n"
	lines := examine(t, yaml, nil)
	has(t, lines, "fail listen:", "in use by another program")
	has(t, lines, "fail listen:", "security is off", "security.enabled")
	has(t, examine(t, yaml, func(o *doctor.Options) { o.Running = func(context.Context) (string, error) { return "v1", nil } }), "ok listen:", "runs")
	has(t, examine(t, yaml, func(o *doctor.Options) { o.Running = func(context.Context) (string, error) { return "v0", nil } }), "warn listen:", "v0", "restart")
}

func TestMetricsThatEverybodyCanReadAreWarnedOf(t *testing.T) {
	t.Parallel()
	has(t, examine(t, free, nil), "skip security.metrics:")
	has(t, examine(t, free+"security: {enabled: true}\n", nil), "warn security.metrics:", "what they spend", "security.metrics: token")
	has(t, examine(t, free+"security: {enabled: true, metrics: token}\n", nil), "ok security.metrics:")
}

func TestBackendsAreJudged(t *testing.T) {
	t.Parallel()
	good, err := simulator.Start(simulator.Options{Models: []string{"m", "big"}})
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	secured := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"data":[{"id":"m"}]}`))
	}))
	defer secured.Close()
	gemini := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"models":[{"name":"models/gem"}]}`))
	}))
	defer gemini.Close()
	overTLS := httptest.NewTLSServer(http.NotFoundHandler())
	defer overTLS.Close()
	at := func(name, url, more string) string {
		return "{name: " + name + ", base-url: '" + url + "'" + more + "}"
	}
	lines := examine(t, free+"services: {chat: {instances: ["+strings.Join([]string{
		at("m", good.URL(), ""),
		at("bigg", good.URL(), ""),
		at("m", secured.URL, ", api-key: wrong"),
		at("n", secured.URL, ", api-key: right, upstream-model: m"),
		at("g", gemini.URL, ", adapter: gemini, upstream-model: models/gem"),
		at("m", simulator.DownURL, ", adapter: ollama"),
		at("m", overTLS.URL, ""),
		at("m", strings.Replace(good.URL(), "http:", "https:", 1), ""),
		at("off", "http://127.0.0.1:2", ", enabled: false"),
		at("m", good.URL()+"/v1/chat/completions", ""),
	}, ", ")+"]}}\n", nil)
	has(t, lines, "ok backend "+good.URL()+":", "has 2 models")
	has(t, lines, "warn backend "+good.URL()+":", `does not list the model "bigg", but "big"`)
	has(t, lines, "fail backend "+secured.URL+":", "refuses the key (status 401)", "api-key")
	has(t, lines, "ok backend "+secured.URL+":", "has 1 model")
	has(t, lines, "ok backend "+gemini.URL+":", "has 1 model")
	if strings.Contains(lines, "warn backend "+gemini.URL) {
		t.Errorf("the list of Gemini has the model under its long name:\n%s", lines)
	}
	has(t, lines, "fail backend "+simulator.DownURL+":", "refused", "ollama serve")
	has(t, lines, "fail backend "+overTLS.URL+":", "tls.ca")
	has(t, lines, "fail backend "+strings.Replace(good.URL(), "http:", "https:", 1)+":", "http:// in base-url")
	has(t, lines, "fail backend "+good.URL()+"/v1/chat/completions:", "ends in the endpoint /v1/chat/completions", "status 404 of "+good.URL()+"/v1/chat/completions/v1/models", "base-url: "+good.URL())
	has(t, lines, "ok clock:")
	if strings.Contains(lines, "127.0.0.1:2:") {
		t.Errorf("an instance that is off was asked:\n%s", lines)
	}
}

func TestAWrongClockIsFound(t *testing.T) {
	t.Parallel()
	for offset, level := range map[time.Duration]string{-time.Hour: "fail clock:", 2 * time.Minute: "warn clock:"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(offset).UTC().Format(http.TimeFormat))
			_, _ = w.Write([]byte(`{"data":[{"id":"m"}]}`))
		}))
		lines := examine(t, free+"services: {chat: {instances: [{name: m, base-url: '"+server.URL+"'}]}}\n", nil)
		has(t, lines, level, "set the time")
		server.Close()
	}
}

// TestRedisAtItsUsualAddressIsAsked where the file names that address, whether or not a
// Redis is there: gateways with least_time use it then.
func TestRedisAtItsUsualAddressIsAsked(t *testing.T) {
	t.Parallel()
	lines := examine(t, free+"redis: {url: 'redis://127.0.0.1:6379/0'}\n", nil)
	if strings.Contains(lines, "skip redis:") || !strings.Contains(lines, " redis:") {
		t.Error(lines)
	}
}

func TestStoresThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	lines := examine(t, free+"redis: {url: 'redis://:secret@127.0.0.1:1/0'}\nstore: {url: 'postgres://u:secret@127.0.0.1:1/x', config: 'postgres://u:secret@127.0.0.1:1/x'}\n", nil)
	has(t, lines, "fail redis:", "redis.url")
	has(t, lines, "fail database:", "store.url")
	has(t, lines, "fail cluster:", "store.config")
	if strings.Contains(lines, "secret") {
		t.Errorf("a password is told:\n%s", lines)
	}
}

func TestStoresThatAnswer(t *testing.T) {
	t.Parallel()
	redis, database := storetest.Redis(t).URL, storetest.Postgres(t).URL
	lines := examine(t, free+"redis: {url: '"+redis+"'}\nstore: {url: '"+database+"', config: '"+database+"'}\n", nil)
	has(t, lines, "ok redis:", "answers in")
	has(t, lines, "ok database:", "PostgreSQL")
	has(t, lines, "ok cluster:", "the first gateway that starts")
}

// TestReferencesOfStoredVersions: names to which stored versions refer and the file does
// not are found before a gateway starts, on disk and in PostgreSQL.
func TestReferencesOfStoredVersions(t *testing.T) {
	t.Parallel()
	const version = `{"version": %d, "createdAt": "2026-01-01T00:00:00Z", "origin": "file", "summary": "", "services": {"chat": {"instances": [
		{"name": "m", "baseUrl": "http://127.0.0.1:9", "apiKey": {"reference": "${%s}"}}]}}}`
	chat := "services: {chat: {instances: [{name: m, base-url: 'http://127.0.0.1:9', api-key: '${USED:-x}'}]}}\n"
	check := func(lines string) {
		t.Helper()
		has(t, lines, "fail references:", "current version (2) are out", ": CURRENT =>", "security.references")
		has(t, lines, "warn references:", "after a rollback", ": OLDER =>")
	}
	dir := t.TempDir()
	stored := filepath.Join(dir, "versions")
	if err := os.MkdirAll(stored, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"00000001.json": fmt.Sprintf(version, 1, "OLDER"), "00000002.json": fmt.Sprintf(version, 2, "CURRENT"), "00000003.json": "damaged",
		"current.json": `{"version": 2, "newest": 3, "source": ""}`,
	} {
		if err := os.WriteFile(filepath.Join(stored, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here := func(o *doctor.Options) { o.Document.Server.DataDir = dir }
	check(examine(t, free+chat, here))
	has(t, examine(t, free+chat+"security: {references: [OLDER, CURRENT]}\n", here), "ok references:", "2 stored versions")
	has(t, examine(t, free+chat, nil), "skip references:")

	database := storetest.Postgres(t)
	yaml := free + chat + "store: {config: '" + database.URL + "'}\n"
	has(t, examine(t, yaml, nil), "skip references:")
	conn, err := pgx.Connect(t.Context(), database.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, statement := range []string{
		"CREATE TABLE patchbay_config_versions (version INTEGER, record TEXT)", "CREATE TABLE patchbay_config_current (log TEXT, revision BIGINT, version INTEGER, newest INTEGER, source TEXT)",
		"INSERT INTO patchbay_config_versions VALUES (1, '" + fmt.Sprintf(version, 1, "OLDER") + "'), (2, '" + fmt.Sprintf(version, 2, "CURRENT") + "')",
		"INSERT INTO patchbay_config_current VALUES ('log', 1, 2, 2, '')",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	check(examine(t, yaml, nil))
}
