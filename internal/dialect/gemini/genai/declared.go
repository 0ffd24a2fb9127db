package genai

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

// The fields of requests of each method. The API takes each with underscores as well.
var (
	Fields      = schema.FieldsOf(geminiRequest{})
	CountFields = schema.FieldsOf(geminiCountRequest{})
	EmbedFields = schema.FieldsOf(geminiEmbedRequest{})
	BatchFields = schema.FieldsOf(geminiBatchRequest{})
)

type geminiContent struct {
	Role  string         `json:"role,omitzero"`
	Parts []shape.Object `json:"parts,omitzero"`
}

// named holds the member of a request in which clients repeat the model of the path.
type named struct {
	Model shape.Any `json:"model" doc:"The path names the model."`
}

type geminiRequest struct {
	named
	Contents          []geminiContent `json:"contents" required:"true" minItems:"1"`
	SystemInstruction geminiContent   `json:"systemInstruction" alias:"system_instruction"`
	Tools             []shape.Object  `json:"tools"`
	ToolConfig        shape.Object    `json:"toolConfig" alias:"tool_config"`
	GenerationConfig  shape.Object    `json:"generationConfig" alias:"generation_config"`
	SafetySettings    []shape.Object  `json:"safetySettings" alias:"safety_settings" doc:"For Gemini itself."`
	CachedContent     shape.Any       `json:"cachedContent" alias:"cached_content"`
	Labels            shape.Any       `json:"labels"`
	shape.More
}

type geminiCountRequest struct {
	named
	Contents               []geminiContent `json:"contents"`
	GenerateContentRequest geminiRequest   `json:"generateContentRequest" alias:"generate_content_request"`
	SystemInstruction      shape.Any       `json:"systemInstruction"`
	Tools                  shape.Any       `json:"tools"`
	GenerationConfig       shape.Any       `json:"generationConfig"`
	shape.More
}

type geminiEmbedRequest struct {
	named
	Content              geminiContent `json:"content" required:"true"`
	OutputDimensionality int64         `json:"outputDimensionality" alias:"output_dimensionality"`
	TaskType             shape.Any     `json:"taskType" alias:"task_type"`
	Title                shape.Any     `json:"title"`
	shape.More
}

type geminiBatchRequest struct {
	named
	Requests []geminiEmbedRequest `json:"requests" required:"true" minItems:"1"`
}
