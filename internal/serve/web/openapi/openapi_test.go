package openapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Every operation is asked well and badly, with and without a token. That each
// reply is as the document says is checked by the client of the gateway under
// test, here as in the conversations of all other tests.
func TestRepliesAreAsDescribed(t *testing.T) {
	for name, header := range map[string][]string{"open": nil, "with a token": {"Authorization", "Bearer admin-token"}, "without a token": {"X-Nothing", "x"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yaml := ""
			if header != nil {
				yaml = gatewaytest.SecuredYAML()
			}
			r := gatewaytest.Start(t, yaml)
			for path, item := range r.Described().Paths {
				for method := range item {
					if path != "/api/monitoring/stream" && path != "/api/monitoring/live" { // these have no end
						ask(r, strings.ToUpper(method), path, header)
					}
				}
			}
		})
	}
}

func ask(r *gatewaytest.Gateway, method, path string, header []string) {
	r.T.Helper()
	known := strings.NewReplacer("{serviceType}", "chat", "{version}", "1", "{name}", "ROOT", "{component}", "ping")
	unknown := strings.NewReplacer("{serviceType}", "video", "{version}", "999", "{name}", "nobody", "{component}", "nobody")
	bodies := []string{""}
	if method == http.MethodPost || method == http.MethodPut {
		bodies = []string{"", "{}", "[", `{"loadBalancer":"random"}`, `{"name":"n","baseUrl":"http://127.0.0.1:9"}`,
			`{"enabled":true}`, `{"level":"NORMAL"}`, `{"configuredLevel":"INFO"}`}
		r.Do(method, known.Replace(path), strings.Repeat(" ", 2<<20), header...)
	}
	for _, fill := range []*strings.Replacer{known, unknown} {
		target := gatewaytest.PathParameter.ReplaceAllString(fill.Replace(path), "nobody")
		for _, query := range []string{"", "?page=1&size=5&dryRun=true", "?page=x&dryRun=x&window=x&limit=x&tag=x&details=x"} {
			for _, body := range bodies {
				r.Do(method, target+query, body, header...)
			}
		}
	}
}
