package simulator

import (
	"net/http"
	"strings"
)

// dialect is what the stages around a service must know about the family of
// APIs that it belongs to.
type dialect interface {
	// errorBody is the body of an answer that is an error.
	errorBody(status int, problem apiError) []byte
	// errorEvent is an error in the middle of a stream, framed.
	errorEvent(message string) []byte
	// key returns the credential that a request presents.
	key(r *http.Request) string
}

// dialectOf tells the dialect by the path, so that a request which reaches no
// service is still refused in its own words.
func dialectOf(path string) dialect {
	switch {
	case strings.HasPrefix(path, "/api/"):
		return ollama{}
	case strings.HasPrefix(path, "/v1/messages"):
		return anthropic{}
	case strings.HasPrefix(path, "/v1beta/"):
		return gemini{}
	}
	return openAI{}
}

func bearer(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}
