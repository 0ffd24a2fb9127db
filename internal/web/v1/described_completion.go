package v1

// completionRequest describes requests for the completion of texts.
type completionRequest struct {
	requestBase
	Model            modelName       `json:"model" required:"true" example:"demo-chat"`
	Prompt           completedPrompt `json:"prompt" required:"true"`
	Suffix           string          `json:"suffix" doc:"What stands behind the text that is completed."`
	Echo             bool            `json:"echo" doc:"The prompt stands before the completion."`
	Logprobs         int64           `json:"logprobs" minimum:"0" maximum:"5"`
	N                int64           `json:"n" minimum:"1" maximum:"128" doc:"Completions of each prompt."`
	BestOf           int64           `json:"best_of" minimum:"1" maximum:"20"`
	Stream           bool            `json:"stream"`
	StreamOptions    streamOptions   `json:"stream_options"`
	MaxTokens        int64           `json:"max_tokens" minimum:"1" doc:"Few backends take less than 1."`
	Temperature      float64         `json:"temperature" minimum:"0" maximum:"2"`
	TopP             float64         `json:"top_p" minimum:"0" maximum:"1"`
	TopK             int64           `json:"top_k"`
	FrequencyPenalty float64         `json:"frequency_penalty" minimum:"-2" maximum:"2"`
	PresencePenalty  float64         `json:"presence_penalty" minimum:"-2" maximum:"2"`
	Stop             textOrTexts     `json:"stop"`
}

type completedPrompt struct{}

// Alternatives are a text, texts, and token ids in the two forms that clients send.
func (completedPrompt) Alternatives() []any { return embeddingInput{}.Alternatives() }

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
