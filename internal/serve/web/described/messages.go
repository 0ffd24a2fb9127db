package described

import "github.com/patchbay-ai/patchbay/internal/request/shape"

type messageReply struct {
	ID           string              `json:"id"`
	Type         string              `json:"type"`
	Role         string              `json:"role"`
	Model        string              `json:"model"`
	Content      []shape.ContentPart `json:"content"`
	StopReason   *string             `json:"stop_reason"`
	StopSequence *string             `json:"stop_sequence,omitzero"`
	Usage        messageUsage        `json:"usage"`
	shape.More
}

type messageUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	shape.More
}

// tokenCount is the reply to a request for the number of tokens.
type tokenCount struct {
	InputTokens int64 `json:"input_tokens"`
	Estimated   bool  `json:"estimated,omitzero" doc:"No backend counted them, as X-Router-Estimated says."`
}
