package gateway_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

const (
	asAdmin = "Bearer admin-token"
	mePath  = "/api/auth/me"
)

// sessionOf exchanges a token for a session and returns the cookie as a browser sends it.
func sessionOf(t *testing.T, r *gatewaytest.Gateway, token string) string {
	t.Helper()
	answer := r.Do(http.MethodPost, "/api/auth/session", "", "Authorization", "Bearer "+token)
	cookies := (&http.Response{Header: answer.Header}).Cookies()
	if answer.Status != http.StatusCreated || len(cookies) != 1 {
		t.Fatalf("%d %v %s", answer.Status, answer.Header, answer.Body)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

type listedSession struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
	Current bool   `json:"current"`
}

func listed(t *testing.T, r *gatewaytest.Gateway, headers ...string) []listedSession {
	t.Helper()
	return gatewaytest.DataOf[[]listedSession](t, r.API(http.MethodGet, "/api/auth/sessions", "", headers...).Is(t, http.StatusOK))
}

// After a logout a copy of the cookie is worth nothing, also after a restart. Other sessions of the
// same token go on.
func TestACopiedCookieIsWorthNothingAfterTheLogout(t *testing.T) {
	t.Parallel()
	setup := gatewaytest.Setup{YAML: gatewaytest.SecuredYAML(), DataDir: t.TempDir()}
	r := gatewaytest.StartWith(t, setup)
	first, second := sessionOf(t, r, "viewer-token"), sessionOf(t, r, "viewer-token")
	if first == second {
		t.Fatal("two sessions are the same")
	}
	r.Do(http.MethodGet, mePath, "", "Cookie", first).Succeeds(t)
	// The console sends the cookie alone; a script may send the token beside it.
	r.Do(http.MethodDelete, "/api/auth/session", "", "Cookie", first, "Authorization", "Bearer viewer-token").Succeeds(t)
	check := func(r *gatewaytest.Gateway) {
		t.Helper()
		r.API(http.MethodGet, mePath, "", "Cookie", first).Is(t, http.StatusUnauthorized, "the session was ended")
		r.Do(http.MethodGet, mePath, "", "Cookie", second).Succeeds(t)
	}
	check(r)
	r.Halt()
	check(gatewaytest.StartWith(t, setup))
}

// Whoever logs out can log in again at once, also with a token that expires before a session would
// end, and no two browsers have the same session.
func TestALoginAfterALogoutIsGood(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	issued := gatewaytest.DataOf[map[string]any](t, r.API(http.MethodPost, "/api/auth/tokens",
		`{"name":"soon","role":"ADMIN","expiresAt":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`, "Authorization", asAdmin).Is(t, http.StatusCreated))
	text, _ := issued["token"].(string)
	for _, token := range []string{"viewer-token", text} {
		other := sessionOf(t, r, token)
		for range 5 {
			cookie := sessionOf(t, r, token)
			if cookie == other {
				t.Fatal("two browsers have the same session")
			}
			r.Do(http.MethodGet, mePath, "", "Cookie", cookie).Succeeds(t)
			r.Do(http.MethodDelete, "/api/auth/session", "", "Cookie", cookie).Succeeds(t)
			r.API(http.MethodGet, mePath, "", "Cookie", cookie).Is(t, http.StatusUnauthorized, "the session was ended")
		}
		r.Do(http.MethodGet, mePath, "", "Cookie", other).Succeeds(t)
	}
}

// An administrator sees the sessions and ends one of them; nobody else does.
func TestAnAdministratorEndsASession(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	cookie, own := sessionOf(t, r, "operator-token"), sessionOf(t, r, "admin-token")
	for _, path := range []string{"GET /api/auth/sessions", "DELETE /api/auth/sessions/x"} {
		method, path, _ := strings.Cut(path, " ")
		r.API(method, path, "", "Cookie", cookie).Is(t, http.StatusForbidden)
	}
	list := listed(t, r, "Cookie", own)
	if len(list) != 2 || list[0].Name != "a" || !list[0].Current || list[1].Name != "o" || list[1].Current || list[1].Address != "127.0.0.1" {
		t.Fatalf("%+v", list)
	}
	id := list[1].ID
	if strings.Contains(cookie, id) {
		t.Error("the list shows a part of the cookie")
	}
	r.API(http.MethodDelete, "/api/auth/sessions/"+id+"?dryRun=true", "", "Cookie", own).Is(t, http.StatusOK)
	r.Do(http.MethodGet, mePath, "", "Cookie", cookie).Succeeds(t)
	r.API(http.MethodDelete, "/api/auth/sessions/"+id, "", "Cookie", own).Is(t, http.StatusOK)
	r.API(http.MethodGet, mePath, "", "Cookie", cookie).Is(t, http.StatusUnauthorized)
	r.API(http.MethodDelete, "/api/auth/sessions/"+id, "", "Cookie", own).Is(t, http.StatusNotFound)
	if list := listed(t, r, "Authorization", asAdmin); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}

// A logout that cannot be kept is not reported as one, and the session goes on.
func TestALogoutThatCannotBeKeptIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.SecuredYAML(), DataDir: dir})
	cookie := sessionOf(t, r, "viewer-token")
	folder := filepath.Join(dir, "sessions")
	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	answer := r.Do(http.MethodDelete, "/api/auth/session", "", "Cookie", cookie)
	if answer.Status != http.StatusServiceUnavailable || answer.Header.Get("Set-Cookie") != "" {
		t.Errorf("%d %v", answer.Status, answer.Header)
	}
	r.Do(http.MethodGet, mePath, "", "Cookie", cookie).Succeeds(t)
	sessionOf(t, r, "viewer-token") // a token is enough to begin one
	if err := os.Rename(folder+"-away", folder); err != nil {
		t.Fatal(err)
	}
	r.Do(http.MethodDelete, "/api/auth/session", "", "Cookie", cookie).Succeeds(t)
	r.API(http.MethodGet, mePath, "", "Cookie", cookie).Is(t, http.StatusUnauthorized)
}

// The end of a session reaches gateways that share the configuration, with a master key and without.
func TestEndsOfSessionsReachOtherGateways(t *testing.T) {
	for name, masterKey := range map[string]string{"plain": "", "signed": "master-key: an-example-key-of-32-characters!!, "} {
		t.Run(name, func(t *testing.T) {
			yaml := strings.Replace(gatewaytest.SecuredYAML(), "enabled: true,", "enabled: true, "+masterKey, 1) +
				"store: {config: " + gatewaytest.Quote(storetest.Postgres(t).URL) + "}\n"
			one, two := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
			for _, r := range []*gatewaytest.Gateway{one, two} {
				gatewaytest.Eventually(t, "the gateway has joined", func() bool {
					return r.Control.Joined() && r.Do(http.MethodGet, "/api/auth/sessions", "", "Authorization", asAdmin).Status == http.StatusOK
				})
			}
			cookie := sessionOf(t, one, "operator-token")
			gatewaytest.Eventually(t, "the other knows the session", func() bool {
				return two.Do(http.MethodGet, mePath, "", "Cookie", cookie).Status == http.StatusOK && len(listed(t, two, "Authorization", asAdmin)) == 1
			})
			one.Do(http.MethodDelete, "/api/auth/session", "", "Cookie", cookie).Succeeds(t)
			one.API(http.MethodGet, mePath, "", "Cookie", cookie).Is(t, http.StatusUnauthorized)
			gatewaytest.Eventually(t, "the other knows the end", func() bool {
				return two.Do(http.MethodGet, mePath, "", "Cookie", cookie).Status == http.StatusUnauthorized && len(listed(t, two, "Authorization", asAdmin)) == 0
			})
		})
	}
}
