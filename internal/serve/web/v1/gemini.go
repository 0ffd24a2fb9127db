package v1

import (
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/gemini/genai"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/serve/web/catalog"
)

// geminiRoot is the path of the models in Google's Gemini API, and geminiAlias the path for
// clients that speak the stable version.
const (
	geminiRoot  = "/v1beta/models/{model...}"
	geminiAlias = "/v1/models/{model...}"
)

// isGemini reports whether a request belongs to Google's Gemini API.
func isGemini(r *http.Request) bool {
	switch {
	case isAtOrBelow(r.URL.Path, "/v1beta"):
		return true
	case isAtOrBelow(r.URL.Path, "/v1/models"):
		return catalog.SpeaksGemini(r) || r.Method == http.MethodPost && strings.Contains(r.URL.Path, ":")
	}
	return isAtOrBelow(r.URL.Path, "/models") && catalog.SpeaksGemini(r)
}

// takeQueryKey moves the key of a request from its query to a header. Code that looks at
// the query then does not find it there.
func takeQueryKey(r *http.Request) {
	if !strings.Contains(r.URL.RawQuery, "key=") {
		return
	}
	query := r.URL.Query()
	if key := query.Get("key"); key != "" && r.Header.Get("X-Goog-Api-Key") == "" {
		r.Header.Set("X-Goog-Api-Key", strings.Clone(key))
	}
	query.Del("key")
	r.URL.RawQuery, r.RequestURI = query.Encode(), ""
}

// withQueryKey returns a handler of requests that may have the key in their query.
func withQueryKey(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		takeQueryKey(r)
		next(w, r)
	}
}

// estimateGemini returns the reply to a request for the number of tokens that no backend
// has answered.
func estimateGemini(x *exchange) []byte {
	return genai.CountBody(estimate.Most(&x.request, nil, 0).Prompt, true)
}
