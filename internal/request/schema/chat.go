package schema

import (
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

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
	var found fields
	if err := r.checkCommon(&found, readNames[Chat]); err != nil {
		return err
	}
	if err := r.checkMessages(found[fieldMessages]); err != nil {
		return err
	}
	return r.checkGeneration(&found)
}

// checkGeneration checks how the answer is to be generated and sent.
func (r *Request) checkGeneration(found *fields) (err error) {
	if r.Stream, err = CheckBoolean("stream", r.orExtra(found[fieldStream], "stream")); err != nil {
		return err
	}
	if err := r.checkStreamOptions(r.orExtra(found[fieldStreamOptions], "stream_options")); err != nil {
		return err
	}
	for i, v := range found[fieldMaxTokens:] {
		if err := samplingFields[i].check(v); err != nil {
			return err
		}
	}
	return checkExtra(r.extra, r.Body.Root())
}

// checkExtra checks the members of extra_body that take part in the generation of the
// answer. Fields of the top level come before them; see Field.
func checkExtra(extra, root jsonscan.Value) error {
	for v := range extra.All() {
		if err := checkSamplingField(v); err != nil && !root.Get(string(v.Key())).Given() {
			return err
		}
	}
	return nil
}

// checkSamplingField checks a field if it is about the length, the number or the sampling
// of answers. A value that counts in limits must not be passed on without being
// understood here.
func checkSamplingField(v jsonscan.Value) error {
	if at := fieldNames.Number(v.Key()); at >= fieldMaxTokens && at <= fieldStop {
		return samplingFields[at-fieldMaxTokens].check(v)
	}
	return nil
}

// samplingField is a field with the numbers between which it is; without them it is a whole
// number.
type samplingField struct {
	name        string
	least, most float64
}

// samplingFields are the fields from fieldMaxTokens to fieldStop.
var samplingFields = [fieldStop + 1 - fieldMaxTokens]samplingField{
	{name: "max_tokens"}, {name: "max_completion_tokens"}, {name: "n"}, {name: "best_of"},
	{"temperature", 0, 2}, {"top_p", 0, 1}, {name: "top_k"},
	{"frequency_penalty", -2, 2}, {"presence_penalty", -2, 2}, {name: "stop"},
}

func (f *samplingField) check(v jsonscan.Value) error {
	switch {
	case !v.Given():
		return nil
	case f.name == "stop":
		return checkStop(v)
	case f.least < f.most:
		return CheckNumber(f.name, v, f.least, f.most)
	}
	return checkInteger(f.name, v)
}

func checkStop(stop jsonscan.Value) error {
	switch stop.Kind() {
	case jsonscan.String:
		return nil
	case jsonscan.Array:
		for v := range stop.All() {
			if v.Kind() != jsonscan.String {
				return wrongType("stop", "a string or an array of strings")
			}
		}
		return nil
	}
	return wrongType("stop", "a string or an array of strings")
}

func (r *Request) checkStreamOptions(options jsonscan.Value) error {
	if !options.Given() {
		return nil
	}
	if options.Kind() != jsonscan.Object {
		return wrongType("stream_options", "an object")
	}
	if err := checkCase(options, streamOptionNames); err != nil {
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

func (r *Request) checkMessages(messages jsonscan.Value) error {
	switch {
	case !messages.Given():
		err := MissingParameter("messages")
		if r.Body.Root().Get("input").Given() {
			err.Message += " The body has 'input', as the Responses API wants it; this endpoint wants 'messages'. " +
				"Set your client to the chat completions API."
		}
		return err
	case messages.Kind() != jsonscan.Array:
		return wrongType("messages", "an array")
	case messages.Empty():
		return InvalidValue("messages", "'messages' must have at least one message.")
	}
	for i, m := range messages.Elements() {
		var found messageFields
		if m.Find(messageNames, found[:]) > 0 {
			if err := checkCase(m, readMessageNames); err != nil {
				return err
			}
		}
		if err := found.check(m.Kind()); err != nil {
			// The place is spelled only when there is something to say.
			return err.Within("messages[" + strconv.Itoa(i) + "]")
		}
	}
	return nil
}

// messageFields are the fields of a message that are checked, in the order of
// messageNames.
type messageFields [messageContent + 1]jsonscan.Value

const (
	messageRole = iota
	messageName
	messageContent
)

// check checks one message of a kind; the error names fields relative to it.
func (m *messageFields) check(kind jsonscan.Kind) *Error {
	if kind != jsonscan.Object {
		return InvalidValue("", "must be an object.")
	}
	role := &m[messageRole]
	switch {
	case !role.Given():
		return MissingParameter("role")
	case role.Kind() != jsonscan.String:
		return InvalidValue("role", "must be a string.")
	case !knownRole(role.Text()):
		return InvalidValue("role", "must be one of system, developer, user, assistant, tool, function.")
	}
	if name := &m[messageName]; name.Given() && name.Kind() != jsonscan.String {
		return InvalidValue("name", "must be a string.")
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
