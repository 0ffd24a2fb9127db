package ollama

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

// The fields of requests of each endpoint.
var (
	ChatFields       = schema.FieldsOf(ollamaChatRequest{})
	GenerateFields   = schema.FieldsOf(ollamaGenerateRequest{})
	EmbedFields      = schema.FieldsOf(ollamaEmbedRequest{})
	EmbeddingsFields = schema.FieldsOf(ollamaEmbeddingsRequest{})
)

// ollamaBase holds the members of requests for an answer.
type ollamaBase struct {
	Model       shape.ModelName                    `json:"model" required:"true" example:"demo-chat"`
	Stream      bool                               `json:"stream" doc:"True if it is left out."`
	Format      shape.Either[string, shape.Object] `json:"format" doc:"json, or a JSON Schema."`
	Options     ollamaOptions                      `json:"options" check:"kind"`
	Think       shape.Either[bool, string]         `json:"think"`
	KeepAlive   shape.Either[string, int64]        `json:"keep_alive" doc:"Only for backends that are Ollama."`
	Logprobs    bool                               `json:"logprobs"`
	TopLogprobs shape.Any                          `json:"top_logprobs"`
	Truncate    shape.Any                          `json:"truncate"`
	Shift       shape.Any                          `json:"shift"`
	shape.More
}

type ollamaOptions struct {
	NumPredict  int64       `json:"num_predict"`
	Temperature float64     `json:"temperature"`
	TopP        float64     `json:"top_p"`
	TopK        int64       `json:"top_k"`
	Seed        int64       `json:"seed"`
	Stop        shape.Texts `json:"stop"`
	shape.More
}

type ollamaChatRequest struct {
	ollamaBase
	Messages []ollamaMessage `json:"messages" check:"kind"`
	Tools    []shape.Object  `json:"tools"`
}

type ollamaMessage struct {
	Role    string   `json:"role" required:"true" enum:"system,user,assistant,tool"`
	Content string   `json:"content"`
	Images  []string `json:"images" doc:"In base64."`
	shape.More
}

type ollamaGenerateRequest struct {
	ollamaBase
	Prompt   string    `json:"prompt" check:"kind"`
	Suffix   string    `json:"suffix" check:"kind"`
	System   string    `json:"system" check:"kind"`
	Template string    `json:"template" check:"kind" doc:"Only for backends that are Ollama."`
	Raw      bool      `json:"raw" doc:"No template is put around the prompt."`
	Images   []string  `json:"images" doc:"In base64."`
	Context  shape.Any `json:"context" doc:"Only for backends that are Ollama."`
}

type ollamaEmbedRequest struct {
	Model      shape.ModelName `json:"model" required:"true" example:"demo-embed"`
	Input      shape.Texts     `json:"input" required:"true"`
	Dimensions int64           `json:"dimensions"`
	Truncate   shape.Any       `json:"truncate"`
	embeddingOthers
}

type ollamaEmbeddingsRequest struct {
	Model  shape.ModelName `json:"model" required:"true" example:"demo-embed"`
	Prompt string          `json:"prompt" required:"true"`
	embeddingOthers
}

type embeddingOthers struct {
	Options   shape.Any `json:"options"`
	KeepAlive shape.Any `json:"keep_alive"`
	shape.More
}
