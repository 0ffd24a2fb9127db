package described

import "github.com/go-json-experiment/json/jsontext"

// responseRequest describes requests to the Responses API.
type responseRequest struct {
	requestBase
	Model              modelName                      `json:"model" required:"true" example:"demo-chat"`
	Input              either[string, []responseItem] `json:"input" requiredWithout:"previous_response_id"`
	Instructions       string                         `json:"instructions"`
	PreviousResponseID string                         `json:"previous_response_id" doc:"The response to continue."`
	Store              bool                           `json:"store"`
	Stream             bool                           `json:"stream"`
	MaxOutputTokens    int64                          `json:"max_output_tokens" minimum:"1"`
	Temperature        float64                        `json:"temperature" minimum:"0" maximum:"2"`
	TopP               float64                        `json:"top_p" minimum:"0" maximum:"1"`
	Tools              []responseTool                 `json:"tools"`
	ParallelToolCalls  bool                           `json:"parallel_tool_calls"`
	Reasoning          *responseReasoning             `json:"reasoning"`
}

// Docs says more about some members than a tag has room for.
func (responseRequest) Docs() map[string]string {
	return map[string]string{
		"input": "Required unless previous_response_id is given.",
		"store": "Whether the response is kept, so that it can be continued; true if it is left out.",
	}
}

// inputTokensRequest and compactRequest are the documented members of the requests about a
// conversation.
type inputTokensRequest struct {
	Model              modelName                      `json:"model" required:"true" example:"demo-chat"`
	Input              either[string, []responseItem] `json:"input"`
	Instructions       string                         `json:"instructions"`
	PreviousResponseID string                         `json:"previous_response_id" doc:"The response before the input."`
	Tools              []responseTool                 `json:"tools"`
	more
}

type inputTokens struct {
	Object      string `json:"object"`
	InputTokens int64  `json:"input_tokens"`
	Estimated   bool   `json:"estimated,omitzero" doc:"No backend counted them, as X-Router-Estimated says."`
}

type compactRequest struct {
	Model              modelName                      `json:"model" required:"true" example:"demo-chat"`
	Input              either[string, []responseItem] `json:"input" requiredWithout:"previous_response_id"`
	Instructions       string                         `json:"instructions"`
	PreviousResponseID string                         `json:"previous_response_id" doc:"The response before the input."`
	more
}

type compacted struct {
	ID        string           `json:"id"`
	Object    string           `json:"object"`
	CreatedAt int64            `json:"created_at"`
	Output    []jsontext.Value `json:"output" doc:"The input of the next request, in front of what is new."`
	Usage     *responseUsage   `json:"usage,omitzero"`
	more
}

type responseItem struct {
	Type string `json:"type"`
	more
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
	more
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
	more
}

type response struct {
	ID        string           `json:"id"`
	Object    string           `json:"object"`
	CreatedAt int64            `json:"created_at"`
	Status    string           `json:"status"`
	Model     string           `json:"model"`
	Output    []jsontext.Value `json:"output"`
	Usage     *responseUsage   `json:"usage,omitzero"`
	more
}

type responseUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
	more
}

type itemQuery struct {
	Limit int64  `json:"limit" minimum:"1" maximum:"100" doc:"How many items are listed; 20 if it is left out."`
	Order string `json:"order" enum:"asc,desc" doc:"desc, the last item first, if it is left out."`
	After string `json:"after" doc:"The id of the item after which the list begins."`
}

// DeletedResponse is the reply to the deletion of a response.
type DeletedResponse struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// itemList describes a list of items.
type itemList struct {
	Object  string           `json:"object"`
	Data    []jsontext.Value `json:"data"`
	FirstID *string          `json:"first_id"`
	LastID  *string          `json:"last_id"`
	HasMore bool             `json:"has_more"`
}
