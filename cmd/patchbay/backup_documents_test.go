// This file belongs to the wing backup.

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// with sends a request with a header.
func (e *estate) with(header, value, method, path, body string) gatewaytest.Reply {
	e.t.Helper()
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(e.t), method, e.url()+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	request.Header.Set(header, value)
	request.Header.Set("Content-Type", "application/json")
	if header != "Cookie" {
		request.Header.Set("Authorization", "Bearer "+e.key)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		e.t.Fatal(err)
	}
	return gatewaytest.ReadReply(response)
}

// signIn begins a session of the administrator, and returns its cookie.
func (e *estate) signIn() string {
	e.t.Helper()
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(e.t), http.MethodPost, e.url()+"/api/auth/session", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer admin-token")
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		e.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.Cookies()[0].Name + "=" + response.Cookies()[0].Value
}

// linesOf returns the documents of an archive without what is told of them apart from their content, in a
// fixed order.
func linesOf(t *testing.T, archive string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(string(unzip(t, archive)["documents.jsonl"])) {
		lines = append(lines, string(edited(t, []byte(line), func(doc *map[string]any) {
			delete(*doc, "version")
			created, err := time.Parse(time.RFC3339Nano, fmt.Sprint((*doc)["created"]))
			if err != nil {
				t.Error(err)
			}
			(*doc)["created"] = created.Truncate(time.Microsecond) // as PostgreSQL has it
			if data, _ := (*doc)["data"].(map[string]any); data != nil {
				delete(data, "signature")
			}
		})))
	}
	for i, line := range lines {
		value := jsontext.Value(line)
		if err := value.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		lines[i] = string(value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// One document of each kind that its owner declares survives the way from a data directory to PostgreSQL
// and back, and the gateway there knows what it knew: which sessions and runs have ended, which limits
// were raised, and who was seen.
func TestAllThatLastsIsRestored(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs", "batches", "selfservice")
	places := placesOfBackups(t)
	const more = "runs: {enabled: true, idle: 20m, limits: {requests: 5}}\n"
	e := newEstate(t, more)
	open := func(e *estate) { // without a master key, so that this test can write what a gateway writes
		text := string(gatewaytest.ReadFile(t, e.file))
		gatewaytest.WriteFile(t, e.file, strings.Replace(text, "master-key: "+masterKey+", ", "", 1))
	}
	open(e)
	e.start()
	e.key = e.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"team-a"}`, "data/key")
	e.must("admin-token", http.MethodPost, "/api/auth/tokens", `{"name":"ops","role":"OPERATOR"}`, "data/token")
	ended, live := e.signIn(), e.signIn()
	if got := e.with("Cookie", ended, http.MethodDelete, "/api/auth/session", ""); got.Status != http.StatusOK {
		t.Fatalf("the logout: %d %s", got.Status, got.Body)
	}
	for _, run := range []string{"over", "raised"} {
		if got := e.with("X-Router-Run", run, http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); got.Status != http.StatusOK {
			t.Fatalf("run %s: %d %s", run, got.Status, got.Body)
		}
	}
	idOf := func(run string) string {
		return e.must("admin-token", http.MethodGet, "/api/runs?search="+run, "", "data/0/id")
	}
	e.must("admin-token", http.MethodPost, "/api/runs/"+idOf("over")+"/end", "", "")
	e.must("admin-token", http.MethodPost, "/api/runs/"+idOf("raised")+"/raise", `{"requests":2}`, "")
	e.signal(os.Interrupt)
	e.exits(exitOK)
	dataDir := dataDirOf(t, e)
	all := slices.DeleteFunc(gateway.Kept(), func(k store.Kept) bool { return k.Part == "" || len(k.Kinds) == 0 })
	now := time.Now().UTC().Truncate(time.Second)
	for _, kept := range all {
		folder := filepath.Join(dataDir, kept.Folder)
		for _, kind := range append(slices.Clone(kept.Kinds), kept.Passing...) {
			if kept.Read != nil {
				continue // the gateway has written it
			}
			dir, err := durable.Open(folder)
			if err == nil {
				err = documents.WriteFile(dir, documents.Document{Kind: kind, ID: "x-" + kind, Scope: "key/team-a", Created: now, Version: 3, Bytes: 2,
					Data: []byte(`{"until":"2035-01-01T00:00:00Z","at":"2026-01-01T00:00:00Z","key":"x"}`)})
			}
			if err != nil {
				t.Fatal(err)
			}
			if kept.Contents != "" {
				gatewaytest.WriteFile(t, filepath.Join(dataDir, kept.Contents, "x-"+kind), "{}")
			}
		}
	}
	writeOldKeys(t, dataDir, now)
	archive := func(e *estate) string {
		path := filepath.Join(t.TempDir(), "backup.zip")
		verb(t, exitOK, "backup", path, "--config", e.file, "--with", "ledger,batches")
		return path
	}
	first := archive(e)
	before := linesOf(t, first)
	for _, kept := range all {
		for _, kind := range kept.Kinds {
			if !strings.Contains(before, `"kind":"`+kind+`"`) {
				t.Errorf("the backup has no %s: %s", kind, before)
			}
		}
		for _, kind := range kept.Passing {
			if strings.Contains(before, `"kind":"`+kind+`"`) {
				t.Errorf("the backup has a %s", kind)
			}
		}
	}
	subjects := valueOf(t, first, "session/subjects")
	if subjects == "" || valueOf(t, first, "session/key") != "" {
		t.Errorf("the backup has the key of sessions, or not the one of ids of tokens")
	}
	from := first
	for _, place := range []string{"PostgreSQL", "PostgreSQL, where it was", "a data directory"} {
		t.Log(place)
		flags := []string{"restore", from}
		if strings.HasSuffix(place, "it was") {
			flags = append(flags, "--force")
		} else {
			where, _ := places[place]()
			next := newEstate(t, where+more)
			next.key = e.key
			e = next
			open(e)
		}
		verb(t, exitOK, append(flags, "--config", e.file)...)
		restored := from
		from = archive(e)
		compareKinds(t, restored, from)
		seen := "\n" + before
		if after := "\n" + linesOf(t, from); !strings.Contains(withoutPerson(after), withoutPerson(seen)) {
			same(t, withoutPerson(seen), withoutPerson(after))
		}
		if got := valueOf(t, from, "session/subjects"); got != subjects {
			t.Errorf("the key of the ids of tokens is %s, want %s", got, subjects)
		}
		e.start()
		for name, cookie := range map[string]string{"ended": ended, "live": live} {
			if got := e.with("Cookie", cookie, http.MethodGet, "/api/auth/me", ""); got.Status != http.StatusUnauthorized {
				t.Errorf("the session that was %s: %d %s", name, got.Status, got.Body)
			}
		}
		for name, key := range map[string]string{"seen yesterday": "key-seen", "never seen": "key-unseen"} {
			if got := e.as(key, http.MethodGet, "/v1/models", ""); got.Status != http.StatusOK {
				t.Errorf("the key of an owner who was %s: %d %s", name, got.Status, got.Body)
			}
		}
		gatewaytest.Eventually(t, "the run that an operator ended is refused", func() bool {
			got := e.with("X-Router-Run", "over", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi)
			return got.Status == http.StatusBadRequest && strings.Contains(got.Body, "run_ended")
		})
		e.with("X-Router-Run", "raised", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi)
		gatewaytest.Eventually(t, "the limit that an operator raised holds", func() bool {
			runs := e.must("admin-token", http.MethodGet, "/api/runs?search=raised", "", "")
			return strings.Contains(strings.ReplaceAll(runs, " ", ""), `"requests":7`)
		})
		e.signal(os.Interrupt)
		e.exits(exitOK)
	}
}

// withoutPerson removes the documents about people whom a restore counts as seen then.
func withoutPerson(lines string) string {
	var kept []string
	for line := range strings.Lines(lines) {
		if !strings.Contains(line, "never-seen") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func dataDirOf(t *testing.T, e *estate) string {
	t.Helper()
	text := string(gatewaytest.ReadFile(t, e.file))
	_, text, _ = strings.Cut(text, `data-dir: "`)
	dir, _, _ := strings.Cut(text, `"`)
	return dir
}

// valueOf returns a value of an archive, empty if there is none.
func valueOf(t *testing.T, archive, name string) string {
	t.Helper()
	var values map[string]struct{ Value jsontext.Value }
	if err := json.Unmarshal(unzip(t, archive)["values.json"], &values, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	return string(values[name].Value)
}

// writeOldKeys writes two keys of forty days ago that people made for themselves, one of whom was seen
// yesterday, while nothing is known of the other.
func writeOldKeys(t *testing.T, dataDir string, now time.Time) {
	t.Helper()
	path := filepath.Join(dataDir, "keys.json")
	gatewaytest.WriteFile(t, path, string(edited(t, gatewaytest.ReadFile(t, path), func(file *map[string]map[string]any) {
		for _, name := range []string{"seen", "unseen"} {
			(*file)["values"]["key/"+name] = map[string]any{
				"id": name, "tenant": "", "keySha256": gatewaytest.HashOf("key-" + name), "services": []string{}, "models": []string{}, "expiresAt": "",
				"createdAt": now.Add(-40 * 24 * time.Hour), "createdBy": name,
				"owner": map[string]string{"issuer": "https://issuer.example", "subject": map[string]string{"seen": "seen", "unseen": "never-seen"}[name]},
			}
		}
	})))
	doc, err := sessions.SeenAt("https://issuer.example", "seen", "Sara", now.Add(-24*time.Hour))
	if err == nil {
		err = documents.WriteFile(durable.At(filepath.Join(dataDir, sessions.Folder)), doc)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What a place knows as revoked or rotated stays so when a backup from before is restored there. What was
// revoked elsewhere comes back. Documents of other kinds stay where they are.
func TestARestoreKeepsWhatThePlaceKnowsAsEnded(t *testing.T) {
	t.Parallel()
	places := placesOfBackups(t)
	for _, place := range []string{"a data directory", "PostgreSQL"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			more, _ := places[place]()
			e := newEstate(t, more)
			e.start()
			const admin = "admin-token"
			keys := map[string]string{}
			for _, id := range []string{"kept", "revoked", "rotated", "again"} {
				keys[id] = e.must(admin, http.MethodPost, "/api/auth/keys", `{"id":"`+id+`"}`, "data/key")
			}
			token := e.must(admin, http.MethodPost, "/api/auth/tokens", `{"name":"ops","role":"OPERATOR"}`, "data/token")
			file := filepath.Join(t.TempDir(), "backup.zip")
			if said := verb(t, exitOK, "backup", file, "--config", e.file); !strings.Contains(said, "signed") {
				t.Errorf("it says %s", said)
			}
			e.must(admin, http.MethodDelete, "/api/auth/keys/revoked", "", "")
			e.must(admin, http.MethodDelete, "/api/auth/tokens/ops", "", "")
			rotated := e.must(admin, http.MethodPost, "/api/auth/keys/rotated/rotate", `{"overlap":"0s"}`, "data/key")
			e.must(admin, http.MethodDelete, "/api/auth/keys/again", "", "")
			again := e.must(admin, http.MethodPost, "/api/auth/keys", `{"id":"again"}`, "data/key")
			cookie := e.signIn()
			if got := e.with("Cookie", cookie, http.MethodDelete, "/api/auth/session", ""); got.Status != http.StatusOK {
				t.Fatalf("the logout: %d %s", got.Status, got.Body)
			}
			e.signal(os.Interrupt)
			e.exits(exitOK)
			address := ""
			if _, rest, isShared := strings.Cut(more, `store: {config: "`); isShared {
				address, _, _ = strings.Cut(rest, `"`)
				addDocuments(t, address, "alert", "session")
			}
			said := verb(t, exitOK, "restore", file, "--config", e.file, "--force")
			if !strings.Contains(said, "revoked elsewhere") || strings.Contains(said, "NOT signed") {
				t.Errorf("it says %s", said)
			}
			if address != "" {
				if got := kindsIn(t, address); got["session-end"] == 0 || got["alert"] == 0 || got["session"] != 0 {
					t.Errorf("the documents are %v", got)
				}
			}
			e.start()
			for _, test := range []struct {
				name, bearer, path string
				want               int
			}{
				{"a key that nobody revoked", keys["kept"], "/v1/models", http.StatusOK},
				{"a key that was revoked here", keys["revoked"], "/v1/models", http.StatusUnauthorized},
				{"the text before a rotation here", keys["rotated"], "/v1/models", http.StatusUnauthorized},
				{"the text of a rotation here", rotated, "/v1/models", http.StatusOK},
				{"an earlier key of the same name", keys["again"], "/v1/models", http.StatusUnauthorized},
				{"the later key of that name", again, "/v1/models", http.StatusOK},
				{"a token that was revoked here", token, "/api/config/version", http.StatusUnauthorized},
			} {
				if got := e.as(test.bearer, http.MethodGet, test.path, ""); got.Status != test.want {
					t.Errorf("%s: %d, want %d: %s", test.name, got.Status, test.want, got.Body)
				}
			}
			if got := e.with("Cookie", cookie, http.MethodGet, "/api/auth/me", ""); got.Status != http.StatusUnauthorized {
				t.Errorf("the session that was ended: %d %s", got.Status, got.Body)
			}
			e.kill()
			next := newEstate(t, "")
			verb(t, exitOK, "restore", file, "--config", next.file)
			next.start()
			next.must(keys["revoked"], http.MethodGet, "/v1/models", "", "")
		})
	}
}

// addDocuments adds a document of some kinds to a database.
func addDocuments(t *testing.T, address string, kinds ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, kind := range kinds {
		if _, err := conn.Exec(t.Context(), `INSERT INTO patchbay_documents (kind, id, scope, created, is_open, bytes, version, changed, data)
			VALUES ($1, $2, '', now(), false, 0, 1, now(), '{}')`, kind, rand.Text()); err != nil {
			t.Fatal(err)
		}
	}
}

// kindsIn counts the documents of a database by their kinds.
func kindsIn(t *testing.T, address string) map[string]int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "SELECT kind, count(*)::int FROM patchbay_documents GROUP BY kind")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	var kind string
	var count int
	if _, err := pgx.ForEachRow(rows, []any{&kind, &count}, func() error { found[kind] = count; return nil }); err != nil {
		t.Fatal(err)
	}
	return maps.Clone(found)
}

// The documented backup of everything works with a cluster that has neither files nor batches, and says
// what it left out. A data directory that is named beside such a configuration is not all there is.
func TestABackupSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	more, _ := placesOfBackups(t)["PostgreSQL"]()
	store, _, _ := strings.Cut(more, "\n")
	e := newEstate(t, store+"\n")
	gatewaytest.WriteFile(t, e.file, strings.Replace(string(gatewaytest.ReadFile(t, e.file)), "batches: {enabled: true}", "batches: {enabled: false}", 1))
	e.start()
	file := filepath.Join(t.TempDir(), "before.zip")
	said := verb(t, exitOK, "backup", file, "--config", e.file, "--with", "ledger,files,batches")
	if !strings.Contains(said, "left out: files and batches: files.folder is not set") || strings.Contains(said, "0 files") {
		t.Errorf("it says %s", said)
	}
	said = verb(t, exitOK, "backup", filepath.Join(t.TempDir(), "dir.zip"), "--config", e.file, "--data-dir", dataDirOf(t, e))
	if !strings.Contains(said, "warning: --data-dir leaves out store.config") {
		t.Errorf("it says %s", said)
	}
	e.signal(os.Interrupt)
	e.exits(exitOK)
	verb(t, exitOK, "restore", file, "--config", e.file, "--force")
	if said := verb(t, exitFailed, "restore", file, "--config", e.file, "--force", "--with", "files"); !strings.Contains(said, "has no files") {
		t.Errorf("it says %s", said)
	}
}

// compareKinds compares what two archives have of each declared kind, apart from documents. Every kind of
// which a gateway without a master key has something must be there.
func compareKinds(t *testing.T, before, after string) {
	t.Helper()
	of := func(archive string) map[string]string {
		kinds, files := map[string]string{}, unzip(t, archive)
		var values map[string]struct{ Value jsontext.Value }
		if err := json.Unmarshal(files["values.json"], &values, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			for _, k := range gateway.Kept() {
				for _, begin := range k.Values {
					if strings.HasPrefix(name, begin) {
						kinds[begin] += name + " " + string(values[name].Value) + "\n"
					}
				}
			}
		}
		rows := slices.Sorted(strings.Lines(string(files["ledger.jsonl"])))
		kinds["ledger"] = strings.Join(rows, "")
		for _, name := range slices.Sorted(maps.Keys(files)) {
			folder, _, _ := strings.Cut(name, "/")
			if folder != "documents.jsonl" && folder != "values.json" && folder != "ledger.jsonl" && folder != "manifest.json" && !strings.Contains(name, "current.") && !strings.HasSuffix(name, ".sig") {
				kinds[folder] += name + " " + string(files[name]) + "\n"
			}
		}
		return kinds
	}
	was, is := of(before), of(after)
	for _, kind := range []string{"versions", "contents", "ledger", "key/", "token/", "session/subjects"} {
		if was[kind] == "" {
			t.Errorf("the backup has nothing of the kind %s", kind)
		}
	}
	for kind := range was {
		same(t, kind+"\n"+was[kind], kind+"\n"+is[kind])
	}
}
