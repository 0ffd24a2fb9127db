package responses

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

// Fields are the fields of requests of the API, and the others those that requests about a
// conversation document. All are read alike.
var (
	Fields           = schema.FieldsOf(responseRequest{})
	InputTokenFields = schema.FieldsOf(inputTokensRequest{})
	CompactFields    = schema.FieldsOf(compactRequest{})
)

// conversation holds the members of all requests.
type conversation struct {
	Model              shape.ModelName `json:"model" required:"true" example:"demo-chat"`
	Instructions       string          `json:"instructions" check:"kind"`
	PreviousResponseID string          `json:"previous_response_id" check:"kind" doc:"The response before the input."`
	Tools              []responseTool  `json:"tools" check:"kind"`
	shape.More
}

type input = shape.Either[string, []responseItem]

type responseRequest struct {
	conversation
	User              string             `json:"user" doc:"Who the request is made for; the quota ledger counts by it."`
	Extra             shape.Object       `json:"extra_body" doc:"Its members count as if they stood beside it."`
	Input             input              `json:"input" requiredWithout:"previous_response_id"`
	Store             bool               `json:"store"`
	Stream            bool               `json:"stream"`
	MaxOutputTokens   int64              `json:"max_output_tokens" minimum:"1" check:"bounds"`
	MaxToolCalls      int64              `json:"max_tool_calls" minimum:"1" check:"bounds"`
	Temperature       float64            `json:"temperature" minimum:"0" maximum:"2" check:"bounds"`
	TopP              float64            `json:"top_p" minimum:"0" maximum:"1" check:"bounds"`
	PresencePenalty   float64            `json:"presence_penalty" minimum:"-2" maximum:"2" check:"bounds"`
	FrequencyPenalty  float64            `json:"frequency_penalty" minimum:"-2" maximum:"2" check:"bounds"`
	TopLogprobs       int64              `json:"top_logprobs" minimum:"0" maximum:"20" check:"bounds"`
	ParallelToolCalls bool               `json:"parallel_tool_calls"`
	Reasoning         *responseReasoning `json:"reasoning" check:"kind"`
	Metadata          shape.Object       `json:"metadata" check:"kind"`
	Text              shape.Object       `json:"text" check:"kind"`
	Include           []string           `json:"include" check:"kind"`
	ToolChoice        shape.Any          `json:"tool_choice"`
	Background        shape.Any          `json:"background"`
	Conversation      shape.Any          `json:"conversation"`
	Prompt            shape.Any          `json:"prompt"`
	SafetyIdentifier  shape.Any          `json:"safety_identifier"`
	Truncation        shape.Any          `json:"truncation"`
	ServiceTier       shape.Any          `json:"service_tier"`
	Moderation        shape.Any          `json:"moderation"`
	PromptCacheKey    shape.Any          `json:"prompt_cache_key"`
}

// Docs says more about some members than a tag has room for.
func (responseRequest) Docs() map[string]string {
	return map[string]string{
		"input": "Required unless previous_response_id is given.",
		"store": "Whether the response is kept, so that it can be continued; true if it is left out.",
	}
}

type inputTokensRequest struct {
	conversation
	Input input `json:"input"`
}

type compactRequest struct {
	conversation
	Input input `json:"input" requiredWithout:"previous_response_id"`
}

type responseItem struct {
	Type string `json:"type"`
	shape.More
}

// Docs says more about some members than a tag has room for.
func (responseItem) Docs() map[string]string {
	return map[string]string{
		"type": "message, reasoning, function_call, function_call_output, custom_tool_call, " +
			"custom_tool_call_output, item_reference or additional_tools; message if it is left out.",
	}
}

type responseTool struct {
	Type string `json:"type" required:"true"`
	Name string `json:"name"`
	shape.More
}

// Docs says more about some members than a tag has room for.
func (responseTool) Docs() map[string]string {
	return map[string]string{
		"type": "function, custom or namespace; hosted tools that clients offer by habit, such as web_search, " +
			"are left out.",
	}
}

type responseReasoning struct {
	Effort string `json:"effort"`
	shape.More
}
