package signin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
	"github.com/patchbay-ai/patchbay/internal/wings/signin"
)

func rule(claim, value, role, tenant string, models ...string) signin.Rule {
	return signin.Rule{Match: jwt.Match{Claim: claim, Value: jwt.Texts{value}}, Role: signin.Role(role), Tenant: tenant, Terms: access.Terms{Models: models}}
}

func TestRulesGiveRoles(t *testing.T) {
	t.Parallel()
	p := signin.Provider{Rules: []signin.Rule{
		rule("groups", "viewers", "VIEWER", ""), rule("groups", "admins", "ADMIN", ""), rule("email_verified", "true", "OPERATOR", ""),
		rule("groups", "red", "", "red", "small"), rule("groups", "red-leads", "TEAM_ADMIN", "red", "large"), rule("a.b", "blue", "MEMBER", "blue"),
	}}
	for _, test := range []struct {
		name   string
		claims jwt.Claims
		want   string
	}{
		{"nothing", jwt.Claims{"groups": []any{"others"}, "email": "admins"}, " []"},
		{"the first whole role", jwt.Claims{"groups": []any{"admins", "viewers"}}, "VIEWER []"},
		{"a later one", jwt.Claims{"groups": "admins"}, "ADMIN []"},
		{"a boolean", jwt.Claims{"email_verified": true}, "OPERATOR []"},
		{"the higher role, the first terms", jwt.Claims{"groups": []any{"red-leads", "red"}}, " [red TEAM_ADMIN [small]]"},
		{"several tenants", jwt.Claims{"groups": []any{"red", "admins"}, "a": map[string]any{"b": []any{"blue"}}}, "ADMIN [red MEMBER [small] blue MEMBER []]"},
		{"the name itself before a path", jwt.Claims{"a.b": "x", "a": map[string]any{"b": "blue"}}, " []"},
	} {
		// The claims that a session keeps give the same.
		for how, claims := range map[string]jwt.Claims{"token": test.claims, "session": signin.Restored(p.Kept(test.claims))} {
			who := p.Rights(claims)
			var list []string
			for _, m := range who.Memberships {
				list = append(list, fmt.Sprint(m.Tenant, " ", m.Role, " ", m.Terms.Models))
			}
			if got := fmt.Sprint(who.Role, " ", list); got != test.want {
				t.Errorf("%s, %s: %s, want %s", test.name, how, got, test.want)
			}
		}
	}
}

// Only values that rules name are kept, and a claim of the first source hides that of the next.
func TestFewClaimsAreKept(t *testing.T) {
	t.Parallel()
	p := signin.Provider{Rules: []signin.Rule{rule("groups", "ops", "VIEWER", ""), rule("dept", "it", "VIEWER", "")}}
	kept := p.Kept(jwt.Claims{"groups": []any{"secret project", "x"}, "email": "a@example.com"}, jwt.Claims{"groups": "ops", "dept": []any{"it", "it", "hr"}})
	if fmt.Sprint(kept) != "map[dept:[it]]" {
		t.Errorf("%v", kept)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	good := func() signin.Provider {
		return signin.Provider{Name: "corp", Issuer: "https://id.example.com/realms/a", ClientID: "c", Rules: []signin.Rule{rule("g", "v", "ADMIN", "")}}
	}
	for _, test := range []struct {
		path   string
		change func(*signin.Provider)
	}{
		{"", func(*signin.Provider) {}},
		{"", func(p *signin.Provider) { p.Rules[0] = rule("g", "v", "", "t") }},
		{"[0].name", func(p *signin.Provider) { p.Name = "" }},
		{"[0].name", func(p *signin.Provider) { p.Name = "a b" }},
		{"[0].issuer", func(p *signin.Provider) { p.Issuer = "" }},
		{"[0].issuer", func(p *signin.Provider) { p.Issuer = "ftp://id.example.com" }},
		{"[0].issuer", func(p *signin.Provider) { p.Issuer = "http://169.254.169.254/" }},
		{"[0].issuer", func(p *signin.Provider) { p.Issuer = "https://id.example.com/?a=b" }},
		{"[0].clientId", func(p *signin.Provider) { p.ClientID = "" }},
		{"[0].scopes[0]", func(p *signin.Provider) { p.Scopes = []string{"a b"} }},
		{"[0].rules", func(p *signin.Provider) { p.Rules = nil }},
		{"[0].rules[0].role", func(p *signin.Provider) { p.Rules[0] = rule("g", "v", "", "") }},
		{"[0].rules[0].tenant", func(p *signin.Provider) { p.Rules[0] = rule("g", "v", "ADMIN", "t") }},
		{"[0].rules[0].tenant", func(p *signin.Provider) { p.Rules[0] = rule("g", "v", "MEMBER", "") }},
		{"[0].rules[0].claim", func(p *signin.Provider) { p.Rules[0].Claim = "" }},
		{"[0].rules[0].value", func(p *signin.Provider) { p.Rules[0].Value = nil }},
		{"[0].rules[0].terms.models[0]", func(p *signin.Provider) { p.Rules[0].Terms.Models = []string{""} }},
	} {
		p := good()
		test.change(&p)
		var paths []string
		signin.Settings{p}.Check(func(path string, _ say.Sentence) { paths = append(paths, path) })
		if test.path == "" && paths != nil || test.path != "" && !slices.Equal(paths, []string{test.path}) {
			t.Errorf("%+v: %v, want %q", p, paths, test.path)
		}
	}
	var paths []string
	report := func(path string, _ say.Sentence) { paths = append(paths, path) }
	signin.Settings{good(), good()}.Check(report)
	signin.Settings{good()}.CheckTogether(false, "", report)
	signin.Settings{}.CheckTogether(false, "", report)
	if fmt.Sprint(paths) != "[[1].name security.oidc server.publicUrl]" {
		t.Errorf("%v", paths)
	}
}

// Doctor says in words what is wrong with a provider.
func TestDoctorExaminesProviders(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	defer server.Close()
	away := httptest.NewServer(nil)
	away.Close()
	keys := `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}`
	for name, test := range map[string]struct{ issuer, meta, keys, level, says string }{
		"good":      {"", `"authorization_endpoint":"U/a","token_endpoint":"U/t","jwks_uri":"U/keys","backchannel_logout_supported":true`, keys, "ok", "1 key; it tells when people sign out there"},
		"no logout": {"", `"authorization_endpoint":"U/a","token_endpoint":"U/t","jwks_uri":"U/keys"`, keys, "ok", "max-age bounds their sessions"},
		"slash":     {"/", `"authorization_endpoint":"U/a","token_endpoint":"U/t","jwks_uri":"U/keys"`, keys, "fail", "the provider calls itself U, and not U/; write issuer just as the provider does; fix: compare issuer"},
		"no keys":   {"", `"authorization_endpoint":"U/a","token_endpoint":"U/t","jwks_uri":"U/keys"`, `{"keys":[]}`, "fail", "no public key"},
		"no PKCE":   {"", `"authorization_endpoint":"U/a","token_endpoint":"U/t","jwks_uri":"U/keys","code_challenge_methods_supported":["plain"]`, keys, "warn", "PKCE"},
		"no secret": {"", `"authorization_endpoint":"U/a","token_endpoint":"U/t","jwks_uri":"U/keys","token_endpoint_auth_methods_supported":["private_key_jwt"]`, keys, "fail", "takes no client secret"},
		"no token":  {"", `"authorization_endpoint":"U/a","jwks_uri":"U/keys"`, keys, "fail", "token_endpoint"},
		"away":      {"away", "", "", "fail", "connection refused; fix: see whether the provider runs"},
	} {
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/keys" {
				_, _ = w.Write([]byte(test.keys))
				return
			}
			_, _ = w.Write([]byte(strings.ReplaceAll(`{"issuer":"U",`+test.meta+`}`, "U", server.URL)))
		})
		issuer := server.URL + test.issuer
		if test.issuer == "away" {
			issuer = away.URL
		}
		found := map[string]string{}
		signin.Settings{{Name: "corp", Issuer: issuer, ClientID: "c", ClientSecret: "s"}}.Examine("https://ai.example.com",
			func(level, _, message, fix string) { found[level] += message + "; fix: " + fix })
		if want := strings.ReplaceAll(test.says, "U", server.URL); !strings.Contains(found[test.level], want) && !strings.Contains(found[test.level], test.says) {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// An address that the provider does not state as verified is what its owner wrote: it gives no role at
// sign-in nor from the claims that a session keeps.
func TestOnlyVerifiedAddressesGiveRoles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		verified any // nil: no such claim
		trusts   bool
		want     access.Role
	}{
		{true, false, access.Operator}, {"true", false, access.Operator},
		{nil, false, 0}, {false, false, 0}, {"false", false, 0}, {"FALSE", false, 0}, {"no", false, 0}, {"", false, 0},
		{0.0, false, 0}, {1.0, false, 0}, {"1", false, 0}, {"True", false, 0}, {[]any{true}, false, 0}, {[]any{"true"}, false, 0},
		{map[string]any{"true": true}, false, 0}, {null{}, false, 0},
		{nil, true, access.Operator}, {false, true, access.Operator},
	} {
		p := signin.Provider{TrustEmail: test.trusts, Rules: []signin.Rule{rule("email", "boss@example.com", "OPERATOR", "")}}
		claims := jwt.Claims{"email": "boss@example.com", "email_verified": test.verified}
		switch test.verified {
		case nil:
			delete(claims, "email_verified")
		case null{}:
			claims["email_verified"] = nil
		}
		kept := p.Kept(claims)
		for how, claims := range map[string]jwt.Claims{"token": claims, "session": signin.Restored(kept)} {
			if got := p.Rights(claims).Role; got != test.want {
				t.Errorf("email_verified %v, trusted %v, %s: got role %q, want %q", test.verified, test.trusts, how, got, test.want)
			}
		}
		// A session does not keep a role that was given while the provider was trusted with addresses.
		p.TrustEmail = false
		if got, want := p.Rights(signin.Restored(kept)).Role, p.Rights(claims).Role; got != want {
			t.Errorf("email_verified %v, trusted before: got role %q, want %q", test.verified, got, want)
		}
	}
}

// null stands for a claim that is null.
type null struct{}

// A verified address of a later source counts if the first has an unverified one.
func TestTheVerifiedAddressOfSeveralCounts(t *testing.T) {
	t.Parallel()
	p := signin.Provider{Rules: []signin.Rule{rule("email", "boss@example.com", "OPERATOR", "")}}
	own := jwt.Claims{"email": "boss@example.com"}
	vouched := jwt.Claims{"email": "eve@example.com", "email_verified": true}
	if got := p.Rights(signin.Restored(p.Kept(own, vouched))).Role; got != 0 {
		t.Errorf("another address is verified: got role %q, want none", got)
	}
	vouched["email"] = "boss@example.com"
	if got := p.Rights(signin.Restored(p.Kept(own, vouched))).Role; got != access.Operator {
		t.Errorf("the address is verified: got role %q, want OPERATOR", got)
	}
}

func TestCheckNamesProvidersWithRulesForAddresses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		claim  string
		trusts bool
		want   string
	}{
		{"groups", false, "[]"},
		{"email", false, "[security.oidc[0].rules of corp]"},
		{"email", true, "[security.oidc[0].rules[0].claim the provider corp]"},
	} {
		var got []string
		s := signin.Settings{{Name: "corp", Issuer: "https://id.example.com", TrustEmail: test.trusts, Rules: []signin.Rule{rule(test.claim, "v", "VIEWER", "")}}}
		s.Lint("https://ai.example.com", func(path, message string) {
			message, _, _ = strings.Cut(strings.Replace(message, " decides", ":", 1), ":")
			got = append(got, path+" "+message)
		})
		if fmt.Sprint(got) != test.want {
			t.Errorf("claim %s, trusted %v: got %v, want %s", test.claim, test.trusts, got, test.want)
		}
	}
}
