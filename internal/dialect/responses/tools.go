package responses

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// tool is how the client knows a tool that has another form or name towards backends.
type tool struct {
	name, namespace string
	custom          bool
}

// toolList collects the tools of a request. Towards backends all are functions.
type toolList struct {
	offered []chat.Tool
	index   map[string]bool // the names of the offered tools
	named   map[string]tool // tools that are not functions of the same name
	dropped []string        // the types of hosted tools that were left out
	brief   bool            // one is a function that lacks members which it has in a response
	inner   jsonscan.Document
}

// addList adds the tools of an array.
func (l *toolList) addList(list jsonscan.Value, param string) *schema.Error {
	if !list.Given() {
		return nil
	}
	if list.Kind() != jsonscan.Array {
		return schema.BadField(param, "value.tools")
	}
	var doc jsonscan.Document
	for i, t := range doc.Rescan(list).Elements() {
		if err := l.add(t, ""); err != nil {
			return err.InsideElement(param, i)
		}
	}
	return nil
}

// add adds one tool, which may be in a namespace.
func (l *toolList) add(t jsonscan.Value, namespace string) *schema.Error {
	kind := string(t.TextOf("type"))
	switch kind {
	case "function":
		return l.addFunction(t, namespace)
	case "custom":
		return l.addCustom(t, namespace)
	case "namespace":
		name := t.Get("name")
		if namespace != "" || len(chat.TextOf(name)) == 0 {
			return invalidValue("name", "call.namespace_name")
		}
		return l.addNamespace(t.Get("tools"), string(name.Text()))
	case "":
		return schema.MissingParameter("type")
	}
	if isOptional(kind) {
		l.dropped = append(l.dropped, kind)
		return nil
	}
	return invalidValue("type", "call.hosted_tool", "tool", shorten(kind))
}

// isOptional reports whether a hosted tool is one that clients offer by habit and can do
// without. Tools with results that an answer depends on are not.
func isOptional(kind string) bool {
	switch kind {
	case "tool_search", "image_generation":
		return true
	}
	return strings.HasPrefix(kind, "web_search")
}

func (l *toolList) addNamespace(list jsonscan.Value, namespace string) *schema.Error {
	if list.Kind() != jsonscan.Array {
		return invalidValue("tools", "call.namespace_tools")
	}
	for i, t := range l.inner.Rescan(list).Elements() {
		if err := l.add(t, namespace); err != nil {
			return err.InsideElement("tools", i)
		}
	}
	return nil
}

// addFunction adds a function.
func (l *toolList) addFunction(t jsonscan.Value, namespace string) *schema.Error {
	l.brief = l.brief || !hasAll(t, functionMembers[:])
	return l.offer(t, namespace, false, chat.Tool{
		Description: chat.Given(t.Get("description")), Schema: chat.Given(t.Get("parameters")),
		Strict: chat.Given(t.Get("strict")),
	})
}

// addCustom adds a tool that takes free text, as a function that takes one text.
func (l *toolList) addCustom(t jsonscan.Value, namespace string) *schema.Error {
	const shape = `{"type":"object","properties":{"input":{"type":"string","description":"The input of the tool, as ` +
		`plain text."}},"required":["input"],"additionalProperties":false}`
	return l.offer(t, namespace, true, chat.Tool{
		Description: slices.Concat([]byte{'"'}, customDescription(t), []byte{'"'}), Schema: []byte(shape),
	})
}

// customDescription returns the description of a custom tool, escaped, with the grammar
// that its input follows: the backend does not enforce it, but the model can read it.
func customDescription(t jsonscan.Value) []byte {
	text := append([]byte(nil), chat.TextIn(t, "description")...)
	var doc jsonscan.Document
	format := t.Get("format")
	if format.Kind() != jsonscan.Object {
		return text
	}
	format = doc.Rescan(format)
	definition := format.Get("definition")
	syntax := format.Get("syntax")
	if inner := format.Get("grammar"); inner.Kind() == jsonscan.Object {
		definition, syntax = inner.Get("definition"), inner.Get("syntax")
	}
	if !format.Is("type", "grammar") || definition.Kind() != jsonscan.String {
		return text
	}
	if len(text) > 0 {
		text = append(text, `\n\n`...)
	}
	text = append(text, `The input must match this grammar`...)
	if word := chat.TextOf(syntax); len(word) > 0 {
		text = append(append(append(text, ` (`...), word...), ')')
	}
	return append(append(text, `:\n`...), chat.TextOf(definition)...)
}

// offer adds a tool under a name of its own; of several of one name the first counts.
func (l *toolList) offer(t jsonscan.Value, namespace string, custom bool, offered chat.Tool) *schema.Error {
	name := string(t.TextOf("name"))
	if name == "" {
		return schema.MissingParameter("name")
	}
	flat := flatName(namespace, name)
	if custom || namespace != "" {
		l.rename(flat, tool{name: name, namespace: namespace, custom: custom})
	}
	if l.index[flat] {
		return nil
	}
	if l.index == nil {
		l.index = map[string]bool{}
	}
	l.index[flat] = true
	offered.Type, offered.IsFunction, offered.Name = chat.FunctionTool, true, chat.Escape(flat)
	l.offered = append(l.offered, offered)
	return nil
}

func (l *toolList) rename(flat string, t tool) {
	if l.named == nil {
		l.named = map[string]tool{}
	}
	if _, there := l.named[flat]; !there {
		l.named[flat] = t
	}
}

// maxName is the longest name of a function that backends take.
const maxName = 64

// flatName returns the name of a tool of a namespace among all tools. It depends on
// nothing else: calls of earlier turns get the same name.
func flatName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	if !strings.HasSuffix(namespace, "__") {
		namespace += "__"
	}
	flat := strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
			return c
		}
		return '_'
	}, namespace+name)
	if len(flat) <= maxName && flat == namespace+name {
		return flat
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(namespace + name)) // never fails
	tail := "_" + strconv.FormatUint(uint64(hash.Sum32()), 36)
	return flat[:min(len(flat), maxName-len(tail))] + tail
}

// readTools reads the tools and the choice among them.
func (r *reader) readTools() error {
	if err := r.tools.addList(r.root.Get("tools"), "tools"); err != nil {
		return err
	}
	choice, allowed, err := r.toolChoice()
	if err != nil {
		return err
	}
	for i := range r.tools.offered {
		if t := &r.tools.offered[i]; allowed == nil || allowed[t.Name.String()] {
			r.Tools = append(r.Tools, *t)
		}
	}
	if len(r.Tools) == 0 {
		if choice.Mode == "required" {
			return r.noTool()
		}
		return nil // nothing to choose from
	}
	r.ToolChoice = choice
	r.SingleCall = r.root.Get("parallel_tool_calls").Kind() == jsonscan.False
	return nil
}

// noTool says that a tool must be used and none is there.
func (r *reader) noTool() *schema.Error {
	if len(r.tools.dropped) > 0 {
		return schema.BadField("tool_choice", "value.only_hosted", "tools", strings.Join(r.tools.dropped, ", "))
	}
	return schema.BadField("tool_choice", "value.no_tools")
}

// toolChoice returns which tool to use, and the tools that may be used, nil if all may.
func (r *reader) toolChoice() (choice chat.ToolChoice, allowed map[string]bool, err *schema.Error) {
	field := r.root.Get("tool_choice")
	if !field.Given() {
		return choice, nil, nil
	}
	if field.Kind() == jsonscan.String {
		switch choice.Mode = string(field.Text()); choice.Mode {
		case "auto", "none", "required":
			return choice, nil, nil
		}
		return choice, nil, schema.BadField("tool_choice", "value.choice_object")
	}
	switch kind := string(field.TextOf("type")); kind {
	case "function", "custom":
		name, err := r.chosen(field)
		return chat.ToolChoice{Mode: chat.FunctionTool, Name: chat.Escape(name)}, nil, err
	case "allowed_tools":
		return r.allowedTools(field)
	case "":
		return choice, nil, schema.MissingParameter("tool_choice.type")
	default:
		return choice, nil, schema.BadField("tool_choice", "value.wants_hosted", "tool", shorten(kind))
	}
}

// chosen returns the name of the tool that an object names.
func (r *reader) chosen(v jsonscan.Value) (string, *schema.Error) {
	name := flatName(string(v.TextOf("namespace")), string(v.TextOf("name")))
	if name == "" {
		return "", schema.MissingParameter("tool_choice.name")
	}
	if !r.tools.index[name] {
		return "", schema.BadField("tool_choice", "value.tool_not_among", "tool", shorten(name))
	}
	return name, nil
}

// allowedTools reads the tools that may be used.
func (r *reader) allowedTools(field jsonscan.Value) (choice chat.ToolChoice, allowed map[string]bool,
	err *schema.Error) {
	choice.Mode = string(field.TextOf("mode"))
	switch choice.Mode {
	case "auto", "required":
	default:
		return choice, nil, schema.BadField("tool_choice.mode", "value.or", "known", "auto", "last", "required")
	}
	list := field.Get("tools")
	if list.Kind() != jsonscan.Array {
		return choice, nil, schema.BadField("tool_choice.tools", "value.tools")
	}
	allowed = map[string]bool{}
	for t := range r.parts.Rescan(list).All() {
		switch kind := string(t.TextOf("type")); {
		case kind == "function", kind == "custom":
			name, err := r.chosen(t)
			if err != nil {
				return choice, nil, err
			}
			allowed[name] = true
		case !isOptional(kind):
			return choice, nil, schema.BadField("tool_choice.tools", "value.hosted_tool", "tool", shorten(kind))
		}
	}
	return choice, allowed, nil
}

// customArguments returns the arguments of the function in place of a custom tool,
// given its input as JSON.
func customArguments(input []byte) []byte {
	var w jsonwrite.Writer
	w.Object()
	w.Member("input", input)
	w.EndObject()
	return w.Out
}
