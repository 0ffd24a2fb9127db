// This file belongs to the wing audit.

package gateway_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// isRecorded reports whether the audit records each use of an operation.
func isRecorded(route *web.Route) bool {
	return route.Permission != access.ByKey && !route.Asks && (route.Audited || !strings.HasPrefix(route.Pattern, "GET "))
}

// isOfGateway reports whether the objects of an operation belong to no tenant.
func isOfGateway(route *web.Route) bool {
	return reflect.ValueOf(route.Concerns).Pointer() == reflect.ValueOf(web.OfGateway).Pointer()
}

// Every operation that is recorded declares whose object it concerns.
func TestRecordedOperationsDeclareTheirTenant(t *testing.T) {
	t.Parallel()
	for _, route := range startRoles(t).Routes {
		if isRecorded(&route) && route.Concerns == nil && !strings.Contains(route.Pattern, "{tenant}") {
			t.Errorf("%s does not declare the tenant of its object", route.Pattern)
		}
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

// Every recorded operation on objects of tenants leaves a record with the tenant. An operation that this test
// does not perform fails it.
func TestRecordsNameTheTenantOfTheObject(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs", "batches", "selfservice")
	backend := gatewaytest.StartBackend(t)
	bob := gatewaytest.Person("bob", "red", access.TeamAdmin)
	// ann belongs to two tenants, so that nothing of her own tells which one an operation concerns.
	ann := gatewaytest.Person("ann", "red", access.Member, "blue", access.Member)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{
		YAML:  gatewaytest.PoolYAML(backend) + gatewaytest.SecuredYAML() + "runs: {enabled: true}\nbatches: {enabled: true}\nmonitoring: {capture: headers}\n",
		Wings: []wing.New{gatewaytest.People(bob, ann)},
	})
	header, asBob := gatewaytest.As("bob")
	admin, team := []string{"Authorization", "Bearer admin-token"}, []string{header, asBob}
	_, asAnn := gatewaytest.As("ann")
	member := []string{header, asAnn}
	do := func(who []string, operation, body string) gatewaytest.ManagementReply {
		t.Helper()
		method, path, _ := strings.Cut(operation, " ")
		got := r.API(method, path, body, who...)
		if got.Status >= http.StatusBadRequest {
			t.Errorf("%s: %d %s", operation, got.Status, got.Body)
		}
		return got
	}
	type made struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	key := gatewaytest.DataOf[made](t, do(admin, "POST /api/auth/keys", `{"id":"k1","tenant":"red"}`)).Key
	do(admin, "PUT /api/auth/keys/k1", `{"models":["m"]}`)
	do(admin, "POST /api/auth/keys/k1/enable", "")
	call := r.Chat(gatewaytest.PlainHi, "X-API-Key", key, "X-Router-Run", "a").Succeeds(t)
	r.Do(http.MethodGet, "/api/monitoring/calls/"+call.Header.Get("X-Request-Id")+"/content", "", admin...).Succeeds(t)
	run := gatewaytest.DataOf[[]made](t, do(admin, "GET /api/runs", ""))[0].ID
	do(admin, "POST /api/runs/"+run+"/raise", `{"tokens":5}`)
	do(admin, "POST /api/runs/"+run+"/end", "")

	form, contentType := gatewaytest.FormBody(gatewaytest.Field("purpose", "batch"), gatewaytest.Upload("file", "a.jsonl", "application/jsonl",
		`{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":`+gatewaytest.PlainHi+"}\n"))(t)
	submit := func() (file, batch string) {
		t.Helper()
		idOf := func(reply gatewaytest.Reply) string {
			return gatewaytest.DecodeObject(t, reply.Succeeds(t).Body)["id"].(string)
		}
		file = idOf(r.Do(http.MethodPost, "/v1/files", form, "X-API-Key", key, "Content-Type", contentType))
		return file, idOf(r.Do(http.MethodPost, "/v1/batches", `{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, "X-API-Key", key))
	}
	file, batch := submit()
	r.Do(http.MethodGet, "/api/files/"+file+"/content", "", admin...).Succeeds(t)
	do(admin, "DELETE /api/batches/"+batch, "")
	do(admin, "DELETE /api/files/"+file, "")
	backend.ScriptForever(simulator.Step{Hang: true})
	_, batch = submit()
	do(admin, "POST /api/batches/"+batch+"/cancel", "")
	do(admin, "DELETE /api/batches?tenant=red", "")
	do(admin, "DELETE /api/files?key=k1", "")
	reply := r.ChatLater(t.Context(), gatewaytest.PlainHi, "X-API-Key", key, "X-Request-Id", "slow")
	gatewaytest.Eventually(t, "it runs", func() bool {
		return strings.Contains(r.Do(http.MethodGet, "/api/monitoring/running", "", admin...).Body, `"slow"`)
	})
	r.Do(http.MethodPost, "/api/monitoring/running/slow/stop", "{}", admin...).Succeeds(t)
	<-reply

	own := gatewaytest.DataOf[made](t, do(member, "POST /api/me/keys", `{"name":"n","tenant":"red"}`)).ID
	do(member, "POST /api/me/keys/"+own+"/rotate", "")
	do(member, "DELETE /api/me/keys/"+own, "")
	theirs := gatewaytest.DataOf[made](t, do(team, "POST /api/team/red/keys", `{"name":"t"}`)).ID
	do(team, "PUT /api/team/red/keys/"+theirs, `{"models":["m"]}`)
	do(team, "POST /api/team/red/keys/"+theirs+"/rotate", "")
	do(team, "DELETE /api/team/red/keys/"+theirs, "")
	do(admin, "PUT /api/config/terms/tenants/red", `{"models":["m"]}`)
	do(team, "PUT /api/team/red/budgets", `{"budgets":{"day":{"tokens":5}}}`)
	r.SignIn(bob)
	for _, person := range gatewaytest.DataOf[[]made](t, do(team, "GET /api/team/red/members", "")) {
		do(team, "DELETE /api/team/red/members/"+person.ID, "")
	}
	for _, session := range gatewaytest.DataOf[[]made](t, do(admin, "GET /api/auth/sessions", "")) {
		do(admin, "DELETE /api/auth/sessions/"+session.ID, "")
	}
	do(admin, "DELETE /api/config/terms/tenants/red", "")
	do(admin, "POST /api/auth/keys/k1/rotate", "")
	do(admin, "DELETE /api/auth/keys/k1", "")

	tenants := map[string]string{}
	for _, record := range gatewaytest.DataOf[[]struct {
		Action string `json:"action"`
		Tenant string `json:"tenant"`
	}](t, do(admin, "GET /api/audit", "")) {
		tenants[record.Action] = record.Tenant
	}
	for action, tenant := range tenants {
		if tenant != "red" {
			t.Errorf("%s: its record has the tenant %q, want red", action, tenant)
		}
	}
	for _, route := range r.Routes {
		if _, performed := tenants[route.Pattern]; isRecorded(&route) && !performed && (route.Concerns == nil || !isOfGateway(&route)) {
			t.Errorf("%s concerns tenants, and this test does not perform it", route.Pattern)
		}
	}
}
