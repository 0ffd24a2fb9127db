package schema

import "github.com/patchbay-ai/patchbay/internal/request/jsonscan"

// ParseChat reads and checks a chat request. It checks the fields that the
// specification names; every other field is the backend's business and travels
// untouched.
func (r *Request) ParseChat(body []byte) error {
	if err := r.scan(Door(Chat), body); err != nil {
		return err
	}
	return r.checkChat()
}

func (r *Request) checkChat() error {
	var at found
	if err := r.checkCommon(&at, ChatFields); err != nil {
		return err
	}
	if err := r.checkMessages(at[fieldPrompt]); err != nil {
		return err
	}
	return r.checkGeneration(&at, ChatFields)
}

// checkGeneration checks how the answer is to be generated and sent.
func (r *Request) checkGeneration(at *found, fields *Fields) (err error) {
	if r.Stream, err = CheckBoolean("stream", r.orExtra(at[fieldStream], "stream")); err != nil {
		return err
	}
	if err := r.checkStreamOptions(r.orExtra(at[fieldStreamOptions], "stream_options")); err != nil {
		return err
	}
	for i := fieldMaxTokens; i <= fieldStop; i++ {
		if err := fields.rules[i].check(at[i]); err != nil {
			return err
		}
	}
	return fields.checkExtra(r.extra, r.Body.Root())
}

// checkExtra checks the members of extra_body by the rules of the fields: a value that counts
// in limits must not be passed on without being understood here. Fields of the top level come
// before them; see Request.Field.
func (f *Fields) checkExtra(extra, root jsonscan.Value) error {
	for v := range extra.All() {
		at := f.names.Number(v.Key())
		if at < 0 {
			continue
		}
		if err := f.rules[at].check(v); err != nil && !root.Get(f.rules[at].name).Given() {
			return err
		}
	}
	return nil
}

func (r *Request) checkStreamOptions(options jsonscan.Value) error {
	if !options.Given() {
		return nil
	}
	if options.Kind() != jsonscan.Object {
		return BadField("stream_options", "value.object")
	}
	if err := streamOptionFields.checkCase(options); err != nil {
		return err
	}
	switch options.Get("include_usage").Kind() {
	case jsonscan.Absent, jsonscan.Null, jsonscan.False:
	case jsonscan.True:
		r.IncludeUsage = true
	default:
		return BadField("stream_options.include_usage", "value.switch")
	}
	return nil
}

func (r *Request) checkMessages(messages jsonscan.Value) error {
	if !messages.Given() && r.Body.Root().Get("input").Given() {
		err := MissingParameter("messages")
		err.Hint("hint.wants_messages")
		return err
	}
	if err := CheckList("messages", messages, "value.some_message"); err != nil {
		return err
	}
	for i, m := range messages.Elements() {
		var at [checkedInMessage]jsonscan.Value
		if m.Find(messageFields.names, at[:]) > 0 {
			if err := messageFields.checkCase(m); err != nil {
				return err
			}
		}
		if err := checkMessage(m.Kind(), &at); err != nil {
			// The place is spelled only when there is something to say.
			return err.WithinElement("messages", i)
		}
	}
	return nil
}

// checkMessage checks one message of a kind, given its checked fields; the error names fields
// relative to it.
func checkMessage(kind jsonscan.Kind, m *[checkedInMessage]jsonscan.Value) *Error {
	if kind != jsonscan.Object {
		return BadField("", "value.object")
	}
	role := &m[messageRole]
	switch {
	case !role.Given():
		return MissingParameter("role")
	case role.Kind() != jsonscan.String:
		return BadField("role", "value.string")
	case !knownRole(role.Text()):
		return BadField("role", "field.one_of", "known", "system, developer, user, assistant, tool, function")
	}
	if name := &m[messageName]; name.Given() && name.Kind() != jsonscan.String {
		return BadField("name", "value.string")
	}
	switch m[messageContent].Kind() {
	case jsonscan.String, jsonscan.Array:
		return nil
	case jsonscan.Absent, jsonscan.Null:
		if string(role.Text()) == "assistant" {
			return nil // tool calls, a refusal, audio or reasoning may be alone
		}
		return MissingParameter("content")
	default:
		return BadField("content", "value.string_or_parts")
	}
}

func knownRole(role []byte) bool {
	switch string(role) {
	case "system", "developer", "user", "assistant", "tool", "function":
		return true
	}
	return false
}
