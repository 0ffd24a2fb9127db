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

// members are the names and values of a mapping in YAML. Those with an empty value are left out.
type members [][2]string

// flow writes the members in braces, or nothing if there are none.
func (m members) flow() string {
	var parts []string
	for _, member := range m {
		if member[1] != "" {
			parts = append(parts, member[0]+": "+member[1])
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// block writes the members on lines of their own, or nothing if there are none. A value with lines of its
// own ends with a line break.
func (m members) block(indent string) string {
	var b strings.Builder
	for _, member := range m {
		name, value := indent+member[0]+":", strings.TrimSuffix(member[1], "\n")
		switch {
		case value == "":
		case value[0] == '\n':
			b.WriteString(name + value + "\n")
		default:
			b.WriteString(name + " " + value + "\n")
		}
	}
	return b.String()
}

// nested writes the members as the value of another one.
func (m members) nested(indent string) string {
	if text := m.block(indent); text != "" {
		return "\n" + text
	}
	return ""
}

// section writes the members as a section of the configuration, or nothing if there are none.
func (m members) section(name string) string { return members{{name, m.nested("  ")}}.block("") }

// items writes a list with an item on each line.
func items(written []string) (text string) {
	for _, item := range written {
		text += "\n    - " + item
	}
	return text
}

// textsOf returns texts as members, by their names.
func textsOf(texts map[string]string) (m members) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m = append(m, [2]string{config.QuoteYAML(name), config.QuoteYAML(texts[name])})
	}
	return m
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

// number writes a number, or nothing for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// truth writes a text if it holds.
func truth(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// result writes the configuration.
func (d *draft) result() *Result {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by patchbay import from a configuration of %s.\n", d.source)
	if len(d.variables) > 0 {
		b.WriteString("# It refers to variables of the environment; .env.example names them.\n")
	}
	if d.isSecured && len(d.keys) == 0 {
		d.keys = []credential{{name: "nobody", hash: access.NobodysHash}}
		d.about("security.keys").Changed("callers need a key, and none could be imported: there is one that nobody " +
			"has, so that /v1 is closed until one is issued (patchbay keys create)")
	}
	b.WriteString(members{{"cors-origins", list(d.origins)}, {"listen", quoted(d.listen)}}.section("server"))
	b.WriteString(members{{"first-token-timeout", d.firstTokenTimeout}, {"json-body", d.jsonBody},
		{"max-attempts", number(d.maxAttempts)}, {"total-timeout", d.totalTimeout}}.section("limits"))
	b.WriteString(members{{"access", d.logAccess}, {"level", d.logLevel}}.section("log"))
	b.WriteString(members{{"calls", d.calls}}.section("monitoring"))
	b.WriteString(d.processesText())
	if len(d.services) > 0 {
		b.WriteString("services:\n")
	}
	for _, serviceType := range schema.ServiceTypes() {
		if s := d.services[serviceType]; s != nil {
			s.write(&b, serviceType)
		}
	}
	b.WriteString(d.answerCache)
	if len(d.prices) > 0 {
		b.WriteString(prices.YAML(prices.Settings{Currency: prices.DefaultSettings().Currency, Models: d.prices}))
	}
	b.WriteString(d.security())
	return &Result{YAML: b.String(), Rows: d.Rows(), Variables: d.variables}
}

// security writes who is let in.
func (d *draft) security() string {
	if len(d.tokens)+len(d.keys)+len(d.tenants) == 0 && !d.isSecured {
		return ""
	}
	var tokens, keys, tenants []string
	for _, token := range d.tokens {
		tokens = append(tokens, members{{"name", quoted(token.name)}, {"role", token.role},
			{"token-sha256", quoted(token.hash)}}.flow())
	}
	for _, key := range d.keys {
		keys = append(keys, append(members{{"id", quoted(key.name)}, {"tenant", quoted(key.tenant)},
			{"key-sha256", quoted(key.hash)}}, key.terms.members()...).flow())
	}
	for _, tenant := range d.tenants {
		tenants = append(tenants, append(members{{"name", quoted(tenant.name)}}, tenant.terms.members()...).flow())
	}
	return members{{"enabled", strconv.FormatBool(!d.isOpen)}, {"tokens", items(tokens)}, {"keys", items(keys)},
		{"tenants", items(tenants)}}.section("security")
}

// members returns the terms as members of a key or a tenant.
func (t terms) members() members {
	var budgets members
	for _, window := range []string{"day", "month", "total"} {
		budgets = append(budgets, [2]string{window, t.budgets[window].flow()})
	}
	return members{{"models", list(t.models)}, {"instances", list(t.instances)}, {"expires-at", quoted(t.expires)},
		{"limits", t.perMinute.flow()}, {"budgets", budgets.flow()}}
}

func (s *service) write(b *strings.Builder, serviceType schema.ServiceType) {
	fmt.Fprintf(b, "  %s:\n", serviceType)
	for _, line := range s.policy {
		fmt.Fprintf(b, "    %s\n", line)
	}
	var others members
	for _, f := range s.fallbacks {
		others = append(others, [2]string{config.QuoteYAML(f.model), list(f.others)})
	}
	b.WriteString(members{{"aliases", s.aliases.flow()}, {"fallbacks", others.flow()},
		{"instances", truth(len(s.instances) == 0, "[]")}}.block("    "))
	for n, i := range s.instances {
		text := strings.TrimPrefix(i.members().block("        "), "        ")
		b.WriteString(truth(n == 0, "    instances:\n") + "      - " + text)
	}
}

// members returns the settings of the instance.
func (i instance) members() members {
	weight := ""
	switch {
	case i.noTraffic:
		weight = "0"
	case i.weight != 0 && i.weight != 1:
		weight = strconv.FormatFloat(i.weight, 'f', -1, 64)
	}
	return members{
		{"models", i.discovers()}, {"name", truth(len(i.models) == 0 || i.name != discovered, quoted(i.name))},
		{"base-url", quoted(i.baseURL)}, {"process", quoted(i.process)}, {"adapter", quoted(i.adapter)},
		{"upstream-model", quoted(i.upstreamModel)}, {"path", quoted(i.path)}, {"api-version", quoted(i.apiVersion)},
		{"api-key", quoted(i.apiKey)}, {"proxy", quoted(i.proxy)}, {"body", quoted(i.body)}, {"weight", weight},
		{"enabled", truth(i.disabled, "false")}, {"tier", number(i.tier)},
		{"max-concurrency", number(i.maxConcurrency)}, {"timeouts", i.timeouts.flow()},
		{"headers", textsOf(i.headers).nested("          ")},
	}
}
