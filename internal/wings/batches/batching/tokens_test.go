package batching_test

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/jwttest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// A batch that was made with a token asks for each line what the rules in force give to its claims: it ends when no
// rule does, or when the issuer is gone.
func TestABatchOfATokenEndsWithItsRule(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	for name, without := range map[string]func(issuer *jwttest.Issuer) string{
		"rule": func(issuer *jwttest.Issuer) string {
			return jwtOf(issuer, "rules: [{claim: g, value: ops, tenant: blue}]")
		},
		"issuer": func(*jwttest.Issuer) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held, issuer := startHeld(t), jwttest.New(t)
			yaml := func(more string) string {
				return on + gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 1")) +
					fmt.Sprintf("security: {enabled: true, keys: [{id: ann, tenant: blue, key-sha256: %s}]%s}\n", gatewaytest.HashOf("ann-key"), more)
			}
			r := gatewaytest.Start(t, yaml(jwtOf(issuer, "rules: [{claim: g, value: dev, tenant: blue}]")))
			token := as(issuer.Sign(jwttest.Claims("i", "a", "ada", map[string]any{"g": "dev"})))
			path := "/v1/batches/" + submit(t, r, upload(t, r, linesTo("m", 50), token...), "/v1/chat/completions", token...)
			<-held.Entered
			r.ReloadWith(yaml(jwtOf(issuer, "rules: [{claim: g, value: dev, tenant: blue, terms: {models: ['m*']}}]"))) // it is still let in
			held.Open <- struct{}{}
			<-held.Entered // the next line runs
			r.ReloadWith(yaml(without(issuer)))
			gatewaytest.Eventually(t, "the batch is to stop", func() bool {
				return strings.Contains(r.Do("GET", path, "", as("ann-key")...).Succeeds(t).Body, `"status":"cancelling"`)
			})
			close(held.Open)
			b := ended(t, r, path, as("ann-key")...) // of the same tenant
			if b.Status != "cancelled" || b.Counts.Completed != 2 || b.Counts.Failed != 0 {
				t.Errorf("the batch is %+v", b)
			}
		})
	}
}

// jwtOf trusts an issuer, with further settings of it.
func jwtOf(issuer *jwttest.Issuer, more string) string {
	return fmt.Sprintf(", jwt: [{name: company, issuer: i, audience: a, jwks-url: '%s', %s}]", issuer.URL, more)
}

// The end of its token does not end a batch.
func TestABatchOutlivesItsToken(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	held, issuer := startHeld(t), jwttest.New(t)
	r := gatewaytest.Start(t, on+gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 1"))+
		fmt.Sprintf("security: {enabled: true, keys: [{id: ann, tenant: blue, key-sha256: %s}]%s}\n", gatewaytest.HashOf("ann-key"),
			jwtOf(issuer, "claims: {tenant: team}")))
	// Its end is past, and it is let in for some more seconds because clocks differ.
	end := time.Now().Add(8*time.Second - jwt.Skew)
	token := as(issuer.Sign(jwttest.Claims("i", "a", "ada", map[string]any{"team": "blue", "iat": end.Add(-time.Hour).Unix(), "exp": end.Unix()})))
	path := "/v1/batches/" + submit(t, r, upload(t, r, linesTo("m", 3), token...), "/v1/chat/completions", token...)
	<-held.Entered
	gatewaytest.Eventually(t, "the token is no longer good", func() bool {
		reply := r.Do("GET", path, "", token...)
		return reply.Status == 401 && strings.Contains(reply.Body, "invalid_token")
	})
	close(held.Open)
	if b := ended(t, r, path, as("ann-key")...); b.Status != "completed" || b.Counts.Completed != 3 {
		t.Errorf("the batch is %+v", b)
	}
}

// A batch stops when the key of its owner goes to sleep.
func TestABatchStopsWhenTheKeyOfItsOwnerSleeps(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "selfservice")
	held := startHeld(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{
		YAML: on + gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 1")) +
			fmt.Sprintf("security: {enabled: true, tenants: [{name: blue}], keys: [{id: ann, tenant: blue, key-sha256: %s}]}\n", gatewaytest.HashOf("ann-key")),
		Wings: []wing.New{gatewaytest.People(gatewaytest.Person("cyd", "blue", access.Member))},
	})
	header, session := gatewaytest.As("cyd")
	own := as(gatewaytest.DataOf[struct {
		Key string `json:"key"`
	}](t, r.API("POST", "/api/me/keys", "{}", header, session).Is(t, 201)).Key)
	path := "/v1/batches/" + submit(t, r, upload(t, r, linesTo("m", 50), own...), "/v1/chat/completions", own...)
	<-held.Entered
	r.SignIn(gatewaytest.Person("cyd", "red", access.Member)) // and no longer of blue
	gatewaytest.Eventually(t, "the batch is to stop", func() bool {
		return strings.Contains(r.Do("GET", path, "", as("ann-key")...).Succeeds(t).Body, `"status":"cancelling"`)
	})
	close(held.Open)
	if b := ended(t, r, path, as("ann-key")...); b.Status != "cancelled" || b.Counts.Completed != 1 || b.Counts.Failed != 0 {
		t.Errorf("the batch is %+v", b)
	}
}

// The terms of a rule that change while a batch runs hold for its next line.
func TestLinesOfATokenObeyTheTermsInForce(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	held, issuer := startHeld(t), jwttest.New(t)
	yaml := func(models string) string {
		return on + gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 1")) +
			fmt.Sprintf("security: {enabled: true, jwt: [{name: company, issuer: i, audience: a, jwks-url: '%s', terms: {models: [%s]}}]}\n", issuer.URL, models)
	}
	r := gatewaytest.Start(t, yaml("m"))
	token := as(issuer.Sign(jwttest.Claims("i", "a", "ada", nil)))
	path := "/v1/batches/" + submit(t, r, upload(t, r, line("a", "m")+"\n"+line("b", "m"), token...), "/v1/chat/completions", token...)
	<-held.Entered
	r.ReloadWith(yaml("other"))
	close(held.Open)
	if b := ended(t, r, path, token...); b.Counts.Completed != 1 || b.Counts.Failed != 1 {
		t.Errorf("the batch is %+v", b)
	}
}

// Two gateways over PostgreSQL and Redis know a subject by the same id, whichever of them has its token: they share
// its limits, its budgets, its files and its batches. A batch ends when the rule is gone.
func TestGatewaysShareCallersWithTokens(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	held, issuer, backend := startHeld(t), jwttest.New(t), gatewaytest.StartBackend(t)
	stores := fmt.Sprintf("files: {folder: %s}\nstore: {config: '%s'}\nredis: {url: '%s'}\nquota: {enabled: true, distributed: {enabled: true, timeout: 5s}}\n",
		gatewaytest.Quote(t.TempDir()), storetest.Postgres(t).URL, storetest.Redis(t).URL)
	yaml := func(rules string) string {
		return on + stores + gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 1"), gatewaytest.Instance("free", backend.URL())) +
			fmt.Sprintf("security: {enabled: true, shared-limits: true, tokens: [{name: a, role: ADMIN, token-sha256: %s}], keys: [{id: ann, tenant: blue, key-sha256: %s}]%s}\n",
				gatewaytest.HashOf("admin-token"), gatewaytest.HashOf("ann-key"), jwtOf(issuer, "claims: {user: sub}, rules: ["+rules+"]"))
	}
	const rest = "{claim: g, value: limited, tenant: red, terms: {limits: {requests-per-minute: 10}}}, " +
		"{claim: g, value: budgeted, tenant: red, terms: {budgets: {day: {requests: 6}}}}"
	const all = "{claim: g, value: dev, tenant: blue}, " + rest
	two := []*gatewaytest.Gateway{gatewaytest.Start(t, yaml(all)), gatewaytest.Start(t, yaml(all))}
	of := func(subject, group string) []string {
		return as(issuer.Sign(jwttest.Claims("i", "a", subject, map[string]any{"g": group, "jti": rand.Text()})))
	}
	const hi = `{"model":"free","messages":[{"role":"user","content":"hi"}]}`
	for _, r := range two {
		gatewaytest.Eventually(t, "the gateways know each other and the keys of the issuer", func() bool {
			return r.Shared.Stats().Gateways == 2 && r.Control.Joined() && r.Chat(hi, of("ada", "dev")...).Status == 200
		})
	}
	<-time.After(tally.ProbationTime) // the store is new
	ids := map[string]bool{}
	for _, r := range two {
		gatewaytest.Eventually(t, "the call is listed", func() bool {
			body := r.Do("GET", "/api/monitoring/calls?user=ada", "", as("admin-token")...).Succeeds(t).Body
			id := regexp.MustCompile(`"keyId":"(jwt:company:[0-9a-f]{16})"`).FindStringSubmatch(body)
			if id != nil {
				ids[id[1]] = true
			}
			return id != nil
		})
	}
	if len(ids) != 1 {
		t.Errorf("the gateways call her %v", ids)
	}
	passed := func(subject, group, code string) (passed int) {
		t.Helper()
		for n := range 25 {
			switch reply := two[n%2].Chat(hi, of(subject, group)...); {
			case reply.Status == 200:
				passed++
			case reply.Status != 429 || !strings.Contains(reply.Body, code) && !strings.Contains(reply.Body, "budget_reserved"):
				t.Fatalf("%s: %d %s", subject, reply.Status, reply.Body)
			}
		}
		return passed
	}
	if n := passed("bob", "limited", "key_rate_limited"); n < 10 || n > 15 { // each for itself would let 20 in
		t.Errorf("%d of 25 were let in, with 10 a minute", n)
	}
	if n := passed("cyd", "budgeted", "budget_exceeded"); n != 6 {
		t.Errorf("%d of 25 were let in, with a budget of 6", n)
	}
	for _, r := range two {
		r.Chat(hi, of("dan", "limited")...).Succeeds(t) // another subject of the same tenant
	}
	file := upload(t, two[0], linesTo("m", 50), of("ada", "dev")...)
	for status, headers := range map[int][]string{200: of("eve", "dev"), 404: of("dan", "limited")} {
		if reply := two[1].Do("GET", "/v1/files/"+file+"/content", "", headers...); reply.Status != status {
			t.Errorf("the file at the other gateway: %d %s, want %d", reply.Status, reply.Body, status)
		}
	}
	path := "/v1/batches/" + submit(t, two[0], file, "/v1/chat/completions", of("ada", "dev")...)
	<-held.Entered
	if status := two[1].Do("GET", path, "", of("dan", "limited")...).Status; status != 404 {
		t.Errorf("another tenant sees the batch: %d", status)
	}
	for _, r := range two {
		r.ReloadWith(yaml(rest))
	}
	gatewaytest.Eventually(t, "the batch is to stop", func() bool {
		return strings.Contains(two[1].Do("GET", path, "", as("ann-key")...).Succeeds(t).Body, `"status":"cancelling"`)
	})
	close(held.Open)
	for _, r := range two {
		if b := ended(t, r, path, as("ann-key")...); b.Status != "cancelled" || b.Counts.Completed == 50 || b.Counts.Failed != 0 {
			t.Errorf("the batch is %+v", b)
		}
		if reply := r.Do("GET", path, "", of("ada", "dev")...); reply.Status != 403 {
			t.Errorf("she is let in without a rule: %d", reply.Status)
		}
	}
}
