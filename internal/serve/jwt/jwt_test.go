package jwt_test

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
	"github.com/patchbay-ai/patchbay/internal/testing/jwttest"
)

const (
	issuer   = "https://login.example"
	audience = "patchbay"
)

var expected = jwt.Expected{Issuer: issuer, Audience: []string{audience}, MaxAge: 24 * time.Hour}

func setOf(t testing.TB, i *jwttest.Issuer) *jwt.Set {
	t.Helper()
	set, err := jwt.ReadSet(i.JWKS())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestTokensOfEveryAcceptedAlgorithmAreVerified(t *testing.T) {
	i := jwttest.New(t)
	for _, algorithm := range []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
		jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	} {
		i.Rotate(algorithm)
		text := i.Sign(jwttest.Claims(issuer, audience, "ada", nil))
		claims, err := setOf(t, i).Verify(text, expected, time.Now())
		if err != nil || claims.Subject() != "ada" {
			t.Errorf("%s: %v, %v", algorithm, claims, err)
		}
		last := strings.LastIndexByte(text, '.') + 10 // in the signature
		other := byte('A')
		if text[last] == other {
			other = 'B'
		}
		forged := text[:last] + string(other) + text[last+1:]
		if _, err := setOf(t, i).Verify(forged, expected, time.Now()); err == nil {
			t.Errorf("%s: a forged signature is accepted", algorithm)
		}
	}
}

func TestTokensAreRefusedForAReason(t *testing.T) {
	i, other := jwttest.New(t), jwttest.New(t)
	now := time.Now()
	in := func(d time.Duration) int64 { return now.Add(d).Unix() }
	signed := func(claims map[string]any) string { return i.Sign(jwttest.Claims(issuer, audience, "ada", claims)) }
	plain := jwttest.Claims(issuer, audience, "ada", nil)
	key := func(algorithm jose.SignatureAlgorithm, secret any) jose.SigningKey {
		return jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: secret, KeyID: i.Public().KeyID}}
	}
	payload, _ := json.Marshal(plain)
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(payload) + "."
	nullBeginning := append(payload[:len(payload)-1:len(payload)-1], `,"nbf":null}`...)
	rsa := jwttest.New(t)
	rsa.Rotate(jose.RS256)
	for name, test := range map[string]struct {
		token string
		want  say.Code
	}{
		"good":                          {signed(nil), ""},
		"audience in a list":            {signed(map[string]any{"aud": []string{"x", audience}}), ""},
		"expired within the skew":       {signed(map[string]any{"exp": in(-30 * time.Second)}), ""},
		"issued within the skew":        {signed(map[string]any{"iat": in(30 * time.Second)}), ""},
		"expired":                       {signed(map[string]any{"exp": in(-61 * time.Second)}), "token.expired"},
		"issued in the future":          {signed(map[string]any{"iat": in(2 * time.Minute)}), "token.future"},
		"not before the future":         {signed(map[string]any{"nbf": in(2 * time.Minute)}), "token.future"},
		"not before the distant future": {signed(map[string]any{"nbf": 1e18}), "token.future"},
		"not before, as a text":         {signed(map[string]any{"nbf": strconv.FormatInt(in(time.Hour), 10)}), "token.unusable"},
		"not before, past, as a text":   {signed(map[string]any{"nbf": "1"}), "token.unusable"},
		"not before, as a list":         {signed(map[string]any{"nbf": []int64{in(time.Hour)}}), "token.unusable"},
		"not before null":               {jwttest.SignBytes(t, i.SigningKey(), nullBeginning), "token.unusable"},
		"not before the skew":           {signed(map[string]any{"nbf": in(30 * time.Second)}), ""},
		"not before 1970":               {signed(map[string]any{"nbf": 0}), ""},
		"too long a life":               {signed(map[string]any{"exp": in(25 * time.Hour)}), "token.age"},
		"other issuer":                  {signed(map[string]any{"iss": "https://evil.example"}), "token.issuer"},
		"other audience":                {signed(map[string]any{"aud": "x"}), "token.audience"},
		"no audience":                   {signed(map[string]any{"aud": nil}), "token.audience"},
		"no exp":                        {signed(map[string]any{"exp": nil}), "token.lacks"},
		"no iat":                        {signed(map[string]any{"iat": nil}), "token.lacks"},
		"no sub":                        {signed(map[string]any{"sub": nil}), "token.lacks"},
		"exp as a text":                 {signed(map[string]any{"exp": "9999999999"}), "token.lacks"},
		"key of another":                {other.Sign(plain), "token.signature"},
		"unsigned":                      {unsigned, "token.algorithm"},
		"HS256 with the public key":     {jwttest.SignWith(t, key(jose.HS256, i.JWKS()), plain), "token.algorithm"},
		"algorithm of another key":      {rsa.Sign(plain), "token.key"},
		"a name twice":                  {jwttest.SignBytes(t, i.SigningKey(), []byte(`{"sub":"a","sub":"b"}`)), "token.form"},
		"no object":                     {jwttest.SignBytes(t, i.SigningKey(), []byte(`[]`)), "token.form"},
		"two parts":                     {"a.b", "token.form"},
		"five parts":                    {"a.b.c.d.e", "token.form"},
		"no base64":                     {"?.?.?", "token.form"},
		"larger than any header line":   {signed(map[string]any{"x": strings.Repeat("x", 17<<10)}), "token.form"},
	} {
		claims, err := setOf(t, i).Verify(test.token, expected, now)
		if test.want == "" {
			if err != nil || claims.Subject() != "ada" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if said := say.From(err); err == nil || said.Code != test.want {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), test.token) {
			t.Errorf("%s: the reason repeats the token", name)
		}
	}
}

func TestOnlyPublicKeysForSignaturesAreRead(t *testing.T) {
	for name, set := range map[string]string{
		"a shared secret": `{"keys":[{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0","alg":"HS256"}]}`,
		"no set":          `[]`,
		"nothing":         `{"keys":[]}`,
		"another use": `{"keys":[{"kty":"OKP","crv":"Ed25519","use":"enc",` +
			`"x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`,
		"a short RSA key": `{"keys":[{"kty":"RSA","e":"AQAB","n":"` +
			strings.Repeat("q", 171) + `"}]}`,
		"too many": `{"keys":[` + strings.Repeat(`{},`, 100) + `{}]}`,
	} {
		if _, err := jwt.ReadSet([]byte(set)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	mixed := `{"keys":[{"kty":"unheard-of"},{"kty":"OKP","crv":"Ed25519","kid":"a",` +
		`"x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
	if set, err := jwt.ReadSet([]byte(mixed)); err != nil || set.Size() != 1 {
		t.Errorf("an unknown kind of key among others: %v", err)
	}
}

func TestIssuerOfReadsTokensOnly(t *testing.T) {
	i := jwttest.New(t)
	good := i.Sign(jwttest.Claims(issuer, audience, "ada", nil))
	for text, want := range map[string]string{
		good: issuer, "pb-abc": "", "a.b.c": "", "": "", "..": "",
		i.Sign(jwttest.Claims(issuer, audience, "ada", map[string]any{"iss": nil})): "",
	} {
		if got, is := jwt.IssuerOf(text); got != want || is != (want != "") {
			t.Errorf("%.20s: %q", text, got)
		}
	}
}

// A claim is found by its own name first, and by the path of its steps otherwise.
func TestClaimsAreFoundByNameAndPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := rapid.SliceOfN(rapid.StringMatching(`[a-z:/_]{1,5}`), 1, 4).Draw(t, "steps")
		path := strings.Join(steps, ".")
		var inner any = "deep"
		for at := len(steps) - 1; at >= 0; at-- {
			inner = map[string]any{steps[at]: inner}
		}
		claims := jwt.Claims(inner.(map[string]any))
		if got := claims.Text(path); got != "deep" {
			t.Fatalf("%s: %q", path, got)
		}
		for _, wrong := range []string{path + ".", "." + path, path + ".more", ""} {
			if value, found := claims.At(wrong); found {
				t.Fatalf("%s: %v", wrong, value)
			}
		}
		claims[path] = "as it is"
		if got := claims.Text(path); got != "as it is" {
			t.Fatalf("%s: %q", path, got)
		}
	})
}

// An address that the issuer has not verified is what anybody could write into their profile.
func TestUnverifiedAddressesDoNotCount(t *testing.T) {
	i := jwttest.New(t)
	for _, c := range []struct {
		verified any
		counts   bool
	}{{nil, false}, {true, true}, {"true", true}, {false, false}, {"false", false}, {"no", false}, {1, false}} {
		more := map[string]any{"email": "boss@example.com"}
		if c.verified != nil {
			more["email_verified"] = c.verified
		}
		claims, err := setOf(t, i).Verify(i.Sign(jwttest.Claims(issuer, audience, "eve", more)), expected, time.Now())
		rule := jwt.Match{Claim: "email", Value: jwt.Texts{"boss@example.com"}}
		if err != nil || rule.Holds(claims.Verified(false)) != c.counts || !rule.Holds(claims.Verified(true)) {
			t.Errorf("email_verified %v: %v, %v", c.verified, claims, err)
		}
	}
}

func TestStepsOfAPathMayHaveDots(t *testing.T) {
	claims, err := jwt.ReadClaims([]byte(`{"kubernetes.io":{"namespace":"shop","a.b":{"c":1}},"a":{"b":{"c":2}},"a.b":{"c":3,"d":4}}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"kubernetes.io.namespace": "shop", "kubernetes.io.a.b.c": "1", "a.b.c": "2", "a.b.d": "4", "kubernetes.io": "", "kubernetes.namespace": "",
	} {
		if got := claims.Text(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestRulesMatchExactValuesAndLists(t *testing.T) {
	claims := jwt.Claims{"group": "dev", "n": 7.0, "on": true, "realm_access": map[string]any{"roles": []any{"a", 2.0}}}
	for _, test := range []struct {
		claim string
		value []string
		want  bool
	}{
		{"group", []string{"dev"}, true}, {"group", []string{"ops", "dev"}, true}, {"group", []string{"de"}, false},
		{"group", []string{"Dev"}, false}, {"n", []string{"7"}, true}, {"on", []string{"true"}, true},
		{"realm_access.roles", []string{"a"}, true}, {"realm_access.roles", []string{"2"}, true},
		{"realm_access", []string{"a"}, false}, {"realm_access.roles", []string{"b"}, false},
		{"missing", []string{""}, false},
	} {
		if got := (jwt.Match{Claim: test.claim, Value: test.value}).Holds(claims); got != test.want {
			t.Errorf("%s %v: %v", test.claim, test.value, got)
		}
	}
}

// isSigned reports whether a token has the signed parts of another one. The last bits of a signature
// in base64 mean nothing.
func isSigned(text, good string) bool {
	end := strings.LastIndexByte(good, '.')
	return len(text) > end && text[:end] == good[:end]
}

func FuzzVerify(f *testing.F) {
	i := jwttest.New(f)
	set := setOf(f, i)
	good := i.Sign(jwttest.Claims(issuer, audience, "ada", nil))
	f.Add(good)
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = jwt.IssuerOf(text)
		if claims, err := set.Verify(text, expected, time.Now()); err == nil && !isSigned(text, good) {
			t.Errorf("%q is accepted: %v", text, claims)
		} else if err != nil && !say.From(err).Is() {
			t.Errorf("%q: %v is no sentence", text, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA} {
		i := jwttest.New(b)
		i.Rotate(algorithm)
		set := setOf(b, i)
		text := i.Sign(jwttest.Claims(issuer, audience, "ada", nil))
		b.Run(string(algorithm), func(b *testing.B) {
			for b.Loop() {
				if _, err := set.Verify(text, expected, time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
