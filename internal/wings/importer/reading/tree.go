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

// Setting is a place in the documents of a source.
type Setting struct {
	Name    string     // its path, as rows have it
	Key     string     // its name in the mapping around it
	Node    *yaml.Node // nil if nothing is there
	account *Account
}

// Setting returns the setting that a node has.
func (a *Account) Setting(name string, n *yaml.Node) Setting {
	return Setting{Name: name, Node: Resolved(n), account: a}
}

// Resolved follows aliases.
func Resolved(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// As returns the setting with another name in rows.
func (s Setting) As(name string) Setting {
	s.Name = name
	return s
}

// With returns the setting with another text, and notes that its own text was read.
func (s Setting) With(text string) Setting {
	s.Text()
	made := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: s.Line()}
	s.account.Derive(made, s.Node)
	s.Node = made
	return s
}

// members returns the keys and values of a mapping in turn.
func members(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	return n.Content
}

// below returns the setting of a member.
func (s Setting) below(key string, n *yaml.Node) Setting {
	s.Name, s.Key, s.Node = strings.TrimPrefix(s.Name+"."+key, "."), key, Resolved(n)
	return s
}

// At returns the setting below this one by the names of members, in any spelling.
func (s Setting) At(names ...string) Setting {
	for _, name := range names {
		var found *yaml.Node
		for i, all := 0, members(s.Node); i+1 < len(all) && found == nil; i += 2 {
			if schema.Fold(all[i].Value) == schema.Fold(name) {
				found = all[i+1]
			}
		}
		s = s.below(name, found)
	}
	return s
}

// Entries returns the members of a mapping.
func (s Setting) Entries() (list []Setting) {
	all := members(s.Node)
	for i := 0; i+1 < len(all); i += 2 {
		list = append(list, s.below(all[i].Value, all[i+1]))
	}
	return list
}

// Items returns the items of a list.
func (s Setting) Items() (list []Setting) {
	if s.Node == nil || s.Node.Kind != yaml.SequenceNode {
		return nil
	}
	for i, item := range s.Node.Content {
		list = append(list, s.account.Setting(fmt.Sprintf("%s[%d]", s.Name, i), item))
	}
	return list
}

// ItemsOrOne returns the items of a list, or the setting itself if it is not a list.
func (s Setting) ItemsOrOne() []Setting {
	if s.Node == nil || s.Node.Kind == yaml.SequenceNode {
		return s.Items()
	}
	return []Setting{s}
}

// Exists reports whether the setting is given, be it empty.
func (s Setting) Exists() bool { return s.Node != nil }

// Line returns the line of the setting, 0 if it is not given.
func (s Setting) Line() int {
	if s.Node == nil {
		return 0
	}
	return s.Node.Line
}

// Text returns a scalar and notes that it was read. Anything else is empty and stays unread.
func (s Setting) Text(names ...string) string {
	s = s.At(names...)
	if s.Node == nil || s.Node.Kind != yaml.ScalarNode {
		return ""
	}
	s.Use()
	return strings.TrimSpace(s.Peek())
}

// Peek returns a text without noting that it was read.
func (s Setting) Peek(names ...string) string {
	n := s.At(names...).Node
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

// Texts returns a list of scalars and notes that it was read.
func (s Setting) Texts(names ...string) (list []string) {
	s = s.At(names...)
	s.Use()
	for _, item := range s.Items() {
		list = append(list, item.Text())
	}
	return list
}

// Number reads a number. YAML allows underscores in it.
func (s Setting) Number(names ...string) (value float64, given bool) {
	text := strings.ReplaceAll(s.Text(names...), "_", "")
	value, err := strconv.ParseFloat(text, 64)
	return value, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

// Seconds reads a number of seconds as a length of time; it is empty unless the number is positive.
func (s Setting) Seconds(names ...string) string {
	value, _ := s.Number(names...)
	if value <= 0 {
		return ""
	}
	return Seconds(value)
}

// Seconds writes seconds as a length of time.
func Seconds(s float64) string {
	if whole := int64(s); s == float64(whole) {
		return strconv.FormatInt(whole, 10) + "s"
	}
	return strconv.FormatInt(max(int64(s*1000+0.5), 1), 10) + "ms"
}

// IsOff reports whether a switch is given and off.
func (s Setting) IsOff(names ...string) bool {
	return slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(s.Text(names...)))
}

// IsOn reports whether a switch is given and not off.
func (s Setting) IsOn(names ...string) bool {
	s = s.At(names...)
	return s.Exists() && !s.IsOff()
}

// Use notes that the setting, with all that is below it, was read; given names, only these members.
func (s Setting) Use(names ...string) {
	for _, name := range names {
		s.At(name).Use()
	}
	if len(names) == 0 {
		s.account.use(s.Node)
	}
}

func (a *Account) use(n *yaml.Node) {
	if n = Resolved(n); n == nil || a.used[n] {
		return
	}
	a.used[n] = true
	for _, below := range n.Content {
		a.use(below)
	}
}

// IsEmpty reports whether the setting has no content.
func (s Setting) IsEmpty() bool {
	n := s.Node
	return n == nil || n.Kind == yaml.ScalarNode && (n.Tag == "!!null" || n.Value == "") ||
		n.Kind != yaml.ScalarNode && len(n.Content) == 0
}

// Reason explains why a setting that was not read is not imported, and reports whether the text is
// about this very setting.
type Reason func(path string) (text string, isKnown bool)

// Leftovers reports the settings below this one that were not read, whole branches as one row.
func (s Setting) Leftovers(reason Reason) {
	w := &walk{account: s.account, reason: reason, touched: map[*yaml.Node]bool{}, seen: map[*yaml.Node]bool{}}
	w.touch(s.Node)
	w.visit(s)
}

// walk goes through a tree once.
type walk struct {
	account       *Account
	reason        Reason
	touched, seen map[*yaml.Node]bool
}

// touch notes for every node whether it or something below it was read.
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

func (w *walk) visit(s Setting) {
	if s.Node == nil || w.account.used[s.Node] || w.seen[s.Node] {
		return
	}
	w.seen[s.Node] = true
	for _, below := range append(s.Entries(), s.Items()...) {
		w.member(below)
	}
}

func (w *walk) member(s Setting) {
	if w.account.used[s.Node] || s.IsEmpty() {
		return
	}
	text, isKnown := w.reason(s.Name)
	// The settings of a section of the source have reasons of their own.
	isSection := s.Node.Kind == yaml.MappingNode && !strings.ContainsAny(s.Name, ".[") && !isKnown
	if w.touched[s.Node] || isSection {
		w.visit(s)
		return
	}
	s.row(Unsupported, "%s", text)
}
