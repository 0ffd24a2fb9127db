package monitor_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// headline returns the state and the text of the headline.
func headline(t *testing.T, r *gatewaytest.Gateway, query string, headers ...string) string {
	t.Helper()
	said := gatewaytest.At(t, r.GetObject("/api/monitoring/problems"+query, headers...), "headline").(map[string]any)
	state, _ := said["state"].(string)
	return strings.TrimSpace(state + " " + said["text"].(string))
}

// TestTheHeadlineKnowsWhatCannotBeServed: without any call, by the state of the instances. A model
// that a person switched off is not at fault, and one that another model answers for is not down.
func TestTheHeadlineKnowsWhatCannotBeServed(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, `
services:
  chat: {`+gatewaytest.NoChecks+`, fallbacks: {two: [one]}, instances: [`+gatewaytest.Instance("one", b.URL())+", "+gatewaytest.Instance("two", b.URL())+", "+gatewaytest.Instance("three", b.URL())+`]}
  embedding: {`+gatewaytest.NoChecks+`, instances: [`+gatewaytest.Instance("e", b.URL())+`]}
`)
	is := func(want string) {
		t.Helper()
		if got := headline(t, r, ""); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	hold := func(model string, mode breaker.Mode) {
		r.Instances(model)[0].Breaker.Force(mode, breaker.Hold{By: "somebody"}, time.Now())
	}
	is("All 2 services answer.")
	r.ChangeChat(func(s *config.Service) { s.Instances[2].Enabled = false })
	is("All 2 services answer.")
	hold("two", breaker.ForcedOpen)
	is("found two does not answer, and one answers for it.")
	hold("one", breaker.ForcedOpen)
	if got := headline(t, r, ""); !strings.HasPrefix(got, "unserved chat does not answer: no instance of its 2 models can serve.") {
		t.Error(got)
	}
	hold("two", breaker.Auto)
	if got := headline(t, r, ""); !strings.HasPrefix(got, "unserved one does not answer: circuit breaker held open by somebody since ") {
		t.Error(got)
	}
	if got := headline(t, r, "?model=two"); got != "All 2 services answer." {
		t.Error(got)
	}
}

// TestPlantedFaultsAreNamed: a slow engine, a wrong key at one backend, and a tenant that floods its
// limit. The first screen names the object and the cause of each, and the worse before the others.
func TestPlantedFaultsAreNamed(t *testing.T) {
	t.Parallel()
	locked, good, slow := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	slow.ScriptForever(simulator.Step{HeaderDelay: 300 * time.Millisecond})
	locked.ScriptForever(simulator.Step{Status: 401, Body: `{"error":{"message":"Incorrect API key provided: sk-old"}}`, Header: gatewaytest.ContentType("application/json")})
	r := gatewaytest.Start(t, `
security:
  enabled: true
  tokens: [{name: o, token-sha256: `+gatewaytest.HashOf("operator-token")+`, role: OPERATOR}, {name: v, token-sha256: `+gatewaytest.HashOf("viewer-token")+`, role: VIEWER}]
  tenants: [{name: acme, limits: {requests-per-minute: 5}}]
  keys: [{id: bot, tenant: acme, key-sha256: `+gatewaytest.HashOf("sk-bot")+`}, {id: other, key-sha256: `+gatewaytest.HashOf("sk-other")+`}]
services: {chat: {`+gatewaytest.NoChecks+`, instances: [`+gatewaytest.Instance("gpt", locked.URL())+", "+gatewaytest.Instance("llama", good.URL())+", "+gatewaytest.Instance("pair", good.URL())+", "+gatewaytest.Instance("pair", slow.URL())+`]}}
`)
	chat := func(model, key string, count int) {
		for range count {
			r.Chat(`{"model":"`+model+`",`+gatewaytest.SomeMessages+`}`, "Authorization", "Bearer "+key)
		}
	}
	chat("llama", "sk-nobody", 3)
	if got := headline(t, r, "", "Authorization", asViewer); got != "The service chat answers." {
		t.Errorf("with strangers only: %s", got)
	}
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() { chat("pair", "sk-other", 2) })
	}
	calls.Wait()
	host := func(b *simulator.Backend) string { return strings.TrimPrefix(b.URL(), "http://") }
	gatewaytest.Eventually(t, "the slow engine is named", func() bool {
		got := headline(t, r, "", "Authorization", asViewer)
		return strings.HasPrefix(got, "found pair at "+host(slow)+" takes ") && strings.Contains(got, " times as long as at "+host(good))
	})
	chat("llama", "sk-bot", 20)
	flood := "refusing Tenant acme is at its limit, which refused 15 of 20 calls in the last 5 minutes."
	if got := headline(t, r, "", "Authorization", asViewer); got != flood {
		t.Errorf("%s, want %s", got, flood)
	}
	chat("gpt", "sk-other", 3)
	wrong := fmt.Sprintf("losing gpt at %s: calls lost: 3, rescued: 0. The backend refused the gateway's credentials.", host(locked))
	for _, who := range []string{asViewer, asOperator} {
		if got := headline(t, r, "", "Authorization", who); got != wrong {
			t.Errorf("%s: %s, want %s", who, got, wrong)
		}
	}
	for query, want := range map[string]string{"?tenant=acme": flood, "?keyId=bot": flood, "?model=gpt": wrong, "?model=llama": "The service chat answers.", "?keyId=other": wrong} {
		if got := headline(t, r, query, "Authorization", asViewer); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if got := r.Do(http.MethodGet, "/api/monitoring/problems?service=nothing", "", "Authorization", asViewer); got.Status != http.StatusBadRequest {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
