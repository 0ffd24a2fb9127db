package adapter

import (
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// The routes of backends that serve a service type as the unified API itself does.
var (
	chatRoute          = Route{Path: "/v1/chat/completions", Speak: openAIChat{}}
	embeddingRoute     = Route{Path: "/v1/embeddings", Speak: openAIEmbedding{}}
	rerankRoute        = Route{Path: "/v1/rerank", Speak: rerank{}}
	speechRoute        = Route{Path: "/v1/audio/speech", Speak: openAISpeech{}}
	transcriptionRoute = Route{Path: "/v1/audio/transcriptions", Speak: openAITranscription{}}
	imageRoute         = Route{Path: "/v1/images/generations", Speak: openAIImage{}}
	imageEditRoute     = Route{Path: "/v1/images/edits", Speak: openAIImage{}}
)

// kinds is the table of everything that can stand behind an instance.
var kinds = []*Kind{
	{
		Name:     "openai",
		Aliases:  []string{"normal"},
		TypeName: "OpenAIAdapter",
		Health:   "/v1/models",
		// Whatever serves this dialect may stand behind it.
		Complaints: [][]Complaint{llamaComplaints, whisperComplaints, localAIComplaints, ollamaComplaints},
		Routes: map[schema.ServiceType]Route{
			schema.Chat:      chatRoute,
			schema.Embedding: embeddingRoute,
			schema.Rerank:    rerankRoute,
			schema.TTS:       speechRoute,
			schema.STT:       transcriptionRoute,
			schema.ImgGen:    imageRoute,
			schema.ImgEdit:   imageEditRoute,
		},
	},
	{
		Name:     "vllm",
		TypeName: "VLLMAdapter",
		Health:   "/health",
		Routes: map[schema.ServiceType]Route{
			schema.Chat:      chatRoute,
			schema.Embedding: embeddingRoute,
			schema.Rerank:    rerankRoute,
			schema.STT:       transcriptionRoute,
		},
	},
	{
		Name:     "gpustack",
		TypeName: "GPUStackAdapter",
		Health:   "/v1/models",
		// Its backends are those of others, whose words it passes on.
		Complaints: [][]Complaint{llamaComplaints},
		Routes: map[schema.ServiceType]Route{
			schema.Chat:      chatRoute,
			schema.Embedding: embeddingRoute,
			schema.Rerank:    rerankRoute,
			schema.TTS:       speechRoute,
			schema.STT:       transcriptionRoute,
			schema.ImgGen:    imageRoute,
			schema.ImgEdit:   imageEditRoute,
		},
	},
	{
		Name:     "xinference",
		TypeName: "XinferenceAdapter",
		Health:   "/v1/models",
		Routes: map[schema.ServiceType]Route{
			schema.Chat:      chatRoute,
			schema.Embedding: embeddingRoute,
			schema.Rerank:    rerankRoute,
			schema.TTS:       speechRoute,
			schema.STT:       transcriptionRoute,
			schema.ImgGen:    imageRoute,
			schema.ImgEdit:   imageEditRoute,
		},
	},
	{
		Name:     "localai",
		TypeName: "LocalAIAdapter",
		Health:   "/readyz",
		Routes: map[schema.ServiceType]Route{
			schema.Chat:      chatRoute,
			schema.Embedding: embeddingRoute,
			schema.Rerank:    rerankRoute,
			schema.TTS:       speechRoute,
			schema.STT:       transcriptionRoute,
			schema.ImgGen:    imageRoute,
		},
		Quirks:     Quirks{TextDocuments: true},
		Complaints: [][]Complaint{localAIComplaints, llamaComplaints, whisperComplaints},
	},
	{
		Name:     "llamacpp",
		Aliases:  []string{"llama.cpp", "llama-server"},
		TypeName: "LlamaCppAdapter",
		Health:   "/health",
		// Its HTTP server has a worker for each connection, kept ones included, and
		// by default no more than eight or so.
		NoKeepAlive: true,
		Routes: map[schema.ServiceType]Route{
			schema.Chat:      chatRoute,
			schema.Embedding: embeddingRoute,
			schema.Rerank:    rerankRoute,
			schema.STT:       transcriptionRoute,
		},
		Quirks:     Quirks{TextDocuments: true},
		Complaints: [][]Complaint{llamaComplaints},
	},
	{
		Name:       "whispercpp",
		Aliases:    []string{"whisper.cpp", "whisper-server"},
		TypeName:   "WhisperCppAdapter",
		Health:     "/health",
		Routes:     map[schema.ServiceType]Route{schema.STT: {Path: "/inference", Speak: openAITranscription{}}},
		Complaints: [][]Complaint{whisperComplaints},
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
			schema.Rerank:    rerankRoute,
			schema.Embedding: embeddingRoute,
		},
	},
	{
		Name:     "tei",
		TypeName: "TEIAdapter",
		Health:   "/health",
		Routes: map[schema.ServiceType]Route{
			schema.Rerank:    {Path: "/rerank", Speak: teiRerank{}},
			schema.Embedding: embeddingRoute,
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
		Complaints: [][]Complaint{ollamaComplaints},
	},
	{
		Name:      "anthropic",
		Aliases:   []string{"claude"},
		TypeName:  "AnthropicAdapter",
		Routes:    map[schema.ServiceType]Route{schema.Chat: {Path: "/v1/messages", Speak: anthropicChat{}}},
		KeyHeader: "x-api-key",
		Headers:   []wire.Header{{Name: "anthropic-version", Value: "2023-06-01"}},
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
