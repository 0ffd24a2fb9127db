package messages

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

// Fields and CountFields are the fields of requests for messages, and for the number of their
// tokens.
var (
	Fields      = schema.FieldsOf(messageRequest{})
	CountFields = schema.FieldsOf(countRequest{})
)

type messageRequest struct {
	messageInput
	MaxTokens   int64   `json:"max_tokens" required:"true" minimum:"0" check:"bounds"`
	Temperature float64 `json:"temperature" minimum:"0" maximum:"1" check:"bounds"`
	TopP        float64 `json:"top_p" minimum:"0" maximum:"1" check:"bounds"`
	TopK        int64   `json:"top_k" minimum:"0" check:"bounds"`
}

// Docs says more about some members than a tag has room for.
func (messageRequest) Docs() map[string]string {
	return map[string]string{
		"max_tokens": "How many tokens the answer may have; 0 only fills the cache of prompts, at backends of " +
			"the same API.",
	}
}

type countRequest struct {
	messageInput
	MaxTokens   int64   `json:"max_tokens"`
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	TopK        int64   `json:"top_k"`
}

// messageInput holds the members that both requests have in common.
type messageInput struct {
	Model         shape.ModelName                     `json:"model" required:"true" example:"demo-chat"`
	Messages      []messageTurn                       `json:"messages" required:"true" minItems:"1"`
	System        shape.Either[string, []systemBlock] `json:"system"`
	Stream        bool                                `json:"stream"`
	StopSequences []string                            `json:"stop_sequences"`
	Tools         []shape.Object                      `json:"tools"`
	ToolChoice    shape.Object                        `json:"tool_choice" check:"kind"`
	Thinking      shape.Object                        `json:"thinking" check:"kind"`
	Metadata      *messageMetadata                    `json:"metadata" check:"kind"`
	OutputConfig  shape.Any                           `json:"output_config"`
	OutputFormat  shape.Any                           `json:"output_format"`
	MCPServers    shape.Any                           `json:"mcp_servers"`
	Container     shape.Any                           `json:"container"`
	Compaction    shape.Any                           `json:"compaction"`
	Thread        shape.Any                           `json:"thread"`
	shape.More
}

type systemBlock struct {
	Type string `json:"type" required:"true" const:"text"`
	Text string `json:"text" required:"true"`
	shape.More
}

type messageMetadata struct {
	UserID string `json:"user_id" doc:"Who the request is made for; the quota ledger counts by it."`
	shape.More
}

type messageTurn struct {
	Role    string                                    `json:"role" required:"true" enum:"user,assistant,system"`
	Content shape.Either[string, []shape.ContentPart] `json:"content" required:"true"`
	shape.More
}
