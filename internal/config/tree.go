package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/config/references"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// node is a written value, before its type is known. The tree of the file is made of
// nodes, and overrides are put into the same tree: that way everything is decoded once,
// by one set of rules, and remembers its origin.
type node struct {
	kind   kind
	origin origin
	// text is the content of a scalar.
	text string
	// fault says why a scalar has no value; it is reported when the value is needed.
	fault say.Sentence
	// reference is a text with references as it was written, before they were
	// replaced; it is empty where there are none.
	reference string
	// fromOutside marks text that came from a variable or another file and may
	// therefore be secret.
	fromOutside bool
	// isLine marks text that writes a list with commas, as in environment variables.
	isLine bool
	// form is the JSON type of a scalar. It is 0 outside JSON, where the type does not
	// matter.
	form    form
	entries []entry
	items   []*node
}

// form is the JSON type of a scalar.
type form uint8

const (
	jsonText form = iota + 1
	jsonNumber
	jsonSwitch
)

func (f form) said() say.Sentence {
	switch f {
	case jsonText:
		return say.New("form.string")
	case jsonNumber:
		return say.New("form.number")
	case jsonSwitch:
		return say.New("form.switch")
	}
	return say.New("form.single")
}

type kind uint8

const (
	absent kind = iota // null: as if nothing had been written
	scalar
	mapping
	list
)

func (k kind) said() say.Sentence {
	switch k {
	case scalar:
		return say.New("form.single")
	case mapping:
		return say.New("form.mapping")
	case list:
		return say.New("form.list")
	}
	return say.New("form.nothing")
}

// wantFound says that a value has another kind than the setting.
func wantFound(want, found say.Sentence) say.Sentence {
	return say.New("field.want_found", "want", want, "found", found)
}

// entry is one key of a mapping.
type entry struct {
	key    string
	origin origin
	value  *node
	// merged marks an entry of a merge key (<<): it yields to explicit keys.
	merged bool
}

// Faults that only YAML can have, which are told on a terminal.
const (
	tooDeep     = "is nested too deeply"
	aliasInside = "alias %q stands inside the value that it names"
	aliasesMany = "aliases unfold to too many values"
	foreignTag  = "has the YAML tag %q, which means nothing here"
)

const (
	// maxDepth is far deeper than any setting.
	maxDepth = 64
	// maxAliasNodes stops aliases of aliases that unfold to a huge tree.
	maxAliasNodes = 100_000
)

// reader turns YAML into nodes.
type reader struct {
	file       string
	substitute func(text string) references.Result
	problems   *Problems
	// open holds the values that are being read, to find aliases inside them.
	open map[*yaml.Node]bool
	// aliasDepth is above 0 while an alias is unfolded; aliasNodes counts the nodes that
	// aliases have added.
	aliasDepth, aliasNodes int
}

// readYAML reads one document. It returns nil where there is none.
func (r *reader) readYAML(content []byte) *node {
	decoder := yaml.NewDecoder(bytes.NewReader(hideColons(content)))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		r.syntaxProblem(err, content)
		return nil
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		r.report(&second, "a second document begins here; a configuration is one document")
	case !errors.Is(err, io.EOF):
		r.syntaxProblem(err, content)
	}
	if len(document.Content) == 0 {
		return nil
	}
	r.open = make(map[*yaml.Node]bool)
	return r.read(document.Content[0], 0)
}

func (r *reader) report(at *yaml.Node, message string) {
	r.problems.add(origin{r.file, at.Line, at.Column}, "", message)
}

func (r *reader) read(from *yaml.Node, depth int) *node {
	to := &node{origin: origin{r.file, from.Line, from.Column}}
	if depth > maxDepth {
		to.fault = say.Plain(tooDeep)
		to.kind = scalar
		return to
	}
	if r.aliasDepth > 0 {
		r.aliasNodes++
	}
	if from.Anchor != "" {
		r.open[from] = true
		defer delete(r.open, from)
	}
	switch from.Kind {
	case yaml.ScalarNode:
		r.readScalar(from, to)
	case yaml.SequenceNode:
		to.kind = list
		for _, item := range from.Content {
			to.items = append(to.items, r.read(item, depth+1))
		}
	case yaml.MappingNode:
		to.kind = mapping
		for i := 0; i+1 < len(from.Content); i += 2 {
			r.readEntry(from.Content[i], from.Content[i+1], to, depth)
		}
	case yaml.AliasNode:
		return r.readAlias(from, to, depth)
	}
	return to
}

func (r *reader) readAlias(from *yaml.Node, to *node, depth int) *node {
	to.kind = scalar
	if r.open[from.Alias] {
		to.fault = say.Plain(fmt.Sprintf(aliasInside, from.Value))
		return to
	}
	if r.aliasNodes > maxAliasNodes {
		to.fault = say.Plain(aliasesMany)
		return to
	}
	r.aliasDepth++
	unfolded := r.read(from.Alias, depth+1)
	r.aliasDepth--
	unfolded.origin = to.origin
	return unfolded
}

func (r *reader) readEntry(key, value *yaml.Node, to *node, depth int) {
	keyOrigin := origin{r.file, key.Line, key.Column}
	if key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode {
		r.report(key, "a key must be a single word")
		return
	}
	read := r.read(value, depth+1)
	if key.ShortTag() != "!!merge" {
		to.entries = append(to.entries, entry{key: restoreColons(key.Value), origin: keyOrigin, value: read})
		return
	}
	sources := []*node{read}
	if read.kind == list {
		sources = read.items
	}
	for _, source := range sources {
		if source.kind != mapping {
			r.report(key, "<< must name a mapping or a list of mappings")
			return
		}
		for _, merged := range source.entries {
			merged.merged = true
			to.entries = append(to.entries, merged)
		}
	}
}

func (r *reader) readScalar(from *yaml.Node, to *node) {
	to.kind = scalar
	switch tag := from.ShortTag(); tag {
	case "!!null":
		to.kind = absent
		return
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
	default:
		to.fault = say.Plain(fmt.Sprintf(foreignTag, tag))
		return
	}
	to.text = restoreColons(from.Value)
	if r.substitute == nil || !strings.Contains(to.text, "$") {
		return
	}
	result := r.substitute(to.text)
	if result.HasReference {
		to.reference = to.text
	}
	to.text, to.fault, to.fromOutside = result.Text, result.Fault, result.FromOutside
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	isPlain := from.Style&quoted == 0
	if isPlain && result.Whole {
		to.isLine = true
		// An empty variable in plain text is like an empty value in the file.
		if to.text == "" && !to.fault.Is() {
			to.kind = absent
		}
	}
}
