package manage_test

import (
	"net/http"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/gatewaytest"
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
	r.API(http.MethodPost, path, `{"instances":[`+chat+`,`+embedding+`]}`).Is(t, 201, "2 instances were added", `"version":2`)
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
