package simulator

import (
	"net/http"
	"strings"
)

// dialect is what the code around a service must know about the API that the
// service belongs to.
type dialect interface {
	// errorBody returns the body of an error.
	errorBody(status int, problem apiError) []byte
	// errorEvent returns an error for the middle of a stream, with its framing.
	errorEvent(message string) []byte
	// key returns the credential that a request presents.
	key(r *http.Request) string
}

// dialectOf derives the dialect from the path, so that a request to an unknown path
// also gets an error in its dialect.
func dialectOf(path string) dialect {
	switch {
	case strings.HasPrefix(path, "/api/"):
		return ollama{}
	case strings.HasPrefix(path, "/v1/messages"):
		return anthropic{}
	case strings.HasPrefix(path, "/v1/responses"):
		return responses{}
	case strings.HasPrefix(path, "/v1beta/"):
		return gemini{}
	case strings.HasPrefix(path, "/openai/"):
		return azure{}
	}
	return openAI{}
}

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}
