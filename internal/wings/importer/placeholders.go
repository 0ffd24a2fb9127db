package importer

import (
	"strings"

	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/spring"
	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how far settings may refer to each other.
const maxDepth = 10

// fallback returns the text in place of a variable that is not set and has no default,
// given the text before it and its name.
type fallback func(before, name string) string

// always is the fallback that is the same text everywhere.
func always(text string) fallback { return func(string, string) string { return text } }

// translate writes a text of Spring as one of ours: a setting of the same configuration is
// replaced by its value, and any other reference by a variable.
func (d *draft) translate(n reading.Setting, missing fallback) string {
	return d.translated(n.Text(), n.Name, missing, 0)
}

func (d *draft) translated(text, from string, missing fallback, depth int) string {
	if depth > maxDepth {
		return ""
	}
	var b strings.Builder
	behind := 0
	for _, p := range spring.Placeholders(text) {
		b.WriteString(escaped(text[behind:p.Start]))
		behind = p.End
		if value, found := d.springValue(p.Name); found {
			b.WriteString(d.translated(value, from, missing, depth+1))
			continue
		}
		name := spring.EnvironmentName(p.Name)
		d.variable(Variable{Name: name, From: from})
		written := ":-" + escaped(missing(text[:p.Start], name))
		if p.HasFallback {
			written = ":" + d.translated(p.Fallback, from, always(""), depth+1)
			if strings.HasPrefix(p.Fallback, "-") { // it has a meaning in our references
				written = ":-" + written[1:]
			}
		}
		b.WriteString("${" + name + written + "}")
	}
	b.WriteString(escaped(text[behind:]))
	return b.String()
}

// nowhere is the fallback for parts of an address: a host that leads nowhere, or a port
// without a listener.
func nowhere(before, name string) string {
	label := strings.ToLower(strings.Trim(notInName.ReplaceAllString(strings.ToUpper(name), "-"), "-"))
	switch {
	case before == "":
		return "http://" + label + ".invalid"
	case strings.HasSuffix(before, "://"):
		return label + ".invalid"
	case strings.HasSuffix(before, ":"):
		return "1"
	}
	return label
}

// springValue returns the value of a setting of the configuration by its full name.
func (d *draft) springValue(name string) (string, bool) {
	s := d.springRoot.At(strings.Split(name, ".")...)
	if !s.Exists() || s.Node.Kind != yaml.ScalarNode {
		return "", false
	}
	return s.Text(), true
}
