package simulator

import "net/http"

// service makes the answer to one request and sends it through the exchange.
type service func(*exchange)

// routes lists everything a backend serves, one line each.
func (b *Backend) routes() *http.ServeMux {
	mux := http.NewServeMux()
	add := func(pattern string, answer service) {
		mux.Handle(pattern, answer)
	}
	add("GET /health", answerHealth)

	add("GET /v1/models", answerModels)
	add("POST /v1/chat/completions", answerChat)
	add("POST /v1/completions", answerCompletions)
	add("POST /v1/moderations", answerModerations)
	add("POST /v1/embeddings", answerEmbeddings)
	add("POST /rerank", answerRerank)
	add("POST /v1/rerank", answerRerank)
	add("POST /v2/rerank", answerRerank)
	add("POST /v1/audio/speech", answerSpeech)
	add("POST /v1/audio/transcriptions", answerTranscription)
	add("POST /v1/audio/translations", answerTranscription)
	add("POST /inference", answerTranscription) // as whisper.cpp has it
	add("POST /v1/images/generations", answerImages)
	add("POST "+imageEditsPath, answerImageEdit)
	add("GET "+imagesPath+"{name}", answerImage)

	add("POST /tokenize", answerTokenize)
	add("POST /detokenize", answerDetokenize)
	add("POST /v1/score", answerScore)
	add("POST /classify", answerClassify)
	add("POST /pooling", answerPooling)
	add("POST /infill", answerInfill)

	add("GET /api/version", answerOllamaVersion)
	add("GET /api/tags", answerOllamaTags)
	add("POST /api/chat", answerOllamaChat)
	add("POST /api/generate", answerOllamaGenerate)
	add("POST /api/embed", answerOllamaEmbed)

	add("POST /v1/messages", answerMessages)

	add("POST /v1/responses", answerResponses)
	add("GET /v1/responses/{id}", answerResponse)
	add("DELETE /v1/responses/{id}", answerResponse)

	add("GET /v1beta/models", answerGeminiModels)
	add("POST "+geminiPath+"{call}", answerGemini)

	add("GET /openai/models", answerModels)
	add("GET /openai/v1/models", answerModels)
	for path, answer := range map[string]service{
		"/chat/completions":     answerChat,
		"/completions":          answerCompletions,
		"/embeddings":           answerEmbeddings,
		"/audio/speech":         answerSpeech,
		"/audio/transcriptions": answerTranscription,
		"/audio/translations":   answerTranscription,
		"/images/generations":   answerImages,
		"/images/edits":         answerImageEdit,
	} {
		add("POST /openai/v1"+path, answer)
		add("POST /openai/deployments/{deployment}"+path, answerDeployment(answer))
	}

	if b.engine != nil {
		b.addEngine(add)
	}
	add("/", answerUnknownPath)
	return mux
}

// ServeHTTP makes a service an http.Handler. The exchange is passed as the writer,
// because the mux passes on only its two arguments.
func (s service) ServeHTTP(w http.ResponseWriter, _ *http.Request) { s(w.(*exchange)) }
