package described

import "github.com/patchbay-ai/patchbay/internal/request/shape"

type geminiStreamQuery struct {
	Alt string `json:"alt" doc:"sse for events."`
}

type geminiReply struct {
	Candidates    []shape.Object `json:"candidates,omitzero"`
	UsageMetadata shape.Object   `json:"usageMetadata,omitzero"`
	ModelVersion  string         `json:"modelVersion,omitzero"`
	ResponseID    string         `json:"responseId,omitzero"`
	shape.More
}

type geminiCount struct {
	TotalTokens int64 `json:"totalTokens"`
	shape.More
}

type geminiVector struct {
	Values []float64 `json:"values"`
	shape.More
}

type geminiEmbedding struct {
	Embedding geminiVector `json:"embedding"`
	shape.More
}

type geminiEmbeddings struct {
	Embeddings []geminiVector `json:"embeddings"`
	shape.More
}
