// Package described describes the operations of the unified API and their replies for the
// OpenAPI document. Doors declare their requests themselves; see schema.Fields.
package described

import (
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini/genai"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

// ErrorBody is the form of errors.
type ErrorBody struct {
	Error schema.Error `json:"error"`
}

type chatCompletion struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []chatChoice `json:"choices"`
	Usage             *tokenUsage  `json:"usage,omitzero"`
	SystemFingerprint *string      `json:"system_fingerprint"`
	shape.More
}

type chatChoice struct {
	Index        int64        `json:"index,omitzero"`
	Message      chatResponse `json:"message,omitzero"`
	FinishReason *string      `json:"finish_reason,omitzero"`
	shape.More
}

type chatResponse struct {
	Role    string  `json:"role,omitzero"`
	Content *string `json:"content,omitzero"`
	shape.More
}

type tokenUsage struct {
	PromptTokens     int64 `json:"prompt_tokens,omitzero"`
	CompletionTokens int64 `json:"completion_tokens,omitzero"`
	TotalTokens      int64 `json:"total_tokens,omitzero"`
	shape.More
}

type embeddingList struct {
	Object string      `json:"object"`
	Data   []embedding `json:"data"`
	Model  string      `json:"model"`
	Usage  *tokenUsage `json:"usage,omitzero"`
	shape.More
}

type embedding struct {
	Object    string                          `json:"object"`
	Index     int64                           `json:"index"`
	Embedding shape.Either[[]float64, string] `json:"embedding"`
	shape.More
}

type textDocument struct {
	Text string `json:"text" required:"true"`
	shape.More
}

type ranking struct {
	ID      string      `json:"id,omitzero"`
	Model   string      `json:"model,omitzero"`
	Results []ranked    `json:"results"`
	Usage   *tokenUsage `json:"usage,omitzero"`
	shape.More
}

type ranked struct {
	Index          int64                               `json:"index"`
	RelevanceScore float64                             `json:"relevance_score"`
	Document       *shape.Either[string, textDocument] `json:"document,omitzero"`
	shape.More
}

type transcription struct {
	Text string `json:"text"`
	shape.More
}

type imageList struct {
	Created int64   `json:"created,omitzero"`
	Data    []image `json:"data"`
	shape.More
}

type image struct {
	URL           string `json:"url,omitzero"`
	B64JSON       string `json:"b64_json,omitzero"`
	RevisedPrompt string `json:"revised_prompt,omitzero"`
	shape.More
}

type textCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []textChoice `json:"choices"`
	Usage   *tokenUsage  `json:"usage,omitzero"`
	shape.More
}

type textChoice struct {
	Index        int64   `json:"index,omitzero"`
	Text         string  `json:"text,omitzero"`
	FinishReason *string `json:"finish_reason,omitzero"`
	shape.More
}

type moderation struct {
	ID      string    `json:"id,omitzero"`
	Model   string    `json:"model,omitzero"`
	Results []verdict `json:"results"`
	shape.More
}

type verdict struct {
	Flagged bool `json:"flagged,omitzero"`
	shape.More
}

// anyError has the shape of the API that the caller speaks.
type anyError struct{}

// Alternatives are the shapes of errors.
func (anyError) Alternatives() []any {
	return []any{ErrorBody{}, messages.ErrorBody{}, genai.ErrorBody{}}
}
