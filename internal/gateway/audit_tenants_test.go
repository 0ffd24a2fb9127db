// This file belongs to the wing audit.

package gateway_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// ofNoTenant matches the operations whose objects are the gateway's.
var ofNoTenant = regexp.MustCompile(` (/actuator/|/api/(audit/rotate-key|answer-cache|auth/(session|tokens.*)|config/.*|demo/.*|processes/.*|route/explain|monitoring/(cache|circuit-breaker|config|degradation|errors)/.*)$|/auth/)`)

// Every operation that is recorded declares whose object it concerns, or concerns none of a tenant.
func TestRecordedOperationsDeclareTheirTenant(t *testing.T) {
	t.Parallel()
	r := startRoles(t)
	declared := 0
	for _, route := range operations(r.Routes) {
		isRead := strings.HasPrefix(route.Pattern, "GET ") && !route.Audited
		if isRead || route.Asks || strings.Contains(route.Pattern, "{tenant}") || ofNoTenant.MatchString(route.Pattern) {
			continue
		}
		if declared++; route.Concerns == nil {
			t.Errorf("%s does not declare the tenant of its object", route.Pattern)
		}
	}
	if declared < 5 {
		t.Errorf("got %d operations, want at least those of keys", declared)
	}
}

// A team admin sees what others did to the tenant, whoever did it and by whichever operation.
func TestATeamAdminSeesWhatConcernsTheTenant(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs")
	r := gatewaytest.StartWith(t, gatewaytest.Setup{
		YAML: gatewaytest.ChatYAML(gatewaytest.Instance("m", gatewaytest.StartBackend(t).URL())) + gatewaytest.SecuredYAML() + "runs: {enabled: true}\n",
		Wings: []wing.New{gatewaytest.People(gatewaytest.Person("bob", "red", access.TeamAdmin), gatewaytest.Person("joe", "red", access.Member, "blue", access.Member),
			gatewaytest.Person("eve", "blue", access.TeamAdmin))},
	})
	asAdmin := []string{"Authorization", "Bearer admin-token"}
	header, joe := gatewaytest.As("joe")
	issued := r.API(http.MethodPost, "/api/auth/keys", `{"id":"k1","tenant":"red"}`, asAdmin...).Is(t, 201)
	key := gatewaytest.DataOf[struct {
		Key string `json:"key"`
	}](t, issued).Key
	r.Chat(small, "X-API-Key", key, "X-Router-Run", "a").Succeeds(t)
	run := gatewaytest.DataOf[[]struct {
		ID string `json:"id"`
	}](t, r.API(http.MethodGet, "/api/runs", "", asAdmin...).Is(t, 200))[0].ID
	r.API(http.MethodPost, "/api/runs/"+run+"/raise", `{"tokens":5}`, asAdmin...).Is(t, 200)
	r.API(http.MethodPost, "/api/runs/"+run+"/end", "", asAdmin...).Is(t, 200)
	own := gatewaytest.DataOf[struct {
		ID        string `json:"id"`
		CreatedBy string `json:"createdBy"`
	}](t, r.API(http.MethodPost, "/api/me/keys", `{"name":"n","tenant":"red"}`, header, joe).Is(t, 201))
	if want := "joe <subject-of-joe at " + gatewaytest.Issuer + ">"; own.CreatedBy != want {
		t.Errorf("got createdBy %q, want %q", own.CreatedBy, want)
	}
	r.API(http.MethodPost, "/api/me/keys/"+own.ID+"/rotate", "", header, joe).Is(t, 200)
	header, bob := gatewaytest.As("bob")
	r.API(http.MethodPut, "/api/team/red/keys/"+own.ID, `{"models":["m"]}`, header, bob).Is(t, 200)
	r.API(http.MethodDelete, "/api/auth/keys/k1", "", asAdmin...).Is(t, 200)
	for name, want := range map[string]string{
		"bob": "DELETE /api/auth/keys/{id} PUT /api/team/{tenant}/keys/{id} POST /api/me/keys/{id}/rotate POST /api/me/keys POST /api/runs/{id}/end POST /api/runs/{id}/raise POST /api/auth/keys",
		"eve": "",
	} {
		header, value := gatewaytest.As(name)
		var got []string
		for _, record := range gatewaytest.DataOf[[]struct {
			Action string `json:"action"`
		}](t, r.API(http.MethodGet, "/api/audit", "", header, value).Is(t, 200)) {
			got = append(got, record.Action)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s, want %s", name, strings.Join(got, " "), want)
		}
	}
}
