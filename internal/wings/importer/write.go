package importer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// result writes the configuration.
func (d *draft) result() *Result {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by patchbay import from a configuration of %s.\n", d.source)
	if len(d.variables) > 0 {
		b.WriteString("# It refers to variables of the environment; .env.example names them.\n")
	}
	if d.isSecured && len(d.keys) == 0 {
		d.keys = []credential{{name: "nobody", hash: access.NobodysHash}}
		d.about("security.keys").Changed("callers need a key, and none could be imported: there is one that nobody has, so that /v1 is closed " +
			"until one is issued (patchbay keys create)")
	}
	d.writeServer(&b)
	b.WriteString(d.processesText())
	if len(d.services) > 0 {
		b.WriteString("services:\n")
	}
	for _, serviceType := range schema.ServiceTypes() {
		if s := d.services[serviceType]; s != nil {
			s.write(&b, serviceType)
		}
	}
	section(&b, "answer-cache", d.answerCache)
	if len(d.prices) > 0 {
		b.WriteString(prices.YAML(prices.Settings{Currency: prices.DefaultSettings().Currency, Models: d.prices}))
	}
	b.WriteString(d.security())
	return &Result{YAML: b.String(), Rows: d.Rows(), Variables: d.variables}
}

func (d *draft) writeServer(b *strings.Builder) {
	section(b, "server", map[string]string{"listen": quoted(d.listen), "cors-origins": list(d.origins)})
	attempts := ""
	if d.maxAttempts > 0 {
		attempts = strconv.Itoa(d.maxAttempts)
	}
	section(b, "limits", map[string]string{
		"max-attempts": attempts, "total-timeout": d.totalTimeout, "first-token-timeout": d.firstTokenTimeout,
		"json-body": d.jsonBody,
	})
	section(b, "log", map[string]string{"level": d.logLevel, "access": d.logAccess})
	section(b, "monitoring", map[string]string{"calls": d.calls})
}

// section writes the members of a section that have a value, if there are any.
func section(b *strings.Builder, name string, members map[string]string) {
	begun := false
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if members[key] == "" {
			continue
		}
		if !begun {
			b.WriteString(name + ":\n")
			begun = true
		}
		fmt.Fprintf(b, "  %s: %s\n", key, members[key])
	}
}

// quoted writes a text, or nothing for an empty one.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return config.QuoteYAML(text)
}

// list writes a list of texts, or nothing for an empty one.
func list(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	written := make([]string, len(texts))
	for i, text := range texts {
		written[i] = config.QuoteYAML(text)
	}
	return "[" + strings.Join(written, ", ") + "]"
}

// security writes who is let in.
func (d *draft) security() string {
	if len(d.tokens)+len(d.keys)+len(d.tenants) == 0 && !d.isSecured {
		return ""
	}
	b := new(strings.Builder)
	fmt.Fprintf(b, "security:\n  enabled: %t\n", !d.isOpen)
	for i, token := range d.tokens {
		if i == 0 {
			b.WriteString("  tokens:\n")
		}
		fmt.Fprintf(b, "    - { name: %s, role: %s, token-sha256: %s }\n", config.QuoteYAML(token.name), token.role,
			config.QuoteYAML(token.hash))
	}
	for i, key := range d.keys {
		if i == 0 {
			b.WriteString("  keys:\n")
		}
		fmt.Fprintf(b, "    - { id: %s, ", config.QuoteYAML(key.name))
		if key.tenant != "" {
			fmt.Fprintf(b, "tenant: %s, ", config.QuoteYAML(key.tenant))
		}
		fmt.Fprintf(b, "key-sha256: %s%s }\n", config.QuoteYAML(key.hash), key.terms.written())
	}
	for i, tenant := range d.tenants {
		if i == 0 {
			b.WriteString("  tenants:\n")
		}
		fmt.Fprintf(b, "    - { name: %s%s }\n", config.QuoteYAML(tenant.name), tenant.terms.written())
	}
	return b.String()
}

// written returns terms as further members of a mapping.
func (t terms) written() string {
	var b strings.Builder
	if len(t.models) > 0 {
		b.WriteString(", models: " + list(t.models))
	}
	if len(t.instances) > 0 {
		b.WriteString(", instances: " + list(t.instances))
	}
	if t.expires != "" {
		b.WriteString(", expires-at: " + config.QuoteYAML(t.expires))
	}
	if len(t.perMinute) > 0 {
		b.WriteString(", limits: { " + strings.Join(t.perMinute, ", ") + " }")
	}
	var budgets []string
	for _, window := range []string{"day", "month", "total"} {
		if lines := t.budgets[window]; len(lines) > 0 {
			budgets = append(budgets, window+": { "+strings.Join(lines, ", ")+" }")
		}
	}
	if len(budgets) > 0 {
		b.WriteString(", budgets: { " + strings.Join(budgets, ", ") + " }")
	}
	return b.String()
}

func (s *service) write(b *strings.Builder, serviceType schema.ServiceType) {
	fmt.Fprintf(b, "  %s:\n", serviceType)
	for _, line := range s.policy {
		fmt.Fprintf(b, "    %s\n", line)
	}
	if len(s.aliases) > 0 {
		fmt.Fprintf(b, "    aliases: { %s }\n", strings.Join(s.aliases, ", "))
	}
	if len(s.fallbacks) > 0 {
		var written []string
		for _, f := range s.fallbacks {
			written = append(written, config.QuoteYAML(f.model)+": "+list(f.others))
		}
		fmt.Fprintf(b, "    fallbacks: { %s }\n", strings.Join(written, ", "))
	}
	if len(s.instances) == 0 {
		b.WriteString("    instances: []\n")
		return
	}
	b.WriteString("    instances:\n")
	for _, i := range s.instances {
		i.write(b)
	}
}

func (i instance) write(b *strings.Builder) {
	name := config.QuoteYAML(i.name)
	switch {
	case len(i.models) == 0:
		fmt.Fprintf(b, "      - name: %s\n", name)
	case i.name == discovered:
		fmt.Fprintf(b, "      - models: %s\n", i.discovers())
	default:
		fmt.Fprintf(b, "      - models: %s\n        name: %s\n", i.discovers(), name)
	}
	for _, field := range []struct{ name, value string }{
		{"base-url", i.baseURL}, {"process", i.process}, {"adapter", i.adapter},
		{"upstream-model", i.upstreamModel}, {"path", i.path},
		{"api-version", i.apiVersion}, {"api-key", i.apiKey}, {"proxy", i.proxy},
		{"body", i.body},
	} {
		if field.value != "" {
			fmt.Fprintf(b, "        %s: %s\n", field.name, config.QuoteYAML(field.value))
		}
	}
	switch {
	case i.noTraffic:
		b.WriteString("        weight: 0\n")
	case i.weight != 0 && i.weight != 1:
		fmt.Fprintf(b, "        weight: %s\n", strconv.FormatFloat(i.weight, 'f', -1, 64))
	}
	if i.disabled {
		b.WriteString("        enabled: false\n")
	}
	if i.tier > 0 {
		fmt.Fprintf(b, "        tier: %d\n", i.tier)
	}
	if i.maxConcurrency > 0 {
		fmt.Fprintf(b, "        max-concurrency: %d\n", i.maxConcurrency)
	}
	if len(i.timeouts) > 0 {
		fmt.Fprintf(b, "        timeouts: { %s }\n", strings.Join(i.timeouts, ", "))
	}
	if len(i.headers) > 0 {
		b.WriteString("        headers:\n")
		for _, name := range slices.Sorted(maps.Keys(i.headers)) {
			fmt.Fprintf(b, "          %s: %s\n", config.QuoteYAML(name), config.QuoteYAML(i.headers[name]))
		}
	}
}

// timeouts writes the timeouts of an instance: their names, each with its length, which may be empty.
func timeouts(namesAndLengths ...string) (lines []string) {
	for pair := range slices.Chunk(namesAndLengths, 2) {
		if pair[1] != "" {
			lines = append(lines, pair[0]+": "+pair[1])
		}
	}
	return lines
}
