package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// TestHostilePathsAreAnswered asks every route with bytes in its path, its query
// and its headers that are no text: each is answered like any other request.
func TestHostilePathsAreAnswered(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	wildcard := regexp.MustCompile(`\{[^}]+\}`)
	var requests []string
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		for _, path := range []string{"/%ff", "/v1/%ff", "/v1/models/%ff", "/api/%ff", "/actuator/%ff", "/%00", "/v1/" + strings.Repeat("%c3%a9", 200), "/" + strings.Repeat("é", 119)} {
			requests = append(requests, method+" "+path)
		}
	}
	for _, route := range r.Routes {
		if strings.HasSuffix(route.Pattern, "/stream") || strings.HasSuffix(route.Pattern, "/live") {
			continue // it has no end
		}
		method, path, _ := strings.Cut(route.Pattern, " ")
		hostile := wildcard.ReplaceAllString(path, "%ff%ed%a0%80")
		requests = append(requests, method+" "+hostile+"?%ff=%ff&modelName=%ff&baseUrl=%ff&page=%ff&tag=%ff:%ff&window=%ff&model=%ff&service=%ff")
	}
	for _, request := range requests {
		for _, body := range []string{"", "{\"name\":\"\xff\"}"} {
			method, target, _ := strings.Cut(request, " ")
			answer := r.Do(method, target, body, "X-Tenant-Id", "\xff", "User-Agent", "\xff\xfe")
			isArchive := answer.Header.Get("Content-Type") == "application/zip"
			if answer.Status == 0 || answer.Status == http.StatusInternalServerError || !isArchive && !utf8.ValidString(answer.Body) {
				t.Errorf("%s with %q: %d %q", request, body, answer.Status, answer.Body)
			}
			if strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") && answer.Body != "" && !jsontext.Value(answer.Body).IsValid() {
				t.Errorf("%s with %q: %q is no JSON", request, body, answer.Body)
			}
		}
	}
}
