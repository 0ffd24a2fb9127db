package adapter

import "github.com/patchbay-ai/patchbay/internal/schema"

// kinds is the table of everything that can stand behind an instance.
var kinds = []*Kind{
	{
		Name:     "openai",
		Aliases:  []string{"normal"},
		TypeName: "OpenAIAdapter",
		Health:   "/v1/models",
		Routes:   openAIRoutes(schema.ServiceTypes()...),
	},
	{
		Name:     "vllm",
		TypeName: "VLLMAdapter",
		Health:   "/health",
		Routes:   openAIRoutes(schema.Chat, schema.Embedding, schema.Rerank, schema.STT),
	},
	{
		Name:     "gpustack",
		TypeName: "GPUStackAdapter",
		Health:   "/v1/models",
		Routes:   openAIRoutes(schema.ServiceTypes()...),
	},
	{
		Name:     "xinference",
		TypeName: "XinferenceAdapter",
		Health:   "/v1/models",
		Routes:   openAIRoutes(schema.ServiceTypes()...),
	},
	{
		Name:     "localai",
		TypeName: "LocalAIAdapter",
		Health:   "/readyz",
		Routes:   openAIRoutes(schema.Chat, schema.Embedding, schema.Rerank, schema.TTS, schema.STT, schema.ImgGen),
		Quirks:   Quirks{TextDocuments: true},
	},
	{
		Name:     "llamacpp",
		Aliases:  []string{"llama.cpp", "llama-server"},
		TypeName: "LlamaCppAdapter",
		Health:   "/health",
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
		Health:   "/health",
		Routes: map[schema.ServiceType]Route{
			schema.Rerank:    {Path: "/rerank", Speak: teiRerank{}},
			schema.Embedding: {Path: "/v1/embeddings", Speak: openAIEmbedding{}},
		},
	},
	{
		Name:     "ollama",
		TypeName: "OllamaAdapter",
		Health:   "/api/version",
		Routes: map[schema.ServiceType]Route{
			schema.Chat:      {Path: "/api/chat", Speak: ollamaChat{}},
			schema.Embedding: {Path: "/api/embed", Speak: ollamaEmbedding{}},
		},
	},
	{
		Name:      "anthropic",
		Aliases:   []string{"claude"},
		TypeName:  "AnthropicAdapter",
		Routes:    map[schema.ServiceType]Route{schema.Chat: {Path: "/v1/messages", Speak: anthropicChat{}}},
		KeyHeader: "x-api-key",
		Headers:   []Header{{"anthropic-version", "2023-06-01"}},
	},
	{
		Name:      "gemini",
		Aliases:   []string{"google"},
		TypeName:  "GeminiAdapter",
		KeyHeader: "x-goog-api-key",
		Routes: map[schema.ServiceType]Route{
			schema.Chat:      {Path: "/v1beta/models/{model}:generateContent", Speak: geminiChat{}},
			schema.Embedding: {Path: "/v1beta/models/{model}:batchEmbedContents", Speak: geminiEmbedding{}},
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
