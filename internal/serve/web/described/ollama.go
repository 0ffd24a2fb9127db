package described

type ollamaBase struct {
	Model     modelName             `json:"model" required:"true" example:"demo-chat"`
	Stream    bool                  `json:"stream" doc:"True if it is left out."`
	Format    either[string, extra] `json:"format" doc:"json, or a JSON Schema."`
	Options   ollamaOptions         `json:"options"`
	Think     either[bool, string]  `json:"think"`
	KeepAlive either[string, int64] `json:"keep_alive" doc:"Only for backends that are Ollama."`
	Logprobs  bool                  `json:"logprobs"`
	more
}

type ollamaOptions struct {
	NumPredict  int64                    `json:"num_predict"`
	Temperature float64                  `json:"temperature"`
	TopP        float64                  `json:"top_p"`
	TopK        int64                    `json:"top_k"`
	Seed        int64                    `json:"seed"`
	Stop        either[string, []string] `json:"stop"`
	more
}

type ollamaChatRequest struct {
	ollamaBase
	Messages []ollamaMessage `json:"messages"`
	Tools    []extra         `json:"tools"`
}

type ollamaMessage struct {
	Role    string   `json:"role" required:"true" enum:"system,user,assistant,tool"`
	Content string   `json:"content"`
	Images  []string `json:"images" doc:"In base64."`
	more
}

type ollamaGenerateRequest struct {
	ollamaBase
	Prompt string   `json:"prompt"`
	Suffix string   `json:"suffix"`
	System string   `json:"system"`
	Raw    bool     `json:"raw" doc:"No template is put around the prompt."`
	Images []string `json:"images" doc:"In base64."`
}

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
	more
}

type ollamaChatReply struct {
	ollamaEnd
	Message ollamaSaid `json:"message"`
}

type ollamaSaid struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	more
}

type ollamaGenerateReply struct {
	ollamaEnd
	Response string `json:"response"`
}

type ollamaEmbedRequest struct {
	Model      modelName                `json:"model" required:"true" example:"demo-embed"`
	Input      either[string, []string] `json:"input" required:"true"`
	Dimensions int64                    `json:"dimensions"`
	more
}

type ollamaEmbedReply struct {
	Model           string      `json:"model"`
	Embeddings      [][]float64 `json:"embeddings"`
	TotalDuration   int64       `json:"total_duration,omitzero"`
	LoadDuration    int64       `json:"load_duration,omitzero"`
	PromptEvalCount int64       `json:"prompt_eval_count,omitzero"`
	more
}

type ollamaEmbeddingsRequest struct {
	Model  modelName `json:"model" required:"true" example:"demo-embed"`
	Prompt string    `json:"prompt" required:"true"`
	more
}

type ollamaEmbeddingsReply struct {
	Embedding []float64 `json:"embedding"`
}
