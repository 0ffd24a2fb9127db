package described

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/engine"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini/genai"
	"github.com/patchbay-ai/patchbay/internal/dialect/ollama"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/catalog"
)

// Operation returns the documentation of a route, by its pattern without aliases.
func Operation(pattern string) web.Route { return operations[pattern] }

// mediaForm is the type of a form with files, and mediaEvents describes a reply that
// may be a stream.
const mediaForm = "multipart/form-data"

var (
	mediaEvents = map[string]any{"text/event-stream": ""}
	mediaLines  = map[string]any{"application/x-ndjson": ""}
	// askErrors are the statuses of errors of a backend that is asked for a response which it
	// keeps.
	askErrors = []int{http.StatusBadRequest, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusGatewayTimeout}
)

// operations is the documentation of the unified API, by pattern.
var operations = map[string]web.Route{
	"POST /v1/chat/completions": {
		Summary: "Chat; with stream true the reply is a stream of events", Body: schema.ChatFields.Request,
		Reply: chatCompletion{},
		Media: mediaEvents,
	},
	"POST /v1/embeddings": {Summary: "Embeddings", Body: schema.EmbeddingFields.Request, Reply: embeddingList{}},
	"POST /v1/rerank": {Summary: "Rank documents by how well they answer a query", Body: schema.RerankFields.Request,
		Reply: ranking{}},
	"POST /v1/audio/speech": {
		Summary: "Speech from text", Body: schema.SpeechFields.Request,
		Media: map[string]any{"audio/*": "", "text/event-stream": ""},
	},
	"POST /v1/audio/transcriptions": {
		Summary: "Text from speech", BodyType: mediaForm, Body: schema.TranscriptionFields.Request,
		Reply: transcription{},
		Media: map[string]any{"text/plain": "", "text/event-stream": ""},
	},
	"POST /v1/completions": {
		Summary: "Completions of texts; with stream true the reply is a stream of events",
		Body:    schema.CompletionFields.Request,
		Reply:   textCompletion{}, Media: mediaEvents,
	},
	"POST /v1/moderations": {Summary: "Whether texts or images are harmful", Body: schema.ModerationFields.Request,
		Reply: moderation{}},
	"POST /v1/audio/translations": {
		Summary: "English text from speech in any language", BodyType: mediaForm,
		Body:  schema.TranslationFields.Request,
		Reply: transcription{},
		Media: map[string]any{"text/plain": "", "text/event-stream": ""},
	},
	"POST /v1/images/generations": {Summary: "Images from text", Body: schema.ImageFields.Request, Reply: imageList{},
		Media: mediaEvents},
	"POST /v1/images/edits": {
		Summary: "Images from images", BodyType: mediaForm, Body: schema.ImageEditFields.Request, Reply: imageList{},
		Media: mediaEvents,
	},
	"POST /v1/responses": {
		Summary: "Chat in the form of the Responses API; with stream true the reply is a stream of events",
		Body:    responses.Fields.Request, Reply: response{}, Media: mediaEvents,
	},
	"POST /v1/responses/input_tokens": {
		Summary: "How many tokens a request to /v1/responses has; an estimate where the backend cannot tell. Only " +
			"limits of requests count it",
		Body: responses.InputTokenFields.Request, Reply: inputTokens{},
	},
	"POST /v1/responses/compact": {
		Summary: "Make a conversation short: an item that stands for it in the next request. Where the backend " +
			"cannot, its model is asked for a summary",
		Body: responses.CompactFields.Request, Reply: compacted{},
	},
	"POST /v1/messages": {
		Summary: "Chat in the shape of Anthropic's Messages API; with stream true the reply is a stream of events",
		Body:    messages.Fields.Request, Reply: messageReply{}, Media: mediaEvents, Error: messages.ErrorBody{},
	},
	"POST /v1/messages/count_tokens": {
		Summary: "How many tokens a request to /v1/messages has; an estimate where the backend cannot tell. Only " +
			"limits of requests count it",
		Body: messages.CountFields.Request, Reply: tokenCount{}, Error: messages.ErrorBody{},
	},
	"POST /ollama/api/chat": {
		Summary: "Chat in the shape of Ollama's API; unless stream is false the reply is a stream of JSON objects, " +
			"one in each line",
		Body: ollama.ChatFields.Request, Reply: ollamaChatReply{}, Media: mediaLines, Error: ollama.ErrorBody{},
	},
	"POST /ollama/api/generate": {
		Summary: "The answer to a prompt in the shape of Ollama's API; unless stream is false the reply is a stream " +
			"of JSON objects, one in each line",
		Body: ollama.GenerateFields.Request, Reply: ollamaGenerateReply{}, Media: mediaLines, Error: ollama.ErrorBody{},
	},
	"POST /ollama/api/embed": {
		Summary: "Embeddings in the shape of Ollama's API", Body: ollama.EmbedFields.Request, Reply: ollamaEmbedReply{},
		Error: ollama.ErrorBody{},
	},
	"POST /ollama/api/embeddings": {
		Summary: "One embedding in the older shape of Ollama's API", Body: ollama.EmbeddingsFields.Request,
		Reply: ollamaEmbeddingsReply{}, Error: ollama.ErrorBody{},
	},
	"POST /v1beta/models/{model...}:generateContent": {Summary: "Chat in the shape of Google's Gemini API",
		Body: genai.Fields.Request, Reply: geminiReply{}, Error: genai.ErrorBody{}},
	"POST /v1beta/models/{model...}:streamGenerateContent": {
		Summary: "Chat in the shape of Google's Gemini API; the reply is a JSON array, or with alt=sse a stream of " +
			"events",
		Query: geminiStreamQuery{}, Body: genai.Fields.Request, Reply: []geminiReply{}, Media: mediaEvents,
		Error: genai.ErrorBody{},
	},
	"POST /v1beta/models/{model...}:countTokens": {
		Summary: "How many tokens a request to generateContent has; an estimate where the backend cannot tell. Only " +
			"limits of requests count it",
		Body: genai.CountFields.Request, Reply: geminiCount{}, Error: genai.ErrorBody{},
	},
	"POST /v1beta/models/{model...}:embedContent": {Summary: "One embedding in the shape of Google's Gemini API",
		Body: genai.EmbedFields.Request, Reply: geminiEmbedding{}, Error: genai.ErrorBody{}},
	"POST /v1beta/models/{model...}:batchEmbedContents": {Summary: "Embeddings in the shape of Google's Gemini API",
		Body: genai.BatchFields.Request, Reply: geminiEmbeddings{}, Error: genai.ErrorBody{}},

	"POST /tokenize": {
		Summary: "The tokens of a text or of messages, by backends that are vLLM, and of a text by llama.cpp. Only " +
			"limits of requests count it",
		Body: engine.TokenizeFields.Request, Reply: tokenized{},
	},
	"POST /detokenize": {
		Summary: "The text of tokens, by backends that are vLLM or llama.cpp. Only limits of requests count it",
		Body:    engine.DetokenizeFields.Request, Reply: detokenized{},
	},
	"POST /v1/score": {Summary: "How well texts go together, by backends that are vLLM",
		Body:  engine.ScoreFields.Request,
		Reply: engineList{}},
	"POST /classify": {Summary: "The classes of texts, by backends that are vLLM", Body: engine.InputFields.Request,
		Reply: engineList{}},
	"POST /pooling": {Summary: "What a model makes of texts, unpooled or pooled, by backends that are vLLM",
		Body: engine.InputFields.Request, Reply: engineList{}},
	"POST /infill": {
		Summary: "What stands between two texts, by backends that are llama.cpp; with stream true the reply is a " +
			"stream of events",
		Body: engine.InfillFields.Request, Reply: infilled{}, Media: mediaEvents,
	},
	"GET /v1/models": {
		Summary: "Every model of every service type, once; in the shape of Anthropic's API for a caller that sends " +
			"anthropic-version, and of Gemini's for one that sends x-goog-api-key",
		Query: catalog.Query{}, Reply: catalog.AnyList{}, Error: anyError{},
	},
	"GET /v1/models/{id...}": {Summary: "One model", Reply: catalog.AnyModel{}, Error: anyError{}},
	"GET /v1beta/models": {
		Summary: "The models in the shape of Google's Gemini API", Query: catalog.GeminiQuery{},
		Reply: catalog.GeminiModels{}, Error: genai.ErrorBody{},
	},
	"GET /v1beta/models/{id...}": {
		Summary: "One model in the shape of Google's Gemini API", Query: catalog.GeminiKey{},
		Reply: catalog.GeminiModelEntry{}, Error: genai.ErrorBody{},
	},
	"GET /ollama/api/tags": {Summary: "The models in the shape of Ollama's API", Reply: catalog.OllamaTags{},
		Error: ollama.ErrorBody{}},
	"GET /ollama/api/ps": {
		Summary: "The models that answer without being loaded first, in the shape of Ollama's API",
		Reply:   catalog.OllamaProcesses{}, Error: ollama.ErrorBody{},
	},
	"GET /ollama/api/version": {Summary: "The version of Ollama's API that is spoken",
		Reply: catalog.OllamaVersionReply{}, Error: ollama.ErrorBody{}},
	"POST /ollama/api/show": {
		Summary: "One model in the shape of Ollama's API", Body: catalog.OllamaShowRequest{},
		Reply: catalog.OllamaShow{}, Error: ollama.ErrorBody{},
	},
	"GET /v1/responses/{id}": {Summary: "A response that is kept", Reply: response{}, Errors: askErrors},
	"DELETE /v1/responses/{id}": {Summary: "Delete a response that is kept", Reply: DeletedResponse{},
		Errors: askErrors},
	"GET /v1/responses/{id}/input_items": {Summary: "The items that were sent for a response that is kept",
		Reply: itemList{}, Query: itemQuery{}, Errors: askErrors},
}
