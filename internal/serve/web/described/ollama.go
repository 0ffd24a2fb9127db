package described

import "github.com/patchbay-ai/patchbay/internal/request/shape"

// ollamaEnd holds the members of the whole answer, or of the last line of a stream.
type ollamaEnd struct {
	Model              string `json:"model"`
	CreatedAt          string `json:"created_at" format:"date-time"`
	Done               bool   `json:"done"`
	DoneReason         string `json:"done_reason,omitzero"`
	TotalDuration      int64  `json:"total_duration,omitzero" doc:"In nanoseconds, as the others."`
	LoadDuration       int64  `json:"load_duration,omitzero"`
	PromptEvalCount    int64  `json:"prompt_eval_count,omitzero"`
	PromptEvalDuration int64  `json:"prompt_eval_duration,omitzero"`
	EvalCount          int64  `json:"eval_count,omitzero"`
	EvalDuration       int64  `json:"eval_duration,omitzero"`
	shape.More
}

type ollamaChatReply struct {
	ollamaEnd
	Message ollamaSaid `json:"message"`
}

type ollamaSaid struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	shape.More
}

type ollamaGenerateReply struct {
	ollamaEnd
	Response string `json:"response"`
}

type ollamaEmbedReply struct {
	Model           string      `json:"model"`
	Embeddings      [][]float64 `json:"embeddings"`
	TotalDuration   int64       `json:"total_duration,omitzero"`
	LoadDuration    int64       `json:"load_duration,omitzero"`
	PromptEvalCount int64       `json:"prompt_eval_count,omitzero"`
	shape.More
}

type ollamaEmbeddingsReply struct {
	Embedding []float64 `json:"embedding"`
}
