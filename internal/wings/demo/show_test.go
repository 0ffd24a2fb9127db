package demo_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/wings/demo"
)

// A demo knows the keys that it has, with their terms, and asks nobody for one.
func TestKeysAreKnownAndNotAskedFor(t *testing.T) {
	t.Parallel()
	for name, isDemo := range map[string]bool{"demo": true, "gateway without security": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := simulator.Start(simulator.Demo("A", 0))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{Demo: isDemo, YAML: gatewaytest.ChatYAML(gatewaytest.Instance(simulator.DemoChat, b.URL())) +
				"security: {tenants: [{name: acme, budgets: {total: {requests: 2}}}], keys: [{id: shop, tenant: acme, key-sha256: " + gatewaytest.HashOf("sk-shop") + "}]}\n"})
			for range 2 {
				r.Chat(chat, "Authorization", "Bearer sk-shop").Succeeds(t)
			}
			third := r.Chat(chat, "Authorization", "Bearer sk-shop")
			if isDemo != (third.Status == http.StatusTooManyRequests) {
				t.Errorf("the third request of a tenant with two: %d %s", third.Status, third.Body)
			}
			r.Chat(chat).Succeeds(t)
			r.Chat(chat, "Authorization", "Bearer sk-of-nobody").Succeeds(t)
			if listed := string(r.API(http.MethodGet, "/api/auth/keys", "").Data); isDemo != strings.Contains(listed, `"lastUsedAt"`) {
				t.Error(listed)
			}
		})
	}
}

func TestSettingsLeaveWhatIsGiven(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		sections []string
		hasKeys  bool
	}{
		"":                     {[]string{"batches", "prices", "quota", "security", "security"}, true},
		"security.allow-open":  {[]string{"batches", "prices", "quota", "security", "security"}, true},
		"security.tokens":      {[]string{"batches", "prices", "quota"}, false},
		"security.keys[0].id":  {[]string{"batches", "prices", "quota"}, false},
		"quota.enabled":        {[]string{"batches", "prices", "security", "security"}, true},
		"prices.models[0].any": {[]string{"batches", "quota", "security", "security"}, true},
	} {
		set, hasKeys := demo.Settings(map[string]string{name: "--set", "server.listen": "--listen"})
		var sections []string
		for _, setting := range set {
			section, _, _ := strings.Cut(setting, ".")
			sections = append(sections, section)
		}
		slices.Sort(sections)
		if !slices.Equal(sections, want.sections) || hasKeys != want.hasKeys {
			t.Errorf("with %s: %v %v", name, set, hasKeys)
		}
	}
}

// Every third answer of the first instance breaks off, and the caller of none notices.
func TestStreamsOfTheRelayGoOn(t *testing.T) {
	t.Parallel()
	var instances []string
	for _, name := range []string{"A", "B"} {
		options := simulator.Demo(name, 0)
		options.TokenDelay = 0
		b, err := simulator.Start(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		instances = append(instances, gatewaytest.Instance(simulator.DemoRelay, b.URL(), "adapter: vllm"))
	}
	r := gatewaytest.Start(t, "services: {chat: {streams: {resume: continue}, "+gatewaytest.NoChecks+", instances: ["+strings.Join(instances, ",")+"]}}\n")
	resumed := 0
	for range 6 {
		events, err := r.Stream(gatewaytest.Deadline(t), `{"model":"demo-relay","stream":true,"messages":[{"role":"user","content":"a LONG answer"}]}`).Rest()
		all := strings.Join(events, "\n")
		if err != nil || !strings.Contains(all, "[DONE]") {
			t.Fatalf("%v %s", err, all)
		}
		resumed += strings.Count(all, ": resumed attempt=2 how=continued")
	}
	if resumed != 1 {
		t.Errorf("%d of 6 answers went on elsewhere", resumed)
	}
}
