package gateway_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// secured is a gateway with tokens, on disk or with a shared configuration.
type secured struct {
	setup gatewaytest.Setup
	yaml  string
	url   string // of the database, empty without one
}

func securedStores(t *testing.T, test func(t *testing.T, s *secured)) {
	t.Helper()
	for _, isShared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %t", isShared), func(t *testing.T) {
			t.Parallel()
			s := &secured{setup: gatewaytest.Setup{DataDir: t.TempDir()}}
			s.yaml = gatewaytest.ChatYAML(gatewaytest.Instance("m", "http://127.0.0.1:9", "api-key: "+backendKey))
			if isShared {
				s.url = storetest.Postgres(t).URL
				s.yaml += fmt.Sprintf("store: {config: %s}\n", gatewaytest.Quote(s.url))
			}
			test(t, s)
		})
	}
}

// start starts the gateway with master keys, as YAML below security.
func (s *secured) start(t *testing.T, masterKeys string) *gatewaytest.Gateway {
	t.Helper()
	s.setup.YAML = strings.Replace(gatewaytest.SecuredYAML(), "enabled: true,", "enabled: true, "+masterKeys, 1) + s.yaml
	r := gatewaytest.StartWith(t, s.setup)
	if database := r.Control.Following(); database != nil { // the first try may be too slow on a busy machine
		gatewaytest.Eventually(t, "the database answers", func() bool { return r.Control.Joined() && database.Failure() == nil })
	}
	return r
}

// everything returns all that a reader of the disk and of the database sees.
func (s *secured) everything(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, content := range contents(t, s.setup.DataDir) {
		all.WriteString(content + "\n")
	}
	if s.url != "" {
		all.WriteString(inPostgres{s.url}.text(t, "SELECT string_agg(name || ' ' || value, E'\\n') FROM patchbay_config_values"))
	}
	return all.String()
}

func logIn(t *testing.T, r *gatewaytest.Gateway) string {
	t.Helper()
	reply := r.Do(http.MethodPost, "/api/auth/session", "", "Authorization", "Bearer admin-token")
	cookie, _, _ := strings.Cut(reply.Header.Get("Set-Cookie"), ";")
	_, session, isSession := strings.Cut(cookie, web.SessionCookie+"=")
	if reply.Status != http.StatusCreated || !isSession {
		t.Fatalf("%d %s", reply.Status, reply.Body)
	}
	return session
}

func statusWith(r *gatewaytest.Gateway, session string) int {
	return r.Do(http.MethodGet, "/api/config/type/services", "", "Cookie", web.SessionCookie+"="+session, "Sec-Fetch-Site", "same-origin").Status
}

// plainSessionKey returns the key of sessions that is stored as plain text, if there is one.
func plainSessionKey(t *testing.T, all string) ([]byte, bool) {
	t.Helper()
	_, rest, found := strings.Cut(strings.ReplaceAll(strings.ReplaceAll(all, "\n", ""), " ", ""), `session/key`)
	if !found {
		return nil, false
	}
	_, rest, _ = strings.Cut(rest, `"key":"`)
	text, _, _ := strings.Cut(rest, `"`)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != sha256.Size {
		t.Fatalf("%q: %v", text, err)
	}
	return key, true
}

// TestReadersOfTheStoreMakeNoSessions: with a master key the key of sessions is stored
// encrypted.
func TestReadersOfTheStoreMakeNoSessions(t *testing.T) {
	t.Parallel()
	securedStores(t, func(t *testing.T, s *secured) {
		first := rand.Text() + rand.Text()
		r := s.start(t, "master-key: "+first+",")
		session := logIn(t, r)
		if got := statusWith(r, session); got != http.StatusOK {
			t.Errorf("a session gets %d", got)
		}
		r.Halt()
		if _, isPlain := plainSessionKey(t, s.everything(t)); isPlain {
			t.Error("the key is there as plain text")
		}
		r = s.start(t, "master-key: "+first+",")
		if got := statusWith(r, session); got != http.StatusOK {
			t.Errorf("after a restart a session gets %d", got)
		}
	})
}

// TestTokensThatNobodySignedMayOnlyRead: who can write the store cannot issue a token that
// sees the keys of backends or changes anything.
func TestTokensThatNobodySignedMayOnlyRead(t *testing.T) {
	t.Parallel()
	securedStores(t, func(t *testing.T, s *secured) {
		master := "master-key: " + rand.Text() + rand.Text() + ","
		r := s.start(t, master)
		issued := gatewaytest.DataOf[struct {
			Token string `json:"token"`
		}](t, r.API(http.MethodPost, "/api/auth/tokens", `{"name": "second", "role": "ADMIN"}`, "Authorization", "Bearer admin-token").Is(t, http.StatusCreated))
		r.Halt()
		record := `{"name":"intruder","role":"ADMIN","tokenSha256":"` + access.HashOf("intruder-token") + `","createdAt":"2026-01-01T00:00:00Z","createdBy":"x"}`
		if s.url != "" {
			by := inPostgres{s.url}
			by.do(t, "INSERT INTO patchbay_config_values VALUES ('token/intruder', (SELECT max(revision) + 1 FROM patchbay_config_values), $1)", record)
		} else {
			name := filepath.Join(s.setup.DataDir, "keys.json")
			gatewaytest.WriteFile(t, name, strings.Replace(string(gatewaytest.ReadFile(t, name)), `"values": {`, `"values": {"token/intruder": `+record+",", 1))
		}
		r = s.start(t, master)
		intruder := []string{"Authorization", "Bearer intruder-token"}
		reply := r.API(http.MethodGet, "/api/config/instance/type/chat", "", intruder...).Is(t, http.StatusOK)
		if strings.Contains(reply.Body, backendKey) {
			t.Error("the intruder reads the key of a backend")
		}
		r.API(http.MethodPut, "/api/config/instance/update/chat", `{"instanceId": "m@http://127.0.0.1:9", "instance": {"proxy": "http://127.0.0.1:1"}}`, intruder...).Is(t, http.StatusForbidden)
		r.API(http.MethodGet, "/api/config/instance/type/chat", "", "Authorization", "Bearer admin-token").Is(t, http.StatusOK, backendKey)
		r.API(http.MethodGet, "/api/config/instance/type/chat", "", "Authorization", "Bearer "+issued.Token).Is(t, http.StatusOK, backendKey)
		if !strings.Contains(r.Logs.String(), "may only read") {
			t.Error("the log does not name the token")
		}
	})
}
