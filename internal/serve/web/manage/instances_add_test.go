package manage_test

import (
	"net/http"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestSeveralInstancesAreAddedAsOneVersion(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: {chat: {}}\n")
	const path = "/api/config/instance/add"
	one := func(service, name, url string) string {
		return `{"serviceType":"` + service + `","instance":{"name":"` + name + `","baseUrl":"` + url + `","apiKey":"k"}}`
	}
	chat, embedding := one("chat", "m", b.URL()), one("embedding", "e", b.URL())
	r.API(http.MethodPost, path+"?dryRun=true", `{"instances":[`+chat+`,`+embedding+`]}`).Is(t, 200, `"dryRun":true`)
	r.API(http.MethodPost, path, `{"instances":[`+chat+`,`+embedding+`]}`).Is(t, 201, "Added 2 instances.", `"version":2`)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	r.Post("/v1/embeddings", `{"model":"e","input":"x"}`).Succeeds(t)
	if got := b.Requests()[0].Header.Get("Authorization"); got != "Bearer k" {
		t.Errorf("the backend was sent %q", got)
	}
	other := one("rerank", "r", b.URL())
	for body, part := range map[string]string{
		`{}`: "instances",
		`{"instances":[` + other + `,` + chat + `]}`:                         "instances[1].instance.name",
		`{"instances":[` + other + `,` + other + `]}`:                        "exists already",
		`{"instances":[` + other + `,` + one("cooking", "m", b.URL()) + `]}`: "instances[1].serviceType",
		`{"instances":[` + other + `,` + one("chat", "x", "ftp://x") + `]}`:  "base-url",
		`{"instances":[{"serviceType":"chat","instance":{"title":"m"}}]}`:    "instances[0].instance.title",
	} {
		r.API(http.MethodPost, path, body).Is(t, 400, part)
	}
	if got := r.Control.Version(); got != 2 {
		t.Errorf("version %d", got)
	}
}

// What loads models by itself is added together with the setting that has the gateway know it.
func TestInstancesAreAddedWithResidency(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: {chat: {}, rerank: {}}\n")
	r.API(http.MethodPost, "/api/config/instance/add", `{"residency":true,"instances":[`+
		`{"serviceType":"chat","instance":{"models":["discover"],"baseUrl":"`+b.URL()+`","adapter":"ollama"}},`+
		`{"serviceType":"embedding","instance":{"models":["discover"],"baseUrl":"`+b.URL()+`","adapter":"ollama"}}]}`).
		Is(t, 201, `"version":2`)
	doc, _ := r.Control.Document()
	for service, want := range map[schema.ServiceType]bool{schema.Chat: true, schema.Embedding: true, schema.Rerank: false} {
		if got := doc.Services[service].Residency.Enabled; got != want {
			t.Errorf("residency of %v is %t", service, got)
		}
	}
}

// Only an administrator lets callers name members for operators of engines, whatever operation makes the
// change; the file may, and what is allowed stays in edits of others.
func TestOnlyAnAdminLetsCallersNameMembers(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	instance := func(more string) string {
		return `{"name":"m","baseUrl":"` + b.URL() + `","adapter":"vllm"` + more + `}`
	}
	const members = `,"allowMembers":["priority"]`
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML()+gatewaytest.ChatYAML(
		`{name: of-file, base-url: "`+b.URL()+`", adapter: vllm, allow-members: [lora]}`))
	as := func(role, method, path, body string) gatewaytest.ManagementReply {
		return r.API(method, path, body, "Authorization", "Bearer "+role+"-token")
	}
	id := "m@" + b.URL()
	update := func(change string) string { return `{"instanceId":"` + id + `","instance":` + change + `}` }
	for what, request := range map[string][3]string{
		"add":     {http.MethodPost, gatewaytest.AddInstancePath + "chat", instance(members)},
		"several": {http.MethodPost, "/api/config/instance/add", `{"instances":[{"serviceType":"chat","instance":` + instance(members) + `}]}`},
		"service": {http.MethodPost, "/api/config/type/services/embedding", `{"instances":[` + instance(members) + `]}`},
	} {
		as("operator", request[0], request[1], request[2]).Is(t, 403)
		as("operator", request[0], request[1]+"?dryRun=true", request[2]).Is(t, 403)
		if got := r.Control.Version(); got != 1 {
			t.Errorf("%s: got version %d, want 1", what, got)
		}
	}
	as("operator", http.MethodPost, gatewaytest.AddInstancePath+"chat", instance("")).Is(t, 201)
	as("operator", http.MethodPut, gatewaytest.UpdateInstancePath+"chat", update(`{"allowMembers":["priority"]}`)).Is(t, 403)
	as("admin", http.MethodPut, gatewaytest.UpdateInstancePath+"chat", update(`{"allowMembers":["prio"]}`)).Is(t, 400, "allowMembers[0]", "priority")
	as("admin", http.MethodPut, gatewaytest.UpdateInstancePath+"chat", update(`{"allowMembers":["lora","lora"]}`)).Is(t, 400, "allowMembers[1]")
	as("admin", http.MethodPut, gatewaytest.UpdateInstancePath+"chat", update(`{"allowMembers":["priority"]}`)).Is(t, 200) // version 3
	as("viewer", http.MethodGet, "/api/config/type/services/chat", "").Is(t, 200, `"allowMembers":["priority"]`)
	as("operator", http.MethodPut, gatewaytest.UpdateInstancePath+"chat", update(`{"weight":2}`)).Is(t, 200)
	as("operator", http.MethodPut, gatewaytest.UpdateInstancePath+"chat", update(`{"allowMembers":["priority","lora"]}`)).Is(t, 403)
	as("operator", http.MethodPut, gatewaytest.UpdateInstancePath+"chat", update(`{"baseUrl":"http://127.0.0.1:9"}`)).Is(t, 403)
	as("operator", http.MethodPut, gatewaytest.UpdateInstancePath+"chat", update(`{"allowMembers":[]}`)).Is(t, 200)
	as("operator", http.MethodPost, "/api/config/version/rollback/3", "").Is(t, 403)
	as("admin", http.MethodPost, "/api/config/version/rollback/3", "").Is(t, 200)
	as("operator", http.MethodPost, "/api/config/type/reset", "").Is(t, 200)
}
