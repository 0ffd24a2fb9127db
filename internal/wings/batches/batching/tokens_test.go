package batching_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/jwttest"
)

// A batch that was made with a token asks for each line what the rules in force give to its claims: it ends when no
// rule does.
func TestABatchOfATokenEndsWithItsRule(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	held, issuer := startHeld(t), jwttest.New(t)
	yaml := func(rules string) string {
		return on + gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 1"), gatewaytest.Instance("other", held.URL)) +
			fmt.Sprintf("security: {enabled: true, keys: [{id: ann, tenant: blue, key-sha256: %s}], jwt: [{name: company, issuer: i, audience: a, jwks-url: '%s', rules: [%s]}]}\n",
				gatewaytest.HashOf("ann-key"), issuer.URL, rules)
	}
	r := gatewaytest.Start(t, yaml("{claim: g, value: dev, tenant: blue}"))
	token := as(issuer.Sign(jwttest.Claims("i", "a", "ada", map[string]any{"g": "dev"})))
	lines := []string{line("first", "m"), line("second", "m")}
	for i := range 50 {
		lines = append(lines, line(fmt.Sprint("l", i), "m"))
	}
	path := "/v1/batches/" + submit(t, r, upload(t, r, strings.Join(lines, "\n"), token...), "/v1/chat/completions", token...)
	<-held.Entered
	r.ReloadWith(yaml("{claim: g, value: dev, tenant: blue, terms: {models: ['m*']}}")) // it is still let in
	held.Open <- struct{}{}
	<-held.Entered // the next line runs
	r.ReloadWith(yaml("{claim: g, value: ops, tenant: blue}"))
	gatewaytest.Eventually(t, "the batch is to stop", func() bool {
		return strings.Contains(r.Do("GET", path, "", as("ann-key")...).Succeeds(t).Body, `"status":"cancelling"`)
	})
	close(held.Open)
	b := ended(t, r, path, as("ann-key")...) // of the same tenant
	if b.Status != "cancelled" || b.Counts.Completed != 2 || b.Counts.Failed != 0 {
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
