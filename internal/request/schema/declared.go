package schema

import (
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

// The fields of the doors of the unified API.
var (
	ChatFields          = FieldsOf(chatRequest{})
	CompletionFields    = FieldsOf(completionRequest{})
	ModerationFields    = FieldsOf(moderationRequest{})
	EmbeddingFields     = FieldsOf(embeddingRequest{})
	RerankFields        = FieldsOf(rerankRequest{})
	SpeechFields        = FieldsOf(speechRequest{})
	TranscriptionFields = FieldsOf(transcriptionRequest{})
	TranslationFields   = FieldsOf(translationRequest{})
	ImageFields         = FieldsOf(imageRequest{})
	ImageEditFields     = FieldsOf(imageEditRequest{})

	messageFields      = FieldsOf(message{})
	streamOptionFields = FieldsOf(streamOptions{})
	documentFields     = FieldsOf(textDocument{})
)

// The places of fields that are looked for in one pass over the body, because many requests
// have them. All requests have the first three, and those for a generated text the others.
const (
	fieldModel = iota
	fieldUser
	fieldExtraBody
	fieldStream
	fieldStreamOptions
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldN
	fieldBestOf
	fieldTemperature
	fieldTopP
	fieldTopK
	fieldFrequencyPenalty
	fieldPresencePenalty
	fieldStop
	fieldPrompt // the messages or the prompt

	placedFields
)

// found are the fields of a request by their places.
type found [placedFields]jsonscan.Value

// requestBase are the fields that all requests with a JSON body have beside the model.
type requestBase struct {
	User  string       `json:"user" doc:"Who the request is made for; the quota ledger counts by it."`
	Extra shape.Object `json:"extra_body" doc:"Its members count as if they stood beside it."`
	shape.More
}

// generation holds the fields about the length, the number, the sampling and the sending of
// answers.
type generation struct {
	Stream              bool          `json:"stream"`
	StreamOptions       streamOptions `json:"stream_options"`
	MaxTokens           int64         `json:"max_tokens" minimum:"1" check:"kind" doc:"Few backends take less than 1."`
	MaxCompletionTokens int64         `json:"max_completion_tokens" check:"kind"`
	N                   int64         `json:"n" check:"kind"`
	BestOf              int64         `json:"best_of" check:"kind"`
	Temperature         float64       `json:"temperature" minimum:"0" maximum:"2" check:"bounds"`
	TopP                float64       `json:"top_p" minimum:"0" maximum:"1" check:"bounds"`
	TopK                int64         `json:"top_k" check:"kind"`
	FrequencyPenalty    float64       `json:"frequency_penalty" minimum:"-2" maximum:"2" check:"bounds"`
	PresencePenalty     float64       `json:"presence_penalty" minimum:"-2" maximum:"2" check:"bounds"`
	Stop                shape.Texts   `json:"stop" check:"kind"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage" doc:"The last event of the stream has the usage."`
	shape.More
}

type chatRequest struct {
	Model shape.ModelName `json:"model" required:"true" example:"demo-chat"`
	requestBase
	generation
	Messages          []shape.Either[message, assistantMessage] `json:"messages" required:"true" minItems:"1"`
	Seed              shape.Any                                 `json:"seed"`
	Logprobs          shape.Any                                 `json:"logprobs"`
	TopLogprobs       shape.Any                                 `json:"top_logprobs"`
	LogitBias         shape.Any                                 `json:"logit_bias"`
	ResponseFormat    shape.Any                                 `json:"response_format"`
	Tools             shape.Any                                 `json:"tools"`
	ToolChoice        shape.Any                                 `json:"tool_choice"`
	ParallelToolCalls shape.Any                                 `json:"parallel_tool_calls"`
	Functions         shape.Any                                 `json:"functions"`
	FunctionCall      shape.Any                                 `json:"function_call"`
	Reasoning         shape.Any                                 `json:"reasoning"`
	ReasoningEffort   shape.Any                                 `json:"reasoning_effort"`
	Modalities        shape.Any                                 `json:"modalities"`
	Audio             shape.Any                                 `json:"audio"`
	Metadata          shape.Any                                 `json:"metadata"`
	ServiceTier       shape.Any                                 `json:"service_tier"`
	Store             shape.Any                                 `json:"store"`
	WebSearchOptions  shape.Any                                 `json:"web_search_options"`
	Moderation        shape.Any                                 `json:"moderation"`
	// Backends of other APIs have these, and get them from extra_body.
	StopSequences shape.Any `json:"stop_sequences" doc:"For backends that speak Anthropic's API, as the next three."`
	Thinking      shape.Any `json:"thinking"`
	System        shape.Any `json:"system"`
	OutputConfig  shape.Any `json:"output_config"`
	Google        shape.Any `json:"google" doc:"For backends that speak the Gemini API."`
}

// content is the content of a message.
type content = shape.Either[string, []shape.ContentPart]

type message struct {
	Role    string  `json:"role" required:"true" enum:"system,developer,user,tool,function"`
	Name    string  `json:"name"`
	Content content `json:"content" required:"true"`
	messageOthers
}

type assistantMessage struct {
	Role    string  `json:"role" required:"true" const:"assistant"`
	Name    string  `json:"name"`
	Content content `json:"content"`
	messageOthers
}

// messageOthers are the fields of a message that are not checked.
type messageOthers struct {
	ToolCalls        shape.Any `json:"tool_calls"`
	ToolCallID       shape.Any `json:"tool_call_id"`
	FunctionCall     shape.Any `json:"function_call"`
	Refusal          shape.Any `json:"refusal"`
	Reasoning        shape.Any `json:"reasoning"`
	ReasoningContent shape.Any `json:"reasoning_content"`
	ThinkingBlocks   shape.Any `json:"thinking_blocks"`
	ExtraContent     shape.Any `json:"extra_content"`
	shape.More
}

// The places of the fields of a message that are checked.
const (
	messageRole = iota
	messageName
	messageContent

	checkedInMessage
)

type completionRequest struct {
	Model shape.ModelName `json:"model" required:"true" example:"demo-chat"`
	requestBase
	generation
	Prompt    shape.Prompt `json:"prompt" required:"true"`
	Suffix    string       `json:"suffix" check:"kind" doc:"The text after the completion."`
	Echo      bool         `json:"echo" check:"kind" doc:"The answer begins with the prompt."`
	Logprobs  int64        `json:"logprobs" minimum:"0" maximum:"5" check:"kind"`
	N         int64        `json:"n" minimum:"1" maximum:"128" check:"kind" doc:"Completions of each prompt."`
	BestOf    int64        `json:"best_of" minimum:"1" maximum:"20" check:"kind"`
	Seed      shape.Any    `json:"seed"`
	LogitBias shape.Any    `json:"logit_bias"`
}

type moderationRequest struct {
	Model shape.ModelName `json:"model" required:"true" example:"demo-chat"`
	requestBase
	Input moderatedInput `json:"input" required:"true"`
}

type moderatedInput struct{}

// Alternatives are a text, texts, and parts that are texts or images. An empty list
// would match two of them, and is not allowed.
func (moderatedInput) Alternatives() []any {
	return []any{shape.Text(""), []shape.Text{}, []shape.ContentPart{}}
}

type embeddingRequest struct {
	Model shape.ModelName `json:"model" required:"true" example:"demo-embedding"`
	requestBase
	Input          shape.Prompt `json:"input" required:"true"`
	EncodingFormat string       `json:"encoding_format" enum:"float,base64"`
	Dimensions     int64        `json:"dimensions" minimum:"1" maximum:"4096" check:"kind"`
	Title          shape.Any    `json:"title" doc:"For backends that speak the Gemini API, as task_type."`
	TaskType       shape.Any    `json:"task_type"`
}

type rerankRequest struct {
	Model shape.ModelName `json:"model" required:"true" example:"demo-rerank"`
	requestBase
	Query           string                               `json:"query" required:"true" minLength:"1" check:"filled"`
	Documents       []shape.Either[string, textDocument] `json:"documents" required:"true" minItems:"1"`
	TopN            int64                                `json:"top_n" minimum:"1" check:"positive"`
	ReturnDocuments bool                                 `json:"return_documents" check:"kind"`
}

type textDocument struct {
	Text string `json:"text" required:"true"`
	shape.More
}

type speechRequest struct {
	Model shape.ModelName `json:"model" required:"true" example:"demo-tts"`
	requestBase
	Input string                             `json:"input" required:"true" minLength:"1" check:"filled"`
	Voice shape.Either[string, shape.Object] `json:"voice" required:"true"`

	ResponseFormat string    `json:"response_format" check:"kind" doc:"Such as mp3, wav, opus or pcm."`
	Speed          float64   `json:"speed" minimum:"0.25" maximum:"4" check:"bounds"`
	StreamFormat   shape.Any `json:"stream_format"`
}

// formBase are the fields that all forms have beside the model.
type formBase struct {
	User   string    `json:"user" check:"single"`
	Extra  shape.Any `json:"extra_body"`
	Stream shape.Any `json:"stream" check:"single"`
	shape.More
}

type transcriptionRequest struct {
	Model shape.ModelName `json:"model" required:"true" example:"demo-stt" check:"single"`
	formBase
	File           string    `json:"file" required:"true" format:"binary" check:"single"`
	Language       string    `json:"language" check:"single"`
	Prompt         string    `json:"prompt" check:"single"`
	ResponseFormat string    `json:"response_format" enum:"json,verbose_json,text,srt,vtt,diarized_json" check:"single"`
	Temperature    float64   `json:"temperature" check:"single"`
	Translate      shape.Any `json:"translate"`
}

type translationRequest struct {
	transcriptionRequest
	ResponseFormat string `json:"response_format" enum:"json,verbose_json,text,srt,vtt" check:"single"`
}

type imageRequest struct {
	Model shape.ModelName `json:"model" required:"true" example:"demo-image"`
	requestBase
	Prompt         string    `json:"prompt" required:"true" minLength:"1" check:"filled"`
	N              int64     `json:"n" minimum:"1" maximum:"10" check:"positive"`
	Size           string    `json:"size" example:"1024x1024" check:"kind"`
	Quality        string    `json:"quality" check:"kind"`
	Style          string    `json:"style" check:"kind" doc:"Such as vivid or natural."`
	ResponseFormat string    `json:"response_format" enum:"url,b64_json" check:"kind"`
	Stream         shape.Any `json:"stream"`
	Image          shape.Any `json:"image"`
	Mask           shape.Any `json:"mask"`
}

type imageEditRequest struct {
	Model shape.ModelName `json:"model" required:"true" example:"demo-image-edit" check:"single"`
	formBase
	Image          string    `json:"image" required:"true" format:"binary"`
	Mask           string    `json:"mask" format:"binary" check:"single"`
	Prompt         string    `json:"prompt" required:"true" minLength:"1" check:"single"`
	N              int64     `json:"n" minimum:"1" maximum:"10" check:"single"`
	Size           string    `json:"size" check:"single"`
	Quality        string    `json:"quality" check:"single"`
	Style          shape.Any `json:"style"`
	ResponseFormat string    `json:"response_format" enum:"url,b64_json" check:"single"`
}
