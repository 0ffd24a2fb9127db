package importer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config/references"
	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/spring"
)

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	notInName    = regexp.MustCompile(`[^A-Z0-9]+`)
)

// reserve notes the variables that a tree refers to: no other secret gets one of their
// names.
func (d *draft) reserve(root reading.Setting) {
	seen := map[*yaml.Node]bool{}
	var visit func(*yaml.Node)
	visit = func(n *yaml.Node) {
		if n = reading.Resolved(n); n == nil || seen[n] {
			return
		}
		seen[n] = true
		if n.Kind == yaml.ScalarNode {
			for _, name := range d.namesIn(n.Value) {
				d.reserved[name] = true
			}
		}
		for _, below := range n.Content {
			visit(below)
		}
	}
	visit(root.Node)
}

// namesIn returns the variables that a text of the source refers to.
func (d *draft) namesIn(text string) []string {
	if d.source != JAiRouter {
		if name := d.variableIn(text); name != "" {
			return []string{name}
		}
		return nil
	}
	var names []string
	for _, p := range spring.Placeholders(text) {
		names = append(names, spring.EnvironmentName(p.Name))
		names = append(names, d.namesIn(p.Fallback)...)
	}
	return names
}

// variableIn returns the variable that a whole text refers to, in the way of LiteLLM,
// Bifrost and llama-swap, or nothing.
func (d *draft) variableIn(text string) string {
	marks := map[Source][2]string{LiteLLM: {"os.environ/"}, Bifrost: {"env."}, LlamaSwap: {"${env.", "}"}}[d.source]
	name, found := strings.CutPrefix(text, marks[0])
	name, ends := strings.CutSuffix(name, marks[1])
	if marks[0] == "" || !found || !ends || !variableName.MatchString(name) {
		return ""
	}
	return name
}

// plain returns a text that is no secret as the configuration has it. The usual text takes
// the place of a variable that is not set.
func (d *draft) plain(n reading.Setting, usual string) string {
	return d.withFallback(n, always(usual))
}

func (d *draft) withFallback(n reading.Setting, missing fallback) string {
	if d.source == JAiRouter {
		return d.translate(n, missing)
	}
	name := d.variableIn(n.Text())
	if name == "" {
		return escaped(n.Text())
	}
	return d.known(name, n.Name, ":-"+escaped(cmp.Or(d.environment[name], missing("", name))))
}

// known returns a reference to a variable that the source refers to, with its default.
func (d *draft) known(name, from, byDefault string) string {
	d.variable(Variable{Name: name, Value: d.environment[name], From: from})
	return "${" + name + byDefault + "}"
}

// address returns the address of a backend as the configuration has it. The usual address,
// or one that leads nowhere, takes the place of a variable that is not set.
func (d *draft) address(n reading.Setting, usual string) string {
	missing := fallback(nowhere)
	if usual != "" {
		missing = always(usual)
	}
	return strings.TrimRight(d.withFallback(n, missing), "/")
}

// withDefaults returns an address with the defaults of all its variables.
func withDefaults(address string) string { return references.Resolver{}.Expand(address).Text }

// escaped escapes the characters of a text that begin a reference.
func escaped(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// secret returns a reference to a secret in the environment. The setting is the secret, or
// says in the way of the source which variable has it. The default of a variable is a
// secret as well, and gets a variable of its own.
func (d *draft) secret(n reading.Setting, proposed string) string {
	text := n.Text()
	if text == "" {
		return ""
	}
	if d.source == JAiRouter && strings.Contains(text, "${") {
		whole, isWhole := wholePlaceholder(text)
		if !isWhole {
			return d.translate(n, always(""))
		}
		if value, found := d.springValue(whole.Name); found && value != text {
			return d.secret(n.With(value), proposed)
		}
		name := spring.EnvironmentName(whole.Name)
		d.variable(Variable{Name: name, From: n.Name})
		if whole.Fallback == "" {
			return "${" + name + ":}"
		}
		own := n.With(whole.Fallback).As("the default of " + name + ", " + n.Name)
		return "${" + name + ":" + d.secret(own, name+"_DEFAULT") + "}"
	}
	if name := d.variableIn(text); name != "" {
		return d.known(name, n.Name, ":")
	}
	for _, known := range d.variables {
		if known.Value == text {
			return "${" + known.Name + ":}"
		}
	}
	name := d.freeName(proposed)
	d.variable(Variable{name, text, n.Name})
	return "${" + name + ":}"
}

// wholePlaceholder returns the placeholder that a text is, if there is nothing else in it.
func wholePlaceholder(text string) (spring.Placeholder, bool) {
	all := spring.Placeholders(text)
	if len(all) != 1 || all[0].Start != 0 || all[0].End != len(text) {
		return spring.Placeholder{}, false
	}
	return all[0], true
}

// secretProxy is secret for the address of a proxy, without which calls must not go out.
func (d *draft) secretProxy(n reading.Setting, proposed string) string {
	name := strings.TrimSuffix(strings.TrimPrefix(d.secret(n, proposed), "${"), ":}")
	return "${" + name + ":-" + nowhere("", name) + ":3128}"
}

// secretHeaders returns headers whose values are secrets.
func (d *draft) secretHeaders(headers []reading.Setting, prefix string) map[string]string {
	all := map[string]string{}
	for _, header := range headers {
		all[header.Key] = d.secret(header, prefix+header.Key)
	}
	return all
}

// hash returns the hash of a credential, or a reference to it if only the source's
// environment has the credential. It is empty for a text that is put together of several
// references.
func (d *draft) hash(n reading.Setting) string {
	if len(d.namesIn(n.Text())) == 0 {
		return access.HashOf(n.Text())
	}
	reference := d.secret(n, "")
	if _, isWhole := wholePlaceholder(reference); !isWhole {
		return ""
	}
	return "${sha256:" + strings.TrimPrefix(reference, "${")
}

// freeName makes an unused name of a variable from its purpose.
func (d *draft) freeName(proposed string) string {
	name := strings.Trim(notInName.ReplaceAllString(strings.ToUpper(proposed), "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "KEY_" + name
	}
	for base, n := name, 2; d.isTaken(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}

// isTaken reports whether a variable has another secret, or may have one.
func (d *draft) isTaken(name string) bool {
	return d.reserved[name] || slices.ContainsFunc(d.variables, func(v Variable) bool { return v.Name == name }) ||
		providers.OwnsVariable(name)
}

func (d *draft) variable(v Variable) {
	if !slices.ContainsFunc(d.variables, func(known Variable) bool { return known.Name == v.Name }) {
		d.variables = append(d.variables, v)
	}
}
