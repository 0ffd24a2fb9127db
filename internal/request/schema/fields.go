package schema

import "github.com/patchbay-ai/patchbay/internal/request/jsonscan"

// fields are the fields of a request that are looked for in one pass over its body,
// because every request has some of them.
type fields [fieldStop + 1]jsonscan.Value

// The places of the fields. The places from fieldMaxTokens to fieldStop are about the
// length, the number and the sampling of answers.
const (
	fieldModel = iota
	fieldUser
	fieldExtraBody
	fieldMessages
	fieldStream
	fieldStreamOptions
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldN
	fieldBestOf
	fieldTemperature
	fieldTopP
	fieldTopK
	fieldFrequencyPenalty
	fieldPresencePenalty
	fieldStop
)

// fieldNames are the names of the fields in the order of their places. The names after
// them are common: a body that has no others need not be looked through for keys that
// differ from a field only in case.
var fieldNames = jsonscan.NewNames(
	"model", "user", "extra_body", "messages", "stream", "stream_options",
	"max_tokens", "max_completion_tokens", "n", "best_of", "temperature", "top_p", "top_k", "frequency_penalty",
	"presence_penalty", "stop",
	"seed", "response_format", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort",
	"logprobs", "top_logprobs", "metadata", "input", "encoding_format", "dimensions", "query", "documents", "top_n",
	"prompt",
)

// messageNames are the names of the fields of a message: first the checked ones, then
// others that are common.
var messageNames = jsonscan.NewNames("role", "name", "content", "tool_calls", "tool_call_id", "refusal",
	"reasoning_content")

// Field is an optional field of the requests of a door, with the rule for its value: a kind,
// and a number not below Least. One that IsWhole has no bound above.
type Field struct {
	Name        string
	Kind        jsonscan.Kind
	IsWhole     bool
	Least, Most float64
}

// CheckFields checks the fields of a request in their order.
func CheckFields(root jsonscan.Value, fields []Field) error {
	for i := range fields {
		if err := fields[i].check(root.Get(fields[i].Name)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Field) check(v jsonscan.Value) error {
	switch {
	case f.IsWhole:
		return CheckInteger(f.Name, v, int64(f.Least))
	case f.Kind == jsonscan.Number:
		return CheckNumber(f.Name, v, f.Least, f.Most)
	case v.Given() && v.Kind() != f.Kind:
		return wrongType(f.Name, kindWords[f.Kind])
	}
	return nil
}

// kindWords name the kinds of values.
var kindWords = [...]string{jsonscan.String: "a string", jsonscan.Object: "an object", jsonscan.Array: "an array"}
