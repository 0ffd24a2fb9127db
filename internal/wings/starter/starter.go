// Package starter writes the first configuration of somebody: it finds the model servers of
// this machine, and lists further settings in comments.
package starter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
)

// Backend is a backend with models for the file.
type Backend struct {
	Title   string // its name in a comment
	BaseURL string
	Adapter string
	Models  []discover.Model
	// KeyVariable is the environment variable with its key; empty where it needs none.
	KeyVariable string
}

// Options are the parts that the file is made from.
type Options struct {
	Schema   string // where the JSON Schema is; empty leaves the line out
	File     string // the name of the file itself, for comments
	Listen   string
	Backends []Backend
	// TokenHash and KeyHash are the hashes of the first management token and API key; with
	// them security is on.
	TokenHash, KeyHash string
}

// Content returns the file. The gateway can read it unchanged.
func Content(o Options) string {
	var b strings.Builder
	if o.Schema != "" {
		fmt.Fprintf(&b, "# yaml-language-server: $schema=%s\n", o.Schema)
	}
	fmt.Fprintf(&b, `# The configuration of Patchbay. A change of this file takes effect while it runs.
#
#   patchbay check %[1]s     finds every mistake
#   patchbay serve %[1]s     runs it
#   patchbay doctor %[1]s    checks it together with the backends and this machine
#
# ${NAME} is a variable of the environment, ${NAME:default} one with a default, and
# ${file:/run/secrets/name} the content of a file.

format: 1

server:
  listen: %[2]s
  # data-dir: ./data              # versions, keys and counts
  # shutdown-grace: 30s           # what running requests get when it stops
  # tls: { certificate: cert.pem, key: key.pem }

# limits:
#   max-attempts: 2               # instances that one request may try
#   first-byte-timeout: 300s

`, o.File, config.QuoteYAML(o.Listen))
	writeServices(&b, o.Backends)
	writeSecurity(&b, o)
	b.WriteString(`
# quota: { enabled: true }        # count requests and tokens by tenant, key, user and model
# log: { level: info, format: auto }
`)
	return b.String()
}

func writeServices(b *strings.Builder, backends []Backend) {
	b.WriteString("services:\n")
	strategies, chosen := balance.RoundRobin.Names(), config.Kebab(balance.LeastTime.String())
	for i, name := range strategies {
		strategies[i] = config.Kebab(name)
	}
	for _, serviceType := range schema.ServiceTypes() {
		var lines []string
		for _, backend := range backends {
			lines = append(lines, instancesOf(backend, serviceType)...)
		}
		if len(lines) == 0 && serviceType != schema.Chat {
			continue
		}
		fmt.Fprintf(b, "  %s:\n", config.Kebab(serviceType.String()))
		if serviceType == schema.Chat {
			others := slices.DeleteFunc(strategies, func(name string) bool { return name == chosen })
			fmt.Fprintf(b, "    load-balancer: %s      # or %s\n", chosen, strings.Join(others, ", "))
			b.WriteString(`    # rate-limit: { capacity: 100, refill-rate: 10 }
    # circuit-breaker: { failure-threshold: 5, recovery-timeout: 30s, success-threshold: 3 }
`)
		}
		if len(lines) == 0 {
			b.WriteString(`    instances: []
    # instances:
    #   - { name: "qwen2.5:7b", base-url: "http://127.0.0.1:11434", adapter: ollama }
    #   - { name: gpt-4o, base-url: "https://api.openai.com", api-key: "${OPENAI_API_KEY}" }
    #   - { name: claude, base-url: "https://api.anthropic.com", adapter: anthropic,
    #       upstream-model: claude-sonnet-4-5, api-key: "${ANTHROPIC_API_KEY}" }
`)
			continue
		}
		b.WriteString("    instances:\n")
		for _, line := range lines {
			b.WriteString("      " + line + "\n")
		}
	}
}

// instancesOf returns the lines of the models of a backend that are of a service type.
func instancesOf(b Backend, serviceType schema.ServiceType) []string {
	var lines []string
	for _, model := range b.Models {
		if model.ServiceType != serviceType {
			continue
		}
		if len(lines) == 0 {
			lines = append(lines, "# "+b.Title)
		}
		line := fmt.Sprintf("- { name: %s, base-url: %s, adapter: %s", config.QuoteYAML(cmp.Or(model.Name, model.ID)),
			config.QuoteYAML(b.BaseURL), b.Adapter)
		if model.Name != "" {
			line += ", upstream-model: " + config.QuoteYAML(model.ID)
		}
		if b.KeyVariable != "" {
			line += ", api-key: " + config.QuoteYAML("${"+b.KeyVariable+"}")
		}
		lines = append(lines, line+" }")
	}
	return lines
}

func writeSecurity(b *strings.Builder, o Options) {
	if o.TokenHash == "" {
		b.WriteString(`
# Beyond loopback security is needed. patchbay keys and patchbay tokens issue more
# credentials while it runs.
# security:
#   enabled: true
#   tokens:
#     - { name: ops, role: ADMIN, token-sha256: ... }  # patchbay tokens hash
#   keys:
#     - { id: team-a, key-sha256: ... }
`)
		return
	}
	fmt.Fprintf(b, `
# Only hashes are here. patchbay keys and patchbay tokens issue more credentials while
# it runs.
security:
  enabled: true
  tokens:
    - { name: admin, role: ADMIN, token-sha256: %s }
  keys:
    - { id: first, key-sha256: %s }
`, o.TokenHash, o.KeyHash)
}
