package schema

import (
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// ParseChat reads and checks a chat request. What the specification names is
// checked; every other field is the backend's business and travels untouched.
func (r *Request) ParseChat(body []byte) error {
	if err := r.parse(Chat, body); err != nil {
		return err
	}
	if err := r.checkMessages(); err != nil {
		return err
	}
	var err error
	if r.Stream, err = r.boolean("stream"); err != nil {
		return err
	}
	if err := r.checkStreamOptions(); err != nil {
		return err
	}
	return r.checkSampling()
}

func (r *Request) checkSampling() error {
	if err := r.integer("max_tokens"); err != nil {
		return err
	}
	if err := r.number("temperature", 0, 2); err != nil {
		return err
	}
	if err := r.number("top_p", 0, 1); err != nil {
		return err
	}
	if err := r.integer("top_k"); err != nil {
		return err
	}
	if err := r.number("frequency_penalty", -2, 2); err != nil {
		return err
	}
	if err := r.number("presence_penalty", -2, 2); err != nil {
		return err
	}
	return r.checkStop()
}

func (r *Request) checkStop() error {
	stop := r.Field("stop")
	switch stop.Kind() {
	case jsonscan.Absent, jsonscan.Null, jsonscan.String:
		return nil
	case jsonscan.Array:
		for v := stop.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
			if v.Kind() != jsonscan.String {
				return wrongType("stop", "a string or an array of strings")
			}
		}
		return nil
	}
	return wrongType("stop", "a string or an array of strings")
}

func (r *Request) checkStreamOptions() error {
	options := r.Field("stream_options")
	if !options.Given() {
		return nil
	}
	if options.Kind() != jsonscan.Object {
		return wrongType("stream_options", "an object")
	}
	if err := r.checkCase(options, readsStreamOption); err != nil {
		return err
	}
	switch options.Get("include_usage").Kind() {
	case jsonscan.Absent, jsonscan.Null, jsonscan.False:
	case jsonscan.True:
		r.IncludeUsage = true
	default:
		return wrongType("stream_options.include_usage", "true or false")
	}
	return nil
}

func (r *Request) checkMessages() error {
	root := r.Body.Root()
	messages := root.Get("messages")
	switch {
	case !messages.Given():
		err := MissingParameter("messages")
		if root.Get("input").Given() {
			err.Message += " The body has 'input', as the Responses API wants it; this endpoint wants 'messages'. Set your client to the chat completions API."
		}
		return err
	case messages.Kind() != jsonscan.Array:
		return wrongType("messages", "an array")
	case messages.Empty():
		return InvalidValue("messages", "'messages' must have at least one message.")
	}
	i := 0
	for m := messages.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if err := r.checkCase(m, readsMessageField); err != nil {
			return err
		}
		if err := checkMessage(m); err != nil {
			// The place is spelled only when there is something to say.
			return err.within("messages[" + strconv.Itoa(i) + "]")
		}
		i++
	}
	return nil
}

// checkMessage checks one message; the error names fields relative to it.
func checkMessage(m jsonscan.Value) *Error {
	if m.Kind() != jsonscan.Object {
		return InvalidValue("", "must be an object.")
	}
	role := m.Get("role")
	switch {
	case !role.Given():
		return MissingParameter("role")
	case role.Kind() != jsonscan.String:
		return InvalidValue("role", "must be a string.")
	case !knownRole(role.Text()):
		return InvalidValue("role", "must be one of system, developer, user, assistant, tool, function.")
	}
	if name := m.Get("name"); name.Given() && name.Kind() != jsonscan.String {
		return InvalidValue("name", "must be a string.")
	}
	switch m.Get("content").Kind() {
	case jsonscan.String, jsonscan.Array:
		return nil
	case jsonscan.Absent, jsonscan.Null:
		if string(role.Text()) == "assistant" {
			return nil // tool calls, a refusal, audio or reasoning may stand alone
		}
		return MissingParameter("content")
	default:
		return InvalidValue("content", "must be a string or an array of content parts.")
	}
}

func knownRole(role []byte) bool {
	switch string(role) {
	case "system", "developer", "user", "assistant", "tool", "function":
		return true
	}
	return false
}

// within places an error that names a field of an element into the element.
func (e *Error) within(place string) *Error {
	param := place
	if *e.Param != "" {
		param += "." + *e.Param
	}
	if e.Code == CodeMissingParameter {
		return MissingParameter(param)
	}
	return InvalidValue(param, "'"+param+"' "+e.Message)
}
