package described

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

type inputTokens struct {
	Object      string `json:"object"`
	InputTokens int64  `json:"input_tokens"`
	Estimated   bool   `json:"estimated,omitzero" doc:"No backend counted them, as X-Router-Estimated says."`
}

type compacted struct {
	ID        string           `json:"id"`
	Object    string           `json:"object"`
	CreatedAt int64            `json:"created_at"`
	Output    []jsontext.Value `json:"output" doc:"The input of the next request, in front of what is new."`
	Usage     *responseUsage   `json:"usage,omitzero"`
	shape.More
}

type response struct {
	ID        string           `json:"id"`
	Object    string           `json:"object"`
	CreatedAt int64            `json:"created_at"`
	Status    string           `json:"status"`
	Model     string           `json:"model"`
	Output    []jsontext.Value `json:"output"`
	Usage     *responseUsage   `json:"usage,omitzero"`
	shape.More
}

type responseUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
	shape.More
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
