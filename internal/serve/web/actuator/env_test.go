package actuator

import (
	"os"
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/config"
)

// maskedOf returns the paths of the settings whose values are not shown.
func maskedOf(t *testing.T, yaml string) []string {
	t.Helper()
	loaded, err := config.Load(config.Source{File: "test.yaml", Content: []byte(yaml)})
	if err != nil {
		t.Fatal(err)
	}
	// Files that are not there would be mistakes of the configuration.
	loaded.Document.Server.TLS = listen.TLS{Certificate: "/etc/tls/cert.pem", Key: "/etc/tls/key.pem", ClientCA: "/etc/tls/ca.pem"}
	var paths []string
	for _, s := range sourcesOf(loaded.Document, loaded.Origins, nil) {
		for path, p := range s.Properties {
			if p.Value == masked {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// Nothing of a gateway that was started without a configuration is a secret.
func TestDefaultsAreNotMasked(t *testing.T) {
	t.Parallel()
	if paths := maskedOf(t, ""); len(paths) > 0 {
		t.Errorf("masked: %q", paths)
	}
}

// Of a configuration with texts of every kind, exactly those are masked that may hold a
// secret, an address of a backend or a store, or a name of somebody.
func TestOnlySecretsAddressesAndNamesAreMasked(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../../../wings/answers"); err != nil {
		t.Skip("this tree has no wing answers (make without)")
	}
	got := maskedOf(t, `
server:
  listen: [127.0.0.1:9001, 127.0.0.1:9002]
  management-listen: 127.0.0.1:9003
  data-dir: /srv/patchbay
  shutdown-delay: 5s
  trusted-proxies: [10.1.0.0/16]
  cors-origins: [https://app.example]
limits: {first-byte-timeout: 90s, json-body: 16MiB}
log: {level: warn, format: text}
monitoring: {prefix: other, collection-interval: PT5S, capture: headers, enabled-categories: [request], custom-tags: {region: eu}}
quota: {enabled: true, journal-sync: always, windows: [DAY], retention: {day: 10d}, distributed: {key-prefix: other, timeout: 20ms}}
redis: {url: "redis://:password@redis.internal/0", key-prefix: other}
responses: {ttl: 1h, max-bytes: 1MiB}
store: {config: "postgres://u:password@db.internal/x", url: "postgres://u:password@db.internal/x", keep-versions: 7}
prices: {currency: EUR, models: [{model: gpt, input: 1, output: 2}]}
security:
  enabled: true
  allowed-hosts: [gateway.example]
  master-key: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
  previous-master-key: "MTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
  defaults: {models: ["gpt*"], services: [chat], addresses: [10.0.0.0/8], expires-at: "2099-01-31T00:00:00Z"}
  tenants: [{name: acme, models: ["gpt*"], addresses: [10.0.0.0/8]}]
  tokens: [{name: alice, role: ADMIN, token-sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b857"}]
  keys: [{id: team, tenant: acme, models: ["gpt*"], addresses: [10.0.0.0/8], key-sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b856", limits: {requests-per-minute: 5}}]
telemetry: {enabled: true, endpoint: "http://collector.internal:4318", protocol: http, service-name: gateway, headers: {Authorization: secret}}
services:
  chat:
    load-balancer: random
    adapter: vllm
    aliases: {small: gpt}
    fallbacks: {gpt: [other]}
    fallback-on: [context]
    rate-limit: {algorithm: leaky-bucket, scope: model}
    instances:
      - {name: gpt, base-url: "http://gpu.internal:8000", path: /secret/chat, api-key: sk-secret, headers: {X-Key: secret}, adapter: openai, upstream-model: gpt-x, proxy: "http://u:password@proxy.internal:3128"}
      - {name: other, base-url: "https://gpu.internal:8001", api-key: "", tls: {server-name: gpu.internal}}
`)
	want := []string{
		"redis.url",
		"security.defaults.addresses[0]",
		"security.keys[0].addresses[0]", "security.keys[0].id", "security.keys[0].key-sha256", "security.keys[0].tenant",
		"security.master-key", "security.previous-master-key",
		"security.tenants[0].addresses[0]", "security.tenants[0].name",
		"security.tokens[0].name", "security.tokens[0].token-sha256",
		"services.chat.instances[0].api-key", "services.chat.instances[0].base-url", "services.chat.instances[0].headers.x-key",
		"services.chat.instances[0].path", "services.chat.instances[0].proxy",
		"services.chat.instances[1].base-url", "services.chat.instances[1].tls.server-name",
		"store.config", "store.url",
		"telemetry.endpoint", "telemetry.headers.authorization",
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("masked are\n%q, want\n%q", got, want)
	}
}
