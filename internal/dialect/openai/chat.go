// Package openai speaks the dialect of the unified API itself, which most
// backends speak too: bodies pass through both ways and only a few places in
// them are edited.
package openai

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Chat speaks the dialect that the unified API has itself, so bodies pass
// through both ways and only a few places in them are touched.
var Chat = &dialect.Adapter{
	Account: accountids.Chat, Call: callChat, Continues: continuesChat, Reply: replyChat, Events: eventsChat,
	Split: splitCompletion, Decode: decodeChat, DecodeStream: decodeStream,
}

// The pieces that are spliced into bodies. Nobody writes to them.
var (
	jsonTrue         = []byte("true")
	jsonNull         = []byte("null")
	withUsage        = []byte(`"include_usage":true`)
	withUsageObject  = []byte(`{"include_usage":true}`)
	withStreamUsage  = []byte(`"stream_options":{"include_usage":true}`)
	anyFingerprint   = []byte(chat.UnknownFingerprint)
	roleName         = []byte(`"role"`)
	assistantRole    = []byte(`"role":"assistant"`)
	completionObject = []byte(`"object":"chat.completion"`)
	textObject       = []byte(`"object":"text_completion"`)
)

// callChat passes the body on with the backend's model name, with the members of
// extra_body at the top level, and with usage asked for in every stream.
func callChat(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	begun := req.Continuation()
	if req.Decode != nil || begun != nil && req.Door != schema.DoorCompletions {
		return writeChat(req, to, call)
	}
	edits := call.Edits[:0]
	if begun != nil {
		edits = continuedText(edits, req, begun)
	}
	var set dialect.Field
	if req.Stream && !req.IncludeUsage {
		edits, set = askForUsage(edits, req.Body.Root())
	}
	return dialect.PassJSON(req, to, call, dialect.Accept(req), edits, set)
}

// writeChat writes a request of another door.
func writeChat(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	asked, err := req.Chat()
	if err != nil {
		return err
	}
	w := jsonwrite.Writer{Out: make([]byte, 0, len(req.Body.Data())+len(req.Body.Data())/4+512)}
	w.Object()
	w.Member("model", to.ModelNameJSON(req))
	limit := "max_tokens"
	if wantsNewLimit(to.ModelFor(req)) {
		limit = "max_completion_tokens"
	}
	asked.Write(&w, limit)
	if req.Stream {
		w.Literal(`"stream":true`)
		w.Raw(withStreamUsage)
	}
	if req.Continuation() != nil && to.Quirks.Continues == dialect.ContinuesFlagged {
		w.Literal(`"continue_final_message":true,"add_generation_prompt":false`)
	}
	w.EndObject()
	to.Begin(call, to.PathFor(req), "application/json", dialect.Accept(req))
	call.Body = append(call.Body[:0], w.Out)
	return nil
}

// wantsNewLimit reports whether a model of OpenAI takes the limit of an answer only under
// its newer name, max_completion_tokens: o1 and its successors, and gpt-5 and its
// successors.
func wantsNewLimit(model string) bool {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	family, isGPT := strings.CutPrefix(model, "gpt-")
	if !isGPT {
		var isO bool
		if family, isO = strings.CutPrefix(model, "o"); !isO {
			return false
		}
	}
	digits := len(family) - len(strings.TrimLeft(family, "0123456789"))
	version, err := strconv.Atoi(family[:digits])
	if err != nil {
		return false
	}
	if isGPT {
		const first, last = 5, 34 // gpt-35 is Azure's name of gpt-3.5
		return version >= first && version <= last
	}
	return version >= 1 && (digits == len(family) || family[digits] == '-')
}

// askForUsage makes a backend report usage although the caller did not ask: tokens are
// counted for every stream. Options inside extra_body are returned as the field to set.
func askForUsage(edits []jsonscan.Edit, root jsonscan.Value) ([]jsonscan.Edit, dialect.Field) {
	options := root.Get("stream_options")
	if options.Kind() == jsonscan.Object {
		if v := options.Get("include_usage"); v.Kind() != jsonscan.Absent {
			return append(edits, v.Replace(jsonTrue)), dialect.Field{}
		}
		return append(edits, options.Insert(withUsage)), dialect.Field{}
	}
	if extra := root.Get("extra_body").Get("stream_options"); extra.Given() {
		return edits, dialect.Field{Name: "stream_options", Value: withUsageOption(extra)}
	}
	if options.Kind() == jsonscan.Null {
		return append(edits, options.Replace(withUsageObject)), dialect.Field{}
	}
	return append(edits, root.Insert(withStreamUsage)), dialect.Field{}
}

// withUsageOption returns stream options with include_usage set.
func withUsageOption(options jsonscan.Value) []byte {
	var w jsonwrite.Writer
	w.Object()
	w.Raw(withUsage)
	for m := range options.All() {
		if string(m.Key()) != "include_usage" {
			w.Copy(m)
		}
	}
	w.EndObject()
	return w.Out
}

// replyChat passes a completion on under the model name that the caller used.
func replyChat(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	return passCompletion(req, answer, reply, expected{
		said: "message", kind: jsonscan.Object, choices: dialect.WantedChoices(req),
		object: completionObject, idPrefix: chatIDPrefix, fingerprint: true,
	})
}

// expected lists the members that a completion must have, and the values it gets for
// missing ones.
type expected struct {
	said        string // the member of a choice with the words of the model
	kind        jsonscan.Kind
	choices     int
	object      []byte
	idPrefix    string
	fingerprint bool // clients require one
}

// passCompletion passes a completion on: of a chat, or of a text.
func passCompletion(req *schema.Request, answer dialect.Answer, reply *dialect.Reply, want expected) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	var m members
	m.read(root)
	if m.choices.Kind() != jsonscan.Array || m.choices.Empty() {
		return dialect.Invalid("no choices")
	}
	given, edits := 0, reply.Edits[:0]
	for c := range m.choices.All() {
		said := c.Get(want.said)
		if c.Kind() != jsonscan.Object || said.Kind() != want.kind && said.Kind() != jsonscan.Absent {
			return dialect.Invalid("a choice that says nothing")
		}
		edits = completeChoice(edits, c, said, given)
		given++
	}
	if err := dialect.CheckChoices(given, want.choices); err != nil {
		return err
	}
	reply.Usage = schema.ReadUsage(m.usage)
	readTimings(m.timings, &reply.Usage)
	edits = m.renameModel(edits, root, req.ModelJSON())
	if want.fingerprint && m.fingerprint.Kind() == jsonscan.Absent {
		edits = append(edits, root.Insert(anyFingerprint))
	}
	if !m.created.Given() {
		edits = addMissingMember(edits, root, m.created, appendCreated(nil))
	}
	if !m.object.Given() {
		edits = addMissingMember(edits, root, m.object, want.object)
	}
	if !m.id.Given() {
		edits = addMissingMember(edits, root, m.id, appendNewID(nil, want.idPrefix))
	}
	reply.Splice(edits)
	return nil
}

// completeChoice gives a choice the members that clients require and that its backend
// left out: its number, and the role of its message. One that says nothing stays as it is.
func completeChoice(edits []jsonscan.Edit, choice, said jsonscan.Value, position int) []jsonscan.Edit {
	if said.Kind() == jsonscan.Absent {
		return edits
	}
	if number := choice.Get("index"); !number.Given() {
		edits = addMissingMember(edits, choice, number, strconv.AppendInt([]byte(`"index":`), int64(position), 10))
	}
	// The members of a message lie too deep to be looked up. A message without that name
	// anywhere has no role; a message with it nearly always has it as the first member.
	if said.Kind() == jsonscan.Object && !bytes.Contains(said.Raw(), roleName) {
		edits = append(edits, said.Insert(assistantRole))
	}
	return edits
}

// addMissingMember adds a member to an object that lacks it or has null for it.
func addMissingMember(edits []jsonscan.Edit, object, there jsonscan.Value, member []byte) []jsonscan.Edit {
	if there.Kind() == jsonscan.Absent {
		return append(edits, object.Insert(member))
	}
	return append(edits, there.Replace(member[bytes.IndexByte(member, ':')+1:]))
}

// members are the members of a completion, chunk or list that matter here.
type members struct {
	id, object, created, model, choices, usage, fault, kind, fingerprint, timings jsonscan.Value

	reports bool // the usage is known
}

// memberNames are the names of the members.
var memberNames = jsonscan.NewNames("id", "object", "created", "model", "choices", "usage", "error", "type",
	"system_fingerprint", "timings")

// read goes through the members of an object once. Every chunk of every stream costs
// this. Of several with one name the first counts.
func (m *members) read(root jsonscan.Value) {
	var v [10]jsonscan.Value
	root.Find(memberNames, v[:])
	*m = members{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], false}
}

// hasOnlyUsage reports whether an object that has usage has nothing else that matters.
func (m *members) hasOnlyUsage() bool {
	return m.usage.Given() && (!m.choices.Given() || m.choices.Kind() == jsonscan.Array && m.choices.Empty())
}

// renameModel gives a reply or chunk the caller's name of the model, and takes
// out an error that is null, which some clients take for an error.
func (m *members) renameModel(edits []jsonscan.Edit, root jsonscan.Value, name []byte) []jsonscan.Edit {
	switch {
	case m.model.Kind() == jsonscan.Absent:
		edits = append(edits, root.Insert(append([]byte(`"model":`), name...)))
	case !bytes.Equal(m.model.Raw(), name):
		edits = append(edits, m.model.Replace(name))
	}
	if m.fault.Kind() == jsonscan.Null {
		edits = append(edits, m.fault.Remove())
	}
	return edits
}

// renameOnly gives a reply the caller's name of the model if it names one.
func renameOnly(edits []jsonscan.Edit, root jsonscan.Value, req *schema.Request) []jsonscan.Edit {
	if model := root.Get("model"); model.Kind() == jsonscan.String {
		return append(edits, model.Replace(jsonwrite.AppendText(nil, req.Model)))
	}
	return edits
}

// eventsChat reads server-sent events of completion chunks.
func eventsChat(req *schema.Request, body io.Reader) *dialect.Stream {
	return newEvents(&events{
		reader:       newReader(body, dialect.WantedChoices(req)),
		model:        bytes.Clone(req.ModelJSON()),
		includeUsage: req.IncludeUsage,
		object:       chunkObject,
		idPrefix:     chatIDPrefix,
	})
}
