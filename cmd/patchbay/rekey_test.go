// This file belongs to the wing backup.

package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

const laterMasterKey = "another master key of thirty-two characters"

// setKeys changes the master keys in the configuration of a gateway.
func (e *estate) setKeys(current, previous string) {
	e.t.Helper()
	text := string(gatewaytest.ReadFile(e.t, e.file))
	before, rest, _ := strings.Cut(text, "security: {")
	_, rest, _ = strings.Cut(rest, "enabled: true, ")
	_, rest, _ = strings.Cut(rest, "tokens: ")
	keys := ""
	if current != "" {
		keys += "master-key: " + current + ", "
	}
	if previous != "" {
		keys += "previous-master-key: " + previous + ", "
	}
	gatewaytest.WriteFile(e.t, e.file, before+"security: {enabled: true, "+keys+"tokens: "+rest)
}

// idOf returns the id of a master key.
func idOf(t *testing.T, key string) string {
	t.Helper()
	keys, err := seal.New(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return keys.ID()
}

// filesBelow returns the content of all files below a folder.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			found[path] = string(gatewaytest.ReadFile(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// dumpOf returns everything in a database and in Redis that has a signature or is sealed.
func dumpOf(t *testing.T, database, address string) string {
	t.Helper()
	var all strings.Builder
	if database != "" {
		for _, query := range []string{
			"SELECT record FROM patchbay_config_versions ORDER BY 1", "SELECT name || ' ' || signature FROM patchbay_config_signatures ORDER BY 1",
			"SELECT name || ' ' || value FROM patchbay_config_values ORDER BY 1", "SELECT data FROM patchbay_documents ORDER BY 1", "SELECT mark FROM patchbay_format",
		} {
			fmt.Fprintln(&all, strings.Join(column(t, database, query), "\n"))
		}
	}
	client, err := redis.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if strings.Contains(key, ":answer-cache:") || strings.Contains(key, ":{tally}:") {
			continue // what cannot be read any more ends, and nothing of the others is signed
		}
		text, _ := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
		fields, _ := client.Do(t.Context(), client.B().Hgetall().Key(key).Build()).AsStrMap()
		fmt.Fprintln(&all, key, text, fields)
	}
	return all.String()
}

// A gateway with something of everything has its first master key, and another one after that: nothing is lost,
// nothing has the key before, and until then it does not start and changes nothing.
func TestTheMasterKeyIsTurnedOnAndRotated(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answercache", "answers", "audit", "batches", "callsearch", "runs")
	for place, open := range placesOfBackups(t) {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			more, _ := open()
			database := ""
			if _, rest, has := strings.Cut(more, `store: {config: "`); has {
				database, _, _ = strings.Cut(rest, `"`)
			}
			more += fmt.Sprintf("redis: {url: %q}\nresponses: {shared: true}\nmonitoring: {calls-file: {enabled: true}}\nruns: {enabled: true}\n", server.URL)
			e := newEstate(t, more)
			text := string(gatewaytest.ReadFile(t, e.file))
			gatewaytest.WriteFile(t, e.file, strings.Replace(text, "quota: {enabled: true, ", "quota: {enabled: true, distributed: {enabled: true}, ", 1))
			e.setKeys("", "")
			e.start()
			e.fill()
			e.signIn()
			kept := e.must(e.key, http.MethodPost, "/v1/responses", `{"model":"m","input":"hi"}`, "id")
			if got := e.with("X-Router-Run", "one", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); got.Status != http.StatusOK {
				t.Fatalf("the run: %d %s", got.Status, got.Body)
			}
			inventory := func() string {
				return e.inventory("activations", "activatedAt", "activatedBy") + e.must(e.key, http.MethodGet, "/v1/responses/"+kept, "", "")
			}
			before := inventory()
			dir := dataDirOf(t, e)
			said := ""
			rekeys := func() {
				gatewaytest.Eventually(t, "the key is replaced", func() bool { // a gateway that was killed counts as running for a while
					code, stdout, stderr := runFor(t, "rekey", "--config", e.file)
					said = stdout + stderr
					return code == exitOK || !strings.Contains(said, "gateways run on this database") && t.Failed()
				})
			}
			for _, keys := range [][2]string{{masterKey, ""}, {laterMasterKey, masterKey}} {
				e.setKeys(keys[0], keys[1])
				want := "a gateway runs there"
				if database != "" {
					want = "in use"
				}
				if said := verb(t, exitFailed, "rekey", "--config", e.file); !strings.Contains(said, want) && !strings.Contains(said, "a gateway runs there") {
					t.Errorf("while the gateway runs rekey says %s", said)
				}
				e.kill()
				found, dump := filesBelow(t, dir), dumpOf(t, database, server.URL)
				e.setKeys(keys[0], "")
				if said := verb(t, exitConfig, "serve", "--config", e.file, "--listen", "127.0.0.1:0"); !strings.Contains(said, "patchbay rekey") {
					t.Errorf("serve says %s", said)
				}
				e.setKeys(keys[0], "a wrong master key of thirty-two characters")
				if said := verb(t, exitConfig, "rekey", "--config", e.file); !strings.Contains(said, "security.previous-master-key must be that key") {
					t.Errorf("with a wrong old key rekey says %s", said)
				}
				if !maps.Equal(found, filesBelow(t, dir)) || dump != dumpOf(t, database, server.URL) {
					t.Error("what is not signed was changed")
				}
				e.setKeys(keys[0], keys[1])
				rekeys()
				if !strings.Contains(said, "signed with the master key "+idOf(t, keys[0])) || !strings.Contains(said, "files of clients and results of batches: ") ||
					!strings.Contains(said, "kept responses: ") {
					t.Errorf("rekey says %s", said)
				}
				if rekeys(); !strings.Contains(said, "was signed with it before") {
					t.Errorf("again it says %s", said)
				}
				if keys[1] != "" {
					old := idOf(t, keys[1])
					for path, content := range filesBelow(t, filepath.Dir(dir)) {
						if strings.Contains(content, old) {
							t.Errorf("%s has the key before", path)
						}
					}
					if dump := dumpOf(t, database, server.URL); strings.Contains(dump, old) {
						t.Errorf("the key before is in %s", dump)
					}
				}
				e.setKeys(keys[0], "")
				e.start()
				e.done(e.openID, 1, "in_progress")
				same(t, before, inventory())
				if strings.Contains(e.stderr.String(), "refused") {
					t.Errorf("the gateway refuses something: %s", e.stderr.String())
				}
				if said := verb(t, exitOK, "audit", "verify", "--config", e.file); strings.Contains(said, "another key") {
					t.Errorf("the audit: %s", said)
				}
			}
		})
	}
}

// A rekey that is killed again and again is finished by the next one, and no gateway starts in between.
func TestARekeyThatIsKilledIsFinished(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "audit", "batches")
	e := newEstate(t, "monitoring: {calls-file: {enabled: true}}\n")
	e.start()
	e.fill()
	before := e.inventory()
	e.kill()
	e.setKeys(laterMasterKey, masterKey)
	dir, id := dataDirOf(t, e), idOf(t, laterMasterKey)
	isKilled := 0
	for _, pattern := range []string{"format.json", "versions/*.sig", "versions/*.json", "keys.sealed.json", "batches/*/*", "batches/*/*/*", "audit/signing.key"} {
		c := startChild(t, "rekey", "--config", e.file)
		gatewaytest.Eventually(t, pattern+" has the new key", func() bool {
			select {
			case <-c.exited:
				return true
			default:
			}
			paths, _ := filepath.Glob(filepath.Join(dir, pattern))
			for _, path := range paths {
				if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), id) {
					return true
				}
			}
			return false
		})
		c.kill()
		if strings.Contains(string(gatewaytest.ReadFile(t, filepath.Join(dir, "format.json"))), `"next"`) {
			isKilled++
			if said := verb(t, exitConfig, "serve", "--config", e.file, "--listen", "127.0.0.1:0"); !strings.Contains(said, "run it again") {
				t.Errorf("serve says %s", said)
			}
		}
	}
	if isKilled < 2 {
		t.Errorf("%d were killed in the middle", isKilled)
	}
	verb(t, exitOK, "rekey", "--config", e.file)
	e.setKeys(laterMasterKey, "")
	e.start()
	e.done(e.openID, 1, "in_progress")
	same(t, before, e.inventory())
}

// What neither key has signed is named, and stays as it is.
func TestARekeyBlessesNothing(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	e.start()
	const admin = "admin-token"
	e.must(admin, http.MethodPost, "/api/auth/keys", `{"id":"good"}`, "")
	e.must(admin, http.MethodPost, "/api/auth/keys", `{"id":"forged"}`, "")
	e.must(admin, http.MethodPost, gatewaytest.AddInstancePath+"chat", fmt.Sprintf(`{"name":"added","baseUrl":%q}`, e.backend.URL()), "")
	e.signIn()
	e.signal(os.Interrupt)
	e.exits(exitOK)
	dir := dataDirOf(t, e)
	sessions, _ := filepath.Glob(filepath.Join(dir, "sessions", "*"))
	if len(sessions) == 0 {
		t.Fatal("there is no document")
	}
	saved := filepath.Join(t.TempDir(), "before.zip")
	verb(t, exitOK, "backup", saved, "--config", e.file)
	forge := map[string][2]string{
		filepath.Join(dir, "keys.json"):                 {`"createdBy": "a"`, `"createdBy": "b"`},
		filepath.Join(dir, "versions", "00000001.json"): {`"name": "held"`, `"name": "heldx"`},
		sessions[0]: {`"scope":"`, `"scope":"x`},
	}
	forged := map[string]string{}
	for path, change := range forge {
		text := string(gatewaytest.ReadFile(t, path))
		forged[path] = strings.Replace(text, change[0], change[1], 1)
		if forged[path] == text {
			t.Fatalf("%s has no %s: %s", path, change[0], text)
		}
		gatewaytest.WriteFile(t, path, forged[path])
	}
	signature := string(gatewaytest.ReadFile(t, filepath.Join(dir, "versions", "00000001.sig")))
	e.setKeys(laterMasterKey, masterKey)
	for range 2 {
		said := verb(t, exitFailed, "rekey", "--config", e.file)
		for _, part := range []string{"3 records are signed with neither key", "key/forged", "version 1", strings.SplitN(filepath.Base(sessions[0]), ".", 2)[0] + " "} {
			if !strings.Contains(said, part) {
				t.Errorf("no %q in %s", part, said)
			}
		}
	}
	for path, text := range forged {
		if got := string(gatewaytest.ReadFile(t, path)); got != text && filepath.Base(path) != "keys.json" {
			t.Errorf("%s is changed: %s", path, got)
		}
	}
	if got := string(gatewaytest.ReadFile(t, filepath.Join(dir, "versions", "00000001.sig"))); got != signature {
		t.Errorf("the forged version is signed: %s", got)
	}
	verb(t, exitConfig, "serve", "--config", e.file, "--listen", "127.0.0.1:0")

	// The remedies that it names: the record is removed, and the others are restored.
	if err := os.Remove(sessions[0]); err != nil {
		t.Fatal(err)
	}
	verb(t, exitOK, "restore", saved, "--force", "--config", e.file)
	if said := verb(t, exitOK, "rekey", "--config", e.file); !strings.Contains(said, "replaced-") {
		t.Errorf("got no name of what the restore replaced in %s", said)
	}
	e.setKeys(laterMasterKey, "")
	e.start()
	e.must(admin, http.MethodGet, "/api/auth/keys", "", "")
	e.signal(os.Interrupt)
	e.exits(exitOK)
}

// A rekey that cannot go on is taken back with the keys exchanged.
func TestARekeyIsTakenBack(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	e.start()
	e.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"good"}`, "")
	e.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"forged"}`, "")
	e.signal(os.Interrupt)
	e.exits(exitOK)
	path := filepath.Join(dataDirOf(t, e), "keys.json")
	good := string(gatewaytest.ReadFile(t, path))
	gatewaytest.WriteFile(t, path, strings.Replace(good, `"createdBy": "a"`, `"createdBy": "b"`, 1))
	e.setKeys(laterMasterKey, masterKey)
	verb(t, exitFailed, "rekey", "--config", e.file)
	gatewaytest.WriteFile(t, path, good)
	e.setKeys(masterKey, laterMasterKey)
	verb(t, exitOK, "rekey", "--config", e.file)
	e.setKeys(masterKey, "")
	e.start()
	e.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"another"}`, "")
}

// A mark that somebody changed makes no rekey sign what lies there.
func TestAChangedMarkBlessesNothing(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	e.start()
	e.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"k"}`, "")
	e.signal(os.Interrupt)
	e.exits(exitOK)
	dir := dataDirOf(t, e)
	for _, text := range []string{`{"format":1}`, `{"format":1,"next":"` + idOf(t, masterKey) + `"}`} {
		gatewaytest.WriteFile(t, filepath.Join(dir, "format.json"), text)
		before := filesBelow(t, dir)
		if said := verb(t, exitConfig, "rekey", "--config", e.file); !strings.Contains(said, "restore a backup") &&
			!strings.Contains(said, "Restore a backup") {
			t.Errorf("with the mark %s: got no remedy in %s", text, said)
		}
		if after := filesBelow(t, dir); !maps.Equal(after, before) {
			t.Errorf("with the mark %s: rekey changed files", text)
		}
		verb(t, exitConfig, "serve", "--config", e.file, "--listen", "127.0.0.1:0")
	}
}

// Data of a program before the mark is refused by every verb, and stays as it is.
func TestDataWithoutAMarkIsRefused(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", masterKey} {
		e := newEstate(t, "")
		e.setKeys(key, "")
		e.start()
		e.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"k"}`, "")
		e.signal(os.Interrupt)
		e.exits(exitOK)
		dir := dataDirOf(t, e)
		if err := os.Remove(filepath.Join(dir, "format.json")); err != nil {
			t.Fatal(err)
		}
		before := filesBelow(t, dir)
		for _, args := range [][]string{
			{"serve", "--listen", "127.0.0.1:0"}, {"keys", "create", "x"}, {"rekey"}, {"backup", filepath.Join(t.TempDir(), "b.zip")}, {"restore", "--confirm"},
		} {
			if key == "" && args[len(args)-1] == "--confirm" {
				continue // there is nothing to confirm without a key
			}
			want := exitConfig
			if key == "" && args[0] == "rekey" {
				want = exitFailed
			}
			if said := verb(t, want, append(args, "--config", e.file)...); want == exitConfig && !strings.Contains(said, "has versions and no mark") {
				t.Errorf("%v says %s", args, said)
			}
		}
		if !maps.Equal(before, filesBelow(t, dir)) {
			t.Error("it was changed")
		}
	}
}

// A backup that the previous master key has signed is restored, and signed anew.
func TestABackupOfThePreviousKeyIsRestored(t *testing.T) {
	t.Parallel()
	places := placesOfBackups(t)
	for _, to := range []string{"a data directory", "PostgreSQL"} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			e := newEstate(t, "")
			e.start()
			e.fill()
			before := e.inventory("activations", "activatedAt", "activatedBy")
			file := filepath.Join(t.TempDir(), "backup.zip")
			verb(t, exitOK, "backup", file, "--config", e.file, "--with", "ledger,batches")
			e.kill()
			more, _ := places[to]()
			next := newEstate(t, more)
			next.backend, next.held, next.key, next.output = e.backend, e.held, e.key, e.output
			next.setKeys(laterMasterKey, masterKey)
			if said := verb(t, exitOK, "restore", file, "--config", next.file); strings.Contains(said, "left out") {
				t.Errorf("it says %s", said)
			}
			next.setKeys(laterMasterKey, "")
			next.start()
			next.done(e.openID, 1, "in_progress")
			same(t, before, next.inventory("activations", "activatedAt", "activatedBy"))
		})
	}
}

// The commands of the page turn signing on for what is stored.
func TestTheRekeyPage(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	c := serving(t, "--data-dir", filepath.Join(s.dir, "data"))
	c.signal(os.Interrupt)
	c.exits(exitOK)
	for _, commands := range commandsOf(t, "docs/backup.md", "test=TestTheRekeyPage") {
		if output := s.run(commands); !strings.Contains(output, "signed with the master key ") {
			t.Errorf("the commands write %s", output)
		}
	}
}

// A version with a setting of a newer program is not taken for something else: the gateway names what it cannot
// read, and takes the newest version that it can.
func TestWhatANewerGatewayStoredIsNotMisread(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	e.setKeys("", "")
	e.start()
	for _, strategy := range []string{"random", "round_robin"} {
		e.must("admin-token", http.MethodPut, gatewaytest.TypesPath+"chat", `{"loadBalancer":"`+strategy+`"}`, "")
	}
	e.must("admin-token", http.MethodPost, "/api/config/version/rollback/2", "", "")
	e.kill()
	path := filepath.Join(dataDirOf(t, e), "versions", "00000002.json")
	content := string(gatewaytest.ReadFile(t, path))
	changed := strings.Replace(content, `"loadBalancer": `, `"settingOfTheFuture": 1, "loadBalancer": `, 1)
	if changed == content {
		t.Fatalf("the version has another form: %s", content)
	}
	gatewaytest.WriteFile(t, path, changed)
	e.start()
	for _, parts := range [][]string{{"a stored version cannot be used", `"version":2`, "settingOfTheFuture"}, {"another version takes its place", `"version":3`}} {
		if gatewaytest.CountLines(e.stderr.String(), parts...) != 1 {
			t.Errorf("it does not say %q", parts)
		}
	}
}
