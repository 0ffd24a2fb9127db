package described

type geminiStreamQuery struct {
	Alt string `json:"alt" doc:"sse for events."`
}

type geminiContent struct {
	Role  string  `json:"role,omitzero"`
	Parts []extra `json:"parts,omitzero"`
}

type geminiRequest struct {
	Contents          []geminiContent `json:"contents" required:"true" minItems:"1"`
	SystemInstruction geminiContent   `json:"systemInstruction"`
	Tools             []extra         `json:"tools"`
	ToolConfig        extra           `json:"toolConfig"`
	GenerationConfig  extra           `json:"generationConfig"`
	SafetySettings    []extra         `json:"safetySettings" doc:"Only for backends that are Gemini."`
	more
}

type geminiReply struct {
	Candidates    []extra `json:"candidates,omitzero"`
	UsageMetadata extra   `json:"usageMetadata,omitzero"`
	ModelVersion  string  `json:"modelVersion,omitzero"`
	ResponseID    string  `json:"responseId,omitzero"`
	more
}

type geminiCountRequest struct {
	Contents               []geminiContent `json:"contents"`
	GenerateContentRequest geminiRequest   `json:"generateContentRequest"`
	more
}

type geminiCount struct {
	TotalTokens int64 `json:"totalTokens"`
	more
}

type geminiEmbedRequest struct {
	Content              geminiContent `json:"content" required:"true"`
	OutputDimensionality int64         `json:"outputDimensionality"`
	more
}

type geminiBatchRequest struct {
	Requests []geminiEmbedRequest `json:"requests" required:"true" minItems:"1"`
}

type geminiVector struct {
	Values []float64 `json:"values"`
	more
}

type geminiEmbedding struct {
	Embedding geminiVector `json:"embedding"`
	more
}

type geminiEmbeddings struct {
	Embeddings []geminiVector `json:"embeddings"`
	more
}
