package entry_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

const asAdmin = "Bearer admin-token"

// logOut sends a gateway the word of its provider that somebody signed out there.
func logOut(r *gatewaytest.Gateway, token string) int {
	return r.Do(http.MethodPost, "/auth/backchannel-logout", url.Values{"logout_token": {token}}.Encode(), "Content-Type", "application/x-www-form-urlencoded").Status
}

// Sign-ins and the ends of sessions are in the audit when they are answered, with who it was; refused
// sign-ins of a person are one record and one for the rest of the minute.
func TestSignInsAreRecorded(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "audit")
	p := startProvider(t)
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yamlOf(p, ""), DataDir: dir})
	newBrowser(t, r).signIn("/")
	if status := logOut(r, p.logoutToken(map[string]any{"sub": "ada-1", "sid": "seat-1"})); status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	files, err := filepath.Glob(filepath.Join(dir, "audit", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	kept, err := os.ReadFile(files[0])
	if err != nil || strings.Count(string(kept), "sessions ended of subject ada-1, sid seat-1") != 1 {
		t.Errorf("on the disk: %s %v", kept, err)
	}
	p.set(func() {
		p.claims = map[string]any{"sub": "eve-1", "name": "Eve", "groups": "visitors"}
		p.info = map[string]any{"sub": "eve-1"}
	})
	for range 3 {
		if page := newBrowser(t, r).signIn("/"); page.status != http.StatusForbidden {
			t.Fatalf("%d", page.status)
		}
	}
	var got []string
	for _, record := range gatewaytest.DataOf[[]map[string]any](t, r.API(http.MethodGet, "/api/audit?what=/auth/", "", "Authorization", asAdmin).Is(t, http.StatusOK)) {
		got = append(got, strings.Join([]string{record["who"].(string), record["action"].(string), record["object"].(string), record["result"].(string)}, "|"))
	}
	slices.Reverse(got)
	ada, eve := "Ada Lovelace <ada-1 at "+p.URL+">", "Eve <eve-1 at "+p.URL+">"
	want := []string{
		ada + "|GET /auth/callback|/auth/callback: sign-in of Ada Lovelace, subject ada-1, at corp|303 done",
		"provider corp|POST /auth/backchannel-logout|/auth/backchannel-logout: sessions ended of subject ada-1, sid seat-1|200 done",
		eve + "|GET /auth/callback|/auth/callback: sign-in of Eve, subject eve-1, at corp|403 refused",
	}
	// The minute may end between them.
	if len(got) < 4 || len(got) > 5 || !slices.Equal(got[:3], want) || !strings.Contains(strings.Join(got[3:], "\n"), eve) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A sign-in that cannot be recorded begins no session. A provider ends sessions all the same.
func TestASignInThatCannotBeRecordedIsRefused(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "audit")
	p := startProvider(t)
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yamlOf(p, ""), DataDir: dir})
	b := newBrowser(t, r)
	b.signIn("/")
	cookie := cookieOf(b)
	r.Halt()
	// Neither intents nor records can be written where folders have their names.
	for _, name := range []string{"intents.log", "low-0001-000000000001.jsonl"} {
		path := filepath.Join(dir, "audit", name)
		if err := os.Rename(path, path+".aside"); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yamlOf(p, ""), DataDir: dir})
	b = newBrowser(t, r)
	if page := b.signIn("/"); page.status != http.StatusServiceUnavailable || !strings.Contains(page.body, "The audit cannot record") {
		t.Errorf("%d %s", page.status, page.body)
	}
	if _, status := b.me(); status != http.StatusUnauthorized {
		t.Errorf("%d", status)
	}
	r.Do(http.MethodGet, "/api/auth/me", "", "Cookie", cookie).Succeeds(t)
	if status := logOut(r, p.logoutToken(map[string]any{"sid": "seat-1"})); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if reply := r.Do(http.MethodGet, "/api/auth/me", "", "Cookie", cookie); reply.Status != http.StatusUnauthorized {
		t.Errorf("%d", reply.Status)
	}
}

// Who comes back from the provider without any role has left: the sessions end, and the keys sleep.
func TestWhoHasNoRoleAnyMoreHasLeft(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "selfservice")
	p := startProvider(t)
	p.claims["groups"] = "staff"
	r := gatewaytest.Start(t, yamlOf(p, "services: {chat: {instances: [{name: m, base-url: '"+gatewaytest.StartBackend(t).URL()+"'}]}}\n"))
	b := newBrowser(t, r)
	b.signIn("/")
	cookie := cookieOf(b)
	made := gatewaytest.DataOf[map[string]any](t, r.API(http.MethodPost, "/api/me/keys", "{}", "Cookie", cookie).Is(t, http.StatusCreated))
	key, _ := made["key"].(string)
	ask := func() gatewaytest.Reply {
		return r.Chat(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "Authorization", "Bearer "+key)
	}
	ask().Succeeds(t)
	p.set(func() { p.claims["groups"] = "visitors" })
	if page := newBrowser(t, r).signIn("/"); page.status != http.StatusForbidden {
		t.Fatalf("%d %s", page.status, page.body)
	}
	r.API(http.MethodGet, "/api/auth/me", "", "Cookie", cookie).Is(t, http.StatusUnauthorized, "ended")
	if reply := ask(); reply.Status != http.StatusUnauthorized || !strings.Contains(reply.Body, "sleeps") && !strings.Contains(reply.Body, "no longer") {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	p.set(func() { p.claims["groups"] = "staff" })
	if page := b.signIn("/"); page.status != http.StatusSeeOther {
		t.Fatalf("%d %s", page.status, page.body)
	}
	ask().Succeeds(t)
}

// A rule about an e-mail address does not hold for one that the provider has not verified, in the id token or
// at userinfo.
func TestUnverifiedAddressesGiveNoRole(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	r := gatewaytest.Start(t, strings.Replace(yamlOf(p, ""), rules, "[{claim: email, value: boss@example.com, role: ADMIN}]", 1))
	for _, c := range []struct {
		token, info map[string]any
		want        int
	}{
		{map[string]any{"sub": "1", "email": "boss@example.com", "email_verified": false}, nil, http.StatusForbidden},
		{map[string]any{"sub": "1"}, map[string]any{"sub": "1", "email": "boss@example.com", "email_verified": false}, http.StatusForbidden},
		{map[string]any{"sub": "1", "email": "boss@example.com", "email_verified": true}, nil, http.StatusSeeOther},
		{map[string]any{"sub": "1", "email": "boss@example.com"}, nil, http.StatusForbidden},
		{map[string]any{"sub": "1", "email": "boss@example.com"}, map[string]any{"sub": "1", "email_verified": true}, http.StatusForbidden},
		{map[string]any{"sub": "1", "email": "boss@example.com", "email_verified": "FALSE"}, nil, http.StatusForbidden},
		{map[string]any{"sub": "1"}, map[string]any{"sub": "1", "email": "boss@example.com", "email_verified": true}, http.StatusSeeOther},
	} {
		p.set(func() {
			p.claims, p.info = c.token, c.info
			if p.info == nil {
				p.info = map[string]any{"sub": "1"}
			}
		})
		if page := newBrowser(t, r).signIn("/"); page.status != c.want {
			t.Errorf("%v %v: %d", c.token, c.info, page.status)
		}
	}
	if got := strings.Count(r.Logs.String(), "e-mail addresses of this provider do not count"); got != 1 {
		t.Errorf("got %d warnings about tokens without email_verified, want 1", got)
	}
}
