// This file belongs to the wing backup.

package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// The sections that management has set are in every kind of backup, with the addresses of webhooks.
func TestSettingsAreRestored(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "alerts", "answercache")
	posted := make(chan string, 4)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { posted <- r.URL.Path }))
	defer receiver.Close()
	e := newEstate(t, "")
	e.start()
	e.must("admin-token", http.MethodPut, "/api/config/alerts", `{"webhooks":{"ops":{"url":"`+receiver.URL+`/very-secret"}},"quiet":"7m"}`, "")
	e.must("admin-token", http.MethodPut, "/api/config/answer-cache", `{"services":["rerank"]}`, "")
	dir := t.TempDir()
	download, masked, backup := filepath.Join(dir, "download.zip"), filepath.Join(dir, "masked.zip"), filepath.Join(dir, "backup.zip")
	gatewaytest.WriteFile(t, download, e.must("admin-token", http.MethodGet, "/api/config/backup?secrets=true", "", ""))
	gatewaytest.WriteFile(t, masked, e.must("admin-token", http.MethodGet, "/api/config/backup", "", ""))
	verb(t, exitOK, "backup", backup, "--config", e.file)
	e.kill()
	for _, file := range []string{download, backup} {
		next := newEstate(t, "")
		if said := verb(t, exitFailed, "restore", masked, "--config", next.file); !strings.Contains(said, "secrets=true") {
			t.Errorf("a download with masked secrets: %s", said)
		}
		verb(t, exitOK, "restore", file, "--config", next.file)
		next.start()
		if now := next.must("admin-token", http.MethodGet, "/api/config/answer-cache", "", ""); !strings.Contains(now, `"services":["rerank"]`) {
			t.Errorf("%s: %s", file, now)
		}
		if said := next.must("admin-token", http.MethodPost, "/api/config/alerts/test", `{"webhook":"ops"}`, ""); !strings.Contains(said, `"delivered":true`) {
			t.Fatalf("%s: %s", file, said)
		}
		if path := <-posted; path != "/very-secret" {
			t.Errorf("%s: posted to %s", file, path)
		}
		next.kill()
	}
}
