package described

// messageRequest describes requests to the Messages API.
type messageRequest struct {
	messageInput
	MaxTokens int64 `json:"max_tokens" required:"true" minimum:"0"`
	more
}

// Docs says more about some members than a tag has room for.
func (messageRequest) Docs() map[string]string {
	return map[string]string{
		"max_tokens": "How many tokens the answer may have; 0 only fills the cache of prompts, at backends of " +
			"the same API.",
	}
}

// countRequest describes requests for the number of tokens of a message.
type countRequest struct {
	messageInput
	MaxTokens int64 `json:"max_tokens"`
	more
}

// messageInput holds the members that both requests have in common.
type messageInput struct {
	Model         modelName                   `json:"model" required:"true" example:"demo-chat"`
	Messages      []messageTurn               `json:"messages" required:"true" minItems:"1"`
	System        either[string, []textBlock] `json:"system"`
	Stream        bool                        `json:"stream"`
	Temperature   float64                     `json:"temperature"`
	TopP          float64                     `json:"top_p"`
	TopK          int64                       `json:"top_k"`
	StopSequences []string                    `json:"stop_sequences"`
	Tools         []extra                     `json:"tools"`
	ToolChoice    extra                       `json:"tool_choice"`
	Thinking      extra                       `json:"thinking"`
	Metadata      *messageMetadata            `json:"metadata"`
}

type textBlock struct {
	Type string `json:"type" required:"true" const:"text"`
	Text string `json:"text" required:"true"`
	more
}

type messageMetadata struct {
	UserID string `json:"user_id" doc:"Who the request is made for; the quota ledger counts by it."`
	more
}

type messageTurn struct {
	Role    string                        `json:"role" required:"true" enum:"user,assistant,system"`
	Content either[string, []contentPart] `json:"content" required:"true"`
	more
}

type messageReply struct {
	ID           string        `json:"id"`
	Type         string        `json:"type"`
	Role         string        `json:"role"`
	Model        string        `json:"model"`
	Content      []contentPart `json:"content"`
	StopReason   *string       `json:"stop_reason"`
	StopSequence *string       `json:"stop_sequence,omitzero"`
	Usage        messageUsage  `json:"usage"`
	more
}

type messageUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	more
}

// tokenCount is the reply to a request for the number of tokens.
type tokenCount struct {
	InputTokens int64 `json:"input_tokens"`
	Estimated   bool  `json:"estimated,omitzero" doc:"No backend counted them, as X-Router-Estimated says."`
}
