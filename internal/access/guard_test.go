package access_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestKeysAreGoodForTheirServicesAndModels(t *testing.T) {
	chat, models := []schema.ServiceType{schema.Chat}, []string{"m", "n"}
	for _, test := range []struct {
		key     access.Key
		service schema.ServiceType
		model   string
		want    bool
	}{
		{access.Key{}, schema.TTS, "x", true},
		{access.Key{Terms: access.Terms{Services: chat}}, schema.Chat, "x", true},
		{access.Key{Terms: access.Terms{Services: chat}}, schema.TTS, "x", false},
		{access.Key{Terms: access.Terms{Models: models}}, schema.TTS, "n", true},
		{access.Key{Terms: access.Terms{Models: models}}, schema.TTS, "x", false},
		{access.Key{Terms: access.Terms{Services: chat, Models: models}}, schema.Chat, "m", true},
		{access.Key{Terms: access.Terms{Services: chat, Models: models}}, schema.Chat, "x", false},
		{access.Key{Terms: access.Terms{Services: chat, Models: models}}, schema.TTS, "m", false},
	} {
		grant := grantOf(t, access.Settings{Keys: []access.Key{test.key}})
		err := grant.RefuseModel(test.service, []byte(test.model))
		if (err == nil) != test.want || err != nil && err.Code != schema.CodePermissionDenied {
			t.Errorf("%+v for %s of %s: %v", test.key, test.model, test.service, err)
		}
		if caller := (&access.Caller{Grant: grant}); caller.MayUse(test.service, test.model) != test.want {
			t.Errorf("%+v may use %s of %s: %t", test.key, test.model, test.service, !test.want)
		}
	}
	if open := (&access.Caller{}); !open.MayUse(schema.TTS, "x") {
		t.Error("a caller who needs no key is refused a model")
	}
}

// grantOf returns what the first key of the settings allows.
func grantOf(t *testing.T, s access.Settings) *access.Grant {
	t.Helper()
	s.Enabled, s.Keys[0].ID, s.Keys[0].KeySHA256 = true, "k", access.HashOf("secret")
	grant, err := openKeys(t, t.TempDir(), s).Guard().Identify(http.Header{"X-Api-Key": {"secret"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func TestModelsOfAKeyMayBePatterns(t *testing.T) {
	for pattern, test := range map[string]struct{ good, bad []string }{
		"gpt":     {[]string{"gpt"}, []string{"", "gp", "gpt2", "GPT"}},
		"gpt-*":   {[]string{"gpt-", "gpt-5", "gpt-*"}, []string{"gpt", "a-gpt-5"}},
		"*":       {[]string{"", "gpt"}, nil},
		"*:7b":    {[]string{"qwen:7b", ":7b"}, []string{"7b", "qwen:7b:x"}},
		"a*b*c":   {[]string{"abc", "axbxc", "abbc", "a-bc-bc"}, []string{"ac", "abcd", "acb", "xabc"}},
		"ab*ba":   {[]string{"abba", "abxba"}, []string{"aba", "ab", "ba"}},
		"a**b":    {[]string{"ab", "axb"}, []string{"a", "b"}},
		"*a*a*":   {[]string{"aa", "xaxax"}, []string{"a", "xax"}},
		"x*aab*y": {[]string{"xaaaby"}, []string{"xaby"}},
	} {
		grant := grantOf(t, access.Settings{Keys: []access.Key{{Terms: access.Terms{Models: []string{"other", pattern}}}}})
		for _, name := range append(test.good, "other") {
			if !grant.MayUse(schema.Chat, name) {
				t.Errorf("%q does not match %q", pattern, name)
			}
		}
		for _, name := range test.bad {
			if grant.MayUse(schema.Chat, name) {
				t.Errorf("%q matches %q", pattern, name)
			}
		}
	}
}

func TestKeysAreFoundWhereClientsPutThem(t *testing.T) {
	guard := openKeys(t, t.TempDir(), access.Settings{Enabled: true, Keys: []access.Key{{ID: "k", KeySHA256: access.HashOf("secret")}}}).Guard()
	for _, test := range []struct {
		header         http.Header
		presents, want bool
	}{
		{http.Header{}, false, false},
		{http.Header{"Authorization": {"Bearer secret"}}, true, true},
		{http.Header{"Authorization": {"bearer  secret "}}, true, true},
		{http.Header{"Authorization": {"Bearer other"}}, true, false},
		{http.Header{"Authorization": {"Basic secret"}}, false, false},
		{http.Header{"X-Api-Key": {"secret"}}, true, true},
		{http.Header{"Api-Key": {"secret"}}, true, true},
		{http.Header{"Jairouter_token": {"secret"}}, true, true},
		{http.Header{"Api-Key": {"other"}, "Jairouter_token": {"secret"}}, true, false},
		{http.Header{"X-Api-Key": {"other"}, "Api-Key": {"secret"}}, true, false},
		{http.Header{"Authorization": {"Bearer secret"}, "X-Api-Key": {"other"}}, true, true},
	} {
		key, err := guard.Identify(test.header, time.Now())
		if (err == nil) != test.want || err == nil && key.ID != "k" || err != nil && err.Code != schema.CodeInvalidAPIKey {
			t.Errorf("%v: %+v, %v", test.header, key, err)
		}
		if access.Presents(test.header) != test.presents {
			t.Errorf("%v presents a key: %t", test.header, !test.presents)
		}
	}
}

func TestKeysAndTokensAreGoodUntilTheyExpire(t *testing.T) {
	const expiry = "2030-01-01T00:00:00Z"
	end, _ := time.Parse(time.RFC3339, expiry)
	c := openKeys(t, t.TempDir(), access.Settings{Enabled: true})
	key, issued, err := c.Keys.Issue(t.Context(), access.IssuedKey{Key: access.Key{Terms: access.Terms{ExpiresAt: expiry}}}, access.Change{By: "ops", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	token, issuedToken, err := c.Tokens.Issue(t.Context(), access.IssuedToken{Token: access.Token{Role: access.Admin}, ExpiresAt: expiry}, access.Change{By: "ops", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[time.Time]bool{end.Add(-time.Second): true, end: true, end.Add(time.Second): false} {
		status := "EXPIRED"
		if want {
			status = "ACTIVE"
		}
		if _, err := c.Guard().Identify(http.Header{"X-Api-Key": {key}}, now); (err == nil) != want || issued.Status(now) != status {
			t.Errorf("the key at %v: %v, %s", now, err, issued.Status(now))
		}
		if _, known, presents := c.Roster().Identify(http.Header{"Authorization": {"Bearer " + token}}, now); known != want || !presents || issuedToken.Status(now) != status {
			t.Errorf("the token at %v: %t, %s", now, known, issuedToken.Status(now))
		}
	}
}

// A key in the file and a key that was issued are two, not none.
func TestKeysOfTheFileAndIssuedOnesAreBothAskedFor(t *testing.T) {
	c := openKeys(t, t.TempDir(), access.Settings{Enabled: true, Keys: []access.Key{{ID: "file", KeySHA256: access.HashOf("from-file")}}})
	text, _, err := c.Keys.Issue(t.Context(), access.IssuedKey{}, access.Change{By: "ops", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if !lets(c, "from-file") || !lets(c, text) || lets(c, "other") {
		t.Error("a key is refused, or everybody is let in")
	}
}

func TestRosterKnowsWhetherItHasAnAdministrator(t *testing.T) {
	now := time.Now()
	token := func(role access.Role) []access.Token {
		return []access.Token{{Name: "t", Role: role, TokenSHA256: access.HashOf("t")}}
	}
	for _, test := range []struct {
		name   string
		tokens []access.Token
		issued access.IssuedToken
		empty  bool
		admin  bool
	}{
		{name: "none", empty: true},
		{name: "a viewer", tokens: token(access.Viewer)},
		{name: "an administrator", tokens: token(access.Admin), admin: true},
		{name: "issued", issued: access.IssuedToken{Token: access.Token{Role: access.Admin}, ExpiresAt: now.Add(time.Hour).Format(time.RFC3339)}, admin: true},
		{name: "expired", issued: access.IssuedToken{Token: access.Token{Role: access.Admin}, ExpiresAt: now.Add(-time.Hour).Format(time.RFC3339)}},
	} {
		c := openKeys(t, t.TempDir(), access.Settings{Enabled: true, Tokens: test.tokens})
		if test.issued.Role != 0 {
			if _, _, err := c.Tokens.Issue(t.Context(), test.issued, access.Change{By: "ops", At: now}); err != nil {
				t.Fatal(err)
			}
		}
		if roster := c.Roster(); roster.Empty() != test.empty || roster.HasAdmin(now) != test.admin {
			t.Errorf("%s: empty %t, has an administrator %t", test.name, roster.Empty(), roster.HasAdmin(now))
		}
	}
}
