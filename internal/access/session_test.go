package access_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
)

func bearing(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func TestSessionsAreGoodWhileTheirTokenIs(t *testing.T) {
	log := &fakeLog{values: map[string][]byte{}}
	secured := access.Settings{Enabled: true, Tokens: []access.Token{{Name: "file", Role: access.Viewer, TokenSHA256: access.HashOf("from-file")}}}
	path := t.TempDir()
	one, two := log.join(openKeys(t, t.TempDir(), secured)), log.join(openKeys(t, path, secured))
	now := time.Now()
	token, issued, err := one.Tokens.Issue(t.Context(), access.IssuedToken{Token: access.Token{Name: "t", Role: access.Operator}}, access.Change{By: "ops", At: now})
	if err != nil {
		t.Fatal(err)
	}
	session, end, err := one.BeginSession(t.Context(), bearing(token), now, 0)
	if err != nil || !end.Equal(now.Add(access.SessionLife).Truncate(time.Second)) {
		t.Fatalf("%v until %v", err, end)
	}
	ofFile, _, err := two.BeginSession(t.Context(), bearing("from-file"), now, 0)
	if err != nil {
		t.Fatal(err)
	}
	role := func(c *access.Credentials, text string, at time.Time) access.Role {
		who, err := c.Roster().Session(text, at)
		known := err == nil
		if known != who.Role.Valid() {
			t.Errorf("%+v %t", who, known)
		}
		return who.Role
	}
	restarted := openKeys(t, path, secured)
	for name, c := range map[string]*access.Credentials{"the same gateway": one, "another one": two, "another one, restarted": restarted} {
		if role(c, session, now) != access.Operator || role(c, ofFile, now) != access.Viewer {
			t.Errorf("%s does not know the sessions", name)
		}
		if _, err := c.Roster().Session(session, end.Add(time.Second)); !errors.Is(err, access.ErrSessionOver) {
			t.Errorf("%s: the session has no end: %v", name, err)
		}
	}
	if stranger := openKeys(t, t.TempDir(), secured); role(stranger, ofFile, now) != 0 {
		t.Error("a gateway with the same token and another key knows the session")
	}
	if err := two.Tokens.Revoke(t.Context(), issued.Name, access.Change{By: "ops", At: now}); err != nil {
		t.Fatal(err)
	}
	if role(one, session, now) != 0 || role(two, session, now) != 0 {
		t.Error("the token is dead and its session lives")
	}
	if role(one, ofFile, now) != access.Viewer {
		t.Error("the session of another token died with it")
	}
}

func TestSessionsEndWithTheirToken(t *testing.T) {
	c := openKeys(t, t.TempDir(), access.Settings{Enabled: true})
	now := time.Now()
	expiry := now.Add(time.Hour).Truncate(time.Second)
	token, _, err := c.Tokens.Issue(t.Context(), access.IssuedToken{Token: access.Token{Name: "t", Role: access.Admin}, ExpiresAt: expiry.Format(time.RFC3339)}, access.Change{By: "ops", At: now})
	if err != nil {
		t.Fatal(err)
	}
	session, end, err := c.BeginSession(t.Context(), bearing(token), now, 0)
	if err != nil || !end.Equal(expiry) {
		t.Fatalf("%v until %v", err, end)
	}
	if who, err := c.Roster().Session(session, now); err != nil || !who.SeesSecrets || who.Name != "t" {
		t.Errorf("%+v", who)
	}
	if _, err := c.Roster().Session(session, expiry.Add(time.Second)); !errors.Is(err, access.ErrSessionToken) {
		t.Error("the token has expired and its session has not:", err)
	}
	rotated, _, err := c.Tokens.Rotate(t.Context(), "t", access.Change{At: now})
	if err != nil || rotated == token {
		t.Fatal(err)
	}
	if _, err := c.Roster().Session(session, now); !errors.Is(err, access.ErrSessionToken) {
		t.Error("the token was rotated and the session of the old one lives:", err)
	}
}

func TestNobodyMakesASessionWithoutAToken(t *testing.T) {
	now := time.Now()
	secured := access.Settings{Enabled: true, Tokens: []access.Token{{Name: "file", Role: access.Admin, TokenSHA256: access.HashOf("from-file")}}}
	c := openKeys(t, t.TempDir(), secured)
	for _, header := range []http.Header{{}, bearing("wrong"), bearing(access.HashOf("from-file"))} {
		if text, _, err := c.BeginSession(t.Context(), header, now, 0); !errors.Is(err, access.ErrNoToken) || text != "" {
			t.Errorf("%v: %q %v", header, text, err)
		}
	}
	if open := openKeys(t, t.TempDir(), access.Settings{}); open.Roster() == nil {
		if _, _, err := open.BeginSession(t.Context(), bearing("from-file"), now, 0); !errors.Is(err, access.ErrNoToken) {
			t.Errorf("an open gateway: %v", err)
		}
	}
	session, _, err := c.BeginSession(t.Context(), bearing("from-file"), now, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(session) {
		other := []byte(session)
		other[i] ^= 1
		if _, err := c.Roster().Session(string(other), now); !errors.Is(err, access.ErrSessionUnknown) {
			t.Errorf("a session with another character at %d: %v", i, err)
		}
	}
	for _, text := range []string{"", "s1.", session[:len(session)-1], session + "A", "from-file"} {
		if _, err := c.Roster().Session(text, now); !errors.Is(err, access.ErrSessionUnknown) {
			t.Errorf("%q is a session: %v", text, err)
		}
	}
}
