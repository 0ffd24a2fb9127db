package callertokens_test

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/testing/jwttest"
	"github.com/patchbay-ai/patchbay/internal/wings/callertokens"
)

const key = "pb-0123456789012345678901234567890123456789012"

// callers returns callers with a key and an issuer.
func callers(t testing.TB, settings access.Settings, issuer callertokens.Issuer) access.Callers {
	t.Helper()
	c, _ := callersAnd(t, settings, issuer)
	return c
}

func callersAnd(t testing.TB, settings access.Settings, issuer callertokens.Issuer) (access.Callers, *callertokens.Issuers) {
	t.Helper()
	dir, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	settings.Enabled, settings.Keys = true, []access.Key{{ID: "k", KeySHA256: access.HashOf(key)}}
	credentials, err := access.OpenCredentials(dir, settings, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	issuers := callertokens.New(callertokens.Settings{issuer}, nil, nil)
	t.Cleanup(issuers.Close)
	credentials.SetIssuers(issuers)
	return access.Callers{Credentials: credentials}, issuers
}

func company(i *jwttest.Issuer) callertokens.Issuer {
	return callertokens.Issuer{Name: "company", Issuer: "i", Audience: jwt.Texts{"a"}, JWKSURL: i.URL,
		MaxAge: schema.Duration(24 * time.Hour)}
}

func header(credential string) http.Header {
	return http.Header{"Authorization": {"Bearer " + credential}}
}

// claimsOf has as many claims as tokens of companies do.
func claimsOf(subject string) map[string]any {
	return jwttest.Claims("i", "a", subject, map[string]any{
		"preferred_username": "ada", "email": "ada@example.com", "groups": strings.Fields(strings.Repeat("some-group-of-people ", 20)),
		"realm_access": map[string]any{"roles": []string{"llm-user", "offline_access", "uma_authorization"}},
	})
}

func TestIdsOfSubjectsAreStableAndTellThemApart(t *testing.T) {
	i := jwttest.New(t)
	of := func(c access.Callers, subject string) string {
		grant, refusal := c.Identify(header(i.Sign(claimsOf(subject))), netip.Addr{})
		if refusal != nil {
			t.Fatal(refusal)
		}
		return grant.ID
	}
	const master, other = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	one, two := callers(t, access.Settings{MasterKey: master}, company(i)), callers(t, access.Settings{MasterKey: master}, company(i))
	id := of(one, "ada")
	if len(id) != len("jwt:company:")+16 || !strings.HasPrefix(id, "jwt:company:") || strings.Contains(id, "ada") {
		t.Errorf("the id is %s", id)
	}
	if of(one, "ada") != id || of(two, "ada") != id {
		t.Error("gateways with one master key disagree")
	}
	if of(one, "bob") == id || of(callers(t, access.Settings{MasterKey: other}, company(i)), "ada") == id {
		t.Error("another subject, or another master key, gives the same id")
	}
	alone := callers(t, access.Settings{}, company(i)) // without a master key
	first, again := of(alone, "ada"), of(alone, "ada")
	if first != again || first == of(alone, "bob") {
		t.Error("without a master key")
	}
}

func TestABatchOutlivesItsTokenButNotItsRule(t *testing.T) {
	i := jwttest.New(t)
	settings := company(i)
	settings.Rules = []callertokens.Rule{{Match: jwt.Match{Claim: "realm_access.roles", Value: jwt.Texts{"llm-user"}}, Tenant: "red"}}
	c := callers(t, access.Settings{}, settings)
	ends := claimsOf("ada")
	ends["exp"] = time.Now().Add(-50 * time.Second).Unix() // within the skew
	ends["iat"] = time.Now().Add(-time.Hour).Unix()
	grant, refusal := c.Identify(header(i.Sign(ends)), netip.Addr{})
	if refusal != nil {
		t.Fatal(refusal)
	}
	if _, refusal := c.IdentifyAgain(header(i.Sign(ends)), netip.Addr{}); refusal == nil || refusal.Code != schema.CodeInvalidToken {
		t.Errorf("what the token began goes on after its end: %v", refusal)
	}
	again, isGood := c.Bearer(grant.ID, "", grant.Claims())
	if !isGood || again.Tenant != "red" || again.ID != grant.ID {
		t.Errorf("%v %+v", isGood, again)
	}
	if _, isGood := c.Bearer("jwt:company:0123456789abcdef", "", grant.Claims()); isGood {
		t.Error("the claims of one are good for another")
	}
	if _, isGood := c.Bearer("jwt:other:0123456789abcdef", "", grant.Claims()); isGood {
		t.Error("an unknown issuer")
	}
	if c.Credentials.IsRemoved(grant.ID, "") || !c.Credentials.IsRemoved("jwt:other:0123456789abcdef", "") {
		t.Error("which subjects are removed")
	}
	settings.Rules[0].Value = jwt.Texts{"others"}
	changed := callertokens.New(callertokens.Settings{settings}, nil, nil)
	t.Cleanup(changed.Close)
	c.Credentials.SetIssuers(changed)
	if _, isGood := c.Bearer(grant.ID, "", grant.Claims()); isGood {
		t.Error("the batch goes on without its rule")
	}
	c.Credentials.SetIssuers(nil)
	if _, isGood := c.Bearer(grant.ID, "", grant.Claims()); isGood || !c.Credentials.IsRemoved(grant.ID, "") {
		t.Error("the batch goes on without its issuer")
	}
}

// An e-mail address that the issuer does not state as verified decides neither a rule nor the tenant.
func TestOnlyVerifiedAddressesLetCallersIn(t *testing.T) {
	i := jwttest.New(t)
	for _, test := range []struct {
		verified any // nil: no such claim
		trusts   bool
		isIn     bool
		user     string
	}{
		{true, false, true, "boss@example.com"}, {"true", false, true, "boss@example.com"},
		{nil, false, false, "boss@example.com"}, {false, false, false, ""}, {"false", false, false, ""},
		{"FALSE", false, false, ""}, {"no", false, false, ""}, {0, false, false, ""}, {1, false, false, ""},
		{[]bool{true}, false, false, ""}, {nil, true, true, "boss@example.com"}, {false, true, true, "boss@example.com"},
	} {
		more := map[string]any{"email": "boss@example.com"}
		if test.verified != nil {
			more["email_verified"] = test.verified
		}
		token := header(i.Sign(jwttest.Claims("i", "a", "eve", more)))
		byRule, byTenant, byUser := company(i), company(i), company(i)
		byRule.TrustEmail, byTenant.TrustEmail, byUser.TrustEmail = test.trusts, test.trusts, test.trusts
		byRule.Rules = []callertokens.Rule{{Match: jwt.Match{Claim: "email", Value: jwt.Texts{"boss@example.com"}}}}
		byTenant.Claims.Tenant, byUser.Claims.User = "email", "email"
		for what, settings := range map[string]callertokens.Issuer{"rule": byRule, "tenant": byTenant} {
			c := callers(t, access.Settings{}, settings)
			grant, refusal := c.Identify(token, netip.Addr{})
			if isIn := refusal == nil; isIn != test.isIn {
				t.Errorf("%s, email_verified %v, trusted %v: let in %v, want %v", what, test.verified, test.trusts, isIn, test.isIn)
			}
			if refusal != nil {
				continue
			}
			if _, isGood := c.Bearer(grant.ID, "", grant.Claims()); !isGood {
				t.Errorf("%s, email_verified %v, later: not let in", what, test.verified)
			}
		}
		grant, refusal := callers(t, access.Settings{}, byUser).Identify(token, netip.Addr{})
		if refusal != nil {
			t.Fatal(refusal)
		}
		if got, _ := grant.UserOf(nil); got != test.user {
			t.Errorf("email_verified %v: got user %q, want %q", test.verified, got, test.user)
		}
	}
}

// An issuer whose rules use the e-mail address and whose tokens do not state email_verified is logged once.
func TestTheLogNamesIssuersWithoutEmailVerified(t *testing.T) {
	i := jwttest.New(t)
	settings := company(i)
	settings.Rules = []callertokens.Rule{{Match: jwt.Match{Claim: "email", Value: jwt.Texts{"boss@example.com"}}}}
	trusting := settings
	trusting.TrustEmail = true
	for _, test := range []struct {
		settings callertokens.Issuer
		claims   map[string]any
		want     int
	}{
		{settings, map[string]any{"email": "boss@example.com"}, 1},
		{settings, map[string]any{"email": "boss@example.com", "email_verified": false}, 0},
		{settings, nil, 0},
		{company(i), map[string]any{"email": "boss@example.com"}, 0},
		{trusting, map[string]any{"email": "boss@example.com"}, 0},
	} {
		var log strings.Builder
		issuers := callertokens.New(callertokens.Settings{test.settings}, slog.New(slog.NewTextHandler(&log, nil)), nil)
		for range 3 {
			_, _, _ = issuers.Identify(i.Sign(jwttest.Claims("i", "a", "eve", test.claims)), time.Now())
		}
		issuers.Close()
		if got := strings.Count(log.String(), "provider=company"); got != test.want {
			t.Errorf("claims %v, rules %v: got %d warnings, want %d: %s", test.claims, test.settings.Rules, got, test.want, log.String())
		}
	}
}

// A token of another issuer is no key either; the refusal names the setting, and not the token.
func TestTokensOfUnknownIssuersAreRefused(t *testing.T) {
	i := jwttest.New(t)
	c := callers(t, access.Settings{}, company(i))
	for _, issuer := range []string{"i/", "I", "https://login.example"} {
		token := i.Sign(jwttest.Claims(issuer, "a", "eve", nil))
		grant, refusal := c.Identify(header(token), netip.Addr{})
		if grant != nil || refusal == nil || refusal.Code != schema.CodeInvalidAPIKey ||
			!strings.Contains(refusal.Message, "no security.jwt has this issuer") {
			t.Errorf("issuer %q: got %v, %v", issuer, grant, refusal)
		}
	}
	for _, text := range []string{"pb-unknown", "a.b.c", strings.Repeat("x", 20_000)} {
		if _, refusal := c.Identify(header(text), netip.Addr{}); refusal == nil || strings.Contains(refusal.Message, "security.jwt") {
			t.Errorf("text %.10q: got %v, want an invalid key", text, refusal)
		}
	}
	if _, refusal := c.Identify(header(key), netip.Addr{}); refusal != nil {
		t.Errorf("a key: got %v", refusal)
	}
}

func TestMistakesInSettingsAreFound(t *testing.T) {
	good := callertokens.Issuer{Name: "a", Issuer: "i", Audience: jwt.Texts{"a"}, JWKSURL: "https://login.example/keys", MaxAge: 1}
	for want, edit := range map[string]func(*callertokens.Issuer){
		"":                    func(*callertokens.Issuer) {},
		"[0].name":            func(i *callertokens.Issuer) { i.Name = "a:b" },
		"[0].issuer":          func(i *callertokens.Issuer) { i.Issuer = "" },
		"[0].audience":        func(i *callertokens.Issuer) { i.Audience = nil },
		"[0].jwksUrl":         func(i *callertokens.Issuer) { i.JWKSURL = "http://169.254.169.254/keys" },
		"[0].jwksFile":        func(i *callertokens.Issuer) { i.JWKSFile = "x" },
		"[0].maxAge":          func(i *callertokens.Issuer) { i.MaxAge = 0 },
		"[0].rules[0].claim":  func(i *callertokens.Issuer) { i.Rules = []callertokens.Rule{{Match: jwt.Match{Value: jwt.Texts{"x"}}}} },
		"[0].rules[0].value":  func(i *callertokens.Issuer) { i.Rules = []callertokens.Rule{{Match: jwt.Match{Claim: "x"}}} },
		"[0].terms.models[0]": func(i *callertokens.Issuer) { i.Terms.Models = []string{""} },
	} {
		one := good
		edit(&one)
		var found []string
		callertokens.Settings{one}.Check(func(path string, _ say.Sentence) { found = append(found, path) })
		if got := strings.Join(found, " "); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

// BenchmarkIdentify compares a key with a token that is known, and with one that is verified, of a kilobyte.
func BenchmarkIdentify(b *testing.B) {
	try := func(name string, c access.Callers, headers ...http.Header) {
		b.Run(name, func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				if _, refusal := c.Identify(headers[n%len(headers)], netip.Addr{}); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
	for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.EdDSA, jose.ES256, jose.ES384, jose.ES512} {
		i := jwttest.New(b)
		i.Rotate(algorithm)
		c, issuers := callersAnd(b, access.Settings{}, company(i))
		if algorithm == jose.RS256 {
			try("key", c, header(key))
		}
		try("known/"+string(algorithm), c, header(i.Sign(claimsOf("ada"))))
		b.Run("new/"+string(algorithm), func(b *testing.B) {
			text := header(i.Sign(claimsOf("ada")))
			for b.Loop() {
				b.StopTimer()
				c.Credentials.SetIssuers(issuers) // which forgets it
				b.StartTimer()
				if _, refusal := c.Identify(text, netip.Addr{}); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}
