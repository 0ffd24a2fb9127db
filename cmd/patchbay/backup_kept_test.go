// This file belongs to the wing backup.

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/gateway"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/redis"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/wings/backup"
)

// declared returns the declarations of all stored data.
func declared() []store.Kept { return slices.Concat(gateway.Kept(), backup.Kept()) }

// Every declaration is whole, and no two declare the same place.
func TestDeclarationsAreWhole(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, k := range declared() {
		if k.Name == "" || k.Ends == "" || (k.Part == "") == (k.Without == "") {
			t.Errorf("%+v: want a name, an end, and either a part of the backup or the reason why it is in none", k)
		}
		if (k.Read == nil) != (k.Write == nil) || k.Read != nil && (len(k.Files) == 0 || k.Folder != "") {
			t.Errorf("%s: want a file in place of a folder that is read and written, or neither", k.Name)
		}
		for what, names := range map[string][]string{"file": k.Files, "table": k.Tables, "value": k.Values, "key in Redis": k.Redis, "kind": append(slices.Clone(k.Kinds), k.Passing...)} {
			for _, name := range names {
				if other := seen[what+" "+name]; other != "" {
					t.Errorf("the %s %s is declared by %q and by %q", what, name, other, k.Name)
				}
				seen[what+" "+name] = k.Name
			}
		}
	}
}

// The page lists what is declared.
func TestTheBackupPageListsWhatIsStored(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "alerts", "answercache", "answers", "audit", "batches", "callsearch", "runs")
	const page, begin, head = "../../docs/backup.md", "Names in Redis begin with the value of the setting.\n\n", "| what | where |"
	text := string(gatewaytest.ReadFile(t, page))
	before, rest, isThere := strings.Cut(text, begin)
	if !isThere || !strings.HasPrefix(rest, head) {
		t.Fatalf("%s has no place for the table", page)
	}
	after := rest
	for strings.HasPrefix(after, "|") {
		_, after, _ = strings.Cut(after, "\n")
	}
	want := before + begin + tableOf(declared()) + after
	if os.Getenv("UPDATE") != "" {
		gatewaytest.WriteFile(t, page, want)
	} else if text != want {
		t.Errorf("%s does not list what is declared; UPDATE=1 go test ./cmd/patchbay -run TestTheBackupPageListsWhatIsStored writes it", page)
	}
}

// tableOf returns the table of stored data: what backups have, and then the rest.
func tableOf(all []store.Kept) string {
	var table strings.Builder
	table.WriteString("| what | where | in a backup | at most | until |\n|---|---|---|---|---|\n")
	for _, travels := range []bool{true, false} {
		for _, k := range all {
			if (k.Part != "") != travels {
				continue
			}
			name, part := k.Name, "no: "+k.Without
			if k.IsSecret {
				name += " (secret)"
			}
			switch k.Part {
			case "":
			case store.Configuration:
				part = "always"
			default:
				part = fmt.Sprintf("`--with %s`", k.Part)
			}
			if len(k.Passing) > 0 {
				part += ", without `" + strings.Join(k.Passing, "`, `") + "`"
			}
			bound := k.Bound
			if k.Yields {
				bound = strings.TrimPrefix(bound+", and `files.reserve` of the disk", ", ")
			}
			fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", name, placesOf(k), part, bound, k.Ends)
		}
	}
	return table.String()
}

func placesOf(k store.Kept) string {
	var places []string
	add := func(what string, names ...string) {
		if names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" }); len(names) > 0 {
			places = append(places, what+"`"+strings.Join(names, "`, `")+"`")
		}
	}
	add("", append(slices.Clone(k.Files), k.Folder, k.Contents)...)
	add("tables ", k.Tables...)
	add("values ", k.Values...)
	add("documents ", append(slices.Clone(k.Kinds), k.Passing...)...)
	add("Redis ", k.Redis...)
	return strings.Join(places, "; ")
}

// unmade are declared places that TestWhatIsStoredIsDeclared does not fill, with the reason.
var unmade = map[string]string{
	"restoring":                 "is there in the middle of a restore only",
	"unconfirmed.json":          "TestAConfirmationEnablesWhatItsRestoreWrote",
	"restore/unconfirmed":       "TestAConfirmationEnablesWhatItsRestoreWrote",
	"replaced-*/":               "TestARestoreThatFailsChangesNothing",
	"batches/replaced-*/":       "TestARestoreThatFailsChangesNothing",
	"redis.key-prefix:{fleet}:": "several gateways exchange news",
	"sealed/":                   "is there with a master key only",
	"keys.sealed.json":          "is there with a master key only",
	"session/subjects":          "a restore makes it",
	"team/":                     "people of a provider have them",
	"person":                    "people of a provider",
	"removed-key":               "a week passes",
	"alert":                     "an alert",
	"run":                       "TestAllThatLastsIsRestored",
	"runs.json":                 "TestAllThatLastsIsRestored",
}

// What a gateway with everything turned on has left in its data directory, in PostgreSQL and in Redis is
// declared, and what is declared is left.
func TestWhatIsStoredIsDeclared(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "alerts", "answercache", "answers", "audit", "batches", "callsearch", "runs")
	server := storetest.Redis(t)
	database, _ := placesOfBackups(t)["PostgreSQL"]()
	const more = "monitoring: {calls-file: {enabled: true}}\nalerts: {webhooks: {ops: {url: 'http://127.0.0.1:9/'}}}\nruns: {enabled: true}\n"
	found := map[string]bool{}
	check := func(what, name string, matches func(declared string) bool, of func(k store.Kept) []string) {
		isDeclared := false
		for _, k := range declared() {
			for _, declared := range of(k) {
				if matches(declared) {
					isDeclared, found[declared] = true, true
				}
			}
		}
		if !isDeclared {
			t.Errorf("the %s %s is not declared", what, name)
		}
	}
	begins := func(name string) func(string) bool {
		return func(declared string) bool { return strings.HasPrefix(name, declared) }
	}
	look := func(dataDir, folder string) {
		entries, err := os.ReadDir(filepath.Join(dataDir, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := folder + entry.Name()
			if entry.IsDir() {
				if name += "/"; name == store.Shared {
					continue
				}
			}
			check("file", name, func(declared string) bool {
				is, _ := path.Match(strings.TrimSuffix(declared, "/"), strings.TrimSuffix(name, "/"))
				return is && strings.HasSuffix(declared, "/") == entry.IsDir()
			}, func(k store.Kept) []string { return append(k.Names(), k.Files...) })
		}
	}
	for _, place := range []string{"", database + fmt.Sprintf("redis: {url: %q}\nquota: {enabled: true, distributed: {enabled: true}}\nresponses: {shared: true}\nanswer-cache: {services: [chat], shared: true}\n", server.URL)} {
		e := newEstate(t, more)
		text := strings.Replace(string(gatewaytest.ReadFile(t, e.file)), "master-key: "+masterKey+", ", "", 1)
		if place != "" {
			text = strings.Replace(text, "quota: {enabled: true, flush-interval-seconds: 3600}\n", "", 1)
		}
		gatewaytest.WriteFile(t, e.file, text+place)
		e.start()
		e.fill()
		e.with("Cookie", e.signIn(), http.MethodDelete, "/api/auth/session", "")
		e.signIn()
		e.with("X-Router-Run", "one", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi)
		e.must(e.key, http.MethodPost, "/v1/chat/completions", `{"model":"m","temperature":0,"messages":[{"role":"user","content":"hi"}]}`, "")
		e.must(e.key, http.MethodPost, "/v1/responses", `{"model":"m","input":"hi"}`, "")
		instance, _ := gatewaytest.At(t, any(gatewaytest.DecodeObject(t, e.must("admin-token", http.MethodGet, "/api/config/instance/type/chat", "", ""))), "data/0/instanceId").(string)
		e.must("admin-token", http.MethodPost, "/api/config/instance/circuit-breaker/chat", fmt.Sprintf(`{"instanceId":%q,"state":"OPEN"}`, instance), "")
		e.must("admin-token", http.MethodPost, "/api/config/merge/backup", "", "")
		dataDir := dataDirOf(t, e)
		look(dataDir, "")
		if place == "" {
			look(dataDir, store.Shared)
			for _, k := range declared() {
				if k.Folder == "" {
					continue
				}
				files, _ := filepath.Glob(filepath.Join(dataDir, k.Folder, "*.*.json"))
				for _, file := range files {
					kind, _, _ := strings.Cut(filepath.Base(file), ".")
					check("kind", kind, func(declared string) bool { return declared == kind }, func(k store.Kept) []string { return append(slices.Clone(k.Kinds), k.Passing...) })
				}
			}
			e.kill()
			continue
		}
		_, rest, _ := strings.Cut(place, `store: {config: "`)
		address, _, _ := strings.Cut(rest, `"`)
		for query, what := range map[string]struct {
			name string
			of   func(k store.Kept) []string
		}{
			"SELECT tablename FROM pg_tables WHERE schemaname = 'public'": {"table", func(k store.Kept) []string { return k.Tables }},
			"SELECT name FROM patchbay_config_values":                     {"value", func(k store.Kept) []string { return k.Values }},
			"SELECT DISTINCT kind FROM patchbay_documents":                {"kind", func(k store.Kept) []string { return append(slices.Clone(k.Kinds), k.Passing...) }},
		} {
			for _, name := range column(t, address, query) {
				matches := begins(name)
				if name == "patchbay_documents" {
					continue // each kind of documents is declared
				}
				if what.name != "value" {
					matches = func(declared string) bool { return declared == name }
				}
				check(what.name, name, matches, what.of)
			}
		}
		client, err := redis.Connect(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		keys, err := client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice()
		if err != nil || len(keys) == 0 {
			t.Errorf("Redis has %v, %v", keys, err)
		}
		named := strings.NewReplacer("quota.distributed.key-prefix", "patchbay:quota", "redis.key-prefix", "patchbay")
		for _, key := range keys {
			check("key in Redis", key, func(declared string) bool { return strings.HasPrefix(key, named.Replace(declared)) }, func(k store.Kept) []string { return k.Redis })
		}
		e.kill()
	}
	for _, k := range declared() {
		for _, name := range slices.Concat(k.Names(), k.Files, k.Tables, k.Values, k.Redis, k.Kinds, k.Passing) {
			if _, isKnown := unmade[name]; !found[name] && !isKnown {
				t.Errorf("%s: nothing is stored in %s", k.Name, name)
			}
		}
	}
}

// column returns the texts that a query finds.
func column(t *testing.T, address, query string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}
