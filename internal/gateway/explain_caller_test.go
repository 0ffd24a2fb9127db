package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/testing/jwttest"
)

// explainedCaller is the part of an explanation about people.
type explainedCaller struct {
	AskedBy struct {
		Name    string `json:"name"`
		Role    string `json:"role"`
		Rule    string `json:"rule"`
		Subject string `json:"subject"`
		Tenants []struct {
			Tenant string `json:"tenant"`
			Role   string `json:"role"`
			Rule   string `json:"rule"`
		} `json:"tenants"`
	} `json:"askedBy"`
	Caller *struct {
		KeyID   string         `json:"keyId"`
		Tenant  string         `json:"tenant"`
		Status  string         `json:"status"`
		Issuer  string         `json:"issuer"`
		Rule    string         `json:"rule"`
		User    string         `json:"user"`
		Owner   string         `json:"owner"`
		Terms   map[string]any `json:"terms"`
		Refusal *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"refusal"`
	} `json:"caller"`
	Pick    *string `json:"pick"`
	Refusal any     `json:"refusal"`
}

// An explanation says who asks and who would send the request, by which rule, and why this caller would be
// refused: as the door does, and without what the asker may not see.
func TestExplanationsSayWhoTheCallerIs(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens", "selfservice")
	i := jwttest.New(t)
	b := gatewaytest.StartBackend(t)
	operator := gatewaytest.Person("olga", "red", access.Member)
	operator.Role, operator.Rule, operator.Memberships[0].Rule = access.Operator, "security.oidc corp rules[3]", "security.oidc corp rules[0]"
	yaml := gatewaytest.PoolYAML(b) + tokensYAML(i, "claims: {user: email}, rules: [{claim: t, value: other, tenant: blue}, {claim: t, value: red, tenant: red, terms: {models: [m]}}, {claim: t, value: none, terms: {models: [nothing]}}]")
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, Wings: []wing.New{gatewaytest.People(operator, gatewaytest.Person("ann", "red", access.Member))}})
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	explain := func(query string, headers ...string) (x explainedCaller) {
		t.Helper()
		return gatewaytest.DataOf[explainedCaller](t, r.API(http.MethodPost, "/api/route/explain?door=chat"+query, body, headers...).Is(t, http.StatusOK))
	}
	header, olga := gatewaytest.As("olga")
	asOlga, admin := []string{header, olga}, []string{"Authorization", asAdmin}
	with := func(asker []string, credential string) []string { return append(asker[:2:2], "X-Api-Key", credential) }

	if x := explain("", admin...); x.AskedBy.Name != "a" || x.AskedBy.Role != "ADMIN" || x.Caller != nil || x.Pick == nil {
		t.Errorf("%+v", x)
	}
	if x := explain("", asOlga...); x.AskedBy.Rule != "security.oidc corp rules[3]" || x.AskedBy.Subject != "subject-of-olga" || fmt.Sprint(x.AskedBy.Tenants) != "[{red MEMBER security.oidc corp rules[0]}]" {
		t.Errorf("%+v", x.AskedBy)
	}
	token := func(team string) string {
		return i.Sign(jwttest.Claims(loginIssuer, loginAudience, "ada", map[string]any{"t": team, "email": "ada@example.com"}))
	}
	r.Chat(body, "Authorization", "Bearer "+token("red")).Succeeds(t) // the keys of the issuer are read with it
	x := explain("", with(asOlga, token("red"))...)
	if c := x.Caller; c == nil || c.Issuer != "company" || c.Rule != "security.jwt company rules[1]" || c.User != "ada@example.com" || c.Tenant != "red" || !strings.HasPrefix(c.KeyID, "jwt:company:") || c.Refusal != nil || c.Terms != nil || x.Pick == nil {
		t.Fatalf("%+v", c)
	}
	if again := explain("&keyId="+x.Caller.KeyID, admin...).Caller; again.Rule != x.Caller.Rule || again.Terms == nil {
		t.Errorf("%+v", again)
	}
	// What the door refuses is foretold.
	for _, credential := range []string{token("none"), token("nobody"), "wrong"} {
		x, reply := explain("", with(asOlga, credential)...), r.Chat(body, "Authorization", "Bearer "+credential)
		if x.Caller.Refusal == nil || x.Pick != nil || x.Refusal == nil || !strings.Contains(reply.Body, x.Caller.Refusal.Code) || !strings.Contains(reply.Body, x.Caller.Refusal.Message) {
			t.Errorf("%+v, and the door says %s", x.Caller, reply.Body)
		}
	}
	if c := explain("&keyId=k", admin...).Caller; c.Tenant != "blue" || c.Status != "ACTIVE" || c.Refusal != nil {
		t.Errorf("%+v", c)
	}
	if c := explain("&keyId=nobody", admin...).Caller; c.Refusal == nil || c.Status != "" {
		t.Errorf("%+v", c)
	}
	if c := explain("&keyId=jwt:company:0123456789abcdef", admin...).Caller; c.Refusal != nil || c.Tenant != "" {
		t.Errorf("a subject that nobody knows: %+v", c)
	}
	// The owner of a key is for those who may see keys.
	r.SignIn(gatewaytest.Person("ann", "red", access.Member))
	header, ann := gatewaytest.As("ann")
	made := gatewaytest.DataOf[map[string]any](t, r.API(http.MethodPost, "/api/me/keys", "{}", header, ann).Is(t, http.StatusCreated))
	own := "&keyId=" + made["id"].(string)
	if c := explain(own, admin...).Caller; c.Owner != "ann <subject-of-ann at "+gatewaytest.Issuer+">" || c.Terms == nil {
		t.Errorf("%+v", c)
	}
	if c := explain(own, asOlga...).Caller; c.Owner != "" || c.Terms != nil || c.Tenant != "red" {
		t.Errorf("%+v", c)
	}
	left := gatewaytest.Person("ann")
	r.SignIn(left)
	if c := explain(own, admin...).Caller; c.Status != "SLEEPING" || c.Refusal == nil {
		t.Errorf("%+v", c)
	}
	r.API(http.MethodDelete, "/api/auth/keys/"+made["id"].(string), "", admin...).Is(t, http.StatusOK)
	if c := explain(own, admin...).Caller; c.Status != "REVOKED" || c.Refusal == nil || c.Owner != "" {
		t.Errorf("%+v", c)
	}
	gatewaytest.ContainsNone(t, r.Logs.String(), token("red"), made["key"].(string))
}
