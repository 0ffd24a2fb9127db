// Package prompts decides which parts of a request an engine reads, and their order: the
// tools, the system prompt, the messages with their texts and images. It feeds a
// fleet.Prompt with them, and requests that begin alike share blocks. Settings, hints for
// caches and ids are no part of the prompt and leave no trace there.
//
// Requests are read as their clients wrote them, at every door, whether or not they can be
// translated. Nothing is refused: a value without a known shape counts as it is. Nothing
// is kept of a request, and nothing is allocated except for recalled texts.
package prompts

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Read feeds a prompt with the parts of a request that an engine reads, and returns the
// work for the engine, in tokens. They are guessed from the length of texts, as they are
// for limits and budgets; every file that is sent in base64 counts the same. The recalled
// texts are the ones that the gateway adds to the conversation; see dialect.Client.
//
// Requests of other doors than the doors of chats are no prompts that an engine would
// find in its cache. Read returns only their work.
func Read(req *schema.Request, into *fleet.Prompt, recalled ...[]byte) (tokens float64) {
	if !hasPrompt(req.Door) {
		return work(req)
	}
	r := reader{into: into, doc: &req.Body, body: req.Body.Data()}
	switch req.Door {
	case schema.DoorChat:
		r.tools(req.Field("tools"))
		r.tools(req.Field("functions"))
		r.messages(req.Field("messages"))
	case schema.DoorOllamaChat:
		r.tools(req.Body.Root().Get("tools"))
		r.messages(req.Body.Root().Get("messages"))
	case schema.DoorOllamaGenerate:
		root := req.Body.Root()
		r.system(root.Get("system"))
		r.begin("user")
		r.content(root.Get("prompt"))
		for _, v := range [...]jsonscan.Value{root.Get("suffix"), root.Get("images")} {
			if v.Given() {
				r.into.Part(string(v.Key()))
				r.content(v)
			}
		}
	case schema.DoorGemini, schema.DoorGeminiCount:
		root := req.Body.Root()
		r.tools(root.Get("tools"))
		r.system(root.Get("systemInstruction"))
		r.messages(root.Get("contents"))
	case schema.DoorMessages, schema.DoorCountTokens:
		root := req.Body.Root()
		r.tools(root.Get("tools"))
		r.system(root.Get("system"))
		r.messages(root.Get("messages"))
	case schema.DoorResponses, schema.DoorInputTokens, schema.DoorCompact:
		r.response(req.Body.Root(), recalled)
	case schema.DoorCompletions:
		r.completion(req.Field("prompt"))
		if suffix := req.Field("suffix"); suffix.Given() {
			r.into.Part("suffix")
			r.content(suffix)
		}
	}
	return float64(estimate.TokensOf(r.length))
}

// ReadBegun feeds a prompt, after Read, with the beginning of the answer, escaped as in a JSON
// string. The model is to go on with it. It is read as a message of the model: the next turn
// of the conversation finds it.
func ReadBegun(door schema.Door, text []byte, into *fleet.Prompt) (tokens float64) {
	r := reader{into: into}
	if door != schema.DoorCompletions { // where the text goes on
		r.begin(chat.Assistant)
	}
	r.raw(text)
	return float64(estimate.TokensOf(r.length))
}

// hasPrompt reports whether requests of a door are prompts.
func hasPrompt(door schema.Door) bool {
	switch door {
	case schema.DoorChat, schema.DoorMessages, schema.DoorCountTokens, schema.DoorResponses, schema.DoorInputTokens,
		schema.DoorCompact,
		schema.DoorCompletions, schema.DoorOllamaChat, schema.DoorOllamaGenerate, schema.DoorGemini,
		schema.DoorGeminiCount:
		return true
	}
	return false
}

// reader reads one request.
type reader struct {
	into   *fleet.Prompt
	doc    *jsonscan.Document // the document being read
	body   []byte             // its text
	length int                // the bytes of text that the parts read so far count as
	// isSystem says that the system prompt is being read.
	isSystem bool
}

// system reads a system prompt beside the messages.
func (r *reader) system(system jsonscan.Value) {
	if system.Given() {
		r.begin("system")
		r.isSystem = true
		r.content(system)
		r.isSystem = false
	}
}

// messages reads the messages of a chat.
func (r *reader) messages(list jsonscan.Value) {
	for m := range list.All() {
		r.message(m)
	}
}

// response reads a request of the Responses API. The recalled texts that the input
// refers to come last, one for each reference.
func (r *reader) response(root jsonscan.Value, recalled [][]byte) {
	r.tools(root.Get("tools"))
	r.system(root.Get("instructions"))
	if template := root.Get("prompt"); template.Given() {
		r.begin("prompt")
		r.raw(template.Raw())
	}
	input := root.Get("input")
	if input.Kind() == jsonscan.String {
		r.recall(recalled...)
		r.begin("user")
		r.content(input)
		return
	}
	references := 0
	if len(recalled) > 0 {
		for item := range input.All() {
			if _, isReference := responses.ReferenceIn(item); isReference {
				references++
			}
		}
	}
	earlier := max(len(recalled)-references, 0)
	r.recall(recalled[:earlier]...)
	referred := recalled[earlier:]
	for item := range input.All() {
		if len(referred) > 0 {
			if _, isReference := responses.ReferenceIn(item); isReference {
				r.recall(referred[0])
				referred = referred[1:]
				continue
			}
		}
		r.message(item)
	}
}

// recall reads texts that the gateway keeps, each with some elements of an array of items.
// Texts that cannot be read are left out, because the request will fail for them.
func (r *reader) recall(recalled ...[]byte) {
	if len(recalled) == 0 {
		return
	}
	doc, body := r.doc, r.body
	r.doc = &jsonscan.Document{AllowDuplicateKeys: true}
	var list []byte
	for _, elements := range recalled {
		list = append(append(append(list[:0], '['), elements...), ']')
		if r.doc.Parse(list) == nil {
			r.body = r.doc.Data()
			r.messages(r.doc.Root())
		}
	}
	r.doc, r.body = doc, body
}

// completion reads a text that is to be continued, several texts, or tokens.
func (r *reader) completion(prompt jsonscan.Value) {
	if prompt.Kind() == jsonscan.Array && prompt.First().Kind() != jsonscan.Number {
		for one := range prompt.All() {
			r.completion(one)
		}
		return
	}
	r.into.Part("prompt")
	if prompt.Kind() != jsonscan.Array {
		r.content(prompt)
		return
	}
	ids := bytes.TrimSuffix(prompt.Raw(), []byte{']'}) // the next prompt may go on here
	r.into.Text(ids)
	r.length += estimate.TokenLength * (bytes.Count(ids, []byte{','}) + 1)
}

// tools reads the descriptions of tools. An engine puts their texts and schemas in front of
// everything else.
func (r *reader) tools(tools jsonscan.Value) {
	if !tools.Given() {
		return
	}
	tool := tools.First()
	if tool.Kind() == jsonscan.Absent && !tools.Empty() {
		r.into.Part("tools")
		r.raw(tools.Raw())
	}
	for ; tool.Kind() != jsonscan.Absent; tool = tool.Next() {
		r.into.Part("tool")
		member := tool.First()
		if member.Kind() == jsonscan.Absent || tool.Kind() != jsonscan.Object {
			r.raw(tool.Raw())
			continue
		}
		for ; member.Kind() != jsonscan.Absent; member = member.Next() {
			if string(member.RawKey()) != "cache_control" {
				start, end := member.MemberSpan()
				r.raw(r.body[start:end])
			}
		}
	}
}

// The members that most messages have, and that are read first.
const (
	memberRole = iota
	memberType
	memberContent

	memberCount
)

// memberNames are the names of these members, and of members that no engine reads.
var memberNames = jsonscan.NewNames("role", "type", "content",
	"id", "status", "call_id", "tool_call_id", "cache_control", "encrypted_content")

// longestKind is how much of the role of a message, or of the type of an item, is read.
const longestKind = 24

// message reads a message, or an item of the Responses API. A message that comes back from
// a client or a store in another form is read the same: with a text or with one part that
// is a text, with ids or without, with its members in any order.
func (r *reader) message(m jsonscan.Value) {
	if m.Kind() != jsonscan.Object {
		r.begin("")
		r.raw(m.Raw())
		return
	}
	var found [memberCount]jsonscan.Value
	others := m.Find(memberNames, found[:])
	kind := found[memberRole]
	if kind.Kind() != jsonscan.String {
		kind = found[memberType]
	}
	r.beginAs(chat.TextOf(kind))
	if content := found[memberContent]; content.Given() {
		r.content(content)
	}
	if others > 0 {
		r.others(m)
	}
}

// otherTexts are the names of the other members that engines are known to read, in that
// order.
var otherTexts = [...]string{"reasoning_content", "reasoning", "summary", "refusal", "name", "input", "arguments",
	"output", "tool_calls", "function_call"}

var otherNames = jsonscan.NewNames(otherTexts[:]...)

// others reads the members of a message beside its content.
func (r *reader) others(m jsonscan.Value) {
	var found [len(otherTexts)]jsonscan.Value
	m.Find(otherNames, found[:])
	for i, v := range found {
		switch {
		case !v.Given():
		case otherTexts[i] == "tool_calls", otherTexts[i] == "function_call":
			r.into.Part(otherTexts[i])
			r.raw(v.Raw())
		default:
			r.into.Part(otherTexts[i])
			r.content(v)
		}
	}
	for v := range m.All() {
		if name := v.RawKey(); v.Given() && !memberNames.Has(name) && !otherNames.Has(name) {
			r.into.Part("")
			r.raw(name)
			start, _ := v.Span()
			r.value(unknown, start)
		}
	}
}

// beginAs begins a message of a role or an item of a type. The usual roles are not copied.
func (r *reader) beginAs(kind []byte) {
	switch string(kind) {
	case chat.User:
		r.begin(chat.User)
	case chat.Assistant:
		r.begin(chat.Assistant)
	case chat.ToolRole:
		r.begin(chat.ToolRole)
	default:
		r.begin(string(kind[:min(len(kind), longestKind)]))
	}
}

// begin begins a message.
func (r *reader) begin(kind string) {
	r.into.Part(kind)
	r.length += estimate.MessageLength
}

// content reads the content of a message: a text, or parts.
func (r *reader) content(v jsonscan.Value) {
	switch v.Kind() {
	case jsonscan.String: // its end is known
		r.text(written, chat.TextOf(v))
	case jsonscan.Array, jsonscan.Object:
		start, _ := v.Span()
		r.value(written, start)
	default:
		r.raw(v.Raw())
	}
}
