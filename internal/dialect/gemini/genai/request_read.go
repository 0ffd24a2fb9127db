// Package genai speaks Google's Gemini API towards clients: it reads their requests,
// translates answers back, and passes both through to backends that speak the same API.
package genai

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ReadRequest reads a request of generateContent. It checks the fields that the gateway
// itself uses; a backend of this dialect gets the body as it came.
func ReadRequest(req *schema.Request, body []byte) error {
	if err := parse(req, schema.DoorGemini, body, Fields); err != nil {
		return err
	}
	req.Decode = readChat
	switch contents := req.Body.Root().Get("contents"); {
	case !contents.Given():
		return schema.MissingParameter("contents")
	case contents.Kind() != jsonscan.Array && contents.Kind() != jsonscan.Object:
		return schema.BadField("contents", "value.array")
	case contents.Empty():
		return schema.BadField("contents", "value.some_content")
	}
	return nil
}

// ReadStreamRequest reads a request of streamGenerateContent.
func ReadStreamRequest(req *schema.Request, body []byte) error {
	req.Stream, req.IncludeUsage = true, true
	return ReadRequest(req, body)
}

// parse checks the fields that all requests have in common. The path names the model, or
// the body where a request is only looked at.
func parse(req *schema.Request, door schema.Door, body []byte, fields *schema.Fields) error {
	req.PathModel = strings.TrimPrefix(req.PathModel, "models/")
	return req.ParseBody(door, body, fields)
}

// member returns a member under its usual name, or the one with underscores.
func member(v jsonscan.Value, name, other string) jsonscan.Value {
	if m := v.Get(name); m.Given() {
		return m
	}
	return v.Get(other)
}

// reader reads a request.
type reader struct {
	chat.Request
	root jsonscan.Value
	room chat.Room

	parts jsonscan.Document // of the content at hand
	deep  jsonscan.Document // other values that lie deeper than the request records

	open  []chat.ToolCall // the calls of the last answer that have no result yet
	calls int             // so far
}

// readChat reads the chat that a request asks for. Hints that only a backend of this
// dialect understands, such as settings of safety, are left out. A field that changes the
// answer and has no equal is an error.
func readChat(req *schema.Request, room chat.Room) (*chat.Request, error) {
	return readFrom(req.Body.Root(), room)
}

func readFrom(root jsonscan.Value, room chat.Room) (*chat.Request, error) {
	r := &reader{root: root, room: room}
	r.parts.Deep, r.deep.Deep = true, true
	for _, step := range []func() *schema.Error{r.refuse, r.readSystem, r.readContents, r.readTools, r.readToolConfig,
		r.readConfig} {
		if err := step(); err != nil {
			return nil, err
		}
		if r.room.Err != nil {
			return nil, r.room.Err
		}
	}
	return &r.Request, nil
}

// refuse returns an error for fields that only a backend of this dialect can obey.
func (r *reader) refuse() *schema.Error {
	if cached := member(r.root, "cachedContent", "cached_content"); cached.Given() && len(chat.TextOf(cached)) > 0 {
		return schema.BadField("cachedContent", "value.unsupported")
	}
	return nil
}

// readSystem reads the instructions above the conversation.
func (r *reader) readSystem() *schema.Error {
	system := member(r.root, "systemInstruction", "system_instruction")
	if !system.Given() {
		return nil
	}
	text := chat.TextOf(system)
	for p := range r.parts.Rescan(system).Get("parts").All() {
		text = chat.JoinApart(text, chat.TextIn(p, "text"))
	}
	if len(text) > 0 {
		r.Messages = append(r.Messages, chat.Said(chat.System, text))
	}
	return nil
}

// readContents reads the conversation.
func (r *reader) readContents() *schema.Error {
	list := r.root.Get("contents")
	if list.Kind() == jsonscan.Object {
		if err := r.content(list); err != nil {
			return err.Within("contents")
		}
		return nil
	}
	r.Messages = chat.Grow(&r.room, r.Messages, list)
	for i, c := range r.room.All(list) {
		if err := r.content(c); err != nil {
			return err.WithinElement("contents", i)
		}
	}
	if len(r.Messages) == 0 && r.room.Err == nil {
		return schema.BadField("contents", "value.says_nothing")
	}
	return nil
}

// content reads one turn; the error names fields relative to it.
func (r *reader) content(c jsonscan.Value) *schema.Error {
	if c.Kind() != jsonscan.Object {
		return schema.BadField("parts", "value.array_content")
	}
	parts := c.Get("parts")
	if parts.Kind() != jsonscan.Array && parts.Kind() != jsonscan.Object {
		return schema.BadField("parts", "value.parts")
	}
	parts = r.parts.Rescan(parts)
	first := parts
	if parts.Kind() == jsonscan.Array {
		first = parts.First()
	}
	switch role := string(c.TextOf("role")); role {
	case "", "user", "function", "tool":
		return r.userTurn(first)
	case "model":
		return r.modelTurn(first)
	default:
		return schema.BadField("role", "value.or", "known", "user", "last", "model")
	}
}

// userTurn reads the words of the user, and the results of calls.
func (r *reader) userTurn(first jsonscan.Value) *schema.Error {
	var said []chat.Part
	i := 0
	for p := first; p.Kind() != jsonscan.Absent && r.room.Err == nil; p = p.Next() {
		if result := member(p, "functionResponse", "function_response"); result.Given() {
			r.result(result)
		} else if part, err := readPart(p); err != nil {
			return err.InsideElement("parts", i)
		} else if part.Type != "" {
			said = append(said, part)
		}
		i++
	}
	switch {
	case len(said) == 0:
	case len(said) == 1 && said[0].Type == chat.TextPart:
		r.Messages = append(r.Messages, chat.Said(chat.User, said[0].Text))
	default:
		r.Messages = append(r.Messages, chat.Message{Role: chat.User, Content: chat.Content{Parts: said}})
	}
	return nil
}

// readPart reads a part that is no call and no result. Its type is empty if it says nothing.
func readPart(p jsonscan.Value) (part chat.Part, err *schema.Error) {
	if p.Kind() == jsonscan.String { // as the API takes it, too
		return chat.NewText(chat.TextOf(p)), nil
	}
	if data := member(p, "inlineData", "inline_data"); data.Given() {
		kind, content := string(member(data, "mimeType", "mime_type").Text()), chat.TextIn(data, "data")
		part.Type = mediaPart(kind)
		if kind == "" || len(content) == 0 {
			return part, schema.BadField("inlineData", "value.has_mime")
		}
		part.SetData(kind, content)
		if part.Type == chat.FilePart {
			part.Name = chat.Text("document")
		}
		return part, nil
	}
	if file := member(p, "fileData", "file_data"); file.Given() {
		kind, address := string(member(file, "mimeType", "mime_type").Text()),
			chat.TextOf(member(file, "fileUri", "file_uri"))
		if len(address) == 0 || mediaPart(kind) != chat.ImagePart {
			return part, schema.BadField("fileData", "value.image_address")
		}
		part.Type = chat.ImagePart
		part.SetSource(address)
		return part, nil
	}
	if text := p.Get("text"); text.Kind() == jsonscan.String {
		return chat.NewText(chat.TextOf(text)), nil
	}
	for m := range p.All() {
		switch string(m.Key()) {
		case "executableCode", "executable_code", "codeExecutionResult", "code_execution_result":
			return part, schema.BadField("", "value.code")
		}
	}
	return part, nil
}

// mediaPart returns the type of a part of a media type.
func mediaPart(kind string) string {
	switch {
	case strings.HasPrefix(kind, "image/"):
		return chat.ImagePart
	case strings.HasPrefix(kind, "video/"):
		return chat.VideoPart
	case strings.HasPrefix(kind, "audio/"):
		return chat.SoundPart
	}
	return chat.FilePart
}

// nearCalls is how many of the calls that have no result yet are compared with a result. It is
// more than an answer has, and keeps the work for a request in proportion to its size.
const nearCalls = 256

// result reads the result of a function.
func (r *reader) result(v jsonscan.Value) {
	said := chat.Message{Role: chat.ToolRole, Name: chat.TextIn(v, "name"), CallID: chat.TextIn(v, "id")}
	said.Text = resultText(v.Get("response"))
	near := r.open[:min(len(r.open), nearCalls)]
	at := slices.IndexFunc(near, func(call chat.ToolCall) bool {
		if len(said.CallID) > 0 {
			return bytes.Equal(call.ID, said.CallID)
		}
		return bytes.Equal(call.Name, said.Name)
	})
	switch {
	case at >= 0:
		said.CallID = near[at].ID
		copy(near[1:at+1], near[:at])
		r.open = r.open[1:]
	case len(said.CallID) == 0:
		said.CallID = chat.Text("call_unknown")
	}
	r.Messages = append(r.Messages, said)
}

// resultText returns the text of a result. One that a client has wrapped, because results
// are objects here, is unwrapped.
func resultText(response jsonscan.Value) chat.Text {
	if only := response.First(); only.Kind() == jsonscan.String && only.Next().Kind() == jsonscan.Absent {
		switch string(only.Key()) {
		case "result", "output", "error":
			return chat.TextOf(only)
		}
	}
	if !response.Given() {
		return chat.Text{}
	}
	return chat.Escape(response.Raw())
}

// modelTurn reads the words, thoughts and calls of an earlier turn of the model.
func (r *reader) modelTurn(first jsonscan.Value) *schema.Error {
	r.open = r.open[:0]
	said := chat.Message{Role: chat.Assistant}
	i := 0
	for p := first; p.Kind() != jsonscan.Absent && r.room.Err == nil; p = p.Next() {
		signature := member(p, "thoughtSignature", "thought_signature")
		text := chat.TextIn(p, "text")
		switch call := member(p, "functionCall", "function_call"); {
		case call.Given():
			if err := r.addCall(&said, call, signature); err != nil {
				return err.InsideElement("parts", i)
			}
		case p.IsTrue("thought"):
			said.Reasoning = chat.Join(said.Reasoning, text)
		default:
			said.Text = chat.Join(said.Text, text)
			if len(chat.TextOf(signature)) > 0 {
				said.Extra = chat.Signed(chat.TextOf(signature))
			}
		}
		i++
	}
	if said.Text == nil && len(said.Calls) == 0 {
		said.Text = chat.Text{}
	}
	r.Messages = append(r.Messages, said)
	return nil
}

func (r *reader) addCall(m *chat.Message, v, signature jsonscan.Value) *schema.Error {
	call := chat.ToolCall{ID: chat.TextIn(v, "id"), Name: chat.TextIn(v, "name"), Input: []byte("{}")}
	if len(call.Name) == 0 {
		return schema.BadField("functionCall.name", "value.function_name")
	}
	if len(call.ID) == 0 {
		call.ID = strconv.AppendInt([]byte("call_gemini_"), int64(r.calls), 10)
	}
	if args := v.Get("args"); args.Kind() == jsonscan.Object {
		call.Input = args.Raw()
	}
	call.Extra = chat.Signed(chat.TextOf(signature))
	r.calls++
	m.Calls, r.open = append(m.Calls, call), append(r.open, call)
	return nil
}
