package responses

import "github.com/patchbay-ai/patchbay/internal/jsonscan"

// fields are the fields of a request that are read here or that a response repeats.
type fields [fieldCount]jsonscan.Value

// The places of the fields.
const (
	fieldModel = iota
	fieldInput
	fieldInstructions
	fieldPreviousResponseID
	fieldStore
	fieldStream
	fieldBackground
	fieldConversation
	fieldPrompt
	fieldTools
	fieldToolChoice
	fieldParallelToolCalls
	fieldMaxOutputTokens
	fieldMaxToolCalls
	fieldTemperature
	fieldTopP
	fieldTopLogprobs
	fieldInclude
	fieldText
	fieldReasoning
	fieldUser
	fieldSafetyIdentifier
	fieldMetadata
	fieldTruncation
	fieldExtraBody
	fieldServiceTier
	fieldModeration
	fieldPromptCacheKey
	fieldCount
)

// fieldNames are the names of the fields, in the order of their places.
var fieldNames = jsonscan.NewNames("model", "input", "instructions", "previous_response_id", "store", "stream", "background",
	"conversation", "prompt", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens",
	"max_tool_calls", "temperature", "top_p", "top_logprobs", "include", "text", "reasoning", "user",
	"safety_identifier", "metadata", "truncation", "extra_body", "service_tier", "moderation",
	"prompt_cache_key")

// fieldsOf returns the fields of the body of a request.
func fieldsOf(root jsonscan.Value) (f fields) {
	root.Find(fieldNames, f[:])
	return f
}
