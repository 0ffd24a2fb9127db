// Package llamaswap reads the parts of a configuration of llama-swap that stand for others: its
// macros, its commands, and the rules about which models may be in memory together.
package llamaswap

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Macro is a text with a name.
type Macro struct{ Name, Value string }

// Scope returns the macros of a model: its name, those of the file and its own, which replace
// those of the file at their places.
func Scope(model string, global, own []Macro) []Macro {
	scope := append([]Macro{{"MODEL_ID", model}}, global...)
	for _, macro := range own {
		at := slices.IndexFunc(scope, func(known Macro) bool { return known.Name == macro.Name })
		if at < 0 {
			scope = append(scope, macro)
			continue
		}
		scope[at] = macro
	}
	return scope
}

// Expand puts macros into a text. A macro may contain those before it.
func Expand(text string, scope []Macro) string {
	for _, macro := range slices.Backward(scope) {
		text = strings.ReplaceAll(text, "${"+macro.Name+"}", macro.Value)
	}
	return text
}

// ExpandTree returns a copy of a tree with macros put into its texts. A text that is a macro alone
// may become a number.
func ExpandTree(n *yaml.Node, scope []Macro) *yaml.Node {
	expanded := *n
	if n.Kind == yaml.ScalarNode {
		expanded.Value = Expand(n.Value, scope)
		if strings.HasPrefix(n.Value, "${") && strings.HasSuffix(n.Value, "}") {
			expanded.Tag, expanded.Style = "", 0
		}
	}
	expanded.Content = nil
	for _, below := range n.Content {
		expanded.Content = append(expanded.Content, ExpandTree(below, scope))
	}
	return &expanded
}

// Command returns a command without its comments and its marks for lines that go on, which
// llama-swap takes out before it expands macros.
func Command(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		if rest, goesOn := strings.CutSuffix(trimmed, `\`); goesOn {
			line = strings.TrimSpace(rest)
		}
		lines = append(lines, line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
