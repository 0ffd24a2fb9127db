// Package kinds is the table of the kinds of backends: the dialect of each for every
// service type, and its differences from others of that dialect.
package kinds

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/compaction"
	"github.com/patchbay-ai/patchbay/internal/dialect/engine"
	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini/genai"
	"github.com/patchbay-ai/patchbay/internal/dialect/ollama"
	"github.com/patchbay-ai/patchbay/internal/dialect/openai"
	"github.com/patchbay-ai/patchbay/internal/dialect/rerank"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The routes of backends that serve a service type as the unified API itself does.
var (
	chatRoute          = dialect.Route{Path: "/v1/chat/completions", Adapter: openai.Chat}
	embeddingRoute     = dialect.Route{Path: "/v1/embeddings", Adapter: openai.Embedding}
	rerankRoute        = dialect.Route{Path: "/v1/rerank", Adapter: rerank.Rerank}
	speechRoute        = dialect.Route{Path: "/v1/audio/speech", Adapter: openai.Speech}
	transcriptionRoute = dialect.Route{Path: "/v1/audio/transcriptions", Adapter: openai.Transcription}
	imageRoute         = dialect.Route{Path: "/v1/images/generations", Adapter: openai.Image}
	countRoute         = dialect.Route{Path: "/v1/messages/count_tokens", Adapter: messages.CountTokens}
	imageEditRoute     = dialect.Route{Path: "/v1/images/edits", Adapter: openai.Image}
)

// allRoutes are the routes of backends that serve every service type so, and engineRoutes those of
// engines that make neither sounds nor images.
var (
	allRoutes = map[schema.ServiceType]dialect.Route{
		schema.Chat: chatRoute, schema.Embedding: embeddingRoute, schema.Rerank: rerankRoute, schema.TTS: speechRoute,
		schema.STT: transcriptionRoute, schema.ImgGen: imageRoute, schema.ImgEdit: imageEditRoute,
	}
	engineRoutes = map[schema.ServiceType]dialect.Route{
		schema.Chat: chatRoute, schema.Embedding: embeddingRoute, schema.Rerank: rerankRoute,
		schema.STT: transcriptionRoute,
	}
)

// The routes of doors that pass on OpenAI's endpoints beside the unified API.
var (
	completionRoute  = dialect.Route{Path: "/v1/completions", Adapter: openai.Completion}
	moderationRoute  = dialect.Route{Path: "/v1/moderations", Adapter: openai.Moderation}
	realtimeRoute    = dialect.Route{Path: "/v1/realtime", Adapter: openai.Realtime}
	translationRoute = dialect.Route{Path: "/v1/audio/translations", Adapter: openai.Transcription}
	// OpenAI itself speaks the Responses API; for any other backend the instance must
	// say so.
	responsesRoute = dialect.Route{Path: "/v1/responses", Adapter: openai.Responses, Hosts: []string{"openai.com"}}
	// Only OpenAI itself has the rest of that API.
	inputTokensRoute = dialect.Route{Path: "/v1/responses/input_tokens", Adapter: compaction.CountTokens,
		Hosts: []string{"openai.com"}}
	compactRoute = dialect.Route{Path: "/v1/responses/compact", Adapter: compaction.Pass, Hosts: []string{"openai.com"}}
)

// geminiCount asks how many tokens a request of the Messages API has for Gemini, and
// geminiInputTokens one of the Responses API.
var (
	geminiCount       = dialect.Counts(accountids.None, gemini.CountTokens, "totalTokens", messages.CountBody)
	geminiInputTokens = dialect.Counts(accountids.None, gemini.CountTokens, "totalTokens", compaction.CountBody)
)

// table is the table of all kinds of backends.
var table = []*dialect.Kind{
	{
		Name:     "openai",
		Aliases:  []string{"normal"},
		TypeName: "OpenAIAdapter",
		Guide:    dialect.Guide{ModelsPath: "/v1/models"},
		Health:   "/v1/models",
		Tells:    engines.Unknown,
		Sizes:    engines.UnknownSizes,
		// Any server of this dialect may be behind it.
		ErrorPatterns: []dialect.ErrorPatterns{llamaErrors, whisperErrors, localAIErrors, ollamaErrors},
		Native: map[schema.Door]dialect.Route{
			schema.DoorResponses:    responsesRoute,
			schema.DoorInputTokens:  inputTokensRoute,
			schema.DoorCompact:      compactRoute,
			schema.DoorCompletions:  completionRoute,
			schema.DoorModerations:  moderationRoute,
			schema.DoorRealtime:     realtimeRoute,
			schema.DoorTranslations: translationRoute,
		},
		Routes: allRoutes,
	},
	{
		Name:        "azure",
		Aliases:     []string{"azure-openai"},
		TypeName:    "AzureOpenAIAdapter",
		KeyHeader:   "api-key",
		Health:      "/openai/models",
		Deployments: "/openai/deployments/{model}",
		APIVersion:  "2024-10-21",
		Native: map[schema.Door]dialect.Route{
			schema.DoorResponses:    responsesRoute,
			schema.DoorCompletions:  completionRoute,
			schema.DoorTranslations: translationRoute,
		},
		Routes: map[schema.ServiceType]dialect.Route{
			schema.Chat:      chatRoute,
			schema.Embedding: embeddingRoute,
			schema.TTS:       speechRoute,
			schema.STT:       transcriptionRoute,
			schema.ImgGen:    imageRoute,
			schema.ImgEdit:   imageEditRoute,
		},
	},
	{
		Name:          "vllm",
		TypeName:      "VLLMAdapter",
		Guide:         dialect.Guide{Title: "vLLM", Owner: "vllm"},
		Health:        "/health",
		Tells:         engines.VLLM,
		Sizes:         engines.ListedSizes,
		Lever:         engines.VLLMLever,
		Adapters:      engines.VLLMAdapters,
		Quirks:        dialect.Quirks{UnwrapDocuments: true, Continues: dialect.ContinuesFlagged},
		ErrorPatterns: []dialect.ErrorPatterns{vllmErrors},
		Native: map[schema.Door]dialect.Route{
			schema.DoorResponses:    responsesRoute,
			schema.DoorCompletions:  completionRoute,
			schema.DoorTranslations: translationRoute,
			schema.DoorCountTokens:  {Path: "/tokenize", Adapter: messages.Tokenize},
			schema.DoorInputTokens:  {Path: "/tokenize", Adapter: compaction.Tokenize},
			schema.DoorGeminiCount:  {Path: "/tokenize", Adapter: genai.Tokenize},
			schema.DoorTokenize:     {Path: "/tokenize", Adapter: engine.Pass},
			schema.DoorDetokenize:   {Path: "/detokenize", Adapter: engine.Pass},
			schema.DoorScore:        {Path: "/v1/score", Adapter: engine.Pass},
			schema.DoorClassify:     {Path: "/classify", Adapter: engine.Pass},
			schema.DoorPooling:      {Path: "/pooling", Adapter: engine.Pass},
			schema.DoorRealtime:     realtimeRoute,
		},
		Routes: engineRoutes,
	},
	{
		Name:     "sglang",
		TypeName: "SGLangAdapter",
		Guide:    dialect.Guide{Title: "SGLang", Owner: "sglang"},
		Health:   "/health",
		Tells:    engines.Unknown,
		Sizes:    engines.ListedSizes,
		Quirks:   dialect.Quirks{Continues: dialect.ContinuesFlagged},
		Native:   map[schema.Door]dialect.Route{schema.DoorCompletions: completionRoute},
		Routes: map[schema.ServiceType]dialect.Route{
			schema.Chat:      chatRoute,
			schema.Embedding: embeddingRoute,
		},
	},
	{
		Name:     "gpustack",
		TypeName: "GPUStackAdapter",
		Health:   "/v1/models",
		Sizes:    engines.ListedSizes,
		Quirks:   dialect.Quirks{UnwrapDocuments: true},
		// It passes on the words of other servers, which are its backends.
		ErrorPatterns: []dialect.ErrorPatterns{llamaErrors},
		Native: map[schema.Door]dialect.Route{
			schema.DoorResponses:   responsesRoute,
			schema.DoorCompletions: completionRoute,
		},
		Routes: allRoutes,
	},
	{
		Name:     "xinference",
		TypeName: "XinferenceAdapter",
		Guide:    dialect.Guide{Title: "Xinference", Owner: "xinference"},
		Health:   "/v1/models",
		Sizes:    engines.ListedSizes,
		Native: map[schema.Door]dialect.Route{
			schema.DoorResponses:    responsesRoute,
			schema.DoorCompletions:  completionRoute,
			schema.DoorTranslations: translationRoute,
		},
		Routes: allRoutes,
	},
	{
		Name:     "localai",
		TypeName: "LocalAIAdapter",
		Health:   "/readyz",
		Native: map[schema.Door]dialect.Route{
			schema.DoorResponses:   responsesRoute,
			schema.DoorCompletions: completionRoute,
		},
		Routes: map[schema.ServiceType]dialect.Route{
			schema.Chat:      chatRoute,
			schema.Embedding: embeddingRoute,
			schema.Rerank:    rerankRoute,
			schema.TTS:       speechRoute,
			schema.STT:       transcriptionRoute,
			schema.ImgGen:    imageRoute,
		},
		Quirks:        dialect.Quirks{TextDocuments: true},
		ErrorPatterns: []dialect.ErrorPatterns{localAIErrors, llamaErrors, whisperErrors},
	},
	{
		Name:     "llamacpp",
		Aliases:  []string{"llama.cpp", "llama-server"},
		TypeName: "LlamaCppAdapter",
		Guide:    dialect.Guide{Title: "llama.cpp", Owner: "llamacpp", AllListedAsChat: true, ListsFiles: true},
		Health:   "/health",
		Tells:    engines.LlamaCpp,
		Sizes:    engines.LlamaCppSizes,
		Lever:    engines.LlamaCppLever,
		// Its HTTP server has a worker for each connection, kept ones included, and
		// by default no more than eight or so.
		NoKeepAlive: true,
		Native: map[schema.Door]dialect.Route{
			schema.DoorResponses:   responsesRoute,
			schema.DoorCompletions: completionRoute,
			schema.DoorCountTokens: countRoute,
			schema.DoorTokenize:    {Path: "/tokenize", Adapter: engine.LlamaTokenize},
			schema.DoorDetokenize:  {Path: "/detokenize", Adapter: engine.LlamaDetokenize},
			schema.DoorInfill:      {Path: "/infill", Adapter: engine.Infill},
		},
		Routes:        engineRoutes,
		Quirks:        dialect.Quirks{TextDocuments: true, Continues: dialect.ContinuesLast},
		ErrorPatterns: []dialect.ErrorPatterns{llamaErrors},
	},
	{
		Name:     "llamaswap",
		TypeName: "LlamaSwapAdapter",
		Guide:    dialect.Guide{Title: "llama-swap", Owner: "llama-swap", AllListedAsChat: true},
		Health:   "/health",
		Tells:    engines.LlamaSwap,
		Sizes:    engines.ListedSizes,
		Lever:    engines.LlamaSwapLever,
		Native: map[schema.Door]dialect.Route{
			schema.DoorResponses:    responsesRoute,
			schema.DoorCompletions:  completionRoute,
			schema.DoorTranslations: translationRoute,
		},
		Routes: allRoutes,
		Quirks: dialect.Quirks{TextDocuments: true},
		// It passes on the words of other projects' servers.
		ErrorPatterns: []dialect.ErrorPatterns{llamaErrors, whisperErrors},
	},
	{
		Name:        "whispercpp",
		Aliases:     []string{"whisper.cpp", "whisper-server"},
		TypeName:    "WhisperCppAdapter",
		Health:      "/health",
		NoKeepAlive: true, // it has the HTTP server of llama.cpp
		Native: map[schema.Door]dialect.Route{
			schema.DoorTranslations: {Path: "/inference", Adapter: openai.WhisperTranslation},
		},
		Routes: map[schema.ServiceType]dialect.Route{schema.STT: {Path: "/inference",
			Adapter: openai.Transcription}},
		ErrorPatterns: []dialect.ErrorPatterns{whisperErrors},
	},
	{
		Name:     "cohere",
		TypeName: "CohereAdapter",
		Routes:   map[schema.ServiceType]dialect.Route{schema.Rerank: {Path: "/v2/rerank", Adapter: rerank.Rerank}},
		Quirks:   dialect.Quirks{TextDocuments: true},
	},
	{
		Name:     "jina",
		TypeName: "JinaAdapter",
		Routes: map[schema.ServiceType]dialect.Route{
			schema.Rerank:    rerankRoute,
			schema.Embedding: embeddingRoute,
		},
	},
	{
		Name:     "tei",
		TypeName: "TEIAdapter",
		Health:   "/health",
		Tells:    engines.Unknown,
		Sizes:    engines.TEISizes,
		Routes: map[schema.ServiceType]dialect.Route{
			schema.Rerank:    {Path: "/rerank", Adapter: rerank.TEI},
			schema.Embedding: embeddingRoute,
		},
	},
	{
		Name:     "ollama",
		TypeName: "OllamaAdapter",
		Guide: dialect.Guide{
			Title: "Ollama", ModelsPath: "/api/tags", LatestTag: ":latest",
			Pull: "ollama pull ", Start: "start Ollama (ollama serve)",
		},
		OpenAIBeside: true,
		Health:       "/api/version",
		Tells:        engines.Ollama,
		Sizes:        engines.OllamaSizes,
		Lever:        engines.OllamaLever,
		Native: map[schema.Door]dialect.Route{
			schema.DoorCompletions:      {Path: "/api/generate", Adapter: ollama.Generate},
			schema.DoorOllamaChat:       {Path: "/api/chat", Adapter: ollama.Pass},
			schema.DoorOllamaGenerate:   {Path: "/api/generate", Adapter: ollama.Pass},
			schema.DoorOllamaEmbed:      {Path: "/api/embed", Adapter: ollama.PassEmbedding},
			schema.DoorOllamaEmbeddings: {Path: "/api/embeddings", Adapter: ollama.PassEmbedding},
		},
		Routes: map[schema.ServiceType]dialect.Route{
			schema.Chat:      {Path: "/api/chat", Adapter: ollama.Chat},
			schema.Embedding: {Path: "/api/embed", Adapter: ollama.Embedding},
		},
		ErrorPatterns: []dialect.ErrorPatterns{ollamaErrors},
	},
	{
		Name:        "anthropic",
		Aliases:     []string{"claude"},
		TypeName:    "AnthropicAdapter",
		Sizes:       engines.ListedSizes,
		Breakpoints: anthropic.Breakpoints,
		Guide: dialect.Guide{
			Title: "Anthropic", ModelsPath: "/v1/models", ModelsHosts: []string{"api.anthropic.com"},
			Undated: []string{"", "-latest", "-0"}, // claude-opus-4-0 is claude-opus-4-20250514
		},
		Routes: map[schema.ServiceType]dialect.Route{schema.Chat: {Path: "/v1/messages", Adapter: anthropic.Chat}},
		Native: map[schema.Door]dialect.Route{
			schema.DoorMessages:    {Path: "/v1/messages", Adapter: messages.Pass},
			schema.DoorCountTokens: countRoute,
		},
		KeyHeader: "x-api-key",
		Tokens:    []string{"sk-ant-oat"}, // of a subscription
		Headers:   []wire.Header{{Name: "anthropic-version", Value: "2023-06-01"}},
	},
	{
		Name:     "gemini",
		Aliases:  []string{"google"},
		TypeName: "GeminiAdapter",
		Sizes:    engines.GeminiSizes,
		Guide: dialect.Guide{
			Title: "Gemini", Provider: "gcp.gemini",
			ModelsPath: "/v1beta/models", ModelsHosts: []string{"generativelanguage.googleapis.com"},
		},
		KeyHeader: "x-goog-api-key",
		Tokens:    []string{"ya29."},
		Native: map[schema.Door]dialect.Route{
			schema.DoorCountTokens: {Path: "/v1beta/models/{model}:countTokens", Adapter: geminiCount},
			schema.DoorInputTokens: {Path: "/v1beta/models/{model}:countTokens", Adapter: geminiInputTokens},
			schema.DoorGemini:      {Path: "/v1beta/models/{model}:generateContent", Adapter: genai.Pass},
			schema.DoorGeminiCount: {Path: "/v1beta/models/{model}:countTokens", Adapter: genai.PassCount},
			schema.DoorGeminiEmbed: {Path: "/v1beta/models/{model}:embedContent", Adapter: genai.PassEmbedding},
			schema.DoorGeminiBatchEmbed: {Path: "/v1beta/models/{model}:batchEmbedContents",
				Adapter: genai.PassEmbedding},
		},
		Routes: map[schema.ServiceType]dialect.Route{
			schema.Chat:      {Path: "/v1beta/models/{model}:generateContent", Adapter: gemini.Chat},
			schema.Embedding: {Path: "/v1beta/models/{model}:batchEmbedContents", Adapter: gemini.Embedding},
		},
	},
}
