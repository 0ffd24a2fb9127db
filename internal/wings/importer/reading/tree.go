package reading

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// At returns the node below a node by the names of members, in any spelling, or nil.
func At(n *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		n = member(n, name)
	}
	return n
}

func member(n *yaml.Node, name string) *yaml.Node {
	n = Resolved(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if schema.Fold(n.Content[i].Value) == schema.Fold(name) {
			return Resolved(n.Content[i+1])
		}
	}
	return nil
}

// Resolved follows aliases.
func Resolved(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// Entry is a member of a mapping.
type Entry struct {
	Key   string
	Value *yaml.Node
}

// Entries returns the members of a mapping.
func Entries(n *yaml.Node) []Entry {
	n = Resolved(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var list []Entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		list = append(list, Entry{n.Content[i].Value, Resolved(n.Content[i+1])})
	}
	return list
}

// Items returns the items of a list.
func Items(n *yaml.Node) []*yaml.Node {
	n = Resolved(n)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	list := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		list[i] = Resolved(item)
	}
	return list
}

// ItemsOrOne returns the items of a list, or the node itself where it is none.
func ItemsOrOne(n *yaml.Node) []*yaml.Node {
	if n = Resolved(n); n == nil || n.Kind == yaml.SequenceNode {
		return Items(n)
	}
	return []*yaml.Node{n}
}

// Line returns the line of a node, 0 for none.
func Line(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}

// Text returns a scalar and notes that it was looked at. Anything else is not looked at.
func (a *Account) Text(n *yaml.Node, names ...string) string {
	n = At(n, names...)
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	if a.Use(n); n.Tag == "!!null" {
		return ""
	}
	return strings.TrimSpace(n.Value)
}

// Texts returns a list of scalars and notes that it was looked at.
func (a *Account) Texts(n *yaml.Node, names ...string) []string {
	n = At(n, names...)
	a.Use(n)
	var list []string
	for _, item := range Items(n) {
		list = append(list, a.Text(item))
	}
	return list
}

// Number reads a number. YAML allows underscores in it.
func (a *Account) Number(n *yaml.Node, names ...string) (value float64, given bool) {
	text := strings.ReplaceAll(a.Text(n, names...), "_", "")
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

// IsOff reports whether a switch is given and off.
func (a *Account) IsOff(n *yaml.Node, names ...string) bool {
	return slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(a.Text(n, names...)))
}

// Use notes that a node, with all that is below it, was looked at.
func (a *Account) Use(n *yaml.Node) {
	if n == nil || a.used[n] {
		return
	}
	a.used[n] = true
	for _, below := range n.Content {
		a.Use(Resolved(below))
	}
}

// Reason says why a setting that was not looked at has no place, and whether that is known
// of this very setting.
type Reason func(path string) (text string, isKnown bool)

// Leftovers reports settings that nobody looked at, whole branches as one row.
func (a *Account) Leftovers(root *yaml.Node, path string, reason Reason) {
	w := &walk{account: a, reason: reason, touched: map[*yaml.Node]bool{}, seen: map[*yaml.Node]bool{}}
	w.touch(root)
	w.visit(root, path)
}

// walk goes through a tree once.
type walk struct {
	account       *Account
	reason        Reason
	touched, seen map[*yaml.Node]bool
}

// touch notes for every node whether it or something below it was looked at.
func (w *walk) touch(n *yaml.Node) bool {
	n = Resolved(n)
	if n == nil {
		return false
	}
	if is, done := w.touched[n]; done {
		return is
	}
	w.touched[n] = w.account.used[n]
	for _, below := range n.Content {
		if w.touch(below) {
			w.touched[n] = true
		}
	}
	return w.touched[n]
}

func (w *walk) visit(n *yaml.Node, path string) {
	if n == nil || w.account.used[n] || w.seen[n] {
		return
	}
	w.seen[n] = true
	for _, e := range Entries(n) {
		w.member(e.Value, strings.TrimPrefix(path+"."+e.Key, "."))
	}
	for i, item := range Items(n) {
		w.member(item, fmt.Sprintf("%s[%d]", path, i))
	}
}

func (w *walk) member(n *yaml.Node, path string) {
	if w.account.used[n] || IsEmpty(n) {
		return
	}
	text, isKnown := w.reason(path)
	// The settings of a section of the source have reasons of their own.
	isSection := n.Kind == yaml.MappingNode && !strings.ContainsAny(path, ".[") && !isKnown
	if w.touched[n] || isSection {
		w.visit(n, path)
		return
	}
	w.account.row(Unsupported, n, path, "%s", text)
}

// IsEmpty reports whether a node says nothing.
func IsEmpty(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && (n.Tag == "!!null" || n.Value == "") ||
		n.Kind != yaml.ScalarNode && len(n.Content) == 0
}

// Peek returns a text without noting that it was looked at.
func (a *Account) Peek(n *yaml.Node, name string) string {
	if n = At(n, name); n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}
