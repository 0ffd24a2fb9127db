package entry_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const publicURL = "http://gateway.example"

// rules give the groups of the provider their roles.
const rules = "[{claim: groups, value: admins, role: ADMIN}, {claim: groups, value: [ops, sre], role: operator}, {claim: groups, value: ops, role: VIEWER}, " +
	"{claim: realm.roles, value: lead, role: TEAM_ADMIN, tenant: red}, {claim: groups, value: staff, tenant: red}, {claim: department, value: blue, role: MEMBER, tenant: blue}]"

func yamlOf(p *provider, more string) string {
	entry := fmt.Sprintf("{name: corp, issuer: %s, client-id: %s, client-secret: %s, rules: %s}", gatewaytest.Quote(p.URL), clientID, gatewaytest.Quote(secret), rules)
	return strings.Replace(gatewaytest.SecuredYAML(), "enabled: true,", "enabled: true, oidc: ["+entry+"],", 1) + "server: {public-url: '" + publicURL + "'}\n" + more
}

// browser follows redirects as a browser does, between a gateway and its provider.
type browser struct {
	t      *testing.T
	r      *gatewaytest.Gateway
	client *http.Client
	// language is that of the console.
	language string
}

func newBrowser(t *testing.T, r *gatewaytest.Gateway) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	return &browser{t, r, client, ""}
}

type shown struct {
	status   int
	body     string
	location string
	header   http.Header
}

// open opens an address; one below publicURL is the gateway's.
func (b *browser) open(method, address string) shown {
	b.t.Helper()
	address = strings.Replace(address, publicURL, b.r.URL, 1)
	if strings.HasPrefix(address, "/") {
		address = b.r.URL + address
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, address, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	response, err := b.client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return shown{response.StatusCode, string(body), response.Header.Get("Location"), response.Header}
}

// signIn goes through a sign-in and returns what the gateway shows at its end.
func (b *browser) signIn(to string) shown {
	b.t.Helper()
	page := b.open(http.MethodGet, "/auth/login?provider=corp&lang="+b.language+"&to="+url.QueryEscape(to))
	if page.status != http.StatusFound {
		return page
	}
	back := b.open(http.MethodGet, page.location)
	if back.status != http.StatusFound {
		b.t.Fatalf("the provider: %d %s", back.status, back.body)
	}
	return b.open(http.MethodGet, back.location)
}

type person struct {
	Name        string              `json:"name"`
	Role        string              `json:"role"`
	Issuer      string              `json:"issuer"`
	Subject     string              `json:"subject"`
	Provider    string              `json:"provider"`
	Session     string              `json:"session"`
	Memberships []map[string]string `json:"memberships"`
}

// me returns who the gateway says the browser is.
func (b *browser) me() (who person, status int) {
	b.t.Helper()
	page := b.open(http.MethodGet, "/api/auth/me")
	if page.status == http.StatusOK {
		who = gatewaytest.DataOf[person](b.t, gatewaytest.EnvelopeOf(b.t, gatewaytest.Reply{Status: page.status, Header: page.header, Body: page.body}))
	}
	return who, page.status
}

// A person signs in, is who the rules say, and signs out; a copy of the cookie is worth nothing.
func TestAPersonSignsInAndOut(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	p.info = map[string]any{"sub": "ada-1", "realm": map[string]any{"roles": []string{"lead"}}, "department": "blue", "groups": []string{"admins"}}
	r := gatewaytest.Start(t, yamlOf(p, ""))
	b := newBrowser(t, r)
	if asked := p.count("/.well-known/openid-configuration"); asked != 0 {
		t.Errorf("the start asked the provider %d times", asked)
	}
	if page := b.open(http.MethodGet, "/auth/providers"); page.status != http.StatusOK || !strings.Contains(page.body, `"/auth/login?provider=corp"`) {
		t.Errorf("%d %s", page.status, page.body)
	}
	page := b.signIn("/calls?x=1")
	if page.status != http.StatusSeeOther || page.location != "/calls?x=1" {
		t.Fatalf("%d %s %s", page.status, page.location, page.body)
	}
	who, status := b.me()
	if status != http.StatusOK || who.Name != "Ada Lovelace" || who.Role != "OPERATOR" || who.Issuer != p.URL || who.Subject != "ada-1" || who.Provider != "corp" ||
		fmt.Sprint(who.Memberships) != "[map[role:TEAM_ADMIN tenant:red] map[role:MEMBER tenant:blue]]" {
		t.Errorf("%d %+v", status, who)
	}
	// The id token has groups, so those of userinfo, with admins among them, do not count.
	if page := b.open(http.MethodGet, "/api/auth/tokens"); page.status != http.StatusForbidden {
		t.Errorf("an operator sees tokens: %d", page.status)
	}
	copied := cookieOf(b)
	if out := b.open(http.MethodPost, "/auth/logout"); out.status != http.StatusOK || !strings.Contains(out.body, p.URL+"/logout?client_id=patchbay") {
		t.Errorf("%d %s", out.status, out.body)
	}
	r.API(http.MethodGet, "/api/auth/me", "", "Cookie", copied).Is(t, http.StatusUnauthorized, "the session was ended")
	if _, status := b.me(); status != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", status)
	}
	if out := b.open(http.MethodPost, "/auth/logout"); out.status != http.StatusOK {
		t.Errorf("once more: %d", out.status)
	}
	gatewaytest.ContainsNone(t, r.Logs.String(), secret, copied, "id_token")
}

// cookieOf returns the session of a browser as it sends it.
func cookieOf(b *browser) string {
	b.t.Helper()
	address, err := url.Parse(b.r.URL)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, cookie := range b.client.Jar.Cookies(address) {
		if cookie.Name == "patchbay_session" {
			return cookie.String()
		}
	}
	b.t.Fatal("there is no session")
	return ""
}

// Who matches no rule gets no session, and a page that says so.
func TestNobodyGetsInWithoutARule(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	p.claims = map[string]any{"sub": "eve", "name": "Eve <script>", "email": "ada@example.com", "groups": "visitors"}
	p.info = map[string]any{"sub": "eve"}
	b := newBrowser(t, gatewaytest.Start(t, yamlOf(p, "")))
	page := b.signIn("/")
	if page.status != http.StatusForbidden || !strings.Contains(page.body, "no rule of this gateway") || strings.Contains(page.body, "<script>") ||
		strings.Contains(strings.Join(page.header["Set-Cookie"], " "), "patchbay_session") || page.header.Get("Content-Security-Policy") == "" {
		t.Errorf("%d %v %s", page.status, page.header, page.body)
	}
	if _, status := b.me(); status != http.StatusUnauthorized {
		t.Errorf("%d", status)
	}
}

// A token that is not exactly what the provider must give lets nobody in.
func TestLiesOfAProviderLetNobodyIn(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	other := newECKey(t)
	r := gatewaytest.Start(t, yamlOf(p, ""))
	public, err := p.keys[0].Public().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	claim := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c[name] = value }
	}
	hour := time.Hour / time.Second
	now := time.Now().Unix()
	for name, test := range map[string]struct {
		lie  func(map[string]any)
		sign func(map[string]any) string
	}{
		"another issuer":       {lie: claim("iss", "https://evil.example")},
		"another audience":     {lie: claim("aud", "another-client")},
		"several audiences":    {lie: func(c map[string]any) { c["aud"], c["azp"] = []string{clientID, "x"}, "x" }},
		"another nonce":        {lie: claim("nonce", "x")},
		"no nonce":             {lie: func(c map[string]any) { delete(c, "nonce") }},
		"no subject":           {lie: func(c map[string]any) { delete(c, "sub") }},
		"no expiry":            {lie: func(c map[string]any) { delete(c, "exp") }},
		"expired":              {lie: func(c map[string]any) { c["iat"], c["exp"] = now-int64(2*hour), now-int64(hour) }},
		"from the future":      {lie: claim("iat", now+int64(hour))},
		"not signed":           {sign: func(map[string]any) string { return "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEtMSJ9." }},
		"signed by the public": {sign: func(c map[string]any) string { return signedBy(t, jose.HS256, public, c) }},
		"signed by a stranger": {sign: func(c map[string]any) string {
			return signedBy(t, jose.ES256, jose.JSONWebKey{Key: other, KeyID: "k1"}, c)
		}},
		"an unknown key": {sign: func(c map[string]any) string {
			return signedBy(t, jose.ES256, jose.JSONWebKey{Key: other, KeyID: "k7"}, c)
		}},
		"no token": {sign: func(map[string]any) string { return "" }},
		"nonsense": {sign: func(map[string]any) string { return "a.b.c" }},
	} {
		p.set(func() { p.lie, p.sign = test.lie, test.sign })
		b := newBrowser(t, r)
		page := b.signIn("/")
		if _, status := b.me(); page.status != http.StatusBadGateway || status != http.StatusUnauthorized {
			t.Errorf("%s: %d %d %s", name, page.status, status, page.body)
		}
	}
	p.set(func() { p.lie, p.sign, p.info = nil, nil, map[string]any{"sub": "bob", "department": "blue"} })
	if page := newBrowser(t, r).signIn("/"); page.status != http.StatusBadGateway {
		t.Errorf("userinfo about another person: %d", page.status)
	}
	p.set(func() { p.info = map[string]any{"sub": "ada-1"} })
	if page := newBrowser(t, r).signIn("/"); page.status != http.StatusSeeOther {
		t.Errorf("the truth: %d %s", page.status, page.body)
	}
	if asked := p.count("/keys"); asked > 3 {
		t.Errorf("the keys were read %d times", asked)
	}
}

// Keys that a provider replaces are found, and a flood of unknown ones asks it once a minute.
func TestKeysOfAProviderRotate(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	r := gatewaytest.Start(t, yamlOf(p, ""))
	if page := newBrowser(t, r).signIn("/"); page.status != http.StatusSeeOther {
		t.Fatalf("%d %s", page.status, page.body)
	}
	before := p.count("/keys")
	flood := signedBy(t, jose.ES256, jose.JSONWebKey{Key: newECKey(t), KeyID: "unknown"}, map[string]any{"iss": p.URL, "aud": clientID})
	for range 50 {
		answer := r.Do(http.MethodPost, "/auth/backchannel-logout", url.Values{"logout_token": {flood}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		if answer.Status != http.StatusBadRequest {
			t.Fatalf("%d %s", answer.Status, answer.Body)
		}
	}
	if asked := p.count("/keys") - before; asked > 1 {
		t.Errorf("50 unknown keys ask the provider %d times", asked)
	}
	other := gatewaytest.Start(t, yamlOf(p, ""))
	if page := newBrowser(t, other).signIn("/"); page.status != http.StatusSeeOther {
		t.Fatalf("%d %s", page.status, page.body)
	}
	p.rotate("k2")
	if page := newBrowser(t, other).signIn("/"); page.status != http.StatusSeeOther {
		t.Errorf("after a rotation: %d %s", page.status, page.body)
	}
}

// A provider that does not answer, at any step, costs its own people a page and nobody else anything.
func TestAProviderThatHangsLocksNobodyOut(t *testing.T) {
	for _, step := range []string{"/.well-known/openid-configuration", "/token", "/keys", "/userinfo"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			p := startProvider(t)
			p.hang = step
			r := gatewaytest.Start(t, yamlOf(p, ""))
			done := make(chan shown, 1)
			b := newBrowser(t, r)
			go func() { done <- b.signIn("/") }()
			r.API(http.MethodGet, "/api/auth/me", "", "Authorization", "Bearer admin-token").Is(t, http.StatusOK)
			if answer := r.Do(http.MethodPost, "/api/auth/session", "", "Authorization", "Bearer admin-token"); answer.Status != http.StatusCreated {
				t.Errorf("an administrator cannot log in: %d", answer.Status)
			}
			if page := <-done; page.status != http.StatusBadGateway || !strings.Contains(page.body, "management token") {
				t.Errorf("%d %s", page.status, page.body)
			}
			p.set(func() { p.hang = "" })
			gatewaytest.Eventually(t, "people sign in again", func() bool { return newBrowser(t, r).signIn("/").status == http.StatusSeeOther })
		})
	}
}

// TestAProviderThatIsAwayIsToldInOneSentence gives people no error of the network; the log has it.
func TestAProviderThatIsAwayIsToldInOneSentence(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	r := gatewaytest.Start(t, yamlOf(p, ""))
	p.Server.Close()
	b := newBrowser(t, r)
	for language, want := range map[string]string{
		"en": "The sign-in at corp failed: The provider cannot be used now. Try again shortly;",
		"zh": "在 corp 登录失败：暂时无法使用该登录方。 请稍后重试；",
	} {
		b.language = language
		if page := b.signIn("/"); page.status != http.StatusBadGateway || !strings.Contains(page.body, want) {
			t.Errorf("got %d %s, want %s", page.status, page.body, want)
		}
	}
	if !strings.Contains(r.Logs.String(), "connection refused") {
		t.Errorf("got the log %s, want the cause", r.Logs.String())
	}
}

// Settings of a provider that contradict the file, or lead to forbidden places, are not used.
func TestSettingsOfAProviderAreChecked(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(map[string]any){
		"another issuer":       func(m map[string]any) { m["issuer"] = "https://evil.example" },
		"an address of clouds": func(m map[string]any) { m["token_endpoint"] = "http://169.254.169.254/token" },
		"no keys":              func(m map[string]any) { delete(m, "jwks_uri") },
		"a script":             func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" },
	} {
		p := startProvider(t)
		p.meta = lie
		r := gatewaytest.Start(t, yamlOf(p, ""))
		if page := newBrowser(t, r).signIn("/"); page.status != http.StatusBadGateway {
			t.Errorf("%s: %d %s", name, page.status, page.location)
		}
		if health := r.Do(http.MethodGet, "/actuator/health", "", "Authorization", "Bearer admin-token"); !strings.Contains(health.Body, `"failing":{"corp":`) || health.Status != http.StatusOK {
			t.Errorf("%s: %s", name, health.Body)
		}
	}
}

// The page to go to is one of the gateway, whatever the address says.
func TestASignInLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	r := gatewaytest.Start(t, yamlOf(p, ""))
	for _, to := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "evil.example", "/\t/evil.example",
		" //evil.example", "/x\r\nSet-Cookie: a=b", "http:evil.example", "/é", "/" + strings.Repeat("a", 2000)} {
		if page := newBrowser(t, r).signIn(to); page.status != http.StatusBadRequest || page.location != "" {
			t.Errorf("%q: %d %s", to, page.status, page.location)
		}
	}
	for _, to := range []string{"/", "/keys", "/calls?from=a%20b#x", "/?to=https://x.example/"} {
		if page := newBrowser(t, r).signIn(to); page.status != http.StatusSeeOther || page.location != to {
			t.Errorf("%q: %d %s", to, page.status, page.location)
		}
	}
	if page := newBrowser(t, r).open(http.MethodGet, "/auth/login?provider=none"); page.status != http.StatusNotFound {
		t.Errorf("%d", page.status)
	}
}

// Only the browser that began a sign-in can end it, once.
func TestASignInBelongsToItsBrowser(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	r := gatewaytest.Start(t, yamlOf(p, ""))
	mine, theirs := newBrowser(t, r), newBrowser(t, r)
	begun := mine.open(http.MethodGet, "/auth/login?provider=corp")
	if set := begun.header.Get("Set-Cookie"); !strings.Contains(set, "SameSite=Lax") || !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "Path=/auth/callback") {
		t.Errorf("%s", set)
	}
	back := mine.open(http.MethodGet, begun.location).location
	theirs.open(http.MethodGet, "/auth/login?provider=corp")
	for name, page := range map[string]shown{
		"another browser": theirs.open(http.MethodGet, back),
		"no state":        mine.open(http.MethodGet, "/auth/callback?code=x"),
		"another state":   mine.open(http.MethodGet, strings.Replace(back, "state=", "state=x", 1)),
		"another issuer":  theirs.open(http.MethodGet, "/auth/callback?state=&iss=x"),
	} {
		if page.status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, page.status)
		}
	}
	// A tab that was opened later does not disturb this one.
	second := mine.open(http.MethodGet, "/auth/login?provider=corp")
	if page := mine.open(http.MethodGet, back); page.status != http.StatusSeeOther {
		t.Fatalf("%d %s", page.status, page.body)
	}
	if page := mine.open(http.MethodGet, back); page.status != http.StatusBadRequest {
		t.Errorf("the same address once more: %d", page.status)
	}
	denied := mine.open(http.MethodGet, strings.Replace(mine.open(http.MethodGet, second.location).location, "code=", "error=access_denied&x=", 1))
	if denied.status != http.StatusForbidden || !strings.Contains(denied.body, "access_denied") {
		t.Errorf("%d %s", denied.status, denied.body)
	}
}

// A provider that signs a person out ends the sessions here, and only with a token that says so.
func TestAProviderSignsPeopleOut(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	r := gatewaytest.Start(t, yamlOf(p, ""))
	b := newBrowser(t, r)
	b.signIn("/")
	for name, claims := range map[string]map[string]any{
		"no event":         {"sid": "seat-1", "events": map[string]any{}},
		"a nonce":          {"sid": "seat-1", "nonce": "n"},
		"nobody":           {},
		"another audience": {"sid": "seat-1", "aud": "x"},
		"another issuer":   {"sid": "seat-1", "iss": "https://evil.example"},
		"old":              {"sid": "seat-1", "iat": time.Now().Add(-time.Hour).Unix()},
	} {
		if status := logOut(r, p.logoutToken(claims)); status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, status)
		}
	}
	if _, status := b.me(); status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	if status := logOut(r, p.logoutToken(map[string]any{"sid": "seat-1"})); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if _, status := b.me(); status != http.StatusUnauthorized {
		t.Errorf("by its seat: %d", status)
	}
	p.set(func() { p.claims["sid"] = "seat-2" })
	b.signIn("/")
	if _, status := b.me(); status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	if status := logOut(r, p.logoutToken(map[string]any{"sub": "ada-1"})); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if _, status := b.me(); status != http.StatusUnauthorized {
		t.Errorf("by its person: %d", status)
	}
}

// Rules of now decide: a restart without a rule, or without the provider, takes the rights away.
func TestRulesInForceDecide(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	setup := gatewaytest.Setup{YAML: yamlOf(p, ""), DataDir: t.TempDir()}
	r := gatewaytest.StartWith(t, setup)
	b := newBrowser(t, r)
	b.signIn("/")
	cookie := cookieOf(b)
	restart := func(yaml string) *gatewaytest.Gateway {
		r.Halt()
		setup.YAML = yaml
		r = gatewaytest.StartWith(t, setup)
		return r
	}
	role := func() string {
		return gatewaytest.DataOf[person](t, r.API(http.MethodGet, "/api/auth/me", "", "Cookie", cookie).Is(t, http.StatusOK)).Role
	}
	restart(setup.YAML)
	if got := role(); got != "OPERATOR" {
		t.Errorf("after a restart: %s", got)
	}
	restart(strings.Replace(yamlOf(p, ""), "role: operator", "role: VIEWER", 1))
	if got := role(); got != "VIEWER" {
		t.Errorf("with another rule: %s", got)
	}
	restart(strings.Replace(yamlOf(p, ""), rules, "[{claim: groups, value: admins, role: ADMIN}]", 1))
	r.API(http.MethodGet, "/api/auth/me", "", "Cookie", cookie).Is(t, http.StatusForbidden)
	restart(gatewaytest.SecuredYAML())
	r.API(http.MethodGet, "/api/auth/me", "", "Cookie", cookie).Is(t, http.StatusUnauthorized)
}

// A session is good at every gateway that shares the configuration, and so is its end; a sign-in
// may come back to another gateway than it left.
func TestGatewaysShareSignIns(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	yaml := yamlOf(p, "store: {config: "+gatewaytest.Quote(storetest.Postgres(t).URL)+"}\n")
	one, two := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
	for _, r := range []*gatewaytest.Gateway{one, two} {
		gatewaytest.Eventually(t, "the gateway has joined", func() bool {
			return r.Control.Joined() && r.Do(http.MethodGet, "/api/auth/sessions", "", "Authorization", "Bearer admin-token").Status == http.StatusOK
		})
	}
	newBrowser(t, one).signIn("/") // makes the key that both use
	b := newBrowser(t, one)
	var page shown
	gatewaytest.Eventually(t, "the other gateway has the key", func() bool {
		b.r = one
		back := b.open(http.MethodGet, b.open(http.MethodGet, "/auth/login?provider=corp").location)
		b.r = two
		page = b.open(http.MethodGet, back.location)
		return page.status == http.StatusSeeOther
	})
	cookie := strings.Split(page.header.Values("Set-Cookie")[len(page.header.Values("Set-Cookie"))-1], ";")[0]
	for _, r := range []*gatewaytest.Gateway{one, two} {
		r.API(http.MethodGet, "/api/auth/me", "", "Cookie", cookie).Is(t, http.StatusOK, "Ada Lovelace")
	}
	token := url.Values{"logout_token": {p.logoutToken(map[string]any{"sub": "ada-1"})}}.Encode()
	if answer := one.Do(http.MethodPost, "/auth/backchannel-logout", token, "Content-Type", "application/x-www-form-urlencoded"); answer.Status != http.StatusOK {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	gatewaytest.Eventually(t, "the other gateway knows the end", func() bool {
		return two.Do(http.MethodGet, "/api/auth/me", "", "Cookie", cookie).Status == http.StatusUnauthorized
	})
}

// The page of a refusal speaks the language of the console, or else that of the browser. The language
// of the console holds until the person is back from the provider.
func TestARefusalIsToldInTheLanguageOfThePerson(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	p.claims = map[string]any{"sub": "eve", "name": "Eve", "groups": "visitors"}
	p.info = map[string]any{"sub": "eve"}
	g := gatewaytest.Start(t, yamlOf(p, ""))
	const inEnglish, inChinese = "There is no such provider; choose one", "没有这个登录方；请在登录页面上选择。"
	for _, c := range []struct{ query, accepted, want string }{
		{"", "", inEnglish},
		{"", "de, en;q=0.8", inEnglish},
		{"", "zh-CN,zh;q=0.9,en;q=0.8", inChinese},
		{"&lang=zh", "en", inChinese},
		{"&lang=en", "zh-CN", inEnglish},
		{"&lang=xx", "zh-CN", inChinese},
	} {
		reply := g.Do(http.MethodGet, "/auth/login?provider=nobody"+c.query, "", "Accept-Language", c.accepted)
		if reply.Status != http.StatusNotFound || !strings.Contains(reply.Body, c.want) {
			t.Errorf("%+v: %d %s", c, reply.Status, reply.Body)
		}
	}
	b := newBrowser(t, g)
	b.language = "zh"
	page := b.signIn("/")
	if page.status != http.StatusForbidden || !strings.Contains(page.body, "您在 corp 的身份是 Eve，但本网关没有任何规则允许您访问") {
		t.Errorf("%d %s", page.status, page.body)
	}
	// A cause inside of the sentence is told in the same language.
	p.lie = func(c map[string]any) { c["aud"] = "another" }
	page = b.signIn("/")
	if page.status != http.StatusBadGateway || !strings.Contains(page.body, "在 corp 登录失败：令牌面向其他受众") {
		t.Errorf("%d %s", page.status, page.body)
	}
}

// A code that the provider does not take again is a fault of the request, and not of the provider.
func TestACodeThatWasUsedIsABadRequest(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	r := gatewaytest.Start(t, yamlOf(p, ""))
	page := r.Do(http.MethodGet, "/auth/login?provider=corp", "")
	cookie, _, _ := strings.Cut(page.Header.Get("Set-Cookie"), ";")
	back := newBrowser(t, r).open(http.MethodGet, page.Header.Get("Location"))
	callback := strings.Replace(back.location, publicURL, "", 1)
	if got := r.Do(http.MethodGet, callback, "", "Cookie", cookie); got.Status != http.StatusSeeOther {
		t.Fatalf("the first use: got %d %s", got.Status, got.Body)
	}
	if got := r.Do(http.MethodGet, callback, "", "Cookie", cookie); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "begin again") {
		t.Errorf("the second use: got %d %s, want 400", got.Status, got.Body)
	}
}

// Over https both cookies of a sign-in belong to this very host, and one of another name is not accepted.
func TestCookiesOfASignInOverHTTPSBelongToThisHost(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	const secureURL = "https://ai.example.com"
	secure := strings.Replace(yamlOf(p, ""), publicURL, secureURL, 1)
	for _, test := range []struct {
		what, yaml string
		headers    []string
		prefix     string
	}{
		{"http", yamlOf(p, ""), nil, ""},
		{"a proxy with https", yamlOf(p, ""), []string{"X-Forwarded-Proto", "https"}, "__Host-"},
		{"a public URL of https", secure, nil, "__Host-"},
	} {
		r := gatewaytest.Start(t, test.yaml)
		isSecure := test.prefix != ""
		cookieIn := func(reply gatewaytest.Reply, name string) *http.Cookie {
			for _, cookie := range (&http.Response{Header: reply.Header}).Cookies() {
				if strings.HasPrefix(cookie.Name, test.prefix+name) && cookie.MaxAge >= 0 {
					if cookie.Secure != isSecure || isSecure && cookie.Path != "/" || cookie.Domain != "" || !cookie.HttpOnly {
						t.Errorf("%s: got cookie %s", test.what, cookie)
					}
					return cookie
				}
			}
			t.Fatalf("%s: no cookie %s%s in %v", test.what, test.prefix, name, reply.Header)
			return nil
		}
		login := r.Do(http.MethodGet, "/auth/login?provider=corp", "", test.headers...)
		flow := cookieIn(login, "patchbay_signin_")
		back := newBrowser(t, r).open(http.MethodGet, login.Header.Get("Location"))
		address, err := url.Parse(back.location)
		if err != nil {
			t.Fatal(err)
		}
		callback := func(name string) gatewaytest.Reply {
			return r.Do(http.MethodGet, address.RequestURI(), "", append([]string{"Cookie", name + "=" + flow.Value}, test.headers...)...)
		}
		other := "__Host-" + flow.Name
		if isSecure {
			other = strings.TrimPrefix(flow.Name, "__Host-")
		}
		if got := callback(other); got.Status != http.StatusBadRequest {
			t.Errorf("%s, with cookie %s: got %d, want 400", test.what, other, got.Status)
		}
		session := cookieIn(callback(flow.Name), "patchbay_session")
		for name, want := range map[string]int{"patchbay_session": 401, "__Host-patchbay_session": 401, session.Name: 200} {
			if got := r.Do(http.MethodGet, "/api/auth/me", "", append([]string{"Cookie", name + "=" + session.Value}, test.headers...)...); got.Status != want {
				t.Errorf("%s, with cookie %s: got %d, want %d", test.what, name, got.Status, want)
			}
		}
		out := r.Do(http.MethodPost, "/auth/logout", "", append([]string{"Cookie", session.Name + "=" + session.Value}, test.headers...)...)
		if got := out.Header.Get("Set-Cookie"); !strings.HasPrefix(got, session.Name+"=;") {
			t.Errorf("%s, after the logout: got cookie %s, want %s to be forgotten", test.what, got, session.Name)
		}
	}
}
