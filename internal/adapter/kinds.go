package adapter

import "github.com/patchbay-ai/patchbay/internal/schema"

// kinds is the table of everything that can stand behind an instance.
var kinds = []*Kind{
	{
		Name:     "openai",
		Aliases:  []string{"normal"},
		TypeName: "OpenAIAdapter",
		Routes:   openAIRoutes(schema.ServiceTypes()...),
	},
	{
		Name:     "vllm",
		TypeName: "VLLMAdapter",
		Routes:   openAIRoutes(schema.Chat, schema.Embedding, schema.Rerank, schema.STT),
	},
	{
		Name:     "gpustack",
		TypeName: "GPUStackAdapter",
		Routes:   openAIRoutes(schema.ServiceTypes()...),
	},
	{
		Name:     "xinference",
		TypeName: "XinferenceAdapter",
		Routes:   openAIRoutes(schema.ServiceTypes()...),
	},
	{
		Name:     "localai",
		TypeName: "LocalAIAdapter",
		Routes:   openAIRoutes(schema.Chat, schema.Embedding, schema.Rerank, schema.TTS, schema.STT, schema.ImgGen),
		Quirks:   Quirks{TextDocuments: true},
	},
	{
		Name:     "llamacpp",
		Aliases:  []string{"llama.cpp", "llama-server"},
		TypeName: "LlamaCppAdapter",
		Routes:   openAIRoutes(schema.Chat, schema.Embedding, schema.Rerank, schema.STT),
		Quirks:   Quirks{TextDocuments: true},
	},
	{
		Name:     "cohere",
		TypeName: "CohereAdapter",
		Routes:   map[schema.ServiceType]Route{schema.Rerank: {Path: "/v2/rerank", Speak: rerank{}}},
		Quirks:   Quirks{TextDocuments: true},
	},
	{
		Name:     "jina",
		TypeName: "JinaAdapter",
		Routes: map[schema.ServiceType]Route{
			schema.Rerank:    {Path: "/v1/rerank", Speak: rerank{}},
			schema.Embedding: {Path: "/v1/embeddings", Speak: openAIEmbedding{}},
		},
	},
	{
		Name:     "tei",
		TypeName: "TEIAdapter",
		Routes: map[schema.ServiceType]Route{
			schema.Rerank:    {Path: "/rerank", Speak: teiRerank{}},
			schema.Embedding: {Path: "/v1/embeddings", Speak: openAIEmbedding{}},
		},
	},
}

// openAIRoutes are the routes of a backend that serves the given service types
// as the unified API itself does.
func openAIRoutes(services ...schema.ServiceType) map[schema.ServiceType]Route {
	routes := make(map[schema.ServiceType]Route, len(services))
	for _, service := range services {
		switch service {
		case schema.Chat:
			routes[service] = Route{Path: "/v1/chat/completions", Speak: openAIChat{}}
		case schema.Embedding:
			routes[service] = Route{Path: "/v1/embeddings", Speak: openAIEmbedding{}}
		case schema.Rerank:
			routes[service] = Route{Path: "/v1/rerank", Speak: rerank{}}
		case schema.TTS:
			routes[service] = Route{Path: "/v1/audio/speech", Speak: openAISpeech{}}
		case schema.STT:
			routes[service] = Route{Path: "/v1/audio/transcriptions", Speak: openAITranscription{}}
		case schema.ImgGen:
			routes[service] = Route{Path: "/v1/images/generations", Speak: openAIImage{}}
		case schema.ImgEdit:
			routes[service] = Route{Path: "/v1/images/edits", Speak: openAIImage{}}
		}
	}
	return routes
}
