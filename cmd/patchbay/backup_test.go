// This file belongs to the wing backup.

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// masterKey encrypts and signs in these tests.
const masterKey = "a master key of thirty-two characters"

// estate is a gateway with something of everything that is kept.
type estate struct {
	t       *testing.T
	backend *simulator.Backend
	held    *simulator.Backend // answers when the test lets it
	file    string             // its configuration
	args    []string
	*child
	key, token     string
	output, openID string // the results of a batch that has ended, and a batch that has not
	revoked        string
}

// newEstate writes the configuration of a gateway.
func newEstate(t *testing.T, more string) *estate {
	t.Helper()
	e := &estate{t: t, backend: gatewaytest.StartBackend(t), held: gatewaytest.StartBackend(t), file: filepath.Join(t.TempDir(), "patchbay.yaml")}
	gatewaytest.WriteFile(t, e.file, fmt.Sprintf(`
server: {data-dir: %q, shutdown-grace: 1s}
services: {chat: {instances: [{name: m, base-url: %q, api-key: sk-file}, {name: held, base-url: %q}]}}
security: {enabled: true, master-key: %s, tokens: [{name: a, role: ADMIN, token-sha256: %s}]}
quota: {enabled: true, flush-interval-seconds: 3600}
prices: {models: [{model: '*', input: 1, output: 10}]}
batches: {enabled: true}
log: {access: false}
`, filepath.Join(t.TempDir(), "data"), e.backend.URL(), e.held.URL(), masterKey, gatewaytest.HashOf("admin-token"))+more)
	return e
}

// start starts the gateway. A database that is too slow for a start leaves the credentials of the last run in
// force until it is read, which is not what these tests are about: the gateway is started again then.
func (e *estate) start() {
	e.t.Helper()
	gatewaytest.Eventually(e.t, "the gateway starts with what the database has", func() bool {
		e.child = serving(e.t, append([]string{"--config", e.file}, e.args...)...)
		gatewaytest.Eventually(e.t, "the gateway is ready", func() bool {
			return e.ask(http.MethodGet, "/actuator/health/readiness", "").Status == http.StatusOK
		})
		if !strings.Contains(e.stderr.String(), "the shared keys and tokens cannot be read") {
			return true
		}
		e.signal(os.Interrupt)
		e.exits(exitOK)
		return false
	})
}

// as sends a request with a token or a key.
func (e *estate) as(bearer, method, path, body string) gatewaytest.Reply {
	e.t.Helper()
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(e.t), method, e.url()+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+bearer)
	request.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(body, "--") {
		request.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		e.t.Fatal(err)
	}
	return gatewaytest.ReadReply(response)
}

// must is as for a request that succeeds; it returns a member of the reply.
func (e *estate) must(bearer, method, path, body, member string) string {
	e.t.Helper()
	reply := e.as(bearer, method, path, body)
	if reply.Status >= 300 {
		e.t.Fatalf("%s %s: %d %s", method, path, reply.Status, reply.Body)
	}
	if member == "" {
		return reply.Body
	}
	text, _ := gatewaytest.At(e.t, any(gatewaytest.DecodeObject(e.t, reply.Body)), member).(string)
	return text
}

// batch submits a batch of two lines for two models.
func (e *estate) batch(first, second string) string {
	e.t.Helper()
	var lines strings.Builder
	for i, model := range []string{first, second} {
		fmt.Fprintf(&lines, `{"custom_id":"%d","method":"POST","url":"/v1/chat/completions","body":{"model":%q,"messages":[{"role":"user","content":"line"}]}}`+"\n", i, model)
	}
	upload := "--x\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n" +
		"Content-Disposition: form-data; name=\"file\"; filename=\"l.jsonl\"\r\n\r\n" + lines.String() + "\r\n--x--\r\n"
	file := e.must(e.key, http.MethodPost, "/v1/files", upload, "id")
	return e.must(e.key, http.MethodPost, "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, "id")
}

// done waits until so many lines of a batch have succeeded, and returns the file of results.
func (e *estate) done(id string, lines float64, status string) (output string) {
	e.t.Helper()
	gatewaytest.Eventually(e.t, "lines of a batch are done", func() bool {
		found := gatewaytest.DecodeObject(e.t, e.must(e.key, http.MethodGet, "/v1/batches/"+id, "", ""))
		output, _ = found["output_file_id"].(string)
		return gatewaytest.At(e.t, any(found), "request_counts/completed") == lines && found["status"] == status
	})
	return output
}

// fill uses everything that is kept.
func (e *estate) fill() {
	e.t.Helper()
	const admin = "admin-token"
	e.key = e.must(admin, http.MethodPost, "/api/auth/keys", `{"id":"team-a","tenant":"acme","budgets":{"month":{"cost":100,"tokens":100000}}}`, "data/key")
	e.revoked = e.must(admin, http.MethodPost, "/api/auth/keys", `{"id":"team-b"}`, "data/key")
	e.token = e.must(admin, http.MethodPost, "/api/auth/tokens", `{"name":"ops","role":"OPERATOR"}`, "data/token")
	for i := range 4 {
		e.must(admin, http.MethodPost, gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":"added-%d","baseUrl":%q,"apiKey":"sk-%d","headers":{"X-Some":"secret"},"weight":%d}`, i, e.backend.URL(), i, i+1), "")
	}
	e.must(admin, http.MethodPut, "/api/config/terms", `{"defaults":{"budgets":{"total":{"cost":5}}},"tenants":[{"name":"acme"}]}`, "")
	e.must(admin, http.MethodPut, gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`, "")
	e.must(admin, http.MethodPost, "/api/config/version/rollback/6", "", "")
	for range 3 {
		e.must(e.key, http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, "")
	}
	e.output = e.done(e.batch("m", "m"), 2, "completed")
	e.held.SetDefault(simulator.Behaviour{Step: simulator.Step{Hang: true}})
	e.openID = e.batch("m", "held")
	e.done(e.openID, 1, "in_progress")
}

// inventory returns everything that must come back. The times at which versions came into force
// are not kept in PostgreSQL.
func (e *estate) inventory(leaveOut ...string) string {
	e.t.Helper()
	var all strings.Builder
	for _, path := range []string{
		"/api/config/version", "/api/config/version/current", "/api/config/version?details=true", "/api/config/version/7",
		"/api/config/instance/type/chat", "/api/config/terms", "/api/auth/keys", "/api/auth/tokens",
		"/api/monitoring/quota/usage?window=MONTH&model=m", "/api/monitoring/quota/usage?window=DAY&model=m", "/api/monitoring/budgets", "/api/files", "/api/batches",
	} {
		var value any
		text := ""
		gatewaytest.Eventually(e.t, "the stores answer for "+path, func() bool {
			text = e.must("admin-token", http.MethodGet, path, "", "")
			return !strings.Contains(text, "a store did not answer")
		})
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			e.t.Fatal(err)
		}
		strip(value, append(leaveOut, "timestamp", "lastUsedAt", "callsToday", "healthStatus", "lastHealthCheck", "healthReason", "said", "reserved", "remaining", "expectedEnd", "linesPerMinute"))
		shown, err := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent(" "))
		if err != nil {
			e.t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n%s\n", path, shown)
	}
	return all.String() + e.must(e.key, http.MethodGet, "/v1/files/"+e.output+"/content", "", "")
}

// strip removes members of objects.
func strip(value any, names []string) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if slices.Contains(names, name) {
				delete(value, name)
			}
			strip(member, names)
		}
	case []any:
		for _, element := range value {
			strip(element, names)
		}
	}
}

// same compares two inventories and shows where they differ first.
func same(t *testing.T, before, after string) {
	t.Helper()
	if before == after {
		return
	}
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	for i := range was {
		if i >= len(is) || was[i] != is[i] {
			from := max(0, min(i-12, len(is)))
			t.Errorf("before:\n%s\nafter:\n%s", strings.Join(was[from:min(i+5, len(was))], "\n"), strings.Join(is[from:min(i+5, len(is))], "\n"))
			return
		}
	}
	t.Errorf("more than before: %s", after)
}

// verb runs a verb of the program.
func verb(t *testing.T, want int, args ...string) (output string) {
	t.Helper()
	var out bytes.Buffer
	if code := run(args, nil, &out, &out); code != want {
		t.Fatalf("%v: exit code %d, want %d: %s", args, code, want, out.String())
	}
	return out.String()
}

// placesOfBackups are where a gateway keeps its data: how it is configured, and how all of it is
// lost.
func placesOfBackups(t *testing.T) map[string]func() (more string, lose func()) {
	database := storetest.Postgres(t)
	return map[string]func() (string, func()){
		"a data directory": func() (string, func()) { return "", func() {} },
		"PostgreSQL": func() (string, func()) {
			name := "d" + strings.ToLower(rand.Text())
			admin(t, database, "CREATE DATABASE "+name)
			url := strings.Replace(database.URL, "/postgres?", "/"+name+"?", 1)
			return fmt.Sprintf("store: {config: %q, url: %[1]q}\nfiles: {folder: %q}\n", url, filepath.Join(t.TempDir(), "folder")),
				func() { admin(t, database, "DROP DATABASE "+name+" WITH (FORCE)", "CREATE DATABASE "+name) }
		},
	}
}

func admin(t *testing.T, server *storetest.Server, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// A gateway loses everything and gets it back to the unit from a backup that was made while it
// ran: in the same place, or in the other kind of place.
func TestEverythingIsLostAndRestored(t *testing.T) {
	t.Parallel()
	places := placesOfBackups(t)
	for _, test := range []struct{ from, to string }{
		{"a data directory", "a data directory"}, {"PostgreSQL", "PostgreSQL"},
		{"a data directory", "PostgreSQL"}, {"PostgreSQL", "a data directory"},
	} {
		t.Run(test.from+" to "+test.to, func(t *testing.T) {
			t.Parallel()
			more, lose := places[test.from]()
			e := newEstate(t, more)
			e.start()
			e.fill()
			leaveOut := []string{"activations", "activatedAt", "activatedBy"}
			if test.from == "a data directory" && test.to == "a data directory" {
				leaveOut = nil
			}
			before := e.inventory(leaveOut...)
			file := filepath.Join(t.TempDir(), "backup.zip")
			said := verb(t, exitOK, "backup", file, "--config", e.file, "--with", "ledger,files,batches")
			for _, want := range []string{"7 versions (6 in force)", "2 issued keys", "1 issued token", "3 files", "2 batches"} {
				if !strings.Contains(said, want) {
					t.Errorf("the backup does not say %q: %s", want, said)
				}
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			e.must("admin-token", http.MethodDelete, "/api/auth/keys/team-b", "", "")
			if said := verb(t, exitFailed, "restore", file, "--config", e.file, "--force"); !strings.Contains(said, "stop") {
				t.Errorf("the gateway runs, and the restore says %s", said)
			}
			e.signal(os.Interrupt)
			e.exits(exitOK)
			lose()
			if test.from != test.to {
				more, _ = places[test.to]()
			}
			next := newEstate(t, more) // with a data directory and a folder that are empty
			next.key, next.output = e.key, e.output
			if more != "" && test.from == test.to {
				folder := more[strings.Index(more, `folder: "`)+len(`folder: "`):]
				if err := os.RemoveAll(folder[:strings.IndexByte(folder, '"')]); err != nil {
					t.Fatal(err)
				}
			}
			said = verb(t, exitOK, "restore", file, "--config", next.file)
			for _, want := range []string{"7 versions (6 in force)", "2 issued keys", "2 batches", "are good again: revoke them"} {
				if !strings.Contains(said, want) {
					t.Errorf("the restore does not say %q: %s", want, said)
				}
			}
			// The file of the new machine has other services, which change nothing.
			next.start()
			next.done(e.openID, 1, "in_progress") // when it has read the answers
			same(t, before, next.inventory(leaveOut...))
			if got := next.as(e.revoked, http.MethodGet, "/v1/models", "").Status; got != http.StatusOK {
				t.Errorf("the key that was revoked after the backup: %d", got)
			}
			sent := len(e.backend.Requests())
			next.signal(os.Interrupt) // with a request that would hang for long
			next.exits(exitOK)
			e.held.SetDefault(simulator.Behaviour{})
			next.start()
			next.done(e.openID, 2, "completed")
			if again := len(e.backend.Requests()) - sent; again > 0 {
				t.Errorf("the line that was answered before the backup is sent again")
			}
			next.must(e.token, http.MethodPost, "/api/config/version/rollback/7", "", "")
			next.must(e.key, http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, "")
			if said := verb(t, exitFailed, "restore", file, "--config", next.file, "--force"); !strings.Contains(said, "stop") {
				t.Errorf("the gateway runs, and the restore says %s", said)
			}
		})
	}
}

// A gateway with a data directory that knows more than the restored database follows the database.
func TestAGatewayFollowsARestoredDatabase(t *testing.T) {
	t.Parallel()
	more, _ := placesOfBackups(t)["PostgreSQL"]()
	e := newEstate(t, more)
	e.start()
	const admin = "admin-token"
	add := func(name string) (key string) {
		e.must(admin, http.MethodPost, gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":%q,"baseUrl":%q}`, name, e.backend.URL()), "")
		return e.must(admin, http.MethodPost, "/api/auth/keys", fmt.Sprintf(`{"id":%q}`, name), "data/key")
	}
	before := add("before")
	file := filepath.Join(t.TempDir(), "backup.zip")
	verb(t, exitOK, "backup", file, "--config", e.file)
	after := add("after")
	e.signal(os.Interrupt)
	e.exits(exitOK)
	if said := verb(t, exitFailed, "restore", file, "--config", e.file); !strings.Contains(said, "--force") {
		t.Errorf("it says %s", said)
	}
	verb(t, exitOK, "restore", file, "--config", e.file, "--force")
	e.start()
	if got := e.must(admin, http.MethodGet, "/api/config/version", "", ""); !strings.Contains(got, "[1,2]") {
		t.Errorf("the versions are %s", got)
	}
	for key, want := range map[string]int{before: http.StatusOK, after: http.StatusUnauthorized} {
		if got := e.as(key, http.MethodGet, "/v1/models", ""); got.Status != want || strings.Contains(got.Body, `"after"`) {
			t.Errorf("%d %s, want %d", got.Status, got.Body, want)
		}
	}
	add("next")
	if gatewaytest.HasWing(t, "audit") {
		begun := e.must(admin, http.MethodGet, "/api/audit?what=audit.begin", "", "")
		if !strings.Contains(begun, "was restored at ") || !strings.Contains(begun, "; chain 1 before it ended at seq ") || !strings.Contains(begun, `"seq":1`) {
			t.Errorf("the audit begins no new chain that says so: %s", begun)
		}
		if said := verb(t, exitOK, "audit", "verify", "--config", e.file); !strings.Contains(said, "chain 2") {
			t.Errorf("verify says %s", said)
		}
	}
}

// A download of the management API brings back all versions with all instances, and keys and
// tokens.
func TestADownloadIsRestored(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	e.start()
	e.fill()
	read := func(e *estate) string {
		var all strings.Builder
		for _, path := range []string{"/api/config/version", "/api/config/version/current", "/api/config/instance/type/chat", "/api/config/terms", "/api/auth/keys", "/api/auth/tokens", "/api/config/version?details=true", "/api/config/version/2"} {
			var value any
			if err := json.Unmarshal([]byte(e.must("admin-token", http.MethodGet, path, "", "")), &value); err != nil {
				t.Fatal(err)
			}
			strip(value, []string{"timestamp", "lastUsedAt", "callsToday", "healthStatus", "lastHealthCheck", "healthReason", "said"})
			text, _ := json.Marshal(value, json.Deterministic(true), jsontext.WithIndent(" "))
			fmt.Fprintf(&all, "%s %s\n", path, text)
		}
		return all.String()
	}
	before := read(e)
	file := filepath.Join(t.TempDir(), "download.zip")
	gatewaytest.WriteFile(t, file, e.must("admin-token", http.MethodGet, "/api/config/backup?secrets=true", "", ""))
	masked := filepath.Join(t.TempDir(), "masked.zip")
	gatewaytest.WriteFile(t, masked, e.must("admin-token", http.MethodGet, "/api/config/backup", "", ""))
	e.kill()
	next := newEstate(t, "")
	if said := verb(t, exitFailed, "restore", masked, "--config", next.file); !strings.Contains(said, "secrets=true") {
		t.Errorf("a download with masked secrets: %s", said)
	}
	if said := verb(t, exitOK, "restore", file, "--config", next.file); !strings.Contains(said, "7 versions (6 in force), 2 issued keys, 1 issued token") {
		t.Errorf("it says %s", said)
	}
	next.start()
	same(t, before, read(next))
	next.must(e.key, http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, "")
	next.must(e.token, http.MethodPost, "/api/config/version/rollback/7", "", "")
}

// A backup that was made without a master key is restored where there is one, and confirmed: the
// place signs all of it.
func TestABackupWithoutAMasterKeyGetsOne(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	with := string(gatewaytest.ReadFile(t, e.file))
	gatewaytest.WriteFile(t, e.file, strings.Replace(with, "master-key: "+masterKey+", ", "", 1))
	e.start()
	e.fill()
	before := e.inventory("activations", "activatedAt", "activatedBy")
	file := filepath.Join(t.TempDir(), "backup.zip")
	verb(t, exitOK, "backup", file, "--config", e.file, "--with", "ledger,batches")
	e.kill()
	next := newEstate(t, "")
	next.key, next.output = e.key, e.output
	if said := verb(t, exitFailed, "restore", file, "--config", next.file); !strings.Contains(said, "--unsigned") {
		t.Errorf("it says %s", said)
	}
	verb(t, exitOK, "restore", file, "--config", next.file, "--unsigned")
	verb(t, exitOK, "restore", "--confirm", "--config", next.file)
	next.start()
	next.done(e.openID, 1, "in_progress")
	same(t, before, next.inventory("activations", "activatedAt", "activatedBy"))
	next.must(e.token, "POST", "/api/config/version/rollback/7", "", "")
	next.kill()
	next.start()
	next.must(e.token, "POST", "/api/config/version/rollback/6", "", "")

	// What it had as plain files was sealed, so that a rekey takes all of it.
	next.kill()
	next.setKeys(laterMasterKey, masterKey)
	verb(t, exitOK, "rekey", "--config", next.file)
	next.setKeys(laterMasterKey, "")
	next.start()
	next.done(e.openID, 1, "in_progress")
}

// A restore that cannot be done says why and changes nothing.
func TestARestoreThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	e.start()
	e.fill()
	e.signal(os.Interrupt)
	e.exits(exitOK)
	dir := t.TempDir()
	good := filepath.Join(dir, "good.zip")
	verb(t, exitOK, "backup", good, "--config", e.file, "--with", "ledger,batches")
	content := gatewaytest.ReadFile(t, good)
	write := func(name, text string) string {
		gatewaytest.WriteFile(t, filepath.Join(dir, name), text)
		return filepath.Join(dir, name)
	}
	changed := func(name string, change func(name string, content []byte) (string, []byte)) string {
		var out bytes.Buffer
		from, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		to := zip.NewWriter(&out)
		for _, file := range from.File {
			in, err := file.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			name, text := change(file.Name, text)
			if name == "" {
				continue
			}
			entry, err := to.Create(name)
			if err == nil {
				_, err = entry.Write(text)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		return write(name, out.String())
	}
	replaced := func(file, old, new string) func(string, []byte) (string, []byte) {
		return func(name string, content []byte) (string, []byte) {
			if name == file {
				content = bytes.ReplaceAll(content, []byte(old), []byte(new))
			}
			return name, content
		}
	}
	renamed := func(file, to string) func(string, []byte) (string, []byte) {
		return func(name string, content []byte) (string, []byte) {
			if name == file {
				name = to
			}
			return name, content
		}
	}
	full := strings.Repeat("0", 1000)
	dataDir := filepath.Join(t.TempDir(), "place")
	verb(t, exitOK, "restore", good, "--config", e.file, "--data-dir", dataDir)
	listed := treeOf(t, dataDir)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a place that is not empty":  {[]string{good}, "--force"},
		"no file":                    {[]string{filepath.Join(dir, "none.zip"), "--force"}, "no such file"},
		"no archive":                 {[]string{write("text.zip", "hello"), "--force"}, "no zip archive"},
		"a part of one":              {[]string{write("part.zip", string(content[:len(content)/2])), "--force"}, "not all of one"},
		"an archive of another kind": {[]string{changed("kind.zip", renamed("values.json", "word/document.xml")), "--force"}, "it is no backup"},
		"a path that leads out":      {[]string{changed("out.zip", renamed("values.json", "../../etc/passwd")), "--force"}, "it is no backup"},
		"an absolute path":           {[]string{changed("abs.zip", renamed("values.json", "/etc/passwd")), "--force"}, "it is no backup"},
		"a path within a folder":     {[]string{changed("in.zip", renamed("values.json", "versions/../keys.json")), "--force"}, "it is no backup"},
		"a changed version":          {[]string{changed("v.zip", replaced("versions/00000006.json", "weight", "Weight")), "--force"}, "damaged"},
		"a larger file":              {[]string{changed("big.zip", replaced("ledger.jsonl", "{", "{"+full)), "--force"}, "ledger.jsonl"},
		"a changed manifest":         {[]string{changed("m.zip", replaced("manifest.json", "data directory", "elsewhere")), "--force"}, "signature is wrong"},
		"a file less":                {[]string{changed("l.zip", renamed("values.json", "")), "--force"}, "is missing"},
		"a file more":                {[]string{changed("more.zip", renamed("values.json", "contents/x")), "--force"}, "was added"},
		"a newer format":             {[]string{changed("n.zip", replaced("manifest.json", `"format":1`, `"format":2`)), "--force"}, "a newer release"},
		"another master key":         {[]string{good, "--force", "--set", "security.master-key=another-master-key-of-32-characters"}, "made with the master key"},
		"no master key":              {[]string{good, "--force", "--set", "security.master-key="}, "made with the master key"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"restore", "--config", e.file, "--data-dir", dataDir}, test.args...)
			if said := verb(t, exitFailed, args...); !strings.Contains(said, test.want) || strings.Contains(said, masterKey) {
				t.Errorf("it says %s, want %s", said, test.want)
			}
			if now := treeOf(t, dataDir); now != listed {
				t.Errorf("before:\n%s\nafter:\n%s", listed, now)
			}
		})
	}
	// With --force the content that was there is kept beside.
	said := verb(t, exitOK, "restore", good, "--config", e.file, "--data-dir", dataDir, "--force")
	if kept, _ := filepath.Glob(filepath.Join(dataDir, "replaced-*", "versions", "00000006.json")); len(kept) != 1 || !strings.Contains(said, "replaced-") {
		t.Errorf("%v: %s", kept, said)
	}
	var piped, words bytes.Buffer
	if code := run([]string{"backup", "-", "--config", e.file}, nil, &piped, &words); code != exitOK {
		t.Fatalf("%d %s", code, words.String())
	}
	verb(t, exitOK, "restore", write("piped.zip", piped.String()), "--config", e.file, "--data-dir", filepath.Join(dir, "new"))
	plain := filepath.Join(dir, "plain.zip")
	verb(t, exitOK, "backup", plain, "--config", e.file)
	if said := verb(t, exitFailed, "restore", plain, "--config", e.file, "--data-dir", dataDir, "--force", "--with", "ledger"); !strings.Contains(said, "has no ledger") {
		t.Errorf("it says %s", said)
	}
	if said := verb(t, exitUsage, "backup", plain, "--config", e.file, "--with", "everything"); !strings.Contains(said, "ledger, files, batches") {
		t.Errorf("it says %s", said)
	}
	if said := verb(t, exitFailed, "backup", plain, "--config", e.file, "--set", "security.master-key="); !strings.Contains(said, "master-key") {
		t.Errorf("a backup without the master key says %s", said)
	}
}

// treeOf lists the files below a folder with hashes of their content. The files of a database may be
// written at any time.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&all, path)
		if info.Mode().IsRegular() && !strings.Contains(path, "quota.db") {
			fmt.Fprintf(&all, "%x\n", sha256.Sum256(gatewaytest.ReadFile(t, path)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// The commands of docs/backup.md work in a folder with a configuration and a data directory.
func TestTheBackupPage(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	gatewaytest.WriteFile(t, filepath.Join(s.dir, "patchbay.yaml"), "server: {data-dir: data}\n")
	c := serving(t, "--data-dir", filepath.Join(s.dir, "data"))
	c.signal(os.Interrupt)
	c.exits(exitOK)
	for _, commands := range commandsOf(t, "docs/backup.md", "test=TestTheBackupPage") {
		if output := s.run(commands); !strings.Contains(output, "restored to restored: 1 version (1 in force)") {
			t.Errorf("the commands write %s", output)
		}
	}
}
