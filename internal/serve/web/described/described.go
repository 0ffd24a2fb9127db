// Package described says how requests and replies of the unified API look in the OpenAPI
// document. The gateway itself does not decode into its types, because it passes on members
// that it does not know.
package described

import (
	"math"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini/genai"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ErrorBody is the form of errors.
type ErrorBody struct {
	Error schema.Error `json:"error"`
}

// requestBase are the members that all requests with a JSON body have.
type requestBase struct {
	User  string `json:"user" doc:"Who the request is made for; the quota ledger counts by it."`
	Extra extra  `json:"extra_body" doc:"Its members count as if they stood beside it."`
	more
}

type extra map[string]jsontext.Value

// more holds further members, which the gateway passes on.
type more struct {
	Others jsontext.Value `json:",unknown"`
}

// either is a value of one type or of another one.
type either[A, B any] struct{}

// Alternatives are a value of each type.
func (either[A, B]) Alternatives() []any { return []any{*new(A), *new(B)} }

// modelName is the name of a model, which has no control characters and is not blank.
type modelName string

// Keywords describe a name, and its greatest length.
func (modelName) Keywords() map[string]any {
	return map[string]any{"pattern": `^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$`, "maxLength": 512}
}

// sampling holds the settings for choosing the tokens of an answer, and for sending them.
type sampling struct {
	Stream           bool                     `json:"stream"`
	StreamOptions    streamOptions            `json:"stream_options"`
	MaxTokens        int64                    `json:"max_tokens" minimum:"1" doc:"Few backends take less than 1."`
	Temperature      float64                  `json:"temperature" minimum:"0" maximum:"2"`
	TopP             float64                  `json:"top_p" minimum:"0" maximum:"1"`
	TopK             int64                    `json:"top_k"`
	FrequencyPenalty float64                  `json:"frequency_penalty" minimum:"-2" maximum:"2"`
	PresencePenalty  float64                  `json:"presence_penalty" minimum:"-2" maximum:"2"`
	Stop             either[string, []string] `json:"stop"`
}

type chatRequest struct {
	requestBase
	sampling
	Model    modelName                           `json:"model" required:"true" example:"demo-chat"`
	Messages []either[message, assistantMessage] `json:"messages" required:"true" minItems:"1"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage" doc:"The last event of the stream has the usage."`
	more
}

type message struct {
	Role    string                        `json:"role" required:"true" enum:"system,developer,user,tool,function"`
	Content either[string, []contentPart] `json:"content" required:"true"`
	Name    string                        `json:"name"`
	more
}

type assistantMessage struct {
	Role    string                        `json:"role" required:"true" const:"assistant"`
	Content either[string, []contentPart] `json:"content"`
	Name    string                        `json:"name"`
	more
}

type contentPart struct {
	Type string `json:"type" required:"true" minLength:"1" example:"text"`
	more
}

type chatCompletion struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []chatChoice `json:"choices"`
	Usage             *tokenUsage  `json:"usage,omitzero"`
	SystemFingerprint *string      `json:"system_fingerprint"`
	more
}

type chatChoice struct {
	Index        int64        `json:"index,omitzero"`
	Message      chatResponse `json:"message,omitzero"`
	FinishReason *string      `json:"finish_reason,omitzero"`
	more
}

type chatResponse struct {
	Role    string  `json:"role,omitzero"`
	Content *string `json:"content,omitzero"`
	more
}

type tokenUsage struct {
	PromptTokens     int64 `json:"prompt_tokens,omitzero"`
	CompletionTokens int64 `json:"completion_tokens,omitzero"`
	TotalTokens      int64 `json:"total_tokens,omitzero"`
	more
}

type embeddingRequest struct {
	requestBase
	Model          modelName      `json:"model" required:"true" example:"demo-embedding"`
	Input          embeddingInput `json:"input" required:"true"`
	EncodingFormat string         `json:"encoding_format" enum:"float,base64"`
	Dimensions     int64          `json:"dimensions" minimum:"1" maximum:"4096"`
}

type embeddingInput struct{}

// Alternatives are a text, texts, and token ids in the two forms that clients send. An
// empty list would match three of them, and is not allowed.
func (embeddingInput) Alternatives() []any {
	return []any{text(""), []string{}, []tokenID{}, []tokenIDs{}}
}

// text is a string that is not empty.
type text string

// Keywords say that the string is not empty.
func (text) Keywords() map[string]any { return map[string]any{"minLength": 1} }

// tokenID is the number of a token, which backends keep in 32 bits.
type tokenID int64

// Keywords are its bounds.
func (tokenID) Keywords() map[string]any {
	return map[string]any{"minimum": 0, "maximum": math.MaxInt32}
}

// tokenIDs are the tokens of one text, which is not empty.
type tokenIDs []tokenID

// Keywords say that the text is not empty.
func (tokenIDs) Keywords() map[string]any { return map[string]any{"minItems": 1} }

type embeddingList struct {
	Object string      `json:"object"`
	Data   []embedding `json:"data"`
	Model  string      `json:"model"`
	Usage  *tokenUsage `json:"usage,omitzero"`
	more
}

type embedding struct {
	Object    string                    `json:"object"`
	Index     int64                     `json:"index"`
	Embedding either[[]float64, string] `json:"embedding"`
	more
}

type rerankRequest struct {
	requestBase
	Model           modelName                      `json:"model" required:"true" example:"demo-rerank"`
	Query           string                         `json:"query" required:"true" minLength:"1"`
	Documents       []either[string, textDocument] `json:"documents" required:"true" minItems:"1"`
	TopN            int64                          `json:"top_n" minimum:"1"`
	ReturnDocuments bool                           `json:"return_documents"`
}

type textDocument struct {
	Text string `json:"text" required:"true"`
	more
}

type ranking struct {
	ID      string      `json:"id,omitzero"`
	Model   string      `json:"model,omitzero"`
	Results []ranked    `json:"results"`
	Usage   *tokenUsage `json:"usage,omitzero"`
	more
}

type ranked struct {
	Index          int64                         `json:"index"`
	RelevanceScore float64                       `json:"relevance_score"`
	Document       *either[string, textDocument] `json:"document,omitzero"`
	more
}

type speechRequest struct {
	requestBase
	Model          modelName             `json:"model" required:"true" example:"demo-tts"`
	Input          string                `json:"input" required:"true" minLength:"1"`
	Voice          either[string, extra] `json:"voice" required:"true"`
	ResponseFormat string                `json:"response_format" doc:"Such as mp3, wav, flac, opus, aac or pcm."`
	Speed          float64               `json:"speed" minimum:"0.25" maximum:"4"`
}

type transcriptionRequest struct {
	File           string    `json:"file" required:"true" format:"binary"`
	Model          modelName `json:"model" required:"true" example:"demo-stt"`
	Language       string    `json:"language"`
	Prompt         string    `json:"prompt"`
	ResponseFormat string    `json:"response_format" enum:"json,verbose_json,text,srt,vtt,diarized_json"`
	Temperature    float64   `json:"temperature"`
	more
}

type transcription struct {
	Text string `json:"text"`
	more
}

type imageRequest struct {
	requestBase
	Model          modelName `json:"model" required:"true" example:"demo-image"`
	Prompt         string    `json:"prompt" required:"true" minLength:"1"`
	N              int64     `json:"n" minimum:"1" maximum:"10"`
	Size           string    `json:"size" example:"1024x1024"`
	Quality        string    `json:"quality"`
	Style          string    `json:"style" doc:"Such as vivid or natural."`
	ResponseFormat string    `json:"response_format" enum:"url,b64_json"`
}

type imageEditRequest struct {
	Image          string    `json:"image" required:"true" format:"binary"`
	Mask           string    `json:"mask" format:"binary"`
	Model          modelName `json:"model" required:"true" example:"demo-image-edit"`
	Prompt         string    `json:"prompt" required:"true" minLength:"1"`
	N              int64     `json:"n" minimum:"1" maximum:"10"`
	Size           string    `json:"size"`
	Quality        string    `json:"quality"`
	ResponseFormat string    `json:"response_format" enum:"url,b64_json"`
	User           string    `json:"user"`
	more
}

type imageList struct {
	Created int64   `json:"created,omitzero"`
	Data    []image `json:"data"`
	more
}

type image struct {
	URL           string `json:"url,omitzero"`
	B64JSON       string `json:"b64_json,omitzero"`
	RevisedPrompt string `json:"revised_prompt,omitzero"`
	more
}

// completionRequest describes requests for the completion of texts.
type completionRequest struct {
	requestBase
	sampling
	Model    modelName      `json:"model" required:"true" example:"demo-chat"`
	Prompt   embeddingInput `json:"prompt" required:"true"`
	Suffix   string         `json:"suffix" doc:"What stands behind the text that is completed."`
	Echo     bool           `json:"echo" doc:"The prompt stands before the completion."`
	Logprobs int64          `json:"logprobs" minimum:"0" maximum:"5"`
	N        int64          `json:"n" minimum:"1" maximum:"128" doc:"Completions of each prompt."`
	BestOf   int64          `json:"best_of" minimum:"1" maximum:"20"`
}

type textCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []textChoice `json:"choices"`
	Usage   *tokenUsage  `json:"usage,omitzero"`
	more
}

type textChoice struct {
	Index        int64   `json:"index,omitzero"`
	Text         string  `json:"text,omitzero"`
	FinishReason *string `json:"finish_reason,omitzero"`
	more
}

type moderationRequest struct {
	requestBase
	Model modelName      `json:"model" required:"true" example:"demo-chat"`
	Input moderatedInput `json:"input" required:"true"`
}

type moderatedInput struct{}

// Alternatives are a text, texts, and parts that are texts or images. An empty list
// would match two of them, and is not allowed.
func (moderatedInput) Alternatives() []any { return []any{text(""), []text{}, []contentPart{}} }

type moderation struct {
	ID      string    `json:"id,omitzero"`
	Model   string    `json:"model,omitzero"`
	Results []verdict `json:"results"`
	more
}

type verdict struct {
	Flagged bool `json:"flagged,omitzero"`
	more
}

type translationRequest struct {
	File           string    `json:"file" required:"true" format:"binary"`
	Model          modelName `json:"model" required:"true" example:"demo-stt"`
	Prompt         string    `json:"prompt"`
	ResponseFormat string    `json:"response_format" enum:"json,verbose_json,text,srt,vtt"`
	Temperature    float64   `json:"temperature"`
	more
}

// anyError has the shape of the API that the caller speaks.
type anyError struct{}

// Alternatives are the shapes of errors.
func (anyError) Alternatives() []any {
	return []any{ErrorBody{}, messages.ErrorBody{}, genai.ErrorBody{}}
}
