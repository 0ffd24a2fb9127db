package responses

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// reader turns one request into its unified form.
type reader struct {
	jsonwrite.Writer // the unified body

	f    fields
	past Past
	req  *Request

	parts  jsonscan.Document // the content of a message, or what else is scanned again
	inner  jsonscan.Document // what is scanned again meanwhile
	system []byte            // the texts of the system message, escaped
	// reminder are the texts of the system between turns, which go with the user's next
	// message; escaped.
	reminder []byte
	// media are the images and files of tool outputs, which go with the user's next
	// message: parts, as elements of an array.
	media  jsonwrite.Writer
	turn   turn             // what the model said, until something else follows
	begun  bool             // a message was written
	input  jsonwrite.Writer // see Request.Input
	inputs int
	tools  toolList
}

// Read reads a request into the unified form. The root is that of the body, an object
// with a model. Past may be nil where nothing is stored. The unified body is written into
// the memory that is given if that is large enough. Errors that are no *schema.Error are
// those of past.
func Read(root jsonscan.Value, past Past, into []byte) (*Request, error) {
	r := &reader{
		f: fieldsOf(root), past: past,
		req: &Request{ID: NewID(), Created: time.Now().Unix(), root: root},
	}
	r.req.Store = r.f[fieldStore].Kind() != jsonscan.False
	if err := r.refuse(); err != nil {
		return nil, err
	}
	r.Out = slices.Grow(into, len(root.Raw())+len(root.Raw())/4+512)
	r.Object()
	r.Field("model", r.f[fieldModel])
	if err := r.readMessages(); err != nil {
		return nil, err
	}
	if err := r.writeTools(); err != nil {
		return nil, err
	}
	if err := r.writeSettings(); err != nil {
		return nil, err
	}
	r.EndObject()
	r.req.Chat, r.req.Input = r.Out, r.input.Out
	r.req.tools = r.tools.named
	return r.req, nil
}

// Refuse returns an error for a request that asks for something which no request gets:
// the gateway neither keeps conversations nor works in the background.
func Refuse(root jsonscan.Value) error {
	f := fieldsOf(root)
	return f.refuse()
}

func (f *fields) refuse() error {
	if f[fieldConversation].Given() {
		return invalid("conversation", "Conversations are not kept here. Send the items of the conversation as 'input', or name the response before in 'previous_response_id'.")
	}
	if f[fieldBackground].Kind() == jsonscan.True {
		return invalid("background", "Responses in the background are not available here. Leave 'background' out, and use 'stream' for long answers.")
	}
	for _, v := range []jsonscan.Value{f[fieldStore], f[fieldStream], f[fieldParallelToolCalls], f[fieldBackground]} {
		if v.Given() && v.Kind() != jsonscan.True && v.Kind() != jsonscan.False {
			name := string(v.Key())
			return invalid(name, "'"+name+"' must be true or false.")
		}
	}
	return nil
}

// refuse returns an error for a request that asks for something that only a server has
// which speaks the API itself.
func (r *reader) refuse() error {
	if r.f[fieldPrompt].Given() {
		return invalid("prompt", "Prompt templates are not kept here. Send the text of the prompt as 'instructions' or 'input'.")
	}
	if r.f[fieldModeration].Given() {
		return invalid("moderation", "Moderation of responses is not available here. Leave 'moderation' out.")
	}
	return r.f.refuse()
}

// readMessages writes the messages: what came before, the instructions, and the input.
func (r *reader) readMessages() error {
	instructions := r.f[fieldInstructions]
	if instructions.Given() {
		if instructions.Kind() != jsonscan.String {
			return invalid("instructions", "'instructions' must be a string.")
		}
		addSystem(&r.system, dialect.RawText(instructions))
	}
	r.Name("messages")
	r.Array()
	start := len(r.Out)
	if err := r.readPrevious(); err != nil {
		return err
	}
	if err := r.readInput(); err != nil {
		return err
	}
	r.endTurn()
	r.writeReminder()
	r.writeSystem()
	if len(r.Out) == start {
		return invalid("input", "'input' must have a message, a call or an output: nothing else can be answered.")
	}
	r.EndArray()
	return nil
}

// readPrevious writes the conversation that ended with the previous response.
func (r *reader) readPrevious() error {
	previous := r.f[fieldPreviousResponseID]
	if !previous.Given() {
		return nil
	}
	id := string(previous.Text())
	if id == "" {
		return invalid("previous_response_id", "'previous_response_id' must be the id of a response.")
	}
	if r.past == nil {
		return NotFound(id)
	}
	items, err := r.past.Conversation(id)
	if err != nil {
		return err
	}
	r.req.Previous = id
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	text := make([]byte, 0, len(items)+len("[]"))
	text = append(append(append(text, '['), items...), ']')
	if err := doc.Parse(text); err != nil {
		return NotFound(id)
	}
	for item := doc.Root().First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		if err := r.item(item); err != nil {
			return within("previous_response_id", err)
		}
	}
	return nil
}

// NotFound says that a response that was to be continued is not known.
func NotFound(id string) *schema.Error {
	err := invalid("previous_response_id", "The previous response '"+shorten(id)+"' was not found. It may have expired, or it was made with another key or with 'store' set to false; send the items of the conversation as 'input'.")
	err.Code = schema.CodePreviousNotFound
	return err
}

// keptElsewhere says that a response that was to be continued is kept by a backend that the
// request does not go to: one of another model, or one of the same model that is gone or
// down.
func keptElsewhere(id, model, asked string) *schema.Error {
	err := NotFound(id)
	err.Message = "The previous response '" + shorten(id) + "' is kept by the backend that made it, "
	if model == asked {
		err.Message += "which is gone or takes no requests now. Try again later, or send the items of the conversation as 'input'."
	} else {
		err.Message += "one of the model '" + shorten(model) + "', which does not serve this request. Continue it with that model, or send the items of the conversation as 'input'."
	}
	return err
}

// shorten cuts what a client sent to a length that fits a message.
func shorten(text string) string {
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// readInput writes the input: a text, or items.
func (r *reader) readInput() error {
	input := r.f[fieldInput]
	switch {
	case !input.Given():
		if r.req.Previous != "" {
			return nil
		}
		err := schema.MissingParameter("input")
		if r.req.root.Get("messages").Given() {
			err.Message += " The body has 'messages', as the chat completions API wants it; this endpoint wants 'input'."
		}
		return err
	case input.Kind() == jsonscan.String:
		r.endTurn()
		r.userMessage(input.Raw())
		r.keepText(input)
		return nil
	case input.Kind() != jsonscan.Array:
		return invalid("input", "'input' must be a string or an array of items.")
	case input.Empty() && r.req.Previous == "":
		return invalid("input", "'input' must have at least one item.")
	}
	i := 0
	for item := input.First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		if err := r.inputItem(item); err != nil {
			return placed("input", i, err)
		}
		i++
	}
	return nil
}

// userMessage writes a message of the user, whose content is JSON.
func (r *reader) userMessage(content []byte) {
	r.writeSystem()
	r.Open(`{"role":"user","content":`)
	isText := content[0] == '"'
	switch {
	case len(r.reminder)+len(r.media.Out) == 0:
		r.Raw(content)
	case isText && len(r.media.Out) == 0:
		r.Escaped(append(dialect.AppendReminder(nil, r.reminder), content[1:len(content)-1]...))
	default:
		r.Array()
		if len(r.media.Out) > 0 {
			r.Raw(r.media.Out)
		}
		if len(r.reminder) > 0 {
			dialect.WriteTextPart(&r.Writer, dialect.AppendReminder(nil, r.reminder))
		}
		switch inner := bytes.TrimSpace(content[1 : len(content)-1]); {
		case isText && len(content) > len(`""`):
			dialect.WriteTextPart(&r.Writer, content[1:len(content)-1])
		case !isText && len(inner) > 0:
			r.Raw(inner)
		}
		r.EndArray()
	}
	r.EndObject()
	r.reminder = r.reminder[:0]
	r.media = jsonwrite.Writer{}
}

// writeReminder writes the reminder and the media as a message of their own, where the
// user says nothing before the model does.
func (r *reader) writeReminder() {
	if len(r.reminder)+len(r.media.Out) > 0 {
		r.userMessage([]byte(`""`))
	}
}

// addSystem adds a text, escaped, to those of the system. The texts before the first
// message of another role are one message, because the templates of many models take
// only one, and only at the beginning.
func addSystem(to *[]byte, text []byte) {
	if len(text) == 0 {
		return
	}
	if len(*to) > 0 {
		*to = append(*to, `\n\n`...)
	}
	*to = append(*to, text...)
}

// writeSystem writes the texts that were added to the system message.
func (r *reader) writeSystem() {
	if len(r.system) > 0 {
		r.Open(`{"role":"system","content":`)
		r.Escaped(r.system)
		r.EndObject()
		r.system = r.system[:0]
	}
	r.begun = true
}

// writeSettings writes what is neither a message nor a tool.
func (r *reader) writeSettings() *schema.Error {
	f := &r.f
	if f[fieldStream].Kind() == jsonscan.True {
		r.Literal(`"stream":true`)
		r.Literal(`"stream_options":{"include_usage":true}`)
	}
	r.Field("temperature", f[fieldTemperature])
	r.Field("top_p", f[fieldTopP])
	r.Field("extra_body", f[fieldExtraBody])
	r.Field("max_tokens", f[fieldMaxOutputTokens])
	user := f[fieldUser]
	if !user.Given() {
		user = f[fieldSafetyIdentifier]
	}
	r.Field("user", user)
	r.Field("reasoning_effort", f[fieldReasoning].Get("effort"))
	r.writeLogprobs()
	return r.writeText()
}

// writeLogprobs asks for the probabilities of tokens if the client does.
func (r *reader) writeLogprobs() {
	top := r.f[fieldTopLogprobs]
	count, _ := top.Int()
	wanted := count > 0
	for include := r.f[fieldInclude].First(); include.Kind() != jsonscan.Absent; include = include.Next() {
		wanted = wanted || string(include.Text()) == "message.output_text.logprobs"
	}
	if wanted {
		r.Literal(`"logprobs":true`)
		r.Field("top_logprobs", top)
	}
}

// writeText writes the form that the text of the answer is to have.
func (r *reader) writeText() *schema.Error {
	text := r.f[fieldText]
	if !text.Given() {
		return nil
	}
	if text.Kind() != jsonscan.Object {
		return invalid("text", "'text' must be an object.")
	}
	r.Field("verbosity", text.Get("verbosity"))
	format := text.Get("format")
	switch kind := string(format.Get("type").Text()); kind {
	case "", "text":
		if format.Given() && kind == "" {
			return schema.MissingParameter("text.format.type")
		}
	case "json_object":
		r.Literal(`"response_format":{"type":"json_object"}`)
	case "json_schema":
		if format.Get("schema").Kind() != jsonscan.Object {
			return invalid("text.format.schema", "'text.format.schema' must be a JSON schema.")
		}
		r.Open(`"response_format":{"type":"json_schema","json_schema":{`)
		if name := format.Get("name"); len(dialect.RawText(name)) > 0 {
			r.Field("name", name)
		} else {
			r.Literal(`"name":"response"`)
		}
		r.Field("description", format.Get("description"))
		r.Field("schema", format.Get("schema"))
		r.Field("strict", format.Get("strict"))
		r.Close("}}")
	default:
		return invalid("text.format.type", "'text.format.type' must be text, json_object or json_schema.")
	}
	return nil
}
