package main

import (
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// yamlBlock matches a block of YAML that is a configuration. TestHouse holds the documents
// to saying behind the language why another one is none: "no-test:" and the reason.
var yamlBlock = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")

// configurationsOf returns the configurations in the documents of the repository, by page
// and line.
func configurationsOf(t *testing.T) map[string]string {
	t.Helper()
	blocks := map[string]string{}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "served" || strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > len(repository)):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text := string(gatewaytest.ReadFile(t, path))
		for _, at := range yamlBlock.FindAllStringSubmatchIndex(text, -1) {
			line := strings.Count(text[:at[0]], "\n") + 1
			blocks[strings.TrimPrefix(path, repository+"/")+":"+strconv.Itoa(line)] = text[at[2]:at[3]]
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(blocks) < 30 {
		t.Fatalf("only %d blocks were found: the test looks for them in the wrong way", len(blocks))
	}
	return blocks
}

// reader fills in what a document leaves to those who read it. Nothing listens at the
// addresses of backends; stores are real, and each configuration has a database of its own.
type reader struct {
	redis, postgres *storetest.Server
	databases       int
}

var (
	hostOfBackend = regexp.MustCompile(`(base-url: "?)https?://[^/",}\s]+`)
	hostOfStore   = regexp.MustCompile(`(?:redis|postgres)://[^"\s]+`)
	placeholder   = regexp.MustCompile(`"(?:…|<lower-case hex SHA-256 of the token>)"`)
	variableName  = regexp.MustCompile(`\$\{([A-Z_]+):?\}`)
)

// fill returns the configuration and its environment.
func (r *reader) fill(t *testing.T, block string) (file string, env []string) {
	t.Helper()
	database := sync.OnceValue(func() string { return r.newDatabase(t) })
	closed := 0
	file = hostOfBackend.ReplaceAllStringFunc(block, func(setting string) string {
		closed++
		return hostOfBackend.FindStringSubmatch(setting)[1] + "http://127.0.0.1:" + strconv.Itoa(closed)
	})
	file = hostOfStore.ReplaceAllStringFunc(file, func(url string) string {
		if strings.HasPrefix(url, "redis") {
			return r.redisURL(t)
		}
		return database()
	})
	file = placeholder.ReplaceAllString(file, strings.Repeat("5e", 32))
	file = strings.ReplaceAll(file, "ollama-listen: 127.0.0.1:11434", "ollama-listen: 127.0.0.1:0")
	for _, match := range variableName.FindAllStringSubmatch(file, -1) {
		value := "given"
		switch match[1] {
		case "DATABASE_URL":
			value = database()
		case "REDIS_URL":
			value = r.redisURL(t)
		case "MASTER_KEY":
			value = strings.Repeat("m", 32)
		}
		env = append(env, match[1]+"="+value)
	}
	return file, env
}

func (r *reader) redisURL(t *testing.T) string {
	t.Helper()
	if r.redis == nil {
		r.redis = storetest.Redis(t)
	}
	return r.redis.URL
}

// newDatabase makes a database and returns its address.
func (r *reader) newDatabase(t *testing.T) string {
	t.Helper()
	if r.postgres == nil {
		r.postgres = storetest.Postgres(t)
	}
	r.databases++
	name := "docs" + strconv.Itoa(r.databases)
	ctx := gatewaytest.Deadline(t)
	conn, err := pgx.Connect(ctx, r.postgres.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(r.postgres.URL, "/postgres?", "/"+name+"?", 1)
}

// Every configuration in the documents is one with which check and doctor have no trouble
// and a gateway starts.
func TestConfigurationsOfTheDocumentsWork(t *testing.T) {
	t.Parallel()
	r := &reader{}
	tried := map[string]bool{}
	for place, block := range configurationsOf(t) {
		if tried[block] {
			continue // such as on the same page in another language
		}
		tried[block] = true
		dir := t.TempDir()
		content, env := r.fill(t, strings.ReplaceAll(block, "sqlite:", "sqlite:"+dir+"/"))
		file := filepath.Join(dir, "patchbay.yaml")
		gatewaytest.WriteFile(t, file, content)
		t.Run(place, func(t *testing.T) {
			flags := []string{file, "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data")}
			passesCheck(t, env, flags)
			passesDoctor(t, env, flags)
			startsWith(t, &settingFlags{env: env, file: file, listen: "127.0.0.1:0", dataDir: filepath.Join(dir, "data")})
		})
	}
}

func passesCheck(t *testing.T, env, flags []string) {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(append([]string{"check"}, flags...), env, &stdout, &stderr); code != exitOK {
		t.Fatalf("check: %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// passesDoctor holds doctor to finding only that backends, programs and issuers of tokens are not there.
func passesDoctor(t *testing.T, env, flags []string) {
	t.Helper()
	var stdout, stderr strings.Builder
	want := exitOK
	code := run(append([]string{"doctor"}, flags...), env, &stdout, &stderr)
	for line := range strings.Lines(stdout.String()) {
		found, isFailure := strings.CutPrefix(line, "fail ")
		if !isFailure {
			continue
		}
		want = exitFailed
		if !strings.HasPrefix(found, " backend ") && !strings.HasPrefix(found, " process ") && !strings.HasPrefix(found, " tokens of ") {
			t.Errorf("doctor: %s", line)
		}
	}
	if code != want {
		t.Errorf("doctor: %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// startsWith starts a gateway, which answers and stops.
func startsWith(t *testing.T, flags *settingFlags) {
	t.Helper()
	loaded, err := flags.load()
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(loaded.Document, slog.New(slog.DiscardHandler), gateway.Options{FromFile: true})
	if err != nil {
		t.Fatalf("serve: %v", err)
	}
	g.Start()
	defer g.Stop(t.Context())
	if !isAlive(g)(gatewaytest.Deadline(t)) {
		t.Error("serve: the gateway does not answer")
	}
}
