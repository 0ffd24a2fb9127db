package responses

import (
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// reader reads one request.
type reader struct {
	chat.Request

	root jsonscan.Value // of the body
	past Past
	req  Request
	room chat.Room

	parts  jsonscan.Document // the content of a message, or another value that is scanned again
	inner  jsonscan.Document // a value that is scanned again meanwhile
	system chat.Text         // the texts of the system message
	// reminder are the texts of the system between turns, and media the images and files
	// of tool outputs. Both go with the user's next message.
	reminder chat.Text
	media    []chat.Part
	turn     turn             // the words of the model, until something else follows
	begun    bool             // a message was read
	input    jsonwrite.Writer // see Request.Input
	inputs   int
	tools    toolList
}

// Read reads a request. The root is the root of the body, an object with a model. Past may
// be nil where nothing is stored. Errors that are no *schema.Error come from past and from
// the room.
func Read(root jsonscan.Value, past Past, room chat.Room) (*Request, error) {
	r := &reader{
		root: root, past: past, room: room,
		req: Request{ID: NewID(), Created: time.Now().Unix(), root: root},
	}
	r.req.Store = r.root.Get("store").Kind() != jsonscan.False
	if err := r.refuse(); err != nil {
		return nil, err
	}
	r.Settings = chat.ReadSettings(jsonscan.Value{}, r.root.Get("extra_body"))
	if err := r.readMessages(); err != nil {
		return nil, err
	}
	if err := r.readTools(); err != nil {
		return nil, err
	}
	if err := r.readSettings(); err != nil {
		return nil, err
	}
	r.req.Chat, r.req.Input = &r.Request, r.input.Out
	r.req.tools, r.req.hasBriefTools = r.tools.named, r.tools.brief
	return &r.req, r.room.Err
}

// Refuse returns an error for a request that asks for something which no request gets:
// the gateway neither keeps conversations nor works in the background.
func Refuse(root jsonscan.Value) error {
	if root.Get("conversation").Given() {
		return invalidValue("conversation", "call.conversation")
	}
	if root.IsTrue("background") {
		return invalidValue("background", "call.background")
	}
	for _, v := range []jsonscan.Value{root.Get("store"), root.Get("stream"), root.Get("parallel_tool_calls"),
		root.Get("background")} {
		if v.Given() && v.Kind() != jsonscan.True && v.Kind() != jsonscan.False {
			name := string(v.Key())
			return schema.BadField(name, "value.switch")
		}
	}
	return nil
}

// refuse returns an error for a request that asks for something that only a server has
// which speaks the API itself.
func (r *reader) refuse() error {
	if r.root.Get("prompt").Given() {
		return invalidValue("prompt", "call.prompt_template")
	}
	if r.root.Get("moderation").Given() {
		return invalidValue("moderation", "call.moderation")
	}
	return Refuse(r.root)
}

// readMessages reads the messages: the earlier conversation, the instructions, and the
// input.
func (r *reader) readMessages() error {
	instructions := r.root.Get("instructions")
	if instructions.Given() {
		if instructions.Kind() != jsonscan.String {
			return schema.BadField("instructions", "value.string")
		}
		r.system = chat.TextOf(instructions)
	}
	if err := r.readPrevious(); err != nil {
		return err
	}
	if err := r.readInput(); err != nil {
		return err
	}
	r.endTurn()
	r.addReminder()
	r.addSystem()
	if len(r.Messages) == 0 {
		return schema.BadField("input", "value.answerable")
	}
	return nil
}

// readPrevious reads the conversation that ended with the previous response.
func (r *reader) readPrevious() error {
	previous := r.root.Get("previous_response_id")
	if !previous.Given() {
		return nil
	}
	id := string(previous.Text())
	if id == "" {
		return schema.BadField("previous_response_id", "value.response_id")
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
	r.Messages = chat.Grow(&r.room, r.Messages, doc.Root())
	for _, item := range r.room.All(doc.Root()) {
		if err := r.item(item); err != nil {
			return err.Inside("previous_response_id")
		}
	}
	return r.room.Err
}

// NotFound says that a response that was to be continued is not known.
func NotFound(id string) *schema.Error {
	err := invalidValue("previous_response_id", "call.previous_unknown", "id", shorten(id))
	err.Code = schema.CodePreviousNotFound
	return err
}

// keptElsewhere says that a response that was to be continued is kept by a backend that the
// request does not go to: one of another model, or one of the same model that is gone or
// down.
func keptElsewhere(id, model, asked string) *schema.Error {
	err := NotFound(id)
	if model == asked {
		err.Reword("call.previous_gone", "id", shorten(id))
	} else {
		err.Reword("call.previous_elsewhere", "id", shorten(id), "model", shorten(model))
	}
	return err
}

// shorten cuts a client's text to a length that fits a message.
func shorten(text string) string {
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// readInput reads the input: a text, or items.
func (r *reader) readInput() error {
	input := r.root.Get("input")
	switch {
	case !input.Given():
		if r.req.Previous != "" {
			return nil
		}
		err := schema.MissingParameter("input")
		if r.req.root.Get("messages").Given() {
			err.Hint("hint.wants_input")
		}
		return err
	case input.Kind() == jsonscan.String:
		r.endTurn()
		r.userMessage(chat.Content{Text: chat.TextOf(input)})
		r.keepText(input)
		return nil
	case input.Kind() != jsonscan.Array:
		return schema.BadField("input", "value.string_or_items")
	case input.Empty() && r.req.Previous == "":
		return schema.BadField("input", "value.some_item")
	}
	r.Messages = chat.Grow(&r.room, r.Messages, input)
	for i, item := range r.room.All(input) {
		if err := r.inputItem(item); err != nil {
			return placed("input", i, err)
		}
	}
	return r.room.Err
}

// userMessage adds a message of the user.
func (r *reader) userMessage(content chat.Content) {
	r.addSystem()
	switch {
	case len(r.reminder)+len(r.media) == 0:
	case content.Parts == nil && len(r.media) == 0:
		content.Text = append(dialect.AppendReminder(nil, r.reminder), content.Text...)
	default:
		parts := r.media
		if len(r.reminder) > 0 {
			parts = append(parts, chat.NewText(dialect.AppendReminder(nil, r.reminder)))
		}
		if len(content.Text) > 0 {
			parts = append(parts, chat.NewText(content.Text))
		}
		content = chat.Content{Parts: append(parts, content.Parts...)}
	}
	r.Messages = append(r.Messages, chat.Message{Role: chat.User, Content: content})
	r.reminder, r.media = nil, nil
}

// addReminder adds the reminder and the media as a message of their own, where the
// user says nothing before the model does.
func (r *reader) addReminder() {
	if len(r.reminder)+len(r.media) > 0 {
		r.userMessage(chat.Content{Text: chat.Text{}})
	}
}

// addSystem adds the texts of the system as a message. Texts before the first message of
// another role are one message, because the templates of many models take only one, and
// only at the beginning.
func (r *reader) addSystem() {
	if len(r.system) > 0 {
		r.Messages = append(r.Messages, chat.Said(chat.System, r.system))
		r.system = nil
	}
	r.begun = true
}

// readSettings reads the fields that are neither messages nor tools. A member of extra_body
// counts where the API itself has no word for it, or the request does not use that word.
func (r *reader) readSettings() error {
	for _, field := range [...]struct {
		own jsonscan.Value
		to  *jsonscan.Value
	}{
		{r.root.Get("temperature"), &r.Temperature}, {r.root.Get("top_p"), &r.TopP},
		{r.root.Get("max_output_tokens"), &r.MaxTokens},
		{r.root.Get("presence_penalty"), &r.PresencePenalty}, {r.root.Get("frequency_penalty"), &r.FrequencyPenalty},
		{r.root.Get("text").Get("verbosity"), &r.Verbosity},
	} {
		if field.own.Given() {
			*field.to = field.own
		}
	}
	for _, user := range []jsonscan.Value{r.root.Get("safety_identifier"), r.root.Get("user")} {
		if user.Given() {
			r.User = chat.TextOf(user)
		}
	}
	r.SetEffort(r.root.Get("reasoning").Get("effort"))
	r.readLogprobs()
	if err := r.readFormat(); err != nil {
		return err
	}
	return nil
}

// readLogprobs asks for the probabilities of tokens if the client does.
func (r *reader) readLogprobs() {
	top := r.root.Get("top_logprobs")
	count, _ := top.Int()
	wanted := count > 0
	for include := range r.root.Get("include").All() {
		wanted = wanted || string(include.Text()) == "message.output_text.logprobs"
	}
	if wanted {
		r.Logprobs, r.TopLogprobs = []byte("true"), top
	}
}

// readFormat reads the form that the text of the answer is to have.
func (r *reader) readFormat() *schema.Error {
	text := r.root.Get("text")
	if text.Given() && text.Kind() != jsonscan.Object {
		return schema.BadField("text", "value.object")
	}
	format := text.Get("format")
	switch kind := string(format.TextOf("type")); kind {
	case "", "text":
		if format.Given() && kind == "" {
			return schema.MissingParameter("text.format.type")
		}
	case "json_object":
		r.Format = chat.Format{Given: true, Type: kind}
	case "json_schema":
		r.Format = chat.Format{
			Given: true, Type: kind, Name: chat.TextIn(format, "name"),
			Description: chat.Given(format.Get("description")),
			Schema:      format.Get("schema").Raw(), Strict: chat.Given(format.Get("strict")),
		}
		if len(r.Format.Name) == 0 {
			r.Format.Name = chat.Text("response")
		}
		if !r.Format.HasSchema() {
			return schema.BadField("text.format.schema", "value.json_schema")
		}
	default:
		return schema.BadField("text.format.type",
			"value.or", "known", "text, json_object", "last", "json_schema")
	}
	return nil
}
