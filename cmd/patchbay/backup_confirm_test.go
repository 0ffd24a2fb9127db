// This file belongs to the wing backup.

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
)

// unsignedFiles returns an archive without any signature, of its documents as well.
func unsignedFiles(t *testing.T, files map[string][]byte, thief string) map[string][]byte {
	t.Helper()
	files = maps.Clone(files)
	var lines strings.Builder
	for line := range strings.Lines(string(files["documents.jsonl"])) {
		lines.Write(edited(t, []byte(line), func(doc *map[string]any) {
			if data, _ := (*doc)["data"].(map[string]any); data != nil {
				delete(data, "signature")
			}
		}))
		lines.WriteByte('\n')
	}
	files["documents.jsonl"] = []byte(lines.String())
	return forged(t, files, thief)
}

// vault is the place of an estate as a writer of its disk or database sees it.
type vault struct {
	t       *testing.T
	dataDir string
	conn    *pgx.Conn // nil for a data directory
}

func (v *vault) exec(statement string, args ...any) {
	v.t.Helper()
	if _, err := v.conn.Exec(v.t.Context(), statement, args...); err != nil {
		v.t.Fatal(err)
	}
}

func (v *vault) folder() *durable.Dir {
	return durable.At(filepath.Join(v.dataDir, "batches", "documents"))
}

// value returns a stored value with its signature, and setValue stores one.
func (v *vault) value(name string) (value access.StoredValue) {
	v.t.Helper()
	if v.conn == nil {
		values, err := access.ReadStored(durable.At(v.dataDir))
		if err != nil {
			v.t.Fatal(err)
		}
		return values[name]
	}
	var text, signature string
	if err := v.conn.QueryRow(v.t.Context(), "SELECT v.value, s.signature FROM patchbay_config_values v JOIN patchbay_config_signatures s ON s.name = 'value/' || v.name WHERE v.name = $1", name).
		Scan(&text, &signature); err != nil {
		v.t.Fatal(err)
	}
	return access.StoredValue{Data: []byte(text), Signatures: []string{signature}}
}

func (v *vault) setValue(name string, value access.StoredValue) {
	v.t.Helper()
	if v.conn == nil {
		values, err := access.ReadStored(durable.At(v.dataDir))
		if err == nil {
			values[name] = value
			err = access.WriteStored(durable.At(v.dataDir), values)
		}
		if err != nil {
			v.t.Fatal(err)
		}
		return
	}
	v.exec("INSERT INTO patchbay_config_values (name, revision, value) VALUES ($1, 1000, $2)", name, string(value.Data))
	for _, signature := range value.Signatures {
		v.exec("INSERT INTO patchbay_config_signatures (name, signature) VALUES ($1, $2)", "value/"+name, signature)
	}
}

// version returns a version as it is stored and its signature, and setVersion replaces them.
func (v *vault) version(number int) (text, signature string) {
	v.t.Helper()
	if v.conn == nil {
		path := filepath.Join(v.dataDir, "versions", fmt.Sprintf("%08d", number))
		return string(gatewaytest.ReadFile(v.t, path+".json")), string(gatewaytest.ReadFile(v.t, path+".sig"))
	}
	if err := v.conn.QueryRow(v.t.Context(), "SELECT v.record, s.signature FROM patchbay_config_versions v JOIN patchbay_config_signatures s ON s.name = 'version/' || v.version WHERE s.name = $1", fmt.Sprintf("version/%d", number)).
		Scan(&text, &signature); err != nil {
		v.t.Fatal(err)
	}
	return text, signature
}

func (v *vault) setVersion(number int, text, signature string) {
	v.t.Helper()
	if v.conn == nil {
		path := filepath.Join(v.dataDir, "versions", fmt.Sprintf("%08d", number))
		gatewaytest.WriteFile(v.t, path+".json", text)
		gatewaytest.WriteFile(v.t, path+".sig", signature)
		return
	}
	v.exec("UPDATE patchbay_config_versions SET record = $2 WHERE version = $1", number, text)
	v.exec("UPDATE patchbay_config_signatures SET signature = $2 WHERE name = $1", fmt.Sprintf("version/%d", number), signature)
}

// document returns a description, and setDocument stores one.
func (v *vault) document(kind, id string) (doc documents.Document) {
	v.t.Helper()
	if v.conn == nil {
		store, err := documents.OpenDir(v.folder().Path(""), nil)
		if err == nil {
			doc, err = store.Get(v.t.Context(), kind, id)
		}
		if err != nil {
			v.t.Fatal(err)
		}
		return doc
	}
	var data string
	doc.Kind, doc.ID = kind, id
	if err := v.conn.QueryRow(v.t.Context(), "SELECT scope, created, is_open, bytes, version, data FROM patchbay_documents WHERE kind = $1 AND id = $2", kind, id).
		Scan(&doc.Scope, &doc.Created, &doc.IsOpen, &doc.Bytes, &doc.Version, &data); err != nil {
		v.t.Fatal(err)
	}
	doc.Data = []byte(data)
	return doc
}

func (v *vault) setDocument(doc documents.Document) {
	v.t.Helper()
	if v.conn == nil {
		if err := documents.WriteFile(v.folder(), doc); err != nil {
			v.t.Fatal(err)
		}
		return
	}
	v.exec("INSERT INTO patchbay_documents (kind, id, scope, created, is_open, bytes, version, changed, data) VALUES ($1, $2, $3, $4, $5, $6, $7, now(), $8) "+
		"ON CONFLICT (kind, id) DO UPDATE SET scope = excluded.scope, data = excluded.data", doc.Kind, doc.ID, doc.Scope, doc.Created, doc.IsOpen, doc.Bytes, doc.Version, string(doc.Data))
}

// A confirmation enables what its own unsigned restore wrote, as that wrote it: nothing that was put there or changed since, and nothing
// of a restore before that was not confirmed. The audit has both.
func TestAConfirmationEnablesWhatItsRestoreWrote(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "audit", "batches")
	places := placesOfBackups(t)
	for _, place := range []string{"a data directory", "PostgreSQL"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			more, _ := places[place]()
			e := newEstate(t, more)
			e.start()
			e.fill()
			full := filepath.Join(t.TempDir(), "full.zip")
			verb(t, exitOK, "backup", full, "--config", e.file, "--with", "batches")
			e.signal(os.Interrupt)
			e.exits(exitOK)
			v := &vault{t: t, dataDir: dataDirOf(t, e)}
			if _, url, isShared := strings.Cut(more, `config: "`); isShared {
				url, _, _ = strings.Cut(url, `"`)
				conn, err := pgx.Connect(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.Close(t.Context()) }()
				v.conn = conn
			}
			thief := gatewaytest.StartBackend(t)
			bad, good := zipOf(t, unsignedFiles(t, unzip(t, full), thief.URL())), unsignedFiles(t, unzip(t, full), e.backend.URL())
			good["values.json"] = edited(t, good["values.json"], func(values *map[string]any) { delete(*values, "token/thief") })
			good["manifest.json"] = edited(t, good["manifest.json"], func(manifest *map[string]any) {
				sum := sha256.Sum256(good["values.json"])
				(*manifest)["files"].(map[string]any)["values.json"] = map[string]any{"size": len(good["values.json"]), "sha256": hex.EncodeToString(sum[:])}
			})
			restore := func(file string) {
				if said := verb(t, exitOK, "restore", file, "--config", e.file, "--force", "--unsigned"); !strings.Contains(said, "NOT signed") {
					t.Errorf("the restore says %s", said)
				}
			}
			restore(bad) // an administrator looks at it, and does not confirm it
			token := v.value("token/thief")
			text, signature := v.version(6)
			restored := zipOf(t, good)
			restore(restored)
			refused := func(bearer, method, path string) {
				t.Helper()
				if got := e.as(bearer, method, path, "").Status; got != http.StatusUnauthorized && got != http.StatusNotFound {
					t.Errorf("%s %s with %s: %d", method, path, bearer, got)
				}
			}
			for range 2 { // gateways that run in between change nothing
				e.start()
				refused(e.key, http.MethodGet, "/v1/models")
				refused(e.token, http.MethodGet, "/api/config/version")
				e.signal(os.Interrupt)
				e.exits(exitOK)
			}
			// What a writer of the place does in between.
			v.setValue("token/thief", token)
			v.setVersion(6, text, signature)
			planted := v.document("file", e.output)
			bare, _, _ := strings.Cut(string(planted.Data), `,"signature":`)
			planted.ID, planted.Data = "file-planted", []byte(bare+"}")
			v.setDocument(planted)
			moved := v.document("batch", e.openID)
			moved.Scope = "key/team-b"
			v.setDocument(moved)
			contents := filepath.Join(v.dataDir, "batches", "contents")
			if v.conn != nil {
				_, folder, _ := strings.Cut(more, `folder: "`)
				folder, _, _ = strings.Cut(folder, `"`)
				contents = filepath.Join(folder, "contents")
			}
			gatewaytest.WriteFile(t, filepath.Join(contents, planted.ID), "planted")
			if said := verb(t, exitFailed, "restore", "--confirm", bad, "--config", e.file); !strings.Contains(said, "another backup was restored last") {
				t.Errorf("the confirmation of another backup says %s", said)
			}
			said := verb(t, exitOK, "restore", "--confirm", restored, "--config", e.file)
			if !strings.Contains(said, "6 versions, 2 issued keys, 1 issued token, ") {
				t.Errorf("the confirmation says %s", said)
			}
			again := verb(t, exitOK, "restore", "--confirm", "--config", e.file)
			if !strings.Contains(again, "0 versions, 0 issued keys, 0 issued tokens, 0 documents") {
				t.Errorf("the second confirmation says %s", again)
			}
			e.start()
			refused("thief-token", http.MethodGet, "/api/config/version")
			refused(e.key, http.MethodGet, "/v1/files/"+planted.ID)
			refused(e.key, http.MethodGet, "/v1/batches/"+e.openID)
			e.must(e.key, http.MethodGet, "/v1/files/"+e.output, "", "")
			e.must(e.token, http.MethodGet, "/api/config/version", "", "")
			e.must("admin-token", http.MethodPost, "/api/config/version/rollback/6", "", "")
			for range 4 {
				e.as(e.key, http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi)
			}
			if sent := keysSentTo(thief); len(sent) > 0 {
				t.Errorf("secrets are sent: %q", sent)
			}
			var records struct {
				Data []struct{ Who, Role, Action, Object, Result string }
			}
			if err := json.Unmarshal([]byte(e.must("admin-token", http.MethodGet, "/api/audit?who=command+line", "", "")), &records, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(gatewaytest.ReadFile(t, restored))
			digest := hex.EncodeToString(sum[:])
			_, enabled, _ := strings.Cut(strings.TrimSpace(said), ": ")
			if len(records.Data) != 3 {
				t.Fatalf("the records are %+v", records.Data)
			}
			if r := records.Data[0]; r.Action != "restore --confirm" || r.Object != "backup with SHA-256 "+digest+": "+enabled || r.Result != "done" || r.Role != "ADMIN" {
				t.Errorf("the record of the confirmation is %+v", r)
			}
			if r := records.Data[1]; r.Action != "restore" || !strings.HasPrefix(r.Object, "backup with SHA-256 "+digest+": 7 versions") || !strings.Contains(r.Object, "NOT signed") || r.Result != "done" {
				t.Errorf("the record of the restore is %+v", r)
			}
			e.signal(os.Interrupt)
			e.exits(exitOK)
			if said := verb(t, exitOK, "audit", "verify", "--config", e.file); strings.Contains(said, "does not hold") {
				t.Errorf("the audit says %s", said)
			}
		})
	}
}

// What an unsigned restore has disabled stays so in a backup and a download of the place. A signed restore over it leaves nothing of it.
func TestADisabledPlaceIsMovedAndReplaced(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "audit", "batches")
	e := newEstate(t, "")
	e.start()
	e.fill()
	full, moved, download := filepath.Join(t.TempDir(), "full.zip"), filepath.Join(t.TempDir(), "moved.zip"), filepath.Join(t.TempDir(), "download.zip")
	verb(t, exitOK, "backup", full, "--config", e.file)
	e.signal(os.Interrupt)
	e.exits(exitOK)
	files := unsignedFiles(t, unzip(t, full), gatewaytest.StartBackend(t).URL())
	rotated := func(values *map[string]map[string]any) { // the attacker's text of a genuine key, made later
		record, _ := (*values)["key/team-a"]["value"].(map[string]any)
		record["keySha256"], record["rotatedAt"] = gatewaytest.HashOf("thief-key"), "2036-01-01T00:00:00Z"
	}
	files["values.json"] = edited(t, files["values.json"], rotated)
	files["manifest.json"] = edited(t, files["manifest.json"], func(manifest *map[string]any) {
		sum := sha256.Sum256(files["values.json"])
		(*manifest)["files"].(map[string]any)["values.json"] = map[string]any{"size": len(files["values.json"]), "sha256": hex.EncodeToString(sum[:])}
	})
	verb(t, exitOK, "restore", zipOf(t, files), "--config", e.file, "--force", "--unsigned")
	e.start()
	for range 2 {
		for _, bearer := range []string{"thief-key", "thief-token"} {
			for _, path := range []string{"/v1/models", "/api/config/version"} {
				if got := e.as(bearer, http.MethodGet, path, "").Status; got != http.StatusUnauthorized {
					t.Errorf("GET %s with %s: %d", path, bearer, got)
				}
			}
		}
	}
	for _, line := range []string{`"msg":"a request is refused: a backup without a signature had its key`, `"msg":"a request is refused: a backup without a signature had its token`,
		`"msg":"a backup without a signature was restored and is not confirmed`} {
		if got := strings.Count(e.stderr.String(), line); got != 1 {
			t.Errorf("%d lines of the log have %s", got, line)
		}
	}
	gatewaytest.WriteFile(t, download, e.must("admin-token", http.MethodGet, "/api/config/backup?secrets=true", "", ""))
	if got := e.must("admin-token", http.MethodGet, "/api/audit?what=audit.begin", "", ""); !strings.Contains(got, "without a signature was restored") {
		t.Errorf("the audit has %s", got)
	}
	e.signal(os.Interrupt)
	e.exits(exitOK)
	verb(t, exitOK, "backup", moved, "--config", e.file)
	more, _ := placesOfBackups(t)["PostgreSQL"]()
	next := newEstate(t, more)
	if said := verb(t, exitFailed, "restore", download, "--config", next.file); !strings.Contains(said, "--unsigned") {
		t.Errorf("the restore of the download says %s", said)
	}
	if said := verb(t, exitOK, "restore", moved, "--config", next.file); !strings.Contains(said, ", signed") {
		t.Errorf("the restore says %s", said)
	}
	next.start()
	if got := next.as("thief-key", http.MethodGet, "/v1/models", "").Status; got != http.StatusUnauthorized {
		t.Errorf("a disabled key elsewhere: %d", got)
	}
	next.signal(os.Interrupt)
	next.exits(exitOK)
	if said := verb(t, exitOK, "restore", "--confirm", "--config", next.file); !strings.Contains(said, "7 versions, 2 issued keys, 2 issued tokens") {
		t.Errorf("the confirmation elsewhere says %s", said)
	}
	next.start()
	next.must("thief-key", http.MethodGet, "/v1/models", "", "")
	next.kill()

	verb(t, exitOK, "restore", full, "--config", e.file, "--force")
	if said := verb(t, exitOK, "restore", "--confirm", "--config", e.file); !strings.Contains(said, "0 versions, 0 issued keys, 0 issued tokens, 0 documents") {
		t.Errorf("the confirmation after a signed restore says %s", said)
	}
	e.start()
	e.must(e.key, http.MethodGet, "/v1/models", "", "")
	for bearer, path := range map[string]string{"thief-key": "/v1/models", "thief-token": "/api/config/version"} {
		if got := e.as(bearer, http.MethodGet, path, "").Status; got != http.StatusUnauthorized {
			t.Errorf("GET %s with %s after a signed restore: %d", path, bearer, got)
		}
	}
}

// A signed backup of a place has what was put there without a signature, and its restore does not sign that.
func TestARestoreSignsNothingThatWasPlanted(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "batches")
	e := newEstate(t, "")
	e.start()
	e.fill()
	e.signal(os.Interrupt)
	e.exits(exitOK)
	v := &vault{t: t, dataDir: dataDirOf(t, e)}
	planted := v.document("file", e.output)
	bare, _, _ := strings.Cut(string(planted.Data), `,"signature":`)
	planted.ID, planted.Data = "file-planted", []byte(bare+"}")
	v.setDocument(planted)
	gatewaytest.WriteFile(t, filepath.Join(v.dataDir, "batches", "contents", planted.ID), "planted")
	full := filepath.Join(t.TempDir(), "full.zip")
	verb(t, exitOK, "backup", full, "--config", e.file, "--with", "batches")
	verb(t, exitOK, "restore", full, "--config", e.file, "--force")
	e.start()
	e.must(e.key, http.MethodGet, "/v1/files/"+e.output, "", "")
	if got := e.as(e.key, http.MethodGet, "/v1/files/"+planted.ID, ""); got.Status != http.StatusNotFound {
		t.Errorf("the file that was planted: %d %s", got.Status, got.Body)
	}
}

// A confirmation that the audit cannot record changes nothing.
func TestAConfirmationIsRecordedOrRefused(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "audit")
	e := newEstate(t, "")
	e.start()
	e.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"team-a"}`, "data/key")
	full := filepath.Join(t.TempDir(), "full.zip")
	verb(t, exitOK, "backup", full, "--config", e.file)
	e.signal(os.Interrupt)
	e.exits(exitOK)
	verb(t, exitOK, "restore", zipOf(t, forged(t, unzip(t, full), "http://127.0.0.1:1")), "--config", e.file, "--force", "--unsigned")
	v := &vault{t: t, dataDir: dataDirOf(t, e)}
	before := v.value("key/team-a")
	records := filepath.Join(v.dataDir, "audit")
	if err := os.Rename(records, records+".away"); err != nil {
		t.Fatal(err)
	}
	gatewaytest.WriteFile(t, records, "a file in place of the folder")
	if said := verb(t, exitFailed, "restore", "--confirm", "--config", e.file); !strings.Contains(said, "nothing was confirmed") {
		t.Errorf("the confirmation says %s", said)
	}
	if after := v.value("key/team-a"); string(after.Data) != string(before.Data) {
		t.Errorf("the key is %s, want %s", after.Data, before.Data)
	}
	if err := errors.Join(os.Remove(records), os.Rename(records+".away", records)); err != nil {
		t.Fatal(err)
	}
	if said := verb(t, exitOK, "restore", "--confirm", "--config", e.file); !strings.Contains(said, "1 version, 1 issued key, 1 issued token, 0 documents") {
		t.Errorf("the second confirmation says %s", said)
	}
}
