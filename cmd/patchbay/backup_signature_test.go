// This file belongs to the wing backup.

package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// unzip returns the files of an archive.
func unzip(t *testing.T, path string) map[string][]byte {
	t.Helper()
	from, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	files := map[string][]byte{}
	for _, file := range from.File {
		in, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[file.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// zipOf writes an archive and returns its path.
func zipOf(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var out bytes.Buffer
	to := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entry, err := to.Create(name)
		if err == nil {
			_, err = entry.Write(files[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "archive.zip")
	gatewaytest.WriteFile(t, path, out.String())
	return path
}

// edited returns a file of JSON after a change.
func edited[T any](t *testing.T, content []byte, edit func(*T)) []byte {
	t.Helper()
	var value T
	if err := json.Unmarshal(content, &value); err != nil {
		t.Fatal(err)
	}
	edit(&value)
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// move gives instances with references to secrets another address.
func move(value any, address string) {
	switch value := value.(type) {
	case map[string]any:
		key, _ := value["apiKey"].(map[string]any)
		if value["references"] != nil || key["reference"] != nil {
			value["baseUrl"] = address
		}
		for _, member := range value {
			move(member, address)
		}
	case []any:
		for _, element := range value {
			move(element, address)
		}
	}
}

// forged returns an archive as somebody without the master key writes it: instances at another address, a
// token of their own, no signatures, and a manifest that fits if there is one.
func forged(t *testing.T, files map[string][]byte, thief string) map[string][]byte {
	t.Helper()
	files = maps.Clone(files)
	for name, content := range files {
		switch {
		case strings.HasSuffix(name, ".sig"):
			delete(files, name)
		case strings.HasPrefix(name, "versions/0") && strings.HasSuffix(name, ".json"):
			files[name] = edited(t, content, func(version *any) { move(*version, thief) })
		case name == "values.json":
			files[name] = edited(t, content, func(values *map[string]map[string]any) {
				for _, value := range *values {
					delete(value, "signatures")
				}
				(*values)["token/thief"] = map[string]any{"trusted": true, "value": map[string]any{
					"name": "thief", "role": "ADMIN", "tokenSha256": gatewaytest.HashOf("thief-token"),
					"createdAt": "2026-01-01T00:00:00Z", "createdBy": "a",
				}}
			})
		}
	}
	if files["manifest.json"] == nil {
		return files
	}
	files["manifest.json"] = edited(t, files["manifest.json"], func(manifest *map[string]any) {
		delete(*manifest, "signature")
		delete(*manifest, "masterKey")
		list := map[string]any{}
		for name, content := range files {
			sum := sha256.Sum256(content)
			if name != "manifest.json" {
				list[name] = map[string]any{"size": len(content), "sha256": hex.EncodeToString(sum[:])}
			}
		}
		(*manifest)["files"] = list
	})
	return files
}

// Whoever can write a backup and has no master key becomes nobody by it and gets no secret.
func TestABackupWithoutASignatureEnablesNothing(t *testing.T) {
	t.Parallel()
	places := placesOfBackups(t)
	for _, place := range []string{"a data directory", "PostgreSQL"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			more, _ := places[place]()
			e := newEstate(t, more)
			content := strings.NewReplacer("api-key: sk-file", "api-key: '${NO_SUCH_KEY:sk-reference}'", "enabled: true, master-key",
				fmt.Sprintf("enabled: true, keys: [{id: f, key-sha256: %s}], master-key", gatewaytest.HashOf("file-key")))
			gatewaytest.WriteFile(t, e.file, content.Replace(string(gatewaytest.ReadFile(t, e.file))))
			e.start()
			e.fill()
			full, download := filepath.Join(t.TempDir(), "full.zip"), filepath.Join(t.TempDir(), "download.zip")
			if said := verb(t, exitOK, "backup", full, "--config", e.file, "--with", "ledger"); !strings.Contains(said, ", signed") {
				t.Errorf("the backup says %s", said)
			}
			gatewaytest.WriteFile(t, download, e.must("admin-token", http.MethodGet, "/api/config/backup?secrets=true", "", ""))
			e.signal(os.Interrupt)
			e.exits(exitOK)
			thief := gatewaytest.StartBackend(t)
			bare := forged(t, unzip(t, download), thief.URL())
			delete(bare, "manifest.json")
			for name, files := range map[string]map[string][]byte{
				"a backup":                    forged(t, unzip(t, full), thief.URL()),
				"a download":                  forged(t, unzip(t, download), thief.URL()),
				"a download without manifest": bare,
			} {
				file := zipOf(t, files)
				if said := verb(t, exitFailed, "restore", file, "--config", e.file, "--force"); !strings.Contains(said, "--unsigned") {
					t.Errorf("%s: it says %s", name, said)
				}
				said := verb(t, exitOK, "restore", file, "--config", e.file, "--force", "--unsigned")
				if !strings.Contains(said, "NOT signed") || !strings.Contains(said, "--confirm") {
					t.Errorf("%s: it says %s", name, said)
				}
				e.sendsNothing(name, thief)
			}
			e.start()
			const admin = "admin-token"
			for _, path := range []string{"/api/auth/keys/team-a", "/api/auth/tokens/ops"} {
				e.must(admin, http.MethodPost, path+"/enable", "", "")
			}
			if reply := e.as(e.token, http.MethodPost, "/api/config/version/rollback/7", ""); reply.Status != http.StatusOK {
				t.Errorf("the token that an ADMIN enabled: %d %s", reply.Status, reply.Body)
			}
			if got := e.as(e.key, http.MethodGet, "/v1/models", "").Status; got != http.StatusOK {
				t.Errorf("the key that an ADMIN enabled: %d", got)
			}
			if got := e.as(e.revoked, http.MethodGet, "/v1/models", "").Status; got != http.StatusUnauthorized {
				t.Errorf("the key that nobody enabled: %d", got)
			}
			rotated := e.must(admin, http.MethodPost, "/api/auth/keys/team-b/rotate", "", "data/key")
			if got := e.as(rotated, http.MethodGet, "/v1/models", "").Status; got != http.StatusOK {
				t.Errorf("the key that an ADMIN rotated: %d", got)
			}
			if said := verb(t, exitFailed, "restore", "--confirm", "--config", e.file); !strings.Contains(said, "stop") {
				t.Errorf("the gateway runs, and the confirmation says %s", said)
			}
			e.signal(os.Interrupt)
			e.exits(exitOK)
			if said := verb(t, exitOK, "restore", "--confirm", "--config", e.file); !strings.Contains(said, "7 versions, 0 issued keys, 1 issued token") {
				t.Errorf("the confirmation says %s", said)
			}
			if said := verb(t, exitOK, "restore", "--confirm", "--config", e.file); !strings.Contains(said, "0 versions, 0 issued keys, 0 issued tokens") {
				t.Errorf("the second confirmation says %s", said)
			}
			e.start()
			e.must("thief-token", http.MethodPost, "/api/config/version/rollback/6", "", "")
			e.must("file-key", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, "")
			if got := keysSentTo(thief); len(got) == 0 {
				t.Errorf("after the confirmation no secret is sent")
			}
		})
	}
}

// sendsNothing starts the gateway on a place with a forged backup, and finds it useless for the forger.
func (e *estate) sendsNothing(name string, thief *simulator.Backend) {
	e.t.Helper()
	e.start()
	for _, test := range []struct{ bearer, method, path, body string }{
		{"thief-token", http.MethodGet, "/api/config/version", ""},
		{"thief-token", http.MethodPost, "/api/auth/tokens/thief/enable", ""},
		{e.token, http.MethodGet, "/api/config/version", ""},
		{e.key, http.MethodGet, "/v1/models", ""},
	} {
		if got := e.as(test.bearer, test.method, test.path, test.body); got.Status != http.StatusUnauthorized {
			e.t.Errorf("%s: %s %s with %s: %d %s", name, test.method, test.path, test.bearer, got.Status, got.Body)
		}
	}
	for range 3 {
		if got := e.as("file-key", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); got.Status < 500 {
			e.t.Errorf("%s: a request is answered: %d %s", name, got.Status, got.Body)
		}
	}
	if sent := append(keysSentTo(thief), keysSentTo(e.held)...); len(sent) > 0 {
		e.t.Errorf("%s: secrets are sent: %q", name, sent)
	}
	e.must("admin-token", http.MethodPost, "/api/config/version/rollback/1", "", "")
	if got := e.as("file-key", http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); got.Status < 500 || len(keysSentTo(thief)) > 0 {
		e.t.Errorf("%s: after a rollback: %d %s", name, got.Status, got.Body)
	}
	e.signal(os.Interrupt)
	e.exits(exitOK)
}

// keysSentTo returns the keys that a backend got.
func keysSentTo(b *simulator.Backend) (sent []string) {
	for _, request := range b.Requests() {
		if key := request.Header.Get("Authorization"); key != "" {
			sent = append(sent, key)
		}
	}
	return sent
}

// A signed archive is restored as it was made, or not at all, also with --unsigned.
func TestPartsOfSignedBackupsAreNotExchanged(t *testing.T) {
	t.Parallel()
	e := newEstate(t, "")
	e.start()
	e.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"early"}`, "")
	early, late := filepath.Join(t.TempDir(), "early.zip"), filepath.Join(t.TempDir(), "late.zip")
	verb(t, exitOK, "backup", early, "--config", e.file)
	e.must("admin-token", http.MethodDelete, "/api/auth/keys/early", "", "")
	e.must("admin-token", http.MethodPut, gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`, "")
	verb(t, exitOK, "backup", late, "--config", e.file)
	e.kill()
	with := func(name string, content []byte) map[string][]byte {
		files := unzip(t, late)
		files[name] = content
		return files
	}
	old := unzip(t, early)
	unlisted := unzip(t, late)
	unlisted["manifest.json"] = edited(t, unlisted["manifest.json"], func(m *map[string]any) {
		list, _ := (*m)["files"].(map[string]any)
		delete(list, "values.json")
		delete(*m, "signature")
	})
	for name, test := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"values of an earlier one":       {with("values.json", old["values.json"]), "damaged"},
		"the head of an earlier one":     {with("versions/current.json", old["versions/current.json"]), "damaged"},
		"the manifest of an earlier one": {with("manifest.json", old["manifest.json"]), "was added"},
		"a file that is not listed":      {with("ledger.jsonl", []byte(`{}`)), "was added"},
		"a list without a file":          {unlisted, "was added"},
	} {
		next := newEstate(t, "")
		for _, flags := range [][]string{nil, {"--unsigned"}} {
			said := verb(t, exitFailed, append([]string{"restore", zipOf(t, test.files), "--config", next.file}, flags...)...)
			if name != "a list without a file" || flags != nil {
				if !strings.Contains(said, test.want) {
					t.Errorf("%s %v: it says %s, want %s", name, flags, said, test.want)
				}
			}
		}
	}
	// Without a master key nothing is checked, and the summary names that.
	next := newEstate(t, "")
	gatewaytest.WriteFile(t, next.file, strings.Replace(string(gatewaytest.ReadFile(t, next.file)), "master-key: "+masterKey+", ", "", 1))
	next.start()
	made := next.must("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"k"}`, "data/key")
	plain := filepath.Join(t.TempDir(), "plain.zip")
	if said := verb(t, exitOK, "backup", plain, "--config", next.file); !strings.Contains(said, "NOT signed") {
		t.Errorf("the backup says %s", said)
	}
	next.kill()
	for _, flags := range [][]string{{"--force"}, {"--force", "--unsigned"}} {
		said := verb(t, exitOK, append([]string{"restore", plain, "--config", next.file}, flags...)...)
		if !strings.Contains(said, "NOT signed") || strings.Contains(said, "--confirm") {
			t.Errorf("the restore says %s", said)
		}
		next.start()
		next.must(made, http.MethodGet, "/v1/models", "", "")
		next.kill()
	}
	if said := verb(t, exitFailed, "restore", "--confirm", "--config", next.file); !strings.Contains(said, "no master key") {
		t.Errorf("the confirmation says %s", said)
	}
}
