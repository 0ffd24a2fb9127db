package simulator

import (
	"net/http"
	"strings"
)

// service makes the answer to one request and sends it through the exchange.
type service func(*exchange)

// ServeHTTP makes a service an http.Handler. The exchange is passed as the writer,
// because the mux passes on only its two arguments.
func (s service) ServeHTTP(w http.ResponseWriter, _ *http.Request) { s(w.(*exchange)) }

// api is one of the APIs that a backend has: the prefix of its paths, its dialect, and
// the services by their patterns.
type api struct {
	prefix   string
	dialect  dialect
	services map[string]service
}

// apis lists everything that a backend serves. The last one has all paths that the others
// have not.
var apis = []api{
	{"/api/", ollama{}, map[string]service{
		"GET /api/version":   answerOllamaVersion,
		"GET /api/tags":      answerOllamaTags,
		"POST /api/chat":     answerOllamaChat,
		"POST /api/generate": answerOllamaGenerate,
		"POST /api/embed":    answerOllamaEmbed,
		"POST /api/show":     answerOllamaShow,
	}},
	{"/v1/messages", anthropic{}, map[string]service{
		"POST /v1/messages": answerMessages,
	}},
	{"/v1/responses", responses{}, map[string]service{
		"POST /v1/responses":        answerResponses,
		"GET /v1/responses/{id}":    answerResponse,
		"DELETE /v1/responses/{id}": answerResponse,
	}},
	{"/v1beta/", gemini{}, map[string]service{
		"GET /v1beta/models":            answerGeminiModels,
		"POST " + geminiPath + "{call}": answerGemini,
	}},
	{"/openai/", azure{}, map[string]service{
		"GET /openai/models":                                 answerModels,
		"GET /openai/v1/models":                              answerModels,
		"POST /openai/v1/{service...}":                       answerAzure,
		"POST /openai/deployments/{deployment}/{service...}": answerDeployment,
	}},
	{"", openAI{}, map[string]service{
		"GET /health": answerHealth,

		"GET /v1/models":                answerModels,
		"POST /v1/chat/completions":     answerChat,
		"POST /v1/completions":          answerCompletions,
		"POST /v1/moderations":          answerModerations,
		"POST /v1/embeddings":           answerEmbeddings,
		"POST /rerank":                  answerRerank,
		"POST /v1/rerank":               answerRerank,
		"POST /v2/rerank":               answerRerank,
		"POST /v1/audio/speech":         answerSpeech,
		"POST /v1/audio/transcriptions": answerTranscription,
		"POST /v1/audio/translations":   answerTranscription,
		"POST /inference":               answerTranscription, // as whisper.cpp has it
		"POST /v1/images/generations":   answerImages,
		"POST " + imageEditsPath:        answerImageEdit,
		"GET " + imagesPath + "{name}":  answerImage,

		"POST /tokenize":   answerTokenize,
		"POST /detokenize": answerDetokenize,
		"POST /v1/score":   answerScore,
		"POST /classify":   answerClassify,
		"POST /pooling":    answerPooling,
		"POST /infill":     answerInfill,

		"/": answerUnknownPath,
	}},
}

// dialectOf derives the dialect from the path: a request to an unknown path also gets an
// error in its dialect.
func dialectOf(path string) dialect {
	for _, a := range apis {
		if strings.HasPrefix(path, a.prefix) {
			return a.dialect
		}
	}
	return openAI{}
}

// routes returns the mux that leads requests to the services.
func (b *Backend) routes() *http.ServeMux {
	mux := http.NewServeMux()
	add := func(pattern string, answer service) {
		mux.Handle(pattern, answer)
	}
	for _, a := range apis {
		for pattern, answer := range a.services {
			add(pattern, answer)
		}
	}
	if b.engine != nil {
		b.addEngine(add)
	}
	return mux
}
